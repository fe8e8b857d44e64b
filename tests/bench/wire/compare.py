#!/usr/bin/python3
"""Locksley and the peers that Debian carries, over loopback, in turns: jobs per second, latency one at a time, PING.
README.md says what each does. Prints a report in Markdown; figures of one run may be compared with each other, and with
nothing else. With --readme it also writes the table of the README.md at the root."""

import argparse
import contextlib
import csv
import dataclasses
import datetime
import fnmatch
import io
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import packages
import report
import servers

CLIENT_S = 60  # no measurement takes a tenth of it, unless something hangs
WARM_UP = 10  # the part of the jobs that is run before, unmeasured
QUIET = 0.05  # others use at most this part of the CPU time, or the measurement is repeated
TRIES = 3  # of one measurement at most
PEER_PROGRAMS = ["redis_peer", "gearman_peer", "beanstalk_peer", "bare_echo"]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Who does what, in one of the measures."""

    name: str
    measure: str
    what: str
    amount: int  # of jobs, or of requests
    client: str  # a program of the build, or of the system
    arguments: str  # of the client; {port} and {amount} are filled in
    server: Callable | None = None  # starts it; none: the client brings its own
    server_program: str = ""  # where it is not ours

    def words(self, paths, port, amount):
        return [paths.get(self.client, self.client), *self.arguments.format(port=port, amount=amount).split()]


LOCKSLEY = "--server 127.0.0.1:{port} --json bench --payload 32 --jobs {amount} "
THROUGHPUT = "throughput --port {port} --jobs {amount} "
LATENCY = "latency --port {port} --jobs {amount}"
ECHO = "latency --jobs {amount} --workers "
PING = "-h 127.0.0.1 -p {port} -n {amount} -t ping_mbulk --csv -c 50 -P "


def of_locksley(name, measure, what, amount, arguments, client="locksley"):
    return Candidate(name, measure, what, amount, client, arguments, servers.locksley)


def of_remote(name, measure, what, amount, arguments, server):
    return Candidate(name, measure, what, amount, "locksley", arguments, server)


def of_redis(name, measure, what, amount, arguments, client="redis_peer"):
    return Candidate(name, measure, what, amount, client, arguments, servers.redis, "redis-server")


def of_gearman(name, measure, what, amount, arguments):
    return Candidate(name, measure, what, amount, "gearman_peer", arguments, servers.gearman, "gearmand")


def of_beanstalk(name, measure, what, amount, arguments):
    return Candidate(name, measure, what, amount, "beanstalk_peer", arguments, servers.beanstalk, "beanstalkd")


def of_echo(name, measure, what, amount, arguments):
    return Candidate(name, measure, what, amount, "bare_echo", arguments)


# The amounts take about a second each. In each measure the first is what the others are compared with.
CANDIDATES = [
    of_locksley("locksley", "jobs", "Locksley, batches of 10,000, 2 connections", 10_000_000,
                LOCKSLEY + "--batch 10000 --connections 2"),
    of_remote("locksley-remote", "jobs", "Locksley, jobs run in another `locksleyd` (`upstream:`)", 4_000_000,
              LOCKSLEY + "--batch 10000 --connections 2", servers.locksley_remote),
    of_remote("locksley-python", "jobs", "Locksley, one remote worker in Python, redis-py", 500_000,
              LOCKSLEY + "--batch 10000 --connections 2", servers.locksley_python),
    of_remote("locksley-package", "jobs", "Locksley, one remote worker of the Python package", 500_000,
              LOCKSLEY + "--batch 10000 --connections 2", servers.locksley_package),
    of_redis("redis-1000", "jobs", "Redis lists, 1,000 jobs a command, 1 worker", 2_000_000,
             THROUGHPUT + "--count 1000 --window 8000"),
    of_redis("redis-1", "jobs", "Redis lists, a command a job, pipelined, 4 workers", 150_000,
             THROUGHPUT + "--window 1000 --depth 128 --workers 4"),
    of_gearman("gearmand", "jobs", "gearmand, foreground jobs, pipelined, 1 worker", 500_000,
               THROUGHPUT + "--window 1000 --depth 128"),
    of_beanstalk("beanstalkd", "jobs", "beanstalkd, results by a second tube, pipelined, 1 worker", 20_000,
                 THROUGHPUT + "--window 1000 --depth 64"),

    of_locksley("locksley-latency", "latency", "Locksley, `RUN`", 10_000, LOCKSLEY + "--latency --connections 1"),
    of_remote("locksley-remote-latency", "latency", "Locksley, `RUN`, run in another `locksleyd`", 10_000,
              LOCKSLEY + "--latency --connections 1", servers.locksley_remote),
    of_redis("redis-latency", "latency", "Redis lists, blocking pops", 10_000, LATENCY),
    of_gearman("gearmand-latency", "latency", "gearmand, foreground job", 10_000, LATENCY),
    of_beanstalk("beanstalkd-latency", "latency", "beanstalkd, result by a second tube", 10_000, LATENCY),
    of_echo("echo-latency", "latency", "bare echo, one thread", 10_000, ECHO + "1"),
    of_echo("handover-latency", "latency", "bare echo, handed over to a second thread", 10_000, ECHO + "2"),

    of_locksley("locksley-ping-64", "ping -P 64", "locksleyd", 4_000_000, PING + "64", "redis-benchmark"),
    of_redis("redis-ping-64", "ping -P 64", "redis-server", 4_000_000, PING + "64", "redis-benchmark"),
    of_locksley("locksley-ping-1", "ping -P 1", "locksleyd", 100_000, PING + "1", "redis-benchmark"),
    of_redis("redis-ping-1", "ping -P 1", "redis-server", 100_000, PING + "1", "redis-benchmark"),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog="Names: " + ", ".join(c.name for c in CANDIDATES))
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: %(default)s)")
    parser.add_argument("--only", default="*", help="names, or patterns such as '*-latency', with commas between")
    parser.add_argument("--install", action="store_true", help="install missing peers from the distribution, as root")
    parser.add_argument("--json", metavar="FILE", help="write the raw figures too")
    parser.add_argument("--readme", action="store_true", help="write the table of README.md; all jobs and latencies must be measured")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    return arguments


def chosen(patterns):
    for pattern in patterns:
        if not any(fnmatch.fnmatch(candidate.name, pattern) for candidate in CANDIDATES):
            raise SystemExit(f"--only: nothing is named '{pattern}'; --help has the names")
    return [c for c in CANDIDATES if any(fnmatch.fnmatch(c.name, pattern) for pattern in patterns)]


def needed_programs(candidate):
    """Those that Debian brings."""
    return [program for program in (candidate.server_program, candidate.client) if program in packages.PACKAGES]


def figures(candidate, printed):
    """What a client printed, as a dict."""
    if candidate.client != "redis-benchmark":
        return json.loads(printed)
    row = next(csv.DictReader(io.StringIO(printed)))
    return {"requests_per_second": float(row["rps"]), "p50_ms": float(row["p50_latency_ms"])}


def run_client(candidate, paths, port, amount):
    words = list(map(str, candidate.words(paths, port, amount)))
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=CLIENT_S)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{' '.join(words)} was not done after {CLIENT_S} s") from None
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return figures(candidate, done.stdout)


def measure(candidate, paths):
    """One fresh server, a warm-up, one measurement."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(contextlib.closing(candidate.server())) if candidate.server else None
        port = server.port if server else 0
        run_client(candidate, paths, port, candidate.amount // WARM_UP)
        server_cpu = lambda: servers.cpu_seconds(server.pid) if server else 0
        # A worker that the server's class has started counts as those that the peers' clients start.
        worker_cpu = lambda: servers.cpu_seconds(server.worker.pid) if getattr(server, "worker", None) else 0
        before, worker_before, machine = server_cpu(), worker_cpu(), report.Machine()
        result = run_client(candidate, paths, port, candidate.amount)
        used, by_worker = server_cpu() - before, worker_cpu() - worker_before
        if "client_cpu_seconds" in result:  # not of latencies
            result["client_cpu_seconds"] += by_worker
        return result | {"server_cpu_seconds": used, "others": machine.others(used + by_worker)}


def measure_undisturbed(candidate, paths):
    """The first measurement that others left alone; after TRIES the one that they disturbed least."""
    tried = []
    for _ in range(TRIES):
        tried.append(measure(candidate, paths))
        if tried[-1]["others"] <= QUIET:
            break
    return min(tried, key=lambda result: result["others"])


def measure_in_turns(candidates, paths, rounds):
    """For each candidate's name its figures, one dict a round."""
    raw = {candidate.name: [] for candidate in candidates}
    for turn in range(rounds):
        for candidate in candidates:
            print(f"round {turn + 1} of {rounds}: {candidate.name}", file=sys.stderr)
            raw[candidate.name].append(measure_undisturbed(candidate, paths))
    return raw


def column(raw, candidate, key):
    return [row[key] for row in raw[candidate.name]]


def compared(raw, candidate, key):
    """Two cells: the figure, and its ratio to Locksley's, round by round and then the median."""
    first = next(other for other in CANDIDATES if other.measure == candidate.measure)
    own = column(raw, candidate, key)
    if first.name not in raw:
        return [report.spread(own), "-"]
    ratio = statistics.median(figure / base for figure, base in zip(own, column(raw, first, key)))
    return [report.spread(own), f"{ratio:.3g}"]


def cpu_column(raw, candidate):
    """Microseconds a job: the server's, and the client's with its workers."""
    def us(key):
        return report.number(statistics.median(column(raw, candidate, key)) / candidate.amount * 1e6)
    return f"{us('server_cpu_seconds')} + {us('client_cpu_seconds')}"


def measure_table(heads, row, candidates, left_out):
    """One table: a row for each that was measured, and one that says why for each that was not."""
    rows = []
    for candidate in candidates:
        cells = [left_out[candidate.name]] if candidate.name in left_out else row(candidate)
        rows.append([candidate.what, *cells, *[""] * (len(heads) - 1 - len(cells))])
    return report.table(heads, rows)


def jobs_table(raw, candidates, left_out):
    heads = ["", "jobs/s, median (min to max)", "÷ Locksley", "CPU us a job, server + clients"]
    row = lambda candidate: [*compared(raw, candidate, "jobs_per_second"), cpu_column(raw, candidate)]
    return measure_table(heads, row, candidates, left_out)


def latency_table(raw, candidates, left_out):
    heads = ["", "p50 us, median (min to max)", "÷ Locksley", "p99 us, median (min to max)", "÷ Locksley"]
    row = lambda candidate: [*compared(raw, candidate, "p50_us"), *compared(raw, candidate, "p99_us")]
    return measure_table(heads, row, candidates, left_out)


def ping_table(raw, candidates, left_out):
    heads = ["", "PING/s, median (min to max)", "÷ Locksley"]
    return measure_table(heads, lambda candidate: compared(raw, candidate, "requests_per_second"), candidates, left_out)


MEASURES = {
    "jobs": ("Jobs per second, batched as well as each can", jobs_table),
    "latency": ("One job at a time", latency_table),
    "ping -P 64": ("`redis-benchmark` PING, 50 connections, 64 in a pipeline", ping_table),
    "ping -P 1": ("`redis-benchmark` PING, 50 connections, no pipeline", ping_table),
}


def settings_lines(candidates):
    """How each server was started, with its version, and each client."""
    peers = {
        "redis-server": ("--version", servers.redis_words),
        "gearmand": ("--version", servers.gearman_words),
        "beanstalkd": ("-v", servers.beanstalk_words),
    }
    used = {c.server_program for c in candidates}
    lines = []
    if any(c.server is servers.locksley for c in candidates):
        lines.append("- locksleyd: default configuration (in memory, a worker for each CPU), on free ports")
    for program, (flag, words) in peers.items():
        if program in used and servers.find(program):
            command = " ".join(str(word) or '""' for word in words("PORT", "FOLDER"))
            version = re.search(r"\d+(\.\d+)+", report.output_of(servers.find(program), flag))[0]
            lines.append(f"- {program} {version}: `{command}`")
    lines += [f"- {c.name}: `{' '.join(c.words({}, 'PORT', c.amount))}`" for c in candidates]
    return lines


def write_report(machine, arguments, candidates, raw, left_out):
    worst = max((row["others"] for rows in raw.values() for row in rows), default=0)
    lines = ["# Over the wire, side by side", "", *machine.lines(arguments.build)]
    lines.append(f"- and {worst:.0%} during the measurement that they disturbed most")
    lines.append(f"- rounds: {arguments.rounds}, in turns; jobs of 32 bytes, echoed and checked; all on this machine")
    for name, (title, make) in MEASURES.items():
        of_measure = [candidate for candidate in candidates if candidate.measure == name]
        if of_measure:
            lines += ["", f"## {title}", "", make(raw, of_measure, left_out)]
    lines += ["", "## Settings", "", *settings_lines(candidates)]
    print("\n".join(lines))


README = report.ROOT / "README.md"
README_BEGIN, README_END = "<!-- compare.py --readme writes this -->\n", "<!-- to here -->\n"
# Who takes jobs in batches, and who is its like with one at a time.
README_ROWS = [
    ("Locksley", "locksley", "locksley-latency"),
    ("Redis lists, 1,000 jobs a command", "redis-1000", None),
    ("Redis lists, a command a job", "redis-1", "redis-latency"),
    ("gearmand", "gearmand", "gearmand-latency"),
    ("beanstalkd", "beanstalkd", "beanstalkd-latency"),
]


def readme_part(machine, arguments, raw):
    """What stands between README_BEGIN and README_END."""
    of = {candidate.name: candidate for candidate in CANDIDATES}
    median = lambda name, key: statistics.median(column(raw, of[name], key))
    rows = []
    for title, batched, single in README_ROWS:
        times = [f"{median(single, key):,.0f}" for key in ("p50_us", "p99_us")] if single else ["", ""]
        rows.append([title, f"{median(batched, 'jobs_per_second'):,.0f}", compared(raw, of[batched], "jobs_per_second")[1], cpu_column(raw, of[batched]), *times])
    heads = ["", "jobs/s", "÷ Locksley", "CPU us a job, server + clients", "one at a time: p50, us", "p99, us"]
    lines = [
        report.table(heads, rows),
        "",
        f"{report.cpu_model()}, {os.cpu_count()} virtual cores, {datetime.date.today()}, commit {report.commit()}; medians of {arguments.rounds} rounds in turns; other programs "
        f"used {machine.others():.0%} of the processors.",
    ]
    return "\n".join(lines) + "\n"


def write_readme(part):
    before, rest = README.read_text(encoding="utf-8").split(README_BEGIN)
    after = rest.split(README_END)[1]
    README.write_text(before + README_BEGIN + part + README_END + after, encoding="utf-8")


def main():
    arguments = parse_arguments()
    servers.unwind_on_signals()
    candidates = chosen(arguments.only.split(","))
    missing = packages.missing(program for c in candidates for program in needed_programs(c))
    if arguments.install and missing:
        packages.install(missing)
    paths = report.programs(arguments.build, ["locksleyd", "locksley", *PEER_PROGRAMS])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    left_out = {}
    for candidate in candidates:
        lacking = packages.missing(needed_programs(candidate))
        if lacking:
            left_out[candidate.name] = f"left out, not installed: {packages.how_to_get(lacking)}"
    machine = report.Machine()
    began = time.time()
    raw = measure_in_turns([c for c in candidates if c.name not in left_out], paths, arguments.rounds)
    write_report(machine, arguments, candidates, raw, left_out)
    if arguments.readme:
        lacking = sorted(name for row in README_ROWS for name in row[1:] if name and name not in raw)
        if lacking:
            raise SystemExit(f"README.md is left as it is: not measured: {', '.join(lacking)}")
        write_readme(readme_part(machine, arguments, raw))
    if arguments.json:
        everything = {"began": began, "machine": machine.lines(arguments.build), "left_out": left_out, "figures": raw}
        pathlib.Path(arguments.json).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

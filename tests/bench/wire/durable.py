#!/usr/bin/python3
"""What an acknowledgement costs that is on the disk: batches of one job from 1, 10 and 100 clients, each waiting for its reply, beside what the
disk can do, Redis with `appendfsync always` and beanstalkd with `-f0`, plain and over TLS; the same by RUN without a disk, beside pairs of RPUSH
and LPOP; large batches, and what they write; and the size of a store that is filled and emptied. README.md says how each is measured.
Prints a report in Markdown. With --readme it also writes the table of the README.md at the root."""

import argparse
import contextlib
import csv
import datetime
import io
import os
import pathlib
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import packages
import report
import servers
from certificates import Authority
from resp import Connection

PAYLOAD_BYTES = 32
PAYLOAD = "x" * PAYLOAD_BYTES
RECORD_BYTES = 300  # about what a batch of one job adds to the log
CLIENTS = [1, 10, 100]
MANY = CLIENTS[-1]
SECONDS = 2  # of one measurement, about
MEMORY_REQUESTS = 100_000  # of one measurement without a disk
LARGE_JOBS, LARGE_BATCH = 4_000_000, 100_000
KEPT_BATCHES, CHURNED, CHURN_JOBS = [100, 400], 5, 20_000  # so many times as many come and go; jobs in each batch
PATIENCE_S = 120
DURABILITIES = ["fsync", "async", "none"]
SECURED = ["fsync", "redis"]  # also measured over TLS
TITLES = {**{name: f"Locksley, `durability: {name}`" for name in DURABILITIES}, "redis": "Redis, `appendfsync always`, RPUSH",
          "beanstalkd": "beanstalkd `-b -f0`, put"}
SUBMIT = ["SUBMIT", "echo", "RETAIN", "0", "JOBS", PAYLOAD]


# ---- Servers ----


def locksley_words(durability, tls=None):
    def words(port, folder):
        secured = f", tls: {{certificate: {tls.certificate}, key: {tls.key}}}" if tls else ""
        store = f"{{path: {folder}/store, durability: {durability}}}" if durability else "{path: ''}"
        config = folder / "locksley.yaml"
        config.write_text(f"listen: {{port: {port}{secured}}}\nhttp: {{port: 0}}\nstore: {store}\n")
        return [os.environ["LOCKSLEYD"], "--config", config]

    return words


def redis_words(port, folder, tls=None):
    ports = ["--port", port]
    if tls:
        ports = ["--port", 0, "--tls-port", port, "--tls-cert-file", tls.certificate, "--tls-key-file", tls.key,
                 "--tls-ca-cert-file", tls.certificate, "--tls-auth-clients", "no"]
    return ["redis-server", "--bind", "127.0.0.1", *ports, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", folder]


def beanstalk_words(port, folder):
    return ["beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", folder, "-f0"]


@contextlib.contextmanager
def running(words):
    with contextlib.closing(servers.Server(words)) as server:
        yield server


# ---- Clients ----


def disk(folder):
    """Syncs a second, one at a time: a record appended, then fdatasync; and the median of one in microseconds."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            os.write(file.fileno(), b"x" * RECORD_BYTES)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return {"rate": len(times) / sum(times), "p50_us": statistics.median(times) * 1e6}


def redis_benchmark(server, clients, words, count, tls=None):
    """Commands a second, their median time, and the server's processor time for each."""
    count = max(200, int(count))
    command = ["redis-benchmark", "-p", server.port, "-c", clients, "-n", count, "--csv", *(["--tls", "--insecure"] if tls else []), *words]
    before = servers.cpu_seconds(server.pid)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    spent = servers.cpu_seconds(server.pid) - before
    row = next(csv.DictReader(io.StringIO(done.stdout)))
    return {"rate": float(row["rps"]), "p50_us": float(row["p50_latency_ms"]) * 1e3, "cpu_us": spent / count * 1e6}


def put_jobs(server, clients):
    """beanstalkd's `put`, each client waiting for its reply."""
    command = b"put 0 0 60 %d\r\n" % PAYLOAD_BYTES + PAYLOAD.encode() + b"\r\n"
    times = []
    before = servers.cpu_seconds(server.pid)
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(clients):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(command)
            selector.register(peer, selectors.EVENT_READ, [time.perf_counter()])
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            for key, _ in selector.select(1):
                if not key.fileobj.recv(100).startswith(b"INSERTED"):
                    raise SystemExit("beanstalkd refused a job")
                now = time.perf_counter()
                times.append(now - key.data[0])
                key.data[0] = now
                key.fileobj.sendall(command)
        took = time.perf_counter() - began
    spent = servers.cpu_seconds(server.pid) - before
    return {"rate": len(times) / took, "p50_us": statistics.median(times) * 1e6, "cpu_us": spent / len(times) * 1e6}


# ---- What is measured; each returns figures of one round ----


def small(name, clients, guess, tls=None):
    """Batches of one job. `guess`: how many a second one client reaches, about; so a measurement takes about SECONDS."""
    count = max(guess * min(clients, 10) * SECONDS, 100 * clients)  # many clients share a slow disk's syncs
    if name == "redis":
        with running(lambda port, folder: redis_words(port, folder, tls)) as server:
            return redis_benchmark(server, clients, ["RPUSH", "jobs", PAYLOAD], count, tls)
    if name == "beanstalkd":
        with running(beanstalk_words) as server:
            return put_jobs(server, clients)
    with running(locksley_words(name, tls)) as server:
        return redis_benchmark(server, clients, SUBMIT, count, tls)


def run_in_memory():
    with running(locksley_words(None)) as server:
        return redis_benchmark(server, MANY, ["RUN", "echo", "JOBS", PAYLOAD], MEMORY_REQUESTS)


def pairs_in_memory():
    """An RPUSH, and the LPOP that brings the value back."""
    with running(servers.redis_words) as server:
        push, pop = (redis_benchmark(server, MANY, words, MEMORY_REQUESTS) for words in (["RPUSH", "jobs", PAYLOAD], ["LPOP", "jobs"]))
        return {"rate": 1 / (1 / push["rate"] + 1 / pop["rate"]), "p50_us": push["p50_us"] + pop["p50_us"], "cpu_us": push["cpu_us"] + pop["cpu_us"]}


def written_bytes(server):
    """That the server has handed to the disk, or will."""
    fields = dict(line.split(": ") for line in pathlib.Path(f"/proc/{server.pid}/io").read_text().splitlines())
    return int(fields["write_bytes"])


def settled(read):
    """What `read` returns once it has been the same for two seconds."""
    last, since = read(), time.monotonic()
    while time.monotonic() - since < 2:
        time.sleep(0.1)
        now = read()
        if now != last:
            last, since = now, time.monotonic()
    return last


def large(build, durability):
    """Jobs a second, from the first byte sent to the last result read; and bytes written for each byte of payload and result."""
    with running(locksley_words(durability)) as server:
        words = [build / "bin/locksley", "--server", f"127.0.0.1:{server.port}", "bench", "--payload", PAYLOAD_BYTES,
                 "--jobs", LARGE_JOBS, "--batch", LARGE_BATCH]
        before = written_bytes(server)
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        written = settled(lambda: written_bytes(server)) - before
    took = re.search(r": ([\d.]+) s,", done.stdout)
    if not took:
        raise SystemExit(f"a strange answer of locksley bench: {done.stdout!r}")
    return {"rate": LARGE_JOBS / float(took[1]), "written": written / (2 * LARGE_JOBS * PAYLOAD_BYTES)}


def churn(kept):
    """A store in which so many batches are left, after several times as many came and went: the bytes of their payloads and results, of its
    tables, and of its logs, which do not grow with the store; and its folder as a multiple of the former."""
    payloads = [os.urandom(PAYLOAD_BYTES) for _ in range(CHURN_JOBS)]  # do not compress
    with running(locksley_words("fsync")) as server, Connection("127.0.0.1", server.port) as client:
        batches = []
        for _ in range(kept * (1 + CHURNED)):
            batches.append(client("SUBMIT", "echo", "RETAIN", "3600", "JOBS", *payloads))
            client("WAIT", batches[-1])
            if len(batches) > kept:
                client("FORGET", batches.pop(0))
        sizes = settled(lambda: {file.name: file.stat().st_blocks * 512 for file in (server.folder / "store").iterdir()})
    left = kept * CHURN_JOBS * 2 * PAYLOAD_BYTES
    of = {suffix: sum(size for name, size in sizes.items() if name.endswith(suffix)) for suffix in ("", ".sst", ".log")}
    return [f"{left / 1e6:,.0f}", f"{of['.sst'] / 1e6:,.0f}", f"{of['.log'] / 1e6:,.0f}", f"{of[''] / left:.2f}"]


# ---- A round, and the report ----


class Figures:
    """What the rounds have measured: rows of figures by what was measured."""

    def __init__(self):
        self.rows = {}

    def add(self, what, row):
        self.rows.setdefault(what, []).append(row)

    def spread(self, what, key, form="{:,.0f}"):
        values = [row[key] for row in self.rows[what]]
        return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"

    def ratio(self, what, other, key="rate"):
        """The median of the ratios within a round."""
        return statistics.median(row[key] / peer[key] for row, peer in zip(self.rows[what], self.rows[other]))

    def median(self, what, key):
        return statistics.median(row[key] for row in self.rows[what])


def measure_round(figures, build, names, certificate):
    figures.add("disk", disk(tempfile.gettempdir()))
    guess = figures.rows["disk"][-1]["rate"] / 3
    for name in names:
        for clients in CLIENTS:
            figures.add((name, clients), small(name, clients, guess))
    for name in SECURED:
        for clients in CLIENTS if name in names else ():
            figures.add((name, clients, "tls"), small(name, clients, guess, certificate))
    if "redis" in names:
        figures.add("run", run_in_memory())
        figures.add("pairs", pairs_in_memory())
    for durability in DURABILITIES:
        figures.add(durability, large(build, durability))


def small_table(figures, names, tls=()):
    heads = ["batches of one job, each client waits for its reply" + (", TLS" if tls else "")]
    for clients in CLIENTS:
        heads += [f"{clients} client{'s' if clients > 1 else ''}, a second", "of Redis" if "redis" in names else "of the disk's syncs"]
    rows = []
    for name in names:
        cells = []
        for clients in CLIENTS:
            what = (name, clients, *tls)
            against = ("redis", clients, *tls) if "redis" in names else "disk"
            cells += [figures.spread(what, "rate"), f"{figures.ratio(what, against):.2f}"]
        cpu = figures.spread((name, MANY, *tls), "cpu_us", "{:.1f}")
        rows.append([TITLES[name], *cells, cpu, figures.spread((name, CLIENTS[0], *tls), "p50_us")])
    return report.table([*heads, f"server's processor time with {MANY}, us", "one client, p50 us"], rows)


def print_report(figures, names, arguments, machine):
    print(f"Commit {report.commit()}; {report.cpu_model()}; {report.compiler(arguments.build)}; {arguments.rounds} rounds, medians with the "
          f"smallest and largest; other programs used {machine.others():.0%} of the processors.\n")
    print(f"The disk: {figures.spread('disk', 'rate')} appends of {RECORD_BYTES} bytes with fdatasync a second, one at a time; "
          f"{figures.spread('disk', 'p50_us')} us each.\n")
    print(small_table(figures, names) + "\n")
    if "redis" in names:
        print(small_table(figures, SECURED, ("tls",)) + "\n")
        rows = [[title, figures.spread(what, "rate"), f"{figures.ratio(what, 'pairs'):.2f}", figures.spread(what, "cpu_us", "{:.1f}")]
                for title, what in (("Locksley, RUN of one job", "run"), ("Redis, RPUSH and LPOP", "pairs"))]
        print(report.table([f"without a disk, {MANY} clients", "a second", "of Redis", "server's processor time, us"], rows) + "\n")
    rows = [[f"`durability: {name}`", figures.spread(name, "rate"), figures.spread(name, "written", "{:.2f}")] for name in DURABILITIES]
    heads = [f"batches of {LARGE_BATCH:,} jobs of {PAYLOAD_BYTES} bytes, results read back", "jobs a second"]
    print(report.table([*heads, "bytes written for each byte of payload and result"], rows) + "\n")
    heads = [f"kept by a store, after {CHURNED} times as much came and went, MB", "its tables, MB", "its logs, MB", "its folder ÷ what is kept"]
    print(report.table(heads, map(churn, KEPT_BATCHES)))


README = report.ROOT / "README.md"
README_BEGIN, README_END = "<!-- durable.py --readme writes this -->\n", "<!-- durable.py: to here -->\n"
README_TITLES = {"fsync": "Locksley: batch accepted, run, result recorded, and forgotten", "redis": "Redis, `appendfsync always`, RPUSH alone",
                 "beanstalkd": "beanstalkd, `-b -f0`, put alone"}


def write_readme(figures, arguments, machine):
    rows = []
    for name, tls in (("fsync", ()), ("redis", ()), ("beanstalkd", ()), ("fsync", ("tls",)), ("redis", ("tls",))):
        rates = [f"{figures.median((name, clients, *tls), 'rate'):,.0f}" for clients in CLIENTS]
        rows.append([README_TITLES[name] + ("; over TLS" if tls else ""), *rates, f"{figures.median((name, MANY, *tls), 'cpu_us'):.1f}"])
    heads = ["batches of one job a second", *(f"{clients} client{'s' if clients > 1 else ''}" for clients in CLIENTS), f"server's processor time with {MANY}, us"]
    lines = [
        report.table(heads, rows), "",
        f"Without a disk and with {MANY} clients, `RUN` of one job: {figures.median('run', 'rate'):,.0f} a second; "
        f"Redis, an RPUSH and an LPOP: {figures.median('pairs', 'rate'):,.0f}.",
        f"Batches of {LARGE_BATCH:,} jobs of {PAYLOAD_BYTES} bytes, synced, results read back: {figures.median('fsync', 'rate') / 1e6:.2f} million jobs/s, "
        f"and {figures.median('fsync', 'written'):.2f} bytes written to the disk for each byte of payload and result.", "",
        f"{report.cpu_model()}, {os.cpu_count()} virtual cores, a disk whose fdatasync takes {figures.median('disk', 'p50_us'):.0f} us, "
        f"{datetime.date.today()}, commit {report.commit()};",
        f"medians of {arguments.rounds} rounds in turns; other programs used {machine.others():.0%} of the processors.",
    ]
    before, rest = README.read_text(encoding="utf-8").split(README_BEGIN)
    after = rest.split(README_END)[1]
    README.write_text(before + README_BEGIN + "\n".join(lines) + "\n" + README_END + after, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: %(default)s)")
    parser.add_argument("--readme", action="store_true", help="write the table of README.md; needs redis-server and beanstalkd")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    os.environ["LOCKSLEYD"] = str(report.programs(arguments.build, ["locksleyd", "locksley"])["locksleyd"])
    servers.unwind_on_signals()
    machine = report.Machine()
    names = [*DURABILITIES, *(name for name in ("redis", "beanstalkd") if not packages.missing([{"redis": "redis-server"}.get(name, name)]))]
    if arguments.readme and len(names) != len(TITLES):
        raise SystemExit(f"README.md is left as it is: {packages.how_to_get(packages.missing(['redis-server', 'beanstalkd']))}")
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        certificate = Authority(folder, "ca").issue("localhost")
        for turn in range(arguments.rounds):
            print(f"round {turn + 1}", file=sys.stderr)
            measure_round(figures, arguments.build, names, certificate)
    print_report(figures, names, arguments, machine)
    if arguments.readme:
        write_readme(figures, arguments, machine)


if __name__ == "__main__":
    main()

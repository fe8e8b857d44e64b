#!/usr/bin/python3
"""What many cost: queued jobs, active batches, open connections, more workers than processors. One table each, of the
number against the cost, so that one sees what is flat and what is not. README.md says how each is measured. Prints a
report in Markdown."""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import statistics
import subprocess
import sys
import time

import report
import servers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, wait_for
from resp import encode

MEBI = 1 << 20
PATIENCE_S = 120  # for one reply
PAYLOAD_BYTES = 32
JOB_COUNTS = [100_000, 1_000_000, 10_000_000]
CHUNK = 100_000  # jobs of an ADD
BATCH_COUNTS = [10, 1_000, 100_000]
TINY_JOBS = 1_000_000  # of all batches together
SPIN_US, SPIN_JOBS = 10, 200_000
CONNECTION_COUNTS = [10, 1_000, 10_000]
IDLE_S = 5
WORKER_COUNTS = [2, 8, 32]
ROUNDS = 3
FOR_EVER_MS = 3_600_000


def progress(text):
    print(text, file=sys.stderr)


def daemon(**settings):
    return contextlib.closing(Daemon(settings))


def connect(locksleyd):
    return locksleyd.connect(timeout=PATIENCE_S)


def megabytes(count):
    return f"{count / MEBI:,.1f}"


def peak_bytes(locksleyd):
    """The most that was ever resident."""
    status = pathlib.Path(f"/proc/{locksleyd.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def settled_bytes(locksleyd):
    """Resident when nothing changes any more: the least of a second."""
    samples = []
    for _ in range(10):
        time.sleep(0.1)
        samples.append(locksleyd.resident_bytes())
    return min(samples)


def hold_workers(connection, workers):
    """Every worker sleeps until the batch `hold` is cancelled."""
    connection("SUBMIT", "sleep", "ID", "hold", "JOBS", *[FOR_EVER_MS] * workers)
    wait_for("the workers to be held", lambda: connection.map("STATUS", "hold")["running"] == workers)


def jobs_of(connection):
    tenants = connection("TENANTS")
    row = dict(zip(tenants[0][::2], tenants[0][1::2]))
    return row["queued"] + row["running"]


# Queued jobs.


def chunk_of_payloads():
    return b"".join(b"$%d\r\n%0*d\r\n" % (PAYLOAD_BYTES, PAYLOAD_BYTES, i) for i in range(CHUNK))


def command_head(words, payloads):
    """Of a command with so many arguments behind its words."""
    return encode(*words).replace(b"*%d\r\n" % len(words), b"*%d\r\n" % (len(words) + payloads), 1)


def submit_whole(connection, jobs):
    connection.send(command_head(["SUBMIT", "echo", "ID", "many", "KEEP", "none", "JOBS"], jobs))
    chunk = chunk_of_payloads()
    for _ in range(jobs // CHUNK):
        connection.send(chunk)
    if connection.read() != "many":
        raise SystemExit("SUBMIT did not answer the id")


def stream_in(connection, jobs):
    connection("OPEN", "echo", "ID", "many", "KEEP", "none")
    add = command_head(["ADD", "many"], CHUNK) + chunk_of_payloads()
    for number in range(jobs // CHUNK):
        connection.send(add)
        if connection.read() != (number + 1) * CHUNK:
            raise SystemExit("ADD did not answer the number of jobs")
    connection("CLOSE", "many")


def cancel(connection):
    connection("CANCEL", "many")


def run_all(connection):
    connection("CANCEL", "hold")
    connection.wait("many", PATIENCE_S)


def queue_jobs(jobs, fill, empty):
    """One row: a daemon whose only worker is held gets them, and loses them again."""
    with daemon(pool={"workers": 1}) as locksleyd, connect(locksleyd) as connection:
        hold_workers(connection, 1)
        before = locksleyd.resident_bytes()
        began = time.monotonic()
        fill(connection, jobs)
        filled_s = time.monotonic() - began
        full, peak = locksleyd.resident_bytes(), peak_bytes(locksleyd)
        began = time.monotonic()
        empty(connection)
        emptied_s = time.monotonic() - began
        connection("FORGET", "many")
        after = settled_bytes(locksleyd)
    beside = lambda size: report.number((size - before) / jobs - PAYLOAD_BYTES)
    memory = [megabytes(full), beside(full), beside(peak)]
    return [f"{filled_s:.2f}", *memory, f"{emptied_s:.3f}", f"{megabytes(after)} ({megabytes(before)})"]


def queued_jobs(_paths):
    heads = ["jobs of 32 bytes, in, out", "accepted in s", "resident MiB", "bytes a job beside its payload",
             "the same at the peak", "emptied in s", "MiB after that (before)"]
    ways = [("one SUBMIT, CANCEL", submit_whole, cancel), ("OPEN, ADD of 100,000, run", stream_in, run_all)]
    rows = []
    for name, fill, empty in ways:
        for jobs in JOB_COUNTS:
            progress(f"{jobs:,} queued jobs: {name}")
            rows.append([f"{jobs:,}: {name}", *queue_jobs(jobs, fill, empty)])
    return report.table(heads, rows)


# Active batches.


def submit_batches(connection, batches, jobs_each, handler, payload):
    """RANGEs: the jobs themselves take no memory."""
    for first in range(0, batches, 1000):
        numbers = range(first, min(first + 1000, batches))
        range_of_jobs = ["KEEP", "none", "RANGE", 0, jobs_each, payload]
        connection.send(b"".join(encode("SUBMIT", handler, "ID", f"batch-{i}", *range_of_jobs) for i in numbers))
        for i in numbers:
            if (answer := connection.read()) != f"batch-{i}":
                raise SystemExit(f"SUBMIT answered {answer}")


def run_held(connection, batches):
    """Seconds from the release of the workers until no job is left. TENANTS is asked only when nearly all are over: it
    costs the daemon time too."""
    began = time.monotonic()
    connection("CANCEL", "hold")
    connection.wait(f"batch-{batches - 1}", PATIENCE_S)
    while jobs_of(connection) > 0:
        if time.monotonic() - began > PATIENCE_S:
            raise SystemExit(f"{jobs_of(connection)} jobs are left after {PATIENCE_S} s")
        time.sleep(0.001)
    return time.monotonic() - began


def microseconds_of(connection, words, times):
    """A command's, of many in a pipeline. Replies are not parsed, so it is the daemon that is measured."""
    began = time.monotonic()
    connection.send(encode(*words) * times + encode("PING"))
    tail = b""
    while not tail.endswith(b"+PONG\r\n"):
        piece = connection.read_some()
        if not piece:
            raise SystemExit("the daemon closed the connection")
        tail = tail[-7:] + piece
    return (time.monotonic() - began) / times * 1e6


def scrape_us(locksleyd):
    """Of /metrics, over a connection that stays."""
    page = http.client.HTTPConnection(locksleyd.http.removeprefix("http://"), timeout=PATIENCE_S)
    times = []
    with contextlib.closing(page):
        for _ in range(20):
            began = time.monotonic()
            page.request("GET", "/metrics")
            page.getresponse().read()
            times.append((time.monotonic() - began) * 1e6)
    return statistics.median(times)


def claims_of(locksleyd):
    return sum(value for name, value in locksleyd.metrics().items() if name.startswith("locksley_ring_claims_total"))


def looks(batches):
    """A row: memory, and what it costs to look, with so many batches that wait."""
    with daemon(pool={"workers": 2}) as locksleyd, connect(locksleyd) as connection:
        hold_workers(connection, 2)
        before = locksleyd.resident_bytes()
        submit_batches(connection, batches, TINY_JOBS // batches, "echo", "x")
        memory = (locksleyd.resident_bytes() - before) / batches
        middle = f"batch-{batches // 2}"
        commands = [["STATUS", middle], ["LIST", "COUNT", 100], ["EXPLAIN", middle], ["TENANTS"]]
        costs = [microseconds_of(connection, command, 200) for command in commands]
        costs.append(scrape_us(locksleyd))
    return list(map(report.number, [memory, *costs]))


def decisions(batches, jobs, handler, payload, **settings):
    """Two workers run so many jobs, dealt to so many batches: jobs/s, claims, microseconds of worker time a claim."""
    with daemon(pool={"workers": 2}, **settings) as locksleyd, connect(locksleyd) as connection:
        hold_workers(connection, 2)
        submit_batches(connection, batches, jobs // batches, handler, payload)
        claims = claims_of(locksleyd)
        seconds = run_held(connection, batches)
        claims = claims_of(locksleyd) - claims
    return [f"{jobs / seconds:,.0f}", f"{claims:,.0f}", report.number(seconds * 2 / claims * 1e6)]


def active_batches(_paths):
    short_turns = {"scheduling": {"quantum": f"{SPIN_US}us"}}  # as long as a job: one job a claim
    looked, ran = [], []
    for batches in BATCH_COUNTS:
        progress(f"{batches:,} active batches")
        looked.append([f"{batches:,}", *looks(batches)])
        tiny = decisions(batches, TINY_JOBS, "echo", "x")
        single = decisions(batches, SPIN_JOBS, "spin", SPIN_US, **short_turns)
        ran.append([f"{batches:,}", *tiny, *single])
    looked_heads = ["bytes a batch", "STATUS us", "LIST of 100, us", "EXPLAIN us", "TENANTS us", "/metrics us"]
    ran_heads = [f"{jobs}: {what}" for jobs in ("echo", f"{SPIN_US} us") for what in ("jobs/s", "claims", "us a claim")]
    return "\n\n".join([
        report.table(["active batches", *looked_heads], looked),
        f"{TINY_JOBS:,} `echo` jobs, and {SPIN_JOBS:,} jobs of {SPIN_US} us, each of these a claim of its own:",
        report.table(["active batches", *ran_heads], ran),
    ])


# Open connections.


def raise_file_limit(wanted):
    """What the processes may have open, if the hard limit allows as much."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"{wanted} open files are needed and the hard limit is {hard}: raise it (`ulimit -Hn`)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_connections(locksleyd, count, stack):
    """Each has been served once, and is silent."""
    for _ in range(count):
        client = stack.enter_context(socket.create_connection((locksleyd.host, locksleyd.port), PATIENCE_S))
        client.sendall(b"PING\r\n")
        if client.recv(16) != b"+PONG\r\n":
            raise SystemExit("PING was not answered")


def idle_cpu_ms(locksleyd):
    used = lambda: sum(nanoseconds for _, nanoseconds, _ in locksleyd.threads().values())
    before = used()
    time.sleep(IDLE_S)
    return (used() - before) / 1e6


def bench(paths, locksleyd, *words):
    """What `locksley bench` says."""
    address = f"{locksleyd.host}:{locksleyd.port}"
    done = subprocess.run([paths["locksley"], "--server", address, "--json", "bench", *map(str, words)],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode:
        raise SystemExit(f"locksley bench {words} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def with_connections(paths, count):
    """A row. `locksley bench` has a connection more, besides the one that it measures."""
    with contextlib.ExitStack() as stack:
        locksleyd = stack.enter_context(daemon(limits={"max_clients": count + 1}))
        open_connections(locksleyd, 1, stack)
        before = locksleyd.resident_bytes()
        began = time.monotonic()
        open_connections(locksleyd, count - 2, stack)
        opened_us = (time.monotonic() - began) / (count - 2) * 1e6
        memory = (locksleyd.resident_bytes() - before) / (count - 2)
        cpu_ms = idle_cpu_ms(locksleyd)
        latency = bench(paths, locksleyd, "--latency", "--connections", 1, "--jobs", 5000)
    return list(map(report.number, [memory, opened_us, cpu_ms, latency["p50_us"], latency["p99_us"]]))


def connections(paths):
    raise_file_limit(max(CONNECTION_COUNTS) + 100)
    heads = ["open connections", "bytes a connection", "us to open and PING", f"CPU ms in {IDLE_S} s idle",
             "RUN p50 us", "RUN p99 us"]
    rows = []
    for count in CONNECTION_COUNTS:
        progress(f"{count:,} connections")
        rows.append([f"{count:,}", *with_connections(paths, count)])
    return report.table(heads, rows)


# More workers than processors.


def with_workers(paths, workers):
    """Jobs/s of tiny jobs, and of jobs of 50 us."""
    with daemon(pool={"workers": workers}) as locksleyd:
        tiny = bench(paths, locksleyd, "--jobs", 2_000_000, "--payload", PAYLOAD_BYTES)
        longer = bench(paths, locksleyd, "--handler", "spin", "--text", 50, "--jobs", 40_000, "--batch", 1000)
    return tiny["jobs_per_second"], longer["jobs_per_second"]


def oversubscribed(paths):
    rates = {workers: [] for workers in WORKER_COUNTS}
    for turn in range(ROUNDS):
        for workers in WORKER_COUNTS:
            progress(f"{workers} workers, round {turn + 1} of {ROUNDS}")
            rates[workers].append(with_workers(paths, workers))
    columns = lambda workers: [report.spread(rate) for rate in zip(*rates[workers])]
    rows = [[f"{workers}", *columns(workers)] for workers in WORKER_COUNTS]
    return report.table(["workers", "echo jobs/s, median (min to max)", "jobs/s of 50 us, median (min to max)"], rows)


PARTS = {
    "jobs": ("Queued jobs", queued_jobs),
    "batches": ("Active batches", active_batches),
    "connections": ("Open connections", connections),
    "workers": ("More workers than processors", oversubscribed),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between (default: %(default)s)")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only: no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd", "locksley"])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    report.print_parts("What many cost", arguments.build, [PARTS[name] for name in chosen], paths)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""What a scrape of /metrics costs, of a daemon that has much: batches that wait, batches that are over, tenants. For each, the time until the
page is there by a connection that stays, the processor time of the daemon's I/O thread, the page's bytes and its series. Prints a table in
Markdown."""

import argparse
import contextlib
import http.client
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, wait_for
from resp import encode
from users import ALL, BUILTIN, hash_of

PATIENCE_S = 120  # for one reply
PIPELINED = 1_000  # commands in flight
SCRAPES = 50
FOR_EVER_MS = 3_600_000
PASSWORD = "the same for all"
FORMATS = {"text": "text/plain", "OpenMetrics": "application/openmetrics-text;version=1.0.0"}
# What there is when it is scraped: batches that wait, batches that are over, tenants that share them.
CASES = [(0, 0, 1), (1_000, 1_000, 1), (100_000, 0, 1), (0, 100_000, 1), (100_000, 100_000, 1), (10_000, 10_000, 1_000)]


def submit(connection, count, handler):
    """So many batches of one job each."""
    for begin in range(0, count, PIPELINED):
        some = min(PIPELINED, count - begin)
        connection.send(encode("SUBMIT", handler, "JOBS", "x") * some)
        for _ in range(some):
            connection.read()


def measure(daemon, accept):
    """Seconds and nanoseconds of the I/O thread, a scrape; the page."""
    client = http.client.HTTPConnection(daemon.http.removeprefix("http://"), timeout=PATIENCE_S)
    with contextlib.closing(client):

        def scrape():
            client.request("GET", "/metrics", headers={"Accept": accept})
            return client.getresponse().read()

        page = scrape()
        seconds, before = [], daemon.threads()[daemon.pid][1]
        for _ in range(SCRAPES):
            began = time.perf_counter()
            scrape()
            seconds.append(time.perf_counter() - began)
        return seconds, (daemon.threads()[daemon.pid][1] - before) / SCRAPES, page


def run(waiting, over, tenants):
    names = [f"tenant{number}" for number in range(tenants)]
    settings = {"users": {name: {"password_hash": hash_of(PASSWORD), "commands": ALL, **BUILTIN} for name in names}, "limits": {"max_clients": tenants + 10}}
    with contextlib.closing(Daemon(settings)) as daemon:
        connections = [daemon.connect(timeout=PATIENCE_S) for _ in names]
        for name, connection in zip(names, connections):
            connection("AUTH", name, PASSWORD)
        for connection in connections:
            submit(connection, over // tenants, "echo")
        first = connections[0]
        wait_for("them to be over", lambda: daemon.metrics()["locksley_retained_batches"] >= over, PATIENCE_S)
        first("SUBMIT", "sleep", "ID", "hold", "JOBS", *[FOR_EVER_MS] * 2)
        wait_for("the workers to be held", lambda: first.map("STATUS", "hold")["running"] == 2)
        for connection in connections:
            submit(connection, waiting // tenants, "echo")
        for name, accept in FORMATS.items():
            seconds, thread_ns, page = measure(daemon, accept)
            series = sum(1 for line in page.splitlines() if not line.startswith(b"#"))
            middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
            print(f"| {waiting:,} | {over:,} | {tenants:,} | {name} | {middle:.2f} | {worst:.2f} | {thread_ns / 1e6:.2f} | {len(page):,} | {series:,} |", flush=True)
        for connection in connections:
            connection.close()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| batches that wait | that are over | tenants | format | ms, median | ms, worst | ms of the I/O thread | bytes | series |")
    print("| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for case in CASES:
        run(*case)

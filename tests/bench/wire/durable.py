#!/usr/bin/python3
"""What an acknowledgement costs that is on the disk: batches of one job from 1, 10 and 100 clients, each waiting for its
reply, beside what the disk can do, Redis with `appendfsync always` and beanstalkd with `-f0`; and large batches with each
store.durability. README.md says how each is measured. Prints a report in Markdown."""

import argparse
import contextlib
import csv
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

import packages
import report
import servers

PAYLOAD_BYTES = 32
RECORD_BYTES = 300  # about what a batch of one job adds to the log
CLIENTS = [1, 10, 100]
SECONDS = 2  # of one measurement, about
LARGE_JOBS, LARGE_BATCH = 4_000_000, 100_000
PATIENCE_S = 120
DURABILITIES = ["fsync", "async", "none"]


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


def redis_benchmark(port, clients, words, guess):
    """`guess`: requests a second, for the number of requests that take about SECONDS."""
    count = max(200, int(guess * SECONDS))
    command = ["redis-benchmark", "-p", port, "-c", clients, "-n", count, "--csv", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    row = next(csv.DictReader(io.StringIO(done.stdout)))
    return {"rate": float(row["rps"]), "p50_us": float(row["p50_latency_ms"]) * 1e3}


def put_jobs(port, clients):
    """beanstalkd's `put`, each client waiting for its reply."""
    command = b"put 0 0 60 %d\r\n" % PAYLOAD_BYTES + b"x" * PAYLOAD_BYTES + b"\r\n"
    times = []
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(clients):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
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
    return {"rate": len(times) / took, "p50_us": statistics.median(times) * 1e6}


def locksley_words(durability):
    def words(port, folder):
        config = folder / "locksley.yaml"
        config.write_text(f"listen: {{port: {port}}}\nhttp: {{port: 0}}\nstore: {{path: {folder}/store, durability: {durability}}}\n")
        return [os.environ["LOCKSLEYD"], "--config", config]

    return words


def redis_words(port, folder):
    return ["redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "yes",
            "--appendfsync", "always", "--dir", folder]


def beanstalk_words(port, folder):
    return ["beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", folder, "-f0"]


def small(name, guess):
    """The figures of one server by number of clients."""
    payload = "x" * PAYLOAD_BYTES
    found = {}
    for clients in CLIENTS:
        if name == "redis":
            with contextlib.closing(servers.Server(redis_words)) as server:
                found[clients] = redis_benchmark(server.port, clients, ["RPUSH", "jobs", payload], guess * min(clients, 10))
        elif name == "beanstalkd":
            with contextlib.closing(servers.Server(beanstalk_words)) as server:
                found[clients] = put_jobs(server.port, clients)
        else:
            with contextlib.closing(servers.Server(locksley_words(name))) as server:
                words = ["SUBMIT", "echo", "RETAIN", "0", "JOBS", payload]
                found[clients] = redis_benchmark(server.port, clients, words, guess * min(clients, 10))
    return found


def large(build, durability):
    """Jobs a second, from the first byte sent to the last result read."""
    with contextlib.closing(servers.Server(locksley_words(durability))) as server:
        words = [build / "bin/locksley", "--server", f"127.0.0.1:{server.port}", "bench", "--payload", PAYLOAD_BYTES,
                 "--jobs", LARGE_JOBS, "--batch", LARGE_BATCH]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    took = re.search(r": ([\d.]+) s,", done.stdout)
    if not took:
        raise SystemExit(f"a strange answer of locksley bench: {done.stdout!r}")
    return LARGE_JOBS / float(took[1])


def spread(values, form="{:,.0f}"):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    os.environ["LOCKSLEYD"] = str(arguments.build / "bin/locksleyd")
    servers.unwind_on_signals()
    machine = report.Machine()
    names = [*DURABILITIES, *(name for name in ("redis", "beanstalkd") if not packages.missing([{"redis": "redis-server"}.get(name, name)]))]

    bare = []
    found = {(name, clients): [] for name in names for clients in CLIENTS}
    throughput = {durability: [] for durability in DURABILITIES}
    for turn in range(arguments.rounds):
        bare.append(disk(tempfile.gettempdir()))
        guess = bare[-1]["rate"] / 3
        for name in names:
            print(f"round {turn + 1}: {name}", file=sys.stderr)
            for clients, figures in small(name, guess).items():
                # Beside what the disk did in the same round: its speed changes from minute to minute.
                found[name, clients].append({**figures, "ratio": figures["rate"] / bare[-1]["rate"]})
        for durability in DURABILITIES:
            throughput[durability].append(large(arguments.build, durability))

    print(f"Commit {report.commit()}; {report.cpu_model()}; {report.compiler(arguments.build)}; {arguments.rounds} rounds, medians with the "
          f"smallest and largest; other programs used {machine.others():.0%} of the processors.\n")
    print(f"The disk: {spread([b['rate'] for b in bare])} appends of {RECORD_BYTES} bytes with fdatasync a second, one at a time; "
          f"{spread([b['p50_us'] for b in bare])} us each.\n")
    titles = {**{d: f"Locksley, `durability: {d}`" for d in DURABILITIES}, "redis": "Redis, `appendfsync always`, RPUSH",
              "beanstalkd": "beanstalkd `-b -f0`, put"}
    print("| batches of one job, each client waits for its reply | " + " | ".join(f"{c} clients, a second | per sync of the disk" for c in CLIENTS)
          + " | one client, p50 us |")
    print("| --- |" + " ---: |" * (2 * len(CLIENTS) + 1))
    for name in names:
        cells = []
        for clients in CLIENTS:
            cells += [spread([f["rate"] for f in found[name, clients]]), spread([f["ratio"] for f in found[name, clients]], "{:.2f}")]
        print(f"| {titles[name]} | " + " | ".join(cells) + f" | {spread([f['p50_us'] for f in found[name, CLIENTS[0]]])} |")
    print(f"\n| batches of {LARGE_BATCH:,} jobs of {PAYLOAD_BYTES} bytes, results read back | jobs a second |\n| --- | ---: |")
    for durability in DURABILITIES:
        print(f"| `durability: {durability}` | {spread(throughput[durability])} |")


if __name__ == "__main__":
    main()

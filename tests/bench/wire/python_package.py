#!/usr/bin/python3
"""What a job costs a remote worker of the Python package: jobs per second, and the processor time of the worker's process for each, through a task
that takes and returns bytes and through JSON. Beside it a worker in plain redis-py. Prints a table in Markdown."""

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import report
import servers

sys.path.insert(0, str(report.ROOT / "proto/clients/python"))
import locksley

WARM_UP = 10  # the part of the jobs that is run before, unmeasured
PATIENCE_S = 120


def bench(server, jobs):
    """32 random bytes a job, which come back and are checked: jobs per second."""
    words = [os.environ["LOCKSLEY"], "--server", f"127.0.0.1:{server.port}", "--json", "bench", "--payload", "32", "--batch", "10000", "--connections", "2"]
    done = subprocess.run([*words, "--jobs", str(jobs)], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return json.loads(done.stdout)["jobs_per_second"]


def map_numbers(server, jobs):
    """A number a job, which the task returns: jobs per second, from the first that is submitted to the last that has ended."""
    app = locksley.App(f"redis://127.0.0.1:{server.port}", handler="json")
    with contextlib.closing(app):
        began = time.perf_counter()
        status = app.named("identity").map(range(jobs)).wait(PATIENCE_S)
        if status.ok != jobs:
            raise SystemExit(f"{jobs - status.ok} of {jobs} jobs did not end well")
        return jobs / (time.perf_counter() - began)


CASES = [
    ("plain redis-py, bytes", servers.locksley_python, bench),
    ("the package, bytes", servers.locksley_package, bench),
    ("the package, JSON", servers.locksley_package, map_numbers),
]


def measure(start, run, jobs):
    """Jobs per second, and microseconds of the worker's processor time a job."""
    with contextlib.closing(start()) as server:
        run(server, jobs // WARM_UP)
        before = servers.cpu_seconds(server.worker.pid)
        rate = run(server, jobs)
        return rate, (servers.cpu_seconds(server.worker.pid) - before) / jobs * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured, in turns (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=300_000, help="of one measurement (default: %(default)s)")
    arguments = parser.parse_args()
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd", "locksley"])
    os.environ.update(LOCKSLEYD=str(paths["locksleyd"]), LOCKSLEY=str(paths["locksley"]))
    machine = report.Machine()
    measured = {name: [] for name, _, _ in CASES}
    for _ in range(arguments.rounds):
        for name, start, run in CASES:
            measured[name].append(measure(start, run, arguments.jobs))
    rows = []
    for name, figures in measured.items():
        rates, costs = zip(*figures)
        rows.append([name, report.spread(rates), f"{statistics.median(costs):.1f} ({min(costs):.1f} to {max(costs):.1f})"])
    print("\n".join(machine.lines(arguments.build)))
    print(f"- redis-py {importlib.import_module('redis').__version__}, {'with' if importlib.util.find_spec('hiredis') else 'without'} hiredis\n")
    print(report.table(["worker", "jobs/s, median (min to max)", "its CPU us a job"], rows))


if __name__ == "__main__":
    main()

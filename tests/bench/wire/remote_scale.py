#!/usr/bin/python3
"""What many remote workers cost: the processor time of a daemon to which 10,000 idle workers are connected, the time until the jobs of a killed
worker are queued again, and the shares of two users over 200 remote slots. README.md says how each is measured. Prints a report in
Markdown."""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import sys
import tempfile
import time

import report
import servers
from scale import raise_file_limit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, merged, wait_for
from remote_worker import RemoteWorker, port_for_workers
from resp import encode
from users import PASSWORD, users

HANDLER = "far"
PATIENCE_S = 120  # for what takes a second on an idle machine
SOCKETS_A_PROCESS = 1_000
BLOCK_MS = 300_000  # the most that there is
PAYLOAD_BYTES = 32
LOOK_S = 0.0002  # between two looks at a batch
SLOTS_OF_KILLED = [256, 4_096]  # the more slots, the fewer jobs a lease has
WARM_UP_LEASES, MOST_SETTLED = 20, 2_000
WORKER_DAEMONS = 4
SHORTEST_S, LONGEST_S = 0.001, 1.0
WARM_UP_S = 5
BATCHES = {"one": 1, "ten": 10}  # of each user, whose name says it

# A process for each task, that is forked and has its own sockets; killed, if it is still there, when this one ends.
fork = multiprocessing.get_context("fork")


def progress(text):
    print(text, file=sys.stderr)


@contextlib.contextmanager
def started(target, *arguments):
    """A process that runs target(pipe, …), and this side of the pipe. It is killed at the end."""
    ours, theirs = fork.Pipe()

    def run():
        servers.prepare_child()
        ours.close()
        target(theirs, *arguments)

    process = fork.Process(target=run)
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


def told(pipe, what):
    if not pipe.poll(PATIENCE_S):
        raise SystemExit(f"waited {PATIENCE_S} s for {what}")
    try:
        return pipe.recv()
    except EOFError:
        raise SystemExit(f"the process that was to report {what} has failed: its error is above") from None


def owner(**settings):
    base = {"workers": {"port": 0}, "handlers": {HANDLER: {"remote": True}}}
    return contextlib.closing(Daemon(merged(base, settings)))


# Idle workers.


def wait_idly(pipe, port, count, push):
    """`count` workers join and wait for jobs, until the other side of the pipe says a word; then says how many of them have received a byte meanwhile."""
    hello = encode("HELLO", 3) if push else b""
    join = encode("JOIN", "idle", "SLOTS", 1, *(["PUSH"] if push else []), "HANDLERS", HANDLER)
    sockets = []
    for _ in range(count):
        worker = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        worker.sendall(hello + join)
        reply = b""
        while b"addresses" not in reply:  # the last key of JOIN's
            piece = worker.recv(4096)
            if not piece or b"-" == piece[:1]:
                raise SystemExit(f"JOIN was not accepted: {(reply + piece)!r}")
            reply += piece
        sockets.append(worker)
    for worker in sockets:
        worker.sendall(encode("CLAIM", "BLOCK", BLOCK_MS))
    pipe.send("waiting")
    pipe.recv()
    woken = 0
    for worker in sockets:
        worker.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            woken += bool(worker.recv(1))
    pipe.send(woken)


def cpu_ns(daemon):
    """Of all its threads."""
    return sum(nanoseconds for _, nanoseconds, _ in daemon.threads().values())


def idle_row(count, seconds, push):
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(owner(limits={"max_clients": count + 10}))
        empty = daemon.resident_bytes()
        pipes, left = [], count
        while left:
            share = min(SOCKETS_A_PROCESS, left)
            pipes.append(stack.enter_context(started(wait_idly, port_for_workers(daemon), share, push))[1])
            left -= share
        for pipe in pipes:
            told(pipe, "workers to join")
        joined = lambda: daemon.metrics()["locksley_remote_workers"] == count
        wait_for(f"{count} workers to be joined", joined, PATIENCE_S, every=0.5)
        time.sleep(2)  # its picture of them is made, and the allocator at rest
        full = daemon.resident_bytes()
        before, began = cpu_ns(daemon), time.monotonic()
        time.sleep(seconds)
        after, passed = cpu_ns(daemon), time.monotonic() - began
        for pipe in pipes:
            pipe.send("over")
        woken = sum(told(pipe, "the end") for pipe in pipes)
        if woken or not joined():
            raise SystemExit(f"{woken} of {count} workers were not idle, or have left")
    return [
        f"{count:,}" + (", PUSH" if push else ""),
        f"{(after - before) / 1e9 / passed:.2%}",
        report.number((after - before) / 1e6),
        report.number(before / 1e3 / count),
        report.number((full - empty) / count),
    ]


def idle_workers(options):
    raise_file_limit(options.workers + 200)
    rows = []
    for push in (False, True):
        progress(f"{options.workers:,} idle workers{', with PUSH' if push else ''}")
        rows.append(idle_row(options.workers, options.idle_seconds, push))
    heads = ["idle workers", "of a core", f"CPU ms in {options.idle_seconds} s", "CPU us to join", "bytes a worker"]
    return report.table(heads, rows)


# A worker that is killed.


def hold_jobs(pipe, daemon, jobs, slots):
    """A worker that settles jobs until the daemon knows how short they are, leases `jobs` more, says in how many leases, and does nothing."""
    worker = RemoteWorker(daemon, HANDLER, slots=slots, name="to-be-killed")
    for _ in range(WARM_UP_LEASES):
        lease = worker.claim("JOBS", MOST_SETTLED // WARM_UP_LEASES)
        worker.settle(lease, lease.payloads)
    held = leases = 0
    while held < jobs:
        lease = worker.claim("JOBS", jobs - held)
        held, leases = held + lease.count, leases + 1
    pipe.send(leases)
    pipe.recv()


def unclaimed(connection):
    """Jobs that are queued in the ring, of all batches for remote workers. STATUS would count those of a lease that have not started as queued, too."""
    return int(re.search(r"lane_processes:.*queued=(\d+)", connection("INFO", "lanes"))[1])


def run_what_is_left(daemon, connection, batch):
    worker = RemoteWorker(daemon, HANDLER, name="rescuer")
    try:
        worker.work(str, until=lambda: connection.status(batch)["state"] == "done")
    finally:
        worker.close()


def kill_once(daemon, connection, jobs, slots):
    """Seconds until all are queued again, from the end of the process and from SIGKILL; leases; jobs lost; jobs recorded twice."""
    payloads = [f"{n:0{PAYLOAD_BYTES}}" for n in range(jobs + MOST_SETTLED)]
    batch = connection("SUBMIT", HANDLER, "JOBS", *payloads)
    with started(hold_jobs, daemon, jobs, slots) as (process, pipe):
        leases = told(pipe, "a worker to lease the jobs")
        left = len(payloads) - connection.status(batch)["ok"]
        if unclaimed(connection) != left - jobs:
            raise SystemExit(f"the worker should hold {jobs} of {left} jobs; {unclaimed(connection)} are not claimed")
        killed = time.monotonic()
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its connection has been closed just before
        ended = time.monotonic()
        while (queued := unclaimed(connection)) != left:
            if time.monotonic() > ended + PATIENCE_S:
                raise SystemExit(f"{queued} of {left} jobs are queued {PATIENCE_S} s after the end of the worker")
            time.sleep(LOOK_S)
        back = time.monotonic()
    run_what_is_left(daemon, connection, batch)
    rows = connection.results(batch)
    right = {index for index, status, output in rows if status == "ok" and output == payloads[index]}
    connection("FORGET", batch)
    return back - ended, back - killed, leases, len(payloads) - len(right), len(rows) - len({row[0] for row in rows})


def killed_workers(options):
    rows = []
    for slots in SLOTS_OF_KILLED:
        with owner() as daemon, daemon.connect(timeout=PATIENCE_S) as connection:
            samples = []
            for number in range(options.kills):
                progress(f"kill {number + 1} of {options.kills}, a worker of {slots:,} slots")
                samples.append(kill_once(daemon, connection, options.jobs, slots))
        from_end, from_kill, leases, lost, twice = zip(*samples)
        milliseconds = lambda values: report.spread([value * 1000 for value in values])
        held = f"{options.jobs:,} in {statistics.median(leases):,.0f} leases"
        rows.append([held, milliseconds(from_end), milliseconds(from_kill), sum(lost), sum(twice)])
    heads = [f"jobs held, {options.kills} kills", "queued again, ms after the process's end", "ms after SIGKILL", "lost", "recorded twice"]
    return report.table(heads, rows)


# Two users.


def log_in(daemon, name):
    connection = daemon.connect(timeout=PATIENCE_S)
    connection("HELLO", 2, "AUTH", name, PASSWORD.format(name))
    return connection


def worker_daemons(stack, daemon, folder, slots):
    """Daemons that have the slots between them; each job is a process of its own, `sleep`."""
    password = pathlib.Path(folder, "password")
    password.write_text(PASSWORD.format("worker"))
    password.chmod(0o400)
    url = f"redis://worker@127.0.0.1:{port_for_workers(daemon)}"
    for number in range(WORKER_DAEMONS):
        share = slots // WORKER_DAEMONS + (number < slots % WORKER_DAEMONS)
        if share:
            handler = {"command": ["sleep", "{}"], "input": "argument", "concurrency": share}
            upstream = {"url": url, "handlers": [HANDLER], "password_file": str(password), "name": f"machine-{number}"}
            stack.enter_context(contextlib.closing(Daemon({"upstream": upstream, "handlers": {HANDLER: handler}, "pool": {"workers": 1}, "lanes": {"processes": {"slots": share}}})))


def submit(connection, batches, jobs):
    """Ids, and the seconds of each job."""
    submitted = {}
    for _ in range(batches):
        payloads = [f"{random.uniform(SHORTEST_S, LONGEST_S):.6f}" for _ in range(jobs // batches)]
        submitted[connection("SUBMIT", HANDLER, "JOBS", *payloads)] = [float(payload) for payload in payloads]
    return submitted


def rows_so_far(connection, batch):
    """Of a batch that goes on: all pages that there are."""
    rows, cursor, before = [], "0", None
    while cursor != before:
        before = cursor
        cursor, page = connection("RESULTS", batch, "FROM", cursor, "COUNT", 10_000)
        rows += page
    return rows


def received(daemon, connections, batches):
    """So far, of each user: seconds that the owner has charged, jobs that have ended, seconds that these slept."""
    page = daemon.metrics()  # one moment for both
    found = {}
    for name, connection in connections.items():
        rows = [(batch, index, status) for batch in batches[name] for index, status, _ in rows_so_far(connection, batch)]
        if failed := [row for row in rows if row[2] != "ok"]:
            raise SystemExit(f"jobs failed: {failed[:5]}")
        slept = sum(batches[name][batch][index] for batch, index, _ in rows)
        found[name] = [page[f'locksley_tenant_busy_seconds_total{{tenant="{name}"}}'], len(rows), slept]
    return found


def two_users(options):
    slots, seconds = options.slots, options.share_seconds
    named = {name: {"handlers": [HANDLER]} for name in BATCHES}
    settings = users(worker={"commands": ["work"], "handlers": [HANDLER]}, **named)
    jobs = int(3 * slots * (seconds + WARM_UP_S) / (SHORTEST_S + LONGEST_S) * 2)  # thrice what all slots can run
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        daemon = stack.enter_context(owner(**settings))
        worker_daemons(stack, daemon, folder, slots)
        wait_for("all slots", lambda: sum(value for key, value in daemon.metrics().items() if key.startswith("locksley_remote_slots")) == slots)
        connections = {name: stack.enter_context(log_in(daemon, name)) for name in BATCHES}
        batches = {name: submit(connections[name], count, jobs) for name, count in BATCHES.items()}
        progress(f"two users over {slots} slots, {seconds} s")
        time.sleep(WARM_UP_S)
        began, before = time.monotonic(), received(daemon, connections, batches)
        time.sleep(max(0, began + seconds - time.monotonic()))
        passed, after = time.monotonic() - began, received(daemon, connections, batches)
    gained = {name: [now - then for now, then in zip(after[name], before[name])] for name in BATCHES}
    total = sum(charged for charged, _, _ in gained.values())
    rows = [
        [f"{name}, {BATCHES[name]} batch{'es' * (BATCHES[name] > 1)}", report.number(charged), f"{charged / total:.2%}", f"{ended:,}", report.number(slept)]
        for name, (charged, ended, slept) in gained.items()
    ]
    apart = lambda column: abs(gained["one"][column] - gained["ten"][column]) / (sum(values[column] for values in gained.values()) / len(gained))
    text = f"Apart by {apart(0):.2%} of their mean as charged, {apart(2):.2%} as slept. {total / passed / slots:.1%} of the slots' time was charged."
    heads = ["user", f"received in {passed:.1f} s, s of slots", "share", "jobs ended", "s that these slept"]
    return report.table(heads, rows) + "\n\n" + text


PARTS = {
    "idle": ("Idle workers", idle_workers),
    "kills": ("A worker that is killed", killed_workers),
    "users": ("Two users over remote slots", two_users),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between (default: %(default)s)")
    for name, default, meaning in (
        ("--workers", 10_000, "idle: workers"),
        ("--idle-seconds", 20, "idle: for how long"),
        ("--kills", 20, "kills: how many, of each kind"),
        ("--jobs", 4_096, "kills: jobs that the worker holds"),
        ("--slots", 200, "users: remote slots"),
        ("--share-seconds", 60, "users: for how long"),
    ):
        parser.add_argument(name, type=int, default=default, help=f"{meaning} (default: %(default)s)")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only: no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    servers.unwind_on_signals()
    os.environ["LOCKSLEYD"] = str(report.programs(options.build, ["locksleyd"])["locksleyd"])
    report.print_parts("Many remote workers", options.build, [PARTS[name] for name in chosen], options)


if __name__ == "__main__":
    main()

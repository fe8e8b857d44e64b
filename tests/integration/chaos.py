#!/usr/bin/python3
"""Bad programs among good ones, on the same lanes: they crash, hang, do not hear, leak, flood, bomb, answer garbage, are cancelled.

    chaos.py [--minutes 0.4] [--seed S]

What must hold: each job ends once, with the status that its program earns and with its own output; batches of good jobs that are on a lane all
the time get the same share of its time; and when all is over, no process is left but idle workers, and descriptors and memory are what they were.

The seed decides what is submitted, not how processes meet: a failure may need several runs to come again. It is printed, with what went wrong."""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import Daemon, wait_for
from programs import PYTHON, are_asleep, children, descriptors, keeper_of, marked, new_mark, resident_kib, shell, worker

CLIENTS = 4
HANGS_MS = 300  # so long what hangs is given
# A batch's share is judged once it has had the time of so many of the longest jobs of such batches, which a busy machine prolongs, and bombs do: one job more
# or less in each slot then changes it by less than the test allows. If that takes longer than ENOUGH_S, it is judged as it is.
ENOUGH_JOBS, ENOUGH_S = 10, 90
TOO_MUCH = "its output is larger than max_output (256KiB)"

# Scripts, and how they end: statuses, and what is in the output. {n} is the job's own number.
COMMANDS = {
    "echo {n}": ("ok", "{n}\n"),
    "exit 0 # {n}": ("ok", ""),
    "echo {n} >&2; exit 7": ("error", "exit status 7: {n}"),
    "kill -SEGV $$": ("crashed", "killed by signal 11"),
    "kill -KILL $$": ("crashed", "killed by signal 9"),
    "exec cat /dev/zero": ("error", TOO_MUCH),
    "head -c 3000000 /dev/zero >&2; echo {n}": ("ok", "{n}\n"),
    "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1": ("error", "exit status 1: …xxx"),
    "setsid sleep 1000 & sleep 1000 & echo {n}": ("ok", "{n}\n"),
    "(setsid sh -c 'sleep 1000 & sleep 1000' &) ; exit 3": ("error", "exit status 3"),
    f"exec {PYTHON} -c 'x = [open(\"/dev/null\") for i in range(100)]'": ("error", "Too many open files"),
    f"exec {PYTHON} -c 'x = bytearray(1 << 30)'": ("error", "MemoryError"),
    "exec /no/such/program": ("error", "exit status 127"),
    "exec <&- >&- 2>&-": ("ok", ""),
}  # fmt: skip
WORKERS = {
    "answer({n})": ("ok", "{n}"),
    "error('ERR {n}')": ("error", "ERR {n}"),
    "os._exit(5)": ("crashed", "the worker ended with exit status 5"),
    "os.abort()": ("crashed", "the worker was killed by signal 6"),
    "raw('what?\\n')": ("error", "wrote what is no answer"),
    "raw(':{n}\\r\\n')": ("error", "something else than a bulk string"),
    "answer(b'x' * 300_000)": ("error", "max_output (256KiB)"),
    "[os.write(1, b'x' * 65536) for i in range(1000)]": ("error", "wrote what is no answer"),
    "[os.write(2, b'x' * 65536) for i in range(20)]; answer({n})": ("ok", "{n}"),
    "os.fork() or time.sleep(1000); answer({n})": ("ok", "{n}"),
    "os.fork() or (os.setsid(), time.sleep(1000)); answer({n})": ("ok", "{n}"),
    "globals().setdefault('kept', []).extend([os.dup(0) for i in range(20)]); answer({n})": (("ok", "crashed"), ""),
    "globals().setdefault('kept', []).append(b'x' * 50_000_000); answer({n})": (("ok", "crashed"), ""),
    "os.closerange(0, 3); os._exit(6)": ("crashed", "the worker ended with exit status 6"),
}  # fmt: skip
HANGS = {
    "sh": ["sleep 1000", "trap '' TERM INT HUP; while :; do sleep 0.05; done", "setsid sleep 1000 & sleep 1000", "yes >&2", "kill -STOP $$"],
    "py": ["time.sleep(1000)", "signal.signal(15, signal.SIG_IGN); time.sleep(1000)", "raw('$9\\r\\nhalf'); flush(); time.sleep(1000)", "os.kill(os.getpid(), 19)",
           "os.fork(); time.sleep(1000)"],
}  # fmt: skip
# Run as a user of their own, whose processes the kernel counts.
BOMBS = [":() { :|:& }; :", ":() { setsid sh -c 'sleep 1000' & : ; }; :", "while :; do sleep 1000 & done"]


class Wrong(Exception):
    pass


class Client:
    """One at a time uses its connection."""

    def __init__(self, number, daemon, seed, stop):
        self.daemon, self.random, self.stop = daemon, random.Random(f"{seed}/{number}"), stop
        self.number = number * 1_000_000
        self.count = collections.Counter()
        self.trouble = None

    def work(self):
        moves = [self.mixed, self.mixed, self.mixed, self.hanging, self.cancelled, self.dying] + [self.bombs] * (os.geteuid() == 0)
        try:
            with self.daemon.connect(timeout=120) as self.connection:
                while not self.stop.is_set():
                    self.random.choice(moves)()
        except Exception as error:
            self.trouble = error if isinstance(error, Wrong) else Wrong(traceback.format_exc())
            self.stop.set()

    def run(self, handler, jobs, *options, cancel_after=None):
        """`jobs`: payload, allowed statuses, a part of the output."""
        batch = self.connection("SUBMIT", handler, *options, "JOBS", *[job[0] for job in jobs])
        if cancel_after is not None:
            time.sleep(cancel_after)
            self.connection("CANCEL", batch)
        status = self.connection.wait(batch, 100)
        rows = self.connection.results(batch)
        if sorted(row[0] for row in rows) != list(range(len(jobs))):
            raise Wrong(f"batch {batch} of {handler}: {len(jobs)} jobs, rows of {sorted(row[0] for row in rows)}")
        counted = collections.Counter(row[1] for row in rows)
        if (status["ok"], status["cancelled"], status["failed"]) != (counted["ok"], counted["cancelled"], counted.total() - counted["ok"] - counted["cancelled"]):
            raise Wrong(f"batch {batch} of {handler}: the rows are {counted}, STATUS says {status}")
        for index, ended, output in rows:
            payload, allowed, part = jobs[index]
            if cancel_after is not None and ended == "cancelled":
                continue
            output = output.encode("latin-1").decode(errors="replace")
            if ended not in allowed or part not in output or (ended == "ok" and len(allowed) == 1 and output != part):
                raise Wrong(f"job {index} of {handler}, {payload[:100]!r}, ended {ended}, {output[:300]!r}; not {allowed}, {part!r}")
        self.count.update(f"{handler} {row[1]}" for row in rows)
        self.connection("FORGET", batch)

    def some(self, kinds, most):
        jobs = []
        for _ in range(self.random.randint(1, most)):
            payload, (allowed, part) = self.random.choice(list(kinds.items()))
            self.number += 1
            fill = lambda text: text.replace("{n}", str(self.number))
            jobs.append((fill(payload), (allowed,) if isinstance(allowed, str) else allowed, fill(part)))
        return jobs

    def mixed(self):
        self.run(*self.random.choice((("sh", self.some(COMMANDS, 20)), ("py", self.some(WORKERS, 40)))))

    def hanging(self):
        handler = self.random.choice(("sh", "py"))
        payload = self.random.choice(HANGS[handler])
        self.run(handler, [(payload, ("timeout",), f"timed out after {HANGS_MS}ms")] * self.random.randint(1, 3), "TIMEOUT", HANGS_MS)

    def cancelled(self):
        handler = self.random.choice(("sh", "py"))
        hang = [(self.random.choice(HANGS[handler]), (), "")]
        mixed = self.some(COMMANDS if handler == "sh" else WORKERS, 10)
        self.run(handler, mixed + hang, "WEIGHT", self.random.choice((1, 5)), cancel_after=self.random.random() * 0.5)

    def dying(self):
        self.run("dies", [("x", ("crashed",), "the worker ended with exit status 1")])
        self.run("absent", [("x", ("error",), "its directory cannot be entered: No such file or directory")])

    def bombs(self):
        jobs = [(self.random.choice(BOMBS), ("ok", "error", "timeout", "crashed"), "")] * self.random.randint(1, 2)
        self.run("bomb", jobs, "TIMEOUT", HANGS_MS)


def settings(mark):
    limits = {"files": 60, "memory": "500MiB", "processes": 5000}
    # The mark is the script's $0, so that whatever it starts as a shell has it, too.
    handlers = {
        "sh": shell(command=["sh", "-c", "{}", mark], concurrency=3, max_output="256KiB", grace="100ms", limits=limits),
        "py": worker(mark, concurrency=3, max_output="256KiB", grace="100ms", limits=limits, max_jobs=500, max_memory="150MiB"),
        "dies": {"worker": ["false"]},
        "absent": {"worker": ["true"], "directory": "/no/such"},
    }
    if os.geteuid() == 0:
        handlers["bomb"] = shell(command=["sh", "-c", "{}", mark], user="nobody", concurrency=1, grace="100ms", limits={"processes": 40})
    return {"handlers": handlers, "log": {"level": "error"}}


def footprint(daemon, mark):
    """Descriptors and memory of daemon and keeper once nothing runs; what belongs to idle workers is not counted."""
    keeper = keeper_of(daemon)
    seen = []

    def quiet():
        if not are_asleep(daemon.pid, keeper):  # one may have something to do, and wait for the processor
            return None
        workers = children(keeper)
        # What a worker has forked stays while the worker does, in its group or, with a session of its own, below it.
        if len(workers) > 3 or not set(marked(mark)) <= below(workers):
            return None
        # One that is on its way out is there for a moment.
        seen.append((workers, descriptors(daemon.pid) - 3 * len(workers), descriptors(keeper)))
        return seen[-1][1:] if len(seen) > 20 and all(look == seen[-1] for look in seen[-20:]) else None

    return *wait_for("no process to be left but idle workers", quiet), resident_kib(daemon.pid), resident_kib(keeper)


def below(pids):
    """These processes, and all that they have started and that started since."""
    found, ahead = set(), list(pids)
    while ahead:
        pid = ahead.pop()
        found.add(pid)
        with contextlib.suppress(OSError):  # it has ended
            ahead += children(pid)
    return found


def storm(daemon, connection, mark, seconds, seed, count):
    """Clients at work, and two batches of good jobs on each lane."""
    good = {handler: [connection("SUBMIT", handler, "KEEP", "none", "RANGE", 0, 10**7, job) for _ in range(2)] for handler, job in (("sh", "true {}"), ("py", "answer({})"))}
    stop = threading.Event()
    clients = [Client(number, daemon, seed, stop) for number in range(CLIENTS)]
    threads = [threading.Thread(target=client.work, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    slots = daemon.metrics()['locksley_lane_slots{lane="processes"}']
    received, looks, longest, began = collections.Counter(), 0, 0.0, time.monotonic()
    passed = lambda: time.monotonic() - began
    enough = lambda: min(received.values()) / looks * slots * passed() >= ENOUGH_JOBS * longest
    while not stop.is_set() and (passed() < seconds or (passed() < ENOUGH_S and not enough())):
        stop.wait(1)
        looks += 1
        for batch in sum(good.values(), []):
            received[batch] += float(connection.explain(batch)["received"])
            longest = max([longest, *(row[3] / 1000 for row in connection("RUNNING", batch))])
    shares = {handler: [(connection.status(batch), received[batch] / looks) for batch in batches] for handler, batches in good.items()}
    stop.set()
    for thread in threads:
        thread.join(120)
    for client in clients:
        count.update(client.count)
        if client.trouble:
            raise client.trouble
    for handler, ((first, first_share), (second, second_share)) in shares.items():
        print(f"good jobs of {handler}: {first['ok']} and {second['ok']}, which had {first_share:.1%} and {second_share:.1%} of the lane")
        # Equal weights: equal time. How many jobs fit into it depends on what they met.
        if not 0.7 < first_share / second_share < 1 / 0.7 or min(first["ok"], second["ok"]) == 0:
            raise Wrong(f"two batches of equal jobs on lane {handler} got {first_share} and {second_share} of it, and {first['ok']} and {second['ok']} done")
        if first["failed"] + second["failed"] != 0:
            raise Wrong(f"good jobs of {handler} failed: {first}, {second}")
    for batch in sum(good.values(), []):
        connection("CANCEL", batch)
        connection.wait(batch)
        connection("FORGET", batch)
    return footprint(daemon, mark)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes} minutes", flush=True)
    mark, count = new_mark(), collections.Counter()
    daemon = Daemon(settings(mark))
    try:
        with daemon.connect() as connection:
            # The first third fills what fills once: buffers, the allocator's arenas.
            before = storm(daemon, connection, mark, options.minutes * 20, f"{options.seed}/1", count)
            after = storm(daemon, connection, mark, options.minutes * 40, f"{options.seed}/2", count)
            if after[:2] != before[:2]:
                raise Wrong(f"descriptors of daemon and keeper: {before[:2]} before, {after[:2]} after")
            if after[2] > before[2] * 1.5 + 30_000 or after[3] > before[3] + 4_000:
                raise Wrong(f"memory of daemon and keeper in KiB: {before[2:]} before, {after[2:]} after")
        daemon.close()
        wait_for("no process to be left", lambda: not marked(mark))
    except BaseException as error:
        print(f"FAILED with seed {options.seed}")
        print(error if isinstance(error, Wrong) else traceback.format_exc())
        if daemon.log_path.exists():
            print(f"the daemon's log:\n{daemon.log()[-4000:]}")
            daemon.process.kill()
        return 1
    print("; ".join(f"{what}: {n}" for what, n in sorted(count.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Four hostile users at once, each with all attacks, and one user who measures.

    hostile_users.py [--minutes 0.25] [--seed S]

What must hold: memory stays within 1.25 times the limits, what RocksDB is configured to take, max_output for each executor, and 128 MiB; the
store stays near its limit on the disk; the user who measures is refused nothing, keeps the results of a batch that has ended, has its share of
the workers' time, and its PINGs wait as they do beside mere processor load, within a factor: in processor time of the I/O thread, which other
programs do not prolong.

An attack is a function of an Attacker: it is called again and again in a thread of its own. To add one, add it to ATTACKS."""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from attempts import ATTEMPTS
from locksley_daemon import Daemon, end_with_parent, merged, wait_for
from neighbour import Timer, summary
from processor_reference import slowdown
from programs import PYTHON
from resp import Closed, CommandError, Connection, Error, encode
from users import ALL, BUILTIN, PASSWORD, users

MIB = 1 << 20
HOSTILE = ["mallory", "malvolio", "medea", "moriarty"]
GOOD = "grace"
LIMITS = {"max_queued_bytes": 64 * MIB, "max_result_bytes": 64 * MIB, "max_record_bytes": 32 * MIB, "client_memory": 64 * MIB}
STORE_BYTES = 256 * MIB
ROCKSDB = (32 + 192) * MIB  # kBlockCache in daemon/store/embedded/rocks_options.cc, and three memtables of a large disk (disk_reserve.cc)
MAX_OUTPUT = 4 * MIB
SLOW = "PINGs wait"  # a short run is repeated if this alone is wrong
EXECUTORS = 4  # two pool workers, two slots of `crash`
LOST = (Closed, OSError, AssertionError)  # the last: a reply that does not come in time is the attacker's own loss
CRASH = "import os, sys; sys.stdin.buffer.readline(); os.abort()"


def settings(folder):
    return merged(
        {
            "pool": {"workers": 2},
            "limits": {**LIMITS, "max_payload": "1MiB", "output_buffer": "8MiB", "max_command": "16MiB", "max_clients": 1000},
            "store": {"path": str(folder / "store"), "durability": "none", "max_bytes": STORE_BYTES},
            "handlers": {"crash": {"worker": [PYTHON, "-c", CRASH], "concurrency": 2, "max_output": MAX_OUTPUT, "retries": 2}},
        },
        users(**{name: {**BUILTIN, "handlers": [*BUILTIN["handlers"], "crash"]} for name in HOSTILE}, grace=BUILTIN, root={"commands": ALL}),
    )


class Attacker:
    """One attack of one user, with a connection that it may lose at any moment."""

    def __init__(self, daemon, user, seed):
        self.host, self.port, self.http = daemon
        self.user = user
        self.chance = random.Random(seed)
        self.command = None
        self.refusals = 0

    def connect(self, **options):
        connection = Connection(self.host, self.port, timeout=20, **options)
        try:
            connection("AUTH", self.user, PASSWORD.format(self.user))
        except CommandError as refusal:  # its own connections have used up limits.max_clients
            self.refusals += 1
            connection.close()
            raise Closed(str(refusal)) from None
        return connection

    def ask(self, *words):
        reply = self.command.ask(*words)
        self.refusals += isinstance(reply, Error)
        return reply

    def again_and_again(self, attack, until):
        while time.monotonic() < until:
            with contextlib.suppress(*LOST):
                if self.command is None:
                    self.command = self.connect()
                attack(self)
                continue
            if self.command is not None:
                self.command.close()
            self.command = None
            time.sleep(0.05)


def fill_results(attacker):
    attacker.ask("SUBMIT", "echo", "EPHEMERAL", "RANGE", 0, 100_000, "x" * 60_000)
    time.sleep(1)


def fill_patterns(attacker):
    attacker.ask("SUBMIT", "sleep", "DELAY", 5_000, "RANGE", 0, 10_000_000, "{}" * attacker.chance.randrange(100_000))


def fill_store(attacker):
    payload = attacker.chance.randbytes(300_000)
    attacker.ask("SUBMIT", "echo", "JOBS", *[payload] * 10)


def make_records(attacker):
    attacker.command.send(b"".join(encode("OPEN", "echo", "NAME", "n" * 200) for _ in range(500)))
    for _ in range(500):
        attacker.refusals += isinstance(attacker.command.read(), Error)
    first = attacker.ask("SUBMIT", "fail", "DELAY", 3_000, "RANGE", 0, 1)
    if not isinstance(first, Error):
        attacker.command.send(b"".join(encode("SUBMIT", "echo", "AFTER", first, "RANGE", 0, 1) for _ in range(500)))
        for _ in range(500):
            attacker.refusals += isinstance(attacker.command.read(), Error)


def read_nothing(attacker):
    batch = attacker.ask("SUBMIT", "echo", "RANGE", 0, 100, "x" * 60_000)
    greedy = []
    with contextlib.suppress(*LOST):
        for _ in range(30):
            greedy.append(attacker.connect(receive_buffer=4096))
            greedy[-1].send(encode("RESULTS", batch, "COUNT", 1000) * 50)
        for connection in greedy[:10]:
            connection.send(encode("CLIENT", "REPLY", "OFF") + encode("ECHO", "x" * 100_000) * 10)
    time.sleep(1)
    for connection in greedy:
        connection.close()


def leave_commands_half_sent(attacker):
    half = []
    with contextlib.suppress(*LOST):
        for _ in range(20):
            half.append(attacker.connect())
            half[-1].send(b"*3\r\n$4\r\nECHO\r\n$15000000\r\n" + b"x" * 2_000_000)
    time.sleep(1)
    for connection in half:
        connection.close()


def fail_and_retry(attacker):
    batch = attacker.ask("SUBMIT", "fail", "RETRIES", 3, "RANGE", 0, 200_000)
    attacker.ask("WAIT", batch, 2_000)
    attacker.ask("RETRY", batch)
    attacker.ask("CANCEL", batch)


def crash_workers(attacker):
    attacker.ask("WAIT", attacker.ask("SUBMIT", "crash", "RANGE", 0, 3), 2_000)


def guess_and_linger(attacker):
    for _ in range(20):
        with Connection(attacker.host, attacker.port, timeout=20) as connection:
            connection.send(encode("AUTH", GOOD, "wrong"))
        with socket.create_connection(attacker.http, timeout=20) as half_head:
            half_head.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ")
    attacker.ask("PING")
    time.sleep(0.5)


ATTACKS = [
    fill_results, fill_patterns, fill_store, make_records, read_nothing, leave_commands_half_sent, fail_and_retry, crash_workers, guess_and_linger,
]


def attack(host, port, http_host, http_port, user, seed, seconds):
    """A hostile user: a process with a thread for each attack. Prints how many refusals it got."""
    until = time.monotonic() + float(seconds)
    attackers = [Attacker((host, int(port), (http_host, int(http_port))), user, f"{seed} {i}") for i in range(len(ATTACKS))]
    threads = [threading.Thread(target=attacker.again_and_again, args=(each, until)) for attacker, each in zip(attackers, ATTACKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(attacker.refusals for attacker in attackers), flush=True)


class Grace:
    """The user who measures."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.timer = Timer(daemon.pid)
        self.command = self.connect()
        self.asked = 0
        self.command("SUBMIT", "echo", "ID", "kept", "JOBS", "kept")
        self.command.wait("kept")

    def connect(self):
        connection = self.daemon.connect(timeout=120)
        connection("AUTH", GOOD, PASSWORD.format(GOOD))
        return connection

    def measure(self, seconds):
        """Her PINGs and small RUNs, while a batch of hers always has jobs to run. A refusal is an exception."""
        load = self.connect()
        pings, most_rss = [], 0
        end = time.monotonic() + seconds
        batch = None
        while time.monotonic() < end:
            if batch is None or load.status(batch)["state"] == "done":
                batch = load("SUBMIT", "spin", "EPHEMERAL", "KEEP", "none", "RANGE", 0, 20_000, 200)
                self.asked += 1
            for _ in range(40):
                pings.append(self.timer.measure(lambda: self.command("PING")))
                time.sleep(0.002)
            if self.command("RUN", "echo", "JOBS", "a", "b") != [["ok", "a"], ["ok", "b"]]:
                raise AssertionError("a RUN has other results")
            self.asked += 1
            most_rss = max(most_rss, self.daemon.resident_bytes())
        load("CANCEL", batch)
        load.close()
        return summary(pings), most_rss


def busy_seconds(daemon):
    """Worker time that each user's jobs have used."""
    begin = 'locksley_tenant_busy_seconds_total{tenant="'
    return {name[len(begin) : -2]: value for name, value in daemon.metrics().items() if name.startswith(begin)}


class Attack:
    """The hostile users, each a process, for so many seconds."""

    def __init__(self, daemon, seed, seconds):
        http = daemon.http[len("http://") :].rsplit(":", 1)
        call = lambda user: [sys.executable, "-B", os.path.abspath(__file__), "attack", daemon.host, str(daemon.port), *http, user, f"{seed} {user}", str(seconds)]
        self.processes = {user: subprocess.Popen(call(user), stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent) for user in HOSTILE}

    def refusals(self):
        """Of each, once all have ended."""
        return {user: int(process.communicate()[0] or -1) for user, process in self.processes.items()}


def size_of(folder):
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_blocks * 512
    return total


def beside_load(daemon, grace, seconds):
    """The figures of the user who measures while the others only use the processor."""
    batches = []
    for user in HOSTILE:
        connection = daemon.connect()
        connection("AUTH", user, PASSWORD.format(user))
        batches.append((connection, connection("SUBMIT", "spin", "EPHEMERAL", "RANGE", 0, 10_000_000, 200)))
    pings, _ = grace.measure(seconds)
    for connection, batch in batches:
        connection("CANCEL", batch)
        connection.close()
    return pings


def check(folder, seed, minutes):
    """What is wrong, as lines."""
    seconds = 60 * minutes
    daemon = Daemon(settings(folder))
    try:
        grace = Grace(daemon)
        before = beside_load(daemon, grace, min(30, seconds / 3))
        busy = busy_seconds(daemon)
        attack = Attack(daemon, seed, seconds)
        with slowdown() as machine:
            pings, most_rss = grace.measure(seconds)
        busy = {user: used - busy.get(user, 0) for user, used in busy_seconds(daemon).items()}
        disk = size_of(folder / "store")
        refusals = attack.refusals()
        kept = grace.command.results("kept")
        repeated = grace.command("SUBMIT", "echo", "ID", "kept", "JOBS", "kept")
    finally:
        log = daemon.log()
        daemon.close()
    share = busy[GOOD] / sum(busy.values())
    most = 1.25 * sum(LIMITS.values()) + ROCKSDB + MAX_OUTPUT * EXECUTORS + 128 * MIB
    print(f"PINGs beside processor load: {before}\n         beside the attacks:     {pings}")
    print(f"share of the measuring user {share:.3f} of {len(HOSTILE) + 1} users; asked {grace.asked} times and refused nothing; others were refused {refusals}")
    print(f"RSS {most_rss >> 20} MiB at most, allowed {int(most) >> 20}; store {disk >> 20} MiB, limit {STORE_BYTES >> 20}", flush=True)
    wrong = []
    if most_rss > most:
        wrong.append("memory")
    if disk > 1.5 * STORE_BYTES + 64 * MIB:
        wrong.append("disk")
    if share < 0.9 / (len(HOSTILE) + 1):
        wrong.append("share")
    if pings["p50"] > 5 * machine.factor + 10 * before["p50"] or pings["p99"] > 20 * machine.factor + 10 * before["p99"]:
        wrong.append(SLOW)
    if kept != [[0, "ok", "kept"]] or repeated != "kept":
        wrong.append(f"a batch that had ended is gone: {kept}, {repeated}")
    if min(refusals.values()) <= 0:
        wrong.append("a hostile user was refused nothing, or did not end well")
    if wrong:
        print(f"--- log of the daemon\n{log[-8000:]}---")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.25)
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    for _ in range(ATTEMPTS):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="locksley-hostile-"))
        try:
            wrong = check(folder, arguments.seed, arguments.minutes)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if wrong != [SLOW] or arguments.minutes > 1:
            break
    if wrong:
        raise SystemExit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["attack"]:
        attack(*sys.argv[2:])
    else:
        main()

#!/usr/bin/python3
"""Everything at once: good load of all kinds, abuse, connections killed, the configuration re-read, subscriptions, scrapes.

    soak.py [--minutes 0.5] [--seed S] [--secure]

With --secure by TLS, as users with passwords, beside others who try wrong ones.

What must hold: each batch that was accepted has each of its results once, with the right output; and whenever the load pauses (each minute, or
oftener in a short run), memory, descriptors, threads and child processes are what they were after the warm-up. The latency of a client that does
no harm is printed.

A kind of load is a function of a Load and a random.Random, called again and again by a thread of its own, on a connection that it gets and may
lose at any moment: GOOD checks what it gets, BAD does harm. To add one, add it to the list."""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import traceback
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import Daemon, merged, wait_for
from neighbour import Neighbour, text
from programs import PYTHON, children, keeper_of
from resp import Closed, Connection, Error, encode, is_message
from secured import Secured
from users import PASSWORD

MEBI = 1 << 20
WORKER = """
import sys
source, out = sys.stdin.buffer, sys.stdout.buffer
def bulk(): return source.read(int(source.readline()[1:]) + 2)[:-2]
while source.readline():
    payload, index, batch = bulk(), bulk(), bulk()
    out.write(b"$%d\\r\\n%b\\r\\n" % (len(payload), payload))
    out.flush()
"""
OUTPUTS = {
    "echo": lambda payload: payload,
    "sha256": lambda payload: hashlib.sha256(payload.encode()).hexdigest(),
    "cat": lambda payload: payload,
    "worker": lambda payload: payload,
}
LATEST_S = 120  # after the end, for what has never come to an end
LOST = (Closed, OSError, ssl.SSLError)  # the connection: killed, refused, or closed by the daemon


def settings(folder, live=0):
    """`live` varies what a running daemon takes over."""
    worker = folder / "soak_worker.py"
    if not worker.exists():  # nor is it written again: a worker that starts meanwhile would find an empty program, and end
        worker.write_text(WORKER)
    return {
        "limits": {"max_clients": 2000, "output_buffer": "4MiB", "client_memory": "64MiB", "max_queued_jobs": 1_000_000 + live, "idle_timeout": "60s"},
        "store": {"path": str(folder / "store"), "durability": "async"},
        "handlers": {
            "cat": {"command": ["cat"], "concurrency": 2},
            "worker": {"worker": [PYTHON, str(worker)], "concurrency": 2},
        },
    }


class Wrong(Exception):
    pass


class Load:
    """What the threads share."""

    def __init__(self, daemon, folder, secured):
        self.daemon = daemon
        self.folder = folder
        self.secured = secured
        self.own = threading.local()
        self.count = collections.Counter()
        self.wrong = []
        self.ending = threading.Event()
        self.paused = threading.Event()
        self.lock = threading.Lock()
        self.at_work = 0

    def connect(self, **options):
        if self.secured is None:
            return Connection(self.daemon.host, self.daemon.port, **options)
        return self.secured.connect(self.daemon, self.own.user, **options)

    def settings(self, live=0):
        return merged(settings(self.folder, live), self.secured.settings if self.secured else {})

    def run(self, work, seed, user):
        """work(), again and again, as this user, until the end; nothing while the load pauses."""
        self.own.user = user
        chance = random.Random(seed)
        while not self.ending.is_set():
            if self.paused.is_set():
                time.sleep(0.02)
                continue
            with self.lock:
                self.at_work += 1
            try:
                work(self, chance)
                self.count[work.__name__] += 1
            except LOST:
                self.count[work.__name__ + " (cut off)"] += 1
            except BaseException:
                self.wrong.append(f"{work.__name__}: {traceback.format_exc()}")
            finally:
                with self.lock:
                    self.at_work -= 1

    def until_done(self, act):
        """What act(connection) returns, on a new connection whenever one is lost: what each command is asked for, it may be asked again."""
        for _ in range(200):
            try:
                with self.connect() as connection:
                    return act(connection)
            except LOST:
                self.count["asked again"] += 1
                time.sleep(0.01)
        raise Wrong("200 connections were lost in a row")


# ---- Good load ----


def check(handler, payloads, rows):
    got = collections.Counter(index for index, _, _ in rows)
    if sorted(got.elements()) != list(range(len(payloads))):
        raise Wrong(f"{len(payloads)} jobs, results {sorted(got.items())[:20]}")
    for index, status, output in rows:
        if (status, output) != ("ok", OUTPUTS[handler](payloads[index])):
            raise Wrong(f"job {index} of {handler}: {status} {output[:100]!r}")


def forget(connection, batch):
    if connection("FORGET", batch) not in (0, 1):
        raise Wrong("FORGET")


def submit(load, chance):
    handler = chance.choice(list(OUTPUTS))
    few = handler in ("cat", "worker")
    payloads = [f"{chance.random()}" * chance.choice((1, 1, 10)) for _ in range(chance.choice((1, 3, 30) if few else (1, 10, 3000)))]
    batch = f"s-{uuid.uuid4().hex}"
    load.until_done(lambda connection: connection("SUBMIT", handler, "ID", batch, "RETRIES", 1, "JOBS", *payloads))
    load.until_done(lambda connection: connection.wait(batch))
    check(handler, payloads, load.until_done(lambda connection: connection.results(batch, count=chance.choice((7, 1000)))))
    load.until_done(lambda connection: forget(connection, batch))
    load.count["jobs"] += len(payloads)


def run(load, chance):
    payloads = [f"{i}" for i in range(chance.randint(1, 50))]
    handler = chance.choice(("echo", "sha256", "worker"))
    with load.connect() as connection:
        rows = [[index, *row] for index, row in enumerate(connection("RUN", handler, "JOBS", *payloads))]
    check(handler, payloads, rows)
    load.count["jobs"] += len(payloads)


def stream(load, chance):
    """Through one connection; if it is lost, the batch is left to be closed, or not, by whoever has it."""
    batch, payloads = f"o-{uuid.uuid4().hex}", []
    with load.connect() as connection:
        try:
            connection("OPEN", "echo", "ID", batch)
            for _ in range(chance.randint(1, 10)):
                more = [f"{chance.random()}" for _ in range(chance.randint(1, 200))]
                payloads += more
                connection("ADD", batch, *more)
            connection("CLOSE", batch)
        except LOST:
            load.until_done(lambda other: other.ask("CANCEL", batch))
            raise
    load.until_done(lambda connection: connection.wait(batch))
    check("echo", payloads, load.until_done(lambda connection: connection.results(batch)))
    load.until_done(lambda connection: forget(connection, batch))
    load.count["jobs"] += len(payloads)


def look(load, chance):
    with load.connect() as connection:
        for words in (("INFO",), ("LIST", "COUNT", 100), ("LIST", "MATCH", "*a*"), ("CONFIG", "GET", "*"), ("TENANTS",), ("HANDLERS",), ("CLIENT", "LIST"), ("WORKERS",)):
            connection(*words)


def listen(load, chance):
    """All events of a batch of its own arrive, in order."""
    batch = f"l-{uuid.uuid4().hex}"
    with load.connect() as listener:
        listener("PSUBSCRIBE", f"batch:{batch[:20]}*")
        load.until_done(lambda connection: connection("SUBMIT", "echo", "ID", batch, "EPHEMERAL", "RETAIN", 1, "JOBS", "a"))
        kinds = []
        while not kinds or kinds[-1] not in ("done", "cancelled"):
            message = listener.read()
            if not is_message(message):
                raise Wrong(f"not a message: {message}")
            kinds.append(json.loads(message[3])["event"])
        if [kind for kind in kinds if kind != "progress"] != ["accepted", "started", "done"]:
            raise Wrong(f"events {kinds}")


def scrape(load, chance):
    load.daemon.metrics()
    time.sleep(0.2)


def reread(load, chance):
    load.daemon.configure(load.settings(live=chance.randint(0, 1000)))
    load.daemon.send_signal(signal.SIGHUP)
    time.sleep(0.5)


# ---- Harm ----


def kill(load, chance):
    """Some connection or other, the neighbour's excepted, which is the oldest."""
    with load.connect() as connection:
        ids = sorted(int(line.split()[0][3:]) for line in connection("CLIENT", "LIST").split("\n") if line)[2:]
        if ids:
            connection("CLIENT", "KILL", "ID", chance.choice(ids))
    time.sleep(0.02)


def deaf(load, chance):
    """Asks for much and reads nothing."""
    with load.connect(receive_buffer=4096) as connection:
        connection.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            connection.send(encode("COMMAND", "DOCS") * 500)
            time.sleep(0.1)


def half(load, chance):
    """Half of a command, and gone."""
    with load.connect() as connection:
        connection.send(b"*4\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$4\r\nJOBS\r\n$%d\r\n" % (10 * MEBI) + b"x" * chance.randint(0, MEBI))
        if chance.random() < 0.5:
            connection.half_close()


def rubbish(load, chance):
    with load.connect() as connection:
        connection.send(chance.choice((b"*1\r\nfoo\r\n", b"POST / HTTP/1.1\r\n", b"\x16\x03\x01\0", b"*3000000000\r\n", chance.randbytes(200) + b"\n\0")))
        connection.half_close()
        connection.read_until_closed()


def pipeline(load, chance):
    with load.connect() as connection:
        connection.send(encode("EXPLAIN", "nobody") * 2000)
        for _ in range(2000):
            if not isinstance(connection.read(), Error):
                raise Wrong("EXPLAIN of nobody")


def crowd(load, chance):
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            each = stack.enter_context(socket.create_connection((load.daemon.host, load.daemon.port), timeout=30))
            each.sendall(b"PING\r\n" if chance.random() < 0.5 else b"*2\r\n$4\r\n")


def runs_away(load, chance):
    """A RUN whose client does not stay: its batch is cancelled."""
    with load.connect() as connection:
        connection.send(encode("RUN", "sleep", "JOBS", *["200"] * 4))


def guess(load, chance):
    """Wrong passwords, from an address of its own, since that is what is slowed down."""
    if load.secured is None:
        return time.sleep(1)
    with socket.create_connection((load.daemon.host, load.daemon.port), timeout=30, source_address=("127.0.0.2", 0)) as plain:
        with load.secured.context.wrap_socket(plain, server_hostname=load.daemon.host) as peer:
            for _ in range(3):
                peer.sendall(encode("AUTH", chance.choice(("alice", "nobody")), f"{chance.random()}"))
                reply = peer.recv(1000)
                if not reply:
                    return  # killed, as others are
                if not reply.startswith((b"-WRONGPASS", b"-ERR too many")):
                    raise Wrong(f"a wrong password: {reply}")


GOOD = [submit, submit, submit, run, stream, look, listen, scrape, reread]
BAD = [kill, deaf, half, rubbish, pipeline, crowd, runs_away, guess]


def descriptors_beside_store(pid, folder):
    """How many tables the store has open changes as it sees fit."""
    names = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            names.append(os.readlink(entry.path))
    return sum(not name.startswith(str(folder)) for name in names)


def sample(load, neighbour):
    """What the daemon holds while nobody asks for anything."""
    load.paused.set()
    wait_for("the load to pause", lambda: load.at_work == 0 or load.wrong, 120)
    metrics = load.daemon.metrics
    wait_for("the connections to go", lambda: metrics()["locksley_connections"] <= 1, 60, every=0.1)
    idle = lambda: all(value == 0 for key, value in metrics().items() if key.startswith("locksley_lane_queued_jobs"))
    wait_for("the jobs to end", idle, 60, every=0.1)
    pid = load.daemon.pid
    seen = {
        "rss_mib": load.daemon.resident_bytes() >> 20,
        "descriptors": descriptors_beside_store(pid, load.folder),
        "threads": len(load.daemon.threads()),
        "children": len(children(keeper_of(load.daemon))),
    }
    figures = neighbour.figures()
    print(f"{seen}; neighbour: {text(figures)}", flush=True)
    load.paused.clear()
    return seen


def soak(load, minutes, seed):
    neighbour = Neighbour(load.daemon, login=load.secured and (load.secured.authority, "admin", PASSWORD.format("admin")))
    user = lambda i, work: "admin" if work is kill else Secured.NAMES[i % 2]
    threads = [
        threading.Thread(target=load.run, args=(work, f"{seed}/{i}", user(i, work)), daemon=True) for i, work in enumerate(GOOD + BAD)
    ]
    for thread in threads:
        thread.start()
    try:
        stretch = min(60, minutes * 60 / 4)
        samples, end = [], time.monotonic() + minutes * 60
        missing = lambda: [work.__name__ for work in GOOD + BAD if load.count[work.__name__] == 0]
        # On a slow machine for longer: until each kind of load has come to an end once.
        while (time.monotonic() < end or missing() and time.monotonic() < end + LATEST_S) and not load.wrong:
            stop = max(min(end, time.monotonic() + stretch), time.monotonic() + 1)
            while time.monotonic() < stop and not load.wrong:
                time.sleep(0.1)
            samples.append(sample(load, neighbour))
    finally:
        load.ending.set()
        for thread in threads:
            thread.join(120)
        print(dict(load.count), flush=True)
    neighbour.close()
    if load.wrong:
        raise Wrong("\n".join(load.wrong))
    if missing():
        raise Wrong(f"never came to an end: {missing()}")
    # The first half fills what fills once: buffers, caches, the allocator's arenas, the batches that stay in memory.
    warm, last = samples[len(samples) // 2], samples[-1]
    if last["rss_mib"] > warm["rss_mib"] * 1.1 + 32:
        raise Wrong(f"memory grows: {samples}")
    for what in ("descriptors", "threads", "children"):
        if last[what] > warm[what] + 4:
            raise Wrong(f"{what}: {samples}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--secure", action="store_true")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="locksley-soak-") as name:
        folder = pathlib.Path(name)
        load = Load(None, folder, Secured(folder, settings(folder)["handlers"]) if options.secure else None)
        load.daemon = daemon = Daemon(load.settings())
        try:
            soak(load, options.minutes, options.seed)
            daemon.close()
        except BaseException:
            print(f"--- log of the daemon\n{daemon.log()[-8000:]}---")
            daemon.process.kill()
            daemon.process.wait()
            raise


if __name__ == "__main__":
    main()

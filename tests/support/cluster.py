"""Daemons that share one PostgreSQL server: the active one, those that stand by, and clients that find the active one as it changes."""

import collections
import threading
import time

from locksley_daemon import DEADLINE_S, Daemon, wait_for
from resp import Closed, Connection, Error


class ClusterDaemon(Daemon):
    """A daemon of a cluster. It counts as started once it says where it listens, whether it is active or not."""

    def _read_ready_line(self):
        self._read_line()

    @property
    def is_active(self):
        return self.ready_line.startswith("ready ")

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def wait_active(self):
        while not self.is_active:
            self._read_line()
        return self


class ClusterClient:
    """Sends each command to the active daemon, again and again until it has its reply: as a client does whose commands can be repeated.
    One thread at a time. `seeds`: the daemons that it knows, a list that the test may change. `login`: user and password, or nothing."""

    REPLY_S = 2.0  # a daemon that is paused says nothing

    def __init__(self, seeds, login=()):
        self.seeds, self.login = seeds, login
        self.connection = None
        self.redirected = 0
        self.unanswered = 0  # commands that were sent and have no reply: they may have been executed
        self.refused = collections.Counter()  # by the first word of the error

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def connect(self, address):
        self.close()
        host, port = address.rsplit(":", 1)
        self.connection = Connection(host, int(port), timeout=self.REPLY_S)
        if self.login:
            self.connection("AUTH", *self.login)

    def __call__(self, *words, seconds=2 * DEADLINE_S):
        """Sends the command until a reply comes that is no sign of a change of daemons."""
        end = time.monotonic() + seconds
        turn = 0
        last = None
        while time.monotonic() < end:
            try:
                if self.connection is None:
                    seeds = list(self.seeds)
                    self.connect(seeds[turn % len(seeds)].address)
                last = self.connection.ask(*words)
            except (OSError, Closed, AssertionError) as error:  # AssertionError: no reply in time
                last = error
                self.unanswered += self.connection is not None
                self.close()
            if isinstance(last, Error):
                self.refused[last.split(" ", 1)[0]] += 1
            if isinstance(last, Error) and last.startswith("READONLY the active daemon is "):
                self.redirected += 1
                try:
                    self.connect(last.rsplit(" ", 1)[1])
                    time.sleep(0.01)
                    continue
                except (OSError, Closed, AssertionError) as error:
                    last = error
                    self.close()
            if not isinstance(last, Exception) and not (isinstance(last, Error) and last.split(" ", 1)[0] in ("READONLY", "LOADING", "DRAINING", "STORE")):
                return last
            self.close()
            turn += 1
            time.sleep(0.02)
        raise AssertionError(f"waited {seconds} s for a reply to {words[0]}; last seen: {last!r}")


class Submitter:
    """A thread that submits batches with IDs, one after the other, and keeps those that were acknowledged."""

    JOBS = 20
    PAUSE_S = 0.02  # so few batches that each can be looked at

    def __init__(self, name, seeds, login=()):
        self.name = name
        self.client = ClusterClient(seeds, login)
        self.acknowledged = []
        self.checked = 0  # of these, by the test
        self.trouble = None
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def payloads(self, batch):
        return [f"{batch}/{index}" for index in range(self.JOBS)]

    def run(self):
        try:
            number = 0
            while not self.stop.is_set():
                batch = f"{self.name}-{number}"
                reply = self.client("SUBMIT", "echo", "ID", batch, "JOBS", *self.payloads(batch))
                if reply != batch:
                    raise AssertionError(f"SUBMIT of {batch} has the reply {reply!r}")
                self.acknowledged.append(batch)
                number += 1
                self.stop.wait(self.PAUSE_S)
        except BaseException as error:
            self.trouble = error
        finally:
            self.client.close()

    def end(self):
        self.stop.set()
        self.thread.join(3 * DEADLINE_S)
        if self.thread.is_alive():
            raise AssertionError(f"{self.name} does not end")
        if self.trouble is not None:
            raise self.trouble


def await_batches(submitters, more):
    """Waits until each submitter has `more` acknowledged batches more than now."""
    marks = [(each, len(each.acknowledged) + more) for each in submitters]
    wait_for(
        "batches to be accepted",
        lambda: any(each.trouble for each, _ in marks) or all(len(each.acknowledged) >= mark for each, mark in marks),
        2 * DEADLINE_S,
    )

"""A remote worker by hand: a connection to the daemon's port for workers, and what one does with a lease."""

import re
from typing import NamedTuple

from locksley_daemon import wait_for
from resp import Connection, pairs


class Lease(NamedTuple):
    """The reply to CLAIM."""

    name: str
    batch: int
    handler: str
    first: int
    count: int
    attempt: int
    timeout_ms: int
    trace: str
    payloads: list
    id: str
    tenant: str
    slots: list
    range: list
    note: str

    @property
    def end(self):
        return self.first + self.count


def port_for_workers(daemon):
    return int(re.search(r" workers=\S*:(\d+)", daemon.ready_line)[1])


class RemoteWorker(Connection):
    """A connection that has joined, unless `join` is false."""

    def __init__(self, daemon, *handlers, slots=1, lease=60_000, push=False, user=None, password=None, join=True, name="by-hand", host="127.0.0.1"):
        super().__init__(host, port_for_workers(daemon))
        if push or user:
            self("HELLO", 3 if push else 2, *(["AUTH", user, password] if user else []))
        if join:
            self.joined = pairs(self("JOIN", name, "SLOTS", slots, "LEASE", lease, *(["PUSH"] if push else []), "HANDLERS", *handlers))

    def claim(self, *options, block=30_000):
        """A lease; None after `block` ms."""
        reply = self("CLAIM", *options, *(["BLOCK", block] if block else []))
        return None if reply is None else Lease(*reply)

    def settle(self, lease, outputs, status="ok", first=None):
        """[recorded, left]"""
        return self("SETTLE", lease.name, status, lease.first if first is None else first, *outputs)

    def work(self, run, until):
        """Runs leases, a job after the other, until until() is true."""
        while not until():
            lease = self.claim(block=50)
            if lease is not None:
                self.settle(lease, [run(payload) for payload in lease.payloads])


def machines(connection):
    """The remote workers that WORKERS lists."""
    return [row for row in map(pairs, connection("WORKERS")) if row["kind"] == "remote"]


def wait_for_machines(connection, count):
    return wait_for(f"{count} machines", lambda: found if len(found := machines(connection)) == count else None)

"""A worker on any machine: `python3 -m locksley module:app --url redis://…`, over proto/WORKER_PROTOCOL.md.

The main thread has the connection: it sends what there is to say, all at once, and takes the replies as they come. Each slot has a
thread, which runs one lease after the other; coroutines run side by side in a loop of their own. So BEATs go out whatever the jobs do, as
long as they do not hold Python's global lock for longer than the lease. While jobs are short, that lock changes hands every few
milliseconds: so one SETTLE has the results of hundreds."""

from __future__ import annotations

import collections
import functools
import os
import queue
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from .errors import Refused
from .wire import BLOCK_MS, BROKEN, ELSEWHERE, ERROR_REPLIES, LATER, REPLY_S, Addresses, as_map, checked, log, redis, refusal, text
from .worker import Job, run_job

if TYPE_CHECKING:
    from .app import App

_BEAT_S = 1.0  # at most: STOP and CUT come in the reply of BEAT
_SHORT_S = 0.02  # while its leases take less, a slot has the next one there already
_SETTLE_BYTES = 4 << 20
Step = tuple[tuple[Any, ...], Callable[[Any], object]]  # a command, and the function that takes its reply


class Lease:
    """A range of jobs that this worker holds. The slot's thread calls run(), the main thread all else."""

    def __init__(self, worker: RemoteWorker, slot: int, reply: list[Any]) -> None:
        name, self.batch, handler, self._first, count, self.attempt, timeout_ms, trace, self._payloads, id, *_ = reply
        self._range, note = reply[12:14]
        self._worker, self.slot, self.name, self.id = worker, slot, text(name), text(id)
        self.has_run = self.is_over = False
        self._told = text(handler), self.attempt, text(trace or b""), text(note or b""), timeout_ms / 1000, self._tell
        self._lock = threading.Lock()
        # Guarded by the lock.
        self.next: int = self._first  # the first that has not started
        self._high: int = self._first + count
        self.left: set[int] = set(range(self._first, self._high))  # what the daemon takes this worker to hold
        self._ended: dict[int, tuple[str, bytes]] = {}  # status and output of those of them that have ended
        self._unsent: list[int] = []  # those of them that are to be settled
        self._job: Job | None = None

    def run(self) -> None:
        job = self._following()
        while job:
            end = run_job(self._worker.app, job, self._payload(job.index))
            job = self._following(job.index, end)

    def _following(self, index: int = -1, end: tuple[str, bytes] = ("", b"")) -> Job | None:
        """The next job; the one before ended so."""
        with self._lock:
            if index in self.left:
                self._ended[index] = end
                self._unsent.append(index)
                self._worker.stir()
            while self.next < self._high and self.next not in self.left:
                self.next += 1  # it runs elsewhere
            index, self._job = self.next, None
            if index < self._high and not self._worker.stopping:
                self.next, self._job = index + 1, Job(self.id, index, *self._told)
            return self._job

    def _payload(self, index: int) -> bytes:
        if self._range is None:
            return self._payloads[index - self._first]  # type: ignore[no-any-return]
        number = b"%d" % (int(self._range[0]) + index - self._first)
        return number if self._range[1] is None else bytes(self._range[1]).replace(b"{}", number)

    def _tell(self, job: Job, kind: str, value: Any) -> None:
        self._worker.say("NOTE", self.name, job.index, "PROGRESS" if kind == "progress" else "TEXT", value)

    def settles(self) -> list[Step]:
        """What has ended since the last time: a command for each run of indexes with the same status."""
        with self._lock:
            unsent, self._unsent = self._unsent, []
            ends = [(index, *self._ended[index]) for index in unsent]
        runs: list[tuple[int, str, list[bytes]]] = []
        size = 0
        for index, status, output in ends:
            if not runs or (index, status) != (runs[-1][0] + len(runs[-1][2]), runs[-1][1]) or size > _SETTLE_BYTES:
                runs.append((index, status, []))
                size = 0
            runs[-1][2].append(output)
            size += len(output)
        return [
            (("SETTLE", self.name, status, first, *outputs), functools.partial(self._settled, range(first, first + len(outputs))))
            for first, status, outputs in runs
        ]

    def _settled(self, indexes: range, reply: Any) -> None:
        if isinstance(reply, Refused):
            log.warning("jobs %d to %d of batch %s: %s", indexes[0], indexes[-1], self.id, reply)
        with self._lock:
            self.left.difference_update(indexes)
            for index in indexes:
                self._ended.pop(index, None)

    def reclaim(self, ask: Callable[..., Any]) -> None:
        """After a reconnect: what of it is still wanted, under a new name. The others run elsewhere."""
        name, ranges = "", cast(Any, [])
        try:
            name, ranges = ask("RECLAIM", self.batch, self.attempt, min(self.left), max(self.left) + 1, "SLOT", self.slot)
        except Refused as error:
            log.warning("%d jobs of batch %s run elsewhere: %s", len(self.left), self.id, error)
        with self._lock:
            self.name = text(name)
            self.left = {index for low, high in ranges for index in range(low, high) if index in self.left}
            self._ended = {index: end for index, end in self._ended.items() if index in self.left}
            self._unsent = sorted(self._ended)
            if self._job and self._job.index not in self.left:
                self._job.stop("lost")

    def cut(self, at: int = 0) -> list[Step]:
        """No job from `at` on starts, or from the first that has not: they are given back."""
        with self._lock:
            at = max(at, self.next)
            if at >= self._high:
                return []
            self._high, self.left = at, {index for index in self.left if index < at}
            return [(("YIELD", self.name, at), _ignore)]

    def stop(self) -> None:
        if job := self._job:
            job.stop("cancelled")


class RemoteWorker:
    """`url` may have several addresses; options are those of a connection of redis-py."""

    def __init__(
        self, app: App, url: str, *, slots: int = 1, name: str = "", lease_s: float = 10.0, grace_s: float = 30.0, **options: Any
    ) -> None:
        self.app, self.stopping = app, False
        self._addresses, self._handlers = Addresses(url, 7771, options), sorted({task.handler for task in app.tasks.values()})
        self._name, self._lease_ms, self._grace_s = name, int(lease_s * 1000), grace_s
        self._queues: list[queue.SimpleQueue[Lease]] = [queue.SimpleQueue() for _ in range(slots)]
        self._took_s = [1.0] * slots  # the last lease of each slot
        self._later: collections.deque[Step] = collections.deque()  # to send in the next round: any thread appends
        self._woken, self._waker = socket.socketpair()
        self._is_stirred = False
        # Of the main thread alone.
        self._leases: set[Lease] = set()
        self._draining = self._claiming = False  # claiming: a CLAIM waits at the daemon

    def run(self) -> int:
        """Until SIGTERM or SIGINT; a second one ends the process at once. An error of the configuration is a Refused."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for slot in range(len(self._queues)):
            threading.Thread(target=self._run_leases, args=(slot,), name=f"locksley-slot-{slot}", daemon=True).start()
        delay = 0.1
        while not self.stopping:
            began = time.monotonic()
            url, connection = self._addresses.connection(redis.ConnectionPool)
            try:
                self._serve(connection, self._join(connection))
            except (Refused, *ERROR_REPLIES, *BROKEN) as error:
                trouble = refusal(error) if isinstance(error, ERROR_REPLIES) else error
                if isinstance(trouble, Refused) and trouble.code not in LATER + ELSEWHERE and self._addresses.has(url):
                    raise trouble from None
                log.warning("%s: %s; trying again", Addresses.host(url), trouble or type(error).__name__)
                self._addresses.turn(url, str(trouble))
            finally:
                connection.disconnect()
            delay = 0.1 if time.monotonic() - began > 10 else min(delay * 2, 5.0)
            end = time.monotonic() + delay
            while not self.stopping and time.monotonic() < end:
                time.sleep(0.05)
        return 0

    def _stop(self, *_: Any) -> None:
        if self.stopping:
            os._exit(75)
        self.stopping = True
        log.info("stopping: jobs that run may end")
        self.stir()

    def stir(self) -> None:
        """There is something to send. Any thread may call it."""
        if not self._is_stirred:
            self._is_stirred = True
            self._waker.send(b"!")

    def say(self, *command: Any) -> None:
        """Any thread may call it. What is said is lost with its connection."""
        self._later.append((command, _ignore))
        self.stir()

    def _run_leases(self, slot: int) -> None:
        while True:
            lease = self._queues[slot].get()
            began = time.monotonic()
            lease.run()
            self._took_s[slot], lease.has_run = time.monotonic() - began, True
            self.stir()

    def _join(self, connection: Any) -> float:
        """Seconds from BEAT to BEAT."""

        def ask(*words: Any) -> Any:
            connection.send_command(*words)
            return checked([_reply(connection)])[0]

        connection.connect()
        joined = as_map(ask("JOIN", self._name, "SLOTS", len(self._queues), "LEASE", self._lease_ms, "HANDLERS", *self._handlers))
        self._addresses.add(map(text, joined["addresses"] if len(joined["addresses"]) > 1 else ()))  # a cluster
        self._draining = self._claiming = False
        self._later.clear()
        for lease in [lease for lease in self._leases if lease.left]:
            lease.reclaim(ask)
        log.info("joined for %s", ", ".join(self._handlers))
        return float(min(_BEAT_S, joined["beat_ms"] / 1000))

    def _serve(self, connection: Any, beat_s: float) -> None:
        """From JOIN until the worker was stopped and all has ended, or the connection breaks."""
        takes: collections.deque[Callable[[Any], object]] = collections.deque()  # of the commands whose replies are to come
        heard = beaten = time.monotonic()
        end, leaving = 0.0, False
        with selectors.DefaultSelector() as ready:
            ready.register(self._woken, selectors.EVENT_READ)
            ready.register(connection._sock, selectors.EVENT_READ)
            while not leaving or takes:
                self._is_stirred, moment = False, time.monotonic()  # before it looks
                steps = self._steps(moment - beaten >= beat_s)
                beaten = moment if moment - beaten >= beat_s else beaten
                is_holding = any(lease.left for lease in self._leases)
                if self.stopping and not leaving:
                    end = end or moment + self._grace_s
                    leaving = not is_holding or moment >= end
                    steps += [(("LEAVE",), _ignore)] if leaving else []  # jobs that still run go back
                if steps:
                    heard = heard if takes else moment
                    packed = connection.pack_commands([command for command, _ in steps])
                    connection.send_packed_command([b"".join(packed)])  # in one piece: each gives the global lock away
                    takes.extend(take for _, take in steps)
                elif takes and moment - heard > REPLY_S:
                    raise redis.TimeoutError("no reply")
                while connection.can_read(0):
                    heard = time.monotonic()
                    takes.popleft()(_reply(connection))
                    self._is_stirred = True  # a reply may have brought something to say
                rest = 0.05 if self.stopping else beat_s if is_holding else REPLY_S
                if not self._is_stirred and any(key.fileobj is self._woken for key, _ in ready.select(rest)):
                    self._woken.recv(16)

    def _steps(self, is_time_to_beat: bool) -> list[Step]:
        """What there is to say. A note comes before the end of its job, and so it is collected after that."""
        steps = [step for lease in list(self._leases) for step in self._steps_of(lease)]
        said = [self._later.popleft() for _ in range(len(self._later))]
        held = [word for lease in self._leases if lease.left for word in (lease.name, lease.next)]
        if held and is_time_to_beat:
            steps.append((("BEAT", *held), self._obey))
        slot = None if self.stopping or self._draining or self._claiming else self._slot_that_wants()
        if slot is not None:
            self._claiming = True
            steps.append((("CLAIM", "SLOT", slot, "BLOCK", BLOCK_MS), functools.partial(self._claimed, slot)))
        return said + steps

    def _steps_of(self, lease: Lease) -> list[Step]:
        lease.is_over = lease.has_run  # before its results are collected: with those the slot is free at the daemon, too
        steps = (lease.cut() if self.stopping else []) + lease.settles()
        if lease.is_over and not lease.left:
            self._leases.discard(lease)
        return steps

    def _slot_that_wants(self) -> int | None:
        busy = collections.Counter(lease.slot for lease in self._leases if not lease.is_over)
        quick = [slot for slot, took_s in enumerate(self._took_s) if busy[slot] == 1 and took_s < _SHORT_S]
        return next((slot for slot in range(len(self._queues)) if not busy[slot]), quick[0] if quick else None)

    def _claimed(self, slot: int, reply: Any) -> None:
        self._claiming = False
        if isinstance(reply, Refused) and reply.code != "DRAINING":
            raise reply
        if isinstance(reply, Refused):
            self._draining = True
        elif reply is not None:
            lease = Lease(self, slot, reply)
            self._leases.add(lease)
            if not self.stopping:  # else it goes back
                self._queues[slot].put(lease)

    def _obey(self, orders: Any) -> None:
        """The reply of BEAT."""
        by_name = {lease.name: lease for lease in self._leases}
        words: list[Any]
        for words in () if isinstance(orders, Refused) else orders:
            order, lease = text(words[0]), by_name.get(text(words[1])) if len(words) > 1 else None
            self._draining = self._draining or order == "DRAIN"
            if lease and order == "STOP":
                lease.stop()
            if lease:
                self._later += lease.cut(int(words[2]) if order == "CUT" else 0)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ERROR_REPLIES as error:
        return refusal(error)


def _ignore(_: Any) -> None:
    pass

"""A worker on any machine: `python3 -m locksley module:app --url redis://…`, over proto/WORKER_PROTOCOL.md.

The main thread has the connection: it sends all commands that are due at once, and takes the replies as they come. Each slot has a thread, which runs
one lease after the other; coroutines run side by side in a loop of their own. So BEATs go out whatever the jobs do, as long as they do not hold
Python's global lock for longer than the lease.

Short jobs keep that lock until their lease is over, at most a few milliseconds. So one SETTLE has the results of hundreds, and a lease is
given to its slot only after the CLAIM for the next one was sent."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, cast

from .errors import Refused
from .wire import BLOCK_MS, BROKEN, ELSEWHERE, ERROR_REPLIES, LATER, REPLY_S, STRANGE, Addresses, as_map, log, now, packed, redis, refusal, reply_of
from .wire import text, trouble_of
from .worker import Job, run_job

if TYPE_CHECKING:
    from .app import App

_BEAT_S = 1.0  # at most: STOP and CUT come in the reply of BEAT
_SHORT_S = 0.02  # a slot whose leases take less gets its next lease in advance
_SETTLE_BYTES = 4 << 20
Step = tuple[tuple[Any, ...], Callable[[Any], object]]  # a command, and the function that takes its reply


class Lease:
    """A range of jobs that this worker holds. The slot's thread calls run(), the main thread everything else. Both threads use deques, each at an end
    of its own, so that neither waits for a lock."""

    def __init__(self, worker: RemoteWorker, slot: int, reply: list[Any]) -> None:
        name, self.batch, handler, first, count, attempt, timeout_ms, trace, payloads, id, _, _, numbers, note, *_ = reply
        if numbers is not None:
            value, template = int(numbers[0]), b"{}" if numbers[1] is None else numbers[1]
            payloads = [template.replace(b"{}", b"%d" % number) for number in range(value, value + count)]
        self._worker, self.slot, self.name, self.id = worker, slot, text(name), text(id)
        self._attempt = attempt  # for RECLAIM: each restart of the daemon makes it one higher, while the jobs keep the one they got
        self._told = text(handler), attempt, text(trace or b""), text(note or b""), timeout_ms / 1000, self._tell
        self.has_run = self.is_over = False
        self._job: Job | None = None  # the last that has started
        self._is_stopped = False
        self.held = set(range(first, first + count))  # the jobs that this worker holds, as the daemon sees it: the main thread changes it
        self._waiting: collections.deque[tuple[int, bytes]] = collections.deque(zip(range(first, first + count), payloads))
        self._ended: collections.deque[tuple[int, str, bytes]] = collections.deque()  # index, status, output
        self._sent: list[tuple[int, str, list[bytes]]] = []  # first index, status, outputs; not acknowledged yet, in the order of SETTLEs

    def run(self) -> None:
        while not self._worker.stopping:
            try:
                index, payload = self._waiting.popleft()
            except IndexError:
                return
            if index in self.held:  # else it runs elsewhere
                job = self._job = Job(self.id, index, *self._told)
                status, output = ("cancelled", b"") if self._is_stopped else run_job(self._worker.app, job, payload)
                self._ended.append((index, status, output))
                self._worker.stir()

    def _tell(self, job: Job, kind: str, value: Any) -> None:
        self._worker.note(self, job.index, "PROGRESS" if kind == "progress" else "TEXT", value)

    @property
    def next(self) -> int:
        """The lowest index that has not started, for BEAT."""
        try:
            return self._waiting[0][0]
        except IndexError:
            return max(self.held) + 1

    def settles(self) -> list[Step]:
        """The commands for jobs that have ended since the last call: one for each run of indexes with the same status."""
        runs: list[tuple[int, str, list[bytes]]] = []
        following, size = (-1, ""), 0
        for _ in range(len(self._ended)):
            index, status, output = self._ended.popleft()
            if index in self.held:
                if (index, status) != following or size > _SETTLE_BYTES:
                    runs.append((index, status, []))
                    size = 0
                runs[-1][2].append(output)
                following, size = (index + 1, status), size + len(output)
        self._sent += runs
        return [(("SETTLE", self.name, status, first, *outputs), self._settled) for first, status, outputs in runs]

    def _settled(self, reply: Any) -> None:
        """Replies come in the order of the commands."""
        if isinstance(reply, Refused) and reply.code in LATER:  # the results are sent again on the next connection
            raise reply
        first, _, outputs = self._sent.pop(0)
        if isinstance(reply, Refused):
            log.warning("jobs %d to %d of batch %s: %s", first, first + len(outputs) - 1, self.id, reply)
        self.held.difference_update(range(first, first + len(outputs)))

    def reclaim(self, ask: Callable[..., Any]) -> None:
        """After a reconnect: claims the jobs of this lease again, under a new name. Jobs that the daemon does not give back run elsewhere."""
        name, ranges = "", cast(Any, [])
        words = ("RECLAIM", self.batch, self._attempt, min(self.held), max(self.held) + 1, "SLOT", self.slot)
        try:
            try:
                # With its name, since the daemon may not know yet that the old connection is gone.
                name, ranges, *attempt = ask(*words, "LEASE", self.name)
            except (Refused, *ERROR_REPLIES) as error:
                if refusal(error).code != "ERR":
                    raise
                name, ranges, *attempt = ask(*words)  # earlier daemons do not know LEASE
            self._attempt = attempt[0] if attempt else self._attempt  # daemons before 0.2 do not say it
        except (Refused, *ERROR_REPLIES) as error:
            log.warning("%d jobs of batch %s are no longer this worker's: they have ended, or run elsewhere: %s", len(self.held), self.id, error)
        self.name = text(name)
        self.held.intersection_update([index for low, high in ranges for index in range(low, high)])
        if self._job and self._job.index not in self.held:
            self._job.stop("lost")
        unsettled = [(first + at, status, output) for first, status, outputs in self._sent for at, output in enumerate(outputs)]
        self._ended.extendleft(reversed(unsettled))
        self._sent.clear()

    def cut(self, at: int = 0) -> list[Step]:
        """Gives back the jobs from `at` on that have not started."""
        first = None
        with contextlib.suppress(IndexError):  # the slot's thread has taken the last one
            while self._waiting[-1][0] >= at:
                first, _ = self._waiting.pop()
        if first is None:
            return []
        self.held.difference_update(range(first, max(self.held, default=first) + 1))
        return [(("YIELD", self.name, first), _ignore)]

    def stop(self) -> None:
        """Stops the running job, and the jobs that start nevertheless."""
        self._is_stopped = True
        if self._job:
            self._job.stop("cancelled")


class RemoteWorker:
    """`url` may have several addresses; options are those of a connection of redis-py."""

    def __init__(
        self, app: App, url: str, *, slots: int = 1, name: str = "", lease_s: float = 10.0, grace_s: float = 30.0, **options: Any
    ) -> None:
        self.app, self.stopping, self.end = app, False, 0.0  # end: of the grace time, once it is stopping
        self._addresses, self._handlers = Addresses(url, 7771, options), sorted({task.handler for task in app.tasks.values()})
        self._name, self._lease_ms, self._grace_s = name, int(lease_s * 1000), grace_s
        self._queues: list[queue.SimpleQueue[Lease]] = [queue.SimpleQueue() for _ in range(slots)]
        self._took_s = [1.0] * slots  # the last lease of each slot
        self._notes: dict[tuple[Lease, int, str], Any] = {}  # to send in the next round, the last of each kind and job: any thread adds
        self._woken, self._waker = socket.socketpair()
        self._is_stirred = False
        # Used by the main thread alone.
        self._store = ""  # the store whose batches are leased
        self._leases: list[Lease] = []  # of each slot in the order in which it runs them: so their results are settled in that order
        self._fresh: list[Lease] = []  # those that their slots do not have yet
        self._later: list[Step] = []  # to send in the next round
        self._draining = self._claiming = False  # claiming: a CLAIM waits at the daemon

    def run(self) -> int:
        """Runs until SIGTERM or SIGINT; a second one ends the process at once. Raises Refused for an error of the configuration."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for slot in range(len(self._queues)):
            threading.Thread(target=self._run_leases, args=(slot,), name=f"locksley-slot-{slot}", daemon=True).start()
        delay = 0.1
        while not self._is_over():
            began = time.monotonic()
            url, connection = self._addresses.connection(redis.ConnectionPool)
            try:
                self._serve(connection, self._join(connection))
            except (Refused, STRANGE, *ERROR_REPLIES, *BROKEN) as error:
                trouble = refusal(error) if isinstance(error, (STRANGE, *ERROR_REPLIES)) else error
                # Once the worker has joined, the page of a proxy whose daemon restarts is no reason to end.
                passes = (*LATER, *ELSEWHERE, "PROTOCOL") if self._store else LATER + ELSEWHERE
                if isinstance(trouble, Refused) and trouble.code not in passes and url in self._addresses.urls:
                    raise trouble from None
                log.warning("%s: %s; trying again", Addresses.host(url), trouble_of(trouble))
                self._addresses.turn(url, str(trouble))
            finally:
                connection.disconnect()
            # A daemon that has taken over gives the leased jobs to others after some seconds.
            delay = 0.1 if time.monotonic() - began > 10 else min(delay * 2, 0.5 if any(lease.held for lease in self._leases) else 5.0)
            end = time.monotonic() + delay
            while not self._is_over() and time.monotonic() < end:
                time.sleep(0.05)
        return 0

    def _is_over(self) -> bool:
        return self.stopping and (time.monotonic() >= self.end or not any(lease.held for lease in self._leases))

    def _stop(self, *_: Any) -> None:
        if self.stopping:
            os._exit(75)
        self.stopping, self.end = True, time.monotonic() + self._grace_s
        log.info("stopping: jobs that run may end")
        self.stir()

    def stir(self) -> None:
        """Wakes the main thread: there is something to send. Any thread may call it."""
        if not self._is_stirred:
            self._is_stirred = True
            self._waker.send(b"!")

    def note(self, lease: Lease, index: int, kind: str, value: Any) -> None:
        """Any thread may call it. A note that was sent is lost if its connection breaks."""
        self._notes[lease, index, kind] = value
        self.stir()

    def _run_leases(self, slot: int) -> None:
        try:
            while True:
                lease = self._queues[slot].get()
                began = time.monotonic()
                lease.run()
                self._took_s[slot], lease.has_run = time.monotonic() - began, True
                self.stir()
        except BaseException:  # a bug, or there is no memory. Without this thread, the jobs of its lease would never end
            try:
                log.critical("slot %d ended by an unexpected error, and this worker with it: its jobs run elsewhere", slot, exc_info=True)
            finally:
                os._exit(70)

    def _join(self, connection: Any) -> float:
        """Joins, and reclaims the leases. Returns the seconds from BEAT to BEAT."""

        def ask(*words: Any) -> Any:
            connection.send_command(*words)
            return connection.read_response()

        connection.connect()
        joined = as_map(ask("JOIN", self._name, "SLOTS", len(self._queues), "LEASE", self._lease_ms, "HANDLERS", *self._handlers))
        self._addresses.add(map(text, joined["addresses"] if len(joined["addresses"]) > 1 else ()))  # a cluster
        before, self._store = self._store, joined.get("store", "")
        self._draining = self._claiming = False
        self._later.clear()
        for lease in [lease for lease in self._leases if lease.held]:
            lease.reclaim(_lost if before and self._store not in ("", before) else ask)
        log.info("joined for %s", ", ".join(self._handlers))
        return float(min(_BEAT_S, joined["beat_ms"] / 1000))

    def _serve(self, connection: Any, beat_s: float) -> None:
        """Serves from JOIN on until the worker was stopped and all jobs have ended, or the connection breaks."""
        takes: collections.deque[Callable[[Any], object]] = collections.deque()  # of the commands whose replies are to come
        heard = beaten = time.monotonic()
        leaving = False
        while not leaving or takes:
            self._is_stirred, moment = False, time.monotonic()  # before the steps are collected
            # A CLAIM waits for less time. If this process was paused, its replies have arrived: then there is no timeout.
            if takes and moment - heard > REPLY_S and not connection.can_read(0):
                raise redis.TimeoutError(f"no reply for {REPLY_S:g} s")
            steps = self._steps(moment - beaten >= beat_s)
            beaten = moment if moment - beaten >= beat_s else beaten
            is_holding = any(lease.held for lease in self._leases)
            if not leaving and self._is_over():
                leaving = True
                steps.append((("LEAVE",), _ignore))  # jobs that still run go back
            if steps:
                heard = heard if takes else moment
                connection.send_packed_command([packed([command for command, _ in steps])])
                takes.extend(take for _, take in steps)
            for lease in self._fresh:
                self._queues[lease.slot].put(lease)
            self._fresh.clear()
            while connection.can_read(0):
                heard = time.monotonic()
                takes.popleft()(now(reply_of(connection)))
                self._is_stirred = True  # a reply may have brought something to say
            rest = 0.05 if self.stopping else beat_s if is_holding else REPLY_S
            if not self._is_stirred and self._woken in wait([self._woken, connection._sock], rest):
                self._woken.recv(16)

    def _steps(self, is_time_to_beat: bool) -> list[Step]:
        """The commands that are due. A note is sent before the end of its job, and so it is collected after that end."""
        steps = [step for lease in list(self._leases) for step in self._steps_of(lease)]
        for (lease, index, kind), value in [self._notes.popitem() for _ in range(len(self._notes))]:
            self._later.append((("NOTE", lease.name, index, kind, value), _ignore))
        said, self._later = self._later, []
        held = [word for lease in self._leases if lease.held for word in (lease.name, lease.next)]
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
        if lease.is_over and not lease.held:
            self._leases.remove(lease)
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
            self._leases.append(lease)
            if not self.stopping:  # else it goes back
                self._fresh.append(lease)

    def _obey(self, orders: Any) -> None:
        """Carries out the orders in the reply to BEAT."""
        by_name = {lease.name: lease for lease in self._leases}
        for words in () if isinstance(orders, Refused) else orders:
            order, name, at, *_ = [*map(text, words), "", ""]  # CUT name at, STOP name, or DRAIN
            self._draining = self._draining or order == "DRAIN"
            if lease := by_name.get(name):
                if order == "STOP":
                    lease.stop()
                self._later += lease.cut(int(at or 0))


def _ignore(_: Any) -> None:
    pass


def _lost(*_: Any) -> Any:
    raise Refused("LOST", "the daemon has another store")

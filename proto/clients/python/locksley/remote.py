"""A worker on any machine: `python3 -m locksley module:app --url redis://…`, over proto/WORKER_PROTOCOL.md.

The main thread has the connection: in rounds it sends what there is to say, all at once, and reads the replies. Each slot has a thread,
which runs one lease after the other; coroutines run side by side in a loop of their own. So BEATs go out whatever the jobs do, as long as
they do not hold Python's global lock for longer than the lease."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from .errors import Refused
from .wire import BLOCK_MS, LATER, as_map, connections, log, redis, refusal, text
from .worker import EventLoop, Job, run_job

if TYPE_CHECKING:
    from .app import App

_BEAT_S = 1.0  # at most: STOP and CUT come in the reply of BEAT
_SHORT_S = 0.02  # while its leases take less, a slot has the next one there already
_SETTLE_BYTES = 4 << 20
_BROKEN = (redis.ConnectionError, redis.TimeoutError, OSError)
Step = Tuple[Tuple[Any, ...], Callable[[Any], object]]  # a command, and the function that takes its reply


class Lease:
    """A range of jobs that this worker holds. The slot's thread calls run(), the thread of the connection all else."""

    def __init__(self, reply: List[Any], slot: int) -> None:
        name, self.batch, handler, self._first, count, self.attempt, timeout_ms, trace, self._payloads, id, *_ = reply
        self._range, note = reply[12:14]
        self.name, self.slot, self.has_run = text(name), slot, False
        self.id, told = text(id), {"trace": text(trace or b""), "note": text(note or b""), "timeout_s": timeout_ms / 1000}
        self._new_job = functools.partial(Job, self.id, handler=text(handler), attempt=self.attempt, **told)
        self._lock = threading.Lock()
        # Guarded by the lock.
        self.next: int = self._first  # the first that has not started
        self._high: int = self._first + count
        self.left: Set[int] = set(range(self._first, self._high))  # what the daemon takes this worker to hold
        self.ended: Dict[int, Tuple[str, bytes]] = {}  # status and output of those of them that have ended
        self._job: Optional[Job] = None

    def run(self, worker: RemoteWorker) -> None:
        while not worker.stopping:
            with self._lock:
                while self.next < self._high and self.next not in self.left:
                    self.next += 1  # it runs elsewhere
                if self.next >= self._high:
                    break
                index, self.next = self.next, self.next + 1
                job = self._job = self._new_job(index)
            job.tell = functools.partial(worker.tell, self, index)
            end = run_job(worker.app, job, self._payload(index), worker.coroutines)
            with self._lock:
                if index in self.left:
                    self.ended[index] = end
            worker.poke()
        self._job = None

    def _payload(self, index: int) -> bytes:
        if self._range is None:
            return bytes(self._payloads[index - self._first])
        number = b"%d" % (int(self._range[0]) + index - self._first)
        return number if self._range[1] is None else bytes(self._range[1]).replace(b"{}", number)

    def settles(self) -> List[Tuple[int, str, List[bytes]]]:
        """What has ended: runs of indexes with the same status, as first, status, outputs."""
        runs: List[Tuple[int, str, List[bytes]]] = []
        size = 0
        with self._lock:
            for index, (status, output) in sorted(self.ended.items()):
                if not runs or (index, status) != (runs[-1][0] + len(runs[-1][2]), runs[-1][1]) or size > _SETTLE_BYTES:
                    runs.append((index, status, []))
                    size = 0
                runs[-1][2].append(output)
                size += len(output)
        return runs

    def acknowledge(self, indexes: range) -> None:
        with self._lock:
            self.left.difference_update(indexes)
            for index in indexes:
                self.ended.pop(index, None)

    def reclaimed(self, name: str, ranges: List[List[int]]) -> None:
        """Under a new name, and only these jobs: the others run elsewhere."""
        with self._lock:
            self.name = name
            self.left = {index for low, high in ranges for index in range(low, high) if index in self.left}
            self.ended = {index: end for index, end in self.ended.items() if index in self.left}
            if self._job and self._job.index not in self.left:
                self._job.stop("lost")

    def cut(self, at: int = 0) -> Optional[int]:
        """No job from `at` on starts, or from the first that has not: where to YIELD from, if there is something."""
        with self._lock:
            at = max(at, self.next)
            if at >= self._high:
                return None
            self._high, self.left = at, {index for index in self.left if index < at}
            return at

    def stop(self) -> None:
        if job := self._job:
            job.stop("cancelled")


class RemoteWorker:
    def __init__(
        self, app: App, url: str, *, slots: int = 1, name: str = "", lease_s: float = 10.0, grace_s: float = 30.0, **options: Any
    ) -> None:
        self.app, self.coroutines, self.stopping = app, EventLoop(), False
        self._url, self._options = url, options
        self._name, self._lease_ms, self._grace_s = name, int(lease_s * 1000), grace_s
        self._handlers = sorted({task.handler for task in app.tasks.values()})
        self._leases: Set[Lease] = set()
        self._later: List[Step] = []  # to say in the next round: any thread appends
        self._queues: List[queue.SimpleQueue[Lease]] = [queue.SimpleQueue() for _ in range(slots)]
        self._took_s = [1.0] * slots  # the last lease of each slot
        self._stirred, self._sending = threading.Event(), threading.Lock()
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
            self._connection: Any = connections(self._url, redis.ConnectionPool, 7771, **self._options).make_connection()
            try:
                self._serve()
            except (Refused, *_BROKEN) as error:
                if isinstance(error, Refused) and error.code not in LATER:
                    raise
                log.warning("%s: %s; trying again", self._url.rsplit("@", 1)[-1], error or type(error).__name__)
            finally:
                with self._sending:
                    self._claiming = False
                    self._connection.disconnect()
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
        threading.Thread(target=self.poke).start()  # not here: the main thread may be sending

    def _run_leases(self, slot: int) -> None:
        while True:
            lease = self._queues[slot].get()
            began = time.monotonic()
            lease.run(self)
            self._took_s[slot], lease.has_run = time.monotonic() - began, True
            self.poke()

    def tell(self, lease: Lease, index: int, kind: str, value: Any) -> None:
        """A note is lost with its connection."""
        self._later.append((("NOTE", lease.name, index, "PROGRESS" if kind == "progress" else "TEXT", value), lambda _: None))
        self.poke()

    def poke(self) -> None:
        """There is something to say. A CLAIM that waits ends as soon as another command comes."""
        self._stirred.set()
        if self._claiming:
            with self._sending, contextlib.suppress(*_BROKEN):
                if self._claiming:
                    self._claiming = False
                    self._connection.send_command("BEAT")

    def _exchange(self, steps: List[Step]) -> None:
        with self._sending:
            self._connection.send_packed_command(self._connection.pack_commands([command for command, _ in steps]))
            self._claiming = steps[-1][0][0] == "CLAIM"
        if self._claiming and self._stirred.is_set():
            self.poke()
        for command, take in steps:
            take(self._reply())
            if command[0] == "CLAIM":
                with self._sending:
                    waspoked, self._claiming = not self._claiming, False
                if waspoked:
                    self._reply()

    def _reply(self) -> Any:
        try:
            return self._connection.read_response()
        except redis.ResponseError as error:
            return refusal(error)
        except (AttributeError, ValueError) as error:  # poke() has found it broken meanwhile, and redis-py has taken it apart
            raise redis.ConnectionError("the connection broke") from error

    def _refuse_to_connect(self) -> None:
        """redis-py would connect again in order to send, and that connection would not have joined."""
        raise redis.ConnectionError("the connection broke")

    def _ask(self, *words: Any) -> Any:
        replies: List[Any] = []
        self._exchange([(words, replies.append)])
        if isinstance(replies[0], Refused):
            raise replies[0]
        return replies[0]

    def _join(self) -> float:
        """Seconds from BEAT to BEAT."""
        try:
            self._connection.connect()
        except (redis.AuthenticationError, redis.ResponseError) as error:
            raise refusal(error) from error
        self._connection.connect = self._refuse_to_connect
        joined = as_map(self._ask("JOIN", self._name, "SLOTS", len(self._queues), "LEASE", self._lease_ms, "HANDLERS", *self._handlers))
        self._draining = False
        self._later.clear()
        for lease in [lease for lease in self._leases if lease.left]:
            try:
                name, ranges = self._ask("RECLAIM", lease.batch, lease.attempt, min(lease.left), max(lease.left) + 1, "SLOT", lease.slot)
                lease.reclaimed(text(name), ranges)
            except Refused as error:
                log.warning("%d jobs of batch %s run elsewhere: %s", len(lease.left), lease.id, error)
                lease.reclaimed("", [])
        log.info("joined for %s", ", ".join(self._handlers))
        return float(min(_BEAT_S, joined["beat_ms"] / 1000))

    def _serve(self) -> None:
        """From JOIN until the worker was stopped and all has ended, or the connection breaks."""
        beat_s, beaten, end = self._join(), time.monotonic(), 0.0
        while True:
            self._stirred.clear()
            steps: List[Step] = []
            for lease in list(self._leases):
                if self.stopping:
                    steps += self._cut(lease)
                for first, status, outputs in lease.settles():
                    settled = functools.partial(self._settled, lease, range(first, first + len(outputs)))
                    steps.append((("SETTLE", lease.name, status, first, *outputs), settled))
                if not lease.left and lease.has_run:
                    self._leases.discard(lease)
            later, self._later = self._later, []
            steps[:0] = later  # a note comes before the end of its job
            held = [lease for lease in self._leases if lease.left]
            if held and time.monotonic() - beaten >= beat_s:
                beaten = time.monotonic()
                steps.append((("BEAT", *(word for lease in held for word in (lease.name, lease.next))), self._obey))
            slot = None if self.stopping or self._draining else self._slot_that_wants()
            if slot is not None:
                block_ms = int(beat_s * 1000) if held else BLOCK_MS
                steps.append((("CLAIM", "SLOT", slot, "BLOCK", block_ms), functools.partial(self._claimed, slot)))
            if steps:
                self._exchange(steps)
                continue  # a reply may have brought something to say
            if self.stopping:
                end = end or time.monotonic() + self._grace_s
                if not held or time.monotonic() >= end:
                    self._ask("LEAVE")  # jobs that still run go back
                    return
            self._stirred.wait(0.05 if self.stopping else beat_s)

    def _slot_that_wants(self) -> Optional[int]:
        busy = collections.Counter(lease.slot for lease in self._leases if not lease.has_run)
        quick = [slot for slot, took_s in enumerate(self._took_s) if busy[slot] == 1 and took_s < _SHORT_S]
        return next((slot for slot in range(len(self._queues)) if not busy[slot]), quick[0] if quick else None)

    def _claimed(self, slot: int, reply: Any) -> None:
        if isinstance(reply, Refused) and reply.code != "DRAINING":
            raise reply
        if isinstance(reply, Refused):
            self._draining = True
        elif reply is not None:
            lease = Lease(reply, slot)
            self._leases.add(lease)
            if not self.stopping:  # else it goes back
                self._queues[slot].put(lease)

    def _settled(self, lease: Lease, indexes: range, reply: Any) -> None:
        if isinstance(reply, Refused):
            log.warning("jobs %d to %d of batch %s: %s", indexes[0], indexes[-1], lease.id, reply)
        lease.acknowledge(indexes)

    def _cut(self, lease: Lease, at: int = 0) -> List[Step]:
        start = lease.cut(at)
        return [] if start is None else [(("YIELD", lease.name, start), lambda _: None)]

    def _obey(self, orders: Any) -> None:
        """The reply of BEAT."""
        by_name = {lease.name: lease for lease in self._leases}
        words: List[Any]
        for words in () if isinstance(orders, Refused) else orders:
            order, lease = text(words[0]), by_name.get(text(words[1])) if len(words) > 1 else None
            self._draining = self._draining or order == "DRAIN"
            if lease and order == "STOP":
                lease.stop()
            if lease:
                self._later += self._cut(lease, int(words[2]) if order == "CUT" else 0)

"""A batch as its owner sees it: its results, its status, and what can be done to it.

Each method that asks the daemon has a twin for asyncio with an `a` before its name; `async for` and `await` are for results and the end."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from .codec import Codec
from .errors import JobError, LocksleyError, Refused, decode_failure
from .wire import BLOCK_MS, Ask, as_map, log, one, text, twins, with_names

if TYPE_CHECKING:
    from .app import App

R = TypeVar("R")
_PAGE_ROWS = 1000


class Status(NamedTuple):
    """As STATUS has it (proto/PROTOCOL.md); times are milliseconds since 1970, 0: not yet."""

    id: str
    name: str
    handler: str
    tenant: str
    customer: str
    state: str
    weight: int
    slots: int
    jobs: int
    queued: int
    running: int
    ok: int
    failed: int
    cancelled: int
    retried: int
    retry_rounds: int
    submitted_at: int
    started_at: int
    finished_at: int

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "cancelled")


def as_status(reply: Any) -> Status:
    found = as_map(reply)
    return Status(*(found[name] for name in Status._fields))


class Explanation(NamedTuple):
    """As EXPLAIN has it: why the batch does not run, and when it will be over."""

    state: str
    reason: str
    paused: bool
    ahead: int
    share: float
    received: float
    jobs_per_second: float
    eta_ms: int


@dataclass(frozen=True)
class JobFacts:
    """As JOB has it: what is known of one job; times are milliseconds since 1970, 0: not yet, or not known. None: there is none. `payload` is None
    once the job is ok: it is kept while the job can be tried again."""

    index: int
    status: str
    attempt: int = 0
    started_at: int = 0
    finished_at: int = 0
    duration_us: int = 0
    worker: str = ""
    exit_status: int | None = None
    progress: int | None = None
    note: str | None = None
    log_bytes: int = 0
    output: bytes | None = None
    payload: bytes | None = None


class Result(Generic[R]):
    """How the job `index` ended. `value` is what the task returned; it raises the JobError if the job did not end well."""

    __slots__ = ("index", "status", "output", "_batch", "_codec")

    def __init__(self, batch: str, codec: Codec, index: int, status: str, output: bytes) -> None:
        self.index, self.status, self.output, self._batch, self._codec = index, status, output, batch, codec

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def error(self) -> JobError | None:
        return None if self.ok else decode_failure(self._batch, self.index, self.status, self.output, self._codec)

    @property
    def value(self) -> R:
        if error := self.error:
            raise error
        return cast(R, self._codec.loads(self.output))

    def __repr__(self) -> str:
        return f"Result(index={self.index}, status={self.status!r})"


@with_names
class Batch(Generic[R]):
    """A handle: making one asks nothing."""

    def __init__(self, app: App, id: str, codec: Codec | None = None) -> None:
        self.app, self.id = app, id
        self.codec: Codec = codec or app.codec

    def __repr__(self) -> str:
        return f"Batch({self.id!r})"

    async def read(self, ask: Ask, /, only_failed: bool = False, discard: bool = False) -> AsyncIterator[Result[R]]:
        """The results in the order of completion; those of a running batch as soon as they come. `discard`: the daemon drops the results that were
        delivered, if the user may do that."""
        options = ["FAILED"] if only_failed else []
        cursor = "0"
        while True:
            try:
                after, rows = await one(ask, "RESULTS", self.id, "FROM", cursor, "COUNT", _PAGE_ROWS, "BLOCK", BLOCK_MS, *options)
            except Refused as refused:
                if refused.code != "NOPERM" or "DISCARD" not in options:
                    raise
                options, discard = [], False
                continue
            for index, status, output in rows:
                yield Result(self.id, self.codec, int(index), sys.intern(text(status)), output)
            cursor = text(after)
            if cursor == "0":
                return
            if discard:
                options = ["DISCARD"]

    async def _ordered(self, ask: Ask, /) -> AsyncIterator[Result[R]]:
        """The results in the order of the jobs. Results that come early wait in memory."""
        waiting: dict[int, Result[R]] = {}
        at = 0
        async for result in self.read(ask):
            waiting[result.index] = result
            while at in waiting:
                yield waiting.pop(at)
                at += 1
        for index in sorted(waiting):  # there are gaps where results are not kept
            yield waiting[index]

    async def _values(self, ask: Ask, /) -> AsyncIterator[R]:
        """What the task returned, in the order of the jobs; raises the first JobError."""
        async for result in self._ordered(ask):
            yield result.value

    async def _failed(self, ask: Ask, /) -> AsyncIterator[JobError]:
        """The jobs that did not end well, in the order of completion."""
        async for result in self.read(ask, only_failed=True):
            if error := result.error:
                yield error

    async def _result(self, ask: Ask, /, timeout: float | None = None) -> R:
        """The value of the first job; for a batch of one. With `timeout` it first waits as wait() does, until the batch is over."""
        if timeout is not None:
            await self._wait(ask, timeout)
        async for value in self._values(ask):
            return value
        raise LocksleyError(f"batch {self.id} has no job of which a result is kept")

    async def _progress(self, ask: Ask, /, **bar_options: Any) -> AsyncIterator[Result[R]]:
        """The results, with the bar of tqdm; if that is not installed, without a bar and with a warning."""
        status = await self._status(ask)
        options = {"total": status.jobs, "desc": status.name or self.id, "unit": "job", **bar_options}
        try:
            bar: Any = importlib.import_module("tqdm").tqdm(**options)
        except ImportError:
            log.warning("progress() shows no bar: tqdm is not installed (pip install tqdm)")
            bar = SimpleNamespace(update=int, close=int)  # which do nothing
        async for result in self.read(ask):
            bar.update()
            yield result
        bar.close()

    async def _status(self, ask: Ask, /) -> Status:
        return as_status(await one(ask, "STATUS", self.id))

    async def _wait(self, ask: Ask, /, timeout: float | None = None, on_progress: Callable[[Status], object] | None = None) -> Status:
        """Waits until the batch is over. Raises TimeoutError after `timeout` seconds, which changes nothing for the batch; while no daemon answers,
        it tries again for the application's patience. `on_progress` is called with the status, twice a second."""
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            left_ms = max(1.0, min(500 if on_progress else BLOCK_MS, (end - time.monotonic()) * 1000))
            status = as_status(await one(ask, "WAIT", self.id, int(left_ms)))
            if on_progress:
                on_progress(status)
            if status.is_over:
                return status
            if time.monotonic() >= end:
                raise TimeoutError(f"batch {self.id} is not over after {timeout:g} s")

    async def _cancel(self, ask: Ask, /) -> int:
        """Returns how many jobs will not run because of it; running jobs are asked to stop."""
        return int(await one(ask, "CANCEL", self.id))

    async def _retry(self, ask: Ask, /, *indexes: int) -> int:
        """Queues the failed jobs again, or only those with these indexes. Returns how many; after a lost reply it may be 0 although they were
        queued."""
        rounds = (await self._status(ask)).retry_rounds  # so that RETRY may be sent again
        return int(await one(ask, "RETRY", self.id, "ROUND", rounds, *indexes))

    async def _forget(self, ask: Ask, /) -> bool:
        """Drops the batch, which must be over, and its results."""
        return bool(await one(ask, "FORGET", self.id))

    async def _explain(self, ask: Ask, /) -> Explanation:
        found = as_map(await one(ask, "EXPLAIN", self.id))
        state, reason, paused, ahead, share, received, rate, eta_ms = (found[name] for name in Explanation._fields)
        return Explanation(state, reason, bool(paused), ahead, float(share), float(received), float(rate), eta_ms)

    async def _job(self, ask: Ask, /, index: int) -> JobFacts:
        found = as_map(await one(ask, "JOB", self.id, index))
        return JobFacts(**{name: value for name, value in found.items() if name in JobFacts.__dataclass_fields__})

    async def _log(self, ask: Ask, /, index: int) -> str:
        """The end of what a job wrote to standard error, also while it runs."""
        return text((await one(ask, "LOG", self.id, index))[1])

    results, aresults = twins(read)
    ordered, aordered = twins(_ordered)
    values, avalues = twins(_values)
    failed, afailed = twins(_failed)
    result, aresult = twins(_result)
    progress, aprogress = twins(_progress)
    status, astatus = twins(_status)
    wait, await_end = twins(_wait)
    cancel, acancel = twins(_cancel)
    retry, aretry = twins(_retry)
    forget, aforget = twins(_forget)
    explain, aexplain = twins(_explain)
    job, ajob = twins(_job)
    log, alog = twins(_log)

    def __iter__(self) -> Iterator[Result[R]]:
        return self.results()

    def __aiter__(self) -> AsyncIterator[Result[R]]:
        return self.aresults()

    def __await__(self) -> Generator[Any, None, Status]:
        return self.await_end().__await__()

"""Executor: the interface of concurrent.futures, for programs that have a ProcessPoolExecutor.

All jobs of one executor are one batch, which is streamed in. After its end another batch follows: a batch may be cancelled, late, or full, and the
daemon closes an open batch some time after its connection broke. One thread sends jobs, another one reads results. As with the executors of the
standard library, a program ends once all that it has submitted has ended, also if it does not call shutdown()."""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import pathlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import Any, cast

from .app import App, Task, new_id, option_words
from .batch import Batch
from .errors import LocksleyError, Refused
from .wire import each, now, one

_WINDOW = 10_000  # jobs that are sent and have not ended, at most
_CHUNK_JOBS, _CHUNK_BYTES = 1000, 4 << 20  # of one command, which may be larger by one payload
_EMPTY_BATCHES = 3  # in a row: the executor then fails, because it would go on without an end
_NO_OPTIONS = {  # all but the first are those of the executors of concurrent.futures
    "keep": "each result is some future's", "max_tasks_per_child": "the handler has `max_jobs` in the daemon's configuration",
    **dict.fromkeys(("initializer", "initargs"), "what stands at the top of the workers' module runs once in each of their processes"),
    **dict.fromkeys(("mp_context", "thread_name_prefix"), "jobs run in processes that the daemon starts, as the handler's `worker: […]` says"),
}


class Executor(futures.Executor):
    """Runs calls of tasks, or of a module's functions (`python3 -m locksley MODULE` serves them), on the workers of a daemon.

    `app`: an App or a URL, or `max_workers`: how many jobs run at a time at most. `task`: the one that submit() and map() call, which then take no
    function. `handler`: the one of functions, by default that of the App. A future can be cancelled until its job is sent; at most twice
    `max_workers` are sent, or 10,000 where it is None. Other options are those of a batch, except `keep`."""

    def __init__(
        self, app: App | str | int | None = None, task: str | None = None, max_workers: int | None = None, handler: str | None = None, **options: Any
    ) -> None:
        if isinstance(app, int):  # the arguments are those of a ProcessPoolExecutor
            options.update((name, value) for name, value in (("mp_context", task), ("initializer", max_workers)) if value is not None)
            app, task, max_workers = None, None, app
        for name in (name for name in options if name in _NO_OPTIONS):
            raise TypeError(f"an executor has no option '{name}': {_NO_OPTIONS[name]}")
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        self._app = app if isinstance(app, App) else App(app)
        self._task = None if task is None else self._app.task_named(task)
        self.process = os.getpid()
        self._batch: Batch[Any] = Batch(self._app, new_id(), self._task.codec if self._task else None)
        self._handler, self._handler_of_functions = "", handler
        self._window = _WINDOW if max_workers is None else 2 * max_workers
        self._words = option_words({"slots": max_workers, "name": task, **options})
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[bytes, Future[Any]]] = collections.deque()
        self._running: dict[int, Future[Any]] = {}  # by index
        self._closed = self._drops = self._is_sending = self._is_open = False  # open: the daemon has the batch
        self._broken: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._task is not None and not callable(fn):
            args, fn = (fn, *args), self._task
        task: Task[Any] = cast(Any, fn) if isinstance(fn, Task) else self._app.named(_name_of(fn), handler=self._handler_of_functions)
        payload, future = task.payload(args, kwargs), Future[Any]()
        if self.process != os.getpid():  # the threads are the parent's
            raise RuntimeError("this executor is that of the process that forked this one: make another one here")
        with self._changed:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._broken is not None:
                raise futures.BrokenExecutor(str(self._broken)) from self._broken
            if self._handler not in ("", task.handler):
                raise LocksleyError(f"an executor is for one handler: '{self._handler}', not '{task.handler}'")
            self._handler = task.handler
            self._waiting.append((payload, future))
            if not self._threads:  # both now: while the program ends, Python starts no more threads
                _begun.add(self)
                for work in (self._read, self._send):
                    self._threads.append(threading.Thread(target=self._carry_out, args=(work,), name="locksley-executor", daemon=True))
                    self._threads[-1].start()
            self._changed.notify_all()
        return future

    def map(self, fn: Any, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1) -> Iterator[Any]:
        if self._task is not None and not callable(fn):
            iterables, fn = (fn, *iterables), self._task
        return super().map(fn, *iterables, timeout=timeout, chunksize=chunksize)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._changed:
            self._closed, self._drops = True, self._drops or cancel_futures
            dropped = [self._waiting.popleft()[1] for _ in range(len(self._waiting) if cancel_futures else 0)]
            self._changed.notify_all()
        _cancel(dropped)
        if cancel_futures and self._threads:
            with contextlib.suppress(Refused):  # the batch is over and forgotten, or not there yet
                self._batch.cancel()
        for thread in list(self._threads) if wait else []:
            thread.join()

    def _carry_out(self, work: Callable[[], object]) -> None:
        """The function of each thread. An error ends both threads, and becomes the error of each future that is not done."""
        try:
            work()
        except BaseException as error:
            with self._changed:
                self._broken = self._broken or error
                lost = [future for _, future in self._waiting if _begins(future)] + list(self._running.values())
                self._waiting.clear()
                self._running.clear()
                self._changed.notify_all()
            for future in lost:
                future.set_exception(error)
            with contextlib.suppress(LocksleyError):  # the batch is not there; otherwise the reading thread would wait for its end
                self._batch.cancel()

    def _send(self) -> None:
        ask, empty = self._app.transport.ask, 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._broken or (not self._is_open and (self._waiting or self._closed)))
                if self._broken or not self._waiting:
                    return
                self._is_sending, batch, at = True, self._batch, 0  # from here on the reading thread waits for it
            now(one(ask, "OPEN", self._handler, "ID", batch.id, *self._words))
            with self._changed:
                self._is_open = True
                self._changed.notify_all()
            payloads: list[bytes] = []
            while not payloads and (payloads := self._take(at)):
                at = self._add(batch, payloads, at)
            self._give_back(payloads, at)
            empty = empty + 1 if payloads and not at else 0
            if empty == _EMPTY_BATCHES:
                raise LocksleyError(f"{empty} batches of this executor ended before they had a job, the last one is {batch.id}")
            with contextlib.suppress(Refused):  # the batch has ended before
                now(one(ask, "CLOSE", batch.id))

    def _take(self, at: int) -> list[bytes]:
        """The payloads to send next, as soon as they are submitted and the window is open; none: the batch ends."""
        payloads: list[bytes] = []
        size = 0
        with self._changed:
            while not payloads:
                self._changed.wait_for(
                    lambda: self._broken or not self._is_open or (len(self._running) < self._window if self._waiting else self._closed)
                )
                if self._broken or not self._is_open or not self._waiting:
                    break
                while self._waiting and len(self._running) < self._window and len(payloads) < _CHUNK_JOBS and size < _CHUNK_BYTES:
                    payload, future = self._waiting.popleft()
                    if _begins(future):
                        self._running[at + len(payloads)] = future
                        payloads.append(payload)
                        size += len(payload)
        return payloads

    def _add(self, batch: Batch[Any], payloads: list[bytes], at: int) -> int:
        """Adds the payloads, and returns how many jobs the batch has then. A job that is too large by itself fails alone. If the batch takes no more
        jobs, because it has ended or is full, the rest stays in `payloads`."""
        size = len(payloads)
        while payloads:
            try:
                at = int(now(one(self._app.transport.ask, "ADDAT", batch.id, at, *payloads[:size])))
                del payloads[:size]
            except Refused as refused:
                if refused.code in ("CLOSED", "NOBATCH"):
                    break
                if refused.code != "TOOBIG":
                    raise
                if (size := min(size, len(payloads)) // 2) == 0:
                    if at and "limits.max_batch_jobs" in str(refused):
                        break
                    size = 1
                    del payloads[0]
                    with self._changed:  # the indexes of those after it become one less
                        unsent = self._unsent(at)
                        self._running.update(enumerate(unsent[1:], at))
                    unsent[0].set_exception(refused)
        return at

    def _unsent(self, at: int) -> list[Future[Any]]:
        return [self._running.pop(index) for index in sorted(self._running) if index >= at]

    def _give_back(self, payloads: list[bytes], at: int) -> None:
        """Queues the jobs that were not sent again, for the next batch."""
        with self._changed:
            unsent = self._unsent(at)
            if not self._drops:
                self._waiting.extendleft(reversed(list(zip(payloads, unsent))))
            dropped = unsent if self._drops else []
            self._is_sending = False
            self._changed.notify_all()
        _cancel(dropped)

    def _read(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_open or self._broken or (self._closed and not self._waiting and not self._is_sending))
                if not self._is_open:
                    return
                batch = self._batch
            for result in each(batch.read(self._app.transport.ask, discard=True)):
                with self._changed:
                    future = self._running.pop(result.index, None)
                    self._changed.notify_all()
                if future is None:
                    continue
                try:
                    future.set_result(result.value)
                except Exception as error:
                    future.set_exception(error)
            with self._changed:  # another batch follows, if there are more jobs
                self._batch, self._is_open = Batch(self._app, new_id(), batch.codec), False
                self._changed.notify_all()
            with contextlib.suppress(Refused):  # the user may not forget it: it expires
                batch.forget()


def _begins(future: Future[Any]) -> bool:
    """Marks the future as running; false if it was cancelled. It may have begun before, if its job was given back."""
    return future.running() or future.set_running_or_notify_cancel()


def _cancel(dropped: list[Future[Any]]) -> None:
    for future in dropped:
        if future.cancel():
            future.set_running_or_notify_cancel()  # otherwise futures.wait() would not count it as done
        else:  # it has begun, and its job was given back
            future.set_exception(futures.CancelledError())


_begun: weakref.WeakSet[Executor] = weakref.WeakSet()  # while it runs, its threads keep it


@atexit.register
def _wait_for_all() -> None:
    for executor in list(_begun):
        if executor.process == os.getpid():
            executor.shutdown()


def _name_of(fn: Any) -> str:
    """The name MODULE:FUNCTION, by which a worker that imports the module knows the function."""
    module, name = getattr(fn, "__module__", None), getattr(fn, "__qualname__", "")
    if module == "__main__":  # that of the program; an interactive session has none
        main: Any = sys.modules["__main__"]
        module = main.__spec__.name if main.__spec__ else pathlib.Path(getattr(main, "__file__", "")).stem
    if module in (None, "", "builtins") or not name.isidentifier() or name.startswith("_") or not hasattr(fn, "__code__"):
        raise TypeError(f"an executor runs tasks and public functions of a module that its workers serve, not {fn!r}")
    return f"{module}:{name}"

"""One job, from its payload to its status and output, and a worker on the daemon's machine: `worker: [python3, -m, locksley, module:app]`. Jobs come
on standard input, and answers go to standard output, one at a time (deploy/examples/README.md); with `worker_protocol: 2` the worker gets more facts
about each job."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO

from .errors import LocksleyError, Stopped, encode_failure
from .wire import bulk, packed, text

if TYPE_CHECKING:
    from .app import App

_LONGEST_NOTE = 4096  # bytes; the daemon takes no longer one
_running: ContextVar[Job | None] = ContextVar("locksley_job", default=None)


def current_job() -> Job:
    """The job of the task that calls this function."""
    job = _running.get()
    if job is None:
        raise LocksleyError("no job runs here")
    return job


class Job:
    """A job as its task sees it, and the reports of the task about it. `attempt` is 0 where the worker is not told; `note` is the last note of an
    earlier attempt, such as a checkpoint."""

    __slots__ = ("batch", "index", "handler", "attempt", "trace", "note", "timeout_s", "_tell", "_end", "_percent", "_stopped", "_on_stop")

    def __init__(
        self, batch: str, index: int, handler: str, attempt: int = 0, trace: str = "", note: str = "", timeout_s: float = 0.0,
        tell: Callable[[Job, str, Any], object] = lambda job, kind, value: None,
    ) -> None:
        self.batch, self.index, self.handler, self.attempt = batch, index, handler, attempt
        self.trace, self.note, self.timeout_s, self._tell = trace, note, timeout_s, tell
        self._end = time.monotonic() + timeout_s if timeout_s else 0.0
        self._percent, self._stopped = -1, ""
        self._on_stop: Callable[[], object] = lambda: None

    @property
    def stopped(self) -> str:
        """Why it should stop: "timeout", or that its batch was cancelled; "": it should not. A coroutine is also cancelled."""
        return self._stopped or ("timeout" if self._end and time.monotonic() >= self._end else "")

    @property
    def should_stop(self) -> bool:
        return bool(self.stopped)

    def raise_if_stopped(self) -> None:
        if self.stopped:
            raise Stopped(self.stopped)

    def progress(self, percent: float) -> None:
        """From 0 to 100. Only a change of the whole number is reported."""
        before, self._percent = self._percent, min(100, max(0, int(percent)))
        if self._percent != before:
            self._tell(self, "progress", self._percent)

    def save_note(self, text: str) -> None:
        """The next attempt has it as `note`, as far as it fits into 4 KiB."""
        note = text.encode(errors="replace")[:_LONGEST_NOTE]
        self._tell(self, "note", note.decode(errors="ignore"))  # without a character that was cut

    def begin(self) -> bool:
        """For a worker that made the job earlier: the job's time runs from now on. False if the job was stopped before."""
        self._end = time.monotonic() + self.timeout_s if self.timeout_s else 0.0
        return not self._stopped

    def stop(self, reason: str) -> None:
        """For workers: stops the job for this reason."""
        self._stopped = self._stopped or reason
        self._on_stop()

    def when_stopped(self, on_stop: Callable[[], object]) -> None:
        """For workers: sets the function that is called when the job is stopped. It may be called twice."""
        self._on_stop = on_stop
        if self._stopped:
            on_stop()


loops: dict[int, asyncio.AbstractEventLoop] = {}  # of jobs that are coroutines, by process
_loops_lock = threading.Lock()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with contextlib.suppress(BaseException):  # asyncio lets sys.exit() and KeyboardInterrupt of a coroutine through, and the loop keeps its tasks
            loop.run_forever()


def _run_coroutine(coroutine: Coroutine[Any, Any, Any], job: Job) -> Any:
    """Runs the coroutine in an event loop, and a thread, that the coroutines of all jobs share. Returns when it has ended: a coroutine that is
    cancelled, or late, cleans up first."""
    with _loops_lock:
        if os.getpid() not in loops:
            loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(loops[os.getpid()],), name="locksley-coroutines", daemon=True).start()
        loop = loops[os.getpid()]

    ended: Future[Any] = Future()

    async def until_it_ends() -> None:
        if not ended.set_running_or_notify_cancel():
            coroutine.close()
            return
        task = loop.create_task(asyncio.wait_for(coroutine, job.timeout_s or None))
        job.when_stopped(lambda: loop.call_soon_threadsafe(task.cancel))
        await asyncio.wait([task])
        try:
            ended.set_result(task.result())
        except BaseException as error:
            ended.set_exception(error)

    try:
        asyncio.run_coroutine_threadsafe(until_it_ends(), loop)
        return ended.result()
    except Stopped:  # raised by SIGTERM, in the main thread
        if ended.cancel():  # it has not begun
            raise
        return ended.result()


def run_job(app: App, job: Job, payload: bytes) -> tuple[str, bytes]:
    """Runs the job; returns its status and output. A task that was asked to stop, and raises, is `cancelled`, or `timeout`."""
    token = _running.set(job)
    try:
        task, args, kwargs = app.call_of(payload, job.handler)
        value = task.function(*args, **kwargs)
        if inspect.iscoroutine(value):
            value = _run_coroutine(value, job)
        return "ok", task.codec.dumps(value)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C of the user
        if job.stopped == "timeout":
            return "timeout", f"the job took longer than {job.timeout_s:g} s".encode()
        return ("cancelled", job.stopped.encode()) if job.stopped else ("error", encode_failure(error, job.attempt, app.codec))
    finally:
        _running.reset(token)


def take_the_pipes() -> tuple[BinaryIO, int]:
    """Returns the daemon's pipes, under descriptors that no other code knows. From then on standard input is empty, and printed text goes to the
    daemon's log."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    return jobs, answers


class LocalWorker:
    """Serves jobs until the daemon closes the input or sends SIGTERM, which it sends when a job must stop: its time is over, it was cancelled, or the
    daemon has drained for long enough. SIGTERM raises Stopped in the task, and then the worker ends."""

    def __init__(self, app: App, jobs: BinaryIO, answers: int) -> None:
        self._app, self._input, self._answers = app, jobs, answers
        self._handler = os.environ.get("LOCKSLEY_HANDLER", "")
        self._is_version_2 = False
        self._ahead: queue.SimpleQueue[tuple[Job, bytes] | None] = queue.SimpleQueue()  # with their payloads; None is the end
        self._jobs: dict[tuple[bytes, bytes], Job] = {}  # by index and batch: those that wait, and the one that runs
        self._running: Job | None = None
        self._writing = threading.Lock()  # any thread of a task may write, also after its job's end
        self._stopping = False
        self._process = os.getpid()

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        os.register_at_fork(after_in_child=self._forked)
        threading.Thread(target=self._read_ahead, name="locksley-reader", daemon=True).start()
        with contextlib.suppress(Stopped):
            while not self._stopping and (ahead := self._ahead.get()):
                self._running, payload = ahead
                status, output = run_job(self._app, self._running, payload) if self._running.begin() else ("cancelled", b"")
                if os.getpid() != self._process:
                    sys.stdout.flush()
                    os._exit(0)  # the task forked, and returned here: the other process answers
                # Answered at once, even if more jobs are waiting: should the next one kill this process, or take too long, then the
                # daemon knows which it was.
                if self._stopping and status != "ok":
                    break  # the daemon knows why it wanted the end; if it ends itself, the job runs again
                self._answer(self._running, status, output)
        return 0

    def _forked(self) -> None:
        """A process that a task forks ends by SIGTERM, as multiprocessing expects. A thread that was writing at the fork is not in it, so the lock is
        made anew."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._writing = threading.Lock()

    def _answer(self, job: Job, status: str, output: bytes) -> None:
        index, batch = b"%d" % job.index, job.batch.encode()
        self._jobs.pop((index, batch), None)  # before the daemon may send it again
        plain = bulk(output) if status == "ok" else b"-%b\r\n" % output
        with self._writing:
            self._write(packed([(index, status, output)]) if self._is_version_2 else plain)
            self._running = None

    def _read_ahead(self) -> None:
        """Reads messages in a thread of its own, so that a job can be told to stop while it runs. A job is [payload, index, batch]; with
        worker_protocol: 2 [job, payload, index, batch, attempt, trace, note, timeout_ms], and messages of three strings are [stop, index, batch]."""
        try:
            while message := self._read():
                if self._is_version_2 and len(message) == 3:
                    if job := self._jobs.get((message[1], message[2])):
                        job.stop("cancelled")
                    continue
                self._is_version_2 = len(message) == 8
                payload, index, batch, attempt, trace, note, timeout_ms = message[1:] if self._is_version_2 else [*message, b"0", b"", b"", b"0"]
                told = int(attempt), trace.decode(), text(note), int(timeout_ms) / 1000
                job = self._jobs[index, batch] = Job(batch.decode(), int(index), self._handler, *told, self._tell)
                self._ahead.put((job, payload))
        finally:  # also after an invalid message
            self._ahead.put(None)

    def _read(self) -> list[bytes]:
        """The next message; an empty one at the end of the input, or if the daemon ended in the middle of a message."""
        message: list[bytes] = []
        for _ in range(int(self._input.readline()[1:] or 0)):
            size = int(self._input.readline()[1:] or 0)
            string = self._input.read(size + 2)
            if len(string) < size + 2:
                return []
            message.append(string[:-2])
        return message

    def _tell(self, job: Job, kind: str, value: Any) -> None:
        word = b":%d\r\n" % value if kind == "progress" else bulk(value.encode())
        with self._writing:
            if job is self._running:  # else the daemon would take it for the job that runs now
                self._write(b"*2\r\n%b%b" % (bulk(kind.encode()), word))

    def _write(self, answer: bytes) -> None:
        while answer:
            answer = answer[os.write(self._answers, answer) :]

    def _stop(self, *_: Any) -> None:
        if self._stopping:
            return  # once is enough: the task may be cleaning up
        self._stopping = True
        if self._running is None:
            os._exit(0)  # there is nothing to lose
        self._running.stop("SIGTERM")
        raise Stopped("SIGTERM")

"""One job, from its payload to its status and output, and a worker on the daemon's machine: `worker: [python3, -m, locksley, module:app]`.
Jobs come on standard input, and answers go to standard output, one at a time (deploy/examples/README.md); with `worker_protocol: 2` it is
told more of them."""

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
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Coroutine, Iterator, List, Optional, Set, Tuple

from .errors import LocksleyError, Stopped, encode_failure

if TYPE_CHECKING:
    from .app import App

_running: ContextVar[Optional[Job]] = ContextVar("locksley_job", default=None)


def current_job() -> Job:
    """The job that calls this, for its task."""
    job = _running.get()
    if job is None:
        raise LocksleyError("no job runs here")
    return job


class Job:
    """What a task may know of its job, and say about it. `attempt` is 0 where the worker is not told; `note` is the last note of an
    earlier attempt, such as a checkpoint."""

    def __init__(
        self, batch: str, index: int, handler: str, attempt: int = 0, trace: str = "", note: str = "", timeout_s: float = 0.0
    ) -> None:
        self.batch, self.index, self.handler, self.attempt = batch, index, handler, attempt
        self.trace, self.note, self.timeout_s = trace, note, timeout_s
        self.tell: Callable[[str, Any], object] = lambda kind, value: None
        self._end = time.monotonic() + timeout_s if timeout_s else float("inf")
        self._stopped = ""
        self._on_stop: Callable[[], object] = lambda: None

    @property
    def stopped(self) -> str:
        """Why it should stop: "timeout", or that its batch was cancelled; "": it should not. A coroutine is cancelled besides."""
        return self._stopped or ("timeout" if time.monotonic() >= self._end else "")

    @property
    def should_stop(self) -> bool:
        return bool(self.stopped)

    def raise_if_stopped(self) -> None:
        if self.stopped:
            raise Stopped(self.stopped)

    def progress(self, percent: int) -> None:
        self.tell("progress", percent)

    def save_note(self, text: str) -> None:
        """The next attempt has it as `note`."""
        self.tell("note", text)

    def stop(self, reason: str) -> None:
        """For workers."""
        self._stopped = self._stopped or reason
        self._on_stop()

    def when_stopped(self, on_stop: Callable[[], object]) -> None:
        """For workers. It may be called twice."""
        self._on_stop = on_stop
        if self._stopped:
            on_stop()


class EventLoop:
    """A thread with a loop, in which coroutines of any thread's jobs run side by side. Made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self, coroutine: Coroutine[Any, Any, Any], job: Job) -> Any:
        """Until the coroutine has ended: one that is cancelled, or late, cleans up first."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="locksley-coroutines", daemon=True).start()
            loop = self._loop
        ended = threading.Event()
        tasks: List[asyncio.Task[Any]] = []

        def begin() -> None:
            tasks.append(loop.create_task(asyncio.wait_for(coroutine, job.timeout_s or None)))
            tasks[0].add_done_callback(lambda _: ended.set())

        loop.call_soon_threadsafe(begin)
        job.when_stopped(lambda: loop.call_soon_threadsafe(lambda: tasks[0].cancel()))
        try:
            ended.wait()
        except Stopped:  # of SIGTERM, in the main thread
            ended.wait()
        return tasks[0].result()


def run_job(app: App, job: Job, payload: bytes, loop: EventLoop) -> Tuple[str, bytes]:
    """Status and output. A task that was asked to stop, and raises, is `cancelled`, or `timeout`."""
    token = _running.set(job)
    try:
        task, args, kwargs = app.call_of(payload, job.handler)
        value = task.function(*args, **kwargs)
        if inspect.iscoroutine(value):
            value = loop.run(value, job)
        return "ok", task.codec.dumps(value)
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        if job.stopped == "timeout":
            return "timeout", f"the job took longer than {job.timeout_s:g} s".encode()
        return ("cancelled", job.stopped.encode()) if job.stopped else ("error", encode_failure(error, job.attempt, app.codec))
    finally:
        _running.reset(token)


def take_the_pipes() -> Tuple[BinaryIO, int]:
    """The daemon's pipes, under numbers that nothing else knows. From now on standard input is empty, and what is printed is in the
    daemon's log."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    return jobs, answers


class LocalWorker:
    """Serves until the daemon wants no more. SIGTERM, which the daemon sends when a job must stop (its time is over, it was cancelled, or
    the daemon has drained for long enough), raises Stopped in the task, and is the end."""

    def __init__(self, app: App, jobs: BinaryIO, answers: int) -> None:
        self._app, self._jobs, self._answers, self._loop = app, jobs, answers, EventLoop()
        self._handler = os.environ.get("LOCKSLEY_HANDLER", "")
        self._job: Optional[Job] = None
        self._cancelled: Set[Tuple[bytes, bytes]] = set()  # index and batch of jobs that wait, or run
        self._stopping = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        with contextlib.suppress(Stopped):
            for message in self._messages():
                # Answered at once, even if more jobs are waiting: should the next one kill this process, or take too long, then the
                # daemon knows which it was.
                self._write(self._answer(*message) if len(message) == 3 else self._answer_2(*message[1:]))
                self._job = None
        return 0

    def _answer(self, payload: bytes, index: bytes, batch: bytes) -> bytes:
        status, output = self._run(Job(batch.decode(), int(index), self._handler), payload)
        return _bulk(output) if status == "ok" else b"-%b\r\n" % output

    def _answer_2(
        self, payload: bytes, index: bytes, batch: bytes, attempt: bytes, trace: bytes, note: bytes, timeout_ms: bytes
    ) -> bytes:
        job = Job(batch.decode(), int(index), self._handler, int(attempt), trace.decode(), note.decode(), int(timeout_ms) / 1000)
        status, output = self._run(job, payload)
        return b"*3\r\n%b%b%b" % (_bulk(index), _bulk(status.encode()), _bulk(output))

    def _run(self, job: Job, payload: bytes) -> Tuple[str, bytes]:
        job.tell = self._tell
        self._job = job
        if self._cancelled and (b"%d" % job.index, job.batch.encode()) in self._cancelled:
            job.stop("cancelled")
            return "cancelled", b""
        return run_job(self._app, job, payload, self._loop)

    def _messages(self) -> Iterator[List[bytes]]:
        """Jobs. With worker_protocol: 2, which shows itself by their length, another thread reads, so that a job can be told to stop while
        it runs."""
        message, read = self._read(), self._read
        if message and len(message) == 8:
            ahead: queue.SimpleQueue[Optional[List[bytes]]] = queue.SimpleQueue()
            threading.Thread(target=self._read_ahead, args=(ahead,), name="locksley-reader", daemon=True).start()
            read = ahead.get
        while message:
            yield message
            message = None if self._stopping else read()

    def _read_ahead(self, ahead: queue.SimpleQueue[Optional[List[bytes]]]) -> None:
        message: Optional[List[bytes]] = []
        while message is not None:
            message = self._read()
            if message and message[0] == b"stop":
                self._cancelled.add((message[1], message[2]))
                job = self._job
                if job and (b"%d" % job.index, job.batch.encode()) == (message[1], message[2]):
                    job.stop("cancelled")
                continue
            if message:
                self._cancelled.discard((message[2], message[3]))  # of an earlier attempt
            ahead.put(message)

    def _read(self) -> Optional[List[bytes]]:
        """A message; None at the end of the input, or if the daemon ended in the middle of it."""
        head = self._jobs.readline()
        strings: List[bytes] = []
        for _ in range(int(head[1:] or 0)):
            head = self._jobs.readline()
            size = int(head[1:]) if head else 0
            string = self._jobs.read(size + 2)
            if not head or len(string) < size + 2:
                return None
            strings.append(string[:-2])
        return strings or None

    def _tell(self, kind: str, value: Any) -> None:
        word = b":%d\r\n" % value if kind == "progress" else _bulk(value.encode()[:4096])
        self._write(b"*2\r\n%b%b" % (_bulk(kind.encode()), word))

    def _write(self, answer: bytes) -> None:
        while answer:
            answer = answer[os.write(self._answers, answer) :]

    def _stop(self, *_: Any) -> None:
        if self._stopping:
            return  # once is enough: the task may be cleaning up
        self._stopping = True
        if self._job is None:
            os._exit(0)  # there is nothing to lose, and a read would go on
        self._job.stop("SIGTERM")
        raise Stopped("SIGTERM")


def _bulk(string: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(string), string)

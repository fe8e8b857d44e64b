"""An application: its daemon, its tasks, and how their batches are submitted."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast, overload

from .batch import Batch, as_status
from .codec import JSON, RAW, Codec
from .errors import LocksleyError, Refused, Unreachable
from .inline import Inline
from .wire import Ask, Transport, one, twins, with_names

R = TypeVar("R")
_CHUNK_JOBS, _CHUNK_BYTES = 5000, 4 << 20  # guesses; the program waits for the daemon's disk once for each chunk
_LINGER_S = 0.2  # a chunk that was begun longer ago is sent with its next payload
_CANCEL_S = 1.0  # a guess: a user who interrupts a program does not want to wait
_OPTIONS = "name weight timeout retries deadline keep delay retain slots max_fails trace for_ after after_ok ephemeral".split()


def option_words(options: Mapping[str, Any]) -> list[Any]:
    """Options of a batch, as proto/PROTOCOL.md has them; durations are in seconds here."""
    words: list[Any] = []
    for name, value in options.items():
        if name not in _OPTIONS:
            raise TypeError(f"a batch has no option '{name}'; there are: {', '.join(_OPTIONS)}")
        word = name.replace("_", "").upper()
        if name == "ephemeral":
            words += [word] if value else []
        elif name in ("timeout", "deadline", "delay", "retain") and value is not None:
            if not hasattr(value, "__float__") or not math.isfinite(value):
                raise TypeError(f"the option '{name}' is a number of seconds, such as 0.5 or 30, not {value!r}")
            if value < 0 or (value == 0 and name in ("timeout", "deadline")):
                raise ValueError(f"the option '{name}' must be {'at least' if name in ('delay', 'retain') else 'more than'} 0, not {value!r}; leave it out to have what the daemon's configuration says")
            if value or name == "retain":  # a delay of 0 is none
                words += [word, math.ceil(value) if name == "retain" else max(1, round(value * 1000))]
        elif value is not None:
            several = cast(Sequence[Any], value) if isinstance(value, (list, tuple)) else [value]
            words += [part for one in several for part in (word, one.id if isinstance(one, Batch) else one)]
    return words


def _chunks(payloads: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size, began = 0, time.monotonic()
    for payload in payloads:
        chunk.append(payload)
        size += len(payload)
        if len(chunk) >= _CHUNK_JOBS or size >= _CHUNK_BYTES or time.monotonic() - began > _LINGER_S:
            yield chunk
            chunk, size, began = [], 0, time.monotonic()
    if chunk:
        yield chunk


async def _name_of(ask: Ask, id: str, customer: str) -> str:
    """The name in commands of a batch that the daemon has: its id; user/id if an admin has made it for user/customer, because the admin may have a
    batch of its own with this id."""
    user, slash, _ = customer.partition("/")
    if slash:
        try:
            await one(ask, "STATUS", f"{user}/{id}")
            return f"{user}/{id}"
        except Refused:  # the daemon has no users
            pass
    return id


async def _submit(ask: Ask, handler: str, id: str | None, words: list[Any], payloads: Iterator[bytes], customer: str) -> str:
    """Sends one SUBMIT if there are few payloads; else a stream. An earlier run may have streamed as few payloads, because they came slowly. Returns
    the batch's name in commands: its id; user/id if an admin has made it for another user."""
    is_known, id = id is not None, new_id() if id is None else id
    chunks = _chunks(payloads)
    first = list(itertools.islice(chunks, 2))
    if len(first) < 2:
        jobs: list[Any] = ["JOBS", *first[0]] if first else ["RANGE", 0, 0]
        try:
            await one(ask, "SUBMIT", handler, "ID", id, *words, *jobs)
            return await _name_of(ask, id, customer)
        except Refused as refused:
            if refused.code == "EXISTS" and first:
                try:
                    await one(ask, "ADDAT", await _name_of(ask, id, customer), 0, first[0][0])
                except Refused:  # that batch was not streamed
                    raise refused from None
            elif not (first and refused.may_go_in_parts):
                raise
    try:
        return await stream(ask, handler, id, words, itertools.chain(first, chunks), customer)
    except BaseException as error:
        # Without the id, no later run can continue the batch. If no daemon answers, there is nothing to do: it closes the batch some time after the
        # connection broke.
        if not is_known and not isinstance(error, (Unreachable, GeneratorExit)):
            names = [id, f"{customer.partition('/')[0]}/{id}"] if "/" in customer else [id]
            with contextlib.suppress(Exception):  # CLOSE: for a user who may not cancel
                await ask([(word, name) for name in names for word in ("CANCEL", "CLOSE")], patience=_CANCEL_S)
        raise


async def _add(ask: Ask, id: str, at: int, payloads: list[bytes]) -> None:
    """Adds these payloads from index `at` on. Splits them into halves, and so on, if they are too many for one command: a user may have room for few
    jobs."""
    try:
        if payloads:
            await one(ask, "ADDAT", id, at, *payloads)
    except Refused as refused:
        if not refused.may_go_in_parts or len(payloads) == 1:
            raise
        half = len(payloads) // 2
        await _add(ask, id, at, payloads[:half])
        await _add(ask, id, at + half, payloads[half:])


async def stream(ask: Ask, handler: str, id: str, words: list[Any], chunks: Iterator[list[bytes]], customer: str = "") -> str:
    """Streams the chunks; continues where an earlier run of the program with the same id broke off. Returns the batch's name in commands."""
    at = there = 0
    try:
        await one(ask, "OPEN", handler, "ID", id, *words)
        id = await _name_of(ask, id, customer)
    except Refused as refused:
        if refused.code != "EXISTS":
            raise
        id = await _name_of(ask, id, customer)
        status = as_status(await one(ask, "STATUS", id))
        if status.handler != handler:
            raise
        there = status.jobs
    for chunk in chunks:
        missing = chunk[max(0, there - at) :]
        at += len(chunk)
        await _add(ask, id, at - len(missing), missing)
    if (total := await one(ask, "CLOSE", id)) != at:
        raise LocksleyError(f"the batch {id} has {total} jobs, not these {at}")
    return id


@with_names
class Task(Generic[R]):
    """A function that workers run. Called, it runs here, as if it were no task."""

    def __init__(self, app: App, function: Callable[..., Any], name: str, handler: str, raw: bool, options: dict[str, Any]) -> None:
        self.app, self.function, self.name, self.handler, self.raw, self.options = app, function, name, handler, raw, options
        self.codec: Codec = RAW if raw else app.codec
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def using(self, **options: Any) -> Task[R]:
        """The same task with these options as well; for submit(), whose arguments are all the function's: task.using(delay=60).submit(x)."""
        option_words(options)
        return Task(self.app, self.function, self.name, self.handler, self.raw, {**self.options, **options})

    def payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        call = {"task": self.name, "args": list(args)}
        return self.codec.dumps(args[0] if self.raw else {**call, "kwargs": kwargs} if kwargs else call)

    async def _calls(
        self, ask: Ask, /, calls: Iterable[Sequence[Any]], *, id: str | None = None, kwargs: Mapping[str, Any] = {}, **options: Any
    ) -> Batch[R]:
        """As map(), but each item is a sequence of arguments."""
        options = {"name": self.name, **self.options, **options}
        words, customer = option_words(options), str(options.get("for_") or "")
        payloads = (self.payload(call, kwargs) for call in calls)
        return Batch(self.app, await _submit(ask, self.handler, id, words, payloads, customer), self.codec)

    async def _map(
        self, ask: Ask, /, items: Iterable[Any], *more: NoReturn, id: str | None = None, kwargs: Mapping[str, Any] = {}, **options: Any
    ) -> Batch[R]:
        """A batch with a job for each item. Jobs of a long iterable run while it is still read. With an `id` of your own, a program that was
        interrupted may be run again: it adds the missing jobs."""
        if more:
            raise TypeError("map() takes one iterable; starmap(zip(a, b)) calls a task with several arguments")
        return await self._calls(ask, ((item,) for item in items), id=id, kwargs=kwargs, **options)

    async def _one(self, ask: Ask, /, *args: Any, **kwargs: Any) -> Batch[R]:
        """A batch of one job, with the task's own options."""
        return await self._calls(ask, [args], kwargs=kwargs)

    map, amap = twins(_map)
    starmap, astarmap = twins(_calls)
    submit, asubmit = twins(_one)


def new_id() -> str:
    return uuid.uuid4().hex


class _Decorator(Protocol):
    """What task() with options is, for type checkers."""

    @overload
    def __call__(self, function: Callable[..., Awaitable[R]]) -> Task[R]: ...
    @overload
    def __call__(self, function: Callable[..., R]) -> Task[R]: ...


class App:
    """The daemon at `url`; with several addresses, redis://a:7770,b:7770, or several URLs, the one that serves; without a URL, the daemon of the
    variable LOCKSLEY_URL, or the one on this machine. LOCKSLEY_PASSWORD is for a URL without a password.

    `handler` is the handler of the daemon that runs the tasks, unless a task names another. `patience` is for how many seconds a command is
    tried again when no daemon answers, or when it says "retry later". Other options are those of a connection of redis-py."""

    def __init__(
        self, url: str | Sequence[str] | None = None, *, handler: str = "python", codec: Codec = JSON, patience: float = 60.0, **redis_options: Any
    ) -> None:
        self.handler = handler
        self.codec: Codec = codec
        self.tasks: dict[str, Task[Any]] = {}
        self._raw: dict[str, Task[Any]] = {}  # by handler
        self._patience, self._redis_options = patience, redis_options
        self.transport: Transport | Inline
        self.connect(url or os.environ.get("LOCKSLEY_URL") or "redis://127.0.0.1:7770")

    def connect(self, url: str | Sequence[str]) -> None:
        """From now on the application uses the daemon at `url`. Sends nothing yet."""
        self.transport = self._connected = Transport(url, self._patience, self._redis_options)

    @overload
    def task(self, function: Callable[..., Awaitable[R]]) -> Task[R]: ...
    @overload
    def task(self, function: Callable[..., R]) -> Task[R]: ...
    @overload
    def task(self, *, name: str | None = None, handler: str | None = None, raw: bool = False, **options: Any) -> _Decorator: ...
    def task(self, function: Any = None, *, name: Any = None, handler: Any = None, raw: bool = False, **options: Any) -> Any:
        """A decorator. The options are those of the task's batches, and a call of map() may give others. `raw`: the task is given its
        payload as bytes, and returns bytes, str or None; it needs a handler of its own."""
        if function is None:
            option_words(options)
            return functools.partial(self.task, name=name, handler=handler, raw=raw, **options)
        function = function.function if isinstance(function, Task) else function  # a task of two applications
        task: Task[Any] = Task(self, function, name or function.__name__, handler or self.handler, raw, options)
        if task.name in self.tasks:
            raise ValueError(f"there are two tasks named '{task.name}'")
        if any(task.handler == other.handler and (raw or other.raw) for other in self.tasks.values()):
            raise ValueError(f"a raw task needs a handler of its own, but '{task.handler}' has two tasks")
        self.tasks[task.name] = task
        if raw:
            self._raw[task.handler] = task
        return task

    def named(self, name: str, *, handler: str | None = None, raw: bool = False, **options: Any) -> Task[Any]:
        """A task that another program has, to submit to: in another language, or in a module that is not to be imported here."""

        def elsewhere(*_: Any, **__: Any) -> None:
            raise LocksleyError(f"the task '{name}' is in another program")

        return Task(self, elsewhere, name, handler or self.handler, raw, options)

    def add_functions(self, module: ModuleType) -> None:
        """The module's own public functions become tasks, named MODULE:FUNCTION, as Executor.submit() names them."""
        for name, value in sorted(vars(module).items()):
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and hasattr(value, "__code__"):
                self.task(name=f"{module.__name__}:{name}")(value)

    def call_of(self, payload: bytes, handler: str) -> tuple[Task[Any], Sequence[Any], Mapping[str, Any]]:
        """The task and the arguments that a payload asks a worker to run."""
        if handler in self._raw:
            return self._raw[handler], (payload,), {}
        call: dict[str, Any] = self.codec.loads(payload)
        if not isinstance(call, dict) or "task" not in call:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise LocksleyError('the payload is not {"task": name, "args": [...]}')
        return self.task_named(call["task"]), call.get("args", ()), call.get("kwargs", {})

    def task_named(self, name: str) -> Task[Any]:
        """The application's own task of this name."""
        task = self.tasks.get(name)
        if task is None:
            said, (module, colon, _) = ", ".join(sorted(self.tasks)) or "none", name.partition(":")
            if colon and not any(task.function.__module__ == module for task in self.tasks.values()):
                said += f". For functions of the module {module}: a handler with worker: [python3, -m, locksley, {module}], and Executor(handler=…)"
            raise LocksleyError(f"no task is named '{name}'; there are: {said}")
        return task

    def batch(self, id: str, codec: Codec | None = None) -> Batch[Any]:
        """The batch of this id, which another program may have submitted."""
        return Batch(self, id, codec)

    def inline(self) -> Inline:
        """From now on jobs run in this process, through the codec, and no daemon is asked; as a context manager, until its end."""
        return Inline(self)

    def close(self) -> None:
        """Closes connections; the next command opens new ones. Those of an event loop close when asyncio.run() ends, or by aclose()."""
        self._connected.close()

    async def aclose(self) -> None:
        await self._connected.aclose()

"""Commands and replies over redis-py, for threads and for asyncio.

What takes a command or several is written once, as a coroutine that is given an Ask; twins() makes a blocking method of it, and one for
asyncio. With Transport.aask it waits as coroutines do; with Transport.ask, which blocks, it never suspends, so now() and each() run it in
a thread.

A connection that breaks is made anew, and the commands are sent again: so all commands here may be repeated. A refusal that says "retry
later" is waited for in the same way."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import logging
import os
import random
import time
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Coroutine, Dict, Iterator, List, Mapping, Protocol, Sequence
from typing import Tuple, TypeVar, overload
from urllib.parse import urlsplit

from .errors import LocksleyError, Refused, Unreachable

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

# Debian's redis-py has no types.
redis: Any = importlib.import_module("redis")
redis_asyncio: Any = importlib.import_module("redis.asyncio")

T = TypeVar("T")
Command = Sequence[Any]
Ask = Callable[[List[Command]], Awaitable[List[Any]]]  # sends commands together; a refusal is a Refused among the replies

BLOCK_MS = 5000  # of a command that waits: shorter than the time-outs of clients and of what is between
OPTIONS = {"socket_timeout": 30.0, "socket_connect_timeout": 5.0}
LATER = ("QUEUEFULL", "DRAINING", "STORE")
_SAID_AFTER_S = 0.1
_LOGIN = ("NOAUTH", "WRONGPASS")

log = logging.getLogger("locksley")


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("a coroutine that should block was suspended")


def each(items: AsyncIterator[T]) -> Iterator[T]:
    async def following() -> T:
        return await items.__anext__()

    while True:
        try:
            item = now(following())
        except StopAsyncIteration:
            return
        yield item


class _OfApp(Protocol):
    app: Any


S = TypeVar("S", bound=_OfApp)


@overload
def twins(
    method: Callable[Concatenate[S, Ask, P], Coroutine[Any, Any, T]]
) -> Tuple[Callable[Concatenate[S, P], T], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]: ...
@overload
def twins(
    method: Callable[Concatenate[S, Ask, P], AsyncIterator[T]]
) -> Tuple[Callable[Concatenate[S, P], Iterator[T]], Callable[Concatenate[S, P], AsyncIterator[T]]]: ...
def twins(method: Any) -> Any:
    """Of a method that is given an Ask: one that blocks, and one for asyncio."""
    run: Any = each if inspect.isasyncgenfunction(method) else now

    def blocking(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(method(self, self.app.transport.ask, *args, **kwargs))

    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, self.app.transport.aask, *args, **kwargs)

    return functools.update_wrapper(blocking, method), functools.update_wrapper(waiting, method)


def connections(url: str, pool: Any, port: int = 7770, **options: Any) -> Any:
    """A pool of redis-py, as a maker of connections to this URL."""
    return pool.from_url(url, **({} if urlsplit(url).port else {"port": port}), **{**OPTIONS, **options})


def refusal(error: BaseException) -> Refused:
    """redis-py takes some codes off the text, and makes classes of them."""
    code, _, rest = str(error).partition(" ")
    if isinstance(error, redis.AuthenticationError) and code not in _LOGIN:
        return Refused(_LOGIN["username-password" in rest], str(error))
    if isinstance(error, redis.exceptions.NoPermissionError):
        return Refused("NOPERM", str(error))
    return Refused(code, rest) if code.isalpha() and code.isupper() else Refused("ERR", str(error))


def text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def as_map(reply: Any) -> Mapping[str, Any]:
    """A map is a flat array in RESP2, and a dict where redis-py speaks RESP3."""
    pairs = reply.items() if hasattr(reply, "items") else zip(reply[::2], reply[1::2])
    return {text(key): text(value) if isinstance(value, bytes) else value for key, value in pairs}


def checked(replies: List[Any]) -> List[Any]:
    for reply in replies:
        if isinstance(reply, Refused):
            raise reply
    return replies


async def _sleep_here(seconds: float) -> None:
    time.sleep(seconds)


async def _outcome(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Transport:
    """Connections to one of several daemons. Any thread and any event loop may use it."""

    def __init__(self, urls: Sequence[str], patience: float, options: Dict[str, Any]) -> None:
        self._urls, self._at, self._patience = urls, 0, patience
        self._makers = [connections(url, redis.ConnectionPool, **options) for url in urls]
        self._async_makers = [connections(url, redis_asyncio.ConnectionPool, **options) for url in urls]
        self._free: Dict[int, List[Any]] = {}  # by process: after a fork the connections are the parent's
        self._async_free: Any = weakref.WeakKeyDictionary()  # by event loop
        self.breaks = 0  # connections that broke: the daemon may have been restarted

    async def ask(self, commands: List[Command]) -> List[Any]:
        return await self._exchange(commands, self._makers, self._free.setdefault(os.getpid(), []), _sleep_here)

    async def aask(self, commands: List[Command]) -> List[Any]:
        free = self._async_free.setdefault(asyncio.get_running_loop(), [])
        return await self._exchange(commands, self._async_makers, free, asyncio.sleep)

    async def _exchange(
        self, commands: List[Command], makers: List[Any], free: List[Any], sleep: Callable[[float], Awaitable[Any]]
    ) -> List[Any]:
        delay, end = 0.05, 0.0
        while True:
            try:
                connection = free.pop()
            except IndexError:
                connection = makers[self._at].make_connection()
            try:
                await _outcome(connection.send_packed_command(connection.pack_commands(commands)))
                replies = [await self._reply(connection) for _ in commands]
            except BaseException as error:
                free.clear()
                await _outcome(connection.disconnect())
                trouble: LocksleyError = self._broken(error)
            else:
                free.append(connection)
                refused = [reply for reply in replies if isinstance(reply, Refused) and reply.code in LATER]
                if not refused:
                    return replies
                trouble = refused[0]
            end = end or time.monotonic() + self._patience
            if time.monotonic() >= end:
                raise trouble
            if delay == _SAID_AFTER_S:  # not the first time: a connection that broke is made anew without a word
                log.warning("%s; trying again for %g s", trouble, self._patience)
            await sleep(delay * random.uniform(0.5, 1.0))
            delay = min(delay * 2, 2.0)

    async def _reply(self, connection: Any) -> Any:
        try:
            return await _outcome(connection.read_response())
        except redis.ResponseError as error:
            return refusal(error)

    def _broken(self, error: BaseException) -> Unreachable:
        """What to raise once patience is over; raises at once what is no broken connection."""
        if isinstance(error, (redis.AuthenticationError, redis.ResponseError)):  # of the log-in
            raise refusal(error) from error
        if not isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError, asyncio.TimeoutError)):
            raise error
        self.breaks += 1
        url = urlsplit(self._urls[self._at])
        self._at = (self._at + 1) % len(self._urls)
        return Unreachable(f"no answer from {url.hostname}:{url.port or 7770}: {str(error).rstrip('.')}")

    def close(self) -> None:
        for connection in self._free.pop(os.getpid(), []):
            connection.disconnect()

    async def aclose(self) -> None:
        for connection in self._async_free.pop(asyncio.get_running_loop(), []):
            await connection.disconnect()

"""Commands and replies over redis-py, for threads and for asyncio.

A method that sends commands is written once, as a coroutine that is given an Ask; twins() makes a blocking method of it, and one for asyncio. With
Transport.aask it waits as coroutines do; with Transport.ask, which blocks, it never suspends, so now() and each() run it in a thread.

A connection that breaks is made anew, to the next address, and the commands are sent again: so all commands here may be repeated. A refusal that says
"retry later", or that another daemon serves, is handled in the same way."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import inspect
import logging
import os
import random
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload
from urllib.parse import urlsplit

from .errors import Refused, Unreachable

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    P = ParamSpec("P")

# Debian's redis-py has no types.
redis: Any = importlib.import_module("redis")
redis_asyncio: Any = importlib.import_module("redis.asyncio")

T = TypeVar("T")
Command = Sequence[Any]

BLOCK_MS = 5000  # of a command that waits: shorter than the time-outs of clients, proxies and firewalls
REPLY_S, CONNECT_S = 30.0, 5.0  # time-outs
LATER = ("QUEUEFULL", "DRAINING", "STORE")
ELSEWHERE = ("READONLY", "LOADING")  # it stands by, takes over, or is not sure that it still serves
ERROR_REPLIES = (redis.ResponseError, redis.AuthenticationError, redis.exceptions.BusyLoadingError)
_PORTS = "an App connects to the port `listen.port`, 7770 unless it is configured otherwise, and a worker to `workers.port`, 7771"
STRANGE = redis.exceptions.InvalidResponse  # of a port that speaks another protocol
BROKEN = (redis.ConnectionError, redis.TimeoutError, OSError, asyncio.TimeoutError)
_CODES = {redis.exceptions.NoPermissionError: "NOPERM", redis.ReadOnlyError: "READONLY", redis.exceptions.BusyLoadingError: "LOADING"}
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.05, 2.0
_AT_ONCE = 64  # commands of an event loop that do not wait for jobs: a guess; each has a connection

log = logging.getLogger("locksley")


class Ask(Protocol):
    """Sends commands together, and returns their replies. `patience`: seconds, instead of the application's."""

    def __call__(self, commands: list[Command], *, patience: float | None = None) -> Awaitable[list[Any]]: ...


def now(waiting: Awaitable[T]) -> T:
    """Runs a coroutine that blocks, and so never suspends, to its end."""
    try:
        next(waiting.__await__())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("a coroutine that should block was suspended")


def each(items: AsyncIterator[T]) -> Iterator[T]:
    """As now(), for an asynchronous generator."""
    with contextlib.suppress(StopAsyncIteration):
        while True:
            yield now(items.__anext__())


@overload
def twins(
    method: Callable[Concatenate[Any, Ask, P], Coroutine[Any, Any, T]],
) -> tuple[Callable[Concatenate[Any, P], T], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]]: ...
@overload
def twins(
    method: Callable[Concatenate[Any, Ask, P], AsyncIterator[T]],
) -> tuple[Callable[Concatenate[Any, P], Iterator[T]], Callable[Concatenate[Any, P], AsyncIterator[T]]]: ...
def twins(method: Any) -> Any:
    """Makes two methods of one that is given an Ask: one that blocks, and one for asyncio."""
    run: Any = each if inspect.isasyncgenfunction(method) else now

    def blocking(self: Any, *args: Any, **kwargs: Any) -> Any:
        return run(method(self, self.app.transport.ask, *args, **kwargs))

    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, self.app.transport.aask, *args, **kwargs)

    signature = inspect.signature(method)
    of_callers = signature.replace(parameters=[parameter for name, parameter in signature.parameters.items() if name != "ask"])
    for twin in (blocking, waiting):
        vars(functools.update_wrapper(twin, method))["__signature__"] = of_callers
    return blocking, waiting


def with_names(made: type[T]) -> type[T]:
    """A decorator of a class with twins: help() and tracebacks show them by the names that users know."""
    for name, value in vars(made).items():
        if hasattr(value, "__signature__"):
            value.__name__, value.__qualname__ = name, f"{made.__name__}.{name}"
            method = value.__wrapped__  # which a TypeError for wrong arguments names; the twin that blocks comes first
            if method.__name__.startswith("_"):
                method.__name__, method.__qualname__ = name, value.__qualname__
    return made


def refusal(error: BaseException) -> Refused:
    """The Refused of an error of redis-py, which takes some codes off the text, and makes classes of them."""
    if isinstance(error, STRANGE):
        if 'got "H"' in str(error) or "b'HTTP/" in str(error):
            return Refused("PROTOCOL", f"this port speaks HTTP, for the dashboard: {_PORTS}")
        return Refused("PROTOCOL", f"this port does not speak Locksley's protocol: {_PORTS} ({error})")
    code, _, rest = str(error).partition(" ")
    if isinstance(error, redis.AuthenticationError) and code not in ("NOAUTH", "WRONGPASS"):
        code, rest = "WRONGPASS" if "username-password" in rest else "NOAUTH", str(error)
    if code in ("NOAUTH", "WRONGPASS"):
        return Refused(code, f"{rest.rstrip('.')}. Log in by the URL, redis://USER:PASSWORD@HOST; LOCKSLEY_PASSWORD is for a URL without a password")
    if type(error) in _CODES:
        return Refused(_CODES[type(error)], str(error))
    return Refused(code, rest) if code.isalpha() and code.isupper() else Refused("ERR", str(error))


def trouble_of(error: BaseException) -> str:
    """What is wrong with a connection, and what to do about it if redis-py does not say so."""
    said = str(error).rstrip(".") or type(error).__name__
    is_unknown = re.search("local issuer certificate|self.signed certificate", said)
    return said + (": name the authority that signed it: --ca-file FILE for a worker, App(url, ssl_ca_certs=FILE) for an App" if is_unknown else "")


def text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def as_map(reply: Any) -> Mapping[str, Any]:
    """A map is a flat array in RESP2, and a dict where redis-py speaks RESP3. Strings become text, except the payload and the output of JOB, which
    are the users' bytes."""
    pairs = reply.items() if hasattr(reply, "items") else zip(reply[::2], reply[1::2])
    named = ((text(key), value) for key, value in pairs)
    return {key: text(value) if isinstance(value, bytes) and key not in ("payload", "output") else value for key, value in named}


async def _outcome(value: Any) -> Any:
    """The result of a method of redis-py's blocking classes, or of its classes for asyncio."""
    return await value if inspect.isawaitable(value) else value


async def reply_of(connection: Any) -> Any:
    """The next reply of a connection; a refusal is returned as a Refused."""
    try:
        return await _outcome(connection.read_response())
    except ERROR_REPLIES as error:
        return refusal(error)


async def one(ask: Ask, *command: Any) -> Any:
    """The reply to a single command."""
    [reply] = await ask([command])
    return reply


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def packed(commands: Iterable[Command]) -> bytes:
    """All commands in one piece, because each write releases Python's global lock. The function of redis-py takes several times as long for many
    words."""
    pieces: list[bytes] = []
    for command in commands:
        pieces.append(b"*%d\r\n" % len(command))
        pieces += [bulk(word if type(word) is bytes else str(word).encode()) for word in command]
    return b"".join(pieces)


def _check_files(options: Mapping[str, Any]) -> None:
    """Checks that the files for TLS can be used: an OSError names the file that cannot. redis-py would report it as a failure of the network."""
    authorities, certificate, key = (options.get(name) for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"))
    for file in (authorities, certificate, key):
        if file:
            open(file, "rb").close()
    context, problem = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), f"{authorities} has no certificates in PEM format, or damaged ones"
    try:
        if authorities:
            context.load_verify_locations(authorities)
        problem = f"{certificate} and {key or certificate} are no certificate and its key in PEM format"
        if certificate:
            context.load_cert_chain(certificate, key, options.get("ssl_password"))
    except ssl.SSLError as error:
        raise OSError(f"{problem}: {error}") from None


class Addresses:
    """The daemons of which one serves: several URLs, or one with several addresses, redis://user:password@a:7770,b:7770; a:7770 is redis://a:7770.
    `url` is the one that is believed to serve, and may be none of `urls`, since a standby named it. `options` are those of a connection of redis-py;
    for a log-in, the URL counts before `options`, and `options` count before the environment. Any thread may use it."""

    def __init__(self, urls: str | Sequence[str], port: int, options: Mapping[str, Any]) -> None:
        # Replies are bytes here, whatever the program has elsewhere.
        password = None if "credential_provider" in options else os.environ.get("LOCKSLEY_PASSWORD")
        login: dict[str, Any] = {"username": "default", "password": password} if password else {}
        self._options = {**login, "socket_timeout": REPLY_S, "socket_connect_timeout": CONNECT_S, **options, "decode_responses": False}
        self._port, self._at = port, 0
        self._are_files_checked = False
        given = [url if "://" in url else f"redis://{url}" for url in ([urls] if isinstance(urls, str) else urls)]
        self.urls = [self._at_host(url, host) for url in given for host in self.host(url).split(",")]
        self.url = self.urls[0]

    @staticmethod
    def host(url: str) -> str:
        """The host of a URL with the port, and without user and password."""
        return urlsplit(url).netloc.rpartition("@")[2]

    def _at_host(self, url: str, host: str) -> str:
        parts = urlsplit(url)
        login = "".join(parts.netloc.rpartition("@")[:2])
        if parts.scheme not in ("redis", "rediss"):
            hint = f"; {parts.scheme}:// is the scheme of the dashboard: {_PORTS}" if parts.scheme in ("http", "https") else ""
            raise ValueError(f"expected redis://host:port or rediss://host:port, found {parts.scheme}://{host}{hint}")
        return parts._replace(netloc=login + host + ("" if urlsplit(f"//{host}").port else f":{self._port}")).geturl()

    def add(self, hosts: Iterable[str]) -> None:
        """Adds other daemons of the same cluster."""
        self.urls += [url for url in (self._at_host(self.url, host) for host in hosts) if url not in self.urls]

    def connection(self, pool: Any) -> tuple[str, Any]:
        """The URL of the daemon, and a connection to it that is not open yet, of the class that this pool of redis-py makes. Raises OSError as long
        as a file for TLS cannot be used."""
        if not self._are_files_checked:
            _check_files(self._options)
            self._are_files_checked = True
        url = self.url
        return url, pool.from_url(url, **self._options).make_connection()

    def turn(self, url: str, trouble: str) -> None:
        """The daemon at `url` does not serve: chooses the one that it names, or else the next one of the list."""
        named = re.search(r"the active daemon is (\S+:\d+)$", trouble)
        if named and self._at_host(url, named[1]) != url:
            self.url = self._at_host(url, named[1])
        elif self.url == url:  # else another thread has chosen already
            self._at = (self._at + 1) % len(self.urls)
            self.url = self.urls[self._at]


class Transport:
    """Connections to the daemon that serves. Any thread and any event loop may use it."""

    def __init__(self, urls: str | Sequence[str], patience: float, options: Mapping[str, Any]) -> None:
        self._addresses, self._patience = Addresses(urls, 7770, options), patience
        self._free: dict[int, list[Any]] = {}  # by process: after a fork the connections are the parent's
        self._async_free: dict[asyncio.AbstractEventLoop, tuple[list[Any], AsyncGenerator[None, None], asyncio.Semaphore]] = {}

    async def ask(self, commands: list[Command], *, patience: float | None = None) -> list[Any]:
        free = self._free.setdefault(os.getpid(), [])
        return await self._exchange(lambda: self._attempt(commands, redis.ConnectionPool, free), time.sleep, patience)

    async def aask(self, commands: list[Command], *, patience: float | None = None) -> list[Any]:
        loop = asyncio.get_running_loop()
        if loop not in self._async_free:
            free: list[Any] = []
            self._async_free[loop] = free, self._close_with(loop, free), asyncio.Semaphore(_AT_ONCE)
            await self._async_free[loop][1].__anext__()
        free, _, room = self._async_free[loop]
        turn: Any = contextlib.AsyncExitStack() if commands[0][0] in ("WAIT", "RESULTS") else room

        async def attempt() -> list[Any]:
            async with turn:
                return await self._attempt(commands, redis_asyncio.ConnectionPool, free)

        exchange = self._exchange(lambda: self._apart(attempt()), asyncio.sleep, patience)
        return await (exchange if patience is None else asyncio.wait_for(exchange, patience))

    async def _apart(self, attempt: Coroutine[Any, Any, list[Any]]) -> list[Any]:
        """Runs the attempt in a task of its own, because redis-py loses cancellations: it uses asyncio.wait_for, which before Python 3.12 drops a
        cancellation that comes just at the end, and it may fail while it closes the connection. asyncio.wait drops none."""
        task = asyncio.ensure_future(attempt)
        try:
            await asyncio.wait([task])
        finally:
            if not task.done():
                task.add_done_callback(lambda task: task.cancelled() or task.exception())  # else asyncio would log an exception
                task.cancel()
        return task.result()

    async def _close_with(self, loop: asyncio.AbstractEventLoop, free: list[Any]) -> AsyncGenerator[None, None]:
        """asyncio.run() closes the asynchronous generators that are left: so this one closes the connections of a loop that ends."""
        try:
            yield
        finally:
            self._async_free.pop(loop, None)
            for _, connection in free:
                await connection.disconnect()

    async def _exchange(self, attempt: Callable[[], Awaitable[list[Any]]], sleep: Callable[[float], Any], patience: float | None) -> list[Any]:
        delay, end = _FIRST_DELAY_S, 0.0
        patience = self._patience if patience is None else patience
        while True:
            try:
                return await attempt()
            except (Refused, Unreachable) as error:
                end = end or time.monotonic() + patience
                if (isinstance(error, Refused) and error.code not in LATER + ELSEWHERE) or time.monotonic() >= end:
                    raise
                if delay == 2 * _FIRST_DELAY_S:  # not the first time: a connection that broke is made anew without a warning
                    log.warning("%s; trying again for %g s", error, patience)
            await _outcome(sleep(delay * random.uniform(0.5, 1.0)))
            delay = min(2 * delay, _LONGEST_DELAY_S)

    async def _attempt(self, commands: list[Command], pool: Any, free: list[Any]) -> list[Any]:
        try:
            url, connection = free.pop()
        except IndexError:
            url, connection = self._addresses.connection(pool)
        try:
            await _outcome(connection.send_packed_command([packed(commands)]))
            replies = [await reply_of(connection) for _ in commands]
        except ERROR_REPLIES as error:  # replies to the log-in: redis-py has closed the connection, and opens it again when it is used
            replies = [refusal(error)]
        except BaseException as error:
            await _outcome(connection.disconnect())  # a late reply would be taken for that of the next command
            if isinstance(error, STRANGE):
                raise refusal(error) from error
            if not isinstance(error, BROKEN):  # it was cancelled, or interrupted
                raise
            await self._turn(url, free)
            raise Unreachable(f"no answer from {Addresses.host(url)}: {trouble_of(error)}") from error
        free.append((url, connection))
        refused = next((reply for reply in replies if isinstance(reply, Refused)), None)
        if refused is None:
            return replies
        if refused.code in ELSEWHERE:
            await self._turn(url, free, str(refused))
        raise refused

    async def _turn(self, url: str, free: list[Any], trouble: str = "") -> None:
        """Chooses another daemon, because the one at `url` does not serve. Closes the free connections, which lead to it, too."""
        self._addresses.turn(url, trouble)
        with contextlib.suppress(IndexError):
            while True:
                await _outcome(free.pop()[1].disconnect())

    def close(self) -> None:
        for _, connection in self._free.pop(os.getpid(), []):
            connection.disconnect()

    async def aclose(self) -> None:
        if (entry := self._async_free.get(asyncio.get_running_loop())) is not None:
            await entry[1].aclose()

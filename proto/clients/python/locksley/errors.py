"""What can go wrong: refusals of the daemon, and jobs that failed.

The text of a failed job is one line for people, a TAB, and details for programs: as JSON, or in the bytes of the application's codec, as base64. With
such a codec the line for people names the class of the exception alone."""

from __future__ import annotations

import base64
import contextlib
import json
import traceback
from typing import Any

from .codec import JSON, Codec

_LONGEST = 60_000  # bytes; the daemon takes a line of up to 64 KiB from a worker
_LONGEST_LINE = 4096  # characters
_LONGEST_TRACEBACK = 6000


class LocksleyError(Exception):
    """The base of all errors of this package."""


class Refused(LocksleyError):
    """The daemon's error reply. `code` is its first word, such as NOHANDLER or QUEUEFULL."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code

    def __str__(self) -> str:
        return " ".join(self.args)

    @property
    def may_go_in_parts(self) -> bool:
        """Whether the daemon may accept fewer jobs at a time."""
        return self.code == "TOOBIG" and "limits.max_batch_jobs" not in str(self) and "limits.max_payload" not in str(self)


class Unreachable(LocksleyError, ConnectionError):
    """No daemon answered while the application's patience lasted."""


class Stopped(LocksleyError):
    """Raised in a task, or by a task, when its job should stop."""


class RemoteTraceback(LocksleyError):
    """The cause of a JobError: the worker's traceback, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class JobError(LocksleyError):
    """A job that did not end well; its subclasses are for those that did not end by an exception.

    `exception` is the name of the exception's class, or ""; `attempt` is 0 where the worker was not told."""

    status = "error"

    def __init__(self, batch: str, index: int, message: str, exception: str = "", attempt: int = 0, remote_traceback: str = "") -> None:
        super().__init__(batch, index, message, exception, attempt, remote_traceback)
        self.batch, self.index, self.message, self.exception = batch, index, message, exception
        self.attempt, self.remote_traceback = attempt, remote_traceback
        self.__cause__ = RemoteTraceback(remote_traceback) if remote_traceback else None

    def __str__(self) -> str:
        return f"job {self.index} of batch {self.batch}: {self.message}"


class JobTimeout(JobError):
    status = "timeout"


class JobCrashed(JobError):
    """The process that ran it died."""

    status = "crashed"


class JobCancelled(JobError):
    status = "cancelled"


_BY_STATUS = {kind.status: kind for kind in (JobError, JobTimeout, JobCrashed, JobCancelled)}


def encode_failure(error: BaseException, attempt: int, codec: Codec) -> bytes:
    """The output of a job whose task raised this error; if it cannot be encoded, only the name of its class."""
    name = type(error).__name__
    try:
        return _encoded(name, *_described(name, error), attempt, codec)
    except BaseException:  # an error of the codec, or there is no memory
        return name.encode(errors="replace")


def _described(name: str, error: BaseException) -> tuple[str, str]:
    """A line, and the traceback. An exception's own methods may raise anything; and a message may fill the memory."""
    line = name
    parts: list[str] = []
    frames = error.__traceback__.tb_next if error.__traceback__ else None  # without the frame of this package
    try:
        said = str(error)
        line = " ".join(f"{name}: {said[:_LONGEST_LINE]}".split())[:_LONGEST_LINE] if said else name
    except BaseException:
        said = ""
    with contextlib.suppress(BaseException):
        parts = traceback.format_exception(type(error), error, frames) if len(said) <= _LONGEST_LINE else []
    return line, "".join(parts or [*traceback.format_tb(frames), line])[-_LONGEST_TRACEBACK:]


def _encoded(name: str, line: str, text: str, attempt: int, codec: Codec) -> bytes:
    detail = {"exception": name, "attempt": attempt, "traceback": text}
    if codec is JSON:
        return f"{line}\t{json.dumps(detail, ensure_ascii=False)}".encode(errors="replace")
    while True:  # a codec may make many bytes of a character
        encoded = name.encode() + b"\t" + base64.b64encode(codec.dumps({**detail, "traceback": text, "message": line}))
        if len(encoded) <= _LONGEST or not line:
            return encoded
        line, text = (line, text[-(len(text) // 2) :]) if len(text) > len(line) else (line[: len(line) // 2], text)


def decode_failure(batch: str, index: int, status: str, output: bytes, codec: Codec) -> JobError:
    line, tab, rest = output.partition(b"\t")
    detail: dict[str, Any] = {}
    try:
        if tab:
            detail = dict(json.loads(rest) if rest.startswith(b"{") else codec.loads(base64.b64decode(rest, validate=True)))
    except Exception:  # another program's text, which has a TAB
        line = output
    message = detail.get("message") or line.decode(errors="replace") or status
    more = detail.get("exception", ""), detail.get("attempt", 0), detail.get("traceback", "")
    return _BY_STATUS.get(status, JobError)(batch, index, message, *more)

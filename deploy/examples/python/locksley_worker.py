"""A Locksley worker in Python: serve(function) answers each job with what the function returns for its payload.

    import locksley_worker

    locksley_worker.serve(lambda payload: payload.upper())

The function is given the payload as bytes; one with a second parameter, without a default, is also given the Job. It returns bytes, a str
(sent as UTF-8), or None for an empty output. An exception is the job's error, as one line; its traceback goes to standard error, and so to the
daemon's log. serve() returns when the daemon wants no more of this process.

Import it before anything that prints: from then on standard input is empty and standard output is standard error, for this process and for those
that it starts, and nothing gets between the answers. One thread calls the function; how many processes there are is the daemon's matter. Python 3.9
or later."""

import inspect
import os
import sys
import traceback
from typing import NamedTuple

_LONGEST_ERROR = 4096  # characters; the daemon takes a line of up to 64 KiB


class Job(NamedTuple):
    index: int  # its place in its batch
    batch: str  # the batch's id


def serve(function):
    wants_job = _has_second_parameter(function)
    while True:
        payload, index, batch = _next_request()
        if batch is None:
            return
        try:
            output = _as_bytes(function(payload, Job(int(index), batch.decode())) if wants_job else function(payload))
            answer = b"$%d\r\n%b\r\n" % (len(output), output)
        except Exception as error:
            traceback.print_exc()
            answer = b"-%b\r\n" % _one_line(error)
        # At once, even if more jobs are waiting: should the next one kill this process, or take too long, then the daemon
        # knows which it was.
        _write(answer)


def _take_the_pipes():
    """The daemon's pipes, under numbers that nothing else knows; programs that are started do not inherit them."""
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)
    return jobs, answers


_jobs, _answers = _take_the_pipes()


def _has_second_parameter(function):
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some of those written in C
        return False
    if len(parameters) < 2:
        return False
    second = parameters[1]
    return second.default is second.empty and second.kind in (second.POSITIONAL_ONLY, second.POSITIONAL_OR_KEYWORD)


def _next_request():
    """[payload, index, batch], each as bytes; three times None at the end of the input."""
    if not _jobs.readline():  # "*3": what else the daemon might say, it says to no worker
        return None, None, None
    return _next_string(), _next_string(), _next_string()


def _next_string():
    """None: the daemon ended in the middle of it."""
    head = _jobs.readline()
    if not head:
        return None
    size = int(head[1:])
    text = _jobs.read(size + 2)
    return text[:-2] if len(text) == size + 2 else None


def _as_bytes(output):
    if isinstance(output, bytes):
        return output
    if output is None:
        return b""
    if isinstance(output, str):
        return output.encode()
    if isinstance(output, (bytearray, memoryview)):
        return bytes(output)
    raise TypeError(f"the handler returned {type(output).__name__}; it may return bytes, str or None")


def _one_line(error):
    """Class and message, in one line. A message that cannot be formatted must not end the process."""
    name = type(error).__name__
    try:
        text = " ".join(f"{name}: {error}".split()) if str(error) else name
    except Exception:
        text = name
    return text[:_LONGEST_ERROR].encode(errors="replace")


def _write(answer):
    written = os.write(_answers, answer)
    while written < len(answer):
        answer = memoryview(answer)[written:]
        written = os.write(_answers, answer)

"""A Locksley worker in Python: serve(function) answers each job with what the function returns for its payload.

    import locksley_worker

    locksley_worker.serve(lambda payload: payload.upper())

The function is given the payload as bytes; one with a second parameter, without a default, is also given the Job. It returns bytes, a str
(sent as UTF-8), or None for an empty output. While it runs it may tell its submitter how far it is by job.progress(per_cent), and
leave a note for its next attempt by job.write_note(text). With `worker_protocol: 2` the Job also has the attempt, the note of the attempt before, the
trace and the time limit, and job.should_stop() says whether the batch was cancelled. An exception is the job's error, as one line; its traceback goes to standard error, and so to the
daemon's log. serve() returns when the daemon wants no more of this process.

Import it before anything that prints: from then on standard input is empty and standard output is standard error, for this process and for those that
it starts, and nothing gets between the answers. One thread calls the function; the daemon decides how many processes there are. Python 3.9 or
later."""

import inspect
import os
import queue
import sys
import threading
import traceback

_LONGEST_ERROR = 4096  # characters; the daemon takes a line of up to 64 KiB
_BY_HAND = (
    "jobs come from the daemon: name this program as `worker:` in its configuration, "
    "or start it by `locksley work HANDLER --url redis://HOST:7771 -- PROGRAM`"
)


class Job:
    def __init__(self, index, batch, attempt=None, trace="", note=None, timeout_ms=0):
        self.index = index  # its place in its batch
        self.batch = batch  # the batch's id
        # With worker_protocol: 2.
        self.attempt = attempt  # 1, 2, …
        self.trace = trace  # a W3C traceparent, or ""
        self.note = note  # what the attempt before has left, or None
        self.timeout_ms = timeout_ms  # 0: none

    def progress(self, per_cent):
        _write(b"*2\r\n$8\r\nprogress\r\n:%d\r\n" % min(100, max(0, int(per_cent))))

    def write_note(self, text):
        """Leaves a note of at most 4 KiB for the next attempt."""
        _write(b"*2\r\n$4\r\nnote\r\n" + _bulk(_as_bytes(text)[:4096]))

    def should_stop(self):
        """Whether its batch was cancelled. Always False without worker_protocol: 2."""
        return (self.batch, self.index) in _stopped


def serve(function):
    if _jobs.isatty():
        print(_BY_HAND, file=sys.stderr)
        sys.exit(64)
    wants_job = _has_second_parameter(function)
    first = _next_message()
    if first is not None and len(first) == 8:
        return _serve_version_2(function, wants_job, first)
    message = first
    while message is not None:
        payload, index, batch = message
        try:
            output = _as_bytes(function(payload, Job(int(index), batch.decode())) if wants_job else function(payload))
            answer = _bulk(output)
        except Exception as error:
            traceback.print_exc()
            answer = b"-%b\r\n" % _one_line(error)
        # Writes the answer at once, even if more jobs are waiting: if the next one kills this process, or takes too long, the daemon knows which job
        # it was.
        _write(answer)
        message = _next_message()


_stopped = set()  # (batch, index) of jobs that are to stop


def _serve_version_2(function, wants_job, first):
    """Another thread reads, so that a job can be told to stop while it runs."""
    jobs = queue.SimpleQueue()
    jobs.put(first)

    def read():
        while (message := _next_message()) is not None:
            if message[0] == b"stop":
                _stopped.add((message[2].decode(), int(message[1])))
            else:
                _stopped.discard((message[3].decode(), int(message[2])))  # a stop that came after the answer of a job of the same name
                jobs.put(message)
        jobs.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (message := jobs.get()) is not None:
        _, payload, index, batch, attempt, trace, note, timeout_ms = message
        job = Job(int(index), batch.decode(), int(attempt), trace.decode(), note or None, int(timeout_ms))
        status, output = b"cancelled", b""
        if not job.should_stop():
            try:
                status, output = b"ok", _as_bytes(function(payload, job) if wants_job else function(payload))
            except Exception as error:
                traceback.print_exc()
                status, output = b"error", _one_line(error)
            if status == b"error" and job.should_stop():
                status, output = b"cancelled", b""
        _stopped.discard((job.batch, job.index))
        _write(b"*3\r\n" + _bulk(index) + _bulk(status) + _bulk(output))


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
    except (TypeError, ValueError):  # some functions that are written in C
        return False
    if len(parameters) < 2:
        return False
    second = parameters[1]
    return second.default is second.empty and second.kind in (second.POSITIONAL_ONLY, second.POSITIONAL_OR_KEYWORD)


def _next_message():
    """A list of bytes; None at the end of the input."""
    head = _jobs.readline()
    if not head:
        return None
    words = [_next_string() for _ in range(int(head[1:]))]
    return None if None in words else words


def _next_string():
    """None: the daemon ended in the middle of it."""
    head = _jobs.readline()
    if not head:
        return None
    size = int(head[1:])
    text = _jobs.read(size + 2)
    return text[:-2] if len(text) == size + 2 else None


def _bulk(text):
    return b"$%d\r\n%b\r\n" % (len(text), text)


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

"""Handlers for tests, and what the tests ask of the processes that they start: found by a mark in their arguments, never by a name."""

import contextlib
import os
import pathlib
import select
import signal
import time
import uuid

WORKER = str(pathlib.Path(__file__).with_name("python_worker.py"))
PYTHON = "/usr/bin/python3"


def shell(**more):
    """Each payload is a script."""
    return {"command": ["sh", "-c", "{}"], "input": "argument", "grace": "200ms", **more}


def python(**more):
    """Each payload is a program."""
    return {"command": [PYTHON, "-c", "{}"], "input": "argument", "grace": "200ms", **more}


def worker(*arguments, **more):
    """Each payload is for python_worker.py."""
    return {"worker": [PYTHON, "-B", WORKER, *arguments], "grace": "200ms", **more}


def text(reply):
    """What came as bytes, read as UTF-8."""
    return reply.encode("latin-1").decode()


def new_mark():
    return f"locksley-mark-{uuid.uuid4().hex}"


def processes():
    return (path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit())


def marked(mark):
    """The processes that have `mark` in their arguments."""
    found = []
    for path in processes():
        try:
            if mark.encode() in (path / "cmdline").read_bytes() and int(path.name) != os.getpid():
                found.append(int(path.name))
        except OSError:
            pass  # it has ended
    return sorted(found)


@contextlib.contextmanager
def grandchildren_ended(pid):
    """Those of before are killed if they run 5 s longer than what is inside: LeakSanitizer's look at a program's end may take for ever, and all of a
    processor, when its terminal goes away meanwhile."""
    with contextlib.ExitStack() as open_:
        programs = []
        for each in (grandchild for child in children(pid) for grandchild in children(child)):
            with contextlib.suppress(ProcessLookupError):
                programs.append(os.pidfd_open(each))
                open_.callback(os.close, programs[-1])
        yield
        end = time.monotonic() + 5
        for program in programs:
            if not select.select([program], [], [], max(0, end - time.monotonic()))[0]:
                signal.pidfd_send_signal(program, signal.SIGKILL)


def children(pid):
    """Of all its threads; those that have ended and were not waited for are among them."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            pass  # the thread has ended
    return sorted(found)


def keeper_of(daemon):
    """The daemon's only child."""
    found = children(daemon.pid)
    if len(found) != 1:
        raise AssertionError(f"the daemon has the children {found}: there should be the keeper alone")
    return found[0]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])

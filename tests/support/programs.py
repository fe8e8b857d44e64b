"""Handlers for tests, and what the tests ask of the processes that they start: found by a mark in their arguments, never by a name."""

import contextlib
import os
import pathlib
import select
import signal
import time
import uuid

from locksley_daemon import DEADLINE_S, wait_for

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
    """The bytes of a reply, read as UTF-8."""
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


def children(pid):
    """The children of all threads of the process, also those that have ended and were not waited for."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            pass  # the thread has ended
    return sorted(found)


@contextlib.contextmanager
def grandchildren_ended(pid):
    """The code inside the block ends the grandchildren that existed before it: an error if some run on. Under AddressSanitizer they are killed 5 s
    later: one that had closed all that is its own was seen to run on, with /proc/self/task open, which is LeakSanitizer's."""
    seconds = 5 if "address" in os.environ.get("LOCKSLEY_SANITIZE", "") else DEADLINE_S
    with contextlib.ExitStack() as open_:
        programs = []
        for each in (grandchild for child in children(pid) for grandchild in children(child)):
            with contextlib.suppress(ProcessLookupError):
                programs.append(os.pidfd_open(each))
                open_.callback(os.close, programs[-1])
        yield
        end = time.monotonic() + seconds
        left = [program for program in programs if not select.select([program], [], [], max(0, end - time.monotonic()))[0]]
        for program in left:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(program, signal.SIGKILL)
        if left and seconds == DEADLINE_S:
            raise AssertionError(f"{len(left)} programs had not ended {DEADLINE_S} s after their terminal")


def keeper_of(daemon):
    """The daemon's only child."""
    found = children(daemon.pid)
    if len(found) != 1:
        raise AssertionError(f"the daemon has the children {found}: there should be the keeper alone")
    return found[0]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def are_asleep(*pids):
    """Whether all threads of these processes wait for something. One that has something to do, and waits for the processor alone, does not."""
    with contextlib.suppress(OSError):  # a thread ends
        return all((task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "S" for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
    return False


def settled_descriptors(*pids):
    """How many descriptors each process has open, once 20 looks in a row give the same number while all of them sleep: descriptors for a process that
    has ended may stay open for a moment longer."""
    looks = []

    def settled():
        looks.append([descriptors(pid) for pid in pids] if are_asleep(*pids) else None)
        return looks[-1] if looks[-20:] == [looks[-1]] * 20 else None

    return wait_for("the descriptors to settle", settled)


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])

"""A worker for the tests: what its payload says is what it does; any other payload comes back."""

import os
import signal
import subprocess

import locksley_worker

print("on its way", flush=True)  # before it serves


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def two_lines(job):
    raise ValueError("two\r\n\tlines")


def unspeakable(job):
    raise Unspeakable


def prints(job):
    print("printed by Python")
    os.write(1, b"written by C\n")
    subprocess.run(["cat"], check=True)  # would eat the requests that wait
    subprocess.run(["echo", "printed by a child"], check=True)
    return "quiet"


CASES = {
    b"job": lambda job: f"{job.index} of {job.batch}",
    b"text": lambda job: "Käse",
    b"nothing": lambda job: None,
    b"view": lambda job: memoryview(b"seen"),
    b"number": lambda job: 7,
    b"half a character": lambda job: "\ud800",
    b"two lines": two_lines,
    b"unspeakable": unspeakable,
    b"long": lambda job: {}["x" * 100_000],
    b"prints": prints,
    b"dies": lambda job: os.kill(os.getpid(), signal.SIGKILL),
}


def handler(payload, job):
    case = CASES.get(payload)
    return case(job) if case else payload


locksley_worker.serve(handler)

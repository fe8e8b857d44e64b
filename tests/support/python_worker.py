#!/usr/bin/python3
"""A worker for tests: each payload is Python that it runs, with answer(), error() and raw() to write what it says, and `index` and `batch`
of the job. What is written goes out when the statement is over, or with flush()."""

import os
import resource
import signal
import sys
import time

outgoing = []


def raw(data):
    outgoing.append(data if isinstance(data, bytes) else data.encode())


def answer(value):
    data = value if isinstance(value, bytes) else str(value).encode()
    raw(b"$%d\r\n%b\r\n" % (len(data), data))


def error(text):
    raw(f"-{text}\r\n")


def flush():
    data = b"".join(outgoing)
    outgoing.clear()
    while data:
        data = data[os.write(1, data) :]


def bulk(source):
    return source.read(int(source.readline()[1:]) + 2)[:-2]


def main():
    source = os.fdopen(0, "rb", closefd=False)
    names = globals()
    while source.readline() == b"*3\r\n":
        payload, names["index"], names["batch"] = bulk(source), int(bulk(source)), bulk(source).decode()
        exec(payload, names)
        flush()


if __name__ == "__main__":
    main()

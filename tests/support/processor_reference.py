#!/usr/bin/python3
"""Tells how much longer a piece of work takes on this machine at this moment. A process of its own does the same piece again and again, one that
takes a millisecond of processor time undisturbed, and measures each in its own processor time. A cache or a host that is shared with others prolongs
even that, and it prolongs the daemon's work as much: a limit on processor time is multiplied by it. Each piece also uses a mebibyte of fresh memory
for the first time, which is the size of the daemon's blocks: a page fault took 17 us on a virtual machine, which is 4 ms for a block.

As a program: runs until its standard input ends. Prints how much longer than the fastest piece the slowest one took, and adds the milliseconds that
the fresh memory took beside it."""

import contextlib
import mmap
import select
import subprocess
import sys
import time

PIECE_S = 0.001
BYTES = 256 * 1024  # copied at once
FRESH_BYTES = 1 << 20


class Slowdown:
    """`factor` is set after the block in which it was measured; 1: no other program disturbs."""

    factor = None


@contextlib.contextmanager
def slowdown():
    measured = Slowdown()
    with subprocess.Popen([sys.executable, "-B", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            yield measured
        finally:
            process.stdin.close()
            measured.factor = float(process.stdout.readline())


def time_of(work):
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def copy(source, copies):
    for _ in range(copies):
        bytearray(source)


def use_fresh_memory():
    with mmap.mmap(-1, FRESH_BYTES) as memory:
        for page in range(0, FRESH_BYTES, mmap.PAGESIZE):
            memory[page] = 1


def main():
    source = bytes(BYTES)
    copies = max(1, round(PIECE_S / min(time_of(lambda: copy(source, 1)) for _ in range(100))))
    pieces = [(PIECE_S, 0.0)]
    print("ready", flush=True)
    # Half a core is left.
    while not select.select([sys.stdin], [], [], sum(pieces[-1]))[0]:
        pieces.append((time_of(lambda: copy(source, copies)), time_of(use_fresh_memory)))
    fastest = min(copied for copied, _ in pieces)
    print(max(copied / fastest + fresh / PIECE_S for copied, fresh in pieces), flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Tells how much longer the machine makes a piece of work at this moment. A process of its own does the same piece again and again, one that
takes a millisecond of processor time undisturbed, and measures each in its own processor time. A cache or a host that is shared with others
prolongs even that, and it prolongs the daemon's work as much: a limit on processor time is multiplied by it.

As a program: runs until its standard input ends, and prints the slowest piece divided by the fastest."""

import contextlib
import select
import subprocess
import sys
import time

PIECE_S = 0.001
PAUSE_S = 0.001  # between two pieces: half a core is left
BYTES = 256 * 1024  # copied at once: to fresh memory, as the daemon's replies are


class Slowdown:
    """`factor` is there after the block in which it was measured: 1 where nothing disturbs."""

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


def time_of_copies(copies, source):
    begin = time.thread_time()
    for _ in range(copies):
        bytearray(source)
    return time.thread_time() - begin


def main():
    source = bytes(BYTES)
    copies = max(1, round(PIECE_S / min(time_of_copies(1, source) for _ in range(100))))
    times = [time_of_copies(copies, source)]
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        times.append(time_of_copies(copies, source))
    print(max(times) / min(times), flush=True)


if __name__ == "__main__":
    main()

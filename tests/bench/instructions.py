#!/usr/bin/python3
"""Counts the instructions of each hot path with callgrind, and fails if one needs more than its bound: a check that a busy machine
cannot disturb. Each path is run twice, with N and with 3 N repetitions, and the difference divided by 2 N, so that what does not
grow with N does not count.

usage: instructions.py HOT_PATHS [NAME...]     HOT_PATHS: the program built from hot_paths.cc"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Instructions once down the path, and the bound: what was counted with g++ 12 -O2, and about a fifth more for other compilers' sake.
BOUNDS = {
    "spawn": 110,  # counted: 92
    "join": 195,  # 165
    "job": 213,  # 177
    "job_with_result": 282,  # 207 to 235, as its results are published by the clock
    "turn": 1670,  # 1466
    "turn_of_customers": 2500,  # 2103
    "turn_at_gates": 2950,  # 2490
    "parse": 147,  # 122
    "options": 2820,  # 2384
    "ping": 494,  # 439
    "row": 160,  # 132
}
N = 20_000
TRIES = 3
# A worker takes jobs in bursts of some time by the clock, so that a busy machine makes more of them, each of which costs this besides its jobs. In
# the paths that have bursts, these do not count.
BURST = 437
OF_BURST = "locksley::Worker::run_burst(locksley::Batch&, locksley::IndexRange)"


def bursts(profile):
    number = re.search(rf"\((\d+)\) {re.escape(OF_BURST)}$", profile, re.MULTILINE)
    if number is None:
        sys.exit(f"instructions.py: there is no function {OF_BURST} any more")
    return sum(int(calls) for calls in re.findall(rf"^cfn=\({number[1]}\).*\ncalls=(\d+)", profile, re.MULTILINE))


def counted(program, name, n):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, name, str(n)],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"instructions.py: {name} failed:\n{done.stderr[-2000:]}")
        profile = pathlib.Path(folder, "out").read_text()
        total = int(re.search(r"^(?:summary|totals): (\d+)", profile, re.MULTILINE)[1])
        return total - BURST * bursts(profile) if name.startswith("job") else total


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, names = sys.argv[1], sys.argv[2:] or list(BOUNDS)
    failed = False
    for name in names:
        # A worker cuts its claims by the clock, too, so the least of a few tries counts.
        for _ in range(TRIES):
            each = (counted(program, name, 3 * N) - counted(program, name, N)) / (2 * N)
            is_over = each > BOUNDS[name]
            if not is_over:
                break
        failed = failed or is_over
        print(f"{name:16} {each:8.1f} instructions, bound {BOUNDS[name]}{': TOO MANY' if is_over else ''}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Very many jobs that write to standard error without end: commands and workers, one after the other in the slots that there are, each until it is
killed for what it writes to standard output; and 10,000 jobs of remote workers that all run at once. Meanwhile the daemon's memory, its log and the
longest stretch of its I/O thread stay within their limits, and each job ends as it should.

    floods.py [--jobs N] [--slots N] [--alone] [NAME ...]     NAME: as for unittest"""

import argparse
import contextlib
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from processor_reference import slowdown
from remote_worker import RemoteWorker
from resp import encode

MEBI = 1 << 20
KEPT = 64 * 1024  # of the standard error of a job, at most
LOG_BYTES_A_SLOT = KEPT // 2  # of limits.max_log_bytes: less than the jobs would have
RESULT_BYTES_A_SLOT = KEPT  # of limits.max_result_bytes, which counts the logs of running jobs, too
OUTPUT_BYTES = 64 * 1024  # max_output
# What a process has in the daemon: the result of its job, which may exceed the limit of results, since the job runs; twice the end of its standard
# error; and its output with the block that exceeded max_output, in a string that has grown to twice what it needs.
PROCESS_BYTES = KEPT + 16 * 1024 + 2 * (OUTPUT_BYTES + 64 * 1024)
OTHER_BYTES = 48 * MEBI  # what the allocator keeps of what is freed, and code that runs for the first time
STRETCH_S = 0.004  # as in io_stretch.py: the promise is 2 ms
LINES_A_SECOND = 20  # of standard error of a worker that are logged (LineLog::kMostLines)
OTHER_LINES = 100  # of all other kinds
LEASE_JOBS = 1000  # of the 1,024 of which a lease keeps what they write
DEADLINE_S = 1200
# More than is kept, even if a pipe still holds some of it at the end; and then without end.
FLOOD = 'yes "a line of standard error" | head -c 200000 >&2; yes "a line of standard error" >&2 &'


class Watch:
    """The most memory that the daemon takes beyond what it had before, while the block runs; and how much of it
    the logs of running jobs take, and all results."""

    def __init__(self, daemon):
        self.daemon, self.before, self.most = daemon, daemon.resident_bytes(), 0
        self.most_log = self.most_results = 0

    def __enter__(self):
        self.began, self.over = time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.over.wait(0.05):
            self.most = max(self.most, self.daemon.resident_bytes() - self.before)
            metrics = self.daemon.metrics()
            self.most_log = max(self.most_log, metrics["locksley_log_bytes"])
            self.most_results = max(self.most_results, metrics['locksley_account_used{resource="result_bytes"}'])

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.seconds = time.monotonic() - self.began


class Floods(DaemonTest):
    jobs, slots, is_alone = 40, 20, False

    @contextlib.contextmanager
    def watched(self, what, most_bytes, lines_a_second=0):
        """The block runs all the jobs, and then the daemon is judged."""
        with slowdown() if self.is_alone else contextlib.nullcontext() as machine, Watch(self.daemon) as watch:
            yield watch
        wait_for("the last of them to be over", lambda: self.daemon.metrics()["locksley_log_bytes"] == 0)
        metrics = self.daemon.metrics()
        stretch, most = metrics["locksley_io_longest_stretch_seconds"], STRETCH_S * machine.factor if machine else None
        most_bytes += OTHER_BYTES
        most_lines = OTHER_LINES + (watch.seconds + 1) * lines_a_second
        lines = self.daemon.log().count("\n")
        print(
            f"{what}: {watch.seconds:.1f} s, {watch.most / MEBI:.1f} MiB more than before (at most {most_bytes / MEBI:.0f}), {lines} lines of log "
            f"(at most {most_lines:.0f}), longest stretch {1000 * stretch:.2f} ms" + (f" (at most {1000 * most:.2f})" if most else ""),
            flush=True,
        )
        self.assertLess(watch.most, most_bytes)
        self.assertLessEqual(watch.most_log, metrics["locksley_max_log_bytes"])
        self.assertLess(lines, most_lines)
        if most:
            self.assertLess(stretch, most)


class Processes(Floods):
    def read_all(self, batch):
        """All rows, as they come, which makes room for more. Of some jobs their standard error is read first; a job that wrote while there was no room
        for results has none."""
        reader = self.connect(self.daemon, timeout=DEADLINE_S)
        cursor, read, kept = "0", 0, 0
        while True:
            cursor, page = reader("RESULTS", batch, "FROM", cursor, "COUNT", 100, "BLOCK", 0)
            for index, status, error in page:
                self.assertEqual(status, "error", error)
                self.assertLess(len(error), 8192, "an error has the end of standard error alone")
            if page:
                end, text = reader("LOG", batch, page[0][0])
                self.assertGreater(end, KEPT)
                self.assertLessEqual(len(text), KEPT)
                kept += len(text)
            read += len(page)
            if cursor == "0":
                self.assertGreater(kept, 0)
                return read
            reader("RESULTS", batch, "FROM", cursor, "COUNT", 1, "DISCARD")

    def run_all(self, what, lines_a_second, **handler):
        log_bytes, result_bytes = self.slots * LOG_BYTES_A_SLOT, self.slots * RESULT_BYTES_A_SLOT
        limits = {"max_log_bytes": log_bytes, "max_result_bytes": result_bytes}
        flood = {**handler, "concurrency": self.slots, "max_output": OUTPUT_BYTES}
        self.daemon = self.start({"handlers": {"flood": flood}, "lanes": {"processes": {"slots": self.slots}}, "limits": limits})
        command = self.connect(self.daemon)
        most_bytes = result_bytes + self.slots * PROCESS_BYTES
        with self.watched(f"{self.jobs} {what} in {self.slots} slots", most_bytes, lines_a_second) as watch:
            batch = command("SUBMIT", "flood", "RANGE", 0, self.jobs)
            self.assertEqual(self.read_all(batch), self.jobs)
        self.assertLess(watch.most_results, most_bytes)

    def test_commands(self):
        self.run_all("commands", 0, command=["sh", "-c", f"{FLOOD} exec yes"])

    def test_workers(self):
        # Of the two processes that a slot may have.
        self.run_all("workers", 2 * self.slots * LINES_A_SECOND, worker=["sh", "-c", f"read line; {FLOOD} echo this is no answer; wait"])


class Remote(Floods):
    def test_jobs_that_all_run_at_once(self):
        jobs = 10_000
        share = jobs * 6 * 1024  # a block of memory and a half for each; a user has half of the limit
        self.daemon = self.start({"workers": {"port": 0}, "handlers": {"flood": {"remote": True}}, "limits": {"max_log_bytes": 2 * share}})
        command = self.connect(self.daemon)
        batch = command("SUBMIT", "flood", "KEEP", "none", "RANGE", 0, jobs)
        leases = []  # each with its worker
        while sum(lease.count for _, lease in leases) < jobs:
            worker = RemoteWorker(self.daemon, "flood", slots=LEASE_JOBS)
            self.addCleanup(worker.close)
            leases.append((worker, worker.claim("WIDTH", LEASE_JOBS, "JOBS", LEASE_JOBS)))
        with self.watched(f"{jobs} remote jobs at once", share):
            for worker, lease in leases * 3:
                self.write_to_each(worker, lease, 8 * 1024)
            metrics = self.daemon.metrics()
            self.assertTrue(share / 2 < metrics["locksley_log_bytes"] <= share, metrics["locksley_log_bytes"])
            for index in range(0, jobs, jobs // 50):
                end, text = command("LOG", batch, index)
                self.assertEqual(end, 3 * 8 * 1024)
                self.assertTrue(text and text.endswith("\n"), "each has its part, and that is the end")
            for worker, lease in leases:
                worker.settle(lease, [""] * lease.count)
            self.assertEqual(command.wait(batch)["ok"], jobs)

    def write_to_each(self, worker, lease, size):
        text = "x" * (size - 1) + "\n"
        for begin in range(lease.first, lease.end, 100):
            part = range(begin, min(begin + 100, lease.end))
            worker.send(b"".join(encode("NOTE", lease.name, index, "LOG", text) for index in part))
            self.assertEqual({worker.read() for _ in part}, {"OK"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=Floods.jobs)
    parser.add_argument("--slots", type=int, default=Floods.slots)
    parser.add_argument("--alone", action="store_true", help="nothing else runs here: the longest stretch is judged, too")
    arguments, rest = parser.parse_known_args()
    Floods.jobs, Floods.slots, Floods.is_alone = arguments.jobs, arguments.slots, arguments.alone
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Nothing is left behind: no process, whatever programs do to get away and however jobs, the daemon or the keeper end; no descriptor and no
memory after thousands of jobs."""

import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from programs import PYTHON, children, keeper_of, marked, new_mark, resident_kib, settled_descriptors, shell, worker
from scratch import scratch
from time_limits import with_growing_limits

STAY = "time.sleep(1000)"
GET_AWAY = {
    "stays": STAY,
    "forks": f"[os.fork() for i in range(3)]; {STAY}",
    "session": f"os.fork() or (os.setsid(), os.fork()); {STAY}",
    "daemon": f"os.fork() or (os.setsid(), os.fork() and os._exit(0)); {STAY}",
    "sessions in sessions": "\n".join(["for i in range(20):", "  if os.fork(): break", "  os.setsid()", STAY]),
    "deaf": f"[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 3, 15)]; os.fork() or os.setsid(); {STAY}",
    "another group": f"p = os.fork()\nif p: time.sleep(0.1); os.setpgid(0, p)\nelse: os.setpgid(0, 0)\n{STAY}",
    "ever another": f"if os.fork() == 0:\n  os.setsid()\n  while True:\n    if os.fork(): os._exit(0)\n{STAY}",
}


class LeftoverTest(DaemonTest):
    def serve(self, settings=None, **handlers):
        self.daemon = self.start({"handlers": handlers, **(settings or {})})
        return self.connect(self.daemon)

    def run_away(self, drain="0s", **more):
        """Programs of all kinds, as commands and as workers, are at work in this daemon; or have been, if they have a time limit."""
        self.mark = new_mark()
        code = "import os, signal, sys, time; exec(PAYLOAD)"
        kinds = list(GET_AWAY.values())
        slots = {"concurrency": len(kinds), "grace": "200ms", **more}
        connection = self.serve(
            {"shutdown": {"drain_timeout": drain}, "lanes": {"processes": {"slots": 2 * len(kinds) + 1}}},
            one={"command": [PYTHON, "-c", code.replace("PAYLOAD", "sys.stdin.read()"), self.mark], **slots},
            py=worker(self.mark, **slots), sh=shell())  # fmt: skip
        began = "open({!r}, 'a').write('x'); ".format
        with tempfile.NamedTemporaryFile("r") as notes:
            self.batches = [connection("SUBMIT", handler, "JOBS", *[began(notes.name) + "\n" + kind for kind in kinds]) for handler in ("one", "py")]
            if "timeout" in more:
                for batch in self.batches:
                    self.assertEqual(connection.wait(batch)["failed"], len(kinds))
            else:
                # Of the workers' turns each has one job that runs.
                wait_for("programs to run", lambda: os.path.getsize(notes.name) > len(kinds) and len(marked(self.mark)) > 3 * len(kinds))
            self.began = os.path.getsize(notes.name)
        self.keeper = keeper_of(self.daemon)
        return connection

    def assert_nothing_is_left(self):
        wait_for("no process to be left", lambda: not marked(self.mark))

    def assert_works(self, connection):
        self.assertEqual(connection("RUN", "sh", "JOBS", "echo on"), [["ok", "on\n"]])
        # No zombie either.
        wait_for("the keeper to have no child", lambda: not children(keeper_of(self.daemon)))


class Processes(LeftoverTest):
    def test_jobs_that_are_over(self):
        """The leader ends by itself, what it has started would go on."""
        mark = new_mark()
        stay = [PYTHON, "-c", "import time; time.sleep(1000)", mark]
        start = f"import subprocess; [subprocess.Popen({stay!r}, start_new_session=s, stdout=n) for s in (False, True) for n in (None, subprocess.DEVNULL)]"
        connection = self.serve(one={"command": [PYTHON, "-c", start + "; print(1)"]}, sh=shell())
        self.assertEqual(connection("RUN", "one", "JOBS", *"abc"), [["ok", "1\n"]] * 3)
        self.mark = mark
        self.assert_nothing_is_left()
        self.assert_works(connection)

    def test_cancel(self):
        connection = self.run_away()
        for batch in self.batches:
            connection("CANCEL", batch)
        for batch in self.batches:
            self.assertEqual(connection.wait(batch)["cancelled"], len(GET_AWAY))
        self.assert_nothing_is_left()
        self.assert_works(connection)

    def test_timeout(self):
        def attempt(_, limit):
            connection = self.run_away(timeout=limit)
            self.assert_nothing_is_left()
            self.assert_works(connection)
            return self.began == len(self.batches) * len(GET_AWAY)  # in time to get away

        with_growing_limits(attempt)

    def test_the_daemon_is_killed(self):
        self.run_away()
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait_end()
        self.daemon.process.returncode = 0  # close() need not wonder
        self.assert_nothing_is_left()
        # It was a child of the daemon, so somebody else reaps it.
        status = pathlib.Path(f"/proc/{self.keeper}/status")
        wait_for("the keeper to be gone", lambda: not status.exists() or "State:\tZ" in status.read_text())

    def test_the_keeper_is_killed(self):
        connection = self.run_away()
        for batch in self.batches:
            connection("PAUSE", batch)
        os.kill(self.keeper, signal.SIGKILL)
        self.assert_nothing_is_left()
        for batch in self.batches:
            wait_for("the jobs that ran to have ended", lambda: connection.map("STATUS", batch)["running"] == 0)
            self.assertEqual({row[1] for row in connection.results(connection_cancel(connection, batch))} - {"cancelled"}, {"crashed"})
        self.assert_works(connection)
        self.assertNotEqual(keeper_of(self.daemon), self.keeper)

    def test_both_are_killed(self):
        """Then the programs themselves end; what they had started need not."""
        self.mark = new_mark()
        code = f"import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; {STAY}"
        connection = self.serve({"lanes": {"processes": {"slots": 4}}}, one={"command": [PYTHON, "-c", code, self.mark], "concurrency": 3}, py=worker(self.mark))
        for handler in ("one", "py"):
            connection("SUBMIT", handler, "JOBS", *[code] * 3)
        wait_for("four programs to run", lambda: len(marked(self.mark)) == 4)
        keeper = keeper_of(self.daemon)
        self.daemon.send_signal(signal.SIGSTOP)  # so that it cannot see to it
        os.kill(keeper, signal.SIGKILL)
        self.daemon.send_signal(signal.SIGKILL)
        self.daemon.wait_end()
        self.daemon.process.returncode = 0
        self.assert_nothing_is_left()

    def test_sigterm_in_the_middle(self):
        self.run_away()
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait_end(), 75)
        self.assert_nothing_is_left()
        self.assertNotIn("bug", self.daemon.log())

    def test_the_keeper_is_stopped(self):
        """By a job, which is of the same user. The daemon ends all the same."""
        mark = new_mark()
        stops = f"kill -STOP $PPID; exec {PYTHON} -c 'import time; time.sleep(1000)' {mark}"
        connection = self.serve({"shutdown": {"drain_timeout": "100ms"}}, sh=shell())
        connection("SUBMIT", "sh", "JOBS", stops)
        wait_for("the job to run", lambda: marked(mark))
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait_end(), 75)
        wait_for("no process to be left", lambda: not marked(mark))

    def test_sigterm_with_programs_that_do_not_hear_it_and_a_store(self):
        """Grace is longer than shutdown takes; what ran goes on at the next start."""
        mark = new_mark()
        folder = str(scratch(self))  # it goes after the daemons
        deaf = f"signal.signal(15, signal.SIG_IGN); open({folder!r} + '/began', 'a').write('x'); time.sleep(0 if os.path.exists({folder!r} + '/go') else 1000); "
        settings = {
            "store": {"path": folder + "/store"},
            "shutdown": {"drain_timeout": "0s"},
            "handlers": {"one": {"command": [PYTHON, "-c", "import os, signal, time; " + deaf + "print(1)", mark], "grace": "1m"}, "py": worker(mark, grace="1m")},
        }
        daemon = self.start(settings)
        connection = self.connect(daemon)
        batches = [connection("SUBMIT", "one", "JOBS", "x"), connection("SUBMIT", "py", "JOBS", deaf + "answer(1)")]
        began = pathlib.Path(folder, "began")
        wait_for("both to run", lambda: began.exists() and began.stat().st_size == 2)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 75)
        wait_for("no process to be left", lambda: not marked(mark))
        pathlib.Path(folder, "go").touch()
        connection = self.connect(self.start(settings))
        for batch in batches:
            self.assertEqual(connection.wait(batch)["ok"], 1)
            self.assertEqual([row[1:] for row in connection.results(batch)], [["ok", "1" if batch == batches[1] else "1\n"]])


def connection_cancel(connection, batch):
    connection("CANCEL", batch)
    connection.wait(batch)
    return batch


class Resources(LeftoverTest):
    def test_thousands_of_processes(self):
        connection = self.serve(one={"command": ["sh", "-c", "exit 1"], "concurrency": 4}, file={"command": ["true", "{}"], "input": "file"}, py=worker(max_jobs=1))
        jobs = {"one": 1000, "file": 500, "py": 20}

        def run():
            for handler, count in jobs.items():
                batch = connection("SUBMIT", handler, "JOBS", *["answer(1)#" + "x" * 2000] * count)
                self.assertEqual(sum(connection.wait(batch, 120)[key] for key in ("ok", "failed")), count)
                connection("FORGET", batch)
            keeper = keeper_of(self.daemon)
            wait_for("the keeper to have no child", lambda: not children(keeper))
            pids = (self.daemon.pid, keeper)
            return list(zip(settled_descriptors(*pids), map(resident_kib, pids)))

        before = run()
        after = run()
        for (fds_before, kib_before), (fds_after, kib_after) in zip(before, after):
            self.assertEqual(fds_after, fds_before)
            self.assertLess(kib_after, kib_before + 2048)

    def test_answers_that_are_too_large_or_not_whole(self):
        """Each string of them may be as large as max_output. Eight are enough to see."""
        connection = self.serve(py=worker(max_output="64MiB"))
        self.assertEqual(connection("RUN", "py", "JOBS", "answer(1)"), [["ok", "1"]])
        before = resident_kib(self.daemon.pid)
        most = lambda: int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text())[1])
        for head in ("*1024", "*3"):
            job = f"raw(b'{head}\\r\\n')\nfor _ in range(8): raw(b'$60000000\\r\\n' + b'x' * 60000000 + b'\\r\\n'); flush()\nos._exit(3)"
            ((status, text),) = connection("RUN", "py", "JOBS", job)
            self.assertEqual(status, "error", text)
            self.assertIn("its worker wrote what is no answer", text)
        ((status, text),) = connection("RUN", "py", "JOBS", "raw(b'$60000000\\r\\n' + b'x' * 59000000); flush(); os._exit(3)")
        self.assertEqual((status, text), ("crashed", "the worker ended with exit status 3"))
        self.assertLess(resident_kib(self.daemon.pid), before + 40_000)
        self.assertLess(most(), before + 4 * 64 * 1024)

    def test_outputs_that_were_large(self):
        connection = self.serve(sh=shell(max_output="64MiB"), py=worker(max_output="64MiB"))
        sizes = []
        for _ in range(3):
            for handler, job in (("sh", "head -c 30000000 /dev/zero"), ("py", "answer(b'x' * 30000000)")):
                connection("RUN", handler, "KEEP", "none", "JOBS", job)
            connection("RUN", "py", "JOBS", "answer(1)")
            sizes.append(resident_kib(self.daemon.pid))
        self.assertLess(sizes[-1], sizes[0] + 40_000)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""One job in the hand where it runs on another machine: JOB, LOG and RUNNING of jobs of another daemon, and of `locksley work`; the note that
reaches the next attempt there; and what a worker in any language says by NOTE."""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_facts import TALKER, WORKER, as_map
from locksley_daemon import DaemonTest, merged, program, wait_for
from remote_worker import RemoteWorker, port_for_workers, wait_for_machines

TALK = {"command": [sys.executable, "-c", TALKER], "concurrency": 2}
WORK = {"worker": [sys.executable, "-c", WORKER], "concurrency": 2}


class RemoteJobs(DaemonTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.go = pathlib.Path(folder.name) / "go"
        self.owner = self.start({"workers": {"port": 0}, "scheduling": {"quantum": "1s"}, "handlers": {"talk": {"remote": True}, "work": {"remote": True}}})
        self.command = self.connect(self.owner)

    def machine(self):
        url = f"redis://127.0.0.1:{port_for_workers(self.owner)}"
        self.start({"upstream": {"url": url, "name": "host-7"}, "handlers": {"talk": TALK, "work": WORK}})
        wait_for_machines(self.command, 1)

    def job(self, batch, index=0):
        return as_map(self.command("JOB", batch, index))

    def test_a_job_of_another_daemon_has_everything(self):
        self.machine()
        batch = self.command("SUBMIT", "talk", "JOBS", "fail", "fine")
        self.command.wait(batch)
        job = self.job(batch)
        self.assertEqual((job["status"], job["exit_status"], job["note"], job["payload"]), ("error", 3, "checkpoint 1", "fail"))
        self.assertEqual(job["worker"], "host-7/processes")
        self.assertGreater(job["duration_us"], 1000)
        self.assertEqual(self.command("LOG", batch, 0)[1], "note before: -\ncheckpoint 1\n")
        good = self.job(batch, 1)
        self.assertEqual((good["status"], good["exit_status"], good["output"]), ("ok", 0, "fine"))
        self.assertEqual(self.command("LOG", batch, 1)[1], "note before: -\ndone\n")

    def test_a_running_job_is_followed(self):
        self.machine()
        batch = self.command("SUBMIT", "work", "JOBS", f"wait{self.go}")
        told = lambda job: job["progress"] and job["note"] and job["log_bytes"]  # each comes by itself
        wait_for("the machine to tell", lambda: told(self.job(batch)) or None)
        job = self.job(batch)
        self.assertEqual((job["status"], job["worker"], job["progress"], job["note"]), ("running", "host-7/processes", 40, f"at wait{self.go}"))
        self.assertEqual(self.command("LOG", batch, 0)[1], f"works on wait{self.go}\n")
        row, = self.command("RUNNING")
        self.assertEqual([*row[:3], *row[4:]], [batch, 0, 1, "host-7/processes", 40, f"at wait{self.go}"])
        self.go.touch()
        self.command.wait(batch)
        job = self.job(batch)
        self.assertEqual((job["status"], job["progress"]), ("ok", 40))
        self.assertEqual(self.command("LOG", batch, 0)[1], f"works on wait{self.go}\n", "nothing is there twice")
        self.assertEqual(self.command("RUNNING"), [])

    def lease_of_three(self, worker, keep):
        """A batch of seven jobs, of which the first has ended, and a lease of the next three. The first job is claimed alone, since it is not
        known what it costs; if it took some milliseconds, because the machine is busy, the next lease is smaller, and another batch is tried."""
        for _ in range(50):
            batch = self.command("SUBMIT", "work", "KEEP", keep, "JOBS", *"abcdefg")
            worker.settle(worker.claim(), ["a"])
            lease = worker.claim("JOBS", 3)
            self.assertEqual(lease.first, 1)
            if lease.count == 3:
                return batch, lease
            worker.settle(lease, ["b"] * lease.count)
            self.command("CANCEL", batch)
        self.fail("no lease of three jobs")

    def test_a_claimed_job_that_has_not_begun_is_queued_whatever_is_kept(self):
        with RemoteWorker(self.owner, "work") as worker:
            for keep in "none", "failures", "all":
                batch, lease = self.lease_of_three(worker, keep)
                if keep == "all":
                    self.command("RESULTS", batch, "FROM", 1, "DISCARD")
                statuses = lambda: [self.job(batch, index)["status"] for index in range(7)]
                worker("BEAT", lease.name, lease.first + 1)
                self.assertEqual(statuses()[1:], ["running"] + ["queued"] * 5, keep)
                worker.settle(lease, ["b", "c"])
                worker("BEAT", lease.name, lease.first + 3)
                self.assertEqual(statuses(), ["ok"] * 3 + ["running"] + ["queued"] * 3, f"KEEP {keep}: what has ended is known once all else is")
                worker.settle(lease, ["d"], first=3)
                while self.command.status(batch)["queued"]:
                    rest = worker.claim()
                    worker.settle(rest, ["e"] * rest.count)
                self.command.wait(batch)
                self.assertEqual(statuses(), ["ok"] * 7, keep)

    def test_the_note_reaches_the_next_attempt_there(self):
        self.machine()
        batch = self.command("SUBMIT", "talk", "RETRIES", 1, "JOBS", "once")
        self.assertEqual(self.command.wait(batch)["ok"], 1)
        self.assertEqual(self.command("LOG", batch, 0)[1], "note before: half\ndone\n")
        self.assertEqual(self.job(batch)["attempt"], 2)

    def test_a_program_of_locksley_work(self):
        url = f"redis://127.0.0.1:{port_for_workers(self.owner)}"
        with subprocess.Popen([program("LOCKSLEY"), "work", "work", "--url", url, "--name", "w", "--", sys.executable, "-c", WORKER],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            batch = self.command("SUBMIT", "work", "JOBS", "x", "fail")
            self.command.wait(batch)
            process.terminate()
            process.communicate()
        self.assertEqual((self.job(batch)["progress"], self.job(batch)["note"]), (40, "at x"))
        self.assertEqual((self.job(batch, 1)["status"], self.job(batch, 1)["note"]), ("error", "at fail"))
        self.assertIn("works on fail\n", self.command("LOG", batch, 1)[1] + self.command("LOG", batch, 0)[1])


if __name__ == "__main__":
    unittest.main()

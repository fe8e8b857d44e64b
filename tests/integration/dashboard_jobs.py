#!/usr/bin/python3
"""The dashboard in a real browser: what runs, a batch's failed jobs with their payloads, and one job with its log, live. Screenshots are left in
build/artifacts/dashboard/."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from dashboard_page import FACTS, PHONE, DashboardTest
from locksley_daemon import wait_for
from users import BUILTIN

HOSTILE = "<img src=x onerror=alert(1)>"
WORKER = pathlib.Path(__file__).resolve().parents[1] / "support" / "python_worker.py"
# Writes, waits for a file, writes and ends.
SCRIPT = """
read -r gate; echo "begins <b>" >&2
while ! test -e "$gate"; do sleep 0.02; done
for i in 1 2 3; do echo "line $i" >&2; done
exit 3
"""


class Jobs(DashboardTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.start_with(
            {"http": {"login": "users"}, "handlers": {"script": {"command": ["bash", "-c", SCRIPT], "concurrency": 4}}},
            anna={"commands": ["submit", "read", "control"], "handlers": ["script", *BUILTIN["handlers"]]},
            bob={"commands": ["submit", "read"], "handlers": ["script", *BUILTIN["handlers"]]},
        )
        self.anna = self.log_in(self.daemon, "anna")
        self.gate = self.daemon.folder / "gate"

    def test_failed_jobs_with_their_payloads(self):
        self.anna("SUBMIT", "fail", "ID", "broken", "RETRIES", 0, "JOBS", "plain text", HOSTILE, b"\x89PNG\0\xff" * 300, "", "long " * 400)
        self.anna.wait("broken")
        page = self.open(self.daemon, "#/batches/broken?tenant=anna", "anna")
        payload = lambda index: next((row["Payload"][0] for row in self.table(page, "Failed jobs") if row["Job"][0] == str(index)), "")
        self.shows("the payloads", lambda: [payload(0).split("\n")[-1], payload(1).split("\n")[-1], payload(3)], lambda: ["plain text", HOSTILE, "empty"])
        self.shows("the size of the others", lambda: [payload(2), payload(4)], lambda: ["1.76 KiB, not text, the first 1,024 of 1,800 bytes", "1.95 KiB, the first 1,024 of 2,000 bytes"])
        self.assertEqual(page.run("() => document.querySelectorAll('main img').length"), 0)
        page.click("summary >> text=not text")
        page.wait_for_text("[aria-label='payload of job 2']", "0000  89 50 4e 47 00 ff 89 50  .PNG...P")
        self.assertIn("03f8  ", page.text("[aria-label='payload of job 2']"))
        self.assert_accessible(page)
        self.picture(page, "failed-jobs-light")
        page("emulateMedia", {"colorScheme": "dark"})
        self.assert_accessible(page)
        self.picture(page, "failed-jobs-dark")
        page("setViewportSize", PHONE["viewport"])
        self.assert_fits(page)
        self.assert_accessible(page)
        self.picture(page, "failed-jobs-phone")
        # Just that one again.
        page.click("[aria-label='Retry job 1']")
        page.wait_for_text("#said", "Job 1 is queued again.")
        self.assertEqual((self.anna.wait("broken")["retried"], self.anna.status("broken")["retry_rounds"]), (1, 1))
        self.shows("all of them again", lambda: sorted(row["Job"][0] for row in self.table(page, "Failed jobs")), lambda: ["0", "1", "2", "3", "4"])

    def test_what_runs_and_a_log_live(self):
        self.anna("SUBMIT", "script", "ID", "long", "NAME", "a long one", "JOBS", f"{self.gate}\n", f"{self.gate}\n")
        wait_for("both to run", lambda: self.anna.status("long")["running"] == 2)
        page = self.open(self.daemon, "", "anna")
        running = lambda: sorted((*row["Job"][0].split("\n"), row["Note"][0]) for row in self.table(page, "Running jobs"))
        self.shows("what runs", running, lambda: [("Job 0", "long", "begins <b>"), ("Job 1", "long", "begins <b>")])
        self.assert_accessible(page)
        self.picture(page, "running-light")
        page.click("text=Job 1")
        page.wait_for_text("pre.log", "begins <b>")
        self.assertEqual(page.text("h1"), "Job 1")
        facts = lambda: page.run(FACTS, ".job")
        self.shows("what is known of it", lambda: (facts().get("Attempt"), facts().get("Note")), lambda: ("1", "begins <b>"))
        self.assertNotIn("line 1", page.text("pre.log"))
        self.assertFalse(page.at("main >> text=Retry this job")("isVisible"))
        page.click(".crumbs a")
        page.wait_for_text("h1", "a long one")
        self.shows("what runs of it", lambda: sorted(row["Job"][0] for row in self.table(page, "Running jobs")), lambda: ["Job 0", "Job 1"])
        page("goBack")
        page.wait_for_text("pre.log", "begins <b>")
        self.gate.touch()
        self.shows("the rest of the log", lambda: page.text("pre.log"), lambda: "begins <b>\nline 1\nline 2\nline 3\n")
        self.shows("its end", lambda: (facts().get("Exit status"), facts().get("Note"), page.text(".headline .state")), lambda: ("3", "line 3", "error"))
        self.assert_accessible(page)
        self.picture(page, "job-light")
        page("emulateMedia", {"colorScheme": "dark"})
        page("setViewportSize", PHONE["viewport"])
        self.assert_fits(page)
        self.assert_accessible(page)
        self.picture(page, "job-phone-dark")
        # Once more: another attempt has another log.
        self.gate.unlink()
        page.click("text=Retry this job")
        page.wait_for_text("#said", "Job 1 is queued again.")
        self.shows("the new log", lambda: (page.text(".headline .state"), page.text("pre.log")), lambda: ("running", "begins <b>\n"))
        self.gate.touch()
        self.anna.wait("long")

    def test_progress_that_a_worker_says(self):
        daemon = self.start({"handlers": {"python": {"worker": [sys.executable, str(WORKER)], "concurrency": 1}}})
        command = self.connect(daemon)
        program = r"raw(b'*2\r\n$8\r\nprogress\r\n:40\r\n*2\r\n$4\r\nnote\r\n$7\r\nhalfway\r\n'); flush(); time.sleep(3600)"
        command("SUBMIT", "python", "ID", "told", "JOBS", program)
        page = self.open(daemon, "#/batches/told?tenant=default")
        self.shows("its progress", lambda: [(row["Progress"][0], row["Note"][0]) for row in self.table(page, "Running jobs")], lambda: [("40%", "halfway")])
        self.assertEqual(page.run("() => document.querySelector('[aria-label=\"progress of the job\"]').getAttribute('aria-valuenow')"), "40")
        self.assert_accessible(page)
        command("CANCEL", "told")

    def test_what_belongs_to_others_is_not_shown(self):
        self.anna("SUBMIT", "script", "ID", "hers", "JOBS", f"{self.gate}\n")
        wait_for("it to run", lambda: self.anna.status("hers")["running"] == 1)
        bob = self.log_in(self.daemon, "bob")
        bob("SUBMIT", "fail", "ID", "his", "JOBS", "x")
        bob.wait("his")
        page = self.open(self.daemon, "#/batches/hers/jobs/0?tenant=anna", "bob")
        page.wait_for_text("main", "There is no such job: NOBATCH")
        self.assertNotIn("begins", page.text("main"))
        page("goto", f"{self.daemon.http}/#/batches/his/jobs/7?tenant=bob")
        page.wait_for_text("main", "There is no such job: ERR")
        # Without the group control there is nothing to press.
        page("goto", f"{self.daemon.http}/#/batches/his/jobs/0?tenant=bob")
        page.wait_for_text(".headline", "error")
        self.assertFalse(page.at("main >> text=Retry this job")("isVisible"))
        page("goto", f"{self.daemon.http}/#/batches/his?tenant=bob")
        self.shows("his failed job", lambda: [row["Job"][0] for row in self.table(page, "Failed jobs")], lambda: ["0"])
        self.assertEqual(page.at("[aria-label='Retry job 0']:visible")("count"), 0)
        page("goto", f"{self.daemon.http}/#/")
        page.wait_for_text("main", "Tenants")
        self.assertEqual(self.table(page, "Running jobs"), [])
        self.gate.touch()
        self.assert_calm(page, self.daemon, ["404", "400"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""The dashboard in a real browser: actions on several selected batches, and the rate of a batch. Screenshots are left in
build/artifacts/dashboard/."""

import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from dashboard_page import HIDE, PHONE, DashboardTest
from locksley_daemon import wait_for

HOUR_MS = 3_600_000


class Selection(DashboardTest):
    def setUp(self):
        super().setUp()
        self.daemon = self.start()
        self.command = self.connect(self.daemon)
        for name in ("one", "two", "three"):
            self.command("SUBMIT", "sleep", "ID", name, "DELAY", HOUR_MS, "JOBS", 1, 2)
        self.command("SUBMIT", "fail", "ID", "broken", "JOBS", "a", "b")
        self.command.wait("broken")
        self.page = self.open(self.daemon, "#/batches")
        self.page.wait_for("the list", "[aria-label='Select one']")

    def select(self, *names):
        for name in names:
            self.page.at(f"[aria-label='Select {name}']")("check")

    def press(self, text):
        self.page.click(f".selection button:visible >> text=/^{text}/")

    def weights(self):
        return {row["id"]: row["weight"] for row in self.command.listed()}

    def paused(self):
        return sorted(row["id"] for row in self.command.listed() if self.command.explain(row["id"])["paused"])

    def test_what_is_selected_is_changed_and_nothing_else(self):
        self.assertFalse(self.page.at(".selection .actions")("isVisible"))
        self.assertFalse(self.page.at("th.customer")("isVisible"), "no batch names one")
        self.select("one", "three")
        self.page.wait_for_text(".selection", "2 selected")
        self.press("Pause")
        self.page.wait_for_text("#said", "Paused: 2 batches.")
        self.assertEqual(self.paused(), ["one", "three"])
        self.page.at("#weight-of-selected")("fill", "9")
        self.press("Set weight")
        self.page.wait_for_text("#said", "The weight of 2 batches is now 9.")
        self.assertEqual(self.weights(), {"one": 9, "two": 1, "three": 9, "broken": 1})
        # Each action is for those that it fits, and says for how many.
        self.page.at("#select-all")("check")
        self.page.wait_for_text(".selection", "4 selected")
        self.shows("how many each action fits", lambda: self.page.at(".selection button:visible")("allInnerTexts"), lambda: ["Pause (1)", "Resume (2)", "Retry failed jobs (1)", "Cancel (3)", "Set weight"])
        self.picture(self.page, "selection-light")
        self.press("Resume")
        self.page.wait_for_text("#said", "Resumed: 2 batches.")
        self.assertEqual(self.paused(), [])
        self.press("Retry failed jobs")
        self.page.wait_for_text("#said", "2 jobs of 1 batch queued again.")
        self.assertEqual(self.command.wait("broken")["retry_rounds"], 1)

    def test_cancel_asks_first(self):
        self.select("one", "two", "broken")
        self.press("Cancel")
        self.assertRegex(self.page.text("dialog[open]"), r"Cancel 2 batches \(two, one\)\? 4 jobs will not run")
        self.assert_accessible(self.page)
        self.page.at("dialog")("press", "Escape")
        self.page.at("dialog")("waitFor", {"state": "detached"})
        self.assertEqual(self.command.status("one")["state"], "queued")
        self.press("Cancel")
        self.page.click("dialog[open] button.danger")
        self.page.wait_for_text("#said", "Cancelled: 2 batches, 4 jobs will not run.")
        self.assertEqual([self.command.status(name)["state"] for name in ("one", "two", "three")], ["cancelled", "cancelled", "queued"])
        # What is over cannot be cancelled; the focus is not lost with the button.
        self.shows("the button to be of no use", lambda: self.page.at(".selection button.danger")("isDisabled"), lambda: True)
        self.assertNotEqual(self.page.run("() => document.activeElement.tagName"), "BODY")

    def test_a_question_names_a_few_batches_and_is_refused_when_its_page_is_left(self):
        for name in ("four", "five"):
            self.command("SUBMIT", "sleep", "ID", name, "DELAY", HOUR_MS, "JOBS", 1)
        self.page.click("nav.main a[data-page=overview]")
        self.page.click("nav.main a[data-page=batches]")
        self.page.wait_for("the list", "[aria-label='Select five']")
        self.page.at("#select-all")("check")
        self.press("Cancel")
        self.assertIn("Cancel 5 batches (five, four, three and 2 more)? 8 jobs will not run", self.page.text("dialog[open]"))
        self.page("goBack")
        self.page.at("dialog")("waitFor", {"state": "detached"})
        self.assertEqual(self.page.run("() => [location.hash, document.activeElement.textContent, document.getElementById('said').textContent]"), ["#/", "Overview", ""])
        self.assertEqual([self.command.status(name)["state"] for name in ("one", "two", "three", "four", "five")], ["queued"] * 5)

    def test_a_part_that_is_refused_is_said(self):
        self.select("one", "two")
        self.page.run(HIDE, True)  # so that it does not notice
        self.command("CANCEL", "one")
        self.command.wait("one")
        self.assertEqual(self.command("FORGET", "one"), 1)
        self.press("Pause")
        self.page.wait_for_text("#said", "Paused: 1 batch. Not done for 1 batch: one: NOBATCH")
        self.assertEqual(self.paused(), ["two"])
        self.page.run(HIDE, False)
        # A batch that is no longer listed is no longer selected.
        self.page.wait_for_text(".selection", "1 selected")
        self.assert_calm(self.page, self.daemon, ["404"])

    def test_by_the_keyboard_and_on_a_phone(self):
        self.page.at("#select-all")("focus")
        self.page.at("#select-all")("press", "Space")
        self.page.wait_for_text(".selection", "4 selected")
        for _ in range(12):
            if self.page.run("() => document.activeElement.textContent").startswith("Pause"):
                break
            self.page.at(":focus")("press", "Tab")
        self.page.at(":focus")("press", "Enter")
        self.page.wait_for_text("#said", "Paused: 3 batches.")
        self.page("setViewportSize", PHONE["viewport"])
        self.assert_fits(self.page)
        self.assert_accessible(self.page)
        self.picture(self.page, "selection-phone")
        self.page("emulateMedia", {"colorScheme": "dark"})
        self.assert_accessible(self.page)
        self.page("setViewportSize", {"width": 1280, "height": 900})
        self.assert_accessible(self.page)
        self.picture(self.page, "selection-dark")

    def test_who_may_not_control_selects_nothing(self):
        daemon = self.start_with({"http": {"login": "users"}}, reader={"commands": ["read", "submit"]})
        self.log_in(daemon, "reader")("SUBMIT", "echo", "ID", "seen", "JOBS", "a")
        page = self.open(daemon, "#/batches", "reader")
        page.wait_for_text("table.batches", "seen")
        self.assertEqual(page.at("input[type=checkbox]:visible")("count"), 0)


class Rate(DashboardTest):
    def test_it_is_right_from_the_first_seconds_on(self):
        """Jobs whose time is mostly not their handler's: many short programs. What the page says is compared with what STATUS counted."""
        daemon = self.start({"handlers": {"true": {"command": ["true"], "concurrency": 2}}})
        command = self.connect(daemon)
        page = self.open(daemon, "#/batches")
        samples = [(time.monotonic(), 0)]
        command("SUBMIT", "true", "ID", "fast", "RANGE", 0, 1_000_000)
        wait_for("its first jobs to end", lambda: command.status("fast")["ok"] >= 20)

        def assert_right(rate):
            """It is near to a rate that there was: on a busy machine that of half a second may be a third of that of the next."""
            samples.append((time.monotonic(), command.status("fast")["ok"]))
            rates = [(ended - before) / (at - then) for (then, before), (at, ended) in zip(samples, samples[1:])]
            self.assertTrue(0.6 * min(rates) < rate < 1.7 * max(rates), (rate, rates))

        while len(samples) < 9:
            time.sleep(0.5)
            assert_right(float(command.explain("fast")["jobs_per_second"]))
        shown = wait_for("its row to have a rate", lambda: [found[0] for row in self.table(page, "Batches") if (found := re.match(r"[\d,.]+", row["Rate"][1]))])
        assert_right(float(shown[0].replace(",", "")))
        command("CANCEL", "fast")


if __name__ == "__main__":
    unittest.main()

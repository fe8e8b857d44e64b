#!/usr/bin/python3
"""Customers that do harm, on purpose or not, beside another customer of the same user: as neighbours.py, with customers in place of clients."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from neighbour import WAIT_S
from neighbours import Beside
from resp import encode


class Customers(Beside):
    """Other customers of the same user. The neighbour names none, so it is a customer like them."""

    settings = {"limits": {"max_batch_jobs": 10_000_000, "max_queued_jobs": 100_000_000}}

    def are_forgotten(self, pattern):
        wait_for(f"the customers {pattern} to be forgotten", lambda: self.command("CUSTOMER", "LIST", "MATCH", pattern) == ["0", []], every=0.1)

    def test_customers_with_a_thousand_batches_each(self):
        batches = []
        with self.abused("10 customers, each with 1,000 batches of 10,000 jobs and the greatest weight", mebibytes=96):
            for i in range(10):
                submit = encode("SUBMIT", "spin", "FOR", f"greedy-{i}", "WEIGHT", 1000, "KEEP", "none", "RETAIN", 0, "RANGE", 0, 10_000, "50")
                self.command.send(submit * 1_000)
                batches += [self.command.read() for _ in range(1_000)]
        self.command.send(b"".join(encode("CANCEL", batch) for batch in batches))
        for _ in batches:
            self.command.read()
        self.are_forgotten("greedy-*")
        self.settles()

    def test_customers_that_come_and_go(self):
        sender = self.connect(self.daemon)
        seen = [0]

        def come_and_go():
            names = range(seen[0], seen[0] + 500)
            sender.send(b"".join(encode("SUBMIT", "echo", "FOR", f"passing-{i}", "RETAIN", 0, "JOBS", "x") for i in names))
            for _ in names:
                sender.read()
            seen[0] += len(names)

        with self.abused("customers of one batch each, without end"):
            self.in_background(come_and_go)
        self.stopping.set()
        self.threads[-1].join(WAIT_S)
        sender.close()
        print(f"{seen[0]} customers came and went", flush=True)
        self.are_forgotten("passing-*")
        self.settles()

    def test_a_customer_whose_jobs_fail_and_are_tried_again(self):
        client = self.connect(self.daemon, timeout=WAIT_S)
        batch = self.command("SUBMIT", "fail", "FOR", "failing", "RETRIES", 3, "RANGE", 0, 200_000)

        def fail_again():
            client("WAIT", batch)
            client("RETRY", batch)

        with self.abused("a customer whose 200,000 jobs fail, and are queued again without end", mebibytes=128):
            self.in_background(fail_again)
        self.stopping.set()
        self.threads[-1].join(WAIT_S)
        client.close()
        self.assertGreaterEqual(self.command.wait(batch)["retry_rounds"], 1)
        self.command("FORGET", batch)
        self.settles()


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""Customers with the real programs: three levels of fairness, weights and caps that act on what is queued, MAXJOBS, restarts and reloads.

Shares are counted in starts, with `scheduling.share: jobs` in a lane of one slot, so that no result depends on the time that anything takes."""

import collections
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from customer_test import CustomerTest
from locksley_daemon import DEADLINE_S, wait_for
from programs import shell
from resp import Error, encode
from scratch import scratch
from store_daemon import StoreTest

FOREVER = "sleep 1000"
HOUR_MS = 3_600_000


def one_slot(**more):
    return {"lanes": {"one": {"slots": 1}}, "scheduling": {"share": "jobs"}, "handlers": {"sh": shell(lane="one")}, **more}


def take_the_slot(connection):
    """So that nothing else of its lane starts before this batch is cancelled. Its id."""
    blocker = connection("SUBMIT", "sh", "JOBS", FOREVER)
    wait_for("the slot to be taken", lambda: connection.status(blocker)["running"] == 1)
    return blocker


class Starts(CustomerTest):
    """The order in which jobs start in a lane of one slot: each writes its word into a file."""

    def setUp(self):
        self.file = scratch(self) / "starts"
        self.file.touch()

    def starts(self):
        return self.file.read_text().split()

    def submit(self, connection, word, jobs, *options):
        return connection("SUBMIT", "sh", *options, "RANGE", 0, jobs, f"echo {word} >> {self.file} # {{}}")

    def after(self, count, seen):
        """The words of so many starts after those that were seen."""
        wait_for(f"{count} starts", lambda: len(self.starts()) >= seen + count, 4 * DEADLINE_S)
        return collections.Counter(self.starts()[seen : seen + count])

    def test_a_small_batch_behind_a_thousand_of_another_customer(self):
        connection = self.connect(self.start(one_slot()))
        blocker = take_the_slot(connection)
        for i in range(1_000):
            self.submit(connection, "big", 3, "FOR", "big", "WEIGHT", 1000)
        small = self.submit(connection, "small", 20, "FOR", "small")
        connection("CANCEL", blocker)
        connection.wait(small)
        starts = self.starts()
        last = len(starts) - starts[::-1].index("small")
        print(f"20 jobs behind 1,000 batches of another customer ended with start {last}")
        # Alone they take 20 starts; of two customers each has half.
        self.assertLessEqual(last, 2.5 * 20)

    def test_users_then_customers_then_batches(self):
        daemon = self.start_with(one_slot(), shop={}, mill={})
        shop, mill = self.log_in(daemon, "shop"), self.log_in(daemon, "mill")
        blocker = take_the_slot(mill)
        for i in range(10):
            self.submit(shop, "many", 1_000, "FOR", "many")
        for word in ("few-1", "few-2"):
            self.submit(shop, word, 1_000, "FOR", "few")
        self.submit(shop, "none", 1_000)
        self.submit(mill, "mill", 1_000)
        mill("CANCEL", blocker)
        shares = self.after(240, 0)
        print(f"of 240 starts: {dict(shares)}")
        # Half of the lane is the mill's, a sixth is each customer's of the shop.
        for word, share in {"mill": 120, "many": 40, "none": 40, "few-1": 20, "few-2": 20}.items():
            self.assertAlmostEqual(shares[word], share, delta=3, msg=shares)

    def test_a_weight_acts_on_what_is_queued(self):
        connection = self.connect(self.start(one_slot()))
        connection("CUSTOMER", "SET", "a", "WEIGHT", 3)
        blocker = take_the_slot(connection)
        for word in ("a", "b"):
            self.submit(connection, word, 5_000, "FOR", word)
        connection("CANCEL", blocker)
        before = self.after(80, 0)
        self.assertAlmostEqual(before["a"], 60, delta=3, msg=before)
        self.assertEqual(connection("CUSTOMER", "SET", "b", "WEIGHT", 9), "OK")
        after = self.after(80, len(self.starts()) + 2)
        self.assertAlmostEqual(after["b"], 60, delta=3, msg=after)
        connection("CUSTOMER", "DEL", "a")
        connection("CUSTOMER", "DEL", "b")
        equal = self.after(80, len(self.starts()) + 2)
        self.assertAlmostEqual(equal["a"], 40, delta=3, msg=equal)

    def test_open_and_run_have_customers_too(self):
        daemon = self.start(one_slot())
        connection, other = self.connect(daemon), self.connect(daemon)
        opened = connection("OPEN", "sh", "FOR", "acme")
        connection("ADD", opened, "true")
        connection("CLOSE", opened)
        self.assertEqual(connection.wait(opened)["customer"], "acme")
        blocker = take_the_slot(connection)
        other.send(encode("RUN", "sh", "FOR", "acme", "JOBS", "true"))
        wait_for("the RUN to be the customer's", lambda: self.customer(connection, "acme")["batches"] == 1)
        connection("CANCEL", blocker)
        self.assertEqual(other.read(), [["ok", ""]])
        self.assertEqual(self.customer(connection, "acme")["batches"], 0)


class Caps(CustomerTest):
    def serve(self, slots=4, **settings):
        self.daemon = self.start({"lanes": {"l": {"slots": slots}}, "handlers": {"sh": shell(lane="l", concurrency=slots)}, **settings})
        return self.connect(self.daemon)

    def running(self, connection, batch, count):
        wait_for(f"{count} running jobs of {batch}", lambda: connection.status(batch)["running"] == count)

    def test_slots_bind_a_customer_and_leave_none_idle(self):
        connection = self.serve()
        connection("CUSTOMER", "SET", "a", "SLOTS", 1)
        first, second = (connection("SUBMIT", "sh", "FOR", "a", "JOBS", *[FOREVER] * 4) for _ in range(2))
        self.running(connection, first, 1)
        other = connection("SUBMIT", "sh", "FOR", "b", "JOBS", *[FOREVER] * 4)
        self.running(connection, other, 3)
        self.assertEqual(connection.explain(second)["reason"], "customer-at-limit")
        seen = self.customer(connection, "a")
        self.assertEqual((seen["slots"], seen["running"], seen["jobs"], seen["batches"]), (1, 1, 8, 2))
        connection("CANCEL", other)
        # The cap holds while slots are free, and goes at once.
        self.assertEqual(connection.explain(second)["reason"], "customer-at-limit")
        connection("CUSTOMER", "SET", "a", "SLOTS", 3)
        wait_for("three", lambda: self.customer(connection, "a")["running"] == 3)
        connection("CUSTOMER", "DEL", "a")
        wait_for("all slots", lambda: self.customer(connection, "a")["running"] == 4)
        for batch in (first, second):
            connection("CANCEL", batch)

    def test_a_hundred_at_their_cap_leave_the_rest_to_one_without(self):
        workers = 104
        connection = self.connect(self.start({"pool": {"workers": workers}}))
        capped = [f"capped-{i}" for i in range(100)]
        for name in capped:
            connection("CUSTOMER", "SET", name, "SLOTS", 1)
        batches = [connection("SUBMIT", "sleep", "FOR", name, "RANGE", 0, 3, HOUR_MS) for name in [*capped, "free"] for _ in range(2)]
        running = lambda: {row["customer"]: row["running"] for row in self.customers(connection)}
        wait_for("each to have what it may have, and no worker to be idle", lambda: running() == {**dict.fromkeys(capped, 1), "free": workers - 100})
        for batch in batches:
            connection("CANCEL", batch)

    def test_slots_of_a_batch_change_at_once_and_stay(self):
        connection = self.serve()
        batch = connection("SUBMIT", "sh", "SLOTS", 1, "JOBS", *[FOREVER] * 8)
        self.running(connection, batch, 1)
        self.assertEqual(connection("SLOTS", batch, 3), "OK")
        self.running(connection, batch, 3)
        self.assertEqual(connection.status(batch)["slots"], 3)
        connection("SLOTS", batch, 0)
        self.running(connection, batch, 4)
        self.assertEqual(connection.status(batch)["slots"], 0)
        self.assert_error("NOBATCH", connection.ask("SLOTS", "nosuch", 1))
        connection("CANCEL", batch)
        connection.wait(batch)
        self.assertEqual(connection("SLOTS", batch, 1), "OK", "of a batch that is over nothing changes")

    def test_a_rate_binds_a_customer(self):
        connection = self.serve()
        connection("CUSTOMER", "SET", "slow", "RATE", "1/h")
        slow = connection("SUBMIT", "sh", "FOR", "slow", "JOBS", *["true"] * 4)
        wait_for("the first to end", lambda: connection.status(slow)["ok"] >= 1)
        other = connection("SUBMIT", "sh", "JOBS", *["true"] * 20)
        self.assertEqual(connection.wait(other)["ok"], 20)
        # The end of a job is there a moment before its slot is free.
        wait_for("the rate to be the reason", lambda: connection.explain(slow)["reason"] == "customer-at-limit")
        self.assertEqual(connection.status(slow)["ok"], 1)
        connection("CUSTOMER", "SET", "slow", "RATE", 0)
        self.assertEqual(connection.wait(slow)["ok"], 4)

    def test_a_user_is_bound_as_a_whole(self):
        settings = {"lanes": {"l": {"slots": 4}}, "handlers": {"sh": shell(lane="l", concurrency=4)}}
        daemon = self.start_with(settings, shop={"slots": 2}, mill={"rate": "1/h"})
        shop, mill = self.log_in(daemon, "shop"), self.log_in(daemon, "mill")
        a, b = (shop("SUBMIT", "sh", "FOR", name, "JOBS", FOREVER) for name in ("a", "b"))
        self.running(shop, a, 1)
        self.running(shop, b, 1)
        third = shop("SUBMIT", "sh", "FOR", "c", "JOBS", "true")
        self.assertEqual(shop.explain(third)["reason"], "tenant-at-limit")
        many = mill("SUBMIT", "sh", "JOBS", *["true"] * 3)
        wait_for("one to end", lambda: mill.status(many)["ok"] == 1)
        # The end of a job is there a moment before its slot is free.
        wait_for("the rate to be the reason", lambda: mill.explain(many)["reason"] == "tenant-at-limit")
        self.reload(daemon, settings, shop={"slots": 3}, mill={})
        self.assertEqual(mill.wait(many)["ok"], 3)
        self.assertEqual(shop.wait(third)["ok"], 1)
        for batch in (a, b):
            shop("CANCEL", batch)

    def test_a_reload_acts_on_what_is_queued(self):
        settings = {"lanes": {"l": {"slots": 8}}, "handlers": {"sh": shell(lane="l", concurrency=8)}}
        daemon = self.start_with(settings, shop={})
        shop = self.log_in(daemon, "shop")
        shop("CUSTOMER", "SET", "own", "SLOTS", 2)
        self.reload(daemon, {**settings, "customers": {"slots": 1}}, shop={})
        batches = {name: shop("SUBMIT", "sh", "FOR", name, "JOBS", *[FOREVER] * 8) for name in ("own", "usual", "other")}
        running = lambda: {name: shop.status(batch)["running"] for name, batch in batches.items()}
        wait_for("the default's slots", lambda: running() == {"own": 2, "usual": 1, "other": 1})
        self.reload(daemon, {**settings, "customers": {"slots": 1}}, shop={"customers": {"slots": 3}})
        wait_for("the user's own default", lambda: running() == {"own": 2, "usual": 3, "other": 3})
        self.assertEqual([self.customer(shop, name)["slots"] for name in batches], [2, 3, 3])
        for batch in batches.values():
            shop("CANCEL", batch)

    def test_more_customers_than_one_slice_of_a_reload(self):
        count = 3_000
        settings = {"customers": {"weight": 2}}
        daemon = self.start(settings)
        connection = self.connect(daemon)
        held = [connection("OPEN", "echo", "FOR", f"c{i}") for i in range(count)]
        for batch in held:
            connection("PAUSE", batch)
            connection("ADD", batch, "x")
        daemon.configure({"customers": {"weight": 5}})
        connection("CONFIG", "RELOAD")
        rows = self.customers(connection, "COUNT", 700)
        self.assertEqual(collections.Counter(row["weight"] for row in rows), {5: count})
        self.assertEqual(sorted(row["customer"] for row in rows), sorted(f"c{i}" for i in range(count)), "each once")
        for batch in held:
            connection("RESUME", batch)
            connection("CLOSE", batch)
        wait_for("all to be over", lambda: not self.customers(connection))


class MaxJobs(CustomerTest):
    def test_refuses_by_name_and_says_what_to_do(self):
        connection = self.connect(self.start())
        connection("CUSTOMER", "SET", "acme", "MAXJOBS", 3)
        batch = connection("OPEN", "echo", "FOR", "acme")
        connection("PAUSE", batch)
        connection("ADD", batch, "a", "b")
        error = connection.ask("SUBMIT", "echo", "FOR", "acme", "JOBS", "c", "d")
        self.assertIn("QUEUEFULL MAXJOBS of the customer 'acme' is 3, and 2 are in use: nothing was accepted, try again when jobs of the customer have ended, or raise the limit (CUSTOMER SET)", str(error))
        self.assert_error("QUEUEFULL", connection.ask("ADD", batch, "c", "d"))
        self.assertEqual(connection("ADD", batch, "c"), 3)
        self.assert_error("QUEUEFULL", connection.ask("RUN", "echo", "FOR", "acme", "JOBS", "d"))
        self.assert_error("TOOBIG", connection.ask("SUBMIT", "echo", "FOR", "acme", "JOBS", *"abcd"))
        # Others are free, and so is the customer with a higher limit.
        self.assertEqual(connection("RUN", "echo", "FOR", "other", "JOBS", *"abcd")[3], ["ok", "d"])
        connection("CUSTOMER", "SET", "acme", "MAXJOBS", 4)
        self.assertEqual(connection("ADD", batch, "d"), 4)
        self.assertEqual(self.customer(connection, "acme")["jobs"], 4)
        connection("RESUME", batch)
        connection("CLOSE", batch)
        connection.wait(batch)
        seen = self.customer(connection, "acme")
        self.assertEqual((seen["jobs"], seen["batches"]), (0, 0))
        self.assertEqual(len(connection("RUN", "echo", "FOR", "acme", "JOBS", *"abcd")), 4)

    def test_the_default_is_named_by_its_key(self):
        daemon = self.start_with({"customers": {"max_queued_jobs": 5}}, shop={"customers": {"max_queued_jobs": 2}}, mill={})
        shop, mill = self.log_in(daemon, "shop"), self.log_in(daemon, "mill")
        self.assertIn("users.shop.customers.max_queued_jobs, for the customer 'a', is 2", str(shop.ask("SUBMIT", "echo", "FOR", "a", "JOBS", *"abc")))
        self.assertIn("customers.max_queued_jobs, for the customer '', is 5", str(mill.ask("SUBMIT", "echo", "JOBS", *"abcdef")))
        shop("CUSTOMER", "SET", "a", "MAXJOBS", 0)
        self.assertEqual(len(shop("RUN", "echo", "FOR", "a", "JOBS", *"abc")), 3)

    def test_retry_counts(self):
        connection = self.connect(self.start())
        batch = connection("SUBMIT", "fail", "FOR", "acme", "RETRIES", 0, "JOBS", *"abc")
        connection.wait(batch)
        connection("CUSTOMER", "SET", "acme", "MAXJOBS", 2)
        error = connection.ask("RETRY", batch)
        self.assertIsInstance(error, Error)
        self.assertIn("MAXJOBS of the customer 'acme'", str(error))
        self.assertEqual(connection("RETRY", batch, 0, 1), 2)
        connection.wait(batch)
        self.assertEqual(self.customer(connection, "acme")["jobs"], 0)

    def test_how_many_may_have_settings_is_bounded(self):
        connection = self.connect(self.start({"limits": {"max_customers": 3}}))
        for name in "abc":
            connection("CUSTOMER", "SET", name, "WEIGHT", 2)
        error = connection.ask("CUSTOMER", "SET", "d", "WEIGHT", 2)
        self.assertIn("QUEUEFULL limits.max_customers is 3", str(error))
        connection("CUSTOMER", "SET", "a", "WEIGHT", 3)
        connection("CUSTOMER", "DEL", "b")
        self.assertEqual(connection("CUSTOMER", "SET", "d", "WEIGHT", 2), "OK")
        # What they take is the user's: 451 bytes each.
        self.assertIn("account_record_bytes:used=1353,", connection("INFO", "account"))


class Restarted(StoreTest, CustomerTest):
    def test_settings_and_batches_after_kill_9(self):
        command = self.begin()
        command("CUSTOMER", "SET", "acme", "WEIGHT", 7, "SLOTS", 2, "RATE", "300/m", "MAXJOBS", 5)
        command("CUSTOMER", "SET", "gone", "WEIGHT", 2)
        command("CUSTOMER", "SET", "a/b", "SLOTS", 1)
        command("CUSTOMER", "SET", "", "WEIGHT", 3)
        command("CUSTOMER", "DEL", "gone")
        batch = command("OPEN", "echo", "FOR", "acme", "SLOTS", 4)
        command("PAUSE", batch)
        command("ADD", batch, "a", "b", "c")
        command("SLOTS", batch, 9)
        over = command("SUBMIT", "echo", "FOR", "acme", "JOBS", "x")
        command.wait(over)
        keys = ("tenant", "customer", "weight", "slots", "rate", "max_jobs", "set")
        settings = lambda: {name: {key: self.customer(self.command, name)[key] for key in keys} for name in ("acme", "a/b", "", "gone")}
        before = settings()
        self.kill()
        command = self.begin()
        self.assertEqual(settings(), before)
        self.assertEqual((before["acme"]["weight"], before["acme"]["rate"], before["gone"]["set"]), (7, "300/m", 0))
        self.assertEqual(sorted(row["customer"] for row in self.customers(command)), ["", "a/b", "acme"])
        status = command.status(batch)
        self.assertEqual((status["customer"], status["slots"], status["queued"]), ("acme", 9, 3))
        self.assertEqual(command.wait(over)["customer"], "acme")
        self.assertEqual(self.customer(command, "acme")["jobs"], 3)
        self.assertEqual([row["id"] for row in command.listed("FOR", "acme")], [over, batch])
        # What was restored counts.
        self.assert_error("QUEUEFULL", command.ask("SUBMIT", "echo", "FOR", "acme", "JOBS", *"abc"))
        command("CUSTOMER", "SET", "acme", "RATE", 0)
        command("RESUME", batch)
        command("CLOSE", batch)
        self.assertEqual(command.wait(batch)["ok"], 3)
        self.assertEqual(self.customer(command, "acme")["jobs"], 0)
        self.kill()
        command = self.begin()
        self.assertEqual(self.customer(command, "acme")["rate"], "0")
        self.assertEqual(command.status(batch)["customer"], "acme")

    def test_the_share_of_a_customer_after_a_restart(self):
        settings = {**one_slot(), "pool": {"workers": 1}}
        command = self.begin(settings)
        file = scratch(self) / "starts"
        file.touch()
        command("CUSTOMER", "SET", "a", "WEIGHT", 3)
        blocker = take_the_slot(command)
        for word in "ab":
            command("SUBMIT", "sh", "FOR", word, "RANGE", 0, 5_000, f"echo {word} >> {file} # {{}}")
        command("PAUSE", blocker)
        self.kill()
        self.begin(settings)
        wait_for("80 starts", lambda: len(file.read_text().split()) >= 80)
        starts = collections.Counter(file.read_text().split()[:80])
        self.assertAlmostEqual(starts["a"], 60, delta=3, msg=starts)


if __name__ == "__main__":
    unittest.main()

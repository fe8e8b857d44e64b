#!/usr/bin/python3
"""What a user's account bounds besides its quotas: results in memory, patterns, records, batches in the store; and that others do not pay."""

import base64
import json
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import merged, wait_for
from resp import Error, encode
from scratch import scratch
from store_daemon import StoreTest
from users import ALL, BUILTIN, PASSWORD, UsersTest, users

MIB = 1 << 20
# Of a process without any batch: libraries, threads, buffers.
BASE = 128 * MIB
HOUR_MS = 3_600_000


def used(connection, name):
    """What the user has in use, by INFO."""
    line = next(line for line in connection("INFO", "account").splitlines() if line.startswith(f"account_{name}:"))
    return int(line.split("used=")[1].split(",")[0])


def assert_waits_count(test, alice):
    """In memory, AFTER takes room for each batch that is waited for, and only until the end of the batch that waits."""
    alice("SUBMIT", "echo", "ID", "over", "JOBS", "x")
    alice.wait("over")
    alice("OPEN", "echo", "ID", "open")

    def taken(*after):
        before = used(alice, "record_bytes")
        alice("SUBMIT", "echo", "ID", "waits", "DELAY", HOUR_MS, *after, "JOBS", "x")
        waiting = used(alice, "record_bytes")
        alice("CANCEL", "waits")
        alice.wait("waits")
        ended = used(alice, "record_bytes")
        alice("FORGET", "waits")
        test.assertEqual(used(alice, "record_bytes"), before)
        return waiting - before, ended - before

    plain = taken()
    one = taken("AFTER", "open")
    test.assertGreater(one[0], plain[0])
    test.assertEqual(one[1], plain[1], "it is over, and waits for nothing")
    test.assertEqual(taken(*["AFTER", "open"] * 100), one, "it waits once for each")
    test.assertEqual(taken(*["AFTER", "over"] * 100), plain, "it does not wait for what is over")
    # And the eviction of such a batch frees what the batch takes, not more.
    after = [word for _ in range(20) for word in ("AFTER", alice("OPEN", "echo", "EPHEMERAL"))]
    alice("SUBMIT", "echo", "ID", "waits", *after, "JOBS", "x")
    alice("CANCEL", "waits")
    alice.wait("waits")
    while not isinstance(alice.ask("OPEN", "echo", "EPHEMERAL"), Error):
        test.assertLessEqual(used(alice, "record_bytes"), 256 << 10)


class Shown(UsersTest):
    def test_what_is_queued_and_its_limits_belong_together(self):
        """Payloads beyond the memory for them are only in the store: they count for the user's own quota."""
        limits = {"max_queued_bytes": 4 * MIB, "max_payload": MIB, "max_command": 8 * MIB}
        settings = {"http": {"login": "users"}, "store": {"path": str(scratch(self) / "store")}, "limits": limits}
        daemon = self.start_with(settings, anna={"handlers": ["echo"]}, bob={"max_queued_bytes": 64 * MIB}, root={"commands": ALL})
        wire = self.log_in(daemon, "anna")
        for _ in range(20):
            wire("SUBMIT", "echo", "DELAY", 3_600_000, "JOBS", *[b"x" * 100_000] * 4)
        for user, payloads, quota in ("anna", 8_000_000, None), ("root", 8_000_000, None), ("bob", 0, 64 * MIB):
            daemon.http_fields = {"Authorization": "Basic " + base64.b64encode(f"{user}:{PASSWORD.format(user)}".encode()).decode()}
            overview = json.loads(daemon.get("/api/overview")[1])
            totals, of = overview["totals"], overview["limits"]
            self.assertLessEqual(totals["queued_bytes"], of["max_queued_bytes"], user)
            self.assertEqual((totals["payload_bytes"], of["max_payload_bytes"]), (payloads, quota), user)
            self.assertEqual(overview["accounts"][0]["payload_bytes"], {"used": payloads, "limit": quota}, user)
        info = dict(line.split(":") for line in wire("INFO", "locksley").splitlines() if ":" in line)
        self.assertLessEqual(int(info["queued_bytes"]), int(info["max_queued_bytes"]))


class Results(UsersTest):
    LIMIT = 16 * MIB

    def begin(self, **limits):
        settings = {"store": {"path": ""}, "limits": {"max_result_bytes": 4 * self.LIMIT, **limits}}
        self.daemon = self.start_with(settings, alice={**BUILTIN, "max_result_bytes": self.LIMIT}, bob=BUILTIN, root={"commands": ALL})
        self.alice, self.bob = self.log_in(self.daemon, "alice"), self.log_in(self.daemon, "bob")

    def flood(self, id_="flood"):
        """6 GB of results, from one line."""
        self.alice("SUBMIT", "echo", "EPHEMERAL", "ID", id_, "RANGE", 0, 100_000, "x" * 60_000)

    def wait_for_the_limit(self, id_="flood"):
        wait_for("the results to be at their limit", lambda: self.alice.map("EXPLAIN", id_)["reason"] == "results-at-limit")

    def test_one_line_cannot_fill_the_memory(self):
        self.begin()
        self.flood()
        self.wait_for_the_limit()
        status = self.alice.status("flood")
        self.assertEqual((status["state"], status["running"]), ("running", 0))
        # A turn of each of the two workers may end with what it has.
        self.assertLess(status["ok"] * 60_000, self.LIMIT + 4 * MIB)
        self.assertLess(self.daemon.resident_bytes(), BASE + 1.25 * self.LIMIT)
        error = self.alice.ask("RUN", "echo", "JOBS", "x")
        self.assert_error("TOOBIG", error)
        self.assertIn(f"users.alice.max_result_bytes is {self.LIMIT}", error)
        self.assertEqual(self.daemon.get("/readyz"), (200, "ready\n"))
        self.alice("SUBMIT", "echo", "ID", "next", "JOBS", "x")
        self.wait_for_the_limit("next")
        self.assertEqual(self.bob("RUN", "echo", "JOBS", "x"), [["ok", "x"]], "another user goes on")
        self.alice("CANCEL", "flood")
        self.assertEqual(self.alice.wait("next")["ok"], 1, "the cancelled batch makes room")
        self.assertEqual(self.alice("RUN", "echo", "JOBS", "x"), [["ok", "x"]])

    def test_a_user_s_ended_batches_go_first(self):
        self.begin()
        self.bob("SUBMIT", "echo", "EPHEMERAL", "ID", "of-bob", "JOBS", "kept")
        self.bob.wait("of-bob")
        for number in range(12):
            self.alice("SUBMIT", "echo", "EPHEMERAL", "ID", f"b{number}", "RANGE", 0, 50, "x" * 60_000)
            self.assertEqual(self.alice.wait(f"b{number}")["ok"], 50)
        self.assert_error("NOBATCH", self.alice.ask("STATUS", "b0"))
        self.assertEqual(len(self.alice.results("b11")), 50)
        self.assertEqual(self.bob.results("of-bob"), [[0, "ok", "kept"]])

    def test_a_run_that_comes_to_the_limit_ends(self):
        self.begin()
        error = self.alice.ask("RUN", "echo", "JOBS", *["x" * 60_000] * 400)
        self.assert_error("TOOBIG", error)
        self.assertIn("users.alice.max_result_bytes", error)
        wait_for("its memory to be free", lambda: self.alice.ask("RUN", "echo", "JOBS", "x") == [["ok", "x"]])

    def test_where_others_have_filled_the_memory_of_all_a_user_with_little_goes_on(self):
        self.begin(max_result_bytes=self.LIMIT)
        self.flood()
        self.wait_for_the_limit()
        self.assertEqual(self.bob("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.bob("SUBMIT", "echo", "EPHEMERAL", "ID", "small", "JOBS", "y")
        self.assertEqual(self.bob.wait("small")["ok"], 1)

    def test_everywhere_seen(self):
        self.begin()
        self.flood()
        self.wait_for_the_limit()
        root = self.log_in(self.daemon, "root")
        own = dict(line.split(":", 1) for line in self.alice("INFO", "account").splitlines() if ":" in line)
        used, limit = (int(part.split("=")[1]) for part in own["account_result_bytes"].split(","))
        self.assertEqual(limit, self.LIMIT)
        self.assertGreaterEqual(used, limit)
        metrics = self.daemon.metrics()
        self.assertEqual(metrics['locksley_tenant_account_limit{tenant="alice",resource="result_bytes"}'], self.LIMIT)
        self.assertEqual(metrics['locksley_tenant_account_used{tenant="alice",resource="result_bytes"}'], used)
        self.assertEqual(metrics['locksley_account_limit{resource="result_bytes"}'], 4 * self.LIMIT)
        self.assertIn("account_queued_jobs:used=", root("INFO", "account"))


class Replies(UsersTest):
    def test_a_user_over_its_limit_loses_its_own_connections(self):
        settings = {"limits": {"client_memory": "64MiB", "output_buffer": "16MiB", "max_payload": "16MiB"}}
        daemon = self.start_with(settings, alice={**BUILTIN, "client_memory": "16MiB"}, bob=BUILTIN, root={"commands": ALL})
        large = self.log_in(daemon, "bob", receive_buffer=4096)
        large.send(encode("ECHO", "x" * 12 * MIB))
        root = self.log_in(daemon, "root")
        wait_for("bob's reply to wait", lambda: "omem=0 " not in next(line for line in root("CLIENT", "LIST").splitlines() if "user=bob" in line))
        greedy = [self.log_in(daemon, "alice", receive_buffer=4096) for _ in range(6)]
        for each in greedy:
            each.send(encode("ECHO", "x" * 6 * MIB))
        of_alice = lambda: root("CLIENT", "LIST").count("user=alice")
        wait_for("some of alice's connections to be dropped", lambda: of_alice() < 6)
        self.assertGreater(of_alice(), 0)
        self.assertEqual(len(large.read()), 12 * MIB, "who holds more, but is another user")
        self.assertIn("users.alice.client_memory", daemon.log())

    def test_muted_replies_are_held_by_nobody(self):
        daemon = self.start_with({}, alice=BUILTIN)
        connections = [self.log_in(daemon, "alice") for _ in range(20)]
        before = daemon.resident_bytes()
        for each in connections:
            each.send(encode("CLIENT", "REPLY", "OFF") + encode("ECHO", "x" * 8 * MIB) + encode("CLIENT", "REPLY", "ON"))
            self.assertEqual(each.read(), "OK")
        self.assertLess(daemon.resident_bytes() - before, 80 * MIB)


class Patterns(UsersTest):
    def test_a_pattern_counts_and_its_payloads_have_the_limit_of_payloads(self):
        settings = {"limits": {"max_payload": "100KiB"}}
        daemon = self.start_with(settings, alice={**BUILTIN, "max_queued_bytes": "200KiB"})
        alice = self.log_in(daemon, "alice")
        self.assert_error("TOOBIG .*limits.max_payload", alice.ask("SUBMIT", "echo", "RANGE", 0, 10, "x" * 103_000))
        # 100,000 bytes as it stands, and 10 times as much with its numbers.
        many = "{}" * 50_000
        error = alice.ask("SUBMIT", "echo", "RANGE", 10**18, 10**18 + 10, many)
        self.assert_error("TOOBIG .*bytes of a payload: 950000, and limits.max_payload", error)
        for number in range(2):
            alice("SUBMIT", "echo", "ID", f"b{number}", "DELAY", 3_600_000, "RANGE", 0, 10, "x" * 90_000)
        error = alice.ask("SUBMIT", "echo", "DELAY", 3_600_000, "RANGE", 0, 10, "x" * 90_000)
        self.assert_error("QUEUEFULL .*users.alice.max_queued_bytes", error)
        alice("CANCEL", "b0")
        alice("FORGET", "b0")
        alice("SUBMIT", "echo", "DELAY", 3_600_000, "RANGE", 0, 10, "x" * 90_000)


class Records(UsersTest):
    def test_batches_and_what_they_wait_for_take_memory(self):
        daemon = self.start_with({}, alice={**BUILTIN, "max_record_bytes": "256KiB"}, bob=BUILTIN)
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        alice("OPEN", "echo", "ID", "first")
        opened = 1
        while not str(alice.ask("OPEN", "echo", "EPHEMERAL")).startswith("QUEUEFULL users.alice.max_record_bytes is 262144"):
            opened += 1
            self.assertLess(opened, 1000, "open batches have no bound")
        self.assertGreater(opened, 50)
        # A customer is smaller than a batch: some may fit into what is left.
        customers = 0
        while not str(alice.ask("CUSTOMER", "SET", f"{customers:0128}", "WEIGHT", 2)).startswith("QUEUEFULL"):
            customers += 1
            self.assertLess(customers, 20, "customers do not count")
        makes_room = "nothing was (accepted|set), try again; to make room, FORGET finished batches, or RETAIN them for less time"
        for command in (("SUBMIT", "echo", "JOBS", "x"), ("CUSTOMER", "SET", "c" * 128, "WEIGHT", 2)):
            self.assert_error(f"QUEUEFULL .*users.alice.max_record_bytes is .*{makes_room}", alice.ask(*command))
        self.assertEqual(bob("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        for row in alice.listed():
            if row["id"] != "first":
                alice("CANCEL", row["id"])
                alice.wait(row["id"])
        # Those that are over make room, the oldest first.
        alice("SUBMIT", "echo", "EPHEMERAL", "ID", "new", "JOBS", "x")
        self.assertEqual(alice.wait("new")["ok"], 1)
        waits = 0
        after = [word for number in range(20) for word in ("AFTER", f"w{number}")]
        for number in range(20):
            alice("OPEN", "echo", "EPHEMERAL", "ID", f"w{number}")
        while True:
            reply = alice.ask("SUBMIT", "echo", "EPHEMERAL", *after, "JOBS", "x")
            if isinstance(reply, Error):
                break
            waits += 20
            self.assertLess(waits, 2000, "waits have no bound")
        self.assert_error("QUEUEFULL .*users.alice.max_record_bytes", reply)

    def test_a_refusal_names_the_limit_that_others_leave(self):
        """Two users share 1 MiB; each may have half of it, and the second no more than the half of what the first has left."""
        daemon = self.start_with({"limits": {"max_record_bytes": "1MiB"}}, alice=BUILTIN, bob=BUILTIN)
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        for user in (alice, bob):
            while not isinstance(refused := user.ask("OPEN", "echo", "EPHEMERAL"), Error):
                pass
        customers = 0
        while not isinstance(error := bob.ask("CUSTOMER", "SET", f"c{customers:0100}", "WEIGHT", 2), Error):
            customers += 1
        for reply in (refused, error):
            found = re.match(r"QUEUEFULL users.bob.max_record_bytes is (\d+) now, as much as all others have left of "
                             r"limits.max_record_bytes, and (\d+) are in use: nothing was (?:accepted|set), try again; to make room", str(reply))
            self.assertTrue(found, reply)
            self.assertLess(int(found[1]), MIB // 2)
            self.assertLess(int(found[1]) - int(found[2]), 4096, "it is reached")

    def test_only_what_is_waited_for_counts_and_only_until_the_end(self):
        daemon = self.start_with({}, alice={**BUILTIN, "max_record_bytes": "256KiB"}, bob=BUILTIN)
        assert_waits_count(self, self.log_in(daemon, "alice"))


class InTheStore(StoreTest):
    def log_in(self, name):
        connection = self.connect(self.daemon)
        connection("AUTH", name, PASSWORD.format(name))
        return connection

    def test_results_that_the_disk_has_give_way(self):
        """120 MB of results go through 16 MiB of memory."""
        self.begin(users(alice={**BUILTIN, "max_result_bytes": "16MiB"}))
        alice = self.log_in("alice")
        alice("SUBMIT", "echo", "ID", "large", "RANGE", 0, 2000, "x" * 60_000)
        self.assertEqual(alice.wait("large")["ok"], 2000)
        self.assertEqual(len(alice.results("large")), 2000)

    def test_only_what_is_waited_for_counts_and_only_until_the_end(self):
        self.begin(users(alice={**BUILTIN, "max_record_bytes": "256KiB"}))
        assert_waits_count(self, self.log_in("alice"))

    def test_texts_and_what_a_batch_waits_for_count_in_the_store(self):
        """Until it is forgotten, and after a restart to the byte."""
        settings = users(alice=BUILTIN)
        self.begin(settings)
        alice = self.log_in("alice")
        after = [word for number in range(20) for word in ("AFTER", alice("OPEN", "echo", "EPHEMERAL", "ID", f"{number:0128}"))]

        def taken(batch, *options, source=("JOBS", "x")):
            before = used(alice, "stored_bytes")
            alice("SUBMIT", "echo", "ID", batch, "DELAY", HOUR_MS, *options, *source)
            return used(alice, "stored_bytes") - before

        plain = taken("b0")
        self.assertEqual(taken("b1" + "i" * 100), plain + 100)
        self.assertEqual(taken("b2", "NAME", "n" * 200), plain + 200)
        self.assertEqual(taken("b3", "FOR", "c" * 60), plain + 60)
        self.assertGreaterEqual(taken("b4", source=("RANGE", 0, 1, "p" * 4000)), plain + 4000 - 1)
        self.assertGreaterEqual(taken("b5", *after), plain + 20 * 128)
        self.assertEqual(taken("b6", *["AFTER", after[1]] * 20), taken("b7", "AFTER", after[1]))
        all_of_them = used(alice, "stored_bytes")
        for batch in ("b0", "b2", "b4", "b5"):
            alice("CANCEL", batch)
            alice.wait(batch)
        self.assertGreater(used(alice, "stored_bytes"), all_of_them - 10, "only payloads have gone")
        before = used(alice, "stored_bytes")
        self.stop_and_begin(settings)
        alice = self.log_in("alice")
        self.assertEqual(used(alice, "stored_bytes"), before)
        for batch in alice.listed():
            alice("CANCEL", batch["id"])
            alice.wait(batch["id"])
            alice("FORGET", batch["id"])
        self.assertEqual(used(alice, "stored_bytes"), 0)

    def test_a_store_that_is_full_of_what_batches_waited_for_evicts(self):
        self.begin(users(alice={**BUILTIN, "max_stored_bytes": "64KiB"}))
        alice = self.log_in("alice")
        after = [word for number in range(20) for word in ("AFTER", alice("OPEN", "echo", "EPHEMERAL", "ID", f"{number:0128}"))]
        for number in range(100):
            alice("SUBMIT", "echo", "ID", f"b{number}", *after, "JOBS", "x")
            alice("CANCEL", f"b{number}")
            alice.wait(f"b{number}")
            self.assertLessEqual(used(alice, "stored_bytes"), 64 << 10)
        kept = sum(batch["id"].startswith("b") for batch in alice.listed())
        self.assertGreater(kept, 10)
        self.assertLess(kept, (64 << 10) / (20 * 128))

    def test_a_user_s_batches_evict_its_own(self):
        """Eight batches of one user must not evict another user's result, and with it the idempotence of its id."""
        self.begin(merged({"store": {"max_bytes": "4MiB"}}, users(alice=BUILTIN, bob=BUILTIN)))
        alice, bob = self.log_in("alice"), self.log_in("bob")
        bob("SUBMIT", "echo", "ID", "mine", "JOBS", "of bob")
        bob.wait("mine")
        for number in range(8):
            alice("SUBMIT", "echo", "ID", f"a{number}", "JOBS", *["x" * 50_000] * 18)
            alice.wait(f"a{number}")
        self.assert_error("NOBATCH", alice.ask("STATUS", "a0"))
        self.assertEqual(bob.results("mine"), [[0, "ok", "of bob"]])
        self.assertEqual(bob("SUBMIT", "echo", "ID", "mine", "JOBS", "of bob"), "mine")
        self.assertEqual(len(bob.results("mine")), 1, "it did not run again")
        error = alice.ask("SUBMIT", "echo", "JOBS", *["x" * 50_000] * 50)
        self.assert_error("TOOBIG .*users.alice.max_stored_bytes is 2097152", error)
        later = [str(alice.ask("SUBMIT", "echo", "DELAY", 3_600_000, "JOBS", *["x" * 50_000] * 18)) for _ in range(3)]
        self.assertRegex(later[2], r"^QUEUEFULL .*max_stored_bytes is .*try again; to make room, FORGET .* RETAIN .* \(RESULTS \.\.\. DISCARD\)$")
        self.assertEqual(self.daemon.get("/readyz"), (200, "ready\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)

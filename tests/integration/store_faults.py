#!/usr/bin/python3
"""A store that is in use, damaged, or on a full disk: it is never made worse, and what was refused is not there."""

import os
import pathlib
import random
import re
import shutil
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import merged, wait_for
from resp import Error, encode
from small_disk import SmallDisk
from store_daemon import HOUR_MS, StoreTest, run_daemon

OK, DATA_ERROR, UNAVAILABLE, STORE, IO_ERROR = 0, 65, 69, 72, 74


class InUseOrDamaged(StoreTest):
    def test_a_store_has_one_daemon(self):
        self.begin()
        batch = self.command("SUBMIT", "echo", "JOBS", "a")
        second = run_daemon(self.store)
        self.assertEqual((second.returncode, second.stdout), (UNAVAILABLE, ""), second.stderr)
        self.assertIn(str(self.store), second.stderr)
        self.assertIn("in use", second.stderr)
        repair = run_daemon(self.store, arguments=["--repair"])
        self.assertEqual(repair.returncode, UNAVAILABLE, repair)
        self.assertIn("in use", repair.stderr)
        self.command("SUBMIT", "echo", "JOBS", "b")
        self.kill_and_begin()
        self.assert_whole(batch, [["ok", "a"]])

    def make(self):
        """A store with files of every kind: two batches over, one that is not; the last rows in the log."""
        self.begin()
        self.command("SUBMIT", "echo", "ID", "over", "JOBS", *["p" * 3000] * 200)
        self.command.wait("over")
        self.command("SUBMIT", "fail", "ID", "failed", "JOBS", *["q" * 3000] * 200)
        self.command.wait("failed")
        self.stop_and_begin()
        self.take_worker()
        self.command("SUBMIT", "echo", "ID", "queued", "JOBS", *["r" * 3000] * 200)
        self.command("SUBMIT", "echo", "ID", "late", "JOBS", "s")
        self.kill()

    def contents(self):
        """All files but RocksDB's own log and lock."""
        return {path.name: path.read_bytes() for path in self.store.iterdir() if not re.match("LO(G|CK)", path.name)}

    def assert_refused_and_untouched(self, what):
        """However often it is tried: a service manager starts it again."""
        before = self.contents()
        for _ in range(2):
            refused = run_daemon(self.store)
            self.assertEqual((refused.returncode, refused.stdout), (STORE, ""), f"{what}: {refused.stderr}")
            after = self.contents()
            self.assertEqual(sorted(after), sorted(before), f"{what}: files came or went; {refused.stderr}")
            self.assertEqual(after, before, what)
            self.assertIn(str(self.store), refused.stderr, what)
            self.assertRegex(refused.stderr, r"damaged.*(copy|--repair).*store\.path", what)

    def assert_never_reads_wrong(self, what):
        """Rows of payloads and results are looked at when they are needed: what of them is damaged is an error then, and harms nothing else."""
        self.begin()
        for batch, how, output in (("over", "ok", "p" * 3000), ("failed", "error", "q" * 3000), ("queued", "ok", "r" * 3000)):
            self.command.wait(batch)
            for cursor in range(0, 201, 20):
                reply = self.command.ask("RESULTS", batch, "FROM", cursor, "COUNT", 20)
                if isinstance(reply, Error):
                    self.assert_error("STORE", reply)
                    continue
                for row in reply[1]:
                    if batch == "queued" and row[1] == "error":
                        self.assertRegex(row[2], "^the store ", what)
                    else:
                        self.assertEqual(row[1:], [how, output], what)
        self.assertEqual(self.command("RUN", "echo", "JOBS", "a"), [["ok", "a"]])
        self.command("SUBMIT", "echo", "ID", "new", "JOBS", "x")
        self.assert_whole("new", [["ok", "x"]])
        self.kill()

    def test_a_damaged_one_is_refused_and_left_as_it_is(self):
        self.make()
        sound = self.store.with_name(self.store.name + "-sound")
        shutil.copytree(self.store, sound)
        self.addCleanup(shutil.rmtree, sound)
        tables, logs, manifests = (sorted(path.name for path in sound.glob(pattern)) for pattern in ("*.sst", "*.log", "MANIFEST-*"))
        self.assertTrue(len(tables) >= 3 and logs and manifests, os.listdir(sound))

        def flip(name):
            data = bytearray((self.store / name).read_bytes())
            for at in range(len(data) // 2, min(len(data) // 2 + 16, len(data))):
                data[at] ^= 0xFF
            (self.store / name).write_bytes(data)

        truncate = lambda name: os.truncate(self.store / name, 0)
        remove = lambda name: (self.store / name).unlink()
        damages = [(damage, name) for name in (*tables, *manifests) for damage in (flip, truncate, remove)]
        damages += [(damage, "CURRENT") for damage in (flip, truncate, remove)]
        # A log whose end is missing is what a crash leaves; one that is wrong in the middle is damaged.
        damages += [(flip, name) for name in logs if (sound / name).stat().st_size > 1000]
        is_of_index = lambda name: b"queued" in (sound / name).read_bytes()[:2000] or (sound / name).stat().st_size < 5000
        names = {flip: "flipped bytes of", remove: "without", truncate: "emptied"}
        for damage, name in damages:
            what = f"{names[damage]} {name}"
            with self.subTest(what):
                shutil.rmtree(self.store)
                shutil.copytree(sound, self.store)
                damage(name)
                if damage is flip and name in tables and not is_of_index(name):
                    self.assert_never_reads_wrong(what)
                else:
                    self.assert_refused_and_untouched(what)
        shutil.rmtree(self.store)
        shutil.copytree(sound, self.store)
        self.begin()
        self.assert_known("over", "failed", "queued", "late")

    def test_repair_brings_back_what_can_be_read(self):
        self.make()
        for manifest in self.store.glob("MANIFEST-*"):
            manifest.unlink()
        self.assertEqual(run_daemon(self.store).returncode, STORE)
        repaired = run_daemon(self.store, arguments=["--repair"])
        self.assertEqual(repaired.returncode, OK, repaired.stderr)
        self.assertEqual(repaired.stdout, f"repaired: {self.store} has 4 batches\n")
        self.begin()
        self.assert_known("over", "failed", "queued", "late")
        self.assert_whole("over", [["ok", "p" * 3000]] * 200)
        self.assert_whole("failed", [["error", "q" * 3000]] * 200)
        self.assert_whole("queued", [["ok", "r" * 3000]] * 200)
        self.command("SUBMIT", "echo", "ID", "new", "JOBS", "x")
        self.kill_and_begin()
        self.assert_known("over", "failed", "queued", "late", "new")

    def test_repair_says_what_is_lost(self):
        self.make()
        tables = sorted(self.store.glob("*.sst"))
        for manifest in self.store.glob("MANIFEST-*"):
            manifest.unlink()
        tables[-1].write_bytes(b"x" * 100)
        repaired = run_daemon(self.store, arguments=["--repair"])
        self.assertEqual(repaired.returncode, DATA_ERROR, repaired.stderr)
        self.assertRegex(repaired.stdout, rf"^repaired: {self.store} has \d batches\n")
        self.assertIn(f"{self.store}/lost: {tables[-1].name}\n", repaired.stdout)
        self.assertTrue((self.store / "lost" / tables[-1].name).exists())

    def test_repair_of_a_sound_store_loses_nothing(self):
        self.make()
        repaired = run_daemon(self.store, arguments=["--repair"])
        self.assertEqual(repaired.returncode, OK, repaired.stderr)
        self.assertEqual(repaired.stdout, f"repaired: {self.store} has 4 batches\n")
        self.begin()
        self.assert_whole("over", [["ok", "p" * 3000]] * 200)
        self.assert_whole("late", [["ok", "s"]])

    def test_a_folder_that_cannot_be_made_is_named(self):
        (self.store / "file").write_text("")
        refused = run_daemon(self.store / "file" / "store")
        self.assertEqual((refused.returncode, refused.stdout), (UNAVAILABLE, ""), refused.stderr)
        self.assertIn(str(self.store / "file"), refused.stderr)


class FullDisk(StoreTest):
    settings = {"pool": {"workers": 2}}

    def setUp(self):
        super().setUp()
        self.disk = SmallDisk(self, self.store)
        self.store = self.disk.folder / "store"

    def begin(self, settings=None):
        """Without a limit of its own: the disk is the limit."""
        return super().begin(merged({"store": {"max_bytes": 0}}, settings or {}))

    def submit_until_refused(self):
        """SUBMITs until one does not fit. Those that were accepted, and the one that was not."""
        accepted = []
        for i in range(1000):
            reply = self.command.ask("SUBMIT", "echo", "ID", f"filling-{i}", "JOBS", f"{i}" * 1000)
            if isinstance(reply, Error):
                self.assert_error("STORE", reply)
                return accepted, f"filling-{i}"
            accepted.append(reply)
        raise AssertionError("1,000 batches went onto a full disk")

    def test_nothing_half_accepted_and_all_the_rest_goes_on(self):
        self.begin()
        # From an earlier process, so that its results and payloads are on the disk alone.
        self.command("SUBMIT", "echo", "ID", "over", "RANGE", 0, 3000)
        self.command.wait("over")
        stream = self.command("OPEN", "echo", "ID", "stream")
        self.command("ADD", stream, "a", "b")
        self.command("SUBMIT", "echo", "ID", "waiting", "JOBS", *["w" * 1000] * 500)
        self.command("PAUSE", "waiting")
        self.settle()
        rows = self.command.results("over")
        self.kill_and_begin()
        self.command("SUBMIT", "sleep", "ID", "slow", "SLOTS", 1, "RANGE", 0, 100, 20)

        self.disk.fill()
        accepted, refused = self.submit_until_refused()
        known = ["over", stream, "waiting", "slow", *accepted]
        self.assert_known(*known)
        self.assert_error("NOBATCH", self.command.ask("STATUS", refused))
        # The daemon repeats the write 1 s later, 2 s after that, then after 4 s and so on, and each fails: a slow machine sees more than two, but fewer than ten.
        errors = lambda: self.daemon.metrics()["locksley_store_errors_total"]
        before, passes = errors(), 0
        while passes < 10 or errors() < before + 2:
            passes += 1
            for command in (("SUBMIT", "echo", "ID", "no", "JOBS", "a"), ("OPEN", "echo", "ID", "no"), ("ADD", stream, "no")):
                self.assert_error("STORE", self.command.ask(*command))
            self.assertEqual(self.command("PING"), "PONG")
            self.assertEqual(self.command("RUN", "echo", "JOBS", "a"), [["ok", "a"]])
            self.assertEqual(self.command.results("over"), rows)
            self.assertEqual(self.status(stream)["jobs"], 2)
            self.assert_known(*known)
        self.assertLess(errors() - before, passes, "neither reading and RUN nor refusals wait for the disk")
        self.assert_whole(self.command("SUBMIT", "echo", "EPHEMERAL", "NAME", "settle", "JOBS", "a"), [["ok", "a"]])
        self.command.wait("slow")

        self.disk.make_room()
        wait_for("the daemon to accept again", lambda: not isinstance(self.command.ask("SUBMIT", "echo", "ID", "again", "JOBS", "a"), Error))
        self.assertEqual(self.command("ADD", stream, "c"), 3)
        self.command("CLOSE", stream)
        self.command("RESUME", "waiting")
        for _ in range(2):
            self.assert_known(*known, "again")
            self.assertEqual(self.command.results("over"), rows)
            self.assert_whole(stream, [["ok", "a"], ["ok", "b"], ["ok", "c"]])
            self.assert_whole("waiting", [["ok", "w" * 1000]] * 500)
            self.assert_whole("slow", [["ok", ""]] * 100)
            self.assert_whole("again", [["ok", "a"]])
            for i, batch in enumerate(accepted):
                self.assert_whole(batch, [["ok", f"{i}" * 1000]])
            self.settle()
            self.kill_and_begin()

    def test_what_was_refused_is_not_there_after_a_kill(self):
        """Though much of it went to the disk before there was no more room: it is written in several parts."""
        self.begin()
        stream = self.command("OPEN", "echo", "ID", "stream")
        self.command("ADD", stream, "a")
        self.settle()
        large = [random.Random(1).randbytes(1 << 20)] * 30
        self.assert_error("STORE", self.command.ask("ADD", stream, *large))
        self.assert_error("STORE", self.command.ask("SUBMIT", "echo", "ID", "large", "JOBS", *large))
        self.assertEqual(self.status(stream)["jobs"], 1)
        self.kill()
        self.disk.resize("100m")  # a start needs room for what is in the log
        self.begin()
        self.assert_known(stream)
        self.assertEqual((self.status(stream)["jobs"], self.status(stream)["state"]), (1, "open"))
        self.assertEqual(self.command("ADD", stream, "b"), 2)
        self.command("CLOSE", stream)
        self.assert_whole(stream, [["ok", "a"], ["ok", "b"]])

    def test_what_was_refused_among_many_is_not_there_after_a_kill(self):
        """They are written together, and the disk is full in the midst of it; the daemon is killed before it could undo anything."""
        large = [random.Random(1).randbytes(1 << 20)] * 5

        def submit(number, replies):
            with self.daemon.connect() as connection:
                for i in range(8):
                    ids = [f"{number}-{i}-{what}" for what in ("small", "large", "last")]
                    connection.send(b"".join(encode("SUBMIT", "echo", "ID", id_, "JOBS", *(large if "large" in id_ else ["a"])) for id_ in ids))
                    replies.update((id_, connection.read()) for id_ in ids)
                    if any(isinstance(reply, Error) for reply in replies.values()):
                        return

        for round_ in range(5):
            self.disk.resize("40m")
            self.begin()
            replies = {}
            clients = [threading.Thread(target=submit, args=(number, replies)) for number in range(4)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self.kill()
            self.disk.resize("200m")
            self.begin()
            refused = {id_ for id_, reply in replies.items() if isinstance(reply, Error)}
            self.assertTrue(refused)
            self.assertEqual(refused & self.listed().keys(), set(), f"refused, and there, in round {round_}")
            self.assertEqual(replies.keys() - refused - self.listed().keys(), set(), "accepted, and not there")
            self.kill()
            shutil.rmtree(self.store)

    def test_a_pipeline_is_refused_batch_by_batch(self):
        self.begin()
        self.disk.fill()
        count = 200
        words = lambda i: ("SUBMIT", "echo", "ID", f"b{i}", "JOBS", str(i) * 1000)
        self.command.send(b"".join(encode(*words(i)) + encode("PING") for i in range(count)))
        replies = [(self.command.read(), self.command.read()) for _ in range(count)]
        self.assertEqual({pong for _, pong in replies}, {"PONG"})
        accepted = [f"b{i}" for i, (reply, _) in enumerate(replies) if not isinstance(reply, Error)]
        for i, (reply, _) in enumerate(replies):
            if isinstance(reply, Error):
                self.assert_error("STORE", reply)
            else:
                self.assertEqual(reply, f"b{i}")
        self.assertLess(len(accepted), count)
        self.assert_known(*accepted)
        self.disk.make_room()
        wait_for("the daemon to accept again", lambda: not isinstance(self.command.ask("SUBMIT", "echo", "ID", "again", "JOBS", "a"), Error))
        self.kill_and_begin()
        self.assert_known(*accepted, "again")
        for batch in accepted:
            self.assert_whole(batch, [["ok", batch[1:] * 1000]])

    def test_a_transaction_is_refused_command_by_command(self):
        self.begin()
        self.disk.fill()
        submitted, number = None, 0
        while not isinstance(submitted, Error):
            self.assertLess(number := number + 1, 100, "the disk is full")
            self.command.send(encode("MULTI") + encode("SUBMIT", "echo", "ID", f"b{number}", "JOBS", "x" * 100_000) + encode("PING") + encode("EXEC"))
            self.assertEqual([self.command.read() for _ in range(3)], ["OK", "QUEUED", "QUEUED"])
            submitted, pong = self.command.read()
            self.assertEqual(pong, "PONG")
            self.assertEqual(isinstance(self.command.ask("STATUS", f"b{number}"), Error), isinstance(submitted, Error))
        self.assert_error("STORE", submitted)

    def test_cancel_and_forget_hold_once_there_is_room(self):
        self.begin()
        forgotten = self.command("SUBMIT", "echo", "JOBS", "a")
        self.command.wait(forgotten)
        cancelled = self.command("SUBMIT", "sleep", "JOBS", *[HOUR_MS] * 10)
        weighed = self.command("SUBMIT", "sleep", "JOBS", *[HOUR_MS] * 10)
        self.settle()
        self.disk.fill()
        accepted, _ = self.submit_until_refused()
        for command in (("FORGET", forgotten), ("CANCEL", cancelled), ("WEIGHT", weighed, 77)):
            self.assert_error("STORE", self.command.ask(*command))
        self.assertEqual(self.command.wait(cancelled)["state"], "cancelled")
        self.assertEqual(self.status(weighed)["weight"], 77)
        self.assert_error("NOBATCH", self.command.ask("STATUS", forgotten))
        self.disk.make_room()
        wait_for("the daemon to accept again", lambda: not isinstance(self.command.ask("SUBMIT", "echo", "ID", "again", "JOBS", "a"), Error))
        self.kill_and_begin()
        self.assert_known(cancelled, weighed, "again", *accepted)
        self.assertEqual(self.command.wait(cancelled)["state"], "cancelled")
        self.assertEqual(self.status(weighed)["weight"], 77)

    def test_a_start_on_a_full_disk_is_refused_and_harms_nothing(self):
        self.begin()
        self.command("SUBMIT", "echo", "ID", "over", "JOBS", *["x" * 1000] * 1000)
        self.command.wait("over")
        self.settle()
        self.kill()
        self.disk.fill()

        def refused_start():
            """None if the daemon had the room that it made itself before others could take it: then it serves."""
            ended = run_daemon(self.store)
            return None if ended.stdout.startswith("ready ") else ended

        refused = wait_for("a start on a full disk", refused_start)
        self.assertEqual((refused.returncode, refused.stdout), (UNAVAILABLE, ""), refused.stderr)
        self.assertIn(str(self.store), refused.stderr)
        self.assertRegex(refused.stderr, r"No space.*make room.*Nothing is lost")
        self.disk.make_room()
        self.begin()
        self.assert_whole("over", [["ok", "x" * 1000]] * 1000)

    def test_an_end_on_a_full_disk_is_an_end(self):
        self.begin()
        self.command("SUBMIT", "sleep", "ID", "slow", "RANGE", 0, 100, 20)
        self.disk.fill()
        self.submit_until_refused()
        self.daemon.send_signal(signal.SIGTERM)
        code, self.daemon.process.returncode = self.daemon.wait_end(), OK
        # It is chance whether others take the reserve before the last results are written.
        self.assertEqual(code, IO_ERROR if "are lost" in self.daemon.log() else OK)
        self.disk.make_room()
        self.begin()
        self.assert_whole("slow", [["ok", ""]] * 100)


if __name__ == "__main__":
    unittest.main()

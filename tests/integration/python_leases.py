#!/usr/bin/python3
"""Parts of the Python package's workers, without a daemon: the leases of a remote worker and its slots, what a local worker is ordered, and JSON, in
one thread; and what a remote worker does when a daemon is silent, or is restarted, with servers that say what the test wants."""

import io
import os
import pathlib
import signal
import sys
import threading
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S
from python_tasks import locksley, tasks
from scripted_daemons import JOINED, ScriptedDaemons, reclaimed
from scripted_upstream import array
from standby_server import LOADING
from time_limits import with_growing_limits

from locksley import codec, remote, wire, worker


class Slots(unittest.TestCase):
    def test_a_slot_is_taken_until_the_results_of_its_lease_are_sent(self):
        """Else the daemon would refuse the next CLAIM, which comes before the last SETTLE: a slot has at most two leases."""
        worker = remote.RemoteWorker(tasks.far, "redis://127.0.0.1:1")
        self.addCleanup(worker._woken.close)
        self.addCleanup(worker._waker.close)
        lease = remote.Lease(worker, 0, [b"lease", 1, b"far", 0, 1, 1, 0, None, [b'{"task":"identity","args":[7]}'], b"b", b"u", None, None, None])
        worker._leases.append(lease)
        self.assertEqual((worker._steps_of(lease), worker._slot_that_wants()), ([], None))
        lease.run()
        lease.has_run = True  # the slot's thread, after the main thread has looked
        self.assertIsNone(worker._slot_that_wants())
        [(command, _)] = worker._steps_of(lease)
        self.assertEqual((command, worker._slot_that_wants()), (("SETTLE", "lease", "ok", 0, b"7"), 0))


class Leases(unittest.TestCase):
    """What the slot's thread and the main thread do with one lease, in one thread here."""

    def setUp(self):
        self.worker = remote.RemoteWorker(tasks.app, "redis://127.0.0.1:1")
        self.addCleanup(self.worker._woken.close)
        self.addCleanup(self.worker._waker.close)

    def lease(self, count, payloads, numbers=None):
        return remote.Lease(self.worker, 0, [b"lease", 1, b"raw", 5, count, 1, 0, None, payloads, b"b", b"u", None, numbers, None])

    def settles(self, lease):
        return [command for command, _ in lease.settles()]

    def test_payloads_that_are_numbers(self):
        lease = self.lease(3, [], [b"8", b"page-{}-{}"])
        lease.run()
        self.assertEqual(self.settles(lease), [("SETTLE", "lease", "ok", 5, b"PAGE-8-8", b"PAGE-9-9", b"PAGE-10-10")])
        lease = self.lease(2, [], [b"8", None])
        lease.run()
        self.assertEqual(self.settles(lease), [("SETTLE", "lease", "ok", 5, b"8", b"9")])

    def test_a_cut_gives_back_what_has_not_started(self):
        lease = self.lease(4, [b"a", b"b", b"c", b"d"])
        self.assertEqual([command for command, _ in lease.cut(7)], [("YIELD", "lease", 7)])
        self.assertEqual((lease.next, lease.cut(7)), (5, []))
        lease.run()
        self.assertEqual((lease.next, lease.held), (7, {5, 6}))
        [(command, take)] = lease.settles()
        self.assertEqual(command, ("SETTLE", "lease", "ok", 5, b"A", b"B"))
        take([2, 0])
        self.assertEqual(lease.held, set())

    def test_after_a_reconnect_results_are_sent_again_and_others_are_dropped(self):
        lease = self.lease(5, [b"a", b"b", b"c", b"d", b"e"])
        lease.cut(9)
        lease.run()
        self.assertEqual(self.settles(lease), [("SETTLE", "lease", "ok", 5, b"A", b"B", b"C", b"D")])
        lease.reclaim(lambda *words: [b"again", [[5, 6], [7, 9]]] if words[3:5] == (5, 9) else None)
        self.assertEqual(self.settles(lease), [("SETTLE", "again", "ok", 5, b"A"), ("SETTLE", "again", "ok", 7, b"C", b"D")])

    def test_of_what_a_job_says_the_last_is_sent_and_only_changes(self):
        lease = self.lease(1, [b"a"])
        job = locksley.Job("b", 5, "raw", 1, tell=lease._tell)
        for number in range(1000):
            job.progress(number / 10)
            job.save_note(str(number))
        notes = [command for command, _ in self.worker._steps(False) if command[0] == "NOTE"]
        self.assertEqual(sorted(notes), [("NOTE", "lease", 5, "PROGRESS", 99), ("NOTE", "lease", 5, "TEXT", "999")])
        job.progress(99.9)
        self.assertEqual([command for command, _ in self.worker._steps(False) if command[0] == "NOTE"], [])

    def test_the_results_of_two_leases_of_a_slot_are_settled_in_the_order_in_which_they_ran(self):
        leases = [self.lease(1, [b"a"]) for _ in range(20)]
        for at, lease in enumerate(leases):
            lease.name = f"lease-{at}"
            self.worker._leases.append(lease)
            lease.run()
        self.assertEqual([command[1] for command, _ in self.worker._steps(False) if command[0] == "SETTLE"], [lease.name for lease in leases])

    def test_what_was_cancelled_before_it_starts_does_not_run(self):
        lease = self.lease(1, [b"a"])
        lease.stop()
        lease.run()
        self.assertEqual(self.settles(lease), [("SETTLE", "lease", "cancelled", 5, b"")])

    def test_what_runs_elsewhere_since_a_reconnect_does_not_run_here(self):
        lease = self.lease(3, [b"a", b"b", b"c"])
        lease.reclaim(lambda *_: [b"again", [[6, 7]]])
        lease.run()
        self.assertEqual(self.settles(lease), [("SETTLE", "again", "ok", 6, b"B")])


class Daemons(ScriptedDaemons, unittest.TestCase):
    """The worker is in this thread."""

    PAYLOAD = b'{"task": "attempt"}'

    def setUp(self):
        super().setUp()
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        self.app = locksley.App(handler="far")

        @self.app.task
        def attempt():
            self.go.wait(DEADLINE_S)
            return locksley.current_job().attempt

    def let_go(self):
        self.go.set()

    def stop_worker(self):
        self.worker.stopping = True

    def run_worker(self, addresses, reply_s=DEADLINE_S, grace_s=0):
        for taken in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):  # the worker takes the first two
            self.addCleanup(signal.signal, taken, signal.getsignal(taken))
        signal.signal(signal.SIGALRM, self.is_late)
        signal.alarm(DEADLINE_S)
        self.addCleanup(signal.alarm, 0)
        self.worker = remote.RemoteWorker(self.app, "redis://" + ",".join(addresses), grace_s=grace_s)
        self.addCleanup(self.worker._woken.close)
        self.addCleanup(self.worker._waker.close)
        with unittest.mock.patch.object(remote, "REPLY_S", reply_s), self.assertLogs("locksley"):
            self.worker.run()

    def is_late(self, *_):
        raise AssertionError(f"waited {DEADLINE_S} s for the worker to stop")

    def test_a_worker_that_is_stopped_while_the_daemon_is_away_delivers_what_runs(self):
        joins = [self.go.set, lambda: None, lambda: self.worker._stop(), lambda: None]

        def join(_):
            joins.pop()()
            return JOINED if len(joins) in (0, 3) else LOADING

        def breaks(_):
            if joins:  # after the last one the job may go on for some BEATs
                raise OSError("the server closes the connection")
            return array()

        [server] = self.work_for(self.says(1, JOIN=join, BEAT=breaks, RECLAIM=lambda _: reclaimed("again", 1)), grace_s=DEADLINE_S)
        self.assertEqual(self.named(server, "SETTLE"), [["again", "ok", "0", "1"]])
        self.assertEqual(server.heard[-1], ["LEAVE"])

    def test_a_worker_that_was_paused_reads_what_has_come_before_it_gives_up(self):
        def attempt(ms, _):
            """Whether the worker has kept its connection. It gives it up, too, if the machine is too slow for a reply in this time."""
            self.doCleanups()
            self.setUp()
            waits, beaten, paused = remote.wait, threading.Event(), threading.Event()

            def beat(_):
                beaten.set()
                paused.wait(DEADLINE_S)
                return array()

            def wait(*args):
                if paused.is_set() or not beaten.is_set():
                    return waits(*args)
                paused.set()
                time.sleep(1.5 * ms / 1000)  # as SIGSTOP and SIGCONT would; the reply comes meanwhile
                self.let_go()
                return []

            says = self.says(1, BEAT=beat, RECLAIM=lambda _: reclaimed("again", 1))
            with unittest.mock.patch.object(remote, "wait", wait):
                [server] = self.work_for(says, reply_s=ms / 1000)
            self.assertEqual(self.settled, ["1"])
            return paused.is_set() and len(self.named(server, "JOIN")) == 1

        with_growing_limits(attempt)


class Orders(unittest.TestCase):
    """To a local worker with worker_protocol: 2, in one thread here."""

    def test_the_daemon_stops_a_job_that_waits_and_one_that_has_ended(self):
        job = [b"job", b"payload", b"7", b"b", b"1", b"", b"", b"0"]
        messages = [job, [b"stop", b"7", b"b"], job, [b"stop", b"7", b"other"]]  # of which the second is a later attempt
        local = worker.LocalWorker(tasks.app, io.BytesIO(wire.packed(messages)), os.open(os.devnull, os.O_WRONLY))
        self.addCleanup(os.close, local._answers)
        local._read_ahead()
        (first, _), (second, _) = local._ahead.get(), local._ahead.get()
        self.assertEqual((first.stopped, second.stopped), ("cancelled", ""))
        local._answer(second, "ok", b"")
        self.assertEqual((local._ahead.get(), local._jobs), (None, {}))


    def test_a_message_that_makes_no_sense_is_the_end(self):
        """Not a worker that waits for ever."""
        messages = [[b"job", b"payload", b"no number", b"b", b"1", b"", b"", b"0"]]
        local = worker.LocalWorker(tasks.app, io.BytesIO(wire.packed(messages)), os.open(os.devnull, os.O_WRONLY))
        self.addCleanup(os.close, local._answers)
        self.assertRaises(ValueError, local._read_ahead)
        self.assertIsNone(local._ahead.get(timeout=5))


class Json(unittest.TestCase):
    def test_values_are_the_same_without_the_encoder_in_c(self):
        values = [None, True, -1, 2.5, 'K"ä\\\n', [1, [2]], {"a": b"\0\xff", "b": {}}, (), {1: 2}]
        with unittest.mock.patch("json.encoder.c_make_encoder", None):
            encode = codec._encoder()
        for value in values:
            self.assertEqual("".join(encode(value, 0)).encode(), locksley.JSON.dumps(value))
        for wrong in (float("nan"), {1}, [float("inf")]):
            for dumps in (lambda value: "".join(encode(value, 0)), locksley.JSON.dumps):
                self.assertRaises((TypeError, ValueError), dumps, wrong)


if __name__ == "__main__":
    unittest.main()

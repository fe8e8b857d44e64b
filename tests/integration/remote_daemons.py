#!/usr/bin/python3
"""A locksleyd whose handlers run in other daemons (`upstream:`), and by `locksley work`: real processes, and what happens when they end."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from locksley_daemon import Daemon, DaemonTest, merged, program, wait_for
from programs import PYTHON, WORKER, shell, worker
from remote_worker import machines, port_for_workers, wait_for_machines
from resp import pairs
from scratch import scratch

# Appends its index to a ledger outside of the daemons: what ran, and how often.
LEDGER = "echo $LOCKSLEY_INDEX >> {}; printf done"


class RemoteDaemons(DaemonTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def own(self, settings):
        self.owner = self.start(merged({"workers": {"port": 0}}, settings))
        return self.connect(self.owner)

    def machine(self, settings=None):
        """Another daemon, which works for the owner."""
        url = f"redis://127.0.0.1:{port_for_workers(self.owner)}"
        return self.start(merged({"upstream": {"url": url}}, settings or {}))

    def test_a_native_handler_of_another_daemon(self):
        connection = self.own({"handlers": {"echo": {"remote": True}}})
        batch = connection("SUBMIT", "echo", "JOBS", *[f"job {n}" for n in range(5000)])
        self.assertEqual(connection.explain(batch)["reason"], "waiting-for-workers")
        self.machine()
        self.assertEqual(connection.wait(batch)["ok"], 5000)
        self.assertEqual({row[0]: row[2] for row in connection.results(batch)}, {n: f"job {n}" for n in range(5000)})
        (machine,) = wait_for_machines(connection, 1)
        self.assertEqual((machine["handlers"], machine["slots"]), (["echo"], 2))
        rest = lambda row: (row["jobs"], row["busy"], row["leases"])
        wait_for("its jobs to be counted", lambda: rest(machines(connection)[0]) == (5000, 0, 0))
        shown = subprocess.run([program("LOCKSLEY"), "--server", f"{self.owner.host}:{self.owner.port}", "workers"], capture_output=True, text=True).stdout
        self.assertRegex(shown, rf"(?m)^{machine['worker']} +2 +0 +0 +5,000 .* +0 +default +echo$")
        self.assertEqual(shown.count("\n"), 2 + 1 + 1 + 1 + 1, shown)
        (handler,) = (row for row in map(pairs, connection("HANDLERS")) if row["name"] == "echo")
        self.assertEqual((handler["kind"], handler["concurrency"]), ("remote", 0))

    def test_commands_and_workers_of_another_daemon(self):
        connection = self.own({"handlers": {"sh": {"remote": True}, "py": {"remote": True}}})
        self.machine({"handlers": {"sh": shell(concurrency=2), "py": worker(concurrency=2)}})
        jobs = [f"printf 'out {n}'" for n in range(40)]
        first = connection("SUBMIT", "sh", "JOBS", *jobs, "exit 3")
        second = connection("SUBMIT", "py", "JOBS", *[f"answer({n})" for n in range(40)])
        status = connection.wait(first)
        self.assertEqual((status["ok"], status["failed"]), (40, 1))
        outputs = {row[0]: row[2] for row in connection.results(first)}
        self.assertEqual({n: outputs[n] for n in range(40)}, {n: f"out {n}" for n in range(40)})
        self.assertTrue(outputs[40].startswith("exit status 3"), outputs[40])
        self.assertEqual(connection.wait(second)["ok"], 40)

    def test_a_handler_that_was_removed_for_a_while_runs_there_again(self):
        both = {"cat": {"remote": True}, "sh": {"remote": True}}
        connection = self.own({"handlers": both})
        self.machine({"handlers": {"cat": {"command": ["cat"]}, "sh": shell(concurrency=2)}})
        self.assertEqual(connection.wait(connection("SUBMIT", "sh", "JOBS", "true"))["ok"], 1)
        held = connection("SUBMIT", "sh", "DELAY", 1000, "JOBS", "true", "true")
        for handlers in ({"cat": {"remote": True}}, {"sh": {"remote": False, **shell()}}, both):
            self.owner.configure({"workers": {"port": 0}, "handlers": handlers})
            self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection.wait(held, 10)["ok"], 2)
        self.assertEqual(connection.wait(connection("SUBMIT", "cat", "JOBS", "a"), 10)["ok"], 1)
        (machine,) = machines(connection)
        self.assertEqual(sorted(machine["handlers"]), ["cat", "sh"])

    def test_a_handler_that_is_made_remote_later_runs_there(self):
        connection = self.own({"handlers": {"cat": {"remote": True}, "sh": shell()}})
        self.machine({"handlers": {"cat": {"command": ["cat"]}, "sh": shell(concurrency=2)}})
        self.assertEqual(wait_for_machines(connection, 1)[0]["handlers"], ["cat"])
        self.owner.configure({"workers": {"port": 0}, "handlers": {"cat": {"remote": True}, "sh": {"remote": True}}})
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection.wait(connection("SUBMIT", "sh", "JOBS", "true"), 10)["ok"], 1)

    def test_what_a_killed_machine_held_runs_elsewhere(self):
        ledger, go = self.folder / "ledger", self.folder / "go"
        connection = self.own({"handlers": {"sh": {"remote": True}}})
        with_shell = {"handlers": {"sh": shell(concurrency=2)}}
        killed = Daemon(merged({"upstream": {"url": f"redis://127.0.0.1:{port_for_workers(self.owner)}"}}, with_shell))
        wait_for_machines(connection, 1)
        # Four end there, and two run on until it is killed.
        quick = LEDGER.format(ledger)
        batch = connection("SUBMIT", "sh", "JOBS", *[quick] * 4, *[f"{quick}; until [ -e {go} ]; do sleep 0.01; done"] * 26)
        wait_for("jobs to end there", lambda: connection.status(batch)["ok"] == 4)
        wait_for("two more to run there", lambda: len(ledger.read_text().split()) == 6)
        held = [int(line) for line in ledger.read_text().split() if int(line) >= 4]  # not always 4 and 5: a slot may have leased several
        killed.process.kill()
        killed.process.wait()
        killed.process.stdout.close()
        wait_for("its connection to be gone", lambda: not machines(connection))
        wait_for("its jobs to be queued again", lambda: connection.status(batch)["running"] == 0)
        go.touch()
        self.machine(with_shell)
        self.assertEqual(connection.wait(batch)["ok"], 30)
        self.assertEqual(len(connection.results(batch)), 30)
        ran = [int(line) for line in ledger.read_text().split()]
        self.assertEqual(sorted(ran), sorted([*range(30), *held]), "of each slot the job that ran, and no other, ran twice")

    def test_jobs_outlive_the_daemon_that_owns_them(self):
        """kill -9 of the owner: the machine goes on with its job, and its result is recorded by the next owner."""
        ledger, go = self.folder / "ledger", self.folder / "go"
        workers = {"port": hold_port(self), "reclaim": "20s"}
        store = {"store": {"path": str(self.folder / "store")}, "workers": workers, "handlers": {"sh": {"remote": True}}}
        owner = Daemon(store)
        self.owner = owner
        self.machine({"handlers": {"sh": shell(concurrency=2)}})
        connection = owner.connect()
        wait_for_machines(connection, 1)
        batch = connection("SUBMIT", "sh", "JOBS", *[f"{LEDGER.format(ledger)}; until [ -e {go} ]; do sleep 0.01; done"] * 2)
        wait_for("both to run", lambda: ledger.exists() and len(ledger.read_text().split()) == 2)
        connection.close()
        owner.process.kill()
        owner.process.wait()
        owner.process.stdout.close()
        self.owner = self.start(store)
        connection = self.connect(self.owner)
        wait_for_machines(connection, 1)
        go.touch()
        self.assertEqual(connection.wait(batch)["ok"], 2)
        self.assertEqual(sorted(ledger.read_text().split()), ["0", "1"], "each ran once")

    def test_the_start_of_a_worker_program_does_not_count_as_time_of_its_job(self):
        """It takes longer than the time limit and the two seconds after which the owner enforces it."""
        connection = self.own({"handlers": {"slow": {"remote": True}}})
        loads = f"import runpy, time; time.sleep(6); runpy.run_path({WORKER!r}, run_name='__main__')"
        self.machine({"handlers": {"slow": {"worker": [PYTHON, "-B", "-c", loads]}}})
        self.assertEqual(connection("RUN", "slow", "TIMEOUT", 2000, "JOBS", "answer(1)"), [["ok", "1"]])

    def test_the_end_of_another_program_does_not_count_as_time_of_a_job(self):
        """The only slot has a worker that stays for its grace time of 6 s, though it gets no more jobs."""
        connection = self.own({"handlers": {"stays": {"remote": True}, "cat": {"remote": True}}})
        stays = f"import runpy, time; runpy.run_path({WORKER!r}, run_name='__main__'); time.sleep(600)"
        on_device = {"lane": "device", "concurrency": 1}
        handlers = {"stays": {"worker": [PYTHON, "-B", "-c", stays], "grace": "6s", **on_device}, "cat": {"command": ["cat"], **on_device}}
        self.machine({"lanes": {"device": {"slots": ["first"]}}, "handlers": handlers})
        self.assertEqual(connection("RUN", "stays", "JOBS", "answer(1)"), [["ok", "1"]])
        self.assertEqual(connection("RUN", "cat", "TIMEOUT", 2000, "JOBS", "x"), [["ok", "x"]])

    def test_a_program_without_a_file(self):
        """`locksley work` runs a worker program that was written for one machine."""
        connection = self.own({"handlers": {"py": {"remote": True}}})
        url = f"redis://127.0.0.1:{port_for_workers(self.owner)}"
        process = subprocess.Popen([program("LOCKSLEY"), "work", "py", "--url", url, "--slots", "2", "--", *worker()["worker"]], stdout=subprocess.DEVNULL)
        try:
            batch = connection("SUBMIT", "py", "JOBS", *[f"answer({n})" for n in range(100)])
            self.assertEqual(connection.wait(batch)["ok"], 100)
            self.assertEqual(wait_for_machines(connection, 1)[0]["slots"], 2)
        finally:
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(30), (0, 143))
        wait_for("it to have left", lambda: not machines(connection))

    def test_cancel_reaches_the_program_on_the_other_machine(self):
        connection = self.own({"handlers": {"sh": {"remote": True}}})
        self.machine({"handlers": {"sh": shell(concurrency=1)}})
        mark = self.folder / "pid"
        batch = connection("SUBMIT", "sh", "JOBS", f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600")
        wait_for("it to run", mark.exists)
        connection("CANCEL", batch)
        self.assertEqual(connection.wait(batch)["state"], "cancelled")
        wait_for("the program to end", lambda: not os.path.exists(f"/proc/{mark.read_text().strip()}"))

    def test_a_second_slot_gets_a_job_while_the_first_one_runs_a_long_job(self):
        # Heartbeats, one in a third of this time, would bring a claim with them.
        connection = self.own({"handlers": {"sh": {"remote": True}}, "workers": {"lease": "10m"}})
        self.machine({"handlers": {"sh": shell(concurrency=2)}})
        wait_for_machines(connection, 1)
        long = connection("SUBMIT", "sh", "JOBS", "exec sleep 600")
        wait_for("it to run", lambda: connection.status(long)["running"] == 1)
        self.assertEqual(connection.wait(connection("SUBMIT", "sh", "JOBS", "printf short"))["ok"], 1)
        connection("CANCEL", long)

    def test_a_long_batch_is_shared_with_a_machine_that_comes_later(self):
        """The lease of the first machine is cut, so that the second one does not stay idle: the first one's job waits until another process has begun one."""
        folder = scratch(self)
        connection = self.own({"handlers": {"sleepy": {"remote": True}}})
        with_worker = {"handlers": {"sleepy": worker(concurrency=1)}}
        self.machine(with_worker)
        wait_for_machines(connection, 1)
        begin = f"open('{folder}/%d' % os.getppid(), 'w')\n"
        held = f"{begin}while len(os.listdir('{folder}')) < 2: time.sleep(0.01)\nanswer(os.getppid())"
        batch = connection("SUBMIT", "sleepy", "JOBS", *[f"{begin}time.sleep(0.01); answer(os.getppid())"] * 10, *[held] * 50)
        wait_for("the first jobs to end", lambda: connection.status(batch)["ok"] >= 10)
        self.machine(with_worker)
        self.assertEqual(connection.wait(batch)["ok"], 60)
        by_machine = {}
        for row in connection.results(batch):
            by_machine[row[2]] = by_machine.get(row[2], 0) + 1
        self.assertEqual(len(by_machine), 2, by_machine)

    def test_a_lease_that_waits_behind_a_job_of_its_own_machine_goes_to_an_idle_one(self):
        # Regular heartbeats would come after more than three minutes.
        connection = self.own({"handlers": {"sh": {"remote": True}}, "workers": {"lease": "10m"}})
        busy = self.connect(self.machine({"handlers": {"sh": shell(concurrency=1)}}))
        mark = self.folder / "mark"
        long = busy("SUBMIT", "sh", "JOBS", f"touch {mark}; exec sleep 600")
        wait_for("the machine's own job to run", mark.exists)
        batch = connection("SUBMIT", "sh", "TIMEOUT", 5000, "JOBS", "printf short")
        wait_for("the machine to have the other job", lambda: wait_for_machines(connection, 1)[0]["leases"] == 1)
        self.machine({"handlers": {"sh": shell(concurrency=1)}})
        self.assertEqual(connection.wait(batch)["ok"], 1)
        busy("CANCEL", long)

    def test_an_output_that_the_owner_does_not_take_fails_its_job_alone(self):
        connection = self.own({"handlers": {"sh": {"remote": True}}, "workers": {"max_leased_bytes": "4MiB"}})
        self.machine({"handlers": {"sh": shell(concurrency=1)}})
        (machine,) = wait_for_machines(connection, 1)
        jobs = [f"head -c {size} /dev/zero | tr '\\0' x" for size in (3 << 20, (3 << 20) // 2)]
        batch = connection("SUBMIT", "sh", "JOBS", *jobs)
        self.assertEqual(connection.wait(batch)["failed"], 1)
        rows = {row[0]: row for row in connection.results(batch)}
        self.assertIn("the upstream daemon takes at most 1572864: half of its workers.max_leased_bytes", str(rows[0]))
        self.assertEqual(len(rows[1][2]), (3 << 20) // 2)
        self.assertEqual(machines(connection)[0]["lost"], machine["lost"])

    def test_an_owner_that_drains_gives_its_queued_jobs_to_machines(self):
        ledger = self.folder / "ledger"
        connection = self.own({"handlers": {"sh": {"remote": True}}})
        self.machine({"handlers": {"sh": shell(concurrency=1)}})
        wait_for_machines(connection, 1)
        connection("SUBMIT", "sh", "JOBS", *[f"sleep 0.1; echo >> {ledger}"] * 20)
        self.owner.send_signal(signal.SIGTERM)
        self.assertEqual(self.owner.wait_end(), 0)
        self.assertEqual(len(ledger.read_text().splitlines()), 20)


if __name__ == "__main__":
    unittest.main()

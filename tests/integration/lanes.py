#!/usr/bin/python3
"""Lanes that handlers share: their slots, with numbers and with names, shares of users across handlers, processes that stay, their restart, and changes while they run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, program, wait_for
from programs import marked, new_mark, shell, worker
from users import ALL, UsersTest

# A job that notes how many jobs of its folder run, itself included, while it does: a file each.
COUNTED = "touch {folder}/run.$$; ls {folder} | grep -c ^run; sleep 0.02; rm {folder}/run.$$"
# The same, of jobs of which some must meet: the first ones wait until so many run. They all write the count that they waited for.
MEETING = (
    "touch {folder}/run.$$; until n=$(ls {folder} | grep -c ^run); [ $n -ge {count} ] || [ -e {folder}/met ]; do sleep 0.01; done; "
    "touch {folder}/met; echo $n; sleep 0.02; rm {folder}/run.$$"
)
# A job that fails if another holds its slot. The lock ends with the shell.
ALONE = "exec 9> {folder}/$LOCKSLEY_SLOT; flock -n 9 || exit 9; sleep 0.02; echo $LOCKSLEY_LANE $LOCKSLEY_SLOT $DEVICE"


class Lanes(DaemonTest):
    def serve(self, lanes, **handlers):
        self.daemon = self.start({"lanes": lanes, "handlers": handlers, "pool": {"workers": 2}})
        return self.connect(self.daemon)

    def outputs(self, connection, batch):
        status = connection.wait(batch)
        self.assertEqual(status["ok"], status["jobs"], connection.results(batch)[:3])
        return [row[2].strip() for row in connection.results(batch)]


class Slots(Lanes):
    def test_two_handlers_of_eight_run_two_programs_in_a_lane_of_two(self):
        connection = self.serve({"two": {"slots": 2}}, a=shell(lane="two", concurrency=8), b=shell(lane="two", concurrency=8))
        with tempfile.TemporaryDirectory() as folder:
            batches = [connection("SUBMIT", handler, "JOBS", *[MEETING.format(folder=folder, count=2)] * 30) for handler in ("a", "b")]
            counts = [int(output) for batch in batches for output in self.outputs(connection, batch)]
        self.assertEqual(max(counts), 2)

    def test_concurrency_bounds_a_handler_within_its_lane(self):
        connection = self.serve({"four": {"slots": 4}}, one=shell(lane="four"), all=shell(lane="four", concurrency=4))
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            ones = connection("SUBMIT", "one", "JOBS", *[COUNTED.format(folder=folder)] * 20)
            every = connection("SUBMIT", "all", "JOBS", *[MEETING.format(folder=other, count=3)] * 60)
            self.assertEqual(max(map(int, self.outputs(connection, ones))), 1)
            self.assertGreaterEqual(max(map(int, self.outputs(connection, every))), 3)

    def test_without_a_lane_handlers_share_as_many_slots_as_the_pool_has_workers(self):
        connection = self.serve({}, a=shell(), b=shell(concurrency=2), py=worker())
        self.assertIn("lane_processes:slots=2,", connection("INFO", "lanes"))
        self.assertEqual(self.daemon.metrics()['locksley_lane_slots{lane="processes"}'], 2)
        output = self.outputs(connection, connection("SUBMIT", "a", "JOBS", "echo $LOCKSLEY_LANE $LOCKSLEY_SLOT"))
        self.assertEqual(output, ["processes 0"])

    def test_a_name_is_in_one_running_job_at_a_time(self):
        handler = shell(lane="gpu", concurrency=8, environment=["DEVICE=dev-{slot}"])
        connection = self.serve({"gpu": {"slots": ["first", "second"]}}, a=handler, b=handler)
        with tempfile.TemporaryDirectory() as folder:
            batches = [connection("SUBMIT", name, "JOBS", *[ALONE.format(folder=folder)] * 20) for name in ("a", "b")]
            outputs = {output for batch in batches for output in self.outputs(connection, batch)}
        self.assertEqual(outputs, {"gpu first dev-first", "gpu second dev-second"})

    def test_a_batch_waits_for_its_handler_or_for_its_lane(self):
        connection = self.serve({"two": {"slots": 2}}, one=shell(lane="two"), two=shell(lane="two", concurrency=2))
        connection("SUBMIT", "one", "ID", "runs", "JOBS", "sleep 1000")
        connection("SUBMIT", "one", "ID", "waits", "JOBS", "true")
        wait_for("it to run", lambda: connection.map("STATUS", "runs")["running"] == 1)
        self.assertEqual(connection.map("EXPLAIN", "waits")["reason"], "handler-at-limit")
        connection("SUBMIT", "two", "ID", "fills", "JOBS", "sleep 1000")
        wait_for("the lane to be full", lambda: connection.map("STATUS", "fills")["running"] == 1)
        connection("CANCEL", "waits")
        connection("SUBMIT", "two", "ID", "late", "JOBS", "true")
        self.assertEqual(connection.map("EXPLAIN", "late")["reason"], "lane-at-limit")
        for batch in ("runs", "fills", "late"):
            connection("CANCEL", batch)


class Checked(Lanes):
    def test_a_rate_can_be_changed_and_removed(self):
        connection = self.serve({"one": {"slots": 1}}, a=shell(lane="one", rate="1/h"))
        batch = connection("SUBMIT", "a", "JOBS", *["true"] * 3)
        wait_for("the rate to be felt", lambda: connection.explain(batch)["reason"] == "rate-limited")
        connection("CONFIG", "SET", "handlers.a.rate", "0/s")
        connection.wait(batch)

    def test_more_concurrency_than_slots_is_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "locksley.yaml")
            for concurrency, warning in ((2, ""), (3, "warning: handlers.a.concurrency: 3 is more than the slots of its lane l (2), so at most that many of its jobs run at once\n")):
                file.write_text(json.dumps({"lanes": {"l": {"slots": 2}}, "handlers": {"a": shell(lane="l", concurrency=concurrency)}}))
                done = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", file], capture_output=True, text=True, timeout=DEADLINE_S)
                self.assertEqual((done.returncode, done.stderr), (0, warning))


class Shares(UsersTest):
    def shares(self, weights, **handlers_of):
        """Of alice and bob, whose batches are of these handlers: the jobs that ended while both had more."""
        handlers = {name: shell(lane="four", concurrency=4) for name in ("a", "b", "c")}
        # Shares of starts: those of time are the same for jobs that are alike, but some would take longer than others on a machine that is busy.
        settings = {"lanes": {"four": {"slots": 4}}, "scheduling": {"share": "jobs"}, "handlers": handlers}
        daemon = self.start_with(settings, root={"commands": ALL}, **{user: {"weight": weight} for user, weight in weights.items()})
        users = {user: self.log_in(daemon, user) for user in weights}
        root = self.log_in(daemon, "root")
        for user, names in handlers_of.items():
            for handler in names:
                users[user]("SUBMIT", handler, "ID", handler, "RANGE", 0, 10_000, "sleep 0.01 # {}")

        def ended():
            """Of each user, at one moment."""
            rows = root.listed()
            return [sum(row["ok"] for row in rows if row["tenant"] == user) for user in handlers_of]

        wait_for("jobs of both to end", lambda: min(ended()) > 4)
        before = ended()
        wait_for("300 jobs", lambda: sum(ended()) - sum(before) >= 300, 120)
        shares = [after - earlier for earlier, after in zip(before, ended(), strict=True)]
        print(f"jobs of {weights}, at the handlers {handlers_of}: {shares}")
        return shares

    def test_weights_hold_on_two_like_handlers(self):
        alice, bob = self.shares({"alice": 3, "bob": 1}, alice="a", bob="b")
        self.assertAlmostEqual(alice / bob, 3, delta=0.6)

    def test_a_user_of_three_handlers_has_one_share(self):
        alice, bob = self.shares({"alice": 1, "bob": 1}, alice="abc", bob="a")
        self.assertAlmostEqual(alice / bob, 1, delta=0.25)


class Processes(Lanes):
    def pid(self, connection, handler):
        return int(connection("RUN", handler, "JOBS", "answer(os.getpid())")[0][1])

    def test_processes_of_several_handlers_stay_within_a_bound(self):
        mark = new_mark()
        handlers = {name: worker(mark, lane="one") for name in ("a", "b", "c")}
        connection = self.serve({"one": {"slots": 1}}, **handlers)
        a, b = self.pid(connection, "a"), self.pid(connection, "b")
        for _ in range(3):
            self.assertEqual((self.pid(connection, "a"), self.pid(connection, "b")), (a, b))
        # A third one takes the place of one of them. Of which, depends on how long their starts took (lane_slots_test.cc).
        c = self.pid(connection, "c")
        left = marked(mark)
        self.assertEqual((len(left), c in left), (2, True))
        kept, ended = (("a", a), ("b", b)) if a in left else (("b", b), ("a", a))
        self.assertEqual(self.pid(connection, kept[0]), kept[1])
        self.assertNotEqual(self.pid(connection, ended[0]), ended[1])
        self.assertEqual(len(marked(mark)), 2)

    def test_a_named_slot_has_one_process(self):
        mark = new_mark()
        handlers = {name: worker(mark, lane="gpu", environment=["DEVICE={slot}"]) for name in ("a", "b")}
        connection = self.serve({"gpu": {"slots": ["x"]}}, **handlers)
        for _ in range(2):
            for handler in ("a", "b"):
                pid, device = connection("RUN", handler, "JOBS", "answer(f'{os.getpid()} {os.environ[\"DEVICE\"]}')")[0][1].split()
                self.assertEqual((marked(mark), device), ([int(pid)], "x"))

    def test_two_handlers_of_one_named_slot_do_not_start_a_process_for_each_job(self):
        slow_to_start = worker(lane="gpu")
        slow_to_start["worker"] = ["sh", "-c", 'sleep 0.3; exec "$@"', "sh", *slow_to_start["worker"]]
        connection = self.serve({"gpu": {"slots": ["x"]}}, a=slow_to_start, b=slow_to_start)
        batches = [connection("SUBMIT", name, "JOBS", *["answer(os.getpid())"] * 60) for name in "ab"]
        for batch in batches:
            pids = self.outputs(connection, batch)
            # Each process works for as long as it has taken to start: that is hundreds of such jobs, or some ten of them on a machine that is busy.
            self.assertLess(len(set(pids)), 20)

    def test_idle_processes_are_ended(self):
        mark = new_mark()
        connection = self.serve({"one": {"slots": 1, "idle_timeout": "100ms"}}, a=worker(mark, lane="one"))
        first = self.pid(connection, "a")
        wait_for("its process to be ended", lambda: not marked(mark))
        self.assertNotEqual(self.pid(connection, "a"), first)
        self.assertNotIn("warning", self.daemon.log())


class Restart(Lanes):
    def pid(self, connection, payload="answer(os.getpid())"):
        [[status, output]] = connection("RUN", "py", "JOBS", payload)
        self.assertEqual(status, "ok", output)
        return int(output)

    def test_each_process_ends_after_its_job(self):
        mark = new_mark()
        connection = self.serve({"l": {"slots": 2}}, py=worker(mark, lane="l", concurrency=2))
        with tempfile.TemporaryDirectory() as folder:
            busy = f"open('{folder}/' + str(os.getpid()), 'w').close()\nwhile not os.path.exists('{folder}/go.' + str(index)): time.sleep(0.005)\nanswer(os.getpid())"
            batch = connection("SUBMIT", "py", "SLOTS", 2, "JOBS", busy, busy)
            wait_for("both jobs to run", lambda: len(list(pathlib.Path(folder).iterdir())) == 2)
            old = marked(mark)
            self.assertEqual(connection("HANDLER", "RESTART", "py"), 2)
            self.assertEqual(connection("HANDLER", "restart", "py"), 2)
            # A job is not interrupted; and where one has ended, the next runs in a new process.
            pathlib.Path(folder, "go.0").touch()
            first = int(connection("RESULTS", batch, "BLOCK", 60_000)[1][0][2])
            wait_for("the first process to end", lambda: first not in marked(mark))
            self.assertNotIn(self.pid(connection), old)
            self.assertEqual([pid for pid in marked(mark) if pid in old], [pid for pid in old if pid != first])
            pathlib.Path(folder, "go.1").touch()
            self.assertEqual(sorted(map(int, self.outputs(connection, batch))), old)
        wait_for("the second process to end", lambda: not set(old) & set(marked(mark)))

    def test_idle_processes_end_one_after_the_other(self):
        mark = new_mark()
        connection = self.serve({"l": {"slots": 2}}, py=worker(mark, lane="l", concurrency=2, grace="100s"))
        with tempfile.TemporaryDirectory() as folder:
            # Each lives on after it was told to end, until the test lets it go.
            slow = f"import atexit\ndef leave():\n  open('{folder}/ends.' + str(os.getpid()), 'w').close()\n  while not os.path.exists('{folder}/go'): time.sleep(0.005)\natexit.register(leave)\n"
            together = f"{slow}open('{folder}/runs.' + str(index), 'w').close()\nwhile len([f for f in os.listdir('{folder}') if f[:4] == 'runs']) < 2: time.sleep(0.005)\nanswer(os.getpid())"
            old = sorted(map(int, self.outputs(connection, connection("SUBMIT", "py", "JOBS", together, together))))
            self.assertEqual(marked(mark), old)
            ending = lambda: [int(path.suffix[1:]) for path in pathlib.Path(folder).glob("ends.*")]
            self.assertEqual(connection("HANDLER", "RESTART", "py"), 2)
            wait_for("the first to be told", lambda: ending() or None)
            [first] = ending()
            # The other one still serves.
            self.assertEqual([self.pid(connection), first], [pid for pid in reversed(old) if pid != first] + [first])
            pathlib.Path(folder, "go").touch()
            wait_for("both to be gone", lambda: not set(old) & set(marked(mark)))
        self.assertNotIn(self.pid(connection), old)
        self.assertNotIn("warning", self.daemon.log())

    def test_new_code_is_used_and_nothing_is_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            code = "import sys, time\nwhile sys.stdin.buffer.readline():\n  for _ in range(6): sys.stdin.buffer.readline()\n  time.sleep(0.002)\n  print('$1\\r\\n{}\\r', flush=True)\n"
            program.write_text(code.format(1))
            connection = self.serve({}, py={"worker": ["/usr/bin/python3", str(program)], "concurrency": 2})
            batch = connection("OPEN", "py", "SLOTS", 2)
            connection("ADD", batch, *range(500))
            wait_for("some jobs to end", lambda: connection.status(batch)["ok"] > 20)
            # A process that starts at this moment finds the one or the other.
            new = program.with_suffix(".new")
            new.write_text(code.format(2))
            new.rename(program)
            old = marked(str(program))
            self.assertIn(connection("HANDLER", "RESTART", "py"), (1, 2))
            self.assertEqual(connection("RUN", "py", "JOBS", "x")[0][0], "ok")
            wait_for("the old ones to end", lambda: not set(old) & set(marked(str(program))))
            connection("ADD", batch, *range(500))
            connection("CLOSE", batch)
            outputs = self.outputs(connection, batch)
            self.assertEqual((len(outputs), set(outputs)), (1000, {"1", "2"}))
            self.assertEqual(connection("RUN", "py", "JOBS", "x", "x", "x"), [["ok", "2"]] * 3)
        self.assertNotIn("warning", self.daemon.log())

    def test_of_a_command_the_running_processes_are_counted(self):
        connection = self.serve({}, sh=shell(concurrency=2))
        self.assertEqual(connection("HANDLER", "RESTART", "sh"), 0)
        batch = connection("SUBMIT", "sh", "JOBS", "sleep 1000")
        wait_for("it to run", lambda: connection("HANDLER", "RESTART", "sh") == 1)
        connection("CANCEL", batch)
        self.assertEqual(connection.wait(batch)["cancelled"], 1)

    def test_what_cannot_be_restarted_says_why(self):
        connection = self.serve({}, py=worker())
        self.assert_error("NOHANDLER no handler is named 'pyy'; did you mean 'py'?", connection.ask("HANDLER", "RESTART", "pyy"))
        self.assert_error("ERR the handler 'echo' runs in the daemon", connection.ask("HANDLER", "RESTART", "echo"))
        self.assert_error("ERR unknown subcommand", connection.ask("HANDLER", "STOP", "py"))
        self.assert_error("ERR wrong number", connection.ask("HANDLER", "RESTART"))


class Changes(Lanes):
    def test_slots_change_while_jobs_run(self):
        config = {"lanes": {"l": {"slots": 1}}, "handlers": {"a": shell(lane="l", concurrency=3)}}
        daemon = self.start(config)
        connection = self.connect(daemon)
        batch = connection("SUBMIT", "a", "JOBS", *["sleep 1000"] * 4)
        running = lambda: connection.map("STATUS", batch)["running"]
        wait_for("one to run", lambda: running() == 1)
        connection("CONFIG", "SET", "lanes.l.slots", 2)
        wait_for("two to run", lambda: running() == 2)
        connection("CONFIG", "SET", "lanes.l.slots", 4)
        wait_for("three, its handler's concurrency, to run", lambda: running() == 3)
        self.assertIn("lane_l:slots=4,running=3", connection("INFO", "lanes"))
        connection("CANCEL", batch)
        connection.wait(batch)
        connection("CONFIG", "SET", "lanes.l.slots", 1)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(max(map(int, self.outputs(connection, connection("SUBMIT", "a", "JOBS", *[COUNTED.format(folder=folder)] * 10)))), 1)

    def test_handlers_that_were_removed_make_room_for_others(self):
        """Each has a gate, of which a lane has 1,023; one that has batches keeps its own."""
        true = shell()
        self.daemon = self.start({"handlers": {"first": true}})
        connection = self.connect(self.daemon)
        connection("SUBMIT", "first", "ID", "waits", "JOBS", "sleep 1000", "echo first")
        wait_for("its first job to run", lambda: connection.status("waits")["running"] == 1)
        for turn in range(3):
            self.daemon.configure({"handlers": {f"h{turn}-{i}": true for i in range(500)}})
            connection("CONFIG", "RELOAD")
            self.assertEqual(connection("RUN", f"h{turn}-499", "JOBS", "echo $LOCKSLEY_HANDLER"), [["ok", f"h{turn}-499\n"]])
        self.daemon.configure({"handlers": {"first": shell(concurrency=2)}})
        connection("CONFIG", "RELOAD")
        wait_for("its second job to end", lambda: connection.status("waits")["ok"] == 1)
        self.assertEqual(connection("RESULTS", "waits")[1], [[1, "ok", "first\n"]])
        connection("CANCEL", "waits")

    def test_a_handler_moves_to_another_lane_with_its_batches(self):
        config = {"lanes": {"l": {"slots": 1}, "m": {"slots": 2}}, "handlers": {"a": shell(lane="l", concurrency=2)}}
        daemon = self.start(config)
        connection = self.connect(daemon)
        batch = connection("OPEN", "a")
        add = lambda: connection("ADD", batch, *["sleep 0.02; echo $LOCKSLEY_LANE"] * 10)
        add()
        wait_for("some to end", lambda: connection.map("STATUS", batch)["ok"] >= 3)
        connection("CONFIG", "SET", "handlers.a.lane", "m")
        add()
        connection("CLOSE", batch)
        lanes = self.outputs(connection, batch)
        self.assertEqual(set(lanes), {"l", "m"})
        self.assertEqual(connection("RUN", "a", "JOBS", "echo $LOCKSLEY_LANE"), [["ok", "m\n"]])


if __name__ == "__main__":
    unittest.main()

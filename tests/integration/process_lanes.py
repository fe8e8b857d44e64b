#!/usr/bin/python3
"""Commands and workers in lanes: concurrency, rate, shares, turns, replacement of workers, and what is shown of it all."""
# Length: the tests share the worker programs and the checks of one class.

import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from attempts import ATTEMPTS
from locksley_daemon import DaemonTest, wait_for
from programs import PYTHON, WORKER, new_mark, marked, python, shell, worker
from resp import pairs
from scratch import scratch
from time_limits import with_growing_limits
from users import ALL, UsersTest

(FAKETIME,) = pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")

# Reads one job at a time and no byte of the next. After five it leaves, in the way that is asked for.
LEAVES_AFTER_FIVE = """
import os, sys, time
notes, seconds, way = sys.argv[1:]
def read(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece: sys.exit()
        data += piece
    return data
def line():
    data = b""
    while not data.endswith(b"\\n"): data += read(1)
    return data
for _ in range(5):
    line()
    payload, index, batch = (read(int(line()[1:]) + 2)[:-2] for _ in range(3))
    with open(notes, "a") as file: file.write(index.decode() + "\\n")
    time.sleep(float(seconds))
    os.write(1, b"$1\\r\\nx\\r\\n")
if way != "exits":
    os.close(1 if way == "closes its output" else 0)
    time.sleep(0.4)
"""


class LaneTest(DaemonTest):
    def serve(self, **handlers):
        self.daemon = self.start({"handlers": handlers})
        return self.connect(self.daemon)


class Slots(LaneTest):
    def test_concurrency_is_used_and_never_exceeded(self):
        """Each job holds one of as many locks as there are slots; a job more at a time would find none. The first ones hold theirs until all are held."""
        connection = self.serve(c=python(concurrency=3), w=worker(concurrency=3))
        for handler, answer in (("c", "answer = print\n"), ("w", "")):
            with tempfile.TemporaryDirectory() as folder:
                code = (f"{answer}import fcntl, os, time\nfor i in range(3):\n  f = os.open(f'{folder}/{{i}}', os.O_CREAT | os.O_RDWR)\n"
                        "  try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n  except OSError: continue\n"
                        f"  while not os.path.exists('{folder}/2'): time.sleep(0.005)\n"
                        "  time.sleep(0.02); answer(i); break\nelse: answer('too many')\nfcntl.flock(f, fcntl.LOCK_UN)\n")  # fmt: skip
                batches = [connection("SUBMIT", handler, "JOBS", *[code] * 15) for _ in range(4)]
                found = set()
                for batch in batches:
                    self.assertEqual(connection.wait(batch)["ok"], 15)
                    found |= {row[2].strip() for row in connection.results(batch)}
                self.assertEqual(found, {"0", "1", "2"})

    def test_slots_of_a_batch(self):
        """A job that ran beside another one could not make its folder."""
        connection = self.serve(sh=shell(concurrency=4))
        with tempfile.TemporaryDirectory() as folder:
            batch = connection("SUBMIT", "sh", "SLOTS", 1, "JOBS", *[f"mkdir {folder}/one && sleep 0.03 && rmdir {folder}/one"] * 5)
            while (status := connection.map("STATUS", batch))["state"] != "done":
                self.assertLessEqual(status["running"], 1)
            self.assertEqual(status["ok"], 5)

    def test_pause_weight_and_max_fails(self):
        folder = scratch(self)
        connection = self.serve(sh=shell(), py=worker())
        for handler, good, bad in (("sh", "sleep 0.01", "exit 1"), ("py", "time.sleep(0.01); answer(1)", "error('ERR no')")):
            # The second job goes on once the batch is paused.
            begun, go = folder / f"begun-{handler}", folder / f"go-{handler}"
            held = {
                "sh": f"touch {begun}; until [ -e {go} ]; do sleep 0.01; done",
                "py": f"open('{begun}', 'w')\nwhile not os.path.exists('{go}'): time.sleep(0.01)\nanswer(1)",
            }
            batch = connection("SUBMIT", handler, "JOBS", good, held[handler], *[good] * 98)
            wait_for("its second job to run", begun.exists)
            connection("PAUSE", batch)
            go.touch()
            wait_for("what ran to end", lambda: connection.map("STATUS", batch)["running"] == 0)
            paused = connection.map("STATUS", batch)
            self.assertLess(paused["ok"], 100)
            self.assertEqual(connection("RUN", handler, "JOBS", good)[0][0], "ok")  # the slot is free
            self.assertEqual(connection.map("STATUS", batch)["ok"], paused["ok"])
            connection("RESUME", batch)
            self.assertEqual(connection.wait(batch)["ok"], 100)
            batch = connection("SUBMIT", handler, "MAXFAILS", 3, "JOBS", *[bad] * 20_000)
            status = connection.wait(batch)
            self.assertEqual(status["state"], "cancelled")
            self.assertGreaterEqual(status["failed"], 3)
            self.assertGreater(status["cancelled"], 0)

    def test_a_small_batch_overtakes_a_large_one(self):
        """Each job writes which batch it is of, so their order is known, however long anything takes."""
        folder = scratch(self)
        connection = self.serve(sh=shell(concurrency=2), py=worker(concurrency=2))
        for handler, job in (("sh", "echo {} >> {}; sleep 0.005"), ("py", "open({1!r}, 'a').write('{0}\\n'); time.sleep(0.005); answer(1)")):
            begun = folder / handler
            large = connection("SUBMIT", handler, "JOBS", *[job.format("large", str(begun))] * 5000)
            wait_for("the large batch to run", lambda: connection.map("STATUS", large)["ok"] > 5)

            def overtaken(number):
                """How many jobs of the large batch were passed over before almost all of a small one had begun."""
                small = f"small-{handler}-{number}"
                connection("MULTI")
                connection("STATUS", large)
                connection("SUBMIT", handler, "ID", small, "JOBS", *[job.format(small, str(begun))] * 20)
                before = pairs(connection("EXEC")[0])["ok"]
                self.assertEqual(connection.wait(small)["ok"], 20)
                order = begun.read_text().split()
                # Two slots: the last two may be where a process has been stopped.
                return order[: [at for at, name in enumerate(order) if name == small][17]].count("large") - before

            # As many jobs of the other meanwhile, and what a turn or two may hold. A batch pays for the
            # time in which the machine stops one of its jobs: then another small batch is tried.
            waited = 200
            for number in range(ATTEMPTS):
                waited = min(waited, overtaken(number))
                if waited < 200:
                    break
            self.assertLess(waited, 200)
            connection("CANCEL", large)
            connection.wait(large)


class Rate(LaneTest):
    def test_rate_is_kept_and_stops_nobody_else(self):
        mark = new_mark()
        with tempfile.NamedTemporaryFile("r") as notes:
            connection = self.serve(slow=shell(rate="10/s", concurrency=4), hourly=shell(rate="1/h"), free=shell(), py=worker(mark, rate="20/s"))
            limited = lambda batch: connection.map("EXPLAIN", batch)["reason"] == "rate-limited"
            before_ms = int(time.time() * 1000)
            batch = connection("SUBMIT", "slow", "JOBS", *[f"echo begun >> {notes.name}"] * 10)
            waits = connection("SUBMIT", "hourly", "JOBS", "true", "true")
            wait_for("the rate to be what it waits for", lambda: limited(waits))
            # Meanwhile others run as they like, on a lane without a rate and on the pool.
            for _ in range(20):
                self.assertEqual(connection("RUN", "free", "JOBS", "true"), [["ok", ""]])
                self.assertEqual(connection("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
            self.assertTrue(limited(waits))
            self.assertEqual(connection("CANCEL", waits), 1)
            status = connection.wait(batch)
            # The last starts no sooner than 9 intervals after the first; the daemon may have let the first one start a while before it noted that.
            self.assertGreaterEqual(status["finished_at"] - before_ms, 9 * 100 - 5)
            self.assertEqual(notes.read().count("begun"), 10)
            # A worker's turns are as small as the rate says.
            begin = time.monotonic()
            connection("RUN", "py", "JOBS", *["answer(1)"] * 11)
            self.assertGreaterEqual(time.monotonic() - begin, 0.495)

    def test_a_fast_rate(self):
        connection = self.serve(py=worker(rate="2000/s"))
        connection("RUN", "py", "JOBS", "answer(1)")
        begin = time.monotonic()
        connection("RUN", "py", "JOBS", *["answer(1)"] * 1000)
        took = time.monotonic() - begin
        self.assertGreaterEqual(took, (1000 - 21 - 1) / 2000)  # but for the tolerance of 10 ms


class RateOfUsers(UsersTest):
    def test_starts_go_by_weight_however_long_the_jobs_are(self):
        """20 starts a second are scarce, and four slots are not. bob, of three times the weight, has jobs of almost an interval of the rate; alice's
        take as long as a process does. Each job writes whose it is when it starts."""
        begun = scratch(self) / "begun"
        begun.touch()
        daemon = self.start_with({"handlers": {"sh": shell(rate="20/s", concurrency=4)}}, alice={"weight": 1}, bob={"weight": 3}, root={"commands": ALL})
        alice, bob, root = (self.log_in(daemon, name) for name in ("alice", "bob", "root"))
        alice("SUBMIT", "sh", "ID", "a", "RANGE", 0, 10_000, f"echo a >> {begun} # {{}}")
        bob("SUBMIT", "sh", "ID", "b", "RANGE", 0, 10_000, f"echo b >> {begun}; sleep 0.04 # {{}}")
        order = lambda: begun.read_text().split()
        wait_for("jobs of both to start", lambda: min(order().count("a"), order().count("b")) > 2)

        def go_by_weight():
            skipped = len(order())
            some = wait_for("120 starts", lambda: len(starts := order()[skipped:]) >= 120 and starts, 60)
            of_alice, of_bob = some.count("a"), some.count("b")
            rates = [float(root.explain(batch)["jobs_per_second"]) for batch in ("alice/a", "bob/b")]
            print(f"starts of alice and bob, weights 1:3: {of_alice}:{of_bob}; jobs a second: {rates}", flush=True)
            return abs(of_bob / of_alice - 3) <= 0.3 and abs(rates[1] / rates[0] - 3) <= 0.6

        # While the machine stops some of their processes, the slots are scarce as well.
        self.assertTrue(any(go_by_weight() for _ in range(ATTEMPTS)), "starts do not go by weight")
        # One who comes later waits for a start or two, not until it has had as much as the others.
        root("MULTI")
        for words in (("STATUS", "alice/a"), ("STATUS", "bob/b"), ("SUBMIT", "sh", "ID", "late", "JOBS", f"echo late >> {begun}")):
            root(*words)
        ended = {batch: pairs(reply)["ok"] for batch, reply in zip(("alice/a", "bob/b"), root("EXEC")[:2], strict=True)}
        self.assertEqual(root.wait("late")["ok"], 1)
        started_ms = root.map("JOB", "late", 0)["started_at"]

        def started_by_then(batch, ok):
            """Jobs start in the order of their indexes."""
            while 0 < root.map("JOB", batch, ok)["started_at"] <= started_ms:
                ok += 1
            return ok

        self.assertLessEqual(sum(started_by_then(batch, ok) for batch, ok in ended.items()) - sum(ended.values()), 8)


class Turns(LaneTest):
    def test_a_worker_that_dies_in_the_middle_of_a_turn_ends_one_job(self):
        """The others run once, elsewhere or later."""
        with tempfile.NamedTemporaryFile("r") as ran:
            connection = self.serve(py=worker(concurrency=2))
            connection("RUN", "py", "KEEP", "none", "JOBS", *["answer(1)"] * 2000)  # quick jobs: turns are of many
            note = f"os.write(os.open({ran.name!r}, os.O_WRONLY | os.O_APPEND), b'%d\\n' % index); "
            jobs = [note + ("os._exit(9)" if i == 150 else "answer(index)") for i in range(600)]
            rows = connection("RUN", "py", "JOBS", *jobs)
            self.assertEqual([i for i, row in enumerate(rows) if row != ["ok", str(i)]], [150])
            self.assertEqual(rows[150], ["crashed", "the worker ended with exit status 9"])
            times = sorted(map(int, ran.read().split()))
            # What it had answered and not yet written out when it died is lost with it, and runs again: none here, it writes after each.
            self.assertEqual(times, list(range(600)))

    def test_answers_belong_to_their_jobs_in_order(self):
        connection = self.serve(py=worker())
        # All of a turn are written at once, so it answers many in one write, and one in many.
        rows = connection("RUN", "py", "JOBS", *[f"answer('{i}-' + 'x' * {i * 37 % 3000})" for i in range(2000)])
        self.assertEqual([row[1] for row in rows], [f"{i}-" + "x" * (i * 37 % 3000) for i in range(2000)])
        byte_by_byte = "[(os.write(1, bytes([b])), time.sleep(0.001)) for b in b'$2\\r\\n%02d\\r\\n' % index]"
        self.assertEqual(connection("RUN", "py", "JOBS", *[byte_by_byte] * 20), [["ok", f"{i:02}"] for i in range(20)])

    def test_neither_side_waits_for_the_other(self):
        """More goes both ways than pipes hold."""
        connection = self.serve(py=worker())
        big = 1 << 19
        rows = connection("RUN", "py", "JOBS", *[f"answer(b'y' * {big}) #" + "x" * big] * 20)
        self.assertEqual([(status, len(output)) for status, output in rows], [("ok", big)] * 20)

    def test_many_long_arguments_at_once(self):
        """More than the socket to the keeper holds."""
        connection = self.serve(sh=shell(concurrency=60))
        rows = connection("RUN", "sh", "JOBS", *["printf $((${#0} + %d)) #" % i + "x" * 100_000 for i in range(120)])
        self.assertEqual([row[0] for row in rows], ["ok"] * 120)


class Replacement(LaneTest):
    def pids(self, connection, jobs, payload="answer(os.getpid())"):
        pids = []
        for status, output in connection("RUN", "py", "JOBS", *[payload] * jobs):
            self.assertEqual(status, "ok")
            pids.append(int(output))
        return pids

    def test_after_max_jobs(self):
        connection = self.serve(py=worker(max_jobs=7))
        pids = self.pids(connection, 70)
        self.assertEqual([pids.count(pid) for pid in dict.fromkeys(pids)], [7] * 10)
        self.assertNotIn("warning", self.daemon.log())

    def test_after_max_memory(self):
        connection = self.serve(py=worker(max_memory="100MiB"))
        first = self.pids(connection, 1)
        self.assertEqual(self.pids(connection, 50), first * 50)
        self.assertEqual(self.pids(connection, 1, "hoard = bytearray(200 << 20); answer(os.getpid())"), first)
        self.assertNotEqual(self.pids(connection, 1), first)

    def test_one_that_does_not_leave_is_killed(self):
        mark = new_mark()
        connection = self.serve(py=worker(mark, max_jobs=1))
        first = self.pids(connection, 1, "signal.signal(15, signal.SIG_IGN); answer(os.getpid()); flush(); time.sleep(1000)")
        self.assertNotEqual(self.pids(connection, 1), first)
        wait_for("the first to be gone", lambda: first[0] not in marked(mark))

    def test_one_that_cleans_up_has_the_grace_time(self):
        """Longer than one that closes its output in the middle of its jobs."""
        cleaned = scratch(self) / "cleaned"
        connection = self.serve(py=worker(max_jobs=1, grace="1h"))
        cleans = f"import atexit; atexit.register(lambda: (os.close(1), time.sleep(1.5), open({str(cleaned)!r}, 'w')))"
        self.pids(connection, 1, f"{cleans}; answer(os.getpid())")
        wait_for("it to have cleaned up", cleaned.exists)

    def test_one_that_leaves_between_two_jobs_fails_none(self):
        """What it has not read runs in the next process, whether the daemon had written one job or many."""
        for way in ("exits", "closes its output", "closes its input"):
            for seconds, quantum in ((0.01, "10ms"), (0, "1s")):
                notes = scratch(self) / "notes"
                settings = {"worker": [PYTHON, "-c", LEAVES_AFTER_FIVE, str(notes), str(seconds), way], "concurrency": 1, "grace": "30s"}
                self.daemon = self.start({"handlers": {"py": settings}, "scheduling": {"quantum": quantum}})
                rows = self.connect(self.daemon)("RUN", "py", "JOBS", *["job"] * 25)
                self.assertEqual(rows, [["ok", "x"]] * 25, (way, quantum))
                self.assertEqual(sorted(map(int, notes.read_text().split())), list(range(25)), (way, quantum))

    def test_one_that_goes_on_after_sigterm_does_not_run_the_other_jobs(self):
        """Whether it has read them before, or reads one at a time."""
        ran = scratch(self) / "ran"
        goes_on = "signal.signal(signal.SIGTERM, lambda *_: None); signal.pause(); answer('late'); flush()"
        for reads in ("closefd=False", "closefd=False, buffering=0"):
            program = f"exec(open({WORKER!r}).read().replace('closefd=False', {reads!r}))"
            settings = {"worker": [PYTHON, "-c", program], "grace": "1h"}
            self.daemon = self.start({"handlers": {"py": settings}, "scheduling": {"quantum": "1s"}, "lanes": {"processes": {"slots": 1}}})
            connection = self.connect(self.daemon)

            def attempt(ms, text):
                ran.write_text("")
                # It may begin the next job before it is killed. The first job has a turn alone; the others have one together.
                runs = f"time.sleep({ms / 3000}); open({str(ran)!r}, 'a').write('x'); answer(1)"
                _, late, other = connection("RUN", "py", "TIMEOUT", ms, "JOBS", "answer(0)", goes_on, runs)
                self.assertEqual(late, ["timeout", f"timed out after {text}"])
                return (other, ran.read_text()) == (["ok", "1"], "x")

            with_growing_limits(attempt)

    def test_one_that_has_no_other_job_may_clean_up_after_its_answer(self):
        ran = scratch(self) / "ran"
        goes_on = "signal.signal(signal.SIGTERM, lambda *_: None); signal.pause()"
        cleans_up = f"{goes_on}; answer('late'); flush(); time.sleep(0.5); open({str(ran)!r}, 'w').write('x')"
        connection = self.serve(py=worker(grace="1h"))

        def attempt(ms, text):
            self.assertEqual(connection("RUN", "py", "TIMEOUT", ms, "JOBS", cleans_up), [["timeout", f"timed out after {text}"]])
            return ran.exists()

        with_growing_limits(attempt)

    def test_one_that_cannot_work_is_started_later_each_time_and_holds_up_nobody(self):
        with tempfile.NamedTemporaryFile("r") as times:
            note = f"import os, time; os.write(os.open({times.name!r}, os.O_WRONLY | os.O_APPEND), b'%.6f\\n' % time.monotonic())"
            connection = self.serve(bad={"worker": ["/usr/bin/python3", "-c", note]}, py=worker())
            submitted = time.monotonic()
            batch = connection("SUBMIT", "bad", "JOBS", *["x"] * 4)
            self.assertEqual(self.pids(connection, 1), self.pids(connection, 1))
            self.assertEqual(connection.wait(batch)["failed"], 4)
            begins = list(map(float, times.read().split()))
            self.assertEqual(len(begins), 4)
            for begin, pauses in zip(begins, (0, 0.1, 0.3, 0.7), strict=True):
                self.assertGreaterEqual(begin - submitted, pauses)

    def test_one_that_does_not_begin_to_read_is_ended_and_started_later(self):
        """The job's time limit and a minute after its start: by libfaketime, of a clock that runs 30 times as fast."""
        with mock.patch.dict(os.environ, {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+0 x30"}):
            connection = self.serve(deaf={"worker": ["sleep", "1000000"]})
        batch = connection("SUBMIT", "deaf", "TIMEOUT", 1000, "JOBS", "x", "y")
        connection.wait(batch)
        why = "did not begin to read its first job within 61s"
        self.assertEqual(connection.results(batch), [[i, "error", f"its worker {why}"] for i in range(2)])
        self.daemon.wait_for_log(f'worker is ended .*handler=deaf .*jobs_answered=0 reason="it {why}"')
        first, second = (connection.map("JOB", batch, index) for index in range(2))
        self.assertGreaterEqual(first["finished_at"] - first["started_at"], 61_000)
        self.assertGreaterEqual(second["started_at"] - first["finished_at"], 100 - 5)

    def test_a_batch_whose_jobs_crash_waits_longer_each_time_and_its_neighbours_do_not(self):
        connection = self.serve(py=worker(concurrency=1))
        crashes = connection("SUBMIT", "py", "JOBS", *["os._exit(3)"] * 20)
        failed = lambda: connection.status(crashes)["failed"]

        def others_run():
            """Whether the only slot has run jobs of five other batches in one pause. On a slow machine it may take a longer pause: they grow to 5 s."""
            before = failed()
            for _ in range(5):
                self.assertEqual(connection("RUN", "py", "JOBS", "answer(1)"), [["ok", "1"]])
            return failed() == before

        wait_for("its fourth pause, of 800 ms", lambda: failed() >= 4)
        wait_for("others to run in one pause", others_run)
        ended = failed()
        connection("CANCEL", crashes)
        connection.wait(crashes)
        jobs = [connection.map("JOB", crashes, index) for index in range(ended)]
        for index in range(ended - 1):
            pause = jobs[index + 1]["started_at"] - jobs[index]["finished_at"]
            self.assertGreaterEqual(pause, min(100 << index, 5000) - 5, f"after crash {index}")

    def test_a_handler_whose_workers_cannot_work_says_so(self):
        connection = self.serve(py={"worker": ["sh", "-c", "echo no module named tasks >&2; exit 3"], "concurrency": 2})
        batch = connection("SUBMIT", "py", "JOBS", *["job"] * 20)
        wait_for("both runners to pause", lambda: connection.explain(batch)["reason"] == "crash-backoff")
        self.daemon.configure({"handlers": {"py": worker()}})
        connection("CONFIG", "RELOAD")
        connection("CANCEL", batch)
        self.assertEqual(connection("RUN", "py", "JOBS", "answer(1)"), [["ok", "1"]])

    def test_new_code_that_does_not_load_costs_no_jobs_if_it_is_repaired_soon(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "worker.py")
            good = pathlib.Path(WORKER).read_text()
            script.write_text(good)
            connection = self.serve(py=worker(worker=[PYTHON, "-B", str(script)], concurrency=2))
            self.assertEqual(connection("RUN", "py", "JOBS", "answer(1)"), [["ok", "1"]])

            script.write_text("import a_module_that_is_missing\n")
            self.assertEqual(connection("HANDLER", "RESTART", "py"), 1)
            batch = connection("SUBMIT", "py", "JOBS", *["answer(2)"] * 20)
            starts = lambda: self.daemon.metrics()['locksley_handler_failed_starts_total{handler="py"}']
            wait_for("several starts", lambda: starts() >= 5)
            self.daemon.wait_for_log("worker wrote .*handler=py .*ModuleNotFoundError")
            status = connection.status(batch)
            self.assertEqual((status["failed"], status["ok"]), (0, 0))
            wait_for("both runners to pause", lambda: connection.explain(batch)["reason"] == "crash-backoff")

            script.write_text(good)
            connection("HANDLER", "RESTART", "py")
            status = connection.wait(batch)
            self.assertEqual((status["ok"], status["retried"]), (20, 0))

    def test_a_batch_that_waits_after_a_crash_can_be_cancelled_and_follows_another_program(self):
        handler = worker(concurrency=1)
        connection = self.serve(py=handler)
        reason = lambda batch: connection.explain(batch)["reason"]
        batches = [connection("SUBMIT", "py", "JOBS", *["os._exit(3)"] * 20) for _ in range(2)]
        for batch in batches:
            wait_for("a pause of 800 ms", lambda: connection.status(batch)["failed"] >= 4 and reason(batch) == "crash-backoff")
        connection("CANCEL", batches[0])
        self.assertEqual(connection.wait(batches[0])["state"], "cancelled")
        self.daemon.configure({"handlers": {"py": {"command": ["printf", "%s", "{}"], "input": "argument"}}})
        connection("CONFIG", "RELOAD")
        status = connection.wait(batches[1])
        self.assertGreater(status["ok"], 10)
        self.assertEqual(status["ok"] + status["failed"], 20)

    def test_standard_error_of_a_worker_is_logged_within_bounds(self):
        connection = self.serve(py=worker())
        self.assertEqual(connection("RUN", "py", "JOBS", "os.write(2, b'a line\\nwith \"quotes\" \\x1b[31m\\n'); answer(1)"), [["ok", "1"]])
        self.daemon.wait_for_log('worker wrote batch=.* tenant=default handler=py .*stderr="a line"')
        self.assertNotIn("\x1b", self.daemon.log())
        connection("RUN", "py", "JOBS", "[os.write(2, b'flood\\n' * 1000) for i in range(100)]; answer(2)")
        connection("RUN", "py", "JOBS", "os.write(2, b'z' * 3000000); os._exit(0)")
        self.assertLess(self.daemon.log().count("flood"), 2000)
        self.assertLess(max(map(len, self.daemon.log().split("\n"))), 2000)


class Shown(LaneTest):
    def test_explain(self):
        connection = self.serve(sh=shell(), limited=shell(rate="1/m"))
        reason = lambda batch: connection.map("EXPLAIN", batch)["reason"]
        with tempfile.TemporaryDirectory() as folder:
            first = connection("SUBMIT", "sh", "JOBS", f"until [ -e {folder}/go ]; do sleep 0.01; done")
            wait_for("the first to run", lambda: reason(first) == "running")
            second, third = (connection("SUBMIT", "sh", "JOBS", "true") for _ in range(2))
            self.assertEqual(reason(second), "handler-at-limit")
            self.assertIn(reason(third), ("handler-at-limit", "waiting-its-turn"))
            connection("PAUSE", second)
            self.assertEqual(reason(second), "paused")
            connection("RESUME", second)
            pathlib.Path(folder, "go").touch()
            for batch in (first, second, third):
                self.assertEqual(connection.wait(batch)["ok"], 1)
                self.assertEqual(reason(batch), "ended")
        connection("RUN", "limited", "JOBS", "true")
        batch = connection("SUBMIT", "limited", "JOBS", "true")
        wait_for("the rate to be the reason", lambda: reason(batch) == "rate-limited")
        self.assertEqual(connection("CANCEL", batch), 1)

    def test_handlers(self):
        connection = self.serve(sh=shell(concurrency=5), py={"worker": ["cat", "-u"], "concurrency": 3})
        found = {h["name"]: h for h in map(pairs, connection("HANDLERS"))}
        self.assertEqual((found["sh"]["kind"], found["sh"]["concurrency"], found["sh"]["description"]), ("command", 5, "sh -c {}"))
        self.assertEqual((found["py"]["kind"], found["py"]["concurrency"], found["py"]["description"]), ("worker", 3, "cat -u"))
        self.assertEqual(found["echo"]["kind"], "builtin")

    def test_metrics(self):
        self.daemon = self.start({"lanes": {"sh": {"slots": 2}, "py": {"slots": 3}},
                                  "handlers": {"sh": shell(lane="sh", concurrency=2), "py": worker(lane="py", concurrency=3)}})  # fmt: skip
        connection = self.connect(self.daemon)
        metrics = self.daemon.metrics()
        self.assertEqual([metrics[f'locksley_lane_slots{{lane="{lane}"}}'] for lane in ("cpu", "sh", "py")], [2, 2, 3])
        batch = connection("SUBMIT", "sh", "JOBS", *["sleep 1000"] * 5)
        wait_for("two to run", lambda: self.daemon.metrics()['locksley_lane_running_jobs{lane="sh"}'] == 2)
        metrics = self.daemon.metrics()
        self.assertEqual(metrics['locksley_lane_queued_jobs{lane="sh"}'], 3)
        self.assertEqual(metrics['locksley_lane_active_batches{lane="sh"}'], 1)
        self.assertEqual(metrics['locksley_batch_queue_depth{lane="sh",rank="1"}'], 3)
        connection("CANCEL", batch)
        connection.wait(batch)
        connection("RUN", "sh", "JOBS", "true", "exit 1", "kill -9 $$", "true")
        connection("RUN", "py", "JOBS", *["answer(1)"] * 50)
        metrics = self.daemon.metrics()
        for status, count in {"ok": 2, "error": 1, "crashed": 1, "cancelled": 5}.items():
            self.assertEqual(metrics[f'locksley_jobs_total{{handler="sh",status="{status}"}}'], count, status)
        self.assertEqual(metrics['locksley_jobs_total{handler="py",status="ok"}'], 50)
        self.assertEqual(metrics['locksley_job_duration_seconds_count{handler="py"}'], 50)
        self.assertGreater(metrics['locksley_ring_claims_total{lane="py"}'], 0)
        self.assertEqual(metrics['locksley_lane_running_jobs{lane="sh"}'], 0)
        self.assertGreater(metrics['locksley_ring_wait_seconds_count{lane="sh"}'], 0)

    def test_tenants_count_what_is_on_all_lanes(self):
        connection = self.serve(sh=shell())
        batch = connection("SUBMIT", "sh", "JOBS", "sleep 1000", "true")
        wait_for("it to run", lambda: connection.map("STATUS", batch)["running"] > 0)

        def shown():
            tenant = pairs(connection("TENANTS")[0])
            return (tenant["tenant"], tenant["running"], tenant["queued"]) == ("default", 1, 1) or None

        wait_for("TENANTS to show one job that runs and one that waits", shown)
        connection("CANCEL", batch)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""locksley top in a terminal of its own, under tmux: it shows what the wire says, and keys do what they say."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from locksley_daemon import DEADLINE_S, DaemonTest, program, wait_for
from remote_worker import RemoteWorker, machines, wait_for_machines
from terminal import Terminal
from users import BUILTIN, PASSWORD, UsersTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARTIFACTS = pathlib.Path(os.environ.get("LOCKSLEY_ARTIFACTS", ROOT / "build" / "artifacts")) / "top"
HOUR_MS = 3_600_000


class Tops:
    """What the tests share: a daemon whose users look at it."""

    def open(self, daemon, arguments="-d 0.1", environment=None, user="", start=True, **size):
        at = f"{user}@" if user else ""
        words = {"LOCKSLEY_URL": f"redis://{at}{daemon.host}:{daemon.port}", **(environment or {})}
        if user:
            words["LOCKSLEY_PASSWORD"] = PASSWORD.format(user)
        terminal = Terminal(words, **size)
        self.addCleanup(terminal.close)
        self.pid_file = terminal.folder / "pid"
        self.start_line = f"sh -c 'echo $$ > {self.pid_file}; exec {program('LOCKSLEY')} top {arguments}'; echo ended $?"
        if start:
            self.start_top(terminal)
        return terminal

    def start_top(self, terminal):
        terminal.run(self.start_line)
        terminal.wait_for_line("the first screen", r"^locksley \S+  127\.0\.0\.1:\d+ ")

    def keep(self, terminal, name):
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        (ARTIFACTS / f"{name}.txt").write_text(terminal.screen())

    def find(self, terminal, name):
        """Selects a batch by its name."""
        terminal.keys("/")
        terminal.wait_for_line("the question", r"^only batches with:")
        terminal.keys("C-h", *["BSpace"] * 30)
        terminal.text(name)
        terminal.keys("Enter")
        terminal.wait_for_line("the filter", rf"^BATCH /{name[:10]}")
        terminal.wait_for_line("the batch", rf"^{name[:12]}")
        terminal.keys("Home")


class Figures(Tops, DaemonTest):
    def setUp(self):
        self.daemon = self.start({"handlers": {"lines": {"command": ["cat"], "concurrency": 3}}})
        self.command = self.connect(self.daemon)
        self.map = self.command.map

    def test_what_is_shown_is_what_the_wire_says(self):
        self.command("SUBMIT", "spin", "ID", "spinning", "NAME", "spins for long", "WEIGHT", 3, "RANGE", 0, 1_000_000, 200)
        self.command("OPEN", "echo", "ID", "held")
        self.command("PAUSE", "held")
        self.command("ADD", "held", *["x"] * 40)
        self.command("CLOSE", "held")
        self.command("SUBMIT", "fail", "ID", "failed", "JOBS", "a", "b", "c")
        self.command("SUBMIT", "lines", "ID", "behind", "AFTER", "spinning", "JOBS", "a")
        terminal = self.open(self.daemon, columns=120, rows=30)
        terminal.wait_for_line("a batch that waits for another", r"^behind +lines .* after-batch")
        terminal.wait_for_line("one that is held", r"^held +echo +1 +·+ +0% +40 .* paused")
        terminal.wait_for_line("one with failures", r"^failed +fail +1 .* 100% +3 +3 .* done")
        terminal.wait_for_line("the lane of a program, three wide", r"^processes +3 +0 +\d +\d")
        terminal.wait_for_line("the tenant and what it gets", r" default +1 +100% +\d+% +2 +\d")
        terminal.wait_for_line("workers that are busy", r"^pool: 2 threads  (9\d|100)% busy")
        head = terminal.wait_for_line("the head", r"^locksley (\S+)  \S+:(\d+)  ready  up 0:00:\d\d  user default")
        info = lambda: dict(line.split(":", 1) for line in self.command("INFO", "server", "lanes").splitlines() if ":" in line)
        self.assertEqual((head[1], int(head[2])), (info()["locksley_version"], self.daemon.port))
        self.assertRegex(info()["lane_processes"], r"^slots=3,running=0,queued=\d,batches=\d$")
        # Between two turns a worker runs no job.
        wait_for("both workers to run a job", lambda: re.match(r"slots=2,running=2,queued=\d+,batches=\d$", info()["lane_cpu"]))
        # The progress of one that runs lies between what the wire says before and after.
        percent = lambda: int(self.map("STATUS", "spinning")["ok"] / 10_000)
        shown = lambda: int(terminal.wait_for_line("its progress", r"^spins for long +spin +3 .* (\d+)% .* running")[1])
        before = percent()
        seen = wait_for("its progress to be shown", lambda: (now := shown()) >= max(before, 1) and now)
        self.assertLessEqual(seen, percent())
        self.keep(terminal, "figures-120x30")

    def test_a_long_job_keeps_its_worker_busy_from_its_start(self):
        self.command("SUBMIT", "sleep", "ID", "long", "SLOTS", 1, "JOBS", HOUR_MS)
        terminal = self.open(self.daemon)
        terminal.wait_for_line("one of two workers to be busy", r"^pool: 2 threads  50% busy")
        turns = [dict(zip(worker[::2], worker[1::2])) for worker in self.command("WORKERS")]
        self.assertEqual(sorted(worker["turn_us"] > 0 for worker in turns), [False, True])
        self.assertEqual([worker["busy_us"] for worker in turns if worker["turn_us"] > 0], [0])

    def test_keys(self):
        self.command("SUBMIT", "sleep", "ID", "long", "NAME", "a long one", "SLOTS", 1, "JOBS", *[HOUR_MS] * 5)
        self.command("OPEN", "echo", "ID", "other")
        self.command("SUBMIT", "fail", "ID", "bad", "JOBS", "\x1b[2J\x1b[31mred", "second")
        self.command.wait("bad")
        terminal = self.open(self.daemon, columns=100, rows=40)
        self.find(terminal, "other")
        terminal.keys("p")
        wait_for("it to be paused", lambda: self.map("EXPLAIN", "other")["paused"] == 1)
        terminal.wait_for_line("what was done", r"^paused other$")
        terminal.wait_for_line("its new state", r"^other .* paused$")
        terminal.keys("p")
        wait_for("it to be resumed", lambda: self.map("EXPLAIN", "other")["paused"] == 0)
        terminal.keys("w")
        terminal.wait_for_line("the question", r"^weight of other, 1 to 1000, now 1:")
        terminal.text("70")
        terminal.keys("Enter")
        wait_for("the weight", lambda: self.map("STATUS", "other")["weight"] == 70)
        terminal.wait_for_line("what was done", r"^weight 70 for other$")  # it would replace what is said next
        terminal.keys("w", "0", "Enter")
        terminal.wait_for_line("why not", r"^a weight is a number from 1 to 1000")
        self.find(terminal, "a long one")
        terminal.keys("c")
        terminal.wait_for_line("the question", r"^cancel a long one\? y or n:")
        terminal.keys("n")
        terminal.wait_for_line("what was not done", r"^not cancelled")
        self.assertEqual(self.map("STATUS", "long")["cancelled"], 0)
        terminal.keys("c", "y")
        wait_for("it to be cancelled", lambda: self.map("STATUS", "long")["state"] == "cancelled")
        terminal.wait_for_line("what was done", r"^cancelled a long one: [45] jobs will not run")
        self.find(terminal, "bad")
        terminal.keys("Enter")
        terminal.wait_for_line("the page of one batch", r"^ended +0 ok, 2 failed")
        # The text of the error, with what a terminal would obey made harmless.
        terminal.wait_for_line("a failure", r"^[01]  error  .*\?\[2J\?\[31mred")
        self.keep(terminal, "batch-100x40")
        terminal.keys("r")
        terminal.wait_for_line("what was done", r"^queued 2 jobs of bad again")
        self.assertEqual(self.map("STATUS", "bad")["retried"], 2)
        terminal.keys("Escape")
        terminal.wait_for_line("the list", r"^BATCH /bad")
        terminal.keys("s")
        terminal.wait_for_line("another order", r"^BATCH /bad .* by progress")
        terminal.keys("h")
        terminal.wait_for_line("the help", r"^p +pause a batch, or resume it")
        self.keep(terminal, "help-100x40")
        terminal.keys("q")
        terminal.wait_for_line("the end", r"^ended 0$")

    def test_any_size(self):
        self.command("SUBMIT", "sleep", "ID", "long", "JOBS", HOUR_MS)
        terminal = self.open(self.daemon)
        for columns, rows in ((40, 10), (200, 60), (7, 3), (1, 1), (80, 24)):
            terminal.resize(columns, rows)
            if columns >= 40:
                terminal.wait_for_line(f"{columns}x{rows}", r"\Alocksley 0")
                wait_for("the last line", lambda: terminal.screen().split("\n")[rows - 1].startswith("q quit  h help"))
                self.keep(terminal, f"resized-{columns}x{rows}")
        terminal.keys("q")
        terminal.wait_for_line("the end", r"^ended 0$")

    def test_without_colours_and_without_utf8(self):
        self.command("SUBMIT", "sleep", "ID", "long", "NAME", "ä name", "JOBS", HOUR_MS)
        plain = self.open(self.daemon, environment={"NO_COLOR": "1", "LC_ALL": "C"})
        plain.wait_for_line("the batch", r"^\? name .* running$")
        screen = plain.screen("-e")
        self.assertTrue(screen.isascii(), screen)
        self.assertNotRegex(screen, r"\x1b\[[\d;]*3[0-7]m")
        self.keep(plain, "ascii-80x24")
        coloured = self.open(self.daemon)
        coloured.wait_for_line("the batch", r"^ä name .* running$")
        self.assertRegex(coloured.screen("-e"), r"\x1b\[[\d;]*3[0-7]m")
        dumb = self.open(self.daemon, "--batch 1 -d 0.1", environment={"TERM": "dumb"}, start=False)
        dumb.run(f"{program('LOCKSLEY')} top -d 0.1")
        dumb.wait_for_line("a second screen as text", r"(?s)BATCH.*\d\d:\d\d:\d\d\nlocksley .*BATCH")
        dumb.keys("C-c")
        dumb.wait_for_line("the prompt", r"prompt>$")


class Machines(Tops, DaemonTest):
    def setUp(self):
        self.daemon = self.start({"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}})
        self.command = self.connect(self.daemon)

    def join(self, name, **options):
        worker = RemoteWorker(self.daemon, "shout", name=name, **options)
        self.addCleanup(worker.close)
        return worker

    def test_without_a_machine_there_is_no_word_of_them(self):
        terminal = self.open(self.daemon, rows=40)
        terminal.wait_for_line("the lanes", r"^LANE ")
        self.assertNotRegex(terminal.screen(), r"(?i)machine")

    def test_what_each_machine_has_at_two_sizes(self):
        worker = self.join("busy-one", slots=3, lease=600_000)
        silent = self.join("silent-one", lease=1000)
        for number in range(4):
            self.join(f"idle-{number}")
        wait_for_machines(self.command, 6)
        self.command("SUBMIT", "shout", "JOBS", "a")
        lease = worker.claim()
        worker.settle(lease, ["A"])
        self.command("SUBMIT", "shout", "SLOTS", 1, "JOBS", "b")
        silent.claim()  # and not a word more of it
        wait_for("its lease to be lost", lambda: [row["lost"] for row in machines(self.command) if row["worker"] == "silent-one"] == [1])
        worker.claim()
        terminal = self.open(self.daemon, columns=100, rows=50)
        terminal.wait_for_line("the heading", r"^MACHINE +IN USE LEASES +LOST +RTT +JOBS$")
        terminal.wait_for_line("the one that lost a lease, first", r"JOBS\nsilent-one +0/1 +0 +1 +(\d+[um]s|-) +0\n")
        terminal.wait_for_line("the largest, next", r"\nbusy-one +1/3 +1 +0 +(\d+[um]s|-) +1\nidle-")
        shown = [row[1] for row in re.finditer(r"(?m)^(\S+) +\d/\d ", terminal.screen())]
        self.assertEqual(sorted(shown), sorted(row["worker"] for row in machines(self.command)))
        self.keep(terminal, "machines-100x50")
        terminal.resize(40, 24)
        terminal.wait_for_line("what there is room for", r"^MACHINE +IN USE LEASES +LOST\nsilent-one +0/1 +0 +1\nbusy-one +1/3 +1 +0\nand 4 more$")
        self.keep(terminal, "machines-40x24")
        terminal.resize(80, 14)
        terminal.wait_for_line("the sums", r"^6 machines  1/8 slots in use  1 lease lost$")
        terminal.wait_for_line("and batches still", r"^BATCH ")


class Ends(Tops, DaemonTest):
    def setUp(self):
        self.at_port = {"listen": {"port": hold_port(self)}}
        self.daemon = self.start(self.at_port)

    def settings_of(self, terminal):
        """What stty says of the terminal, in a shell that is there again."""
        terminal.run("clear; stty -a; echo end-of''-settings")
        terminal.wait_for_line("stty", r"^end-of-settings")
        text = terminal.screen()
        return text[text.index("speed") : text.index("end-of-settings")]

    def test_the_terminal_is_left_as_it_was(self):
        terminal = self.open(self.daemon, start=False)
        before = self.settings_of(terminal)
        for end, status in (("q", 0), ("C-c", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(end):
                terminal.run("clear; echo was here before")
                self.start_top(terminal)
                self.assertNotIn("was here before", terminal.screen())
                if isinstance(end, str):
                    terminal.keys(end)
                else:
                    os.kill(int(self.pid_file.read_text()), end)
                terminal.wait_for_line("the end", rf"^ended {status}$")
                # The screen that it covered, the cursor, and what is typed is seen.
                self.assertIn("was here before", terminal.screen())
                self.assertEqual(terminal.tmux("display", "-p", "#{cursor_flag} #{alternate_on}").strip(), "1 0")
                self.assertEqual(self.settings_of(terminal), before)

    def test_stopped_and_continued(self):
        terminal = self.open(self.daemon, start=False)
        before = self.settings_of(terminal)
        terminal.run("clear; echo was here before")
        terminal.run(f"{program('LOCKSLEY')} top -d 0.1")
        terminal.wait_for_line("the first screen", r"^locksley ")
        for _ in range(5):
            terminal.keys("C-z")
            terminal.wait_for_line("the shell", r"Stopped")
            self.assertIn("was here before", terminal.screen())
            self.assertEqual(self.settings_of(terminal), before)
            terminal.run("clear; echo was here before")
            terminal.resize(100, 30)
            terminal.run("fg")
            wait_for("the screen again, in its new size", lambda: terminal.screen().split("\n")[29].startswith("q quit  h help"))
            self.assertRegex(terminal.screen(), r"\Alocksley ")
            terminal.resize(80, 24)
        terminal.keys("h")
        terminal.wait_for_line("the help", r"^q +quit")
        terminal.keys("q")
        terminal.wait_for_line("the shell", r"prompt>$")
        self.assertEqual(self.settings_of(terminal), before)

    def test_a_daemon_that_goes_and_comes_back(self):
        terminal = self.open(self.daemon, columns=100)
        terminal.wait_for_line("the daemon", r"^locksley .*  ready  ")
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        terminal.wait_for_line("that it is gone", r"^locksley .*  not connected")
        terminal.wait_for_line("why", r"^.*127\.0\.0\.1:.*; trying again$")
        self.keep(terminal, "not-connected-100x24")
        terminal.keys("h")
        terminal.wait_for_line("keys to work meanwhile", r"^q +quit")
        terminal.keys("h")
        other = self.start(self.at_port)
        self.connect(other)("SUBMIT", "sleep", "ID", "of-the-other", "JOBS", HOUR_MS)
        terminal.wait_for_line("the daemon again", r"^locksley .*  ready  ")
        terminal.wait_for_line("its batch", r"^of-the-other .* running")
        os.kill(other.pid, signal.SIGSTOP)  # it accepts, and says nothing
        self.addCleanup(os.kill, other.pid, signal.SIGCONT)
        terminal.keys("h")
        terminal.wait_for_line("keys to work meanwhile", r"^q +quit")
        terminal.keys("q")
        terminal.wait_for_line("the end, though no answer comes", r"^ended 0$")


class Users(Tops, UsersTest):
    def test_who_may_only_look(self):
        daemon = self.start_with(alice={"commands": ["submit", "read"], **BUILTIN}, bob=BUILTIN)
        self.log_in(daemon, "alice")("SUBMIT", "sleep", "ID", "hers", "JOBS", HOUR_MS)
        self.log_in(daemon, "bob")("SUBMIT", "sleep", "ID", "his", "JOBS", HOUR_MS)
        terminal = self.open(daemon, user="alice")
        terminal.wait_for_line("her batch", r"^hers .* running")
        self.assertNotRegex(terminal.screen(), r"(?m)^his ")
        self.assertNotIn("c cancel", terminal.screen())
        terminal.keys("j", "p")
        terminal.wait_for_line("why not", r"^user alice has no permission to change batches")
        self.keep(terminal, "may-only-look-80x24")
        terminal.keys("q")

    def test_an_admin_acts_on_what_belongs_to_others(self):
        daemon = self.start_with(alice={"commands": ["submit", "read"]}, bob={"commands": ["submit", "read"]}, root={"commands": ["submit", "read", "control", "admin"]})
        for name in ("alice", "bob"):
            self.log_in(daemon, name)("OPEN", "echo", "ID", "same")
        terminal = self.open(daemon, user="root", columns=120)
        terminal.wait_for_line("a tenant's batch", r"^same +bob ")
        self.find(terminal, "same")
        who = terminal.wait_for_line("which is first", r"^same +(alice|bob) ")[1]
        terminal.keys("w", "9", "Enter")
        weights = lambda: {name: self.log_in(daemon, name).map("STATUS", "same")["weight"] for name in ("alice", "bob")}
        wait_for("the weight of that one", lambda: weights()[who] == 9)
        self.assertEqual(sorted(weights().values()), [1, 9])
        terminal.keys("q")


class Text(DaemonTest):
    def setUp(self):
        self.at_port = {"listen": {"port": hold_port(self)}}
        self.daemon = self.start(self.at_port)
        self.words = ["--server", f"{self.daemon.host}:{self.daemon.port}", "top", "-d", "0.1"]
        self.command = self.connect(self.daemon)
        self.command("SUBMIT", "sleep", "ID", "long", "NAME", "a long one", "JOBS", HOUR_MS)

    def popen(self, *words):
        process = subprocess.Popen([program("LOCKSLEY"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close(), process.stderr.close()))
        return process

    def top(self, *words, code=0):
        done = subprocess.run([program("LOCKSLEY"), *self.words, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode()

    def test_screens_as_text(self):
        once = self.top("--once")
        self.assertNotIn("\x1b", once)
        self.assertRegex(once, r"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nlocksley \S+  127\.0\.0\.1:\d+  ready ")
        self.assertRegex(once, r"(?m)^a long one .* running$")
        self.assertNotIn("q quit", once)
        self.assertEqual(self.top("-b", "3", "--sort", "progress", "--filter", "no such").count('no batch has "no such"'), 3)

    def test_the_ends(self):
        unread = self.popen(*self.words)
        self.assertTrue(unread.stdout.readline())
        unread.stdout.close()
        self.assertEqual(unread.wait(DEADLINE_S), 141)
        nobody = self.popen("--server", "127.0.0.1:1", "top", "--once")
        self.assertEqual(nobody.wait(DEADLINE_S), 69)
        self.assertIn(b"127.0.0.1:1", nobody.stderr.read())
        for wrong in (["--json"], ["--sort", "nonsense"], ["--once", "-b", "2"], ["-b", "0"]):
            self.top(*wrong, code=2)

    def test_a_daemon_that_goes_and_comes_back(self):
        process = self.popen(*self.words)
        self.assertTrue(process.stdout.readline())
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_for_log("draining")
        self.daemon.send_signal(signal.SIGTERM)
        self.assertIn(b"trying again", process.stderr.readline())
        self.daemon.wait_end()
        self.start(self.at_port)
        # Pipes hold some screens of before; then come those of the other, which has no batch.
        for line in process.stdout:
            if line.startswith(b"no batches"):
                break
        process.terminate()
        self.assertEqual(process.wait(DEADLINE_S), 143)


if __name__ == "__main__":
    unittest.main(verbosity=2)

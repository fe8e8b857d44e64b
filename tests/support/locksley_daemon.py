"""What the integration tests share: a daemon of their own, connections to it, waits that end.

The programs' paths come from the environment: LOCKSLEYD (the daemon) and LOCKSLEY (the client); CTest sets both. Every wait has a
deadline and says what it waited for. A daemon is started on free ports with a configuration in a folder of its own,
and is stopped by its process id. LOCKSLEY_LISTEN_THREADS gives each daemon so many listen.threads, unless a test sets them."""

import ctypes
import json
import os
import pathlib
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from resp import Connection

DEADLINE_S = 30  # for whatever takes milliseconds on an idle machine
# Core dumps: tests that do not run as root look at the daemon in /proc, and LeakSanitizer from within.
DEFAULTS = {"listen": {"port": 0}, "http": {"port": 0}, "pool": {"workers": 2}, "store": {"path": ""}, "process": {"core_dumps": True}}
if "LOCKSLEY_LISTEN_THREADS" in os.environ:  # CTest runs some tests once more, with network threads
    DEFAULTS["listen"]["threads"] = int(os.environ["LOCKSLEY_LISTEN_THREADS"])


def program(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        raise SystemExit(f"{variable} must name the program, found {path!r}")
    return path


def end_with_parent():
    """In a child: SIGKILL when the test ends, however it ends; CTest kills a test that takes too long."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(what, look, seconds=DEADLINE_S, every=0.01):
    """Calls look() until its result is a number, true, or not empty, and returns that result; else raises an error that says what never came."""
    end = time.monotonic() + seconds
    while True:
        result = look()
        if result or (result == 0 and result is not False):
            return result
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what}; last seen: {result!r}")
        time.sleep(every)


def merged(base, changes):
    """`base` with `changes` over it, section by section."""
    result = dict(base)
    for key, value in changes.items():
        result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


class Daemon:
    """A running locksleyd. `settings` are laid over DEFAULTS; their JSON is YAML too."""

    def __init__(self, settings=None, arguments=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="locksley-test-"))
        self.config_path = self.folder / "locksley.yaml"
        self.log_path = self.folder / "daemon.log"
        self.configure(settings or {})
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [program("LOCKSLEYD"), "--config", self.config_path, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                preexec_fn=end_with_parent,
            )
        self.pid = self.process.pid
        self.http_fields = {}  # of each get()
        try:
            self._read_ready_line()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def configure(self, settings):
        """Writes the configuration file; SIGHUP makes the daemon read it."""
        self.config_path.write_text(json.dumps(merged(DEFAULTS, settings), indent=1))

    def _read_ready_line(self):
        """Reads lines until the daemon serves; before that it may have stood by for a while."""
        while not self._read_line().startswith("ready "):
            pass

    def _read_line(self):
        """Reads the next line about the daemon's state, and takes from it where the daemon listens."""
        line = b""
        end = time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0, end - time.monotonic())):
                    raise AssertionError(f"waited {DEADLINE_S} s for the ready line; the log: {self.log()}")
                piece = os.read(self.process.stdout.fileno(), 1)  # a line, and no byte of the next one
                if not piece:
                    raise AssertionError(f"the daemon ended with {self.process.wait()} before it was ready; its log: {self.log()}")
                line += piece
        self.ready_line = line.decode()
        address = r"([\d.]+|\[[0-9a-f:]+\]):(\d+)"
        match = re.fullmatch(rf"(?:ready|standby) listen={address} http={address}(?: workers=\S+)?\n", self.ready_line)
        if not match:
            raise AssertionError(f"a strange ready line: {self.ready_line!r}")
        self.host, self.port = match[1].strip("[]"), int(match[2])
        self.http = f"http://{match[3]}:{match[4]}"
        return self.ready_line

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, pattern, seconds=DEADLINE_S):
        return wait_for(f"{pattern!r} in the log", lambda: re.search(pattern, self.log()), seconds)

    def connect(self, **options):
        return Connection(self.host, self.port, **options)

    # The end.

    def send_signal(self, number):
        self.process.send_signal(number)

    def wait_end(self, seconds=DEADLINE_S):
        """The exit code, once it ends by itself."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"waited {seconds} s for the daemon to end; its log: {self.log()}") from None

    def close(self):
        """Ends the daemon at once, whatever it does, and removes its folder. Checks its exit code, also if it had ended before: that may have been a
        crash that no test noticed."""
        fine = [0, 75, 143]
        if self.process.poll() is None:
            self.send_signal(signal.SIGTERM)
            try:
                self.process.wait(0.5)  # an idle daemon ends at the first
            except subprocess.TimeoutExpired:
                self.send_signal(signal.SIGTERM)
                fine.append(-signal.SIGTERM)  # when it comes after the daemon has done all but end
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"two SIGTERMs did not end the daemon in {DEADLINE_S} s; its log: {self.log()}") from None
        self.process.stdout.close()
        log = self.log()
        shutil.rmtree(self.folder, ignore_errors=True)
        if code not in fine:
            raise AssertionError(f"the daemon ended with {code}; its log: {log}")

    # What can be seen of the daemon from outside.

    def get(self, path):
        """Status and text of a page of the HTTP side."""
        try:
            with urllib.request.urlopen(urllib.request.Request(self.http + path, headers=self.http_fields), timeout=DEADLINE_S) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as reply:
            return reply.code, reply.read().decode()

    def metrics(self):
        """From `name{labels}`, as written there, to the value."""
        status, text = self.get("/metrics")
        if status != 200:
            raise AssertionError(f"/metrics answered {status}: {text}")
        return {key: float(value) for key, value in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}

    def resident_bytes(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{self.pid}/status").read_text())[1]) * 1024

    def threads(self):
        """For each thread: its name, nanoseconds on a CPU, context switches of both kinds."""
        result = {}
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            status = (task / "status").read_text()
            result[int(task.name)] = (
                re.search(r"Name:\s+(.*)", status)[1],
                int((task / "schedstat").read_text().split()[0]),
                sum(int(count) for count in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", status)),
            )
        return result


class DaemonTest(unittest.TestCase):
    """A test with daemons that end with it, and whose logs are shown when it fails."""

    def start(self, settings=None, **options):
        daemon = Daemon(settings, **options)
        self.addCleanup(self._end, daemon)
        return daemon

    def _end(self, daemon):
        self._logs.append(daemon.log()[-8000:])
        daemon.close()

    def run(self, result=None):
        self._logs = []
        troubles = lambda: len(result.failures) + len(result.errors) if result else 0
        before = troubles()
        result = super().run(result)
        if troubles() > before:
            for log in self._logs:
                print(f"--- log of the daemon of {self.id()}\n{log}---")
        return result

    def connect(self, daemon, **options):
        connection = daemon.connect(**options)
        self.addCleanup(connection.close)
        return connection

    def assert_error(self, code, reply):
        """`code`: the first word, or words, of an error."""
        self.assertRegex(str(reply), rf"^{code}\b")

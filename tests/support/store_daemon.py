"""Daemons that share a store one after the other: started on it, killed, started again; and starts that are refused."""

import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from locksley_daemon import DEADLINE_S, DEFAULTS, Daemon, DaemonTest, end_with_parent, merged, program, wait_for

HOUR_MS = 3_600_000


def at_store(store, settings=None):
    """Settings for a daemon whose store is in this folder."""
    return merged({"store": {"path": str(store)}}, settings or {})


class StoreDaemon(Daemon):
    """A daemon on a store. With `kill_after` it is killed so many seconds after its start, be it ready or not."""

    def __init__(self, store, settings=None, kill_after=None):
        self.kill_after = kill_after
        super().__init__(at_store(store, settings))

    def _read_ready_line(self):
        if self.kill_after is None:
            return super()._read_ready_line()
        time.sleep(self.kill_after)
        self.kill()

    def kill(self):
        """kill -9. Fails if it had ended by itself."""
        if self.process.poll() is None:
            self.send_signal(signal.SIGKILL)
        code = self.wait_end()
        if code != -signal.SIGKILL:
            raise AssertionError(f"the daemon had ended with {code} before it was killed; its log: {self.log()}")
        self.process.returncode = 0  # so that close() accepts it


def run_daemon(store, settings=None, arguments=()):
    """Runs a start that should be refused, or --repair; returns its exit code and output. The daemon is killed if it becomes ready."""
    with tempfile.TemporaryDirectory(prefix="locksley-test-") as folder:
        config = pathlib.Path(folder) / "locksley.yaml"
        config.write_text(json.dumps(merged(DEFAULTS, at_store(store, settings))))
        command = [program("LOCKSLEYD"), "--config", config, *arguments]
        log_path = pathlib.Path(folder) / "log"
        with open(log_path, "wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        watchdog = threading.Timer(DEADLINE_S, process.kill)
        watchdog.start()
        with process.stdout:
            said = process.stdout.readline()
            if said.startswith(b"ready "):
                process.kill()
            said += process.stdout.read()
        code = process.wait()
        watchdog.cancel()
        return subprocess.CompletedProcess(command, code, said.decode(), log_path.read_text(errors="replace"))


class StoreTest(DaemonTest):
    """A test with a store in `self.store`, and one daemon after the other on it. `self.daemon` and `self.command` are the current ones. One worker,
    so that `take_worker` holds back whatever is stored."""

    settings = {"pool": {"workers": 1}}

    def setUp(self):
        self.store = pathlib.Path(tempfile.mkdtemp(prefix="locksley-store-"))
        self.addCleanup(shutil.rmtree, self.store, ignore_errors=True)
        self.daemon = None

    def begin(self, settings=None):
        self.daemon = StoreDaemon(self.store, merged(self.settings, settings or {}))
        self.addCleanup(self._end, self.daemon)
        self.command = self.connect(self.daemon)
        return self.command

    def _end(self, daemon):
        """Ends the daemon without waiting for its jobs. A daemon that has ended by itself is an error here too."""
        if daemon.process.poll() is None:
            daemon.kill()
        super()._end(daemon)

    def kill(self):
        self.daemon.kill()

    def stop(self, code=0):
        """Sends SIGTERM, and waits for the end with this exit code."""
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait_end(), code, self.daemon.log())

    def kill_and_begin(self, settings=None):
        self.kill()
        return self.begin(settings)

    def stop_and_begin(self, settings=None):
        self.stop()
        return self.begin(settings)

    def status(self, batch):
        return self.command.map("STATUS", batch)

    def take_worker(self):
        """Occupies the only worker, so that nothing else runs. Returns the id of the batch, which is gone after a restart."""
        blocker = self.command("SUBMIT", "sleep", "EPHEMERAL", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: self.status(blocker)["running"] == 1)
        return blocker

    def begin_held(self):
        """Starts a daemon whose worker is occupied."""
        self.begin()
        self.take_worker()

    def settle(self):
        """Once this is acknowledged, all that has ended so far is on the disk."""
        self.command("OPEN", "echo", "NAME", "settle")

    def listed(self):
        """All batches by id, newest first."""
        return {status["id"]: status for status in self.command.listed() if status["name"] != "settle"}

    def assert_known(self, *batches):
        self.assertEqual(sorted(self.listed()), sorted(batches))

    def assert_whole(self, batch, expected):
        """Waits for the end of the batch; `expected`: [status, output] of each job. Each index is there once, and the counters are those of the
        results."""
        status = self.command.wait(batch)
        rows = self.command.results(batch)
        self.assertEqual(sorted(rows), [[index, *row] for index, row in enumerate(expected)], batch)
        self.assert_agree(status, rows)
        return status

    def assert_agree(self, status, rows):
        count = lambda *names: sum(row[1] in names for row in rows)
        counted = {"ok": count("ok"), "failed": count("error", "timeout", "crashed"), "cancelled": count("cancelled")}
        counted |= {"queued": 0, "running": 0, "jobs": len(rows)}
        self.assertLessEqual(counted.items(), status.items(), f"{status} and results {counted}")

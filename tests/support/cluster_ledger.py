"""Two daemons, clients that submit to the active one, and a ledger of what was acknowledged: every batch in it ends, has one row for each index, and
counters that equal its rows."""

import contextlib
import re
import signal
import unittest

from cluster import ClusterDaemon, Submitter, await_batches
from patient_connection import PatientConnection


class Wrong(Exception):
    """What the daemons did that they must not do."""


def wrong_unless(condition, what):
    if not condition:
        raise Wrong(what)


class OneJob(Submitter):
    JOBS = 1


class ThousandJobs(Submitter):
    JOBS = 1000
    PAUSE_S = 0.2


def check_batch(connection, submitter, batch):
    status = connection.wait(batch)
    rows = sorted(connection.results(batch))
    expected = [[index, "ok", payload] for index, payload in enumerate(submitter.payloads(batch))]
    wrong_unless(rows == expected, f"{batch}: {len(rows)} results, of which {[row for row in rows if row not in expected][:5]} are wrong; {status}")
    wrong_unless((status["jobs"], status["ok"], status["failed"]) == (submitter.JOBS, submitter.JOBS, 0), f"{batch}: {status}")


class LedgerCluster:
    """`active` and `standby`, whose clients are threads of the test. `settings`: those of the daemons, which make them share a store. Use close()."""

    clients_side = contextlib.nullcontext  # the context in which clients connect
    login = ()  # their user and password

    def __init__(self, settings, clients=(OneJob, OneJob, ThousandJobs)):
        self.settings = settings
        self.active = self.standby = None
        self.logs = {}  # of daemons that have ended, by their addresses
        self.active = self.start().wait_active()
        self.standby = self.start()
        wrong_unless(not self.standby.is_active, "a second daemon is active")
        self.seeds = [self.active, self.standby]
        with self.clients_side():
            self.submitters = [kind(f"c{number}", self.seeds, self.login) for number, kind in enumerate(clients)]

    def connect(self, daemon):
        with self.clients_side():
            connection = PatientConnection(daemon.host, daemon.port)
        if self.login:
            connection("AUTH", *self.login)
        return connection

    def start(self):
        return ClusterDaemon(self.settings)

    def acknowledged(self):
        return sum(len(each.acknowledged) for each in self.submitters)

    def await_batches(self, more):
        """Waits until each client has `more` acknowledged batches more than now."""
        await_batches(self.submitters, more)
        for each in self.submitters:
            if each.trouble:
                raise each.trouble

    def counted(self, words):
        """How many times these words are in the logs of all daemons, also of those that have ended."""
        return sum(log.count(words) for log in (*self.logs.values(), *(daemon.log() for daemon in self.daemons())))

    def daemons(self):
        return [daemon for daemon in (self.active, self.standby) if daemon is not None]

    def show_logs(self):
        """Prints the logs without the lines about single batches and commands."""
        for address, log in [*self.logs.items(), *((daemon.address, daemon.log()) for daemon in self.daemons())][-4:]:
            lines = [line for line in log.splitlines() if " info audit" not in line and " info batch " not in line]
            print(f"--- log of {address}", *lines[-60:], "---", sep="\n")

    def take_over(self):
        """Waits until the standby daemon serves, and starts another standby. Returns the former active daemon, which has ended or can do nothing."""
        former = self.wait_for_successor()
        self.add_standby()
        return former

    def wait_for_successor(self):
        """Waits until the standby daemon serves; then there is no standby. Returns the former active daemon."""
        self.standby.wait_active()
        former, self.active, self.standby = self.active, self.standby, None
        self.seeds[:] = [self.active, former]
        return former

    def add_standby(self):
        self.standby = self.start()
        self.seeds[:] = [self.active, self.standby]

    def forget(self, daemon, *codes):
        """Waits until the daemon has ended with one of these codes."""
        code = daemon.wait_end()
        wrong_unless(code in codes, f"a daemon ended with {code}, not with {codes}: {daemon.log()[-4000:]}")
        daemon.process.returncode = 0  # as it should have ended
        self.logs[daemon.address] = self.logs.get(daemon.address, "") + daemon.log()
        daemon.close()

    def kill_active(self):
        """Kills the active daemon with kill -9; the standby takes over."""
        self.active.send_signal(signal.SIGKILL)
        self.forget(self.take_over(), -signal.SIGKILL)

    def resume_fenced(self, daemon, witness=None):
        """Resumes a daemon that was paused while the other took over: it must end without another acknowledgement. `witness`: a connection to it,
        with a SUBMIT that it has not answered."""
        daemon.send_signal(signal.SIGCONT)
        if witness is not None:
            said = witness.read_until_closed()
            witness.close()
            wrong_unless(re.fullmatch(rb"(-LOADING [^\r\n]*\r\n)*", said), f"a daemon said after another had taken over: {said}")
        daemon.wait_end()
        wrong_unless("another daemon has taken over" in daemon.log(), daemon.log()[-4000:])
        self.forget(daemon, 69)

    def check_new(self):
        """Checks every batch that was acknowledged since the last check."""
        with self.connect(self.active) as connection:
            for submitter in self.submitters:
                until = len(submitter.acknowledged)
                for batch in submitter.acknowledged[submitter.checked : until]:
                    check_batch(connection, submitter, batch)
                submitter.checked = until

    def check_all(self):
        """Checks every batch that was ever acknowledged, read by a daemon that has just taken over from one that was killed."""
        for submitter in self.submitters:
            submitter.end()
            submitter.checked = 0
        self.kill_active()
        with self.connect(self.active) as connection:
            listed = [status["id"] for status in connection.listed()]
        wrong_unless(len(listed) == len(set(listed)), f"twice: {sorted({name for name in listed if listed.count(name) > 1})}")
        lost = sorted({batch for submitter in self.submitters for batch in submitter.acknowledged} - set(listed))
        wrong_unless(not lost, f"lost: {lost}")
        self.check_new()

    def close(self):
        for submitter in self.submitters:
            submitter.stop.set()
        for daemon in self.daemons():
            if daemon.process.poll() is None:
                daemon.process.kill()
            self.forget(daemon, daemon.process.wait())
        self.active = self.standby = None


class ClusterTest(unittest.TestCase):
    """Shows the logs of `cluster`, which setUp() or the test sets, if the test fails."""

    cluster = None

    def run(self, result=None):
        troubles = lambda: len(result.failures) + len(result.errors) if result else 0
        before = troubles()
        result = super().run(result)
        if troubles() > before and self.cluster is not None:
            self.cluster.show_logs()
        return result

"""A PostgreSQL server of a test's own: in memory where there is room, without a port, as another user where the test is root."""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from locksley_daemon import DEADLINE_S, end_with_parent, wait_for
from programs import children
from scratch import quick_place

SETTINGS = """
listen_addresses = ''
fsync = off
full_page_writes = off
synchronous_commit = on
shared_buffers = 64MB
max_connections = 60
dynamic_shared_memory_type = mmap
"""


def has_ended(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def signal_each(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has ended


def programs():
    """The folder of the newest server that Debian has installed."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if not found:
        raise AssertionError("PostgreSQL is not installed: deploy/install-dependencies --tests")
    return found[-1].parent


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(prefix="locksley-pg-", dir=quick_place()))


class PostgresServer:
    """Made and started by the constructor, in a new folder unless one is given. Use close()."""

    initdb_options = ()

    def __init__(self, settings="", folder=None):
        self.folder = folder or new_folder()
        self.as_other = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.as_other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.data = self.folder / "data"
        self.process = None
        self.make_data()
        with open(self.data / "postgresql.conf", "a") as file:
            file.write(f"{SETTINGS}unix_socket_directories = '{self.folder}'\n{settings}")
        self.start()

    def make_data(self):
        self.run("initdb", "-D", self.data, "-U", "locksley", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", *self.initdb_options)

    def run(self, name, *arguments):
        subprocess.run([*self.as_other, programs() / name, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=4 * DEADLINE_S)

    def start(self):
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.as_other, "setpriv", "--pdeathsig", "QUIT", programs() / "postgres", "-D", self.data],
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        wait_for("PostgreSQL to accept connections", self.is_ready, 2 * DEADLINE_S)

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended: {(self.folder / 'log').read_text()[-2000:]}")
        return self.accepts()

    def accepts(self):
        return subprocess.run([programs() / "pg_isready", "-q", "-h", self.folder], check=False).returncode == 0

    def processes(self):
        """The first one, and those that it has started."""
        return [self.process.pid, *children(self.process.pid)]

    def pause(self):
        """From now on no process of it does anything, as on a machine that is frozen."""
        signal_each(self.processes(), signal.SIGSTOP)
        signal_each(self.processes(), signal.SIGSTOP)  # those that the first one started before it was paused

    def resume(self):
        signal_each(self.processes(), signal.SIGCONT)

    def kill(self):
        """kill -9 of all its processes at one moment, as when the machine loses its power. Another server may start on their data when this
        returns."""
        self.pause()
        others = self.processes()[1:]
        signal_each([self.process.pid, *others], signal.SIGKILL)
        self.process.wait()
        wait_for("the processes of a server to end", lambda: all(map(has_ended, others)))

    @property
    def url(self):
        return f"postgresql://locksley@/postgres?host={self.folder}"

    def settings(self, **more):
        """Settings for a daemon whose store is here."""
        return {"store": {"engine": "postgresql", "url": self.url, "replication": "none", **more}}

    def query(self, sql):
        """What psql prints for this statement."""
        command = [programs() / "psql", "-qAtX", "-h", self.folder, "-U", "locksley", "-d", "postgres", "-c", sql]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S).stdout.strip()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

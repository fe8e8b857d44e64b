"""Three PostgreSQL servers under Patroni, with etcd: the packages that Debian has, on a network of the test's own, so that ports are free. Takes root."""

import contextlib
import json
import pwd
import shutil
import signal
import subprocess
import urllib.request

from locksley_daemon import end_with_parent, wait_for
from net import Namespace
from postgres_pair import signal_each
from postgres_server import new_folder, programs
from programs import children

NAMES = "abc"
ETCD_PORT = 2379
# A leader that is lost is noticed when its lease of `ttl` seconds has ended. `synchronous_mode_strict`: a primary without a standby waits with commits.
TIMES = {"ttl": 10, "loop_wait": 1, "retry_timeout": 3}
# In addition to the parameters that Patroni itself gives its servers.
PARAMETERS = {"synchronous_commit": "on", "wal_retrieve_retry_interval": "500ms", "fsync": "off", "shared_buffers": "32MB", "max_connections": 80}


class Machine:
    """One server, and the Patroni that starts it, in a namespace of process ids: both end at once, as with a machine."""

    def __init__(self, folder, number, as_other):
        self.name, self.folder, self.as_other = NAMES[number], folder / NAMES[number], as_other
        self.port, self.rest = 5432 + number, 8008 + number
        self.folder.mkdir()
        shutil.chown(self.folder, "postgres", "postgres")
        self.config = self.folder / "patroni.yml"
        self.config.write_text(json.dumps(self.settings()))  # which is YAML
        self.process = None

    def settings(self):
        trusted = ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
        dynamic = {
            **TIMES,
            "synchronous_mode": True,
            "synchronous_mode_strict": True,
            "postgresql": {"use_pg_rewind": False, "remove_data_directory_on_diverged_timelines": True, "parameters": PARAMETERS},
        }
        return {
            "scope": "locksley",
            "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"},
            "etcd3": {"hosts": [f"127.0.0.1:{ETCD_PORT}"]},
            "bootstrap": {"dcs": dynamic, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"], "pg_hba": trusted},
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self.port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(programs()),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "replicator"}},
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": trusted,
            },
        }

    def start(self):
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *self.as_other, "setpriv", "--pdeathsig", "KILL", "patroni", self.config]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=end_with_parent)

    def kill(self):
        """Kills all its processes at one moment, as when the machine loses its power."""
        self.process.kill()
        self.process.wait()

    def processes(self):
        """The first one, those that it has started, and theirs."""
        found = [self.process.pid]
        for pid in found:
            found += children(pid)
        return found

    def pause(self):
        """Pauses all processes, as on a frozen machine: each process before those that it has started."""
        signal_each(self.processes(), signal.SIGSTOP)
        signal_each(self.processes(), signal.SIGSTOP)

    def role(self):
        """The role that its Patroni reports; None if it reports none."""
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/cluster", timeout=5) as reply:
                for member in json.load(reply)["members"]:
                    if member["name"] == self.name:
                        return member["role"] if member["state"] in ("running", "streaming") else None
        return None


class PatroniCluster:
    """Enter inside() for all that connects. Use close()."""

    def __init__(self):
        self.network = Namespace()
        self.network.ip("link set lo up")
        self.folder = new_folder()
        shutil.chown(self.folder, "postgres", "postgres")
        user = pwd.getpwnam("postgres")
        as_other = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.machines = [Machine(self.folder, number, as_other) for number in range(len(NAMES))]
        with self.inside():
            self.etcd = self.start_etcd()
            self.machines[0].start()
            wait_for("a leader", lambda: self.leader() is self.machines[0], 90, every=0.2)
            for machine in self.machines[1:]:
                machine.start()
            wait_for("a synchronous standby", self.is_whole, 90, every=0.2)

    def inside(self):
        return self.network.inside()

    def start_etcd(self):
        with open(self.folder / "etcd.log", "wb") as log:
            return subprocess.Popen(["etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync"], stdout=log, stderr=log, preexec_fn=end_with_parent)

    @property
    def url(self):
        return f"postgresql://postgres@{','.join(f'127.0.0.1:{machine.port}' for machine in self.machines)}/postgres"

    def leader(self):
        return next((machine for machine in self.machines if machine.role() == "leader"), None)

    def is_whole(self):
        """One leads, and the others follow, one of them synchronously."""
        return sorted(str(machine.role()) for machine in self.machines) == ["leader", "replica", "sync_standby"]

    def log(self):
        return "\n".join((machine.folder / "log").read_text()[-3000:] for machine in self.machines)

    def close(self):
        for machine in self.machines:
            if machine.process is not None and machine.process.poll() is None:
                machine.kill()
        self.etcd.kill()
        self.etcd.wait()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)

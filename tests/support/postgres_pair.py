"""A PostgreSQL primary with one synchronous standby, and what a test does to them: all processes of a server killed or paused at one moment, the
standby promoted, another one made by pg_basebackup, commits held while they wait for the standby.

    pair = PostgresPair()
    daemon = Daemon(pair.settings())  # its URL names all places where a server may be
    pair.primary.crash(), pair.promote(), pair.add_standby()

There are three places: a primary that was paused keeps its own when it comes back, beside the promoted server and its standby. The servers are reached
by sockets in the folders of the places, so they take no ports."""

import shutil
import signal

from locksley_daemon import wait_for
from postgres_server import PostgresServer, new_folder, signal_each

STANDBY = "standby"  # the name of the standby's session, which synchronous_standby_names has: pg_basebackup's sessions have another
REPLICATED = f"""
synchronous_standby_names = '{STANDBY}'
wal_retrieve_retry_interval = 500ms
wal_sender_timeout = 0
wal_receiver_timeout = 0
"""
# Sessions of daemons whose commit waits for the standby.
WAITING = "from pg_stat_activity where wait_event = 'SyncRep' and application_name like 'locksley %'"


class ReplicatedServer(PostgresServer):
    """A primary; or with `copy_of` a standby of that server, made from a copy of it."""

    def __init__(self, folder, copy_of=None, settings=""):
        self.copy_of = copy_of
        if copy_of is not None:
            settings += f"primary_conninfo = 'host={copy_of.folder} user=locksley application_name={STANDBY}'\n"
        super().__init__(REPLICATED + settings, folder)

    def make_data(self):
        if self.copy_of is None:
            return super().make_data()
        source = f"host={self.copy_of.folder} user=locksley"
        self.run("pg_basebackup", "-D", self.data, "-d", source, "-c", "fast", "-X", "stream", "--no-sync")
        (self.data / "standby.signal").touch()

    def crash(self):
        self.kill()

    def is_waited_for(self):
        """Whether a commit of a daemon waits for the standby."""
        return self.query(f"select count(*) {WAITING}") != "0"

    def end_waits(self, function):
        """`function`: pg_cancel_backend or pg_terminate_backend."""
        return int(self.query(f"select count({function}(pid)) {WAITING}"))

    def senders(self):
        """The processes that send the log to the standby."""
        return [int(pid) for pid in self.query(f"select pid from pg_stat_replication where application_name = '{STANDBY}'").split()]

    def has_standby(self):
        return self.query("select count(*) from pg_stat_replication where sync_state = 'sync' and state = 'streaming'") == "1"


class PostgresPair:
    """Made and started by the constructor: `primary` and `standby`. `former`: the one that was the primary before a promotion, if it was not crashed.
    Use close()."""

    def __init__(self, settings=""):
        self.folder = new_folder()
        self.folder.chmod(0o755)
        self.more = settings
        self.places = [self.folder / name for name in "abc"]
        self.primary = self.server(self.places[0])
        self.standby = self.former = None
        self.add_standby()

    def server(self, folder, copy_of=None):
        folder.mkdir()
        return ReplicatedServer(folder, copy_of, self.more)

    @property
    def url(self):
        return f"postgresql://locksley@/postgres?host={','.join(map(str, self.places))}&target_session_attrs=read-write"

    def settings(self, **more):
        """Settings for a daemon whose store is here."""
        return {"store": {"engine": "postgresql", "url": self.url, "replication": "required", **more}}

    def add_standby(self):
        """Adds a standby of the primary; from now on each commit of the primary waits for it."""
        taken = [server.folder for server in (self.primary, self.former) if server is not None]
        self.standby = self.server(next(place for place in self.places if place not in taken), self.primary)
        wait_for("the standby to follow", self.primary.has_standby)

    def remove(self, server):
        """Removes the server for good."""
        if server.process.poll() is None:
            server.crash()
        shutil.rmtree(server.folder)

    def promote(self):
        """Promotes the standby to the primary. The primary before it is removed if it has ended; otherwise it is `former`."""
        self.standby.query("select pg_promote(true, 60)")
        if self.primary.process.poll() is None:
            self.former = self.primary
        else:
            self.remove(self.primary)
        self.primary, self.standby = self.standby, None

    def remove_former(self):
        self.remove(self.former)
        self.former = None

    def close(self):
        for server in (self.primary, self.standby, self.former):
            if server is not None and server.process.poll() is None:
                server.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

"""What the tests of another configuration share: a daemon whose file is written anew and read again."""

import re
import signal

from locksley_daemon import DaemonTest, wait_for
from scratch import scratch


class ReloadTest(DaemonTest):
    def serve(self, handlers, **settings):
        self.settings = settings
        self.daemon = self.start({**settings, "handlers": handlers})
        self.folder = scratch(self)
        return self.connect(self.daemon)

    def lines_of(self, pattern):
        return len(re.findall(pattern, self.daemon.log()))

    def reload(self, handlers, **settings):
        """Writes the new file, and makes the daemon read it by SIGHUP."""
        before = self.lines_of("configuration read again|the configuration stays")
        self.daemon.configure({**self.settings, **settings, "handlers": handlers})
        self.daemon.send_signal(signal.SIGHUP)
        wait_for("the reload", lambda: self.lines_of("configuration read again|the configuration stays") > before)

    def held(self, name="go"):
        """A script that prints $V once the file exists, and the file."""
        file = self.folder / name
        return f'while [ ! -e {file} ]; do sleep 0.01; done; echo "$V"', file

    def outputs(self, connection, batch):
        self.assertEqual(connection.wait(batch)["state"], "done")
        return [output.strip() for _, _, output in sorted(connection.results(batch))]

    def wait_running(self, connection, batch, count):
        wait_for(f"{count} running jobs", lambda: connection.status(batch)["running"] == count)

    def kinds(self, connection):
        return {entry[1]: entry[3] for entry in connection("HANDLERS")}

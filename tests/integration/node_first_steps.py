#!/usr/bin/python3
"""The Node.js package as a newcomer meets it: installed by the commands of its page, and what is said where a
daemon cannot be reached, or a worker is started by hand."""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import node_package
from certificates import Authority
from client_packages import build
from locksley_daemon import DEADLINE_S, DaemonTest, merged, program, wait_for
from node_package import NODE, PACKAGE
from remote_worker import port_for_workers
from secured import Secured

# In CommonJS, as the page says that every Node.js can.
IMPORT = "import('@locksley/client').then(({ Locksley }) => console.log(typeof Locksley))"
# Three commands, one after the other, for a daemon that may not be there.
ASKS = """
import { Locksley } from '@locksley/client';

const [url, patience] = process.argv.slice(2);
const queue = new Locksley(url, { patience: Number(patience) });
await Promise.all(['a', 'b', 'c'].map((id) => queue.batch(id).status().catch((error) => console.log(error.name, error.message))));
queue.close();
"""


def setUpModule():
    node_package.setUpModule()


class Installation(unittest.TestCase):
    def test_the_commands_of_the_page_install_a_package_that_finds_ioredis(self):
        commands = re.findall(r"npm install [^`\n]*", (PACKAGE / "README.md").read_text())
        self.assertEqual(len(commands), 2)
        for command in commands:
            with tempfile.TemporaryDirectory(prefix="locksley-npm-") as folder:
                (tarball,) = build(folder, "node")
                shutil.copy(tarball, folder)
                # ioredis is there already, because the tests ask no registry.
                large = shutil.ignore_patterns(".*", "@types", "axe-core", "playwright-core", "pyright", "typescript")
                shutil.copytree(pathlib.Path(os.environ["LOCKSLEY_NODE_MODULES"]) / "node_modules", f"{folder}/node_modules", ignore=large)
                command = re.sub(r" \S*/proto/clients/node$", f" {PACKAGE}", command.replace(" ioredis@5 ", " "))
                done = subprocess.run(["bash", "-c", f'{command} --offline --no-audit --no-fund >&2 && "$0" -e "$1"', NODE, IMPORT], cwd=folder,
                                      env=dict(os.environ, npm_config_cache=f"{folder}/cache"), capture_output=True, text=True, timeout=DEADLINE_S)
                self.assertEqual(done.stdout, "function\n", f"{command}\n{done.stderr}")


class Unreached(DaemonTest):
    authorities = None  # a file of them that programs name

    def said(self, url, patience):
        """What a program prints, and what it says besides, in lines."""
        (node_package.INSTALLED / "asks.mjs").write_text(ASKS)
        words = [NODE, "asks.mjs", url, str(patience)]
        done = subprocess.run(words, cwd=node_package.INSTALLED, env=self.environment(), capture_output=True, text=True, timeout=DEADLINE_S)
        return done.stdout.splitlines(), [line for line in done.stderr.splitlines() if not line.startswith("(Use `node --trace-warnings")]

    def environment(self):
        others = {name: value for name, value in os.environ.items() if name != "NODE_EXTRA_CA_CERTS"}
        return others if self.authorities is None else {**others, "NODE_EXTRA_CA_CERTS": str(self.authorities)}

    def worker(self, url, pattern):
        """Waits until it says this."""
        path = node_package.INSTALLED / "worker.log"
        with open(path, "w") as log:
            worker = subprocess.Popen(["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", url], cwd=node_package.INSTALLED, env=self.environment(), stderr=log)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        wait_for(f"a worker's words {pattern}", lambda: re.search(pattern, path.read_text()))
        return worker

    def test_one_line_says_that_it_tries_again(self):
        printed, [line] = self.said("redis://127.0.0.1:1", 2500)
        self.assertRegex(line, r"LocksleyWarning: no answer from 127\.0\.0\.1:1: .*ECONNREFUSED.*; trying again for 2\.5 s$")
        self.assertEqual([text.split(":")[0] for text in printed], ["Unreachable no answer from 127.0.0.1"] * 3)
        self.assertEqual(self.said("redis://127.0.0.1:1", 0)[1], [])

    def test_tls_without_its_scheme_or_its_authority(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        settings = Secured(folder.name, ["far"]).settings
        daemon = self.start(merged(settings, {"workers": {"port": 0, "tls": settings["listen"]["tls"]}, "handlers": {"far": {"remote": True}}}))
        clients, workers = f"{daemon.host}:{daemon.port}", f"127.0.0.1:{port_for_workers(daemon)}"
        # At once, although the patience is longer than the test: as the log-in, and as the first command.
        for login in ("alice:x@", ""):
            printed, warned = self.said(f"redis://{login}{clients}", 3_600_000)
            self.assertEqual((printed, warned), (["Refused ERR this port speaks TLS: use rediss:// in place of redis://, or redis-cli --tls"] * 3, []))
        self.assertEqual(self.worker(f"redis://renderer:x@{workers}", "use rediss://").wait(DEADLINE_S), 78)
        advice = r"certificate: name the authority that signed it: NODE_EXTRA_CA_CERTS=FILE; trying again"
        self.assertRegex(self.said(f"rediss://alice:x@{clients}", 500)[1][0], f"{advice} for 0\\.5 s$")
        self.worker(f"rediss://renderer:x@{workers}", f"^locksley: {workers}: .*{advice}\n")

    def test_a_file_of_authorities_that_node_js_cannot_use(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        settings = Secured(path, ["far"]).settings
        daemon = self.start(merged(settings, {"workers": {"port": 0, "tls": settings["listen"]["tls"]}, "handlers": {"far": {"remote": True}}}))
        clients, workers = f"rediss://alice:x@{daemon.host}:{daemon.port}", f"rediss://renderer:x@127.0.0.1:{port_for_workers(daemon)}"
        (path / "words.pem").write_text("no certificate\n")
        (path / "cut.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
        unreadable = r"the certificates of {} \(NODE_EXTRA_CA_CERTS\) cannot be read: .+"
        for name, problem in (("nosuch.pem", unreadable), ("cut.pem", unreadable), ("words.pem", r"there is no certificate in PEM format in {} \(NODE_EXTRA_CA_CERTS\)")):
            self.authorities = path / name
            expected = f"TLS {problem.format(re.escape(str(self.authorities)))}"
            printed, _ = self.said(clients, 3_600_000)  # at once, although the patience is longer than the test
            self.assertEqual(len(printed), 3)
            for line in printed:
                self.assertRegex(line, f"^Refused {expected}$")
            self.assertEqual(self.worker(workers, f"locksley-worker: {expected}\n").wait(DEADLINE_S), 78)
        # An authority that has not signed the daemon's certificate may do so while the program tries again.
        self.authorities = Authority(path, "another").certificate
        advice = rf"name the authority that signed it in {re.escape(str(self.authorities))} \(NODE_EXTRA_CA_CERTS\); trying again for 0\.5 s$"
        self.assertRegex(self.said(clients, 500)[1][0], advice)

    def test_a_worker_that_has_joined_says_for_what(self):
        daemon = self.start({"workers": {"port": 0}, "handlers": {"far": {"remote": True}}})
        self.worker(f"redis://127.0.0.1:{port_for_workers(daemon)}", r"^locksley: joined for far\n")


class Failures(DaemonTest):
    def test_the_command_line_shows_the_stack_of_an_exception(self):
        daemon = self.start({"handlers": {"far": {**node_package.LocalWorker.HANDLER, "directory": str(node_package.INSTALLED)}}})
        run = self.connect(daemon)
        run("SUBMIT", "far", "ID", "b", "JOBS", node_package.call("fails", "two\nlines"))
        run("WAIT", "b")
        words = [program("LOCKSLEY"), "--server", f"{daemon.host}:{daemon.port}", "job", "b", "0"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S).stdout
        self.assertRegex(shown, r"\nerror, 21 bytes:\n  RangeError: two lines\ntraceback, \d+ bytes:\n  RangeError: two\n  lines\n      at .*package_tasks\.mjs")


class ByHand(unittest.TestCase):
    def test_a_worker_on_a_terminal_says_what_it_is_for(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        self.addCleanup(os.close, theirs)
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs"]
        done = subprocess.run(command, cwd=node_package.INSTALLED, stdin=theirs, capture_output=True, text=True, timeout=DEADLINE_S)
        said = "locksley-worker: jobs come from the daemon: name this program as `worker:` in its configuration, or give --url redis://HOST:7771\n"
        self.assertEqual((done.returncode, done.stderr), (64, said))


if __name__ == "__main__":
    unittest.main()

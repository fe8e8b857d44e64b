#!/usr/bin/python3
"""A package's life, in a Debian of its own: installed, run as the unit says and by its user, upgraded with work in flight, removed, installed again,
purged. Takes root, debootstrap, the network, and minutes the first time; so it is no part of deploy/test:

    cmake -D LOCKSLEY_SLOW_TESTS=ON build && ctest --test-dir build -R deploy.package_life

No systemd runs in that Debian: what it would do is done by hand, and the commands of deploy/INSTALL.md for that case, and for Python, are carried out."""

import pathlib
import re
import shutil
import signal
import unittest

from debian_packages import ROOT, build, field, with_version
from debian_tree import DebianTest

from client_packages import build as build_client
from locksley_daemon import DEADLINE_S, wait_for

JOBS, JOB_MS = 300, 20
HANDLERS = "handlers:\n  bytes: {command: [wc, -c], concurrency: 1}\n"


def commands(section):
    """Those of a section of deploy/INSTALL.md, without remarks."""
    text = (ROOT / "deploy/INSTALL.md").read_text().split(f"\n## {section}\n")[1]
    return [re.sub(r" {2,}#.*", "", line) for line in re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].replace("\\\n  ", "").splitlines()]


class Life(DebianTest):
    def install(self, package):
        shutil.copy(package, self.file("/root"))
        self.inside("apt-get", "-q", "-y", "-o", "APT::Sandbox::User=root", "install", "--no-install-recommends", f"/root/{package.name}")

    def start_service(self):
        """As the unit's ExecStart, user, directory and mask say."""
        unit = self.file("/usr/lib/systemd/system/locksleyd.service").read_text()
        setting = lambda name: re.search(rf"^{name}=(.*)", unit, re.MULTILINE)[1]
        where = {"user": setting("User"), "group": setting("Group"), "folder": setting("WorkingDirectory"), "umask": setting("UMask")}
        return self.start(setting("ExecStart").split(), **where)

    def carry_out(self, lines):
        """In one shell, in /root, as root. What it says. No person is there to say yes, and the user _apt of a new Debian may not read /root."""
        script = "set -e\ncd /root\n" + "\n".join(lines).replace("apt-get install", "apt-get -q -y -o APT::Sandbox::User=root install --no-install-recommends")
        return self.inside("bash", "-c", script)

    def status(self, batch):
        return dict(re.findall(r'"(\w+)":(\d+)', self.client("--json", "status", batch)))

    def test_the_package_for_python_is_installed_as_the_page_says(self):
        (wheel,) = [path for path in build_client(self.folder, "python") if path.suffix == ".whl"]
        self.file("/root/packages").mkdir()
        shutil.copy(wheel, self.file("/root/packages"))
        self.inside("apt-get", "-q", "update")
        said = self.carry_out([*commands("Python"), "cd /", "python3 -c 'import locksley, redis; print(locksley.__file__)'"])
        self.assertRegex(said, r"\n/root/venv/lib/python3\.\d+/site-packages/locksley/__init__\.py\n\Z")

    def test_installed_upgraded_removed_and_purged(self):
        package = build(self.folder)["locksley"]
        self.inside("apt-get", "-q", "update")
        self.file("/root/packages").mkdir()
        shutil.copy(package, self.file("/root/packages"))
        self.carry_out(commands("The daemon on Debian"))
        owner = lambda path: self.inside("stat", "-c", "%U:%G %a", path).strip()
        self.assertEqual(owner("/var/lib/locksley"), "locksley:locksley 750")
        self.assertEqual(owner("/etc/locksley/locksley.yaml"), "root:locksley 640")
        self.assertRegex(self.file("/etc/passwd").read_text(), r"(?m)^locksley:.*:/var/lib/locksley:/usr/sbin/nologin$")

        # An administrator's changes; free ports, because this machine's network is shared.
        config = self.file("/etc/locksley/locksley.yaml")
        changed = re.sub(r"port: \d+", "port: 0", config.read_text()).replace("handlers: {}\n", HANDLERS) + "shutdown: {drain_timeout: 200ms}\n"
        config.write_text(changed)

        daemon = self.start_service()
        self.assertEqual(str(self.uid_of(daemon)), self.inside("id", "-u", "locksley").strip())
        submit = lambda: self.client("submit", "sleep", "--range", "0", str(JOBS), "--slots", "1", str(JOB_MS)).strip()
        begun = lambda batch: wait_for("some of its jobs to end", lambda: int(self.status(batch)["ok"]) > 5)
        first = submit()
        begun(first)

        # New files under a daemon that runs: it goes on, commands too.
        newer = with_version(package, field(package, "Version") + "+1", self.folder)
        self.install(newer)
        self.assertEqual(config.read_text(), changed, "the upgrade has touched the configuration")
        self.assertRegex(self.client("run", "bytes", "four"), "^4\n")

        # Then it is started again, in the middle of a batch.
        second = submit()
        begun(second)
        before = int(self.status(second)["ok"])
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(DEADLINE_S), 75, "there was no work left: nothing is shown")
        daemon = self.start_service()
        self.assertGreaterEqual(int(self.status(second)["ok"]), before)
        for batch in (first, second):
            self.client("wait", batch)
            self.assertEqual(self.status(batch)["ok"], str(JOBS), "something was lost")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(DEADLINE_S), 0)

        self.inside("apt-get", "-q", "-y", "remove", "locksley")
        self.assertFalse(self.file("/usr/bin/locksleyd").exists())
        self.assertEqual(config.read_text(), changed)
        self.assertTrue(list(self.file("/var/lib/locksley/store").iterdir()))

        # Back again: what it knew it still knows. It is started as the page says for machines without systemd.
        self.install(newer)
        (by_hand,) = commands("Without systemd")
        daemon = self.start(["/bin/sh", "-c", f"exec {by_hand.removesuffix(' &')}"], user="root", group="root", folder="/root")
        self.assertEqual(str(self.uid_of(daemon)), self.inside("id", "-u", "locksley").strip())
        self.assertEqual(pathlib.Path(f"/proc/{daemon.pid}/cwd").resolve(), self.file("/var/lib/locksley"))
        self.assertEqual(self.status(second)["ok"], str(JOBS))
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(DEADLINE_S), 0)

        self.inside("apt-get", "-q", "-y", "purge", "locksley")
        for path in ("/etc/locksley", "/var/lib/locksley", "/usr/lib/systemd/system/locksleyd.service", "/usr/share/doc/locksley"):
            self.assertFalse(self.file(path).exists(), path)
        self.assertNotIn("locksley", self.file("/etc/passwd").read_text())
        self.assertNotIn("locksley", self.inside("sh", "-c", "find / -xdev -name '*locksley*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/var/cache/*'"))


if __name__ == "__main__":
    unittest.main()

"""A Debian of its own to install things in: a tree that debootstrap makes once, copied for each test. Takes root, the network, and minutes the
first time. No systemd runs in it: what it would do is done by hand."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from debian_packages import run

from locksley_daemon import end_with_parent

LONGEST_S = 900  # for what loads packages
MIRROR = "http://deb.debian.org/debian"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}


def base_tree():
    """A Debian with nothing in it: LOCKSLEY_DEBIAN_TREE, else below the build."""
    tree = pathlib.Path(os.environ.get("LOCKSLEY_DEBIAN_TREE") or pathlib.Path(os.environ["LOCKSLEY_BUILD"]) / "debian-tree")
    if not (tree / "complete").exists():
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=adduser", "bookworm", tree, MIRROR], check=True, timeout=LONGEST_S)
        (tree / "complete").touch()
    return tree


class DebianTest(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.fail("it takes root: chroot and mount")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="locksley-debian-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / "debian"
        run("cp", "-a", "--reflink=auto", base_tree(), self.tree)
        shutil.copy("/etc/resolv.conf", self.tree / "etc/resolv.conf")
        # debootstrap has made devices: so /dev of this machine, which the clean-up might meet, is not needed.
        run("mount", "-t", "proc", "proc", self.tree / "proc")
        self.addCleanup(run, "umount", "--lazy", self.tree / "proc")

    def inside(self, *arguments):
        """What it says, in the tree."""
        return run("chroot", self.tree, *arguments, seconds=LONGEST_S, env=ENVIRONMENT)

    def file(self, path):
        return self.tree / path.lstrip("/")

    def start(self, command, *, user, group, folder, umask="022"):
        """A daemon in the tree that serves; ends with the test. Its address becomes self.server, its HTTP side's port self.http_port."""
        log = open(self.folder / "daemon.log", "ab")
        self.addCleanup(log.close)
        script = f'cd "$1" && umask {umask} && shift && exec "$@"'
        chroot = [shutil.which("chroot"), f"--userspec={user}:{group}", str(self.tree), "/bin/sh", "-c", script, "sh", folder, *command]
        process = subprocess.Popen(chroot, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=ENVIRONMENT, text=True, preexec_fn=end_with_parent)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        ready = process.stdout.readline()  # CTest's time limit bounds it
        ports = re.fullmatch(r"ready listen=\S+:(\d+) http=\S+:(\d+)\n", ready)
        self.assertTrue(ports, ready + (self.folder / "daemon.log").read_text())
        self.server, self.http_port = f"127.0.0.1:{ports[1]}", ports[2]
        return process

    def client(self, *arguments):
        return self.inside("locksley", "--server", self.server, *arguments)

    def uid_of(self, process):
        return int(re.search(r"^Uid:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)[1])

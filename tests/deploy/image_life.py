#!/usr/bin/python3
"""The container image, without an engine: the instructions of the Dockerfile's last stage, carried out in a Debian of its own, and what comes out
of them run as an engine would. A slow test, as package_life.py is. The stages before it are what deploy/test does anyway."""

import re
import shutil
import signal
import unittest

import yaml

from containers import ROOT, instructions
from debian_packages import build
from debian_tree import DebianTest

from locksley_daemon import DEADLINE_S


class Life(DebianTest):
    def carry_out(self):
        """The values of those instructions that are about running it."""
        values = {}
        for stage, word, rest in instructions():
            if stage != "image" or word == "FROM":
                continue
            if word == "RUN":
                self.inside("sh", "-c", re.sub(r"^--mount=\S+\s+", "", rest))
            elif word == "COPY":
                source, target = rest.split()
                into = self.file(target)
                shutil.copy(ROOT / source, into)
            else:
                values[word] = rest
        return values

    def test_what_it_makes_runs(self):
        shutil.copytree(self.packages(), self.file("/package"))
        values = self.carry_out()
        config = self.file("/etc/locksley/locksley.yaml")
        # The network is this machine's, where the ports may be taken.
        config.write_text(re.sub(r"port: \d+", "port: 0", config.read_text()))
        command = yaml.safe_load(values["ENTRYPOINT"]) + yaml.safe_load(values["CMD"])
        daemon = self.start(command, user=values["USER"], group=values["USER"], folder=values["WORKDIR"])
        self.assertEqual(self.uid_of(daemon), 10001)
        self.assertEqual(self.client("run", "sha256", "").split()[0], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        self.assertTrue(list(self.file(values["VOLUME"] + "/store").iterdir()))
        health = yaml.safe_load(values["HEALTHCHECK"].split("CMD")[1])
        self.inside(*health, "--http-port", self.http_port)
        daemon.send_signal(getattr(signal, values["STOPSIGNAL"]))
        self.assertEqual(daemon.wait(DEADLINE_S), 0)
        with self.assertRaises(AssertionError):
            self.inside(*health, "--http-port", self.http_port)

    def packages(self):
        folder = self.folder / "packages"
        for package in build(self.folder / "cpack").values():
            folder.mkdir(exist_ok=True)
            shutil.copy(package, folder)
        return folder


if __name__ == "__main__":
    unittest.main()

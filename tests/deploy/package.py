#!/usr/bin/python3
"""The Debian packages, without installing them: what is inside, and what lintian says."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from debian_packages import LONGEST_S, ROOT, build, field, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import program
from scratch import scratch


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = scratch(cls, "locksley-package-")
        cls.packages = build(cls.folder)
        cls.tree = {}
        for name, package in cls.packages.items():
            cls.tree[name] = cls.folder / name
            run("dpkg-deb", "--extract", package, cls.tree[name])

    def files(self, name):
        return {f"/{path.relative_to(self.tree[name])}" for path in self.tree[name].rglob("*") if not path.is_dir()}

    def test_lintian_has_nothing_to_complain_about(self):
        # perl complains of a locale that a machine does not have.
        environment = os.environ | {"LC_ALL": "C.UTF-8"}
        lintian = ["lintian", "--allow-root", "--fail-on", "error,warning", *self.packages.values()]
        done = subprocess.run(lintian, capture_output=True, text=True, timeout=LONGEST_S, env=environment)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_all_that_a_service_needs_is_there(self):
        self.assertEqual(set(self.packages), {"locksley", "locksley-dev"})
        for path in (
            "/usr/bin/locksleyd",
            "/usr/bin/locksley",
            "/usr/lib/systemd/system/locksleyd.service",
            "/etc/locksley/locksley.yaml",
            "/usr/share/man/man8/locksleyd.8.gz",
            "/usr/share/man/man1/locksley.1.gz",
            "/usr/share/man/man5/locksley.yaml.5.gz",
            "/usr/share/bash-completion/completions/locksley",
            "/usr/share/zsh/vendor-completions/_locksley",
            "/usr/share/fish/vendor_completions.d/locksley.fish",
            "/usr/share/doc/locksley/copyright",
            "/usr/share/doc/locksley/changelog.gz",
            "/usr/share/doc/locksley/CHANGELOG.md.gz",
            "/usr/share/doc/locksley/examples/locksley.yaml",
            "/usr/share/doc/locksley/examples/prometheus/alerts.yml",
            "/usr/share/doc/locksley/examples/grafana/locksley.json",
        ):
            self.assertIn(path, self.files("locksley"))
        for path in ("core/plugin.h", "core/pool/pool.h", "proto/clients/cpp/client.h"):
            self.assertIn(f"/usr/include/locksley/{path}", self.files("locksley-dev"))
        self.assertEqual(self.files("locksley") & self.files("locksley-dev"), set())

    def test_what_the_unit_and_the_pages_name_is_in_the_package(self):
        unit = (self.tree["locksley"] / "usr/lib/systemd/system/locksleyd.service").read_text()
        start = re.search(r"^ExecStart=(.*)", unit, re.MULTILINE)[1].split()
        self.assertLessEqual({start[0], start[2]}, self.files("locksley"))
        # Other programs of the unit come with packages that this one depends on.
        reload = re.search(r"^ExecReload=(\S+)", unit, re.MULTILINE)[1]
        owner = run("dpkg", "--search", reload).split(":")[0]
        self.assertRegex(field(self.packages["locksley"], "Depends"), rf"(^|, ){owner}\b")
        for page, section in re.findall(r"man:([\w.]+)\((\d)\)", unit):
            self.assertIn(f"/usr/share/man/man{section}/{page}.{section}.gz", self.files("locksley"))
        for page in (ROOT / "deploy" / "man").glob("*.[158]"):
            for path in re.findall(r"^\.It Pa (/(?:etc|usr)/\S+)", page.read_text(), re.MULTILINE):
                self.assertIn(path, self.files("locksley"), page.name)

    def test_the_configuration_is_right_and_tighter_than_the_defaults(self):
        shipped = self.tree["locksley"] / "etc/locksley/locksley.yaml"
        text = run(program("LOCKSLEYD"), "--check-config", "--config", shipped)
        self.assertIn("/var/lib/locksley/store", text)
        samples = self.folder / "samples.yaml"
        samples.write_text(re.sub("^#", "", shipped.read_text().split("handlers: {}\n")[1], flags=re.MULTILINE))
        self.assertIn("lines:", run(program("LOCKSLEYD"), "--check-config", "--config", samples))
        self.assertEqual(run("dpkg-deb", "--info", self.packages["locksley"], "conffiles").split(), ["/etc/locksley/locksley.yaml"])

    def test_versions_agree(self):
        version = run(program("LOCKSLEYD"), "--version").split()[1]
        for package in self.packages.values():
            self.assertEqual(field(package, "Version"), version)
        text = lambda path: (ROOT / path).read_text()
        self.assertRegex(text("deploy/package/changelog"), rf"^locksley \({re.escape(version)}\) ")
        self.assertRegex(text("deploy/CHANGELOG.md"), rf"(?m)\A(?:(?!## ).*\n)*## {re.escape(version)}$", "the newest version is the first")
        self.assertEqual(json.loads(text("proto/clients/node/package.json"))["version"], version)
        self.assertIn(f'\nversion = "{version}"\n', text("proto/clients/python/pyproject.toml"))
        for manifest in (ROOT / "deploy/kubernetes").glob("*.yaml"):
            self.assertEqual(set(re.findall(r"image: locksley:(\S+)", manifest.read_text())) - {version}, set(), manifest.name)

    def test_it_depends_on_what_the_programs_link_to(self):
        depends = field(self.packages["locksley"], "Depends")
        for library in ("adduser", "libc6", "librocksdb7.8", "libyaml-cpp0.7", "libsystemd0"):
            self.assertRegex(depends, rf"(^|, ){re.escape(library)}\b")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""The pages for those who come from elsewhere, deploy/coming-from/: their programs do what the pages say."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from client_packages import install_node
from page_programs import ROOT, Page

PAGES = ROOT / "deploy/coming-from"


class ComingFrom(unittest.TestCase):
    tried = set()

    def carry_out(self, name, count, modules=None):
        self.tried.add(name)
        page = Page(self, PAGES / name, {"PYTHONPATH": str(ROOT / "proto/clients/python"), "PYTHONDONTWRITEBYTECODE": "1"})
        if modules:
            (page.folder / "node_modules").symlink_to(modules)
        self.assertEqual(page.carry_out(), count)

    def test_xargs(self):
        self.carry_out("xargs.md", 14)

    def test_celery(self):
        self.carry_out("celery.md", 2)

    def test_sidekiq(self):
        folder = tempfile.TemporaryDirectory(prefix="locksley-node-")
        self.addCleanup(folder.cleanup)
        install_node(folder.name)
        self.carry_out("sidekiq.md", 3, f"{folder.name}/node_modules")

    def test_beanstalkd(self):
        self.carry_out("beanstalkd.md", 3)

    def test_outbox(self):
        self.carry_out("outbox.md", 6)

    @classmethod
    def tearDownClass(cls):
        there = {path.name for path in PAGES.glob("*.md")} - {"README.md"}
        if cls.tried and len(cls.tried) > 1 and cls.tried != there:
            raise AssertionError(f"no test carries out {sorted(there - cls.tried)}")


if __name__ == "__main__":
    unittest.main()

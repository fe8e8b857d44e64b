#!/usr/bin/python3
"""The pages of languages without a package, deploy/examples/LANGUAGE/README.md: their programs do what the pages say."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from page_programs import ROOT, Page
from scratch import scratch


class PageTest(unittest.TestCase):
    def carry_out(self, name, count, environment=None):
        self.assertEqual(Page(self, ROOT / f"deploy/examples/{name}/README.md", environment).carry_out(), count)


class Languages(PageTest):
    def test_ruby(self):
        self.carry_out("ruby", 3)

    def test_php(self):
        self.carry_out("php", 3)

    def test_perl(self):
        self.carry_out("perl", 3)

    def test_java(self):
        self.carry_out("java", 1)


class Go(PageTest):
    """Beside the others, because Debian's Go takes 465 MB: deploy/test --all."""

    def test_go(self):
        self.carry_out("go", 2, {"GOCACHE": str(scratch(self) / "cache")})


if __name__ == "__main__":
    unittest.main()

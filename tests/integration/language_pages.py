#!/usr/bin/python3
"""The pages of languages without a package, deploy/examples/LANGUAGE/README.md: their programs do what the pages say."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from page_programs import ROOT, Page


class Languages(unittest.TestCase):
    def carry_out(self, name, count):
        self.assertEqual(Page(self, ROOT / f"deploy/examples/{name}/README.md").carry_out(), count)

    def test_ruby(self):
        self.carry_out("ruby", 2)

    def test_php(self):
        self.carry_out("php", 2)

    def test_perl(self):
        self.carry_out("perl", 2)

    def test_java(self):
        self.carry_out("java", 1)


if __name__ == "__main__":
    unittest.main()

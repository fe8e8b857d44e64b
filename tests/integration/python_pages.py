#!/usr/bin/python3
"""The page of the Python package, proto/clients/python/README.md: its programs are carried out, with the package installed as its users install it. And
what deploy/client-packages builds."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from client_packages import ROOT, install_python
from cryptography.fernet import Fernet
from page_programs import Page

PACKAGE = ROOT / "proto/clients/python"


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="locksley-python-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.installed = install_python(cls.folder)

    def test_its_programs_do_what_it_says(self):
        environment = {"PYTHONPATH": str(self.installed), "SECRET_KEY": Fernet.generate_key().decode(), "PYTHONDONTWRITEBYTECODE": "1"}
        page = Page(self, PACKAGE / "README.md", environment)
        self.assertGreater(page.carry_out(), 8)

    def test_what_is_installed(self):
        sources = {path.name for path in (PACKAGE / "locksley").iterdir() if path.suffix in (".py", ".typed")}
        self.assertLessEqual(sources, {path.name for path in (self.installed / "locksley").iterdir()})

    def test_another_python_in_front_of_debians_builds_nothing(self):
        """It may lack setuptools or wheel, for example in an environment of its own."""
        with tempfile.TemporaryDirectory() as folder:
            other = pathlib.Path(folder, "python3")
            other.write_text("#!/bin/sh\necho another python >&2; exit 9\n")
            other.chmod(0o755)
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", PIP_ROOT_USER_ACTION="ignore")
            done = subprocess.run([ROOT / "deploy/client-packages", f"{folder}/into", "python"], env=environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(len(list(pathlib.Path(folder, "into").glob("*.whl"))), 1)

    def test_what_is_built(self):
        names = sorted(path.name for path in (self.folder / "packages").iterdir())
        version = re.search(r"project\(locksley VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(names, ["SHA256SUMS", f"locksley-{version}-py3-none-any.whl", f"locksley-client-{version}.tgz"])
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=self.folder / "packages", check=True)
        self.assertEqual(json.loads((ROOT / "proto/clients/node/package.json").read_text())["version"], version)
        said = subprocess.run([sys.executable, "-c", "import locksley; print(locksley.__version__)"], capture_output=True, text=True, cwd=self.installed)
        self.assertEqual(said.stdout.strip(), version)


if __name__ == "__main__":
    unittest.main()

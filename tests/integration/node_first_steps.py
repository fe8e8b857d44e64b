#!/usr/bin/python3
"""The Node.js package as a newcomer meets it: installed by the commands of its page."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S
from node_package import NODE, PACKAGE

IMPORT = "import('@locksley/client').then(({ Locksley }) => console.log(typeof Locksley))"


class Installation(unittest.TestCase):
    def test_the_commands_of_the_page_install_a_package_that_finds_ioredis(self):
        commands = re.findall(r"npm install [^`\n]*/proto/clients/node\b", (PACKAGE / "README.md").read_text())
        self.assertEqual(len(commands), 2)
        for command in commands:
            with tempfile.TemporaryDirectory(prefix="locksley-npm-") as folder:
                # ioredis is there already, because the tests ask no registry.
                large = shutil.ignore_patterns(".*", "@types", "axe-core", "playwright-core", "pyright", "typescript")
                shutil.copytree(pathlib.Path(os.environ["LOCKSLEY_NODE_MODULES"]) / "node_modules", f"{folder}/node_modules", ignore=large)
                command = re.sub(r" \S*/proto/clients/node$", f" {PACKAGE}", command.replace(" ioredis@5 ", " "))
                done = subprocess.run(["bash", "-c", f'{command} --offline --no-audit --no-fund >&2 && "$0" -e "$1"', NODE, IMPORT], cwd=folder,
                                      env=dict(os.environ, npm_config_cache=f"{folder}/cache"), capture_output=True, text=True, timeout=DEADLINE_S)
                self.assertEqual(done.stdout, "function\n", f"{command}\n{done.stderr}")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""The types of the Python package: mypy and pyright find nothing in strict mode, as in Python 3.9, and see what a task returns."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "proto/clients/python"
GOOD = """from typing import List
import locksley

app = locksley.App()

@app.task
def length(text: str) -> int:
    return len(text)

@app.task(retries=3)
async def words(text: str) -> List[str]:
    return text.split()

numbers: List[int] = list(length.map(["a"]).values())
for result in words.map(["a b"]):
    several: List[str] = result.value
attempt: int = length.map(["a"]).job(0).attempt

async def main() -> int:
    batch = await length.amap(["a"])
    async for one in batch:
        number: int = one.value
        print(number)
    return await batch.aresult()
"""
WRONG = GOOD + "\nwrong: str = length.submit('a').result()\n"


class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(PACKAGE, self.folder / "package", ignore=shutil.ignore_patterns("__pycache__"))
        (self.folder / "package/good.py").write_text(GOOD)
        (self.folder / "package/wrong.py").write_text(WRONG)

    def assert_only_the_wrong_line_is_found(self, *command):
        done = subprocess.run([*command, "locksley", "good.py", "wrong.py"], cwd=self.folder / "package", capture_output=True, text=True)
        said = done.stdout + done.stderr
        found = [line for line in said.splitlines() if " error: " in line or " - error" in line]
        self.assertEqual(len(found), 1, said)
        self.assertRegex(found[0], rf"wrong\.py:{WRONG.count(chr(10))}:.*int")

    def test_mypy(self):
        self.assert_only_the_wrong_line_is_found("/usr/bin/mypy", "--strict", "--python-version", "3.9")

    def test_pyright(self):
        program = pathlib.Path(os.environ["LOCKSLEY_NODE_MODULES"]) / "node_modules/pyright/index.js"
        self.assert_only_the_wrong_line_is_found("node", str(program), "--pythonpath", sys.executable)


if __name__ == "__main__":
    unittest.main()

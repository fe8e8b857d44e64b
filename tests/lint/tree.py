"""What the lints share: the list of the tree's files, C++ text without comments, and a main() with a self-test.

A lint is a function from a tree (a dict of path to text) to a list of findings. Run without arguments it looks at the
repository; with --self-test it looks at its own samples, each a tiny tree that is clean or holds a known fault.
"""

import json
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_SOURCE = {"build", ".git", ".cache", "node_modules", "__pycache__"}


class Finding(NamedTuple):
    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


class Sample(NamedTuple):
    """A tiny tree, and a word of the one finding that it must give (None: it is clean)."""

    name: str
    files: dict
    expect: str | None


def paths():
    """All files that are, or would be, under version control. Without git (a tarball): all but build trees."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        ).stdout.decode()
        found = [path for path in listed.split("\0") if path]
    except (OSError, subprocess.CalledProcessError):
        found = [
            str(path.relative_to(ROOT))
            for path in ROOT.rglob("*")
            if not any(part in NOT_SOURCE or part.startswith("build-") for part in path.relative_to(ROOT).parts)
        ]
    return sorted({path for path in found if (ROOT / path).is_file()})


def load(keep=lambda path: True):
    """The tree as {path: text}; files that are not text are left out."""
    tree = {}
    for path in paths():
        if not keep(path):
            continue
        try:
            tree[path] = (ROOT / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError):
            pass
    return tree


_UNITY = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def compile_commands(build):
    """The entries of the build's compile_commands.json. CMake's unity builds have one entry for several sources: here each has its own."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"])
        if file.parent.name != "Unity":
            yield entry
            continue
        for source in _UNITY.findall(file.read_text()):
            yield entry | {"file": source, "command": entry["command"].replace(entry["file"], source)}


def is_cpp(path):
    return path.endswith((".h", ".cc"))


_TOKEN = re.compile(
    r"""//[^\n]*                                  # line comment
      | /\*.*?\*/                                 # block comment
      | R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"  # raw string
      | "(?:\\.|[^"\\\n])*"                       # string
      | (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+'      # character, not a digit separator
    """,
    re.VERBOSE | re.DOTALL,
)


def code_only(text):
    """The same number of lines, with comments and the contents of literals blanked."""

    def blank(match):
        token = match.group(0)
        lines = "\n" * token.count("\n")
        return lines if token.startswith("/") else '""' + lines

    return _TOKEN.sub(blank, text)


def self_test(check, samples):
    """True if every sample gives what it says. A lint without a faulty sample has not been tested."""
    assert any(sample.expect for sample in samples), "no faulty sample"
    good = True
    for sample in samples:
        found = [str(finding) for finding in check(sample.files)]
        if sample.expect is None and found:
            print(f"self-test: '{sample.name}' is clean, but: {found}")
            good = False
        if sample.expect is not None and not any(sample.expect in line for line in found):
            print(f"self-test: '{sample.name}' should give a finding with '{sample.expect}', gave {found}")
            good = False
    return good


def main(check, samples, keep=lambda path: True):
    if "--self-test" in sys.argv[1:]:
        sys.exit(0 if self_test(check, samples) else 1)
    tree = load(keep)
    if not tree:
        sys.exit("no file to look at: is this the repository?")
    findings = check(tree)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit(1)
    print(f"{len(tree)} files, nothing found")

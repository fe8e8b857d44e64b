#!/usr/bin/python3
"""Every .h and .cc is as clang-format leaves it. To repair: clang-format-19 -i FILE…"""

import subprocess
import sys

import tree

CLANG_FORMAT = "clang-format-19"  # by number: another version formats differently


def check(paths):
    """What clang-format says about them; empty if nothing."""
    done = subprocess.run([CLANG_FORMAT, "--dry-run", "--Werror", *paths], cwd=tree.ROOT, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def self_test():
    style = ["--style=file", "--assume-filename=core/sample.cc"]

    def format(text):
        return subprocess.run([CLANG_FORMAT, *style], cwd=tree.ROOT, input=text, capture_output=True, text=True, check=True).stdout

    assert format("int  f( ){return 1 ;}\n") == "int f() { return 1; }\n"
    line = "int a_long_name_" + "x" * 30 + "(int first_" + "y" * 18 + ", int second_" + "z" * 18 + ");\n"
    assert len(line) <= 111 and format(line) == line, "110 columns are allowed"


if __name__ == "__main__":
    if "--self-test" in sys.argv[1:]:
        self_test()
        sys.exit(0)
    paths = [path for path in tree.paths() if tree.is_cpp(path)]
    said = check(paths)
    print(said or f"{len(paths)} files, all formatted")
    sys.exit(1 if said or not paths else 0)

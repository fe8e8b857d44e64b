#!/usr/bin/python3
"""Every .h and .cc is as clang-format leaves it; to repair: clang-format-19 -i FILE…

clang-format leaves comments alone: those that have a line of their own are wrapped by hand, at 100 columns. Lists are, too; tables and
examples, which have columns of their own, are not."""

import re
import subprocess
import sys

import tree

CLANG_FORMAT = "clang-format-19"  # by number: another version formats differently
COMMENT = re.compile(r"\s*//(\s*)(\S.*)")
COMMENT_WIDTH = 100


def check(paths):
    """What clang-format says about the files; empty: nothing."""
    done = subprocess.run([CLANG_FORMAT, "--dry-run", "--Werror", *paths], cwd=tree.ROOT, capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def wide_comments(path, text):
    """A finding for each comment that is too wide; a comment of a single word, such as an address, cannot be wrapped."""
    for number, line in enumerate(text.split("\n"), 1):
        comment = COMMENT.fullmatch(line)
        if not comment or len(line) <= COMMENT_WIDTH or " " not in comment[2]:
            continue
        is_indented = len(comment[1]) > 1
        if not is_indented or "  " not in comment[2]:
            yield f"{path}:{number}: {len(line)} columns: comments are wrapped at {COMMENT_WIDTH}"


def self_test():
    style = ["--style=file", "--assume-filename=core/sample.cc"]

    def format(text):
        return subprocess.run([CLANG_FORMAT, *style], cwd=tree.ROOT, input=text, capture_output=True, text=True, check=True).stdout

    assert format("int  f( ){return 1 ;}\n") == "int f() { return 1; }\n"
    line = "int a_long_name_" + "x" * 30 + "(int first_" + "y" * 18 + ", int second_" + "z" * 18 + ");\n"
    assert len(line) <= 111 and format(line) == line, "110 columns are allowed"
    word, words = "x" * 120, "word " * 30
    assert list(wide_comments("a.h", f"// {words}\n")) == ["a.h:1: 153 columns: comments are wrapped at 100"]
    assert not list(wide_comments("a.h", f"// {word}\n// short\nint a = {words};  // code\n"))
    assert list(wide_comments("a.h", f"//   - {words}\n")), "a list"
    assert not list(wide_comments("a.h", f"//   {words}  column\n")), "a table"


if __name__ == "__main__":
    if "--self-test" in sys.argv[1:]:
        self_test()
        sys.exit(0)
    paths = [path for path in tree.paths() if tree.is_cpp(path)]
    wide = [finding for path in paths for finding in wide_comments(path, (tree.ROOT / path).read_text())]
    said = "\n".join([*wide, check(paths)]).strip("\n")
    print(said or f"{len(paths)} files, all formatted")
    sys.exit(1 if said or not paths else 0)

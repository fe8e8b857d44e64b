#!/usr/bin/python3
"""The shape of the tree: no drawer for things without a name (util, common, misc), a README.md in every folder, no
overlong file without a reason, every source file built, no silenced lint, no skipped test."""

import posixpath
import re

import tree
from tree import Finding, Sample

DRAWERS = {"util", "utils", "utility", "utilities", "common", "misc", "miscellaneous", "helpers", "stuff"}
CODE = (".h", ".cc", ".py", ".cmake", ".sh", ".js", ".mjs")
LONG, TOO_LONG = 400, 800
LENGTH = re.compile(r"^\s*(?://|#)\s*Length: \S.{10,}", re.MULTILINE)
# Folders whose sub-folders are small enough to be described in the parent's README.md, by name.
DESCRIBED_ABOVE = ("tests",)
SILENCED = re.compile("NO" + r"LINT|clang-format off(?!: \S)|shellcheck disable(?!=SC\d+ *#)")
SKIPPED = re.compile(r"\bGTEST_SKIP\b|\bDISABLED_\w+|@unittest\.skip|\bskipTest\(|pytest\.mark\.(skip|xfail)")


def drawers(files):
    for path in files:
        for part in path.split("/"):
            if part.split(".")[0].lower() in DRAWERS:
                yield Finding(path, 1, f"'{part}' says nothing about what is inside")


def readmes(files):
    folders = {""}
    for path in files:
        folder = posixpath.dirname(path)
        while folder:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    for folder in sorted(folders):
        if folder.startswith("."):
            continue
        readme = posixpath.join(folder, "README.md")
        if readme in files:
            continue
        top, _, rest = folder.partition("/")
        if rest and top in DESCRIBED_ABOVE:
            name = rest.split("/")[0]
            if f"{name}/" not in files.get(f"{top}/README.md", ""):
                yield Finding(f"{top}/README.md", 1, f"does not say what {name}/ is")
        else:
            yield Finding(readme, 1, "missing: what is in this folder, and why?")


def lengths(files):
    for path, text in files.items():
        count = text.count("\n")
        if not path.endswith(CODE) or count <= LONG:
            continue
        if count > TOO_LONG:
            yield Finding(path, TOO_LONG, f"{count} lines: split it")
        elif not LENGTH.search(text):
            yield Finding(path, LONG, f"{count} lines, and no line `Length: reason` says why")


def unbuilt(files):
    for path in files:
        if not path.endswith(".cc"):
            continue
        folder = posixpath.dirname(path)
        while True:
            text = files.get(posixpath.join(folder, "CMakeLists.txt"), "")
            relative = posixpath.relpath(path, folder or ".")
            if re.search(r"(?<![\w./-])(?:\$\{CMAKE_CURRENT_SOURCE_DIR\}/)?" + re.escape(relative) + r"(?![\w.])", text):
                break
            if not folder:
                yield Finding(path, 1, "no CMakeLists.txt lists it, so nothing builds it")
                break
            folder = posixpath.dirname(folder)


def silence(files):
    for path, text in files.items():
        if path.startswith("tests/lint/"):
            continue
        if not path.endswith(CODE) and "\n" in text and not text.startswith("#!"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if SILENCED.search(line):
                yield Finding(path, number, "silences a lint: change the code, or the lint for everyone (a table: `clang-format off: reason`)")
            if path.startswith("tests/") and SKIPPED.search(line):
                yield Finding(path, number, "a test that is skipped: repair it or remove it")


def check(files):
    return [finding for part in (drawers, readmes, lengths, unbuilt, silence) for finding in part(files)]


HOME = {"README.md": "", "core/README.md": "", "core/CMakeLists.txt": "add_library(core deque.cc)\n"}
SAMPLES = [
    Sample("clean", HOME | {"core/deque.cc": "int x;\n"}, None),
    Sample("drawer", HOME | {"core/util.h": ""}, "says nothing"),
    Sample("drawer folder", HOME | {"core/common/x.h": "", "core/common/README.md": ""}, "says nothing"),
    Sample("folder without README", HOME | {"daemon/main.h": ""}, "daemon/README.md"),
    Sample("sub-folder without README", HOME | {"core/x/y.h": ""}, "core/x/README.md"),
    Sample("tests describe theirs", HOME | {"tests/README.md": "unit/ is small", "tests/unit/core/a.h": ""}, None),
    Sample("tests forget one", HOME | {"tests/README.md": "unit/ is small", "tests/stress/a.h": ""}, "what stress/ is"),
    Sample("long", HOME | {"core/a.h": "int x;\n" * 401}, "401 lines"),
    Sample("long, with reason", HOME | {"core/a.h": "// Length: one table of all commands\n" + "int x;\n" * 401}, None),
    Sample("far too long", HOME | {"core/a.h": "// Length: one table of all commands\n" + "int x;\n" * 801}, "split it"),
    Sample("unbuilt", HOME | {"core/lost.cc": ""}, "nothing builds it"),
    Sample("suffix of another name", HOME | {"core/que.cc": ""}, "nothing builds it"),
    Sample("silenced", HOME | {"core/a.h": "int x;  // NO" + "LINT\n"}, "silences a lint"),
    Sample("a table laid out by hand", HOME | {"core/a.h": "// clang-format off: columns\nint x;\n// clang-format on\n"}, None),
    Sample("no reason why", HOME | {"core/a.h": "// clang-format off\nint x;\n"}, "silences a lint"),
    Sample("skipped", HOME | {"tests/README.md": "unit/", "tests/unit/a.h": "TEST(A, DISABLED_B) {}\n"}, "skipped"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES)

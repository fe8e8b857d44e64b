#!/usr/bin/python3
"""The shape of the tree: no drawer for things without a name (util, common, misc), a README.md in every folder, which
names all sources of the folder if it names one, no overlong file without a reason, no overlong test function, every source file built, each unit test in the folder of
its subject, no two classes of one name in a namespace, enumerators in kPascalCase,
no silenced lint, no skipped test, and one place that reads the clocks."""

import ast
import fnmatch
import posixpath
import re

import tree
from tree import Finding, Sample

DRAWERS = {"util", "utils", "utility", "utilities", "common", "misc", "miscellaneous", "helpers", "stuff"}
CODE = (".h", ".cc", ".py", ".cmake", ".sh", ".js", ".mjs")
LONG, TOO_LONG = 400, 800
LONG_TEST = 80  # lines of a test function
TEST_BEGINS = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\((.*?)(?:\)|$)", re.MULTILINE)
LENGTH = re.compile(r"^\s*(?://|#)\s*Length: \S.{10,}", re.MULTILINE)
# Folders whose sub-folders are small enough to be described in the parent's README.md, by name.
DESCRIBED_ABOVE = ("tests", "deploy/helm")  # a README.md in a chart would become part of it
SILENCED = re.compile("NO" + r"LINT|clang-format off(?!: \S)|shellcheck disable(?!=SC\d+ *#)")
ENUM = re.compile(r"\benum\s+(?:class|struct)\b[^{;]*\{([^}]*)\}")
ENUMERATOR = re.compile(r"(?:^|,)\s*(\w+)")
NAMESPACE = re.compile(r"^namespace(?: ([\w:]+))? \{|^\}  // namespace", re.MULTILINE)
CLASS = re.compile(r"^(?:class|struct|enum (?:class|struct)) (?:LOCKSLEY_\w+(?:\([^)]*\))? |\[\[\w+\]\] |alignas\([^)]*\) )*(\w+)(?: final)?(?=\s*(?::[^:;]|\{))", re.MULTILINE)
# core/base/job.h reads the clocks for core and the daemon, proto/clients/cpp/deadline.h names one for the client library, which knows nothing of core.
CLOCK = "core/base/job.h"
READS_CLOCK = re.compile(r"\b\w*(?:_clock|Clock)::now\(")
READS_CLOCK_OF_CLIENT = re.compile(r"\b\w+_clock::now\(")
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
        above = next((above for above in DESCRIBED_ABOVE if folder.startswith(f"{above}/")), None)
        if above:
            name = folder[len(above) + 1 :].split("/")[0]
            if f"{name}/" not in files.get(f"{above}/README.md", ""):
                yield Finding(f"{above}/README.md", 1, f"does not say what {name}/ is")
        else:
            yield Finding(readme, 1, "missing: what is in this folder, and why?")


def unnamed(files):
    """A README.md with a table of the folder's files has all of them. A file may be there by its name, its name without the ending, or a pattern."""
    for readme, text in files.items():
        if not readme.endswith("/README.md"):
            continue
        folder = posixpath.dirname(readme)
        stems = sorted({posixpath.basename(path).rsplit(".", 1)[0] for path in files
                        if posixpath.dirname(path) == folder and path.endswith((".h", ".cc"))})
        words = {posixpath.basename(word) for word in re.findall(r"[\w./*-]+", text)}
        # Only in `code`: elsewhere ** makes words bold.
        codes = " ".join(re.findall(r"`([^`\n]+)`", text)).split()
        patterns = [posixpath.basename(code) for code in codes if "*" in code and re.search(r"\w", posixpath.basename(code))]
        names = words | {word.rsplit(".", 1)[0] for word in words}
        missing = [stem for stem in stems if stem not in names and not any(fnmatch.fnmatch(f"{stem}.cc", each) or fnmatch.fnmatch(stem, each) for each in patterns)]
        if len(missing) < len(stems):
            yield from (Finding(readme, 1, f"names some sources of the folder, and not {stem}") for stem in missing)


def lengths(files):
    for path, text in files.items():
        count = text.count("\n")
        if not path.endswith(CODE) or count <= LONG:
            continue
        if count > TOO_LONG:
            yield Finding(path, TOO_LONG, f"{count} lines: split it")
        elif not LENGTH.search(text):
            yield Finding(path, LONG, f"{count} lines, and no line `Length: reason` says why")


def test_functions(path, text):
    """Each test function: its name, its first line and its number of lines. In Python every function counts."""
    if path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, node.lineno, node.end_lineno - node.lineno + 1
    elif path.endswith(".cc"):
        for found in TEST_BEGINS.finditer(text):
            first = text.count("\n", 0, found.start()) + 1
            # clang-format puts the brace that ends a function at the beginning of a line.
            end = text.find("\n}", found.start())
            yield found[1], first, text.count("\n", found.start(), end) + 2


def long_tests(files):
    for path, text in files.items():
        if not path.startswith("tests/"):
            continue
        lines = text.split("\n")
        for name, first, count in test_functions(path, text):
            # A table says so in its first lines, or just above.
            if count > LONG_TEST and not LENGTH.search("\n".join(lines[max(0, first - 4) : first + 3])):
                yield Finding(path, first, f"{name}: {count} lines, and a test function has {LONG_TEST} at most, but for a table (`Length: reason`)")


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


def part_of(folder):
    """A part of the program: a folder of `daemon`, or one of the other folders at the top."""
    parts = folder.split("/")
    return tuple(parts[: 2 if parts[0] == "daemon" else 1])


def misplaced_tests(files):
    """A unit test is in the folder of its subject: that of the source of this name, or else one that has sources."""
    folders_of, with_sources = {}, set()
    for path in files:
        if path.startswith(("core/", "daemon/", "proto/", "config/")) and path.endswith((".h", ".cc")):
            name = posixpath.splitext(posixpath.basename(path))[0]
            folders_of.setdefault(name, set()).add(posixpath.dirname(path))
            with_sources.add(posixpath.dirname(path))
    for path in files:
        if not path.startswith("tests/unit/") or not path.endswith("_test.cc"):
            continue
        folder = posixpath.dirname(path).removeprefix("tests/unit/")
        subjects = {one for one in folders_of.get(posixpath.basename(path).removesuffix("_test.cc"), ()) if part_of(one) == part_of(folder)}
        if folder not in (subjects or with_sources):
            places = ", ".join(f"tests/unit/{one}" for one in sorted(subjects)) or "a folder of tests/unit that mirrors one of the sources"
            yield Finding(path, 1, f"belongs in {places}")


def twins(files):
    """The linker takes one of two inline functions of the same name, so one of two such classes would be destroyed by the other's destructor."""
    first = {}
    for path, text in sorted(files.items()):
        if not path.endswith(".h") or path.startswith("tests/"):
            continue
        code = tree.code_only(text)
        # A class of a class is indented. By lines, which both texts have in common.
        lines = [(where.count("\n", 0, found.start()) + 1, found) for form, where in ((NAMESPACE, text), (CLASS, code)) for found in form.finditer(where)]
        inside = []
        for line, found in sorted(lines, key=lambda pair: pair[0]):
            if found.re is CLASS:
                name = "::".join([*inside, found[1]])
                if first.setdefault(name, path) != path:
                    yield Finding(path, line, f"{name} is also a class of {first[name]}: the linker would mix them up")
            elif found[0].startswith("namespace"):
                inside.append(found[1] or "")
            elif inside:
                inside.pop()


def enumerators(files):
    for path, text in files.items():
        if not tree.is_cpp(path):
            continue
        code = tree.code_only(text)
        for enum in ENUM.finditer(code):
            for found in ENUMERATOR.finditer(enum[1]):
                if not re.match(r"k[A-Z0-9]", found[1]):
                    yield Finding(path, code.count("\n", 0, enum.start(1) + found.start(1)) + 1, f"enumerators are kPascalCase, not {found[1]}")


def silence(files):
    for path, text in files.items():
        if path.startswith("tests/lint/"):
            continue
        if not path.endswith(CODE) and "\n" in text and not text.startswith("#!"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if SILENCED.search(line):
                yield Finding(path, number, "silences a lint: change the code, or the lint itself (a table: `clang-format off: reason`)")
            if path.startswith("tests/") and SKIPPED.search(line):
                yield Finding(path, number, "a test that is skipped: repair it or remove it")


def clocks(files):
    for path, text in files.items():
        if not tree.is_cpp(path) or not path.startswith(("core/", "config/", "daemon/", "proto/")) or path == CLOCK:
            continue
        reads = READS_CLOCK_OF_CLIENT if path.startswith("proto/") else READS_CLOCK
        instead = "client::Clock of proto/clients/cpp/deadline.h" if path.startswith("proto/") else f"now() or wall_now() of {CLOCK}"
        for number, line in enumerate(tree.code_only(text).split("\n"), 1):
            if reads.search(line):
                yield Finding(path, number, f"reads a clock: use {instead}")


def check(files):
    return [finding for part in (drawers, readmes, unnamed, lengths, long_tests, unbuilt, misplaced_tests, twins, enumerators, silence, clocks) for finding in part(files)]


HOME = {"README.md": "", "core/README.md": "", "core/CMakeLists.txt": "add_library(core deque.cc)\n"}
TESTS = HOME | {"tests/README.md": "unit/", "tests/CMakeLists.txt": "unit/core/a_test.cc", "core/a.h": ""}
TWIN = "namespace x {\nclass A {\n  class C {};\n};\n}  // namespace x\n"
LONG_CPP = "TEST(LongTest, IsLong) {\n" + "  int x;\n" * 79 + "}\n"
SAMPLES = [
    Sample("clean", HOME | {"core/deque.cc": "int x;\n"}, None),
    Sample("drawer", HOME | {"core/util.h": ""}, "says nothing"),
    Sample("drawer folder", HOME | {"core/common/x.h": "", "core/common/README.md": ""}, "says nothing"),
    Sample("folder without README", HOME | {"daemon/main.h": ""}, "daemon/README.md"),
    Sample("sub-folder without README", HOME | {"core/x/y.h": ""}, "core/x/README.md"),
    Sample("tests describe theirs", HOME | {"tests/README.md": "unit/ is small", "tests/unit/core/a.h": ""}, None),
    Sample("a chart is described above it", HOME | {"deploy/README.md": "", "deploy/helm/README.md": "`chart/`", "deploy/helm/chart/templates/a.yaml": ""}, None),
    Sample("tests forget one", HOME | {"tests/README.md": "unit/ is small", "tests/stress/a.h": ""}, "what stress/ is"),
    Sample("a table that lacks a file", HOME | {"core/README.md": "| `deque.*` | a deque |", "core/deque.cc": "", "core/deque.h": "", "core/ring.h": ""}, "and not ring"),
    Sample("a table by names, endings and patterns", HOME | {"core/README.md": "`deque.*`, `ring.h`, `pool_*.cc`, lane", "core/deque.cc": "", "core/ring.h": "", "core/lane.h": "", "core/pool_x.h": ""}, None),
    Sample("long", HOME | {"core/a.h": "int x;\n" * 401}, "401 lines"),
    Sample("long, with reason", HOME | {"core/a.h": "// Length: one table of all commands\n" + "int x;\n" * 401}, None),
    Sample("far too long", HOME | {"core/a.h": "// Length: one table of all commands\n" + "int x;\n" * 801}, "split it"),
    Sample("long test", TESTS | {"tests/unit/core/a_test.cc": LONG_CPP}, "LongTest, IsLong: 81 lines"),
    Sample("test of the greatest length", TESTS | {"tests/unit/core/a_test.cc": LONG_CPP.replace("  int x;\n", "", 1)}, None),
    Sample("long function that is no test", TESTS | {"core/a.h": LONG_CPP}, None),
    Sample("long test in Python", TESTS | {"tests/unit/a.py": "def test_a():\n" + "    x = 1\n" * 80}, "test_a: 81 lines"),
    Sample("a table in Python", TESTS | {"tests/unit/a.py": "def cases():\n    # Length: one table of all cases\n" + "    x = 1\n" * 80}, None),
    Sample("unbuilt", HOME | {"core/lost.cc": ""}, "nothing builds it"),
    Sample("suffix of another name", HOME | {"core/que.cc": ""}, "nothing builds it"),
    Sample("a test of several sources", TESTS | {"tests/CMakeLists.txt": "unit/core/all_test.cc", "tests/unit/core/all_test.cc": ""}, None),
    Sample("a test beside its subject's namesake", TESTS | {"tests/unit/core/a_test.cc": "", "daemon/cli/a.h": "", "daemon/README.md": "", "daemon/cli/README.md": ""}, None),
    Sample("a test above its subject", HOME | {"tests/README.md": "unit/", "tests/CMakeLists.txt": "unit/core/a_test.cc", "tests/unit/core/a_test.cc": "", "core/x/a.h": "", "core/x/README.md": ""},
           "tests/unit/core/a_test.cc:1: belongs in tests/unit/core/x"),
    Sample("a test in no folder of the sources", TESTS | {"tests/CMakeLists.txt": "unit/core/x/b_test.cc", "tests/unit/core/x/b_test.cc": ""}, "mirrors one of the sources"),
    Sample("two classes", HOME | {"core/a.h": TWIN, "core/b.h": TWIN.replace("class A {", "struct A;\nclass B final : public A {")}, None),
    Sample("two classes of one name", HOME | {"core/a.h": TWIN, "core/b.h": TWIN.replace("class A {", "class A final : public B {")}, "core/b.h:2: x::A is also a class of core/a.h"),
    Sample("one name in two namespaces", HOME | {"core/a.h": TWIN, "core/b.h": TWIN.replace(" x ", " y ")}, None),
    Sample("enumerators", HOME | {"core/a.h": "enum class A : int { kOne = 1 << 2,  // one\n  kTwo };\nenum { LIKE_C };\n"}, None),
    Sample("an enumerator like a variable", HOME | {"core/a.h": "enum class A {\n  kOne = 1,\n  two\n};\n"}, "core/a.h:3: enumerators are kPascalCase, not two"),
    Sample("silenced", HOME | {"core/a.h": "int x;  // NO" + "LINT\n"}, "silences a lint"),
    Sample("a table laid out by hand", HOME | {"core/a.h": "// clang-format off: columns\nint x;\n// clang-format on\n"}, None),
    Sample("no reason why", HOME | {"core/a.h": "// clang-format off\nint x;\n"}, "silences a lint"),
    Sample("a clock", HOME | {"core/a.h": "// steady_clock::now()\nconst auto at = std::chrono::steady_clock::now();\n"}, "core/a.h:2: reads a clock"),
    Sample("a clock by another name", HOME | {"core/a.h": "using Clock = std::chrono::steady_clock;\nconst auto at = Clock::now();\n"}, "core/a.h:2: reads a clock"),
    Sample("the place that reads the clocks", HOME | {"core/base/README.md": "", "core/base/job.h": "return std::chrono::system_clock::now();\n"}, None),
    Sample("the client's clock", HOME | {"proto/README.md": "", "proto/a.h": "return Clock::now() + time;\n"}, None),
    Sample("a clock of the client's own", HOME | {"proto/README.md": "", "proto/a.h": "return std::chrono::steady_clock::now();\n"}, "reads a clock"),
    Sample("a clock in a test", HOME | {"tests/README.md": "unit/", "tests/unit/a.h": "std::chrono::steady_clock::now();\n"}, None),
    Sample("skipped", HOME | {"tests/README.md": "unit/", "tests/unit/a.h": "TEST(A, DISABLED_B) {}\n"}, "skipped"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES)

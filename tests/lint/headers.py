#!/usr/bin/python3
"""Every header compiles alone: a file that includes it and nothing else is valid, with the flags of the folder that it
lives in. A header that passed is not compiled again until it, or something it includes, changes. Left out is a header that a source of
the build includes before all else, and that guards itself by #pragma once: the build compiles it alone, unless that source is one of
several that are compiled as one. Left out are also the headers of tests: no program has them, and they include much. deploy/test --all looks
at all of these as well.

    headers.py --build BUILD_DIRECTORY [--every]   (needs its compile_commands.json)"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import tree

DROPPED_WITH_VALUE = {"-o", "-MF", "-MT", "-MQ"}
DROPPED = {"-c", "-MD", "-MMD"}


def flags_by_folder(build):
    """Folder -> (compiler, flags) of some file in it, as the build compiles it."""
    found = {}
    for entry in tree.compile_commands(build):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not source.is_relative_to(tree.ROOT) or source.is_relative_to(build):
            continue
        words = shlex.split(entry["command"])
        if words and os.path.basename(words[0]) == "ccache":
            words = words[1:]
        flags, skip = [], False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in DROPPED_WITH_VALUE:
                skip = True
            elif word not in DROPPED and pathlib.Path(entry["directory"], word).resolve() != source:
                flags.append(word)
        found.setdefault(str(source.parent.relative_to(tree.ROOT)), (words[0], flags))
    return found


_FIRST = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"\n]*)")?', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)


def first_include(text):
    """The header of this tree that a source begins with: what comes before it is comments. Else None."""
    # What is between quotes, code_only() would take away.
    found = _FIRST.search(text)
    return found[1] if found and not tree.code_only(text[:found.start()]).strip() else None


def compiled_by_sources(build, root):
    """The headers that some source of the build begins with, and that may be included twice."""
    found = set()
    for entry in tree.compile_commands(build):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if source.is_relative_to(root) and not source.is_relative_to(build) and source.is_file():
            found.add(first_include(source.read_text()))
    return {header for header in found if header and (root / header).is_file() and _ONCE.search((root / header).read_text())}


def flags_for(header, by_folder):
    """Those of the header's folder, else of a sub-folder, else of the nearest parent that has any; else the bare minimum."""
    folder = pathlib.PurePosixPath(header).parent
    while str(folder) != ".":
        if str(folder) in by_folder:
            return by_folder[str(folder)]
        for other in sorted(by_folder):
            if other.startswith(f"{folder}/"):
                return by_folder[other]
        folder = folder.parent
    return "g++", ["-std=c++23", "-Wall", "-Wextra", "-I", str(tree.ROOT)]


def up_to_date(stamp, words):
    """True if the last success was with these flags and no file it read has changed since."""
    try:
        recorded, *read = stamp.read_text().split("\n")
        return recorded == words and all(os.stat(path).st_mtime <= stamp.stat().st_mtime for path in read if path)
    except OSError:
        return False


def compile_alone(header, root, compiler, flags, cache):
    """None, or what the compiler said."""
    stamp = cache / (header.replace("/", "+") + ".ok")
    words = shlex.join([compiler, *flags])
    if up_to_date(stamp, words):
        return None
    with tempfile.TemporaryDirectory() as scratch:
        unit, rule = pathlib.Path(scratch, "alone.cc"), pathlib.Path(scratch, "alone.d")
        # Twice, so that a missing #pragma once shows as well.
        unit.write_text(f'#include "{header}"\n#include "{header}"\n')
        # Optimisation and debug information cost time here and find nothing.
        command = [compiler, *flags, "-O0", "-g0", "-U_FORTIFY_SOURCE", "-I", str(root), "-fsyntax-only", "-MD", "-MF", str(rule), str(unit)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr
        read = rule.read_text().split(":", 1)[1].replace("\\\n", " ").split()
    cache.mkdir(parents=True, exist_ok=True)
    stamp.write_text("\n".join([words, *(path for path in read if os.path.exists(path))]))
    return None


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        root, cache = pathlib.Path(scratch), pathlib.Path(scratch, "cache")
        flags = ["-std=c++23", "-Wall", "-Werror"]
        (root / "alone.h").write_text("#pragma once\n#include <vector>\nstd::vector<int> numbers();\n")
        (root / "leans.h").write_text("#pragma once\nstd::vector<int> numbers();\n")
        (root / "twice.h").write_text("struct Unguarded {};\n")
        (root / "warns.h").write_text("#pragma once\ninline int f() { int unused = 1; return 2; }\n")
        assert compile_alone("alone.h", root, "g++", flags, cache) is None, "a good header was refused"
        assert up_to_date(cache / "alone.h.ok", shlex.join(["g++", *flags])), "a success was not remembered"
        for bad in ("leans.h", "twice.h", "warns.h"):
            assert compile_alone(bad, root, "g++", flags, cache), f"{bad} should not compile"
        commands = []
        for number, source in enumerate(
            ('// A comment.\n/* Another.\n*/\n#include "alone.h"\n#include "leans.h"\n', '#include "twice.h"\n', '#include <vector>\n#include "leans.h"\n',
             'struct Mine;\n#include "warns.h"\n')):
            (root / f"{number}.cc").write_text(source)
            commands.append({"directory": str(root), "file": f"{number}.cc", "command": "g++"})
        (root / "build" / "Unity").mkdir(parents=True)
        unity = root / "build" / "Unity" / "unity_0_cxx.cxx"
        unity.write_text("".join(f'/* */\n#include "{root}/{entry["file"]}"\n' for entry in commands[:2]))
        commands[:2] = [{"directory": str(root), "file": str(unity), "command": f"g++ -o Unity/unity_0_cxx.cxx.o -c {unity}"}]
        (root / "build" / "compile_commands.json").write_text(json.dumps(commands))
        by_sources = compiled_by_sources(root / "build", root)
        assert [entry["command"] for entry in tree.compile_commands(root / "build")][:2] == [
            f"g++ -o Unity/unity_0_cxx.cxx.o -c {root}/{number}.cc" for number in range(2)], "a unity build is not taken apart"
        assert by_sources == {"alone.h"}, f"only alone.h is compiled alone by a source, not {by_sources}"
        (root / "alone.h").write_text("#pragma once\nstd::vector<int> numbers();\n")
        later = os.stat(cache / "alone.h.ok").st_mtime + 10
        os.utime(root / "alone.h", (later, later))
        assert compile_alone("alone.h", root, "g++", flags, cache), "a change was not noticed"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--every", action="store_true", help="also the headers that a source begins with, and those of tests")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    build = arguments.build.resolve()
    by_folder = flags_by_folder(build)
    built = {folder.split("/")[0] for folder in by_folder}
    headers = [path for path in tree.paths() if path.endswith(".h") and path.split("/")[0] in built]
    if not headers:
        sys.exit("no header to look at: is this the repository, and is the build configured?")
    total = len(headers)
    if not arguments.every:
        headers = [header for header in headers if not header.startswith("tests/")]
    of_tests = total - len(headers)
    by_sources = set() if arguments.every else compiled_by_sources(build, tree.ROOT)
    at_head = sum(header in by_sources for header in headers)
    headers = [header for header in headers if header not in by_sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda h: compile_alone(h, tree.ROOT, *flags_for(h, by_folder), build / "lint" / "headers"), headers))
    bad = [(header, text) for header, text in zip(headers, said) if text]
    for header, text in bad:
        print(f"{header}: does not compile alone\n{text}")
    if bad:
        sys.exit(1)
    print(f"{total - of_tests} headers compile alone: {at_head} at the head of a source, {len(headers)} looked at here; {of_tests} of tests left out")


if __name__ == "__main__":
    main()

#!/usr/bin/python3
"""Every header compiles alone: a file that includes it and nothing else is valid, with the flags of the folder that it
lives in. A header that passed is not compiled again until it, or something it includes, changes.

    headers.py --build BUILD_DIRECTORY   (needs its compile_commands.json)"""

import argparse
import concurrent.futures
import json
import os
import pathlib
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


def flags_for(header, by_folder):
    """The flags of the header's folder, else of a sub-folder, else of the nearest parent folder that has any; else the bare minimum."""
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
    """What the compiler said; None: the header compiles."""
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
        unity = root / "Unity" / "unity_0_cxx.cxx"
        unity.parent.mkdir()
        unity.write_text("".join(f'/* */\n#include "{root}/{number}.cc"\n' for number in range(2)))
        (root / "compile_commands.json").write_text(
            json.dumps([{"directory": str(root), "file": str(unity), "command": f"g++ -o Unity/unity_0_cxx.cxx.o -c {unity}"}]))
        assert [entry["command"] for entry in tree.compile_commands(root)] == [
            f"g++ -o Unity/unity_0_cxx.cxx.o -c {root}/{number}.cc" for number in range(2)], "a unity build is not taken apart"
        (root / "alone.h").write_text("#pragma once\nstd::vector<int> numbers();\n")
        later = os.stat(cache / "alone.h.ok").st_mtime + 10
        os.utime(root / "alone.h", (later, later))
        assert compile_alone("alone.h", root, "g++", flags, cache), "a change was not noticed"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
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
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda h: compile_alone(h, tree.ROOT, *flags_for(h, by_folder), build / "lint" / "headers"), headers))
    bad = [(header, text) for header, text in zip(headers, said) if text]
    for header, text in bad:
        print(f"{header}: does not compile alone\n{text}")
    if bad:
        sys.exit(1)
    print(f"{len(headers)} headers compile alone")


if __name__ == "__main__":
    main()

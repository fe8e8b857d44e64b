#!/usr/bin/python3
"""clang-tidy, and with it clang's thread-safety analysis, over the sources of core, proto and config (and of any
folder named on the command line). A file that passed is not looked at again until what it consists of after
preprocessing, or .clang-tidy, changes. The daemon is left out by default: each of its files costs up to a minute.

    clang_tidy.py --build BUILD_DIRECTORY [FOLDER…]   (needs its compile_commands.json)"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import tree

CLANG_TIDY = "clang-tidy-19"
FOLDERS = ["core", "proto", "config"]
# g++'s warnings that clang has no name for must not be errors, nor what libstdc++'s own headers use; clang's
# thread-safety analysis is added.
EXTRA = ["-Wno-deprecated-declarations", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument", "-Wthread-safety", "-mcx16"]


def preprocessed(entry):
    """A digest of the file as the compiler sees it, comments included, or None if it cannot be told."""
    words = shlex.split(entry["command"])
    if "-o" in words:
        del words[words.index("-o"):words.index("-o") + 2]
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    words = [word for word in words if word != "-c"] + ["-E", "-C"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True)
    return hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else None


def tidy(source, build, cache, settings):
    """None, or what clang-tidy said."""
    entry = source["entry"]
    digest = preprocessed(entry)
    key = hashlib.sha256(f"{digest} {settings} {EXTRA}".encode()).hexdigest()
    stamp = cache / (source["path"].replace("/", "+") + ".ok")
    if digest and stamp.exists() and stamp.read_text() == key:
        return None
    extra = [f"--extra-arg={word}" for word in EXTRA]
    done = subprocess.run([CLANG_TIDY, "--quiet", "-p", str(build), *extra, entry["file"]], cwd=tree.ROOT, capture_output=True, text=True)
    if done.returncode != 0 or "warning:" in done.stdout:
        return done.stdout + "\n".join(line for line in done.stderr.split("\n") if "error:" in line)
    cache.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)
    return None


def sources(build, folders):
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(tree.ROOT) and any(path.is_relative_to(tree.ROOT / folder) for folder in folders):
            found.append({"entry": entry, "path": str(path.relative_to(tree.ROOT))})
    return found


def self_test():
    with tempfile.TemporaryDirectory(dir=tree.ROOT / "tests" / "lint", prefix=".sample-") as scratch:
        root = pathlib.Path(scratch)

        def said(text):
            (root / "sample.cc").write_text(text)
            entry = {"directory": str(root), "file": str(root / "sample.cc"), "command": f"g++ -std=c++23 -c {root / 'sample.cc'}"}
            (root / "compile_commands.json").write_text(json.dumps([entry]))
            return tidy({"entry": entry, "path": "sample.cc"}, root, root / "cache", "self-test")

        good = "#include <string>\n#include <utility>\n\nstd::string twice(std::string text) {\n  text += text;\n  return text;\n}\n"
        assert said(good) is None, "a good file was refused"
        moved = "#include <string>\n#include <utility>\n\nvoid take(std::string text);\nvoid f(std::string text) {\n  take(std::move(text));\n  text.size();\n  take(text);\n}\n"
        assert "bugprone-use-after-move" in (said(moved) or ""), "a use after a move was not found"
        unguarded = (
            "struct __attribute__((capability(\"mutex\"))) Mutex {};\n"
            "struct Counter {\n  Mutex mutex_;\n  int value_ __attribute__((guarded_by(mutex_))) = 0;\n  int get() const { return value_; }\n};\n"
            "int f(const Counter& c) { return c.get(); }\n"
        )
        assert "thread-safety" in (said(unguarded) or ""), "an unguarded read was not found"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("folders", nargs="*")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    build = arguments.build.resolve()
    work = sources(build, arguments.folders or FOLDERS)
    if not work:
        sys.exit("no source to look at: is the build configured?")
    settings = (tree.ROOT / ".clang-tidy").read_text()
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in concurrent.futures.as_completed(pool.submit(tidy, one, build, build / "lint" / "tidy", settings) for one in work):
            if said.result():
                bad += 1
                print(said.result(), flush=True)
    print(f"{len(work)} files, {bad} with findings")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

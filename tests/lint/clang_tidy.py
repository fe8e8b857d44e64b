#!/usr/bin/python3
"""clang-tidy, and with it clang's thread-safety analysis, over the sources of core, proto and config (and of any folder named on the command line). A
file that passed is not checked again until its text after preprocessing, or .clang-tidy, changes. The daemon is left out by default: each of its
files costs up to a minute. With --quick the static analyzer (clang-analyzer-*), which takes nine tenths of the time, is left out; deploy/test --all
runs it.

    clang_tidy.py --build BUILD_DIRECTORY [--quick] [FOLDER…]   (needs its compile_commands.json)"""

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
ANALYZER = "clang-analyzer-*"
GROUP = 16  # more would leave a processor without work
# g++'s warnings that clang has no name for must not be errors, nor what libstdc++'s own headers use; clang's
# thread-safety analysis is added.
EXTRA = ["-Wno-deprecated-declarations", "-Wno-unknown-warning-option", "-Wno-unused-command-line-argument", "-Wthread-safety", "-mcx16"]


def preprocessed(entry):
    """A digest of the file as the compiler sees it, comments included, or None if the preprocessor fails."""
    words = shlex.split(entry["command"])
    if "-o" in words:
        del words[words.index("-o"):words.index("-o") + 2]
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    words = [word for word in words if word != "-c"] + ["-E", "-C"]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True)
    return hashlib.sha256(done.stdout).hexdigest() if done.returncode == 0 else None


def stamp_of(source, cache):
    return cache / (source["path"].replace("/", "+") + ".ok")


def key_of(source, settings):
    """A key that changes with everything that clang-tidy could see. None: the preprocessor fails."""
    digest = preprocessed(source["entry"])
    return digest and hashlib.sha256(f"{digest} {settings} {EXTRA}".encode()).hexdigest()


def said_of(database, file, left_out):
    """What clang-tidy says without the checks that are left out; None: nothing."""
    options = [f"--checks={','.join('-' + check for check in left_out)}"] if left_out else []
    extra = [f"--extra-arg={word}" for word in EXTRA]
    done = subprocess.run([CLANG_TIDY, "--quiet", f"--config-file={tree.ROOT / '.clang-tidy'}", "-p", str(database), *extra, *options, str(file)], cwd=tree.ROOT, capture_output=True, text=True)
    if done.returncode != 0 or "warning:" in done.stdout:
        return done.stdout + "\n".join(line for line in done.stderr.split("\n") if "error:" in line)
    return None


def file_of(entry):
    return pathlib.Path(entry["directory"], entry["file"]).resolve()


def flags(entry):
    """The command without the names of its files."""
    words = shlex.split(entry["command"])
    words = [word for before, word in zip([""] + words, words) if word != "-o" and before != "-o" and word != "-c"]
    return [word for word in words if pathlib.Path(entry["directory"], word).resolve() != file_of(entry)]


def groups(stale):
    """Groups of at most GROUP sources with the same flags and in the same folder below the root: such sources include much the same. The groups have
    about the same size; the largest comes first."""
    alike = {}
    for source in stale:
        alike.setdefault((os.path.dirname(source["path"]).split("/")[0], *flags(source["entry"])), []).append(source)
    found = []
    for one in alike.values():
        parts = -(-len(one) // GROUP)
        found += [one[len(one) * part // parts:len(one) * (part + 1) // parts] for part in range(parts)]
    return sorted(found, key=len, reverse=True)


def tidy_as_one(group, left_out=()):
    """Like said_of(), for one file that consists of all sources of the group."""
    with tempfile.TemporaryDirectory() as scratch:
        unit = pathlib.Path(scratch, "group.cc")
        # One text, not a file of #includes: the static analyzer does not look into included files.
        unit.write_text("".join(f"#line 1 \"{source['path']}\"\n{file_of(source['entry']).read_text()}\n" for source in group))
        entry = group[0]["entry"]
        command = shlex.join([*flags(entry), "-c", str(unit)])
        (unit.parent / "compile_commands.json").write_text(
            json.dumps([{"directory": entry["directory"], "file": str(unit), "command": command}]))
        # Several sources that include the same header are no fault here; tests/lint/includes.py finds headers that one file includes twice.
        return said_of(scratch, unit, ["readability-duplicate-include", *left_out])


def tidy_alone(source, left_out=()):
    """Like said_of(), for one file, by its own command: the build's database has none for a source that is compiled with others as one."""
    with tempfile.TemporaryDirectory() as scratch:
        pathlib.Path(scratch, "compile_commands.json").write_text(json.dumps([source["entry"]]))
        return said_of(scratch, source["entry"]["file"], left_out)


def tidy(group, cache, left_out=()):
    """The findings of a group. Most of the time of a file goes into the headers of the standard library, so several files are checked as one. If that
    gives a finding, which may be only that two files use the same name, each half is checked in the same way."""
    if len(group) > 1 and tidy_as_one(group, left_out) is not None:
        middle = len(group) // 2
        return tidy(group[:middle], cache, left_out) + tidy(group[middle:], cache, left_out)
    said = tidy_alone(group[0], left_out) if len(group) == 1 else None
    if said is not None:
        return [said]
    cache.mkdir(parents=True, exist_ok=True)
    for source in group:
        if source["key"]:
            stamp_of(source, cache).write_text(source["key"])
    return []


def is_stale(source, cache):
    stamp = stamp_of(source, cache)
    return not (source["key"] and stamp.exists() and stamp.read_text() == source["key"])


def sources(build, folders):
    found = []
    for entry in tree.compile_commands(build):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(tree.ROOT) and any(path.is_relative_to(tree.ROOT / folder) for folder in folders):
            found.append({"entry": entry, "path": str(path.relative_to(tree.ROOT))})
    return found


def self_test():
    with tempfile.TemporaryDirectory(dir=tree.ROOT / "tests" / "lint", prefix=".sample-") as scratch:
        root = pathlib.Path(scratch)

        def said(*texts):
            commands, group = [], []
            for number, text in enumerate(texts):
                file = root / f"{number}.cc"
                file.write_text(text)
                commands.append({"directory": str(root), "file": str(file), "command": f"g++ -std=c++23 -o {number}.o -c {file}"})
                group.append({"entry": commands[-1], "path": file.name, "key": None})
            (root / "compile_commands.json").write_text(json.dumps(commands))
            assert groups(group) == [group], "files of one folder with the same flags are no group"
            alone, together = tidy(group, root / "cache"), tidy_as_one(group)
            assert bool(alone) == bool(together) or "redefinition" in (together or ""), f"one by one: {alone}; as one: {together}"
            return "".join(alone)

        with_headers = "#include <string>\n\nstd::string twice(std::string text) {\n  text += text;\n  return text;\n}\n"
        assert not said(with_headers), "a good file with headers was refused"
        # The others have none: reading headers would take most of the time.
        text = (
            "namespace std {\ntemplate <class T>\nT&& move(T& from) {\n  return static_cast<T&&>(from);\n}\n}  // namespace std\n\n"
            "struct Text {\n  Text();\n  Text(Text&&);\n  ~Text();\n  int size() const;\n};\n"
        )
        good = "int twice(int number) {\n  number += number;\n  return number;\n}\n"
        assert not said(good), "a good file was refused"
        moved = text + "void take(Text text);\nint f() {\n  Text text;\n  take(std::move(text));\n  return text.size();\n}\n"
        assert "bugprone-use-after-move" in said(moved), "a use after a move was not found"
        unguarded = (
            "struct __attribute__((capability(\"mutex\"))) Mutex {};\n"
            "struct Counter {\n  Mutex mutex_;\n  int value_ __attribute__((guarded_by(mutex_))) = 0;\n  int get() const { return value_; }\n};\n"
            "int f(const Counter& c) { return c.get(); }\n"
        )
        assert "thread-safety" in said(unguarded), "an unguarded read was not found"
        null = "int value_of(bool is_there) {\n  int number = 1;\n  int* at = is_there ? &number : nullptr;\n  return *at;\n}\n"
        for name, bad in (("bugprone-use-after-move", moved), ("thread-safety", unguarded), ("clang-analyzer-core.NullDereference", null)):
            found = said(good, bad)
            assert name in found and "0.cc" not in found, f"{name} was not found in the second of two files: {found}"
        once = "namespace {\nint value() { return 1; }\n}  // namespace\n\nint other();\nint other() { return value(); }\n"
        assert not said(once, once.replace("other", "another")), "a name that two files use was a finding"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("folders", nargs="*")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    build = arguments.build.resolve()
    work = sources(build, arguments.folders or FOLDERS)
    if not work:
        sys.exit("no source to look at: is the build configured?")
    settings = (tree.ROOT / ".clang-tidy").read_text()
    left_out = [ANALYZER] if arguments.quick else []
    cache = build / "lint" / ("tidy-quick" if arguments.quick else "tidy")
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, key in zip(work, pool.map(lambda one: key_of(one, settings), work)):
            source["key"] = key
        stale = [source for source in work if is_stale(source, cache)]
        for findings in pool.map(lambda group: tidy(group, cache, left_out), groups(stale)):
            bad += len(findings)
            print("".join(said + "\n" for said in findings), end="", flush=True)
    print(f"{len(work)} files, {bad} with findings")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

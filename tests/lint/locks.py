#!/usr/bin/python3
"""Only core/sync/mutex.h uses the mutexes of the standard library: clang's thread-safety analysis does not know them, so it cannot check what they
guard. All other files of core, proto, config and daemon use Mutex, MutexLock, CondVar and SharedMutex, and each mutex is named in at least one
annotation: clang checks nothing about a mutex that no annotation names. Tests may use either.

The analysis itself runs where clang compiles: over all of the tree in the asan preset (-Werror=thread-safety in the
top CMakeLists.txt), and over core, proto and config in the lint `clang_tidy`. The self-test here breaks the rules of
real sources, one at a time, and expects clang to refuse each: it fails if an annotation has been lost."""

import pathlib
import platform
import re
import subprocess
import sys
import tempfile

import tree
from tree import Finding, Sample

FOLDERS = ("core/", "proto/", "config/", "daemon/")
HOME = "core/sync/mutex.h"

STANDARD = re.compile(
    r"\bstd::(?:(?:recursive_|shared_)?(?:timed_)?mutex|condition_variable(?:_any)?|lock_guard|unique_lock|scoped_lock|shared_lock)\b"
    r"|#[ \t]*include[ \t]*<(?:mutex|shared_mutex|condition_variable)>"
)
# std::call_once and std::once_flag are in <mutex>, and guard nothing: a file that uses them may include it.
ONCE = re.compile(r"\bstd::(?:call_once|once_flag)\b")
MUTEX_HEADER = re.compile(r"#[ \t]*include[ \t]*<mutex>")

MUTEX = re.compile(r"^[ \t]*(?:(?:mutable|static|constinit|inline)[ \t]+)*(?:locksley::)?(?:Shared)?Mutex[ \t]+(\w+)(?:\{\})?;", re.MULTILINE)

CLANG = "clang++-19"
FLAGS = ["-std=c++23", "-fsyntax-only", "-ferror-limit=0", "-Wthread-safety", "-Werror=thread-safety", *(["-mcx16"] if platform.machine() == "x86_64" else [])]
# A source of the tree, a text in it (the first occurrence), and its replacement. clang must refuse each changed source.
BROKEN = (
    ("core/pool/pool.cc", "  const MutexLock lock(mutex_);\n  if (!running_) return;\n", "  if (!running_) return;\n"),
    ("core/pool/worker_tasks.cc", "  own_thread_.assume_held();\n", ""),
    ("core/ring/fair_ring_control.cc", "  const RingLock lock(mutex_);\n", ""),
    ("core/batch/batch.cc", "  const MutexLock lock(mutex_);\n", ""),
    ("daemon/server/batches/changes/customer_changes.cc", "    kIoThread.assert_held();\n", ""),
    ("core/lane/shown_jobs.cc", "  const MutexLock lock(all_.mutex_);\n  shown_.progress = per_cent;\n", "  shown_.progress = per_cent;\n"),
    ("core/lane/result_writer.cc", "  const MutexLock lock(mutex_);\n  const std::size_t wanted", "  const std::size_t wanted"),
    ("core/lane/lane.cc", "    const MutexLock lock(hold_mutex_);\n", "    const MutexLock lock(hold_mutex_);\n    const MutexLock again(hold_mutex_);\n"),
    ("daemon/server/records/registry.cc", "(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread)", "(std::uint64_t sequence)"),
)
# The same for a header: what is taken out of it, and the source in which clang must then refuse a function.
BROKEN_HEADERS = (
    ("daemon/store/write/group_commit.h", "void sync_now() LOCKSLEY_REQUIRES(kStoreWriter, mutex_);", "void sync_now();", "daemon/store/write/group_commit.cc"),
)


def uses(text):
    """The lines of C++ text that use what only core/sync/mutex.h may use."""
    code = tree.code_only(text)
    for number, line in enumerate(code.split("\n"), 1):
        found = STANDARD.search(line)
        if found and not (MUTEX_HEADER.fullmatch(found[0]) and ONCE.search(code)):
            yield number, found[0]


def unannotated(text):
    """The mutexes that no annotation of the file names."""
    code = tree.code_only(text)
    for found in MUTEX.finditer(code):
        if not re.search(rf"\bLOCKSLEY_\w+\([^;{{]*\b{found[1]}\b", code):
            yield code.count("\n", 0, found.start(1)) + 1, found[1]


def check(files):
    findings = []
    for path, text in sorted(files.items()):
        if not tree.is_cpp(path) or not path.startswith(FOLDERS) or path == HOME:
            continue
        findings += [Finding(path, line, f"{what}: use core/sync/mutex.h, which clang checks") for line, what in uses(text)]
        findings += [Finding(path, line, f"{name}: no annotation names this mutex, so clang checks nothing: what does it guard?") for line, name in unannotated(text)]
    return findings


SAMPLES = [
    Sample("the annotated ones", {"core/a.h": '#include "core/sync/mutex.h"\nmutable Mutex mutex_;\nint a_ LOCKSLEY_GUARDED_BY(mutex_);\n'}, None),
    Sample("an order of locks", {"core/a.h": "Mutex mutex_;\nvoid f() LOCKSLEY_EXCLUDES(other_,\n                          mutex_);\n"}, None),
    Sample("a reference", {"core/a.h": "Mutex& mutex_;\n"}, None),
    Sample("a mutex that guards nothing", {"core/a.h": "Mutex mutex_;\n// LOCKSLEY_GUARDED_BY(mutex_)\nint a_;\n"}, "core/a.h:1"),
    Sample("a shared one", {"daemon/a.h": "mutable SharedMutex mutex_;\nint a_ LOCKSLEY_GUARDED_BY(other_mutex_);\n"}, "daemon/a.h:1"),
    Sample("the header itself", {"core/a.h": "", "proto/mutex.h": "// std::mutex\n"}, None),
    Sample("a test", {"tests/unit/core/a_test.cc": "std::mutex mutex;\n"}, None),
    Sample("once", {"daemon/a.cc": "#include <mutex>\nstd::once_flag flag;\n"}, None),
    Sample("a mutex", {"core/a.h": "struct A {\n  std::mutex mutex_;\n};\n"}, "core/a.h:2"),
    Sample("a lock", {"daemon/a.cc": "const std::lock_guard lock(mutex_);\n"}, "std::lock_guard"),
    Sample("a lock of two", {"proto/a.cc": "const std::scoped_lock lock(a, b);\n"}, "std::scoped_lock"),
    Sample("a reader's lock", {"config/a.cc": "std::shared_lock<std::shared_mutex> lock(mutex);\n"}, "std::shared_lock"),
    Sample("a condition", {"daemon/a.h": "std::condition_variable_any condition_;\n"}, "std::condition_variable_any"),
    Sample("a timed mutex", {"daemon/a.h": "std::timed_mutex mutex_;\n"}, "std::timed_mutex"),
    Sample("an include", {"daemon/a.h": "#include <condition_variable>\n"}, "<condition_variable>"),
]


def refused(sources, headers):
    """The paths of those of the sources, {path: text}, that clang's thread-safety analysis refuses if these headers, {path: text}, replace those of
    the tree. The sources are compiled as one, because most of the time goes into the headers, which they share."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in headers.items():
            header = pathlib.Path(scratch, path)
            header.parent.mkdir(parents=True)
            header.write_text(text)
        unit = pathlib.Path(scratch, "unit.cc")
        unit.write_text("".join(f'#line 1 "{path}"\n{text}\n' for path, text in sources.items()))
        done = subprocess.run([CLANG, *FLAGS, "-I", scratch, "-I", str(tree.ROOT), str(unit)], capture_output=True, text=True)
    errors = re.findall(r"^([^:\n]+):\d+:\d+: (?:fatal )?error: (.*)", done.stderr, re.MULTILINE)
    if (done.returncode != 0) != bool(errors) or any("-Wthread-safety" not in what for _, what in errors):
        sys.exit(f"self-test: clang refuses a source, but not for its locks:\n{done.stderr}")
    return {path for path, _ in errors}


def self_test():
    good = tree.self_test(check, SAMPLES)
    broken = [*((path, old, new, path) for path, old, new in BROKEN), *BROKEN_HEADERS]  # the last: where clang must refuse something
    read = lambda path: (tree.ROOT / path).read_text()
    for path in sorted(refused({source: read(source) for *_, source in broken}, {})):
        print(f"self-test: {path} is refused as it is")
        good = False
    changed = lambda lines: {path: read(path).replace(old, new, 1) for path, old, new, *_ in lines}
    sources = {source: read(source) for *_, source in BROKEN_HEADERS}
    found = refused({**sources, **changed(BROKEN)}, changed(BROKEN_HEADERS))
    for path, old, new, source in broken:
        if old not in read(path):
            print(f"self-test: {path} has no line '{old.strip()}' to break: choose another one")
            good = False
        elif source not in found:
            print(f"self-test: {source} is accepted, though '{old.strip()}' of {path} was changed to '{new.strip()}': has an annotation been lost?")
            good = False
    return good


if __name__ == "__main__":
    if "--self-test" in sys.argv[1:]:
        sys.exit(0 if self_test() else 1)
    tree.main(check, SAMPLES, tree.is_cpp)

#!/usr/bin/python3
"""The packages for arm64, built here: their architecture and dependencies, the swap of 16 bytes without libatomic, and the programs under qemu. Not on an
ARM machine."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from debian_packages import ROOT, field, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest
from scratch import scratch

LONGEST_S = 3600
BUILD = ROOT / "build/arm64"
PROGRAMS = ("locksleyd", "locksley")
SWAP = """
#include "core/sync/atomic_pair.h"
bool swap(locksley::AtomicPair& pair, locksley::WordPair& expected, locksley::WordPair desired) { return pair.compare_exchange(expected, desired); }
"""


def setUpModule():
    global packages, installed
    made = tempfile.TemporaryDirectory(prefix="locksley-arm64-")
    unittest.addModuleCleanup(made.cleanup)
    folder = pathlib.Path(made.name)
    run(ROOT / "deploy/arm64/build", folder / "packages", seconds=LONGEST_S)
    packages = {path.name.split("_")[0]: path for path in (folder / "packages").glob("*.deb")}
    installed = folder / "installed"
    run("dpkg-deb", "--extract", packages["locksley"], installed)


def tool(name, *arguments):
    return run(f"aarch64-linux-gnu-{name}", *arguments)


class Programs(unittest.TestCase):
    def test_the_packages_are_for_arm64(self):
        self.assertEqual(set(packages), {"locksley", "locksley-dev"})
        for package in packages.values():
            self.assertEqual(field(package, "Architecture"), "arm64")
        for program in PROGRAMS:
            self.assertIn("AArch64", tool("readelf", "-h", installed / "usr/bin" / program))

    def test_a_package_is_named_for_each_library_and_libatomic_is_none_of_them(self):
        depends = {re.split(r"[ (]", one)[0] for one in field(packages["locksley"], "Depends").split(", ")}
        self.assertLessEqual({"adduser", "procps", "libc6", "libssl3", "librocksdb7.8", "libpq5"}, depends)
        for program in PROGRAMS:
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "-dW", installed / "usr/bin" / program))
            self.assertIn("libc.so.6", needed)
            self.assertNotIn("libatomic", " ".join(needed))
            for library in needed:
                self.assertTrue((BUILD / "root/usr/lib/aarch64-linux-gnu" / library).exists(), library)

    def test_the_swap_of_16_bytes_is_in_place(self):
        code = tool("objdump", "-d", "--no-show-raw-insn", installed / "usr/bin/locksleyd")
        self.assertRegex(code, r"\tldxp\t")
        self.assertRegex(code, r"\tstlxp\t")
        self.assertNotRegex(code, r"__aarch64_cas16|__atomic_compare_exchange_16")

    def test_and_is_one_instruction_where_the_processor_has_it(self):
        for flags, found in (("-mno-outline-atomics", r"\tldxp\t(?s:.*)\tstlxp\t"), ("-march=armv8.1-a", r"\tcaspal\t")):
            command = ["aarch64-linux-gnu-g++", "-std=c++23", "-O2", flags, "-I", ROOT, "-S", "-o", "-", "-x", "c++", "-"]
            done = subprocess.run(command, input=SWAP, capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, found)
            self.assertNotIn("\tbl\t", done.stdout)


class UnderQemu(DaemonTest):
    """Without programs of handlers: qemu ends the process that starts them."""

    def setUp(self):
        self.programs = {}
        folder = scratch(self, "locksley-qemu-")
        for program in PROGRAMS:
            self.programs[program] = folder / program
            self.programs[program].write_text(f"#!/bin/sh\nexec qemu-aarch64-static -L {BUILD / 'root'} {installed / 'usr/bin' / program} \"$@\"\n")
            self.programs[program].chmod(0o755)

    def test_they_say_their_version(self):
        version = re.search(r"project\(locksley VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        for program in PROGRAMS:
            self.assertEqual(run(self.programs[program], "--version").strip(), f"{program} {version}")

    def test_the_daemon_runs_a_batch_and_ends(self):
        with unittest.mock.patch.dict(os.environ, LOCKSLEYD=str(self.programs["locksleyd"])):
            daemon = self.start({"pool": {"workers": 4}})
        client = self.connect(daemon)
        batch = client("SUBMIT", "sha256", "RANGE", 0, 2000)
        self.assertEqual(client.wait(batch)["ok"], 2000)
        said = run(self.programs["locksley"], "--server", f"{daemon.host}:{daemon.port}", "run", "echo", "hello")
        self.assertIn("hello", said)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 0)


if __name__ == "__main__":
    unittest.main()

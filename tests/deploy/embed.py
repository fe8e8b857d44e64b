#!/usr/bin/python3
"""core as a library (core/EMBEDDING.md): configured, built and installed alone, without any library of the daemon, and used by
deploy/examples/embed, a project of its own."""

import os
import pathlib
import shutil
import unittest

from debian_packages import ROOT, run

EXAMPLE = ROOT / "deploy/examples/embed"
# What the daemon looks for: configuring fails if core does, too.
FORBIDDEN = ("OpenSSL", "Curses", "spdlog", "fmt", "yaml-cpp", "prometheus-cpp", "RocksDB", "nlohmann_json", "CLI11", "PkgConfig", "GTest", "benchmark")


class Embed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The same folder each time, so that ccache knows the sources that have not changed: their paths are a part of what it compares.
        cls.folder = pathlib.Path(os.environ["LOCKSLEY_BUILD"]) / "embed"
        shutil.rmtree(cls.folder, ignore_errors=True)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        # Without optimisation and debug information, which take time to compile: the example's answers do not depend on them.
        quickly = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=", "-DCMAKE_UNITY_BUILD=ON")
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in FORBIDDEN]
        run("cmake", "-S", ROOT, "-B", cls.folder / "core", "-DLOCKSLEY_CORE_ONLY=ON", *quickly, *without)
        run("cmake", "--build", cls.folder / "core")
        run("cmake", "--install", cls.folder / "core", "--prefix", cls.prefix)
        run("cmake", "-S", EXAMPLE, "-B", cls.folder / "example", f"-DCMAKE_PREFIX_PATH={cls.prefix}", *quickly)
        run("cmake", "--build", cls.folder / "example")

    def test_the_example_runs(self):
        said = run(self.folder / "example/embed", seconds=60)
        self.assertEqual(
            said.splitlines(),
            [
                "fork-join: fib(25) = 75025",
                "parallel loop: the numbers below 1000000 add up to 499999500000",
                "batches: 'small' was over first; 'large' has 20000 results",
            ],
        )

    def test_only_core_is_installed(self):
        libraries = {path.name for path in self.prefix.rglob("*.a")}
        self.assertEqual(libraries, {"liblocksley_core.a"})
        self.assertEqual({path.name for path in (self.prefix / "include/locksley").iterdir()}, {"core"})

    def test_the_program_links_the_standard_libraries_alone(self):
        needed = {line.split("[")[1].rstrip("]") for line in run("readelf", "-d", self.folder / "example/embed").splitlines() if "(NEEDED)" in line}
        self.assertLessEqual(needed, {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"})

    def test_a_client_is_not_found_in_it(self):
        project = self.folder / "client"
        project.mkdir()
        (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES CXX)\nfind_package(locksley REQUIRED COMPONENTS client)\n")
        with self.assertRaisesRegex(AssertionError, "locksley"):
            run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")


if __name__ == "__main__":
    unittest.main()

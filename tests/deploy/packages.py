#!/usr/bin/python3
"""All packages of a version, as deploy/packages makes them: checksums, and each one installed from there and used with a daemon from there."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from debian_packages import ROOT, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from client_packages import install_tarball, install_wheel
from locksley_daemon import Daemon, program
from scratch import scratch

TASKS = """
import locksley

app = locksley.App()

@app.task
def double(text):
    return text * 2
"""
NODE = """
import { Locksley } from '@locksley/client';
const queue = new Locksley(process.argv[2], { handler: 'python' });
const batch = await queue.named('double').map(['ab', 'cd']);
for await (const result of batch.ordered()) console.log(result.index, result.value);
queue.close();
"""
INSTALL = (ROOT / "deploy/INSTALL.md").read_text().replace("\\\n  ", "")  # a command on a line
CXX = """
#include <cstdio>
#include <cstdlib>

#include "proto/clients/cpp/client.h"

int main(int, char** arguments) {
  using namespace locksley::client;
  const auto port = static_cast<std::uint16_t>(std::atoi(arguments[1]));
  auto client = Client::connect({.host = "127.0.0.1", .port = port});
  if (!client) return std::puts(client.error().message.c_str()), 1;
  const std::string_view jobs[] = {"a", "b"};
  const auto results = client->run("echo", {}, jobs);
  if (!results) return std::puts(results.error().message.c_str()), 1;
  for (const JobResult& result : *results) std::printf("%s\\n", result.output.c_str());
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
find_package(locksley REQUIRED COMPONENTS client)
add_executable(user user.cc)
target_link_libraries(user PRIVATE locksley::client)
"""


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = scratch(cls, "locksley-packages-")
        cls.packages = cls.folder / "packages"
        # client-packages calls python3, which is to be that of the test: Debian's, with pip and setuptools.
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin/python3").symlink_to(sys.executable)
        environment = dict(os.environ, PATH=f"{cls.folder}/bin:{os.environ['PATH']}", PIP_ROOT_USER_ACTION="ignore")
        cls.said = run(ROOT / "deploy/packages", cls.packages, os.environ["LOCKSLEY_BUILD"], env=environment)
        cls.root = cls.folder / "root"
        for package in cls.packages.glob("*.deb"):
            run("dpkg-deb", "--extract", package, cls.root)

    def one(self, pattern):
        (path,) = self.packages.glob(pattern)
        return path

    def serve(self, settings=None):
        """The daemon of the Debian package."""
        before = os.environ["LOCKSLEYD"]
        os.environ["LOCKSLEYD"] = str(self.root / "usr/bin/locksleyd")
        try:
            daemon = Daemon(settings)
        finally:
            os.environ["LOCKSLEYD"] = before
        self.addCleanup(daemon.close)
        return daemon

    def test_the_folder_has_one_of_each_and_true_checksums(self):
        version = run(program("LOCKSLEYD"), "--version").split()[1]
        names = sorted(path.name for path in self.packages.iterdir())
        architecture = run("dpkg", "--print-architecture").strip()
        self.assertEqual(names, ["SHA256SUMS", f"locksley-{version}-py3-none-any.whl", f"locksley-client-{version}.tgz", f"locksley-dev_{version}_{architecture}.deb",
                                 f"locksley_{version}_{architecture}.deb"])
        checked = run("sha256sum", "--strict", "--check", "SHA256SUMS", cwd=self.packages)
        self.assertEqual(checked.count(": OK\n"), len(names) - 1)
        self.assertEqual(self.said, (self.packages / "SHA256SUMS").read_text())

    def test_a_folder_that_has_something_is_refused(self):
        done = subprocess.run([ROOT / "deploy/packages", self.packages, os.environ["LOCKSLEY_BUILD"]], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (73, f"deploy/packages: {self.packages} is not empty\n"))

    def test_the_packages_for_python_and_node_run_each_others_tasks(self):
        folder = scratch(self)
        modules = install_wheel(self.one("*.whl"), folder / "python")
        install_tarball(self.one("*.tgz"), folder)
        (folder / "tasks.py").write_text(TASKS)
        (folder / "client.mjs").write_text(NODE)
        worker = {"worker": [sys.executable, "-m", "locksley", "tasks:app"], "worker_protocol": 2, "directory": str(folder), "environment": [f"PYTHONPATH={modules}"]}
        daemon = self.serve({"handlers": {"python": worker}})
        url = f"redis://127.0.0.1:{daemon.port}"
        program_text = "import tasks; print([result.value for result in tasks.double.map(['x', 'y']).ordered()])"
        environment = dict(os.environ, PYTHONPATH=str(modules), LOCKSLEY_URL=url)
        self.assertEqual(run(sys.executable, "-c", program_text, cwd=folder, env=environment), "['xx', 'yy']\n")
        self.assertEqual(run("node", "client.mjs", url, cwd=folder), "0 abab\n1 cdcd\n")

    def test_the_client_for_cxx_is_found_by_cmake(self):
        folder = scratch(self)
        (folder / "user.cc").write_text(CXX)
        (folder / "CMakeLists.txt").write_text(CMAKE)
        run("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.root}/usr", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF")
        run("cmake", "--build", folder / "build")
        self.assertEqual(run(folder / "build/user", self.serve().port), "a\nb\n")

    def test_the_page_about_installation(self):
        """deploy/INSTALL.md: package_life.py carries out what takes root."""
        patterns = set(re.findall(r"(?<![\w/])(?:\./)?packages/(\S*\*\S*)", INSTALL))
        self.assertEqual({pattern: self.one(pattern).suffix for pattern in patterns}, {"locksley_*.deb": ".deb", "locksley-*.whl": ".whl", "locksley-client-*.tgz": ".tgz"})
        unit = (self.root / "usr/lib/systemd/system/locksleyd.service").read_text()
        setting = lambda name: re.search(rf"^{name}=(?:/usr/bin/)?(.*)", unit, re.MULTILINE)[1]
        by_hand = f"env -C {setting('WorkingDirectory')} setpriv --reuid={setting('User')} --regid={setting('Group')} --init-groups {setting('ExecStart')} &"
        self.assertIn(f"```sh\n{by_hand}\n```\n", INSTALL)
        daemon = self.serve()
        command, printed = re.search(r"```console\n\$ locksley (run .*)\n((?:.*\n)*?)```", INSTALL).groups()
        said = run(self.root / "usr/bin/locksley", "--server", f"127.0.0.1:{daemon.port}", *command.split())
        self.assertRegex(said, re.escape(printed).replace("…", ".*"))

    def test_the_command_line_of_the_package_talks_to_its_daemon(self):
        daemon = self.serve()
        said = run(self.root / "usr/bin/locksley", "--server", f"127.0.0.1:{daemon.port}", "run", "--ordered", "echo", "a", "b")
        self.assertRegex(said, r"\Aa\nb\n2 jobs in ")


if __name__ == "__main__":
    unittest.main()

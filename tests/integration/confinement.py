#!/usr/bin/python3
"""What a confined process reaches: `confine` of a handler."""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest
from programs import python
from scratch import scratch


class Confined(DaemonTest):
    """Where the kernel has no Landlock, or an old one, the daemon says so and does not start: that is tested there, and only that."""

    SYSTEM = [folder for folder in ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null") if os.path.exists(folder)]

    def serve_confined(self, released=None, **confine):
        config = {"handlers": {"py": python(confine=confine), "free": python()} | ({"released": released} if released else {})}
        try:
            self.daemon = self.start(config)
        except AssertionError as failure:
            self.assertRegex(str(failure), r"handlers\.py\.confine: the kernel's? (has no Landlock|Landlock cannot deny the network)")
            return None
        return self.connect(self.daemon)

    def ends(self, connection, handler, code):
        """`ok`, or the last line of what Python says."""
        status, output = connection("RUN", handler, "JOBS", code)[0]
        return "ok" if status == "ok" else output.splitlines()[-1].split(":")[0]

    def test_files(self):
        with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outside:
            for folder in (inside, outside):
                pathlib.Path(folder, "there").write_text("text")
            if not (connection := self.serve_confined(read=self.SYSTEM, write=[inside])):
                return
            read, write, remove = "open({!r}).read()", "open({!r}, 'w').write('x')", "import os; os.remove({!r})"
            for code in (read, write, remove):
                self.assertEqual(self.ends(connection, "py", code.format(outside + "/there")), "PermissionError", code)
                self.assertEqual(self.ends(connection, "py", code.format(inside + "/there")), "ok", code)
            self.assertEqual(self.ends(connection, "py", write.format(inside + "/new")), "ok")
            self.assertEqual(self.ends(connection, "py", write.format("/usr/new")), "PermissionError")
            self.assertEqual(self.ends(connection, "py", "import subprocess; subprocess.check_call(['true'])"), "ok")
            self.assertEqual(self.ends(connection, "free", read.format(outside + "/there")), "ok")
            # What it starts is as confined, and its daemon is beyond its reach.
            code = f"import subprocess; subprocess.run(['cat', {outside + '/there'!r}], check=True)"
            self.assertEqual(self.ends(connection, "py", code), "subprocess.CalledProcessError")

    def test_a_folder_that_takes_the_place_of_another(self):
        """The kernel's rules are about folders, whatever their names; those of the configuration are about names."""
        here = scratch(self)
        for release in ("1", "2"):
            job = here / release / "job"
            job.parent.mkdir()
            job.write_text(f"#!/bin/sh\necho {release} > {here}/work/out && cat {here}/work/out\n")
            job.chmod(0o755)
        current, work = here / "current", here / "work"
        current.symlink_to("1")
        work.mkdir()
        confine = {"read": [*self.SYSTEM, str(current)], "write": [str(work)]}
        if not (connection := self.serve_confined(released={"command": [str(current / "job")], "confine": confine}, **confine)):
            return
        self.assertEqual(connection("RUN", "released", "JOBS", "x"), [["ok", "1\n"]])
        (here / "next").symlink_to("2")
        (here / "next").rename(current)
        self.assertEqual(connection("RUN", "released", "JOBS", "x"), [["ok", "2\n"]])
        shutil.rmtree(work)
        work.mkdir()
        self.assertEqual(connection("RUN", "released", "JOBS", "x"), [["ok", "2\n"]])

    def test_network(self):
        if not (connection := self.serve_confined(network=False)):
            return
        connect = f"import socket; socket.create_connection(('127.0.0.1', {self.daemon.port}))"
        listen = "import socket; socket.create_server(('127.0.0.1', 0))"
        for code in (connect, listen):
            self.assertEqual(self.ends(connection, "py", code), "PermissionError", code)
            self.assertEqual(self.ends(connection, "free", code), "ok", code)
        self.assertEqual(self.ends(connection, "py", "open('/etc/passwd').read()"), "ok")


if __name__ == "__main__":
    unittest.main()

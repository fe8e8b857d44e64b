"""A folder of a test's own."""

import os
import pathlib
import tempfile

MEMORY = "/dev/shm"
ROOM = 1 << 30


def quick_place():
    """A place in memory, where a sync waits neither for a disk nor for what other programs write to it; None, for where temporary files are, if there
    is not a gigabyte of it. A container may have 64 MB."""
    if not os.access(MEMORY, os.W_OK):
        return None
    space = os.statvfs(MEMORY)
    return MEMORY if space.f_bavail * space.f_frsize >= ROOM else None


def scratch(test, prefix="locksley-test-"):
    """An empty folder, as a path; it goes with the test, or with all tests of the class if `test` is one."""
    folder = tempfile.TemporaryDirectory(prefix=prefix)
    (test.addClassCleanup if isinstance(test, type) else test.addCleanup)(folder.cleanup)
    return pathlib.Path(folder.name)

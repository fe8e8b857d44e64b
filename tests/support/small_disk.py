"""A file system of a few megabytes in memory, which can be filled and emptied while a daemon uses it."""

import os
import subprocess
import threading
import time

from locksley_daemon import wait_for


class SmallDisk:
    """Mounted at `folder`, for which it takes root, until the test is over."""

    def __init__(self, test, folder, size="24m"):
        self.folder = folder
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True)
        if mounted.returncode:
            test.fail(f"a small disk cannot be mounted, for which it takes root: {mounted.stderr.strip()}")
        test.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        test.addCleanup(self.make_room)
        self.is_full = threading.Event()
        self.filler = None

    def fill(self):
        """Until make_room() is called the disk is full: whatever becomes free is taken."""
        self.is_full.set()
        self.filler = threading.Thread(target=self._keep_full)
        self.filler.start()
        wait_for("the disk to be full", lambda: os.statvfs(self.folder).f_bavail == 0)

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.folder], check=True)

    def _keep_full(self):
        with open(self.folder / "other", "wb", buffering=0) as file:
            while self.is_full.is_set():
                try:
                    file.write(b"x" * 65536)
                except OSError:
                    time.sleep(0.002)

    def make_room(self):
        if self.filler is None:
            return
        self.is_full.clear()
        self.filler.join()
        self.filler = None
        (self.folder / "other").unlink()

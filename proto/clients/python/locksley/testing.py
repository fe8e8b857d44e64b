"""A daemon for tests, on free ports, in memory, in a folder of its own. For pytest: the fixture `locksleyd` of locksley.pytest_plugin."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any


def worker(target: str, *paths: str, **settings: Any) -> dict[str, Any]:
    """A handler that serves MODULE:APP by this Python, which finds modules in `paths` and in the folder of the test."""
    environment = [f"PYTHONPATH={os.pathsep.join([*paths, os.getcwd(), *(path for path in sys.path if path)])}"]
    return {"worker": [sys.executable, "-m", "locksley", target], "worker_protocol": 2, "environment": environment, **settings}


class Daemon(contextlib.AbstractContextManager["Daemon"]):
    """`handlers` are those of its configuration, by name; `settings` other sections. `url` is for an App, `workers_url` for a remote
    worker. The program is that of the environment's LOCKSLEYD, or the one in PATH."""

    def __init__(self, handlers: dict[str, Any] | None = None, **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="locksley-")
        folder = pathlib.Path(self._folder.name)
        path, self._log = folder / "locksley.yaml", folder / "log"
        ports: dict[str, Any] = {"listen": {"port": 0}, "http": {"port": 0}, "workers": {"port": 0}, "store": {"path": ""}}
        path.write_text(json.dumps({**ports, **settings, "handlers": handlers or {}}))  # JSON is YAML
        with self._log.open("wb") as log:
            command = [os.environ.get("LOCKSLEYD") or "locksleyd", "--config", str(path)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        with self.process.stdout as said:  # type: ignore[union-attr]
            ready = dict(re.findall(r" (\w+)=(\S+)", said.readline()))
        if "listen" not in ready:
            self.process.wait()
            raise RuntimeError(f"locksleyd did not start: {self.log()}")
        self.url, self.workers_url = f"redis://{ready['listen']}", f"redis://{ready.get('workers', '')}"

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the daemon, whatever runs: the second SIGTERM waits for nothing."""
        self.process.terminate()
        try:
            self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()
        self._folder.cleanup()

"""The Python package and the tasks of tests/integration/workers/package_tasks.py, from their folders."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE, WORKERS = ROOT / "proto/clients/python", ROOT / "tests/integration/workers"
sys.path[:0] = [str(PACKAGE), str(WORKERS)]
import locksley
import package_tasks as tasks

__all__ = ["ENVIRONMENT", "HANDLER", "HANDLER_2", "locksley", "tasks", "url_of"]

ENVIRONMENT = dict(os.environ, PYTHONPATH=f"{PACKAGE}:{WORKERS}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
HANDLER = {"worker": [sys.executable, "-B", "-m", "locksley", "package_tasks:app"], "environment": [f"PYTHONPATH={ENVIRONMENT['PYTHONPATH']}"]}
HANDLER_2 = {**HANDLER, "worker_protocol": 2}


def url_of(daemon):
    return f"redis://{daemon.host}:{daemon.port}"

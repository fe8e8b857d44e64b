"""A worker: python3 -m locksley MODULE:APP [--url redis://queue:7771] …"""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import socket
import sys
import threading
import time

from .app import App
from .errors import Refused
from .remote import RemoteWorker
from .worker import LocalWorker, take_the_pipes


def _app_of(target: str, handler: str | None) -> App:
    """MODULE:APP, or MODULE for its own public functions."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    name, _, attribute = target.partition(":")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        # If a module that the application imports is missing, the traceback says more.
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise SystemExit(f"locksley: there is no module {error.name} in {os.getcwd()} or on Python's path") from None
    if not attribute:
        for attribute, value in vars(module).items():
            if isinstance(value, App) and any(task.function.__module__ == name for task in value.tasks.values()):
                raise SystemExit(f"locksley: the module {name} has the App `{attribute}`: serve {name}:{attribute}")
        app = App(handler=handler or "python")
        app.add_functions(module)
        return app
    found = getattr(module, attribute, None)
    if not isinstance(found, App):
        raise SystemExit(f"locksley: {target} is not a locksley.App")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m locksley", description="Runs the tasks of an application.")
    parser.add_argument("target", metavar="MODULE[:APP]", help="the application; a module alone: its functions, for locksley.Executor")
    parser.add_argument("--url", help="the daemon's port for workers, rediss://user:password@host:7771; else jobs come on standard input")
    parser.add_argument("--slots", type=int, default=1, help="jobs at a time, with --url; coroutines wait side by side (default 1)")
    parser.add_argument("--name", default=f"{socket.gethostname()}-{os.getpid()}", help="of this worker, for people")
    parser.add_argument("--handler", help="the handler that a module's functions serve (default: python)")
    parser.add_argument("--lease", type=float, default=10.0, help="seconds of silence after which jobs go to others (default 10)")
    parser.add_argument("--grace", type=float, default=30.0, help="seconds that running jobs have after SIGTERM (default 30)")
    parser.add_argument("--ca-file", help="PEM file with the authorities that may have signed the daemon's certificate")
    given = parser.parse_args()
    if not 1 <= given.slots <= 4096:
        parser.error("--slots is a number from 1 to 4096")
    if not 0 <= given.grace < math.inf:
        parser.error("--grace is a number of seconds, 0 or more")
    if given.ca_file and not (given.url or "").startswith("rediss://"):
        parser.error("--ca-file is for TLS: it needs --url rediss://…")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="locksley: %(message)s")
    if given.url is None:
        if os.isatty(0):
            parser.exit(64, "locksley: jobs come from the daemon: name this program as `worker:` in its configuration, or give --url redis://HOST:7771\n")
        pipes = take_the_pipes()  # before the application is imported: it may print
        return LocalWorker(_app_of(given.target, given.handler), *pipes).run()
    options = {"ssl_ca_certs": given.ca_file} if given.ca_file else {}
    app = _app_of(given.target, given.handler)
    try:
        worker = RemoteWorker(app, given.url, slots=given.slots, name=given.name, lease_s=given.lease, grace_s=given.grace, **options)
    except ValueError as error:
        parser.error(f"--url: {error}")
    try:
        code = worker.run()
    except (Refused, OSError) as error:  # OSError: a file for TLS cannot be used
        print(f"locksley: {error}", file=sys.stderr)
        return 78
    # At its end Python waits for the threads that coroutines have left. They get the rest of the grace time, but at least a second.
    last = threading.Timer(max(1.0, worker.end - time.monotonic()), os._exit, (code,))
    last.daemon = True
    last.start()
    return code


if __name__ == "__main__":
    sys.exit(main())

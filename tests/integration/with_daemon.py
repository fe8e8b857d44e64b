#!/usr/bin/python3
"""Runs a program that is a client, with a daemon to talk to: `with_daemon.py PROGRAM [ARGUMENT...]` calls it with the daemon's host and port
behind its arguments, and ends as it does."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import Daemon

LONGEST_S = 120

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    daemon = Daemon()
    try:
        code = subprocess.run([*sys.argv[1:], daemon.host, str(daemon.port)], timeout=LONGEST_S, stdin=subprocess.DEVNULL).returncode
        if code != 0:
            print(f"--- log of the daemon\n{daemon.log()}---")
    except subprocess.TimeoutExpired:
        code = 1
        print(f"waited {LONGEST_S} s for {sys.argv[1]} to end\n--- log of the daemon\n{daemon.log()}---")
    finally:
        daemon.close()
    sys.exit(code)

#!/usr/bin/python3
"""Runs a program that is a client, with a daemon to talk to: `with_daemon.py [--user NAME] PROGRAM [ARGUMENT...]` calls it with the daemon's
host and port behind its arguments, and ends as it does. With a user, that is the only one who is served, and the program finds name and
password in LOCKSLEY_TEST_USER and LOCKSLEY_TEST_PASSWORD."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import Daemon
from users import BUILTIN, PASSWORD, users

LONGEST_S = 120
# Also one that there is not: a user who may use it is told so.
HANDLERS = {"handlers": [*BUILTIN["handlers"], "nosuch"]}

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    settings, login, program = {}, {}, sys.argv[1:]
    if program[0] == "--user":
        settings, login = users(**{program[1]: HANDLERS}), {"LOCKSLEY_TEST_USER": program[1], "LOCKSLEY_TEST_PASSWORD": PASSWORD.format(program[1])}
        program = program[2:]
    daemon = Daemon(settings)
    try:
        call = [*program, daemon.host, str(daemon.port)]
        code = subprocess.run(call, timeout=LONGEST_S, stdin=subprocess.DEVNULL, env=os.environ | login).returncode
        if code != 0:
            print(f"--- log of the daemon\n{daemon.log()}---")
    except subprocess.TimeoutExpired:
        code = 1
        print(f"waited {LONGEST_S} s for {program[0]} to end\n--- log of the daemon\n{daemon.log()}---")
    finally:
        daemon.close()
    sys.exit(code)

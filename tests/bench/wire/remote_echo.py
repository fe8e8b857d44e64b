#!/usr/bin/python3
"""A remote worker for the handler `echo`, in plain redis-py: deploy/examples/worker/shout.py that answers what it got."""

import sys

import redis

link = redis.Redis.from_url(sys.argv[1], socket_timeout=None).client()
link.execute_command("JOIN", "remote_echo.py", "SLOTS", 1, "LEASE", 60_000, "HANDLERS", "echo")
while True:
    lease = link.execute_command("CLAIM", "BLOCK", 30_000)
    if lease is not None:
        link.execute_command("SETTLE", lease[0], "ok", lease[3], *lease[8])

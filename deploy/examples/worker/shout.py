#!/usr/bin/python3
"""A worker on any machine: leases jobs of the handler `shout`, runs them, and settles them. python3-redis is all it needs.

    ./shout.py redis://user:password@queue:7771"""

import sys
import time

import redis

queue = redis.Redis.from_url(sys.argv[1], socket_timeout=None)
while True:
    link = queue.client()  # one connection: leases belong to it, and a new one has to JOIN
    try:
        link.execute_command("JOIN", "shout.py", "SLOTS", 1, "LEASE", 60_000, "HANDLERS", "shout")  # longer than the longest job, in ms
        while True:
            lease = link.execute_command("CLAIM", "BLOCK", 30_000)
            if lease is None:
                continue  # there was nothing to do
            name, first, payloads = lease[0], lease[3], lease[8]
            outputs = [payload.upper() for payload in payloads]
            link.execute_command("SETTLE", name, "ok", first, *outputs)
    except (redis.ConnectionError, redis.ResponseError) as error:
        if isinstance(error, redis.ResponseError) and not str(error).startswith(("DRAINING", "NOTJOINED")):
            raise
        print(error, file=sys.stderr)  # the daemon ends, or was restarted
        link.close()
        time.sleep(1)

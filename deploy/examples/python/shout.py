#!/usr/bin/env python3
"""A worker: answers in capitals."""

import locksley_worker


def shout(payload):
    return payload.decode().upper()


locksley_worker.serve(shout)

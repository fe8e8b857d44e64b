#!/usr/bin/env python3
"""A worker without any library: this is all of the protocol. Answers its payload. Any other output, or an exception, would end it."""

import os
import sys

while sys.stdin.buffer.readline():  # *3
    payload, index, batch = (sys.stdin.buffer.read(int(sys.stdin.buffer.readline()[1:]) + 2)[:-2] for _ in range(3))
    os.write(1, b"$%d\r\n%b\r\n" % (len(payload), payload))  # or b"-what went wrong\r\n"

"""A port of loopback that belongs to a test from its beginning to its end, so that a daemon can be started on it again and again. A port that was free a
moment ago, or that an earlier daemon had, may be another program's by now: as the port on which it listens, or from which it connects."""

import socket


def hold_port(test):
    """The port. A socket of the test is bound to it and does not listen. So the kernel gives this port to no program that asks for any free port, and refuses
    connections while no daemon listens. A program that binds with SO_REUSEADDR may listen there: daemons do so, and socket.create_server()."""
    held = socket.socket()
    test.addCleanup(held.close)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held.getsockname()[1]

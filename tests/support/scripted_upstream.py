"""An upstream daemon of a test, word by word: it listens, and the test says what it answers to its worker."""

import socket
import ssl
import time

from resp import DEADLINE_S, Connection, encode


def bulk(text):
    data = text if isinstance(text, bytes) else str(text).encode()
    return b"$%d\r\n%b\r\n" % (len(data), data)


def array(*items):
    """Elements are encoded already."""
    return b"*%d\r\n" % len(items) + b"".join(items)


def number(value):
    return b":%d\r\n" % value


NULL = b"_\r\n"


class Worker(Connection):
    """The upstream's end of a connection with a worker. Commands are read as arrays of strings."""

    def __init__(self, accepted):  # not that of Connection, which connects
        self.socket = accepted
        self.socket.settimeout(DEADLINE_S)
        self.buffer = bytearray()
        self.position = 0
        self.notes = []  # words of NOTEs that were passed over

    def expect(self, *words):
        """The next command, which must begin with these words. CLAIMs, BEATs and NOTEs before it are passed over: they may come at any time."""
        end = time.monotonic() + DEADLINE_S
        while True:
            assert time.monotonic() < end, f"waited {DEADLINE_S} s for {words}"
            command = self.read()
            if command[: len(words)] == list(words):
                return command
            if command[0] == "CLAIM" and words[0] != "CLAIM":
                self.send(NULL)
            elif command[0] == "BEAT":
                self.send(array())
            elif command[0] == "NOTE" and words[0] != "NOTE":
                self.notes.append(command[1:])
                self.send(b"+OK\r\n")
            else:
                raise AssertionError(f"expected {words}, and {command} came")

    def join(self, handlers, lease_ms=9000):
        """HELLO and JOIN; the upstream has these handlers, and leases of that length. Returns the JOIN that succeeded, and HELLO."""
        hello = self.expect("HELLO", "3")
        self.send(b"%1\r\n" + bulk("proto") + number(3))
        while True:
            command = self.expect("JOIN")
            named = command[command.index("HANDLERS") + 1 :]
            unknown = [name for name in named if name not in handlers]
            if not unknown or ("PARTIAL" in command and unknown != named):
                terms = bulk("lease_ms") + number(lease_ms) + bulk("beat_ms") + number(lease_ms // 3)
                self.send(b"%4\r\n" + bulk("worker") + bulk(command[1]) + terms + bulk("not_served") + array(*map(bulk, unknown)))
                return command, hello
            self.send(b"-NOHANDLER no handler '%b' for remote workers\r\n" % unknown[0].encode())

    def lease(self, name, handler, first, payloads, attempt=1, timeout_ms=0):
        """Sends the reply to a CLAIM."""
        items = [bulk(name), number(7), bulk(handler), number(first), number(len(payloads)), number(attempt), number(timeout_ms), NULL]
        items += [array(*map(bulk, payloads)), bulk("b7"), bulk("alice"), NULL, NULL, NULL]
        self.send(array(*items))

    def push(self, *words):
        parts = [number(word) if isinstance(word, int) else bulk(word) for word in words]
        self.send(b">%d\r\n" % len(parts) + b"".join(parts))

    def settled(self, name, count):
        """Reads SETTLEs of the lease until they have `count` results; answers them. Returns status and output by index."""
        results = {}
        while len(results) < count:
            command = self.expect("SETTLE", name)
            outputs = command[4:]
            for i, output in enumerate(outputs, int(command[3])):
                assert i not in results, f"job {i} is settled twice"
                results[i] = (command[2], output)
            self.send(array(number(len(outputs)), number(count - len(results))))
        return results


class ScriptedUpstream:
    """Listens on a free port of loopback."""

    def __init__(self, pair=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE_S)
        self.port = self.listener.getsockname()[1]
        self.context = None
        if pair:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(pair.certificate, pair.key)
        self.accepted = []

    def accept(self):
        connection, _ = self.listener.accept()
        if self.context:
            connection.settimeout(DEADLINE_S)
            connection = self.context.wrap_socket(connection, server_side=True)
        self.accepted.append(connection)
        return Worker(connection)

    def workers(self, count, handlers):
        """Accepts `count` workers that join; returns them by the names that they gave, each with its JOIN."""
        joined = {}
        while len(joined) < count:
            worker = self.accept()
            join, _ = worker.join(handlers)
            joined[join[1]] = (worker, join)
        return joined

    def close(self):
        for connection in self.accepted:
            connection.close()
        self.listener.close()

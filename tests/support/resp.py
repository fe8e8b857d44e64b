"""RESP2 and RESP3 over a socket: commands in, replies out, bytes when a test wants to be rude. Written for these tests, so that what they
see is what was on the wire, and not what a client library made of it."""

import re
import socket
import time

DEADLINE_S = 30


class Simple(str):
    """+OK; a bulk string is a plain str, its bytes as Latin-1."""


class Error(str):
    """-CODE text, without the dash."""


class Verbatim(str):
    """=…, without its kind."""


class Push(list):
    """>…"""


class Closed(Exception):
    """The other side closed the connection."""


def encode(*words):
    """A command as an array of bulk strings."""
    arguments = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments)


def pairs(reply):
    """A map, whichever protocol it came by."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def is_message(reply):
    return isinstance(reply, list) and bool(reply) and reply[0] in ("message", "pmessage")


class CommandError(Exception):
    pass


class Connection:
    """One connection. Not thread-safe. Calling it sends a command and returns the reply; an error reply is raised."""

    def __init__(self, host, port, receive_buffer=None, timeout=DEADLINE_S):
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.position = 0

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __call__(self, *words):
        reply = self.ask(*words)
        if isinstance(reply, Error):
            raise CommandError(f"{' '.join(str(word)[:40] for word in words[:6])}: {reply}")
        return reply

    def ask(self, *words):
        """The reply, which may be an error."""
        self.send(encode(*words))
        return self.read()

    def map(self, *words):
        return pairs(self(*words))

    def status(self, batch):
        return self.map("STATUS", batch)

    def explain(self, batch):
        return self.map("EXPLAIN", batch)

    def wait(self, batch, seconds=DEADLINE_S):
        """The status of a batch once it is over. In slices, because `seconds` may be more than a reply may take."""
        end = time.monotonic() + seconds
        while True:
            status = self.map("WAIT", batch, int(max(1, min(seconds, DEADLINE_S / 2) * 1000)))
            if status["state"] in ("done", "cancelled"):
                return status
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for batch {batch} to be over; it is {status}")

    def listed(self, *options):
        """The status of each batch that LIST names, newest first. A page ends when the search has taken long enough, so there may be several
        pages."""
        rows, cursor = [], "0"
        while True:
            cursor, page = self("LIST", "CURSOR", cursor, "COUNT", 10_000, *options)
            rows += map(pairs, page)
            if cursor == "0":
                return rows

    def results(self, batch, count=1000):
        """All rows, in the order of completion, of a batch that is over."""
        rows, cursor = [], "0"
        while True:
            before = cursor
            cursor, page = self("RESULTS", batch, "FROM", cursor, "COUNT", count)
            rows += page
            if cursor == "0":
                return rows
            if cursor == before:  # a page without rows has passed over rows of jobs that were retried
                raise AssertionError(f"RESULTS of {batch} has neither rows nor an end at cursor {cursor}")

    # Bytes.

    def results_so_far(self, batch):
        """The rows of a batch that may go on, at most a page of them."""
        return self("RESULTS", batch, "COUNT", 1_000_000)[1]

    def send(self, data):
        self.socket.sendall(data)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def read_some(self):
        """What comes next, as bytes; empty at the end."""
        if self.position < len(self.buffer):
            data = bytes(self.buffer[self.position :])
            self.buffer.clear()
            self.position = 0
            return data
        try:
            return self.socket.recv(1 << 20)
        except ConnectionResetError:
            return b""

    def read_until_closed(self, seconds=DEADLINE_S):
        """All that still comes, until the server closes. An error if it does not within `seconds`."""
        data, end = bytearray(), time.monotonic() + seconds
        while True:
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                piece = self.read_some()
            except TimeoutError:
                raise AssertionError(f"waited {seconds} s for the connection to be closed; so far came {bytes(data[-200:])!r}") from None
            if not piece:
                return bytes(data)
            data += piece

    def assert_silent(self, seconds=0.3):
        """Asserts that nothing comes for a while: neither bytes nor the end."""
        self.socket.settimeout(seconds)
        try:
            came = self.read_some()
        except TimeoutError:
            return
        finally:
            self.socket.settimeout(DEADLINE_S)
        raise AssertionError(f"nothing was due, but there came {came[:200]!r}" if came else "the connection was closed")

    # Replies.

    def _fill(self):
        try:
            piece = self.socket.recv(1 << 20)
        except TimeoutError:
            raise AssertionError(f"waited {self.socket.gettimeout()} s for a reply; so far came {bytes(self.buffer[self.position:][:200])!r}") from None
        except ConnectionResetError:  # the peer closed it before it had read a command
            piece = b""
        if not piece:
            raise Closed(f"closed, after {bytes(self.buffer[self.position:][:200])!r}")
        if self.position == len(self.buffer):
            self.buffer.clear()
            self.position = 0
        self.buffer += piece

    def _line(self):
        while (end := self.buffer.find(b"\r\n", self.position)) < 0:
            self._fill()
        line = self.buffer[self.position : end].decode("latin-1")
        self.position = end + 2
        return line

    def _bytes(self, count):
        while len(self.buffer) - self.position < count + 2:
            self._fill()
        data = bytes(self.buffer[self.position : self.position + count])
        if self.buffer[self.position + count : self.position + count + 2] != b"\r\n":
            raise AssertionError(f"a string of {count} bytes is not ended by CRLF: {data[-40:]!r}")
        self.position += count + 2
        return data.decode("latin-1")

    def read(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == "$":
            return None if rest == "-1" else self._bytes(int(rest))
        if kind == ":":
            return int(rest)
        if kind == "*":
            return None if rest == "-1" else [self.read() for _ in range(int(rest))]
        if kind == "+":
            return Simple(rest)
        if kind == "-":
            return Error(rest)
        if kind == "%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind == ">":
            return Push(self.read() for _ in range(int(rest)))
        if kind == ",":
            return float(rest)
        if kind == "_" and not rest:
            return None
        if kind == "=":
            text = self._bytes(int(rest))
            if not re.match(r"txt:", text):
                raise AssertionError(f"a verbatim string of a strange kind: {text[:10]!r}")
            return Verbatim(text[4:])
        raise AssertionError(f"not a reply: {line[:100]!r}")

    def read_message(self):
        """The next message of a channel: (channel, payload)."""
        while not is_message(reply := self.read()):
            pass
        return reply[-2], reply[-1]

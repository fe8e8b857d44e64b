"""A proxy between a client and a daemon that delays a command, or loses its reply: the connection breaks for the client, and what it had sent arrives
later."""

import re
import socket
import threading

from locksley_daemon import wait_for

FORWARD, HOLD, LOSE_REPLY = "forward", "hold", "lose the reply"


def take_command(buffer):
    """The bytes of the first whole command, which are removed from `buffer`, and its words; None if it is not whole."""
    words, at = [], buffer.find(b"\r\n")
    if at < 0:
        return None
    count, at = int(buffer[1:at]), at + 2
    for _ in range(count):
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(buffer[at + 1 : end])
        if len(buffer) < end + 2 + size + 2:
            return None
        words.append(bytes(buffer[end + 2 : end + 2 + size]))
        at = end + 2 + size + 2
    raw = bytes(buffer[:at])
    del buffer[:at]
    return raw, words


def end(connection):
    """Wakes the thread that reads it, which closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Link:
    """One connection of the client, and one to the daemon."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.daemon = socket.create_connection((proxy.host, proxy.port))
        self.is_cut = False
        self.late_replies = bytearray()
        for pump in (self.up, self.down):
            threading.Thread(target=pump, daemon=True).start()

    def cut(self):
        """For the client the connection is broken; that to the daemon stays."""
        self.is_cut = True
        end(self.client)

    def up(self):
        buffer = bytearray()
        try:
            while piece := self.client.recv(1 << 16):
                buffer += piece
                while command := take_command(buffer):
                    self.pass_on(*command)
        except OSError:
            pass
        if not self.is_cut:
            end(self.daemon)
        self.client.close()

    def pass_on(self, raw, words):
        what = self.proxy.rule(words)
        if what == HOLD:
            self.proxy.held.append((self, raw))
            return self.cut()
        if what == LOSE_REPLY:
            self.cut()
        self.daemon.sendall(raw)

    def down(self):
        try:
            while piece := self.daemon.recv(1 << 16):
                if self.is_cut:
                    self.late_replies += piece
                else:
                    self.client.sendall(piece)
        except OSError:
            pass
        end(self.client)
        self.daemon.close()


class LateProxy:
    """`rule(words)` decides whether a command is passed on, is held, or loses its reply. `port` is the daemon's, and may change. Use close()."""

    def __init__(self, host, port, rule=lambda words: FORWARD):
        self.host, self.port, self.rule = host, port, rule
        self.held = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                Link(self, client)
            except OSError:
                client.close()  # no daemon is there

    def release(self):
        """What was held arrives at the daemon now, on its old connection. The daemon's replies."""
        replies = []
        while self.held:
            link, raw = self.held.pop()
            link.daemon.sendall(raw)
            wait_for("the reply to a command that arrives late", lambda: re.search(rb"\r\n$", link.late_replies))
            replies.append(bytes(link.late_replies).decode())
        return replies

    def close(self):
        self.listener.close()

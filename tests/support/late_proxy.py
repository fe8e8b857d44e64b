"""A proxy between a client and a daemon that delays a command, or loses its reply: the connection breaks for the client, and what it had sent arrives
later."""

import contextlib
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
    """Shuts the connection down: for its peer it is closed, and the thread that reads it goes on."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def stop_listening(listener, accepting):
    """Closes the listener once its thread has ended: a thread that waits in accept() would go on waiting after the socket is closed, and after
    SIGSTOP and SIGCONT even at another socket that has the descriptor by then."""
    end(listener)
    accepting.join()
    listener.close()


class Link:
    """One connection of the client, and one to the daemon. The thread that ends last closes both: else the other might use a connection that is just
    being closed, and so a connection of another link, which has its descriptor by then."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.daemon = socket.create_connection((proxy.host, proxy.port))
        self.is_cut = False
        self.late_replies = bytearray()
        self.lock, self.pumps = threading.Lock(), 2
        for pump in (self.up, self.down):
            threading.Thread(target=self.run, args=(pump,), daemon=True).start()

    def run(self, pump):
        try:
            pump()
        except OSError:
            pass
        # Neither side gets anything more; but after a cut the daemon does not notice the cut.
        if not (self.is_cut and pump == self.up):
            end(self.daemon)
        end(self.client)
        with self.lock:
            self.pumps -= 1
            if self.pumps == 0:
                self.client.close()
                self.daemon.close()

    def cut(self):
        """Breaks the client's connection, and loses what the client still sends; the connection to the daemon stays."""
        self.is_cut = True
        with contextlib.suppress(OSError):  # it is gone
            self.client.shutdown(socket.SHUT_WR)

    def up(self):
        buffer = bytearray()
        while piece := self.client.recv(1 << 16):
            if self.is_cut:
                continue
            buffer += piece
            while command := take_command(buffer):
                self.pass_on(*command)

    def pass_on(self, raw, words):
        what = self.proxy.rule(words)
        if what == HOLD:
            self.proxy.held.append((self, raw))
            return self.cut()
        if what == LOSE_REPLY:
            self.cut()
        self.daemon.sendall(raw)

    def down(self):
        while piece := self.daemon.recv(1 << 16):
            try:
                if not self.is_cut:
                    self.client.sendall(piece)
                    continue
            except OSError:
                if not self.is_cut:
                    raise
            self.late_replies += piece


class LateProxy:
    """`rule(words)` decides whether a command is passed on, is held, or loses its reply. `port` is the daemon's, and may change. Use close()."""

    def __init__(self, host, port, rule=lambda words: FORWARD):
        self.host, self.port, self.rule = host, port, rule
        self.held = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

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
        """Sends the held commands to the daemon now, on their old connections. Returns the daemon's replies."""
        replies = []
        while self.held:
            link, raw = self.held.pop()
            link.daemon.sendall(raw)
            wait_for("the reply to a command that arrives late", lambda: re.search(rb"\r\n$", link.late_replies))
            replies.append(bytes(link.late_replies).decode())
        return replies

    def close(self):
        """Accepts no more connections; those that exist stay."""
        stop_listening(self.listener, self.accepting)

"""A daemon of a test that does not serve: it answers the commands of a connection and INFO, and every other one as the test says."""

import socket
import threading

from resp import DEADLINE_S, Closed, Connection
from scripted_upstream import bulk, number


class ScriptedStandby:
    """Owned by the test, which calls close(). `say`: from the words of a command to its error, without the dash; it is called on the
    connections' threads, one call at a time. `commands`: those that were answered so."""

    def __init__(self, say):
        self.say = say
        self.commands = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._connections, self._threads = [], []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(DEADLINE_S)
        self._listener.close()
        for connection in self._connections:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already
        for thread in self._threads:
            thread.join(DEADLINE_S)
        for connection in self._connections:
            connection.close()

    def _accept(self):
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection.__new__(Connection)  # the server's end of one
            connection.socket, connection.buffer, connection.position = accepted, bytearray(), 0
            accepted.settimeout(DEADLINE_S)
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=[connection]))
            self._threads[-1].start()

    def _serve(self, connection):
        try:
            while True:
                connection.send(self._answer(connection.read()))
        except (Closed, OSError):
            return

    def _answer(self, words):
        if words[0] == "HELLO":
            return b"%1\r\n" + bulk("proto") + number(3)
        if words[0] == "CLIENT":
            return b"+OK\r\n"
        if words[0] == "PING":
            return b"+PONG\r\n"
        if words[0] == "INFO":
            return bulk("# Replication\r\nrole:slave\r\n")
        with self._lock:
            self.commands.append(words)
            return f"-{self.say(words)}\r\n".encode()

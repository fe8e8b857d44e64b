"""A daemon of a test that does not serve: it stands by, or is about to take over, and says so to all but connection commands."""

import socket
import threading

from late_proxy import stop_listening, take_command

CONNECTION_COMMANDS = {"PING": b"+PONG\r\n", "AUTH": b"+OK\r\n", "CLIENT": b"+OK\r\n", "SELECT": b"+OK\r\n", "QUIT": b"+OK\r\n"}
LOADING = b"-LOADING the daemon is taking over\r\n"


def readonly(address):
    return b"-READONLY the active daemon is %s\r\n" % address.encode()


class StandbyServer:
    """Listens on a free port of loopback. `says(words)` is its answer to a command, as bytes; `heard` are the commands that it refused, as lists of
    words, except its `connection_commands`. Its threads call `says`, one call at a time. Use close()."""

    def __init__(self, says):
        self.says, self.heard, self.connection_commands = says, [], CONNECTION_COMMANDS
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        buffer = bytearray()
        with client:
            try:
                while piece := client.recv(1 << 16):
                    buffer += piece
                    while command := take_command(buffer):
                        client.sendall(self._answer([word.decode(errors="replace") for word in command[1]]))
            except OSError:
                pass

    def _answer(self, words):
        name = words[0].upper()
        if name == "INFO":
            info = b"role:slave\r\nloading:0\r\n"
            return b"$%d\r\n%b\r\n" % (len(info), info)
        if name in self.connection_commands:
            return self.connection_commands[name]
        if name == "HELLO":
            return b"%1\r\n$5\r\nproto\r\n:3\r\n" if words[1:2] == ["3"] else b"-NOPROTO unsupported protocol version\r\n"
        with self.lock:
            self.heard.append(words)
            return self.says(words)

    def close(self):
        stop_listening(self.listener, self._accepting)

"""Connections by TLS, as resp.Connection and with a hand on each record; and tests that have an authority of their own."""

import socket
import ssl

import resp
from certificates import Authority
from locksley_daemon import DaemonTest, wait_for
from scratch import scratch


def client_context(authority=None, pair=None):
    """Verifies the server by `authority`, a file; shows `pair`, if there is one."""
    context = ssl.create_default_context(cafile=authority)
    if pair:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


class TlsConnection(resp.Connection):
    def __init__(self, host, port, context, **options):
        super().__init__(host, port, **options)
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname=host, suppress_ragged_eofs=True)
        except BaseException:
            self.socket.close()
            raise


class Records:
    """TLS whose records go out when the test says so."""

    def __init__(self, host, port, context):
        self.socket = socket.create_connection((host, port), timeout=resp.DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)

    def close(self):
        self.socket.close()

    def first_flight(self):
        """The ClientHello, as bytes; not sent."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return self.outgoing.read()
        raise AssertionError("a handshake without the server")

    def handshake(self):
        self._repeat(self.tls.do_handshake)

    def _repeat(self, step):
        while True:
            try:
                result = step()
                self.push()
                return result
            except ssl.SSLWantReadError:
                self.push()
                piece = self.socket.recv(1 << 16)
                if piece:
                    self.incoming.write(piece)
                else:
                    self.incoming.write_eof()

    def push(self):
        if data := self.outgoing.read():
            self.socket.sendall(data)

    def send(self, data):
        """One record, at once."""
        self.tls.write(data)
        self.push()

    def sealed(self, data):
        """The bytes of a record that holds `data`; not sent."""
        self.tls.write(data)
        return self.outgoing.read()

    def say_end(self):
        """Sends close_notify; the connection stays open."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.push()

    def read(self, count):
        """`count` bytes, or all bytes until the end."""
        data = b""
        while len(data) < count:
            try:
                piece = self._repeat(lambda: self.tls.read(count - len(data)))
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break
            if not piece:
                break
            data += piece
        return data


class TlsTest(DaemonTest):
    """`authority` has signed `server`, for 127.0.0.1 and localhost; `context` trusts it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = scratch(cls, "locksley-tls-")
        cls.authority = Authority(cls.folder, "authority")
        cls.server = cls.authority.issue("server")
        cls.context = client_context(cls.authority.certificate)

    def start_tls(self, limits=None, **tls):
        return self.start({"listen": {"tls": self.server.settings(**tls)}, "limits": limits or {}})

    def secure(self, daemon, context=None, **options):
        connection = TlsConnection(daemon.host, daemon.port, context or self.context, **options)
        self.addCleanup(connection.close)
        return connection

    def records(self, daemon, context=None):
        records = Records(daemon.host, daemon.port, context or self.context)
        self.addCleanup(records.close)
        return records

    def no_connection_is_left(self, daemon):
        wait_for("all connections to be gone", lambda: daemon.metrics()["locksley_connections"] == 0)

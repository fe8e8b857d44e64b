"""A daemon with TLS and users, for tests whose load does not depend on them."""

from certificates import Authority
from locksley_daemon import merged
from tls_client import TlsConnection, client_context
from users import ALL, BUILTIN, PASSWORD, users


class Secured:
    """What the daemon and its clients need for TLS and users."""

    NAMES = ("alice", "bob")

    def __init__(self, folder, handlers):
        """`handlers`: of the configuration. The users may use them, and those that are built in."""
        authority = Authority(folder, "authority")
        pair = authority.issue("server")
        self.certificate, self.key = pair.certificate, pair.key
        self.authority = str(authority.certificate)
        self.context = client_context(self.authority)
        named = {name: {"weight": weight, "handlers": [*BUILTIN["handlers"], *handlers]} for weight, name in enumerate(self.NAMES, 1)}
        self.settings = merged({"listen": {"tls": pair.settings()}}, users(**named, admin={"commands": ALL}))

    def connect(self, daemon, user, **options):
        connection = TlsConnection(daemon.host, daemon.port, self.context, **options)
        try:
            connection("HELLO", 2, "AUTH", user, PASSWORD.format(user))
        except BaseException:
            connection.close()
            raise
        return connection

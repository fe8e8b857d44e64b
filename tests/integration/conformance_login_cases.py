"""Cases for a server that asks for a password: that of the user `default` is PASSWORD. As in conformance_cases.py."""

import conformance_cases
from conformance_cases import CLOSED, HELLO_3, PONG, command, protocol_error

PASSWORD = "x"
PING = conformance_cases.PING
LOGIN_CASES = []


def case(*arguments, **more):
    """Not one of those for a server without."""
    conformance_cases.case(*arguments, **more)
    LOGIN_CASES.append(conformance_cases.CASES.pop())


WRONG = r"-WRONGPASS [^\r\n]*⏎"
NOAUTH = r"-NOAUTH [^\r\n]*⏎"

case("noauth", PING, r"-NOAUTH Authentication required\.⏎")
case("noauth-hello", command("HELLO", "3"), r"-NOAUTH HELLO must be called with the client already authenticated[^\r\n]*⏎")
case("noauth-mb", b"*11\r\n", protocol_error("unauthenticated multibulk length"), CLOSED)
case("noauth-bulk", b"*1\r\n$16385\r\n", protocol_error("unauthenticated bulk length"), CLOSED)
case("noauth-unknown", command("NOSUCH"), "-(ERR unknown command|NOAUTH) [^\r\n]*⏎")
case("auth-wrong", command("AUTH", "definitely-wrong") + PING, WRONG + NOAUTH)
case("auth-wrong-user", command("AUTH", "nobody-here", "x"), r"-WRONGPASS invalid username-password pair or user is disabled\.⏎")
case("auth-hello-wrong", command("HELLO", "3", "AUTH", "default", "bad") + PING, WRONG + NOAUTH)
case("auth-arity", command("AUTH", "a", "b", "c"), "-ERR (syntax error|wrong number of arguments for .auth. command)⏎")
case("auth-ok", command("AUTH", PASSWORD) + PING, r"\+OK⏎" + PONG)
case("auth-lifts-limits", command("AUTH", PASSWORD) + command("ECHO", "x" * 20_000), r"\+OK⏎\$20000⏎x{20000}⏎")
case("auth-hello-ok", command("HELLO", "3", "AUTH", "default", PASSWORD), HELLO_3)
case("auth-quit", command("QUIT"), r"\+OK⏎", CLOSED)
case("http-post-preauth", b"POST / HTTP/1.1\r\nPING\r\n", "", CLOSED)
case("http-host-preauth", b"Host: localhost\r\nPING\r\n", "", CLOSED)

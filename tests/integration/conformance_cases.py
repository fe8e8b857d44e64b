"""How a server that speaks Redis' protocol behaves on the wire: bytes sent, bytes that must come back, and whether the connection
lives on. Each case holds for redis-server 7.0 as well: `conformance.py --server HOST:PORT` shows it.

In what is expected, a regular expression over bytes, ⏎ stands for CR LF."""

import re
from dataclasses import dataclass

OPEN, CLOSED, HALF_CLOSE, EITHER = "stays open", "is closed", "is half-closed by us, then closed", "either"
MEBI = 1 << 20


@dataclass(frozen=True)
class Case:
    name: str
    send: bytes
    expect: "re.Pattern[bytes]"
    then: str
    pieces: tuple = ()  # how it is to be cut, where that is what the case is about
    big: bool = False  # once, and never byte by byte


CASES = []


def case(name, send, expect, then=OPEN, **more):
    pattern = re.compile(expect.replace("⏎", r"\r\n").encode("latin-1"), re.DOTALL)
    CASES.append(Case(name, send, pattern, then, **more))


def command(*words):
    arguments = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(arguments) + b"".join(b"$%d\r\n%b\r\n" % (len(a), a) for a in arguments)


def protocol_error(text):
    return f"-ERR Protocol error: {text}⏎"


PING, PONG = command("PING"), r"\+PONG⏎"
BAD_COUNT = protocol_error("invalid multibulk length")
BAD_LENGTH = protocol_error("invalid bulk length")
BAD_NAME = r"-ERR Client names cannot contain spaces, newlines or special characters\.⏎"
SOME_ERROR = r"-[A-Z][A-Z0-9_]*( [^\r\n]*)?⏎"


def hello_fields(proto):
    return (
        rf"\$6⏎server⏎\$\d+⏎[a-z]+⏎\$7⏎version⏎\$\d+⏎[\d.]+⏎\$5⏎proto⏎:{proto}⏎\$2⏎id⏎:[1-9]\d*⏎"
        r"\$4⏎mode⏎\$10⏎standalone⏎\$4⏎role⏎\$6⏎master⏎\$7⏎modules⏎\*0⏎"
    )


HELLO_2, HELLO_3 = r"\*14⏎" + hello_fields(2), "%7⏎" + hello_fields(3)

# Inline commands.
case("inline-crlf", b"PING\r\n", PONG)
case("inline-lf", b"PING\n", PONG)
case("inline-blank", b"\r\n\n\r\nPING\r\n", PONG)
case("inline-spaces", b"   PING   \r\n", PONG)
case("inline-only-spaces", b"    \r\nPING\r\n", PONG)
case("inline-tab", b"ECHO\thi\r\n", r"\$2⏎hi⏎")
case("inline-case", b"pInG\r\n" + command("ping") + command("EcHo", "x"), PONG * 2 + r"\$1⏎x⏎")
case("inline-dquote", b'ECHO "a b"\r\n', r"\$3⏎a b⏎")
case("inline-escape", rb'ECHO "\x41\n\"\\"' + b"\r\n", r'\$4⏎A\n"\\⏎')
case("inline-squote", rb"ECHO 'a\'b\n'" + b"\r\n", r"\$5⏎a'b\\n⏎")
case("inline-empty-arg", b'ECHO ""\r\n', r"\$0⏎⏎")
case("inline-unbalanced", b'ECHO "abc\r\nPING\r\n', protocol_error("unbalanced quotes in request"), CLOSED)
case("inline-quote-junk", b'ECHO "a"b\r\n', protocol_error("unbalanced quotes in request"), CLOSED)
case("inline-split", b"PING\r\n", PONG, pieces=(b"PI", b"NG\r", b"\n"))
case("inline-60k", b"ECHO " + b"x" * 60_000 + b"\r\n", r"\$60000⏎x{60000}⏎")
case("inline-too-big", b"A" * 70_000, protocol_error("too big inline request"), CLOSED)
case("inline-nul", b"\0" + b"A" * 70_000 + b"\n", protocol_error(r"[^\r\n]*"), CLOSED)
case("inline-many", b"PING\r\n" * 1000, f"(?:{PONG}){{1000}}")

# Arrays of bulk strings.
case("mb-basic", PING, PONG)
case("mb-bytewise", command("ECHO", "hey"), r"\$3⏎hey⏎", pieces=tuple(bytes([b]) for b in command("ECHO", "hey")))
case("mb-zero", b"*0\r\n" + PING, PONG)
case("mb-neg", b"*-1\r\n*-10\r\n" + PING, PONG)
case("mb-after-inline", b"PING\r\n" + PING + b"PING\n" + PING, PONG * 4)
case("mb-too-many", b"*3000000000\r\n", BAD_COUNT, CLOSED)
case("mb-int-max", b"*2147483648\r\n", BAD_COUNT, CLOSED)
case("mb-i64", b"*9999999999999999999999\r\n", BAD_COUNT, CLOSED)
case("mb-alpha", b"*abc\r\n", BAD_COUNT, CLOSED)
case("mb-empty", b"*\r\n", BAD_COUNT, CLOSED)
case("mb-lead0", b"*01\r\n$4\r\nPING\r\n", BAD_COUNT, CLOSED)
case("mb-plus", b"*+1\r\n$4\r\nPING\r\n", BAD_COUNT, CLOSED)
case("mb-space", b"* 1\r\n$4\r\nPING\r\n", BAD_COUNT, CLOSED)
case("mb-not-dollar", b"*1\r\nfoo\r\n", protocol_error(r"expected '\$', got 'f'"), CLOSED)
case("mb-not-dollar-2nd", b"*2\r\n$4\r\nECHO\r\nfooz\r\n", protocol_error(r"expected '\$', got 'f'"), CLOSED)
case("mb-crlf-arg", b"*1\r\n\r\n", protocol_error(r"expected '\$', got '[^\r\n]'"), CLOSED)
case("mb-int-arg", b"*1\r\n:1\r\n", protocol_error(r"expected '\$', got ':'"), CLOSED)
case("mb-nested", b"*1\r\n" + PING, protocol_error(r"expected '\$', got '\*'"), CLOSED)

# Bulk strings.
case("bulk-neg", b"*1\r\n$-1\r\n", BAD_LENGTH, CLOSED)
case("bulk-alpha", b"*1\r\n$abc\r\n", BAD_LENGTH, CLOSED)
case("bulk-empty", b"*1\r\n$\r\n", BAD_LENGTH, CLOSED)
case("bulk-lead0", b"*1\r\n$04\r\nPING\r\n", BAD_LENGTH, CLOSED)
case("bulk-plus", b"*1\r\n$+4\r\nPING\r\n", BAD_LENGTH, CLOSED)
case("bulk-over-limit", b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (512 * MEBI + 1), BAD_LENGTH, CLOSED)
case("bulk-2g", b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2000000000\r\n", BAD_LENGTH, CLOSED)
case("bulk-i64", b"*1\r\n$9223372036854775808\r\n", BAD_LENGTH, CLOSED)
case("bulk-zero", command("ECHO", ""), r"\$0⏎⏎")
case("bulk-binary", command("ECHO", b"a\0\r\n\xff*1\r\n"), r"\$9⏎a\x00\r\n\xff\*1\r\n⏎")
TAIL = bytes.fromhex("2ec6fbd79e17c4f5884d5036e9ab7d0def9fd046")  # redis-cli --pipe: blank line, then 20 random bytes
case("bulk-echo20", b"\r\n" + command("ECHO", TAIL), r"\$20⏎" + re.escape(TAIL).decode("latin-1") + "⏎")
case("bulk-bad-end", b"*1\r\n$4\r\nPINGxx" + PING, PONG * 2)

# Headers that do not end.
case("hdr-mb-long", b"*" + b"1" * 70_000, protocol_error("(too big mbulk count string|invalid multibulk length)"), CLOSED)
case("hdr-bulk-long", b"*1\r\n$" + b"1" * 70_000, protocol_error("(too big bulk count string|invalid bulk length)"), CLOSED)
case("star-nul", b"*\0" + b"A" * 70_000 + b"\r\n", protocol_error(r"[^\r\n]*"), CLOSED)
case("dollar-nul", b"$\0" + b"A" * 70_000 + b"\r\n", protocol_error(r"[^\r\n]*"), CLOSED)

# What happens around an error, and at the end of input.
case("err-stops", b"*1\r\nfoo\r\n" + PING * 3, protocol_error(r"expected '\$', got 'f'"), CLOSED)
case("err-keeps-earlier", PING + command("ECHO", "k") + b"*1\r\nfoo\r\n", PONG + r"\$1⏎k⏎" + protocol_error(r"expected '\$', got 'f'"), CLOSED)
case("partial-then-eof", b"*2\r\n$4\r\nECHO\r\n$5\r\nab", "", HALF_CLOSE)
case("pipelined-eof", PING * 50, f"(?:{PONG}){{50}}", HALF_CLOSE)
case(
    "pipe-error-middle",
    PING + command("NOSUCHCMD", "a") + PING,
    PONG + r"-ERR unknown command 'NOSUCHCMD', with args beginning with: 'a' ?⏎" + PONG,
)
case("pipe-10k", PING * 10_000, f"(?:{PONG}){{10000}}")

# Commands that are wrong.
case("unknown-noargs", command("NOSUCHCMD"), r"-ERR unknown command 'NOSUCHCMD', with args beginning with: ?⏎")
case("unknown-trunc", command("N" * 5000, "A" * 5000, "B" * 5000), r"-ERR unknown command '[^\r\n]{1,600}⏎")
case("unknown-crlf", command(b"FO\r\n+OK\r\nO", b"x\r\ny") + PING, r"-ERR unknown command '[^\r\n]*⏎" + PONG)
case("empty-name", command("") + PING, r"-ERR [^\r\n]*⏎" + PONG)
case("arity-low", command("ECHO"), "-ERR wrong number of arguments for 'echo' command⏎")
case("arity-high", command("PING", "a", "b"), "-ERR wrong number of arguments for 'ping' command⏎")
case("subcmd-unknown", command("CLIENT", "NOSUCH"), r"-ERR unknown subcommand 'NOSUCH'\. Try CLIENT HELP\.⏎")

# The connection's own commands.
case("ping-arg", command("PING", "hi"), r"\$2⏎hi⏎")
case("hello-bare", command("HELLO"), HELLO_2)
case("hello-3", command("HELLO", "3"), HELLO_3)
case("hello-3-2", command("HELLO", "3") + command("HELLO", "2"), HELLO_3 + HELLO_2)
case("hello-1", command("HELLO", "1") + PING, r"-NOPROTO [^\r\n]*⏎" + PONG)
case("hello-4", command("HELLO", "4") + PING, r"-NOPROTO [^\r\n]*⏎" + PONG)
case("hello-x", command("HELLO", "abc"), "-ERR Protocol version is not an integer or out of range⏎")
case("hello-opt", command("HELLO", "3", "FOO") + command("CLIENT", "GETNAME"), r"-ERR Syntax error in HELLO option 'FOO'⏎\$-1⏎")
case("hello-setname", command("HELLO", "3", "SETNAME", "n1") + command("CLIENT", "GETNAME"), HELLO_3 + r"\$2⏎n1⏎")
case("hello-badname", command("HELLO", "3", "SETNAME", "a b") + command("CLIENT", "GETNAME"), BAD_NAME + r"\$-1⏎")
case("null-resp2", command("CLIENT", "GETNAME"), r"\$-1⏎")
case("null-resp3", command("HELLO", "3") + command("CLIENT", "GETNAME"), HELLO_3 + "_⏎")
case("setname", command("CLIENT", "SETNAME", "w-1") + command("CLIENT", "GETNAME"), r"\+OK⏎\$3⏎w-1⏎")
case("setname-bad", command("CLIENT", "SETNAME", "a b"), BAD_NAME)
case("client-id", command("CLIENT", "ID"), r":[1-9]\d*⏎")
case(
    "client-setinfo",
    command("CLIENT", "SETINFO", "LIB-NAME", "x") + command("CLIENT", "SETINFO", "LIB-VER", "1.0"),
    r"(\+OK⏎\+OK⏎|(-ERR unknown subcommand 'SETINFO'\. Try CLIENT HELP\.⏎){2})",
)
case("select-0", command("SELECT", "0"), r"\+OK⏎")
case("select-big", command("SELECT", "99"), "-ERR DB index is out of range⏎")
case("select-x", command("SELECT", "x"), r"-ERR [^\r\n]*⏎")
case("reset", command("HELLO", "3", "SETNAME", "z") + command("RESET") + command("CLIENT", "GETNAME"), HELLO_3 + r"\+RESET⏎\$-1⏎")
case("quit", command("QUIT") + PING, r"\+OK⏎", CLOSED)

# Commands that describe the server.
case("command-count", command("COMMAND", "COUNT"), r":\d+⏎")
case("command-docs-none", command("COMMAND", "DOCS", "nosuchcmd"), r"\*0⏎")
case("command-docs-none3", command("HELLO", "3") + command("COMMAND", "DOCS", "nosuchcmd"), HELLO_3 + "%0⏎")
case(
    "config-get-save",
    command("CONFIG", "GET", "save") + command("CONFIG", "GET", "appendonly"),
    r"\*2⏎\$4⏎save⏎\$\d+⏎[^\r\n]*⏎\*2⏎\$10⏎appendonly⏎\$\d+⏎(yes|no)⏎",
)
case("info", command("INFO"), r"\$\d+⏎(?=.*redis_version:\d+\.\d+)(?=.*role:master)(?!.*loading:1).*⏎")
case("info-replication", command("INFO", "REPLICATION"), r"\$\d+⏎.*role:master.*⏎")

# Another protocol on this port.
case("http-post-preauth", b"POST / HTTP/1.1\r\nPING\r\n", "", CLOSED)
case("http-post", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nPING\r\n", "", CLOSED)
case("http-host", b"Host: localhost\r\nPING\r\n", "", CLOSED)
case("http-get", b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", r"(-ERR [^\r\n]*⏎)?", CLOSED)
case("tls-hello", bytes.fromhex("160301000501000001000d0a"), ".*", EITHER)

# Large, and without a password.
case("big-args", b"*1000000\r\n$4\r\nPING\r\n" + b"$1\r\na\r\n" * 999_999, SOME_ERROR, big=True)
case("big-bulk", command("ECHO", b"x" * (64 * MEBI)), r"\$67108864⏎x{67108864}⏎", big=True)
case("auth-none", command("AUTH", "x"), r"-ERR AUTH <password> called without any password configured for the default user\.[^\r\n]*⏎")

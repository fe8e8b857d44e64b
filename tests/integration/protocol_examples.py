#!/usr/bin/python3
"""proto/PROTOCOL.md is true: replays its `resp-session` blocks, which its first section explains, against a daemon. And it is complete: it describes
each command, and each option of a batch, that the daemon lists in COMMAND and COMMAND DOCS."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from locksley_daemon import DEADLINE_S, Daemon
from resp import Closed, Error, Push, Simple, Verbatim, encode, is_message

DOCUMENT = ROOT / "proto" / "PROTOCOL.md"
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}


def unescape(text):
    """`text` with backslash escapes decoded, as bytes."""
    decode = lambda match: chr(int(match[1][1:], 16)) if match[1][0] == "x" and len(match[1]) == 3 else ESCAPES.get(match[1], match[1])
    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", decode, text).encode("latin-1")


def split_words(line):
    """As the words of an inline command."""
    words = []
    for match in re.finditer(r"""\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\'|[^'])*)'|([^\s"']+))(?=\s|$)|\s*(\S.*)""", line):
        double, single, bare, wrong = match.groups()
        if wrong is not None:
            raise AssertionError(f"cannot split {line!r} into words, from {wrong!r} on")
        words.append(unescape(double) if double is not None else single.replace("\\'", "'").encode() if single is not None else bare.encode())
    return words


def quoted(text):
    escape = {'"': '\\"', "\\": "\\\\", "\r": "\\r", "\n": "\\n"}
    return '"' + "".join(escape.get(c) or (c if " " <= c <= "~" else f"\\x{ord(c):02x}") for c in text) + '"'


def shown(reply):
    """A reply as the document writes it."""
    if reply is None:
        return "null"
    if isinstance(reply, Simple):
        return "+" + reply
    if isinstance(reply, Error):
        return "-" + reply
    if isinstance(reply, Verbatim):
        return "txt" + quoted(reply)
    if isinstance(reply, str):
        return quoted(reply)
    if isinstance(reply, float):
        return f",{reply:g}"
    if isinstance(reply, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(value)}" for key, value in reply.items()) + "}"
    if isinstance(reply, list):
        return ("push" if isinstance(reply, Push) else "") + "[" + ", ".join(map(shown, reply)) + "]"
    return str(reply)


def matches(expected, reply):
    return re.fullmatch(".*".join(map(re.escape, expected.split("*"))), shown(reply)) is not None


def sessions():
    """(line number, lines) of each block."""
    lines = DOCUMENT.read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line == "```resp-session"]
    return [(start + 2, lines[start + 1 : lines.index("```", start)]) for start in starts]


class Session:
    """One block's connection. Messages of channels wait aside until a line names them."""

    def __init__(self, connection):
        self.connection = connection
        self.messages = []

    def next_reply(self):
        while is_message(reply := self.connection.read()):
            self.messages.append(reply)
        return reply

    def await_message(self, expected):
        seen = []
        while True:
            message = self.messages.pop(0) if self.messages else self.connection.read()
            if not is_message(message):
                raise AssertionError(f"a reply that nobody expects: {shown(message)}")
            if matches(expected, message):
                return
            seen.append(shown(message))
            if len(seen) > 100:
                raise AssertionError(f"none of 100 messages is {expected}: {seen}")

    def step(self, line):
        if line.startswith("#") or not line:
            return
        kind, _, rest = line.partition(" ")
        if kind == ">":
            self.connection.send(encode(*split_words(rest)))
        elif kind == ">>":
            self.connection.send(unescape(rest))
        elif kind == "<<":
            self.await_message(rest)
        elif line == "< closed":
            came = self.connection.read_until_closed(DEADLINE_S)
            if came:
                raise AssertionError(f"before it closed there came {came!r}")
        elif kind == "<":
            reply = self.next_reply()
            if not matches(rest, reply):
                raise AssertionError(f"the reply is {shown(reply)}")
        else:
            raise AssertionError("not a line of a session")

    def check_nothing_is_left(self):
        """No reply that the block does not tell of."""
        self.connection.send(encode("PING", "the end"))
        reply = self.next_reply()
        if reply not in ("the end", ["pong", "the end"]):
            raise AssertionError(f"a reply that the session does not show: {shown(reply)}")


class ProtocolExamples(unittest.TestCase):
    def test_every_session_goes_as_it_is_written(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        blocks = sessions()
        self.assertGreater(len(blocks), 10, "where are the examples?")
        for first, lines in blocks:
            with self.subTest(line=first), daemon.connect() as connection:
                session = Session(connection)
                for number, line in enumerate(lines, first):
                    try:
                        session.step(line)
                    except (AssertionError, Closed) as error:
                        raise AssertionError(f"PROTOCOL.md:{number}: {line}\n  {error}") from None
                if lines[-1] != "< closed":
                    session.check_nothing_is_left()

    def test_every_command_is_there(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        with daemon.connect() as connection:
            commands = connection("COMMAND")
        names = [name for command in commands for name in (command[0], *(subcommand[0] for subcommand in command[9]))]
        self.assertGreater(len(names), 50, "where are the commands?")
        text = DOCUMENT.read_text()
        # In a heading, in the first column of a table, or at the beginning of a paragraph.
        place = r"^(### ([^\n]*\b)?|\|([^|\n]|\\\|)*`|`([^\n]*`)?)"
        missing = [name for name in names if not re.search(rf"{place}{name.replace('|', ' ')}\b", text, re.IGNORECASE | re.MULTILINE)]
        self.assertEqual(missing, [])

    def test_every_option_of_a_batch_is_there(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        with daemon.connect() as connection:
            docs = connection("COMMAND", "DOCS", "open")[1]
        arguments = [dict(zip(one[::2], one[1::2])) for one in dict(zip(docs[::2], docs[1::2]))["arguments"]]
        options = [one["token"] for one in arguments if "token" in one]
        self.assertGreater(len(options), 10, "where are the options?")
        text = DOCUMENT.read_text()
        self.assertEqual([name for name in options if not re.search(rf"^\| `{name}\b", text, re.MULTILINE)], [])

    def test_every_reason_of_explain_is_there_in_the_order_in_which_they_are_looked_for(self):
        source = (ROOT / "daemon" / "server" / "state" / "inspection.cc").read_text()
        function = source[source.index("Reason reason_of("):]
        given = re.findall(r'"([a-z]+(?:-[a-z]+)*)"', function[:function.index("\n}\n")])
        text = DOCUMENT.read_text()
        table = text[text.index("| `reason` | the batch |"):]
        described = re.findall(r"^\| `([a-z-]+)` \|", table[:table.index("\n\n")], re.MULTILINE)[1:]
        self.assertGreater(len(given), 10, "where are the reasons?")
        self.assertEqual(described, list(dict.fromkeys(given)))

    def test_the_reader_of_sessions_finds_what_is_wrong(self):
        self.assertTrue(matches('["0", [[*, "ok", "a\\x00\\""]]]', ["0", [[0, "ok", 'a\0"']]]))
        self.assertFalse(matches("+OK", "OK"))
        self.assertFalse(matches('"ok"', "ok "))
        self.assertFalse(matches("[1, *]", Push([1, 2])))
        self.assertTrue(matches('{"share": ,0.5, *}', {"share": 0.5, "x": None}))
        self.assertEqual(split_words("""a "b c" '\\'' "\\x00\\r" """), [b"a", b"b c", b"'", b"\0\r"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""The longest stretch of the I/O thread while clients send and receive single texts of many megabytes. As io_stretch.py, which has the other costly
commands."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from resp import Error

MEBI = 1 << 20


class Words(io_stretch.Stretches):
    @io_stretch.once_of_three
    def test_words_of_many_megabytes(self):
        """They would be hashed, matched, parsed, copied and freed at once."""
        word = b"x" * (64 * MEBI)
        commands = [("STATUS",), ("ADD",), ("CONFIG", "SET", "limits.open_timeout"), ("COMMAND", "LIST", "FILTERBY", "PATTERN")]
        commands += [("CLIENT", "SETNAME"), ("AUTH", "a"), ("SUBMIT", "echo", "WEIGHT"), ("BACKUP",)]
        for command in commands:
            rest = ["JOBS", "a"] if command[0] in ("ADD", "SUBMIT") else []
            self.assertIsInstance(self.command.ask(*command, word, *rest), Error)
            self.note_longest(f"{command} with a word of 64 MiB")
        self.assertIsInstance(self.command.ask("CONFIG", "SET", word, word), Error)
        self.note_longest("CONFIG SET with a key of 64 MiB")

    @io_stretch.once_of_three
    def test_refused_commands_of_very_many_words(self):
        words = ["x" * 60_000] * 1_200
        self.command("MULTI")
        for _ in range(2):
            self.assertIsInstance(self.command.ask("SUBMIT", "echo", *words), Error)
            self.note_longest("a SUBMIT of 72 MB that is not queued since MULTI")
        self.command("RESET")
        self.assertIsInstance(self.command.ask("SUBSCRIBE", *words * 4), Error)
        self.note_longest("a SUBSCRIBE of 290 MB")


if __name__ == "__main__":
    unittest.main()

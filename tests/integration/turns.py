#!/usr/bin/python3
"""Whose turn it is: connections of one user, however many have something to do, delay one of another user by a turn or two. What is counted is the
commands that the daemon has executed before the neighbour's, not time: the daemon is stopped while all of them send, and INFO says how many
commands there were before it."""

import pathlib
import re
import resource
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from resp import encode
from users import ALL, PASSWORD, UsersTest

CROWD = 2_000  # connections
LONG = 400  # connections with more commands than a turn has
PIPELINE = 4_000  # commands of each; a turn has at most 1,024
INFO = encode("INFO", "stats")


class Turns(UsersTest):
    def setUp(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.daemon = self.start_with(crowd={"commands": ALL}, neighbour={"commands": ALL})

    def crowd(self, count, name="crowd"):
        connections = [self.connect(self.daemon) for _ in range(count)]
        for each in connections:
            each.send(encode("AUTH", name, PASSWORD.format(name)))
        for each in connections:
            self.assertEqual(each.read(), "OK")
        return connections

    def executed(self, reply):
        return int(re.search(r"total_commands_processed:(\d+)", reply)[1])

    def executed_before(self, neighbour, commands, crowd, each):
        """How many commands of the crowd, whose connections have sent `each` commands before the neighbour sends anything, come before its INFO,
        which it sends after `commands` PINGs. The neighbour is not counted."""
        before = self.executed(neighbour("INFO", "stats"))
        self.daemon.send_signal(signal.SIGSTOP)
        try:
            for connection in crowd:
                connection.send(encode("PING") * each)
            neighbour.send(encode("PING") * commands + INFO)
        finally:
            self.daemon.send_signal(signal.SIGCONT)
        for _ in range(commands):
            self.assertEqual(neighbour.read(), "PONG")
        executed = self.executed(neighbour.read()) - before - commands - 1
        for connection in crowd:
            for _ in range(each):
                self.assertEqual(connection.read(), "PONG")
        return executed

    def test_one_command_waits_for_a_few_turns_of_very_many_connections(self):
        neighbour = self.log_in(self.daemon, "neighbour")
        executed = self.executed_before(neighbour, 0, self.crowd(CROWD), 1)
        print(f"{executed} of {CROWD} commands came before the neighbour's")
        self.assertLess(executed, 64)

    def test_so_does_one_of_strangers(self):
        """They may send AUTH and the like; all of them together are as one user."""
        neighbour = self.log_in(self.daemon, "neighbour")
        crowd = [self.connect(self.daemon) for _ in range(CROWD)]
        before = self.executed(neighbour("INFO", "stats"))
        self.daemon.send_signal(signal.SIGSTOP)
        for each in crowd:
            each.send(encode("NOSUCH"))
        neighbour.send(INFO)
        self.daemon.send_signal(signal.SIGCONT)
        executed = self.executed(neighbour.read()) - before - 1
        print(f"{executed} of {CROWD} strangers' commands came before the neighbour's")
        self.assertLess(executed, 64)

    def test_a_long_pipeline_waits_for_one_turn_of_them_for_each_of_its_own(self):
        neighbour = self.log_in(self.daemon, "neighbour")
        executed = self.executed_before(neighbour, PIPELINE, self.crowd(LONG), PIPELINE)
        print(f"{executed} of {LONG * PIPELINE} commands came before the end of the neighbour's {PIPELINE}")
        self.assertLess(executed, 20 * PIPELINE)


if __name__ == "__main__":
    unittest.main()

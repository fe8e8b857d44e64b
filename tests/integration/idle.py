#!/usr/bin/python3
"""An idle daemon uses no CPU and wakes for nothing, with 100 clients connected and whatever they did before."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from programs import are_asleep

CLIENTS = 100
SECONDS = 10


class Idle(DaemonTest):
    def test_no_cpu_time_and_no_context_switches(self):
        daemon = self.start()
        connections = [self.connect(daemon) for _ in range(CLIENTS)]
        batches = [connection("SUBMIT", "echo", "JOBS", "a", "b") for connection in connections]
        for connection, batch in zip(connections, batches):
            connection.wait(batch)
        # Not only connections that have nothing to do, but also what waits for something that does not come.
        connections[0]("SUBSCRIBE", "batches")
        connections[1]("OPEN", "echo", "ID", "open")
        connections[2].send(b"WAIT open\r\nPING\r\n")
        connections[3].send(b"RESULTS open BLOCK 0\r\n")
        connections[4].send(b"*2\r\n$4\r\nECHO\r\n$1000\r\nhalf of a command")
        # Everything said until here has been read when this one is answered; workers then go to rest.
        connections[5]("PING")

        def at_rest():
            """A thread that waits for the processor alone does nothing for half a second either, and is not at rest."""
            before = daemon.threads()
            time.sleep(0.5)
            return are_asleep(daemon.pid) and daemon.threads() == before

        wait_for("all threads to be at rest for half a second", at_rest)
        before = daemon.threads()
        time.sleep(SECONDS)
        after = daemon.threads()

        self.assertGreaterEqual(len(before), 3, f"an I/O thread and two workers, expected: {before}")
        busy = {
            name: {"cpu_ns": after[thread][1] - nanoseconds, "context_switches": after[thread][2] - switches}
            for thread, (name, nanoseconds, switches) in before.items()
            if thread in after and after[thread] != (name, nanoseconds, switches)
        }
        self.assertEqual(before.keys(), after.keys(), "threads came or went")
        self.assertEqual(busy, {}, f"in {SECONDS} s these threads did something")
        print(f"{CLIENTS} clients, {len(before)} threads, {SECONDS} s: no CPU time, no context switches")
        # They were idle, not dead.
        self.assertEqual(connections[6]("PING"), "PONG")
        self.assertEqual(connections[1]("CLOSE", "open"), 0)
        self.assertIn("state", connections[2].read())
        self.assertEqual(connections[2].read(), "PONG")
        self.assertEqual(connections[3].read(), ["0", []])


if __name__ == "__main__":
    unittest.main()

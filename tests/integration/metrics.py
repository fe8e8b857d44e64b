#!/usr/bin/python3
"""Series of /metrics are bounded: whatever clients do, none comes and none goes."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from resp import encode
from scratch import scratch
from users import BUILTIN, UsersTest

FOR_EVER_MS = 3_600_000


def tenants(series):
    """The values of the label."""
    return {key.partition('tenant="')[2].partition('"')[0] for key in series if key.startswith("locksley_tenant_queued_jobs{")}


class Series(UsersTest):
    def test_none_is_added_by_what_clients_do(self):
        folder = scratch(self)
        daemon = self.start({"store": {"path": str(folder)}, "handlers": {"cat": {"command": ["cat"]}}})
        connection = self.connect(daemon)
        connection.wait(connection("SUBMIT", "echo", "JOBS", "x"))  # the tenant has been seen
        before = set(daemon.metrics())
        self.assertGreater(len(before), 400)
        connection("SUBMIT", "sleep", "ID", "hold", "JOBS", *[FOR_EVER_MS] * 2)
        wait_for("the workers to be held", lambda: connection.status("hold")["running"] == 2)
        for number in range(300):
            connection.send(
                encode("SUBMIT", "echo", "ID", f"mine-{number}", "NAME", f"name-{number}", "JOBS", "x")
                + encode("SUBMIT", "fail", "EPHEMERAL", "RETRIES", 2, "JOBS", "x", "y")
                + encode("SUBMIT", "cat", "DELAY", FOR_EVER_MS, "JOBS", "x")
                + encode("SUBMIT", f"nobody-{number}", "JOBS", "x")
                + encode(f"COMMAND-{number}")
                + encode("CLIENT", "SETNAME", f"client-{number}")
                + encode("CANCEL", f"mine-{number - 100}")
            )
            for _ in range(7):
                connection.read()
        others = [self.connect(daemon) for _ in range(50)]
        for number, other in enumerate(others):
            other("SUBSCRIBE", f"batch:mine-{number}")
        self.assertEqual(connection.status("mine-299")["state"], "queued")
        self.assertEqual(set(daemon.metrics()), before)
        connection("CANCEL", "hold")
        connection.wait("mine-299")
        self.assertEqual(set(daemon.metrics()), before)

    def test_the_busy_time_of_a_tenant_outlives_its_batches(self):
        daemon = self.start_with({"http": {"login": "none"}}, alice={"commands": ["submit", "read"], "handlers": ["spin"]})
        connection = self.log_in(daemon, "alice")
        busy = 'locksley_tenant_busy_seconds_total{tenant="alice"}'
        before = 0
        for total in (0.02, 0.04, 0.06):
            connection("RUN", "spin", "JOBS", 20_000)
            # The reply may come a moment before the worker's time is counted.
            wait_for("the time to be counted", lambda: daemon.metrics().get(busy, 0) >= total)
            for _ in range(2):
                metrics = daemon.metrics()
                self.assertGreaterEqual(metrics[busy], max(before, total))
                before = metrics[busy]
                self.assertAlmostEqual(metrics['locksley_tenant_share_ratio{tenant="alice"}'], 1, places=3)
        [tenant] = connection("TENANTS")
        shown = dict(zip(tenant[::2], tenant[1::2]))
        self.assertGreaterEqual(int(shown["busy_us"]), 60_000)

    def test_tenants_beyond_the_limit_share_one(self):
        names = [f"user{number}" for number in range(12)]
        everybody = {name: BUILTIN for name in names}
        daemon = self.start_with({"metrics": {"tenants": 3}, "http": {"login": "none"}}, **everybody)
        connections = [self.log_in(daemon, name) for name in names]
        connections[0]("SUBMIT", "sleep", "ID", "hold", "JOBS", *[FOR_EVER_MS] * 2)
        wait_for("the workers to be held", lambda: connections[0].status("hold")["running"] == 2)
        counts = []
        for number, connection in enumerate(connections):
            for _ in range(5):
                connection("SUBMIT", "echo", "JOBS", "x")
            counts.append((len(daemon.metrics()), tenants(daemon.metrics())))
            self.assertLessEqual(len(counts[-1][1]), 4, counts[-1])
        self.assertEqual(counts[-1], counts[4], "series grow with users")
        self.assertEqual(len(counts[-1][1]), 4, counts[-1])
        self.assertIn("other", counts[-1][1])
        metrics = daemon.metrics()
        self.assertEqual(sum(value for key, value in metrics.items() if key.startswith("locksley_tenant_queued_jobs{")), 60)


if __name__ == "__main__":
    unittest.main()

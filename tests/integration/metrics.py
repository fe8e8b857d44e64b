#!/usr/bin/python3
"""Series of /metrics are bounded: whatever clients do, none comes and none goes."""

import json
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import encode
from scratch import scratch
from scripted_upstream import ScriptedUpstream, array, bulk, number
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

    def test_what_was_removed_has_series_while_something_of_it_is_left(self):
        daemon = self.start_with()
        connection = self.connect(daemon)
        connection.wait(connection("SUBMIT", "echo", "JOBS", "x"))  # the tenant has been seen
        lanes = lambda: [row["lane"] for row in json.loads(daemon.get("/api/overview")[1])["lanes"]]
        before = set(daemon.metrics())
        self.assertEqual(lanes(), ["cpu"])
        added = {"lanes": {"gpu": {"slots": 1}}, "handlers": {"cat": {"command": ["cat"], "lane": "gpu"}}}
        of_lane = lambda series: {key for key in series if 'lane="gpu"' in key}
        for _ in range(2):  # it may come back
            self.reload(daemon, added)
            connection.wait(connection("SUBMIT", "cat", "JOBS", "x"))
            waits = connection("SUBMIT", "cat", "DELAY", FOR_EVER_MS, "JOBS", "x")
            with_it = set(daemon.metrics())
            self.assertEqual({key.replace('"gpu"', '"cpu"') for key in of_lane(with_it)}, {key for key in before if 'lane="cpu"' in key})
            self.assertEqual(with_it - before - of_lane(with_it), {key.replace('"echo"', '"cat"') for key in before if 'handler="echo"' in key})
            self.reload(daemon)
            self.assertEqual((set(daemon.metrics()), lanes()), (with_it, ["cpu", "gpu"]))
            connection("CANCEL", waits)
            wait_for("the batch to leave the lane", lambda: set(daemon.metrics()) == before)
            self.assertEqual(lanes(), ["cpu"])

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


class Upstream(DaemonTest):
    """A daemon that works for another one."""

    def setUp(self):
        self.upstream = ScriptedUpstream()
        self.addCleanup(self.upstream.close)
        settings = {"upstream": {"url": f"redis://127.0.0.1:{self.upstream.port}", "handlers": ["echo", "cat"]}}
        self.settings = {**settings, "handlers": {"cat": {"command": ["cat"]}}}

    def begin(self, **settings):
        self.settings["upstream"].update(settings)
        self.daemon = self.start(self.settings)

    def shown(self, name, lane="cpu"):
        return self.daemon.metrics().get(f'locksley_upstream_{name}{{lane="{lane}"}}')

    def wait_for(self, name, value):
        wait_for(f"{name} to be {value}", lambda: self.shown(name) == value)

    def test_what_a_lane_holds_and_has_done(self):
        self.begin(handlers=["echo"])
        names = ["connected", "jobs_total", "leases", "lost_leases_total", "reconnects_total", "round_trip_seconds", "unacknowledged_result_bytes"]
        before = {key: value for key, value in self.daemon.metrics().items() if key.startswith("locksley_upstream_")}
        self.assertEqual(sorted(before), [f'locksley_upstream_{name}{{lane="cpu"}}' for name in names])
        self.assertEqual(before['locksley_upstream_connected{lane="cpu"}'], 0)
        remote = self.upstream.accept()
        remote.join(["echo"])
        self.wait_for("connected", 1)
        self.assertGreater(self.shown("round_trip_seconds"), 0)
        remote.expect("CLAIM")
        remote.lease("l-1", "echo", 0, ["x" * 1000])
        remote.expect("SETTLE", "l-1")
        self.wait_for("unacknowledged_result_bytes", len(bulk("x" * 1000)))
        self.assertEqual(self.shown("jobs_total"), 0)
        remote.send(array(number(1), number(0)))
        self.wait_for("jobs_total", 1)
        self.wait_for("unacknowledged_result_bytes", 0)
        self.wait_for("leases", 0)
        self.assertEqual(self.shown("reconnects_total"), 0)

    def test_a_connection_that_is_lost_and_a_lease_that_is_gone(self):
        self.begin(handlers=["sleep"])
        remote = self.upstream.accept()
        remote.join(["sleep"])
        remote.expect("CLAIM")
        remote.lease("l-1", "sleep", 0, [FOR_EVER_MS])
        self.wait_for("leases", 1)
        remote.close()
        self.wait_for("connected", 0)
        self.assertEqual((self.shown("leases"), self.shown("reconnects_total")), (1, 0))
        remote = self.upstream.accept()
        remote.join(["sleep"])
        remote.expect("RECLAIM", "7")
        remote.send(b"-LOST it is gone\r\n")
        self.wait_for("lost_leases_total", 1)
        self.wait_for("leases", 0)
        self.assertEqual((self.shown("connected"), self.shown("reconnects_total")), (1, 1))

    def test_a_lane_that_is_no_longer_offered_has_none(self):
        self.begin(handlers=["echo", "cat"])
        self.assertEqual((self.shown("connected"), self.shown("connected", "processes")), (0, 0))
        self.settings["handlers"] = {}
        self.daemon.configure(self.settings)
        self.daemon.send_signal(signal.SIGHUP)
        wait_for("the lane to be gone", lambda: self.shown("connected", "processes") is None)
        self.assertEqual(self.shown("connected"), 0)

    def test_a_daemon_without_an_upstream_has_none(self):
        daemon = self.start()
        self.assertEqual([key for key in daemon.metrics() if "upstream" in key], [])


if __name__ == "__main__":
    unittest.main()

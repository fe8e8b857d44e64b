#!/usr/bin/python3
"""Prometheus' rules: promtool's own tests of them, and the names that they use, against a running daemon."""

import pathlib
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from locksley_daemon import DaemonTest
from scratch import scratch
from promql import TARGET_LABELS, Page, complaints, take_apart
from tls_client import TlsConnection, client_context

HERE = pathlib.Path(__file__).resolve().parent
PROMETHEUS = HERE.parents[1] / "deploy" / "prometheus"
FILES = ("rules.yml", "alerts.yml")
PROMTOOL_S = 120  # it computes for seconds, of hours of samples
CASES = HERE / "rules_test.yml"
UNREACHABLE = "redis://127.0.0.1:1"  # a port on which nothing listens

# The names that users may rely on, and the labels of each.
PROMISED = {
    "locksley_worker_queue_depth": {"worker"},
    "locksley_worker_steals_total": {"worker"},
    "locksley_worker_steal_attempts_total": {"worker"},
    "locksley_worker_stolen_jobs_total": {"worker"},
    "locksley_worker_jobs_total": {"worker"},
    "locksley_worker_parks_total": {"worker"},
    "locksley_worker_empty_wakes_total": {"worker"},
    "locksley_worker_busy_seconds_total": {"worker"},
    "locksley_lane_queued_jobs": {"lane"},
    "locksley_lane_running_jobs": {"lane"},
    "locksley_lane_active_batches": {"lane"},
    "locksley_lane_slots": {"lane"},
    "locksley_batch_queue_depth": {"lane", "rank"},
    "locksley_tenant_queued_jobs": {"tenant"},
    "locksley_tenant_share_ratio": {"tenant"},
    "locksley_tenant_busy_seconds_total": {"tenant"},
    "locksley_ring_claims_total": {"lane"},
    "locksley_ring_wait_seconds_bucket": {"lane", "le"},
    "locksley_batches_total": {"handler", "event"},
    "locksley_jobs_total": {"handler", "status"},
    "locksley_job_duration_seconds_bucket": {"handler", "le"},
    "locksley_batch_wait_seconds_bucket": {"handler", "le"},
    "locksley_batch_duration_seconds_bucket": {"handler", "le"},
    "locksley_handler_failed_starts_total": {"handler"},
    "locksley_connections": set(),
    "locksley_commands_total": {"command"},
    "locksley_command_errors_total": {"code"},
    "locksley_queue_full_errors_total": {"limit"},
    "locksley_received_bytes_total": set(),
    "locksley_sent_bytes_total": set(),
    "locksley_queued_bytes": set(),
    "locksley_store_commit_seconds_bucket": {"le"},
    "locksley_store_bytes": set(),
    "locksley_store_errors_total": set(),
    "locksley_store_disk_size_bytes": set(),
    "locksley_store_disk_free_bytes": set(),
    "locksley_store_max_bytes": set(),
    "locksley_cluster_nodes": {"state"},
    "locksley_cluster_shards": {"state"},
    "locksley_cluster_adoptions_total": set(),
    "locksley_cluster_fenced_total": set(),
    "locksley_remote_workers": set(),
    "locksley_remote_slots": {"lane"},
    "locksley_remote_leases": {"lane"},
    "locksley_remote_leased_bytes": set(),
    "locksley_remote_claims_total": {"lane"},
    "locksley_remote_lost_jobs_total": {"reason"},
    "locksley_remote_cut_jobs_total": set(),
    "locksley_remote_reclaimed_jobs_total": set(),
    "locksley_remote_settle_seconds_bucket": {"le"},
    "locksley_remote_handler_workers": {"handler"},
    "locksley_remote_handler_queued_jobs": {"handler"},
    "locksley_upstream_connected": {"lane"},
    "locksley_upstream_reconnects_total": {"lane"},
    "locksley_upstream_round_trip_seconds": {"lane"},
    "locksley_upstream_leases": {"lane"},
    "locksley_upstream_jobs_total": {"lane"},
    "locksley_upstream_unacknowledged_result_bytes": {"lane"},
    "locksley_upstream_lost_leases_total": {"lane"},
    "locksley_max_clients": set(),
    "locksley_max_queued_jobs": set(),
    "locksley_max_queued_bytes": set(),
    "locksley_tls_certificate_expiry_timestamp_seconds": {"side"},
    "locksley_build_info": {"version", "revision"},
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "process_open_fds": set(),
    "process_max_fds": set(),
    "process_start_time_seconds": set(),
}

# Only on the page of a daemon whose store is a database: tests/integration/standby.py looks for them.
WITH_A_DATABASE = (
    "locksley_cluster_followed_batches",
    "locksley_cluster_lease_seconds_left",
    "locksley_cluster_oldest_transaction_seconds",
    "locksley_cluster_synchronous_standbys",
)


def rules():
    return [rule for file in FILES for group in yaml.safe_load((PROMETHEUS / file).read_text())["groups"] for rule in group["rules"]]


def recorded():
    """Name to labels of what the rules record: what they group by, or the labels of what they compare."""
    result = {}
    for rule in rules():
        if "record" in rule:
            result[rule["record"]] = {"job", "instance", *take_apart(rule["expr"]).grouping}
    return result


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=PROMTOOL_S)


class Files(unittest.TestCase):
    def test_promtool_accepts_rules_and_configuration(self):
        for check in (("check", "rules", *(PROMETHEUS / file for file in FILES)), ("check", "config", PROMETHEUS / "prometheus.yml")):
            done = promtool(*check)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        loaded = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["rule_files"]
        self.assertEqual(sorted(loaded), sorted(FILES))

    def test_each_alert_fires_when_it_should_and_only_then(self):
        done = promtool("test", "rules", CASES)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_such_a_case(self):
        cases = yaml.safe_load(CASES.read_text())["tests"]
        for rule in rules():
            if "alert" not in rule:
                continue
            with self.subTest(rule["alert"]):
                looks = [look for case in cases for look in case.get("promql_expr_test", []) if f'"{rule["alert"]}"' in look["expr"]]
                self.assertTrue([look for look in looks if look.get("exp_samples")], "nothing shows that it fires")
                self.assertTrue([look for look in looks if not look.get("exp_samples")], "nothing shows that it does not always fire")

    def test_each_alert_says_how_bad_it_is_and_what_to_do(self):
        for rule in rules():
            if "alert" in rule:
                with self.subTest(rule["alert"]):
                    self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                    self.assertEqual(set(rule["annotations"]), {"summary", "description"})


class Names(DaemonTest):
    def page(self):
        folder = scratch(self)
        # One side by TLS: the metrics of certificates are there, and what this test fetches is plain.
        authority = Authority(str(folder), "authority")
        daemon = self.start({"store": {"path": f"{folder}/store"}, "workers": {"port": 0}, "handlers": {"far": {"remote": True}},
                             "upstream": {"url": UNREACHABLE}, "listen": {"tls": authority.issue("server").settings()}})
        connection = TlsConnection(daemon.host, daemon.port, client_context(str(authority.certificate)))
        self.addCleanup(connection.close)
        connection.wait(connection("SUBMIT", "echo", "JOBS", "a"))
        return Page([*daemon.metrics(), *WITH_A_DATABASE])

    def test_what_was_promised_is_there(self):
        page = self.page()
        for name, labels in PROMISED.items():
            with self.subTest(name):
                self.assertIn(name, page.series)
                self.assertEqual(page.labels(name) - TARGET_LABELS, labels)

    def test_what_rules_name_is_there(self):
        page, names = self.page(), recorded()
        self.assertGreater(len(rules()), 15)
        for rule in rules():
            with self.subTest(rule.get("alert") or rule["record"]):
                self.assertEqual(complaints(take_apart(rule["expr"]), page, names), [])

    def test_what_is_not_there_would_be_found(self):
        page = self.page()
        for query, complaint in {
            "rate(locksley_job_total[5m])": "no metric locksley_job_total",
            'locksley_jobs_total{state="ok"}': "no label state",
            'locksley_jobs_total{status="fine"}': "no series",
            "sum by (worker) (locksley_connections)": "label worker",
        }.items():
            self.assertIn(complaint, " ".join(complaints(take_apart(query), page, {})), query)
        fine = 'sum by (handler) (rate(locksley_jobs_total{status=~"ok|error", handler="echo"}[5m])) > 0 and on (handler) up == 1'
        self.assertEqual(complaints(take_apart(fine), page, {}), [])
        self.assertEqual(set(take_apart(fine).metrics), {"locksley_jobs_total", "up"})


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""A real daemon, as Prometheus sees it: promtool finds nothing to complain about in /metrics, and a real server that scrapes
it ends up with the right numbers. Health and readiness, through a drain, by the way.

    prometheus_test.py DAEMON      (path of locksleyd; needs Debian's packages prometheus and python3-prometheus-client)"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from prometheus_client import parser as plain_parser
from prometheus_client.openmetrics import parser as openmetrics_parser

DEADLINE_S = 60  # for whatever is waited for; it takes a second or two
DAEMON = None  # path, from the command line


def wait_for(what, look):
    """The first result of look() that is not None. What it waited for, if it never comes."""
    end = time.monotonic() + DEADLINE_S
    while True:
        result = look()
        if result is not None:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"waited {DEADLINE_S} s for {what}")
        time.sleep(0.05)


class Connection:
    """Commands in, replies out: as much RESP2 as this test needs."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def __call__(self, *words):
        arguments = [str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(arguments)] + [b"$%d\r\n%s\r\n" % (len(a), a) for a in arguments]
        self.socket.sendall(b"".join(parts))
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise AssertionError(f"the connection ended: {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.file.read(length + 2)[:-2].decode()
        return int(rest) if kind == b":" else line[:-2].decode() if kind == b"-" else rest.decode()


def http_get(url, accept="*/*"):
    """Status, content type and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=DEADLINE_S) as reply:
            return reply.status, reply.headers["Content-Type"], reply.read().decode()
    except urllib.error.HTTPError as reply:
        return reply.code, reply.headers["Content-Type"], reply.read().decode()


def start_daemon(folder):
    """The process, the address of the wire protocol, the URL of the HTTP side."""
    config = folder / "locksley.yaml"
    # The upstream is never there; its metrics are.
    config.write_text("listen: {port: 0}\nhttp: {port: 0}\npool: {workers: 2}\nupstream: {url: 'redis://127.0.0.1:1'}\n")
    with open(folder / "daemon.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([DAEMON, "--config", config], stdout=subprocess.PIPE, stderr=log, text=True)
    ready = process.stdout.readline()  # CTest's time limit bounds it
    words = dict(word.split("=", 1) for word in ready.split()[1:])
    if not ready.startswith("ready "):
        raise AssertionError(f"the daemon said {ready!r}: " + (folder / "daemon.log").read_text())
    host, port = words["listen"].rsplit(":", 1)
    return process, (host, int(port)), "http://" + words["http"]


def start_prometheus(folder, target, more="scheme: http"):
    """The process and the URL of its API. `more`: of the scrape. Port 0 would be better, but it does not say what it then got."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        "scrape_configs:\n"
        f"  - {{job_name: locksley, {more}, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    for _ in range(5):  # somebody may take the free port before Prometheus does
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with open(folder / "prometheus.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--web.listen-address={address}", f"--storage.tsdb.path={folder / 'tsdb'}"],
                stdout=log,
                stderr=log,
                cwd=folder,
            )

        def is_ready():
            if process.poll() is not None:
                return False
            try:
                return True if http_get(f"http://{address}/-/ready")[0] == 200 else None
            except OSError:
                return None

        if wait_for("Prometheus to be ready", is_ready):
            return process, f"http://{address}/api/v1/"
    raise AssertionError("Prometheus does not start: " + (folder / "prometheus.log").read_text())


def end(process):
    """Ends a process that this test started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="locksley-prometheus-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.daemon, address, cls.url = start_daemon(cls.folder)
        cls.addClassCleanup(end, cls.daemon)
        cls.command = Connection(address)
        cls.addClassCleanup(cls.command.close)
        cls.run_batches()

    @classmethod
    def run_batches(cls):
        """What the numbers below count."""
        command = cls.command
        for submission in (
            ("echo", "RANGE", 0, 1000),
            ("echo", "JOBS", "one more"),
            ("sha256", "RANGE", 0, 50),
            ("fail", "JOBS", "", "no luck"),
            ("sleep", "JOBS", 30),
            ("fib", "JOBS", 22),
        ):
            batch = command("SUBMIT", *submission)
            status = command("WAIT", batch, DEADLINE_S * 1000)
            assert dict(zip(status[::2], status[1::2]))["state"] == "done", status
        batch = command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", 3_600_000, 3_600_000)
        assert command("CANCEL", batch) >= 1
        command("WAIT", batch, DEADLINE_S * 1000)
        error = command("SUBMIT", "nobody", "JOBS", "x")
        assert error.startswith("-NOHANDLER"), error

    def test_promtool_has_nothing_to_complain_about(self):
        status, content_type, text = http_get(self.url + "/metrics")
        self.assertEqual(status, 200)
        self.assertEqual(content_type, "text/plain; version=0.0.4; charset=utf-8")
        check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((check.returncode, check.stdout, check.stderr), (0, "", ""))
        self.assertIn("locksley_build_info", text)
        self.assertIn('locksley_upstream_connected{lane="cpu"} 0\n', text)

    def test_promtool_would_complain(self):
        """That silence means something."""
        bad = "# TYPE jobs_total gauge\njobs_total 1\n"
        check = subprocess.run(["promtool", "check", "metrics"], input=bad, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertNotEqual(check.returncode, 0)

    def test_openmetrics_says_the_same_to_another_parser(self):
        """That parser is strict: the end, names of counters, units, bounds, no name twice."""
        status, content_type, text = http_get(self.url + "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
        self.assertEqual((status, content_type), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        plain = http_get(self.url + "/metrics")
        self.assertEqual(plain[1], "text/plain; version=0.0.4; charset=utf-8")
        mine, known = (list(parser.text_string_to_metric_families(page)) for parser, page in ((openmetrics_parser, text), (plain_parser, plain[2])))

        def series(families):
            """Name and labels to type and help; bounds as numbers, which each format writes in its own way."""
            result = {}
            for family in families:
                for sample in family.samples:
                    labels = {name: float(value) if name == "le" else value for name, value in sample.labels.items()}
                    result[(sample.name, *sorted(labels.items()))] = (family.type, family.documentation)
            return result

        self.assertGreater(len(series(mine)), 400)
        self.assertEqual(series(mine), series(known))
        # What nobody changes meanwhile.
        values = [{(sample.name, *sorted(sample.labels.items())): sample.value for family in page for sample in family.samples} for page in (mine, known)]
        for name in (("locksley_jobs_total", ("handler", "echo"), ("status", "ok")), ("locksley_max_queued_bytes",), ("locksley_job_duration_seconds_sum", ("handler", "sleep"))):
            self.assertAlmostEqual(values[0][name], values[1][name], 12, name)  # the other writes 16 digits
        units = {family.name: family.unit for family in mine}
        self.assertEqual((units["locksley_queued_bytes"], units["locksley_job_duration_seconds"], units["locksley_jobs"]), ("bytes", "seconds", ""))

    def test_that_parser_would_complain(self):
        """That silence means something."""
        for bad in (
            "x 1\n",
            "# TYPE x_total counter\nx_total 1\n# EOF\n",
            "# TYPE x gauge\n# UNIT x seconds\nx 1\n# EOF\n",
            '# TYPE x histogram\nx_bucket{le="1.0"} 1\nx_count 1\nx_sum 1\n# EOF\n',
        ):
            with self.assertRaises(ValueError, msg=bad):
                list(openmetrics_parser.text_string_to_metric_families(bad))

    def test_a_server_that_scrapes_has_the_right_numbers(self):
        process, api = start_prometheus(self.folder, self.url.removeprefix("http://"))
        self.addCleanup(end, process)

        def query(expression):
            """The one value, or None if there is none yet."""
            url = api + "query?" + urllib.parse.urlencode({"query": expression})
            result = json.loads(http_get(url)[2])["data"]["result"]
            return float(result[0]["value"][1]) if len(result) == 1 else None

        for expression, expected in {
            'up{job="locksley"}': 1,
            'locksley_jobs_total{handler="echo",status="ok"}': 1001,
            'locksley_jobs_total{handler="sha256",status="ok"}': 50,
            'locksley_jobs_total{handler="fail",status="error"}': 2,
            'locksley_jobs_total{handler="sleep",status="ok"}': 1,
            'locksley_jobs_total{handler="sleep",status="cancelled"}': 2,
            'locksley_batches_total{handler="echo",event="accepted"}': 2,
            'locksley_batches_total{handler="echo",event="done"}': 2,
            'locksley_batches_total{handler="sleep",event="cancelled"}': 1,
            'locksley_batch_duration_seconds_count{handler="echo"}': 2,
            'locksley_commands_total{command="submit"}': 8,
            'locksley_command_errors_total{code="NOHANDLER"}': 1,
            "locksley_connections": 1,
            'locksley_lane_queued_jobs{lane="cpu"}': 0,
            'locksley_lane_slots{lane="cpu"}': 2,
            "locksley_queued_bytes": 0,
            "count(locksley_worker_queue_depth)": 2,
            "count(locksley_build_info)": 1,
        }.items():
            found = []

            def look():
                found[:] = [query(expression)]
                return True if found[0] == expected else None

            try:
                wait_for(f"{expression} to be {expected}", look)
            except AssertionError as error:
                self.fail(f"{error}; it is {found[0]}\n" + http_get(self.url + "/metrics")[2])

        for expression in (
            'locksley_job_duration_seconds_sum{handler="sleep"} >= 0.03',
            'locksley_job_duration_seconds_bucket{handler="echo",le="+Inf"} > 0',
            'locksley_tenant_busy_seconds_total{tenant="default"} > 0.03',
            "sum(locksley_worker_parks_total) > 0",
            "sum(locksley_worker_jobs_total) >= 1055",
            "process_resident_memory_bytes > 1e6",
            "abs(time() - process_start_time_seconds) < 600",
            "locksley_received_bytes_total > 300",
            "locksley_sent_bytes_total > 100",
        ):
            wait_for(expression, lambda: query(expression))

        def is_well():
            """Whether the last scrape was: on a slow machine one takes longer than it may."""
            target = json.loads(http_get(api + "targets")[2])["data"]["activeTargets"][0]
            return True if (target["health"], target["lastError"]) == ("up", "") else None

        wait_for("a scrape without an error", is_well)

    def test_zz_health_and_readiness_until_the_end(self):
        """The last one: it ends the daemon."""
        self.assertEqual(http_get(self.url + "/healthz")[::2], (200, "ok\n"))
        self.assertEqual(http_get(self.url + "/readyz")[::2], (200, "ready\n"))
        batch = self.command("SUBMIT", "sleep", "JOBS", 3_600_000)
        self.daemon.send_signal(signal.SIGTERM)
        wait_for("/readyz to say that the daemon drains", lambda: True if http_get(self.url + "/readyz")[::2] == (503, "draining\n") else None)
        self.assertEqual(http_get(self.url + "/healthz")[0], 200)
        self.command("CANCEL", batch)
        self.assertEqual(self.daemon.wait(DEADLINE_S), 0)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(__doc__)
    DAEMON = sys.argv.pop(1)
    unittest.main()

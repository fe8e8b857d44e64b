"""A real Prometheus that scrapes one daemon, five times a second, under the name of job that the rules use."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from held_port import hold_port
from locksley_daemon import DEADLINE_S, end_with_parent, wait_for


class PrometheusServer:
    """Ends with the test. `folder` gets its files. `jobs`: from the name of a job of Prometheus to what its configuration has beside the daemon's address."""

    def __init__(self, test, folder, daemon, jobs=None):
        config = folder / "prometheus.yml"
        targets = {"static_configs": [{"targets": [daemon.http.removeprefix("http://")]}]}
        scrapes = [{"job_name": name, **targets, **more} for name, more in (jobs or {"locksley": {}}).items()]
        # Until a scrape succeeds, tests wait; so a slow machine may take as long as it likes for one.
        scrape = {"scrape_interval": "200ms", "scrape_timeout": "200ms"} if jobs is None else {"scrape_interval": "1s", "scrape_timeout": "1s"}
        config.write_text(json.dumps({"global": scrape, "scrape_configs": scrapes}))
        address = f"127.0.0.1:{hold_port(test)}"  # port 0 would do, but it does not say what it then got
        log_path = folder / "prometheus.log"
        with open(log_path, "wb") as log:
            arguments = [f"--config.file={config}", f"--web.listen-address={address}", f"--storage.tsdb.path={folder / 'tsdb'}"]
            process = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log, cwd=folder, preexec_fn=end_with_parent)
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        self._api = f"http://{address}/api/v1/query?query="

        def is_ready():
            if process.poll() is not None:
                raise AssertionError("Prometheus does not start: " + log_path.read_text())
            try:
                with urllib.request.urlopen(f"http://{address}/-/ready", timeout=DEADLINE_S) as reply:
                    return reply.status == 200
            except OSError:
                return False

        wait_for("Prometheus to be ready", is_ready, 2 * DEADLINE_S)

    def ask(self, query):
        """The values of the series that the query gives."""
        return [float(series["value"][1]) for series in self.series(query)]

    def series(self, query):
        """The series with their labels, as Prometheus returns them."""
        try:
            with urllib.request.urlopen(self._api + urllib.parse.quote(query), timeout=DEADLINE_S) as reply:
                return json.load(reply)["data"]["result"]
        except urllib.error.HTTPError as reply:
            raise AssertionError(f"{query}: {reply.read().decode()}") from None

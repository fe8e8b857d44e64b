"""A real Prometheus that scrapes one daemon, five times a second, under the name of job that the rules use."""

import json
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from locksley_daemon import DEADLINE_S, end_with_parent, wait_for


class PrometheusServer:
    """Ends with the test. `folder` gets its files."""

    def __init__(self, test, folder, daemon):
        self._folder = folder
        config = folder / "prometheus.yml"
        target = daemon.http.removeprefix("http://")
        scrape = {"job_name": "locksley", "static_configs": [{"targets": [target]}]}
        config.write_text(json.dumps({"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [scrape]}))
        for _ in range(5):  # another program may take the free port before Prometheus does
            if self._serves(test, config):
                return
        raise AssertionError("Prometheus does not start: " + (folder / "prometheus.log").read_text())

    def _serves(self, test, config):
        """Port 0 would be better, but it does not say what it then got."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with open(self._folder / "prometheus.log", "ab") as log:
            arguments = [f"--config.file={config}", f"--web.listen-address={address}", f"--storage.tsdb.path={self._folder / 'tsdb'}"]
            process = subprocess.Popen(["prometheus", *arguments], stdout=log, stderr=log, cwd=self._folder, preexec_fn=end_with_parent)
        test.addCleanup(process.wait)
        test.addCleanup(process.kill)
        self._api = f"http://{address}/api/v1/query?query="

        def state():
            if process.poll() is not None:
                return "ended"
            try:
                with urllib.request.urlopen(f"http://{address}/-/ready", timeout=DEADLINE_S) as reply:
                    return "ready" if reply.status == 200 else None
            except OSError:
                return None

        return wait_for("Prometheus to be ready", state) == "ready"

    def ask(self, query):
        """The values of the series that answer it."""
        try:
            with urllib.request.urlopen(self._api + urllib.parse.quote(query), timeout=DEADLINE_S) as reply:
                return [float(series["value"][1]) for series in json.load(reply)["data"]["result"]]
        except urllib.error.HTTPError as reply:
            raise AssertionError(f"{query}: {reply.read().decode()}") from None

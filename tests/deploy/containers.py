#!/usr/bin/python3
"""Dockerfile, compose file and Kubernetes manifest: as far as can be seen without an engine, against the tree and against a running daemon."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from locksley_daemon import DEADLINE_S, DaemonTest, program
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CLOSING_S = 15  # daemon/service.cc, kClosingTime
SECONDS = {"s": 1, "m": 60}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)([sm])", str(text)).groups()
    return int(number) * SECONDS[unit]


def checked(text):
    """What the daemon would take from a configuration."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", file.name], capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return yaml.safe_load(done.stdout)


def instructions():
    """Of the Dockerfile: stage, word and rest."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    stage, found = None, []
    for line in text.splitlines():
        if line:
            word, rest = line.split(None, 1)
            if word == "FROM":
                stage = rest.split()[-1] if " AS " in rest else "image"
            found.append((stage, word, rest))
    return found


def is_healthy(*options):
    """Whether the image's health check says so of a daemon with these options."""
    path = f"{pathlib.Path(program('LOCKSLEYD')).parent}:{os.environ['PATH']}"
    health = [DEPLOY / "image/health", *options]
    return subprocess.run(health, env={**os.environ, "PATH": path}, stderr=subprocess.DEVNULL, timeout=DEADLINE_S).returncode == 0


class Image(DaemonTest):
    def values(self, word, stage="image"):
        return [rest for at, name, rest in instructions() if at == stage and name == word]

    def test_what_it_copies_is_there(self):
        for stage in ("build", "test", "image"):
            for copied in self.values("COPY", stage):
                for source in copied.split()[:-1]:
                    self.assertTrue((ROOT / source).exists(), source)
        for name in ("install-dependencies", "test", "image/health"):
            self.assertTrue(os.access(DEPLOY / name, os.X_OK), name)

    def test_it_runs_as_somebody_and_stops_as_the_daemon_expects(self):
        self.assertEqual(self.values("USER"), ["locksley"])
        self.assertEqual(self.values("STOPSIGNAL"), ["SIGTERM"])
        self.assertEqual(self.values("RUN", "test"), ["deploy/test"])
        command = yaml.safe_load(self.values("ENTRYPOINT")[0]) + yaml.safe_load(self.values("CMD")[0])
        self.assertEqual(command, ["locksleyd", "--config", "/etc/locksley/locksley.yaml"])

    def test_its_configuration(self):
        config = checked((DEPLOY / "image/locksley.yaml").read_text())
        self.assertEqual(self.values("EXPOSE"), [f"{config['listen']['port']} {config['http']['port']}"])
        self.assertTrue(config["store"]["path"].startswith(self.values("VOLUME")[0] + "/"))
        self.assertEqual((config["listen"]["address"], config["http"]["address"]), ("0.0.0.0", "0.0.0.0"))

    def test_health_asks_the_daemon_where_its_configuration_has_it(self):
        folder = scratch(self)
        authority = Authority(str(folder), "authority")
        server, client = authority.issue("server"), {"client_ca": str(authority.certificate), "clients": "optional"}
        for http in ({}, {"address": "::"}, {"tls": server.settings()}, {"address": "::1", "tls": server.settings(**client)}):
            with self.subTest(http):
                daemon = self.start({"http": http})
                file = folder / "locksley.yaml"
                file.write_text(yaml.safe_dump({"http": http | {"port": int(daemon.http.rsplit(":", 1)[1])}}))
                self.assertTrue(is_healthy("--config", file))
                daemon.send_signal(signal.SIGTERM)
                self.assertEqual(daemon.wait_end(), 0)
                self.assertFalse(is_healthy("--config", file))
        self.assertTrue(any("openssl" in run.split() for run in self.values("RUN")), "which asks by TLS")

    def test_health_takes_the_port_that_the_daemon_was_started_with(self):
        daemon = self.start()
        port = daemon.http.rsplit(":", 1)[1]
        self.assertTrue(is_healthy("--http-port", port, "--config", "/dev/null"))


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = DEPLOY / "compose" / "compose.yaml"
        self.compose = yaml.safe_load(self.file.read_text())
        self.services = self.compose["services"]

    def test_what_it_mounts_is_there(self):
        for name, service in self.services.items():
            for mount in service["volumes"]:
                source = mount.split(":")[0]
                if source.startswith("."):
                    self.assertTrue((self.file.parent / source).is_file(), f"{name}: {source}")
                else:
                    self.assertIn(source, self.compose["volumes"], name)
        self.assertTrue((self.file.parent / self.services["locksley"]["build"]["context"] / "Dockerfile").is_file())

    def test_ports_are_for_this_machine(self):
        for name, service in self.services.items():
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), name)

    def test_prometheus_finds_its_rules_and_the_daemon(self):
        with tempfile.TemporaryDirectory() as folder:
            for mount in self.services["prometheus"]["volumes"]:
                source, target = mount.split(":")[:2]
                if source.startswith("."):
                    pathlib.Path(folder, pathlib.Path(target).name).write_text((self.file.parent / source).read_text())
            done = subprocess.run(["promtool", "check", "config", f"{folder}/prometheus.yml"], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        own = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())
        port = checked((DEPLOY / "image/locksley.yaml").read_text())["http"]["port"]
        self.assertEqual(own["scrape_configs"][0].pop("static_configs"), [{"targets": [f"locksley:{port}"]}])
        other = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
        del other["scrape_configs"][0]["static_configs"]
        self.assertEqual(own, other, "but for the address it is the other one")

    def test_grafana_finds_its_dashboard(self):
        provider = yaml.safe_load((DEPLOY / "grafana/dashboards.yaml").read_text())["providers"][0]
        source = yaml.safe_load((DEPLOY / "grafana/datasources.yaml").read_text())["datasources"][0]
        grafana = self.services["grafana"]
        mounted = dict(mount.split(":")[:2] for mount in grafana["volumes"])
        self.assertEqual(mounted["../grafana/locksley.json"], provider["options"]["path"] + "/locksley.json")
        self.assertEqual(mounted["../grafana/datasources.yaml"], "/etc/grafana/provisioning/datasources/locksley.yaml")
        self.assertEqual(mounted["../grafana/dashboards.yaml"], "/etc/grafana/provisioning/dashboards/locksley.yaml")
        self.assertIn(source["url"].removeprefix("$"), grafana["environment"])

    def test_it_has_time_to_drain(self):
        config = checked((DEPLOY / "image/locksley.yaml").read_text())
        self.assertGreaterEqual(seconds(self.services["locksley"]["stop_grace_period"]), seconds(config["shutdown"]["drain_timeout"]) + CLOSING_S)


class ComposeStandby(unittest.TestCase):
    def setUp(self):
        self.folder = DEPLOY / "compose"
        self.added = yaml.safe_load((self.folder / "standby/compose.yaml").read_text())

    def test_what_it_mounts_is_there(self):
        for name, service in self.added["services"].items():
            for mount in service["volumes"]:
                source = mount.split(":")[0]
                exists = (self.folder / source).is_file() if source.startswith(".") else source in self.added["volumes"]
                self.assertTrue(exists, f"{name}: {source}")

    def test_prometheus_scrapes_both_daemons(self):
        alone = yaml.safe_load((self.folder / "compose.yaml").read_text())["services"]
        own = yaml.safe_load((self.folder / "standby/prometheus.yml").read_text())
        (mount,) = self.added["services"]["prometheus"]["volumes"]
        self.assertEqual(mount, "./standby/prometheus.yml:/etc/prometheus/prometheus.yml:ro")
        self.assertIn(mount.replace("standby/", ""), alone["prometheus"]["volumes"], "in the place of that one")
        other = yaml.safe_load((self.folder / "prometheus.yml").read_text())
        (target,) = other["scrape_configs"][0].pop("static_configs")[0]["targets"]
        port = checked((self.folder / "standby/locksley-2.yaml").read_text())["http"]["port"]
        self.assertEqual(own["scrape_configs"][0].pop("static_configs"), [{"targets": [target, f"locksley-2:{port}"]}])
        self.assertEqual(own, other)

    def test_the_two_daemons_have_one_database_and_names_of_their_own(self):
        first, second = (checked((self.folder / f"standby/locksley-{number}.yaml").read_text()) for number in (1, 2))
        self.assertEqual(first["store"]["engine"], "postgresql")
        one, other = first.pop("cluster"), second.pop("cluster")
        self.assertEqual(first, second)
        self.assertNotEqual(one["name"], other["name"])
        services = {"locksley": one, "locksley-2": other}
        for name, cluster in services.items():
            self.assertIn(name, {**self.added["services"], "locksley": None})
            self.assertEqual(cluster["advertise"], f"{name}:{first['listen']['port']}")

    def test_with_workers_both_daemons_are_the_same_and_workers_know_both(self):
        folder = self.folder / "standby/workers"
        services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
        self.assertEqual(set(services) - {"worker"}, set(self.added["services"]) - {"database", "prometheus"})
        for service in services.values():
            for mount in service["volumes"]:
                self.assertTrue((self.folder / mount.split(":")[0]).is_file(), mount)
        for number in (1, 2):
            own, plain = (checked((each / f"locksley-{number}.yaml").read_text()) for each in (folder, folder.parent))
            other = checked((folder / f"locksley-{3 - number}.yaml").read_text())
            self.assertEqual({**own, "cluster": None}, {**other, "cluster": None})
            for section in ("listen", "http", "store", "cluster"):
                self.assertEqual(own[section], plain[section], section)
        worker = checked((folder / "worker.yaml").read_text())
        user, hosts = worker["upstream"]["url"].removeprefix("redis://").split("@")
        self.assertEqual(own["users"][user]["commands"], ["work"])
        self.assertEqual({host.split(":")[0] for host in hosts.split(",")}, set(services) - {"worker"})
        self.assertEqual({host.split(":")[1] for host in hosts.split(",") if ":" in host}, {str(own["workers"]["port"])})
        self.assertEqual(set(worker["handlers"]), {name for name, handler in own["handlers"].items() if handler.get("remote")})


class Kubernetes(DaemonTest):
    def setUp(self):
        documents = list(yaml.safe_load_all((DEPLOY / "kubernetes/locksley.yaml").read_text()))
        self.kinds = {document["kind"]: document for document in documents}
        self.assertEqual(len(self.kinds), len(documents))
        self.pod = self.kinds["StatefulSet"]["spec"]["template"]
        self.container = self.pod["spec"]["containers"][0]
        self.config = checked(self.kinds["ConfigMap"]["data"]["locksley.yaml"])

    def test_names_and_labels_meet(self):
        labels = self.pod["metadata"]["labels"]
        self.assertEqual(self.kinds["StatefulSet"]["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(self.kinds["Service"]["spec"]["selector"], labels)
        self.assertEqual(self.kinds["ServiceMonitor"]["spec"]["selector"]["matchLabels"], self.kinds["Service"]["metadata"]["labels"])
        self.assertEqual(self.kinds["StatefulSet"]["spec"]["serviceName"], self.kinds["Service"]["metadata"]["name"])
        self.assertEqual(self.kinds["Service"]["metadata"]["name"], "locksley", "the rules' name of the job")
        volumes = {volume["name"]: volume for volume in self.pod["spec"]["volumes"]}
        claims = {claim["metadata"]["name"] for claim in self.kinds["StatefulSet"]["spec"]["volumeClaimTemplates"]}
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, set(volumes) | claims)
        self.assertEqual(volumes["config"]["configMap"]["name"], self.kinds["ConfigMap"]["metadata"]["name"])

    def test_ports_and_pages_are_the_daemons(self):
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.assertEqual(ports, {"wire": self.config["listen"]["port"], "http": self.config["http"]["port"]})
        for port in self.kinds["Service"]["spec"]["ports"]:
            self.assertEqual((ports[port["targetPort"]], port["name"]), (port["port"], port["targetPort"]))
        pages = {self.container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")}
        pages |= {endpoint["path"] for endpoint in self.kinds["ServiceMonitor"]["spec"]["endpoints"]}
        daemon = self.start()
        for page in pages:
            self.assertEqual(daemon.get(page)[0], 200, page)

    def test_it_has_time_to_drain_and_room_for_what_it_may_hold(self):
        spec = self.pod["spec"]
        self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], seconds(self.config["shutdown"]["drain_timeout"]) + CLOSING_S)
        self.assertEqual((self.config["limits"]["max_queued_bytes"], self.container["resources"]["limits"]["memory"]), ("512MiB", "2Gi"))
        self.assertEqual(self.config["store"]["max_bytes"], "8GiB")
        mounted = {mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.assertIn(str(pathlib.Path(self.config["store"]["path"]).parent), mounted)

    def test_it_runs_as_the_images_user(self):
        uid = int(re.search(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())[1])
        context = self.pod["spec"]["securityContext"]
        self.assertEqual({context["runAsUser"], context["runAsGroup"], context["fsGroup"]}, {uid})
        version = subprocess.run([program("LOCKSLEYD"), "--version"], capture_output=True, text=True, timeout=DEADLINE_S).stdout.split()[1]
        self.assertEqual(self.container["image"], f"locksley:{version}")


class KubernetesStandby(unittest.TestCase):
    """standby.yaml: what it has in common with locksley.yaml, and what differs."""

    def setUp(self):
        documents = lambda name: list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))
        self.alone, self.pair = ({document["kind"]: document for document in documents(name) if document["metadata"]["name"] == "locksley"}
                                 for name in ("locksley.yaml", "standby.yaml"))
        (self.nodes,) = (document for document in documents("standby.yaml") if document["metadata"]["name"] != "locksley")
        self.set = self.pair["StatefulSet"]["spec"]
        self.pod = self.set["template"]["spec"]
        self.container = self.pod["containers"][0]
        self.config = checked(self.pair["ConfigMap"]["data"]["locksley.yaml"])

    def test_but_for_the_store_it_is_the_pod_with_a_volume(self):
        for kind in ("Service", "ServiceMonitor"):
            self.assertEqual(self.pair[kind], self.alone[kind])
        other = self.alone["StatefulSet"]["spec"]["template"]
        pod, container = dict(other["spec"]), dict(other["spec"]["containers"][0])
        self.assertEqual(self.set["template"]["metadata"], other["metadata"])
        self.assertEqual(self.set["selector"]["matchLabels"], other["metadata"]["labels"])
        for key in ("automountServiceAccountToken", "terminationGracePeriodSeconds", "securityContext", "volumes"):
            self.assertEqual(self.pod[key], pod[key], key)
        for key in ("image", "ports", "livenessProbe", "securityContext", "resources"):
            self.assertEqual(self.container[key], container[key], key)
        self.assertEqual(self.container["volumeMounts"], [mount for mount in container["volumeMounts"] if mount["name"] != "store"])
        config = checked(self.alone["ConfigMap"]["data"]["locksley.yaml"])
        differs = {key for key in config if config[key] != self.config[key]}
        self.assertEqual(differs, {"store"})

    def test_two_daemons_share_a_database_that_replicates(self):
        self.assertEqual(self.set["replicas"], 2)
        self.assertEqual((self.config["store"]["engine"], self.config["store"]["replication"]), ("postgresql", "required"))
        spread = self.pod["topologySpreadConstraints"][0]
        self.assertEqual((spread["topologyKey"], spread["labelSelector"]), ("kubernetes.io/hostname", self.set["selector"]))

    def test_daemons_reach_each_other_under_the_names_of_their_hosts(self):
        """Which they tell each other. Only pods of a stateful set with a headless service have names that others can look up."""
        self.assertEqual(self.config["cluster"]["advertise"], "")
        self.assertTrue(self.pod["setHostnameAsFQDN"])
        self.assertEqual((self.nodes["kind"], self.nodes["metadata"]["name"]), ("Service", self.set["serviceName"]))
        spec = self.nodes["spec"]
        self.assertEqual((spec["clusterIP"], spec["publishNotReadyAddresses"], spec["selector"]), ("None", True, self.set["selector"]["matchLabels"]))
        self.assertEqual([port["port"] for port in spec["ports"]], [self.config["listen"]["port"]])
        scraped = self.pair["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        self.assertNotEqual(self.nodes["metadata"]["labels"], scraped, "each pod would be scraped twice")

    def test_a_pod_that_stands_by_is_alive_and_not_ready(self):
        # tests/integration/standby.py has what both pages answer then.
        probes = {name: self.container[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
        self.assertEqual(probes, {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"})
        # Else it waits for a second ready pod.
        self.assertEqual((self.set["podManagementPolicy"], self.set["updateStrategy"]), ("Parallel", {"type": "OnDelete"}))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""The Helm chart, rendered with several files of values: each document against the keys that Kubernetes knows, the configurations against the daemon, and
names, ports, labels, secrets and times against each other. Debian has no Helm; render_chart is built from the packages that Helm is made of."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

import jsonschema
import yaml
from manifest_keys import manifest_complaints

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, merged, program, wait_for
from postgres_server import PostgresServer, programs
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/locksley"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
CLOSING_S = 15  # daemon/service.cc, kClosingTime
GO = {"GOPATH": "/usr/share/gocode", "GO111MODULE": "off", "GOFLAGS": "-trimpath"}
LONGEST_S = 600  # for the compiler
PAIR = {"replicas": 2, "store": {"engine": "postgresql", "postgresql": {"url": "postgresql://db/x"}}}
WORKERS = {"enabled": True, "handlers": {"echo": {}}, "passwordHash": "$argon2id$x", "passwordSecret": {"name": "x"}, "insecure": True}


def values(*files):
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for file in files:
        found = merged(found, yaml.safe_load(file.read_text()))
    return found


def leaves(tree, path=""):
    """Of values.yaml: the paths of what can be set."""
    if not isinstance(tree, dict) or not tree:
        return [path]
    return [leaf for key, value in tree.items() for leaf in leaves(value, f"{path}.{key}")]


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = scratch(cls, "locksley-helm-")
        build = pathlib.Path(os.environ["LOCKSLEY_BUILD"]) / "render_chart"
        build.mkdir(exist_ok=True)
        cls.renderer = build / "render_chart"
        environment = {**os.environ, **GO, "GOCACHE": str(build / "cache")}
        subprocess.run(["go", "build", "-o", cls.renderer, "."], cwd=ROOT / "tests/deploy/render_chart", env=environment, check=True, timeout=LONGEST_S)

    def render(self, *files, release="locksley", **settings):
        """What it prints: a text by template. `settings` are laid over the files."""
        if settings:
            path = self.folder / "settings.yaml"
            path.write_text(yaml.safe_dump(settings))
            files = (*files, path)
        command = [self.renderer, CHART, release, "jobs", *files]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        if done.returncode:
            raise ValueError(done.stderr)
        return json.loads(done.stdout)

    def documents(self, *files, **settings):
        """By kind and name."""
        texts = self.render(*files, **settings)
        texts.pop("NOTES.txt")
        found = [document for text in texts.values() for document in yaml.safe_load_all(text) if document]
        by_name = {(document["kind"], document["metadata"]["name"]): document for document in found}
        self.assertEqual(len(by_name), len(found), "two objects of one name")
        return by_name

    def pods(self, documents):
        return [document["spec"]["template"] for (kind, _), document in documents.items() if kind in ("StatefulSet", "Deployment")]

    def checked(self, text):
        """The configuration that the daemon would take from this one."""
        path = self.folder / "locksley.yaml"
        path.write_text(text)
        done = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", path], capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return yaml.safe_load(done.stdout)


class Lint(Chart):
    def test_its_version_is_the_projects(self):
        version = re.search(r"project\(locksley VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        about = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual((about["version"], about["appVersion"], about["apiVersion"]), (version, version, "v2"))

    def test_the_schema_takes_the_values_and_no_others(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        jsonschema.Draft7Validator.check_schema(schema)
        for files in ((), *((example,) for example in EXAMPLES)):
            jsonschema.validate(values(*files), schema)
        self.assertEqual(set(schema["properties"]) - {"global"}, set(values()))
        for wrong in (
            *({"replicas": 0}, {"replica": 2}, {"store": {"engine": "mysql"}}, {"store": {"size": "1.2.3i"}}, {"tls": {"secret": "x"}}),
            *({"workers": {"passwordHash": "secret"}}, {"fullnameOverride": "My_Queue"}, {"config": {"listen": {"port": 0}}}),
            {"prometheusRule": {"interval": "15s"}},
        ):
            with self.assertRaises(jsonschema.ValidationError, msg=wrong):
                jsonschema.validate(merged(values(), wrong), schema)

    def test_the_templates_use_each_value(self):
        """By its name, or with all of a section."""
        texts = "".join(path.read_text() for path in (CHART / "templates").iterdir())
        for leaf in leaves(values()):
            parts = leaf.split(".")[1:]
            uses = [r"Values\." + r"\.".join(parts[:end]) + r"(?![.\w])" for end in range(1, len(parts) + 1)]
            self.assertTrue(any(re.search(use, texts) for use in uses), leaf)

    def test_what_does_not_fit_together_is_refused(self):
        for settings, said in (
            ({"replicas": 2}, "needs store.engine: postgresql"),
            ({"store": {"engine": "postgresql"}}, "store.postgresql.url"),
            ({"workers": {"enabled": True}}, "workers.handlers"),
            ({"workers": {"enabled": True, "handlers": {"echo": {}}}}, "workers.passwordHash"),
            ({"workers": {"enabled": True, "handlers": {"echo": {}}, "passwordHash": "$argon2id$x"}}, "tls.secretName, or workers.insecure"),
            ({"config": {"shutdown": {"drain_timeout": "10m"}}}, "set drainSeconds"),
            ({"workers": WORKERS | {"config": {"shutdown": {"drain_timeout": "10m"}}}}, "set workers.drainSeconds"),
            ({"config": {"store": {"engine": "postgresql"}}}, "set store.engine"),
            ({"store": {"postgresql": {"url": "postgresql://db/x"}}}, "it needs store.engine: postgresql"),
            (PAIR | {"config": {"cluster": {"advertise": "queue:7770"}}}, "config.cluster"),
            (PAIR | {"restartOnConfigChange": True}, "restartOnConfigChange"),
            ({"tls": {"http": True}}, "tls.http: it needs tls.secretName"),
            ({"config": {"http": {"tls": {"certificate": "/c", "key": "/k", "client_ca": "/ca"}}}}, "probes have no certificate"),
            ({"http": {"tokenSecret": {"name": "token"}}, "config": {"http": {"login": "none"}}}, "it needs config.http.login: users"),
            ({"serviceMonitor": {"enabled": True}, "config": {"http": {"login": "users"}}}, "it needs http.tokenSecret"),
            ({"workers": WORKERS | {"keda": {"minReplicas": 30}}}, "above maxReplicas"),
            ({"workers": WORKERS | {"handlers": {"echo": {"remote": True}}}}, "workers.handlers.echo.remote"),
            ({"workers": WORKERS | {"config": {"handlers": {"echo": {}}}}}, "workers.config.handlers"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                self.render(**settings)


class Objects(Chart):
    def each(self):
        """Of each file of values, and of none; the release has the chart's name, or another one."""
        for files in ((), *((example,) for example in EXAMPLES)):
            for release in ("locksley", "night"):
                yield self.documents(*files, release=release)

    def test_kubernetes_knows_all_keys(self):
        for documents in self.each():
            for document in documents.values():
                self.assertEqual(manifest_complaints(document), [])

    def test_labels_ports_and_volumes_meet(self):
        for documents in self.each():
            by_labels = [pod["metadata"]["labels"] for pod in self.pods(documents)]
            ports = [{port["name"] for port in pod["spec"]["containers"][0]["ports"]} for pod in self.pods(documents)]
            for (kind, _), document in documents.items():
                spec = document.get("spec", {})
                if kind == "Service":
                    self.assertEqual(spec["selector"], by_labels[0])
                    self.assertLessEqual({port["targetPort"] for port in spec["ports"]}, ports[0])
                if kind in ("StatefulSet", "Deployment", "PodDisruptionBudget"):
                    self.assertIn(spec["selector"]["matchLabels"], by_labels)
                if kind == "NetworkPolicy":
                    self.assertEqual(spec["podSelector"]["matchLabels"], by_labels[0])
                    self.assertLessEqual({port["port"] for rule in spec["ingress"] for port in rule["ports"]}, ports[0])
                if kind == "ServiceMonitor":
                    wanted = spec["selector"]["matchLabels"].items()
                    matching = [one for (other, _), one in documents.items() if other == "Service" and wanted <= one["metadata"]["labels"].items()]
                    self.assertEqual([one["spec"].get("clusterIP") for one in matching], ["None"], "one target for each pod")
                    self.assertEqual(matching[0]["metadata"]["labels"][spec["jobLabel"]], "locksley", "the rules' name of the job")
                if kind == "StatefulSet":
                    self.assertIn(("Service", spec["serviceName"]), documents)
            for document in documents.values():
                if document["kind"] in ("StatefulSet", "Deployment"):
                    pod = document["spec"]["template"]["spec"]
                    claims = [claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])]
                    mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
                    self.assertEqual(sorted(mounted), sorted(claims + [volume["name"] for volume in pod["volumes"]]))

    def test_the_daemon_takes_the_configurations(self):
        for documents in self.each():
            for pod in self.pods(documents):
                (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "config")
                if "secret" in volume:
                    text = documents["Secret", volume["secret"]["secretName"]]["stringData"]["locksley.yaml"]
                else:
                    text = documents["ConfigMap", volume["configMap"]["name"]]["data"]["locksley.yaml"]
                config = self.checked(text)
                container = pod["spec"]["containers"][0]
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                expected = {"wire": config["listen"]["port"], "http": config["http"]["port"], "workers": config["workers"]["port"]}
                self.assertEqual(ports, {name: expected[name] for name in ports})
                drain = int(re.fullmatch(r"(\d+)s|1m", config["shutdown"]["drain_timeout"])[1] or 60)
                self.assertEqual(pod["spec"]["terminationGracePeriodSeconds"], drain + CLOSING_S)
                scheme = "HTTPS" if config["http"]["tls"]["certificate"] else "HTTP"
                for probe in ("readinessProbe", "livenessProbe"):
                    self.assertEqual(container[probe]["httpGet"]["scheme"], scheme)
                paths = {mount["mountPath"] for mount in container["volumeMounts"]}
                for path in re.findall(r"(/etc/locksley-\w+)/", text):
                    self.assertIn(path, paths)

    def test_without_values_the_pod_is_that_of_the_manifest(self):
        """Of deploy/kubernetes, but for labels, the name of the service for single pods, and what says a default."""
        ours = self.documents()["StatefulSet", "locksley"]["spec"]
        manifest = {one["kind"]: one for one in yaml.safe_load_all((ROOT / "deploy/kubernetes/locksley.yaml").read_text())}
        theirs = copy.deepcopy(manifest["StatefulSet"]["spec"])
        container = ours["template"]["spec"]["containers"][0]
        self.assertEqual(container.pop("imagePullPolicy"), "IfNotPresent")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["httpGet"].pop("scheme"), "HTTP")
        for spec in (ours, theirs):
            del spec["serviceName"], spec["selector"], spec["template"]["metadata"]
        self.assertEqual(ours, theirs)


class Features(Chart):
    def example(self, name, **settings):
        return self.documents(CHART / "examples" / f"{name}.yaml", **settings)

    def test_daemons_that_share_a_database(self):
        documents = self.example("postgresql")
        spec = documents["StatefulSet", "locksley"]["spec"]
        pod = spec["template"]["spec"]
        self.assertEqual((spec["replicas"], spec["podManagementPolicy"], spec["updateStrategy"]), (2, "Parallel", {"type": "OnDelete"}))
        self.assertTrue(pod["setHostnameAsFQDN"])
        # One that stands by is alive, and never ready: it must not be ended for that, nor keep a node from being drained.
        container = pod["containers"][0]
        paths = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
        self.assertEqual(paths, ["/healthz", "/healthz", "/readyz"])
        self.assertEqual(documents["PodDisruptionBudget", "locksley"]["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow")
        self.assertEqual(container["env"], [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "db-app", "key": "password"}}}])
        self.assertNotIn("volumeClaimTemplates", spec)

    def test_a_network_policy_lets_daemons_that_share_a_database_ask_each_other(self):
        def peers_of(port, **settings):
            documents = self.example("postgresql", **settings)
            rules = documents["NetworkPolicy", "locksley"]["spec"]["ingress"]
            own = {"podSelector": {"matchLabels": self.pods(documents)[0]["metadata"]["labels"]}}
            return ["own" if peer == own else peer for rule in rules for peer in rule["from"] if {"port": port} in rule["ports"]]

        shop = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
        self.assertEqual(peers_of("wire"), [shop, "own"])
        self.assertEqual(peers_of("wire", networkPolicy={"clients": []}), ["own"])
        self.assertEqual(peers_of("wire", replicas=1), [shop])
        self.assertNotIn("own", peers_of("http"))

    def test_workers_that_keda_scales(self):
        documents = self.example("workers")
        self.assertNotIn("replicas", documents["Deployment", "locksley-worker"]["spec"], "each upgrade would undo what KEDA did")
        self.assertEqual(self.example("workers", workers={"keda": {"enabled": False}, "replicas": 3})["Deployment", "locksley-worker"]["spec"]["replicas"], 3)
        config = self.checked(documents["ConfigMap", "locksley"]["data"]["locksley.yaml"])
        self.assertEqual((config["handlers"]["lines"]["remote"], config["users"]["worker"]["commands"]), (True, ["work"]))
        worker = self.checked(documents["ConfigMap", "locksley-worker"]["data"]["locksley.yaml"])
        self.assertEqual(worker["upstream"]["url"], "rediss://worker@locksley:7771")
        scaled = documents["ScaledObject", "locksley-worker"]["spec"]
        self.assertEqual(scaled["scaleTargetRef"]["name"], "locksley-worker")
        # The series and labels of the query of deploy/kubernetes, which deploy.workers asks a Prometheus.
        (other,) = yaml.safe_load_all((ROOT / "deploy/kubernetes/keda.yaml").read_text())
        series = lambda spec: re.findall(r"locksley_\w+", spec["triggers"][0]["metadata"]["query"])
        self.assertEqual(series(scaled), series(other["spec"]))
        rule = self.folder / "query.yaml"
        rule.write_text(json.dumps({"groups": [{"name": "query", "rules": [{"record": "replicas", "expr": scaled["triggers"][0]["metadata"]["query"]}]}]}))
        subprocess.run(["promtool", "check", "rules", rule], check=True, capture_output=True, timeout=DEADLINE_S)

    def test_the_daemon_applies_what_the_workers_handlers_say_of_its_jobs(self):
        says = {"timeout": "10s", "retries": 2, "max_output": "1MiB", "max_running": 50}
        runs = {"command": ["wc", "-l"], "concurrency": 4, "grace": "1s"}

        def handlers(config=None, **entries):
            documents = self.example("workers", workers={"handlers": entries}, config=config or {})
            return [self.checked(documents["ConfigMap", name]["data"]["locksley.yaml"])["handlers"] for name in ("locksley", "locksley-worker")]

        owner, worker = handlers(lines=says | runs, sha256={"timeout": "3s"})
        self.assertLessEqual({"remote": True, **says}.items(), owner["lines"].items())
        self.assertEqual((owner["sha256"]["remote"], owner["sha256"]["timeout"]), (True, "3s"))
        self.assertLessEqual({**runs, "max_output": "1MiB"}.items(), worker["lines"].items())
        self.assertEqual((worker["lines"]["timeout"], worker["lines"]["retries"], worker["lines"]["max_running"]), ("0s", 0, 0), "no worker applies them")
        self.assertNotIn("sha256", worker, "it is built in")
        own = {"handlers": {"lines": {"timeout": "5s"}}}
        owner, _ = handlers(own, lines=says | runs)
        self.assertEqual((owner["lines"]["timeout"], owner["lines"]["retries"]), ("5s", 2), "what the configuration says itself overrides it")

    def test_a_handler_that_only_workers_run_has_no_other_keys_for_the_daemon(self):
        """So the test above names them all: none is left with the workers, where it would do nothing."""
        settings = {"timeout": "10s", "retries": 2, "max_output": "1MiB", "max_running": 50, "input": "argument", "lane": "x", "concurrency": 2, "rate": "5/s"}
        settings |= {"directory": "/tmp", "environment": ["A=b"], "user": "nobody", "grace": "1s", "limits": {"files": 9}, "confine": {"network": False}}
        settings |= {"max_jobs": 9, "worker_protocol": 2, "max_memory": "1MiB", "isolate": True}
        path = self.folder / "handler.yaml"

        def takes(**keys):
            path.write_text(yaml.safe_dump({"lanes": {"x": {"slots": 1}}, "handlers": {"lines": {"remote": True, **keys}}}))
            return subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", path], capture_output=True, timeout=DEADLINE_S).returncode == 0

        shown = self.checked(yaml.safe_dump({"handlers": {"lines": {"remote": True}}}))["handlers"]["lines"]
        self.assertEqual(shown.keys() - settings.keys(), {"remote"})
        self.assertEqual({key for key, value in settings.items() if takes(**{key: value})}, {"timeout", "retries", "max_output", "max_running"})

    def test_ports_of_the_configuration_are_those_of_pods_and_services(self):
        config = {"listen": {"port": 6379}, "http": {"port": 9000}, "workers": {"port": 7000}}
        documents = self.example("workers", config=config, workers={"config": {"http": {"port": 9001}}})
        expected = {"wire": 6379, "http": 9000, "workers": 7000}
        for name in ("locksley", "locksley-nodes"):
            self.assertEqual({port["name"]: port["port"] for port in documents["Service", name]["spec"]["ports"]}, expected)
        ports = [{port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]} for pod in self.pods(documents)]
        self.assertEqual(ports, [expected, {"http": 9001}])
        worker = self.checked(documents["ConfigMap", "locksley-worker"]["data"]["locksley.yaml"])
        self.assertEqual(worker["upstream"]["url"], "rediss://worker@locksley:7000")
        notes = self.render(config=config)["NOTES.txt"]
        self.assertIn("port 6379", notes)
        self.assertIn("exec locksley-0 -- locksley --server 127.0.0.1:6379 run", notes)

    def test_prometheus_has_the_token_that_the_daemon_takes(self):
        documents = self.example("embedded", http={"tokenSecret": {"name": "metrics", "key": "t"}})
        config = yaml.safe_load(documents["Secret", "locksley"]["stringData"]["locksley.yaml"])
        self.assertEqual((config["http"]["login"], config["http"]["token_file"]), ("users", "/etc/locksley-token/token"))
        (pod,) = self.pods(documents)
        (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "token")
        self.assertEqual(volume["secret"], {"secretName": "metrics", "defaultMode": 0o440, "items": [{"key": "t", "path": "token"}]})
        self.assertIn({"name": "token", "mountPath": "/etc/locksley-token", "readOnly": True}, pod["spec"]["containers"][0]["volumeMounts"])
        (endpoint,) = documents["ServiceMonitor", "locksley"]["spec"]["endpoints"]
        self.assertEqual(endpoint["authorization"], {"credentials": {"name": "metrics", "key": "t"}})
        self.assertEqual([complaint for document in documents.values() for complaint in manifest_complaints(document)], [])

    def test_a_certificate_of_the_configuration_is_one_for_probes_and_prometheus(self):
        own, monitor = {"http": {"tls": {"certificate": "/c", "key": "/k"}}}, {"tlsConfig": {"serverName": "queue.example"}}
        documents = self.example("embedded", config=own, serviceMonitor=monitor)
        (pod,) = self.pods(documents)
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(pod["spec"]["containers"][0][probe]["httpGet"]["scheme"], "HTTPS")
        (endpoint,) = documents["ServiceMonitor", "locksley"]["spec"]["endpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"]), ("https", monitor["tlsConfig"]))

    def test_a_certificate_for_one_port_leaves_the_others_theirs(self):
        documents = self.example("workers", tls={"http": True}, config={"http": {"tls": {"certificate": "/c", "key": "/k"}}})
        config = self.checked(documents["ConfigMap", "locksley"]["data"]["locksley.yaml"])
        certificates = {section: config[section]["tls"]["certificate"] for section in ("listen", "http", "workers")}
        self.assertEqual(certificates, {"listen": "/etc/locksley-tls/tls.crt", "http": "/c", "workers": "/etc/locksley-tls/tls.crt"})

    def test_a_changed_configuration_restarts_workers_always_and_the_daemon_on_request(self):
        def checksums(**settings):
            pods = self.pods(self.example("workers", **settings))
            return [pod["metadata"].get("annotations", {}).get("checksum/config") for pod in pods]  # of the daemon, of workers

        changed = {"config": {"limits": {"max_clients": 10}}, "workers": {"config": {"pool": {"workers": 2}}}}
        self.assertIsNone(checksums()[0])
        self.assertNotEqual(checksums()[1], checksums(**changed)[1])
        self.assertNotEqual(checksums(restartOnConfigChange=True)[0], checksums(restartOnConfigChange=True, **changed)[0])

    def test_rules_are_those_of_the_project(self):
        spec = self.example("embedded")["PrometheusRule", "locksley"]["spec"]
        path = self.folder / "rules.yaml"
        path.write_text(yaml.safe_dump(spec))
        subprocess.run(["promtool", "check", "rules", path], check=True, capture_output=True, timeout=DEADLINE_S)
        files = (ROOT / "deploy/prometheus" / name for name in ("rules.yml", "alerts.yml"))
        self.assertEqual(spec["groups"], [group for file in files for group in yaml.safe_load(file.read_text())["groups"]])

    def test_large_numbers_stay_numbers(self):
        """Helm reads all numbers as floating-point ones, which templates would print as 1e+08."""
        documents = self.example("workers", config={"limits": {"max_queued_jobs": 100_000_000}}, workers={"keda": {"jobsPerReplica": 2_000_000}})
        self.assertEqual(self.checked(documents["ConfigMap", "locksley"]["data"]["locksley.yaml"])["limits"]["max_queued_jobs"], 100_000_000)
        self.assertEqual(documents["ScaledObject", "locksley-worker"]["spec"]["triggers"][0]["metadata"]["threshold"], "2000000")

    def test_the_notes_say_what_comes_next(self):
        notes = lambda *files, **settings: self.render(*files, **settings)["NOTES.txt"]
        self.assertIn("There are no users", notes())
        self.assertNotIn("There are no users", notes(CHART / "examples/embedded.yaml"))
        self.assertNotIn(" run ", notes(tls={"secretName": "x"}), "without TLS it would fail, and the certificate is not for 127.0.0.1")
        self.assertIn("None of its users may submit", notes(workers=WORKERS))
        self.assertNotIn("None of its users may submit", notes(CHART / "examples/workers.yaml"))
        self.assertIn("delete those that stand by", notes(CHART / "examples/postgresql.yaml"))
        self.assertIn("logs deployment/night-locksley-worker", notes(CHART / "examples/workers.yaml", release="night"))


class Database(DaemonTest):
    def test_a_daemon_has_the_databases_password_from_its_environment(self):
        server = PostgresServer()
        self.addCleanup(server.close)
        server.run("psql", server.url, "-c", "ALTER ROLE locksley PASSWORD 'of a secret'")
        (server.data / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        server.run("pg_ctl", "reload", "-D", server.data)
        log_in = [programs() / "psql", "--no-password", "-c", "SELECT 1", server.url]
        wait_for("a password to be needed", lambda: subprocess.run(log_in, capture_output=True, timeout=DEADLINE_S).returncode != 0)
        with unittest.mock.patch.dict(os.environ, PGPASSWORD="of a secret"):
            daemon = self.start({"store": {"engine": "postgresql", "url": server.url, "replication": "none"}, "handlers": {"env": {"command": ["env"]}}})
        [[status, output]] = self.connect(daemon)("RUN", "env", "JOBS", "")
        self.assertEqual(status, "ok")
        self.assertNotIn("PGPASSWORD", output)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""Workers on other machines, as the guide, Compose and Kubernetes have them: whether the files fit each other, whether a worker of theirs runs the
jobs of an owner of theirs, and whether KEDA's query asks for what a daemon shows."""

import copy
import pathlib
import re
import sys
import unittest
import urllib.parse

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from containers import CLOSING_S, DEPLOY, ROOT, checked, seconds
from locksley_daemon import DaemonTest, wait_for
from manifest_keys import compose_complaints, manifest_complaints
from prometheus_server import PrometheusServer
from promql import Page, complaints, take_apart
from remote_worker import port_for_workers
from scratch import scratch
from users import PASSWORD, hash_of

COMPOSE, KUBERNETES = DEPLOY / "compose", DEPLOY / "kubernetes"
HANDLER = "lines"


def documents(name):
    return list(yaml.safe_load_all((KUBERNETES / name).read_text()))


def only(name, kind):
    (found,) = (document for document in documents(name) if document["kind"] == kind)
    return found


class Keys(unittest.TestCase):
    def test_manifests_have_the_keys_that_kubernetes_and_keda_know(self):
        files = sorted(path.name for path in KUBERNETES.glob("*.yaml"))
        self.assertEqual(files, ["keda.yaml", "locksley.yaml", "standby.yaml", "workers.yaml"])
        for name in files:
            for document in documents(name):
                self.assertEqual(manifest_complaints(document), [], name)

    def test_compose_files_have_the_keys_that_compose_knows(self):
        files = sorted(COMPOSE.rglob("compose.yaml"))
        self.assertEqual(len(files), 4)
        for file in files:
            self.assertEqual(compose_complaints(yaml.safe_load(file.read_text())), [], file)

    def test_a_wrong_key_or_type_would_be_found(self):
        scaled = only("keda.yaml", "ScaledObject")
        for change, complaint in (
            (lambda spec: spec.update(minReplicas=1), ".spec.minReplicas: unknown"),
            (lambda spec: spec.update(maxReplicaCount="20"), ".maxReplicaCount: int expected"),
            (lambda spec: spec["triggers"][0]["metadata"].update(threshold=100), ".threshold: str expected"),
            (lambda spec: spec["triggers"][0]["metadata"].update(servrAddress="x"), "[0].metadata.servrAddress: unknown"),
            (lambda spec: spec.update(triggers={}), ".triggers: a list expected"),
        ):
            broken = copy.deepcopy(scaled)
            change(broken["spec"])
            self.assertIn(complaint, " ".join(manifest_complaints(broken)))
        self.assertIn("no such kind", " ".join(manifest_complaints({**scaled, "apiVersion": "keda.sh/v1"})))
        self.assertIn("unknown", " ".join(compose_complaints({"services": {"worker": {"replicas": 4}}})))


class OnThisMachine:
    """For a test that has the configurations of both, `owner` and `worker`."""

    def on_this_machine(self):
        """An owner and its worker as configured, but for addresses, files and passwords, which are this test's."""
        folder = scratch(self)
        owner, worker = yaml.safe_load(self.owner), yaml.safe_load(self.worker)
        for section in ("listen", "http", "workers"):
            owner.setdefault(section, {}).update(address="127.0.0.1", port=0)
        owner.setdefault("store", {})["path"] = str(folder / "store")
        for name, user in owner["users"].items():
            user["password_hash"] = hash_of(PASSWORD.format(name))
        upstream = worker["upstream"]
        if "tls" in owner["workers"]:
            authority = Authority(str(folder), "authority")
            owner["workers"]["tls"] = authority.issue("server").settings()
            upstream["ca_file"] = str(authority.certificate)
        self.daemon = self.start(owner)
        url = urllib.parse.urlsplit(upstream["url"])
        upstream["url"] = f"{url.scheme}://{url.username}@127.0.0.1:{port_for_workers(self.daemon)}"
        password = folder / "password"
        password.write_text(PASSWORD.format(url.username) + "\n")
        password.chmod(0o440)
        upstream["password_file"] = str(password)
        worker.setdefault("http", {}).update(address="127.0.0.1", port=0)
        self.settings_of_worker = worker
        alice = self.connect(self.daemon)
        alice("HELLO", 2, "AUTH", "alice", PASSWORD.format("alice"))
        return alice


class OwnerAndWorker(OnThisMachine):
    """For a test that has the owner's name in their network, `host`, and the pages that are asked for in a worker."""

    address = "0.0.0.0"

    def test_they_fit_each_other(self):
        owner, worker = checked(self.owner), checked(self.worker)
        url = urllib.parse.urlsplit(worker["upstream"]["url"])
        self.assertEqual((url.hostname, url.port), (self.host, owner["workers"]["port"]))
        self.assertEqual(owner["workers"]["address"], self.address)
        user = owner["users"][url.username]
        self.assertEqual((user["commands"], user["handlers"]), (["work"], [HANDLER]))
        self.assertTrue(owner["handlers"][HANDLER]["remote"])
        self.assertEqual(list(owner["handlers"]), list(worker["handlers"]))
        self.assertEqual(url.scheme == "rediss", owner["workers"]["tls"]["certificate"] != "")
        self.assertGreaterEqual(seconds(worker["shutdown"]["drain_timeout"]), seconds(owner["handlers"][HANDLER]["timeout"]), "as long as the longest job")
        self.assertEqual(worker["store"]["path"], "")

    def test_a_worker_of_theirs_runs_the_jobs_of_an_owner_of_theirs(self):
        alice = self.on_this_machine()
        batch = alice("SUBMIT", HANDLER, "JOBS", "a\nb\n", "c\n")
        workers = [self.start(self.settings_of_worker) for _ in range(2)]
        self.assertEqual(alice.wait(batch)["ok"], 2)
        self.assertEqual({row[0]: row[2].strip() for row in alice.results(batch)}, {0: "2", 1: "1"})
        for worker in workers:
            worker.wait_for_log("joined the upstream daemon")
            self.assertEqual([worker.get(page)[0] for page in self.pages], [200] * len(self.pages))


class Guide(OwnerAndWorker, DaemonTest):
    """What deploy/README.md says of machines without containers."""

    host = address = "10.0.0.1"
    pages = ("/healthz",)

    def setUp(self):
        (section,) = re.findall(r"(?ms)^## Workers on other machines\n(.*?)^## ", (DEPLOY / "README.md").read_text())
        self.owner, self.worker = (text.replace("…", hash_of("any")) for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", section))


class Compose(OwnerAndWorker, DaemonTest):
    host = "locksley"
    pages = ("/healthz",)

    def setUp(self):
        self.services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
        self.added = yaml.safe_load((COMPOSE / "workers/compose.yaml").read_text())
        self.service = self.added["services"]["worker"]
        self.owner, self.worker = ((COMPOSE / "workers" / name).read_text() for name in ("owner.yaml", "worker.yaml"))

    def test_it_adds_to_the_other_file_what_is_there(self):
        self.assertEqual(set(self.added["services"]) & set(self.services), {self.host})
        self.assertEqual(set(self.added["services"][self.host]), {"volumes"})
        for service, name in ((self.added["services"][self.host], "owner"), (self.service, "worker")):
            self.assertEqual(service["volumes"], [f"./workers/{name}.yaml:/etc/locksley/locksley.yaml:ro"])
            self.assertTrue((COMPOSE / "workers" / f"{name}.yaml").is_file())
        self.assertEqual(self.service["depends_on"], [self.host])

    def test_replicas_share_nothing_and_are_confined_as_the_owner_is(self):
        owner = self.services[self.host]
        self.assertFalse({"ports", "container_name"} & set(self.service), "two replicas could not both have it")
        for key in ("image", "init", "restart", "read_only", "cap_drop", "security_opt", "ulimits"):
            self.assertEqual(self.service[key], owner[key], key)
        self.assertTrue({"cpus", "mem_limit"} <= set(self.service))
        volume = re.search(r"(?m)^VOLUME (.*)$", (ROOT / "Dockerfile").read_text())[1]
        self.assertIn(volume, self.service["tmpfs"], "else each replica would leave a volume behind")

    def test_the_password_is_a_secret_that_stays_out_of_the_tree_and_of_the_image(self):
        (name,) = self.service["secrets"]
        self.assertEqual(checked(self.worker)["upstream"]["password_file"], f"/run/secrets/{name}")
        file = pathlib.PurePath(self.added["secrets"][name]["file"])
        self.assertEqual(str(file), "workers/worker.password")
        self.assertIn(f"*{file.suffix}", (ROOT / ".gitignore").read_text().splitlines())
        self.assertIn(f"**/*{file.suffix}", (ROOT / ".dockerignore").read_text().splitlines())
        self.assertIn(file.name, (COMPOSE / "workers/README.md").read_text())

    def test_the_port_for_workers_is_not_published(self):
        port = str(checked(self.owner)["workers"]["port"])
        for service in (*self.services.values(), *self.added["services"].values()):
            self.assertNotIn(port, [published.rsplit(":", 1)[-1] for published in service.get("ports", [])])

    def test_it_has_time_to_drain(self):
        for text, service in ((self.owner, self.services[self.host]), (self.worker, self.service)):
            self.assertGreaterEqual(seconds(service["stop_grace_period"]), seconds(checked(text)["shutdown"]["drain_timeout"]) + CLOSING_S)

    def test_its_health_check_is_the_images(self):
        """Which asks at loopback."""
        self.assertEqual(checked(self.worker)["http"]["port"], checked((DEPLOY / "image/locksley.yaml").read_text())["http"]["port"])


class Kubernetes(OwnerAndWorker, DaemonTest):
    host = "locksley"
    pages = ("/readyz", "/healthz")

    def setUp(self):
        self.kinds = {(document["kind"], document["metadata"]["name"]): document for document in documents("workers.yaml")}
        self.owner, self.worker = (self.kinds["ConfigMap", name]["data"]["locksley.yaml"] for name in (self.host, "locksley-worker"))
        self.template = self.kinds["Deployment", "locksley-worker"]["spec"]["template"]
        self.container = self.template["spec"]["containers"][0]
        self.owners_pod = self.kinds["StatefulSet", self.host]["spec"]["template"]["spec"]

    def test_the_owner_is_that_of_the_other_file_with_a_port_for_workers(self):
        without = copy.deepcopy(self.kinds)
        spec = without["StatefulSet", self.host]["spec"]["template"]["spec"]
        container, ports = spec["containers"][0], without["Service", self.host]["spec"]["ports"]
        container["ports"].remove({"name": "workers", "containerPort": 7771})
        ports.remove({"name": "workers", "port": 7771, "targetPort": "workers"})
        container["volumeMounts"].remove({"name": "tls", "mountPath": "/etc/locksley-tls", "readOnly": True})
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "tls"]
        for document in documents("locksley.yaml"):
            kind = document["kind"]
            if kind != "ConfigMap":
                self.assertEqual(without[kind, self.host], document)
        own, other = yaml.safe_load(self.owner), yaml.safe_load(only("locksley.yaml", "ConfigMap")["data"]["locksley.yaml"])
        for added in ("workers", "handlers", "users"):
            del own[added]
        self.assertEqual(own, other)
        self.assertEqual(checked(self.owner)["workers"]["port"], 7771)

    def test_the_workers_pod_is_made_as_the_owners(self):
        labels = self.template["metadata"]["labels"]
        self.assertEqual(self.kinds["Deployment", "locksley-worker"]["spec"]["selector"]["matchLabels"], labels)
        self.assertNotEqual(labels, self.kinds["Service", self.host]["spec"]["selector"], "the service is the owner's")
        spec, owner = self.template["spec"], self.owners_pod["containers"][0]
        for key in ("automountServiceAccountToken", "securityContext"):
            self.assertEqual(spec[key], self.owners_pod[key])
        for key in ("image", "securityContext", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.container[key], owner[key])
        self.assertEqual(tuple(self.container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe")), self.pages)
        self.assertEqual(self.container["ports"], [{"name": "http", "containerPort": checked(self.worker)["http"]["port"]}])
        self.assertEqual(checked(self.worker)["http"]["address"], "0.0.0.0", "a probe comes from outside")
        self.assertEqual(set(self.container["resources"]), {"requests", "limits"})
        self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], seconds(checked(self.worker)["shutdown"]["drain_timeout"]) + CLOSING_S)
        self.assertNotIn("replicas", self.kinds["Deployment", "locksley-worker"]["spec"], "each `kubectl apply` would undo what KEDA did")

    def secrets(self):
        """Path in a pod, to secret and key; of the owner and of the worker. Files that other users can read are refused by the daemon."""
        found = []
        for spec in (self.owners_pod, self.template["spec"]):
            files = {}
            mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
            for volume in spec["volumes"]:
                mode = volume.get("secret", volume.get("projected", {})).get("defaultMode", 0o440)
                self.assertEqual(mode, 0o440)
                if "secret" in volume:  # all keys of it
                    files[mounts[volume["name"]]] = (volume["secret"]["secretName"], None)
                for source in volume.get("projected", {}).get("sources", []):
                    for item in source["secret"]["items"]:
                        files[f"{mounts[volume['name']]}/{item['path']}"] = (source["secret"]["name"], item["key"])
            found.append(files)
        return found

    def test_files_of_the_configurations_are_in_secrets_that_the_readme_makes(self):
        made = {}
        for name, rest in re.findall(r"kubectl create secret generic (\S+)((?: --from-file=\S+)+)", (KUBERNETES / "README.md").read_text()):
            made[name] = set(re.findall(r"--from-file=([^=\s]+)=", rest))
        of_owner, of_worker = self.secrets()
        tls = checked(self.owner)["workers"]["tls"]
        for file in (tls["certificate"], tls["key"]):
            path = pathlib.PurePath(file)
            secret, _ = of_owner[str(path.parent)]
            self.assertIn(path.name, made[secret])
        upstream = checked(self.worker)["upstream"]
        self.assertEqual(set(of_worker), {upstream["password_file"], upstream["ca_file"]}, "a worker gets no key")
        for secret, key in of_worker.values():
            self.assertIn(key, made[secret])

    def test_volumes_and_mounts_meet(self):
        for spec, claims in ((self.owners_pod, {"store"}), (self.template["spec"], set())):
            volumes = {volume["name"] for volume in spec["volumes"]}
            self.assertEqual({mount["name"] for mount in spec["containers"][0]["volumeMounts"]}, volumes | claims)
        (config,) = (volume for volume in self.template["spec"]["volumes"] if volume["name"] == "config")
        self.assertIn(("ConfigMap", config["configMap"]["name"]), self.kinds)
        self.assertEqual(config["configMap"]["name"], "locksley-worker")


class Keda(OnThisMachine, DaemonTest):
    """The query, answered for an owner as Kubernetes has it."""

    def setUp(self):
        configs = {document["metadata"]["name"]: document["data"]["locksley.yaml"] for document in documents("workers.yaml") if document["kind"] == "ConfigMap"}
        self.owner, self.worker = configs["locksley"], configs["locksley-worker"]
        self.spec = only("keda.yaml", "ScaledObject")["spec"]
        (self.trigger,) = self.spec["triggers"]
        self.query = self.trigger["metadata"]["query"]

    def test_it_scales_the_workers_between_bounds(self):
        self.assertEqual(self.spec["scaleTargetRef"]["name"], only("workers.yaml", "Deployment")["metadata"]["name"])
        self.assertLess(self.spec["minReplicaCount"], self.spec["maxReplicaCount"])
        self.assertLessEqual(self.spec["fallback"]["replicas"], self.spec["maxReplicaCount"])
        self.assertEqual(self.trigger["type"], "prometheus")
        self.assertGreater(float(self.trigger["metadata"]["threshold"]), 0)
        self.assertEqual(self.trigger["metadata"]["ignoreNullValues"], "false")

    def test_its_query_names_what_the_owner_shows(self):
        self.on_this_machine()
        page = Page(self.daemon.metrics())
        self.assertEqual(complaints(take_apart(self.query), page, {}), [])
        jobs = {matcher.value for places in take_apart(self.query).metrics.values() for matchers in places for matcher in matchers if matcher.label == "job"}
        self.assertEqual(jobs, {only("locksley.yaml", "Service")["metadata"]["name"]}, "the operator gives a job the name of its service")
        for right, wrong in (("_queued_jobs", "_queue_depth"), ("handler=", "name="), (HANDLER, "line"), ("_leases", "_lease"), ("processes", "cpu2")):
            self.assertIn(right, self.query)
            self.assertNotEqual(complaints(take_apart(self.query.replace(right, wrong)), page, {}), [], wrong)

    def test_its_query_counts_what_waits_and_what_runs(self):
        alice = self.on_this_machine()
        prometheus = PrometheusServer(self, scratch(self), self.daemon)
        waiting = f'locksley_remote_handler_queued_jobs{{handler="{HANDLER}"}}'
        answers = lambda query, value: wait_for(f"{query} to be {value}", lambda: prometheus.ask(query) == [value])
        answers(self.query, 0)
        batches = [alice("SUBMIT", HANDLER, "JOBS", "x") for _ in range(2)]
        answers(self.query, 2)
        self.settings_of_worker["handlers"][HANDLER]["command"] = ["sleep", "600"]
        self.start(self.settings_of_worker)
        answers(waiting, 0)
        answers(self.query, 2)
        for batch in batches:
            alice("CANCEL", batch)
        answers(self.query, 0)


if __name__ == "__main__":
    unittest.main()

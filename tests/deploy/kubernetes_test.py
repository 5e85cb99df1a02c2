#!/usr/bin/env python3
"""The manifests: rendered by kubectl, held against their schemas, and carried out.

What they say about the process is done by the real binaries: its configuration is checked, it is
started with the very arguments and asked by the very probes.
"""

import copy
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

from credentials import Cluster, make_certificate
from service import DEPLOY, SOURCE, Service, binary, run
from stores import Etcd, Postgres

SCHEMAS = SOURCE / "tests/deploy/schemas"
SKIPPED = 77
OVERLAYS = ("dev", "single", "replicated-etcd", "replicated-postgres")

MIB = 1 << 20
UNITS = {"Mi": MIB, "Gi": MIB << 10}

# As components/backups asks for it.
ADMIN = """
  - identities: ["jwt:cluster:system:serviceaccount:{account}"]
    namespaces: ["*"]
    roles: [ADMIN]
"""


def render(overlay: pathlib.Path) -> bytes:
    done = run("kubectl", "kustomize", str(overlay))
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout


def check_schemas(text: bytes):
    """(documents, what does not fit)"""
    if not (SCHEMAS / "node_modules").is_dir():
        sys.exit("the schemas are not installed: deploy/install_deps.sh test")
    done = run("node", str(SCHEMAS / "check.cjs"), stdin=text)
    return json.loads(done.stdout or b"null"), done.stderr.decode()


class Overlay:
    """The documents of one overlay."""

    def __init__(self, documents: list):
        self.documents = documents

    def all(self, kind: str) -> list:
        return [document for document in self.documents if document["kind"] == kind]

    def one(self, kind: str, name: str = "idempotencyd") -> dict:
        found = [item for item in self.all(kind) if item["metadata"]["name"] == name]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} of {kind} {name}")
        return found[0]

    def workload(self) -> dict:
        (found,) = self.all("StatefulSet") + self.all("Deployment")
        return found

    def pod(self) -> dict:
        return self.workload()["spec"]["template"]["spec"]

    def container(self) -> dict:
        (container,) = self.pod()["containers"]
        return container

    def flags(self) -> dict:
        words = [word.removeprefix("--").partition("=") for word in self.container()["args"]]
        return {name: value for name, _, value in words}

    def config(self) -> str:
        return self.one("ConfigMap", "idempotencyd-config")["data"]["config.yaml"]


def not_restricted(pod: dict) -> list:
    """What of the restricted pod security standard this pod does not keep."""
    found = []
    security = pod.get("securityContext", {})
    if pod.get("hostNetwork") or pod.get("hostPID") or pod.get("hostIPC"):
        found.append("shares the host's namespaces")
    if security.get("runAsNonRoot") is not True or security.get("runAsUser", 0) == 0:
        found.append("may run as root")
    if security.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        found.append("any system call")
    allowed = {"configMap", "secret", "projected", "emptyDir", "persistentVolumeClaim"}
    for volume in pod.get("volumes", []):
        found += [f"volume of kind {kind}" for kind in set(volume) - {"name"} - allowed]
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container.get("securityContext", {})
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            found.append("may gain privileges")
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
            found.append("has capabilities")
        if own.get("runAsUser") == 0 or own.get("runAsNonRoot") is False:
            found.append("a container may run as root")
        if any("hostPort" in port for port in container.get("ports", [])):
            found.append("takes a port of the host")
    return found


def quantity(text: str) -> int:
    return int(text[:-2]) * UNITS[text[-2:]]


class Manifests(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="idempotency-kubernetes-")
        cls.directory = pathlib.Path(cls.temporary.name)
        for part in ("kubernetes", "monitoring"):
            shutil.copytree(DEPLOY / part, cls.directory / "deploy" / part)
        overlays = cls.directory / "deploy/kubernetes/overlays"
        # Edited as its comments say: another namespace, and everything that is optional.
        edited = cls.uncomment(overlays, "single", "other")
        text = edited.read_text("utf-8")
        edited.write_text(text.replace(": idempotency\n", ": elsewhere\n", 1), "utf-8")
        cls.uncomment(overlays, "replicated-etcd", "replicated-sealed")
        names = (*OVERLAYS, "other", "replicated-sealed")
        cls.text = {name: render(overlays / name) for name in names}
        # All at once: it is the compiler's start that takes its time.
        documents, cls.faults = check_schemas(b"---\n".join(cls.text.values()))
        cls.overlays = {}
        for name, text in cls.text.items():
            count = text.count(b"\n---\n") + 1
            cls.overlays[name] = Overlay(documents[:count])
            documents = documents[count:]
        cls.secrets = cls.make_secrets()

    @staticmethod
    def uncomment(overlays: pathlib.Path, name: str, copy_name: str) -> pathlib.Path:
        """A copy of an overlay with all components; its kustomization."""
        shutil.copytree(overlays / name, overlays / copy_name)
        edited = overlays / copy_name / "kustomization.yaml"
        text = edited.read_text("utf-8")
        edited.write_text(text.replace("  # - ../../", "  - ../../"), "utf-8")
        return edited

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def make_secrets(cls) -> pathlib.Path:
        """What the volumes hold besides the configuration."""
        secrets = cls.directory / "secrets"
        overlay = cls.overlays["single"]
        make_certificate(secrets / "tls", overlay.one("Certificate")["spec"]["dnsNames"])
        (issuer,) = re.findall(r"issuer: (\S+)", overlay.config())
        cls.cluster = Cluster(secrets / "cluster", issuer)
        (secrets / "callers").mkdir()
        (secrets / "callers/cluster.jwks").write_text(cls.cluster.jwks(), "utf-8")
        # The same authority for both sides.
        make_certificate(secrets / "etcd", ["localhost"], "serverAuth,clientAuth")
        make_certificate(secrets / "postgres", ["localhost"])
        keys = secrets / "response-keys"
        keys.mkdir()
        (keys / "2026-01.key").write_text("5e" * 32, "utf-8")
        (keys / "2026-01.key").chmod(0o440)
        (keys / "current").write_text("2026-01", "utf-8")
        return secrets

    # --- Schemas ---------------------------------------------------------------------------------

    def test_fits_the_schemas(self):
        self.assertEqual(self.faults, "")
        kinds = {document["kind"] for document in self.overlays["dev"].documents}
        self.assertIn("StatefulSet", kinds)

    def faults_of(self, *changes) -> str:
        text = self.text["single"].decode()
        for right, wrong in changes:
            self.assertIn(right, text)
            text = text.replace(right, wrong)
        return check_schemas(text.encode())[1]

    def test_schemas_notice_wrong_values(self):
        faults = self.faults_of(
            ("replicas: 1", 'replicas: "one"'),
            ("AlwaysAllow", "Sometimes"),
            ("secretName: idempotencyd-authority", "secret: idempotencyd-authority"),
            ("apiVersion: networking.k8s.io/v1", "apiVersion: networking.k8s.io/v3"),
        )
        for word in ("replicas", "unhealthyPodEvictionPolicy", "secretName", "k8s.io/v3"):
            self.assertIn(word, faults)

    def test_schemas_notice_fields_that_there_are_not(self):
        faults = self.faults_of(
            ("failureThreshold: 120", "failureTreshold: 120"), ("scrapeTimeout:", "scrapTimeout:")
        )
        self.assertIn("failureTreshold", faults)
        self.assertIn("scrapTimeout", faults)

    # --- Security --------------------------------------------------------------------------------

    def test_pods_are_restricted(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                pod = overlay.pod()
                self.assertEqual(not_restricted(pod), [])
                security = overlay.container()["securityContext"]
                self.assertIs(security["readOnlyRootFilesystem"], True)
                self.assertIs(pod["automountServiceAccountToken"], False)
                labels = overlay.all("Namespace")[0]["metadata"]["labels"]
                self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")

    def test_restricted_notices_what_is_not(self):
        right = self.overlays["single"].pod()
        wrong_ones = []
        for change in (
            lambda pod: pod.update(hostNetwork=True),
            lambda pod: pod["securityContext"].pop("runAsNonRoot"),
            lambda pod: pod["securityContext"].update(runAsUser=0),
            lambda pod: pod["securityContext"].pop("seccompProfile"),
            lambda pod: pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
            lambda pod: pod["containers"][0].pop("securityContext"),
            lambda pod: pod["containers"][0]["securityContext"].update(privileged=True),
            lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(add=["X"]),
            lambda pod: pod["containers"][0]["ports"][0].update(hostPort=1),
        ):
            wrong = copy.deepcopy(right)
            change(wrong)
            wrong_ones.append(not_restricted(wrong))
        self.assertNotIn([], wrong_ones)

    def test_nobody_may_talk_but_callers_and_prometheus(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                policies = overlay.all("NetworkPolicy")
                denying = overlay.one("NetworkPolicy", "default-deny")["spec"]
                self.assertEqual(
                    denying, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
                )
                opened = [
                    (rule["ports"][0]["port"], peer)
                    for policy in policies
                    for rule in policy["spec"].get("ingress", [])
                    for peer in rule["from"]
                ]
                self.assertEqual({port for port, _ in opened}, {"grpc", "metrics"})
                for _, peer in opened:
                    (selector,) = peer.values()
                    self.assertTrue(selector["matchLabels"])
                egress = [policy for policy in policies if "egress" in policy["spec"]]
                names = [policy["metadata"]["name"] for policy in egress]
                callers = {"other": ["idempotency-backup"]}
                if name.startswith("replicated-"):
                    callers[name] = ["idempotencyd-store"]
                self.assertEqual(names, callers.get(name, []))

    def test_replicas_reach_their_store_and_nothing_else(self):
        for name, port in (("replicated-etcd", 2379), ("replicated-postgres", 5432)):
            with self.subTest(overlay=name):
                overlay = self.overlays[name]
                store, names = overlay.one("NetworkPolicy", "idempotencyd-store")["spec"]["egress"]
                self.assertEqual(store["ports"], [{"port": port}])
                self.assertEqual({rule["port"] for rule in names["ports"]}, {53})
                (peer,) = store["to"]
                namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
                hosts = " ".join(overlay.container()["args"])
                self.assertRegex(hosts, rf"\b[\w-]+\.\w+\.{namespace}\.svc\b")

    # --- One store, one writer -------------------------------------------------------------------

    def test_one_pod_with_a_volume_of_its_own(self):
        for name in ("single", "other"):
            spec = self.overlays[name].one("StatefulSet")["spec"]
            self.assertEqual(spec["replicas"], 1)
            for claim in spec["volumeClaimTemplates"]:
                self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOncePod"])
            self.assertEqual(
                spec["persistentVolumeClaimRetentionPolicy"],
                {"whenDeleted": "Retain", "whenScaled": "Retain"},
            )

    def test_replicas_are_apart_and_replaced_one_by_one(self):
        for name in ("replicated-etcd", "replicated-postgres"):
            with self.subTest(overlay=name):
                overlay = self.overlays[name]
                spec = overlay.one("Deployment")["spec"]
                self.assertGreater(spec["replicas"], 1)
                self.assertEqual(
                    spec["strategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0}
                )
                apart = overlay.pod()["affinity"]["podAntiAffinity"]
                for rule in apart["preferredDuringSchedulingIgnoredDuringExecution"]:
                    wanted = rule["podAffinityTerm"]["labelSelector"]["matchLabels"]
                    self.assertTrue(wanted)
                    labels = spec["template"]["metadata"]["labels"]
                    self.assertLessEqual(wanted.items(), labels.items())
                # Nothing is kept in a pod, and no pod stands for another.
                self.assertNotIn("data_dir", overlay.flags())
                self.assertEqual(overlay.all("StatefulSet"), [])
                self.assertLess(
                    overlay.one("PodDisruptionBudget")["spec"]["maxUnavailable"], spec["replicas"]
                )

    def test_sealed_is_sealed_in_either_workload(self):
        for name in ("other", "replicated-sealed"):
            overlay = self.overlays[name]
            mounts = {mount["name"]: mount for mount in overlay.container()["volumeMounts"]}
            self.assertEqual(
                overlay.flags()["response_keys"], mounts["response-keys"]["mountPath"]
            )

    def test_data_lies_on_the_volume(self):
        for name in ("single", "other"):
            overlay = self.overlays[name]
            mounts = {mount["name"]: mount for mount in overlay.container()["volumeMounts"]}
            for volume, flag in (("data", "data_dir"), ("backups", "backup_dir")):
                if flag not in overlay.flags():
                    continue
                below = pathlib.PurePath(overlay.flags()[flag]).parent
                self.assertEqual(str(below), mounts.pop(volume)["mountPath"])
            self.assertTrue(all(mount["readOnly"] for mount in mounts.values()))

    def test_what_is_mounted_is_there(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                set_spec = overlay.workload()["spec"]
                volumes = {volume["name"] for volume in overlay.pod().get("volumes", [])}
                volumes |= {
                    claim["metadata"]["name"] for claim in set_spec.get("volumeClaimTemplates", [])
                }
                mounted = {mount["name"] for mount in overlay.container()["volumeMounts"]}
                self.assertEqual(volumes, mounted)

    def test_grace_is_longer_than_the_drain(self):
        source = (SOURCE / "service/process/process.h").read_text("utf-8")
        (drain,) = re.findall(r"kDrainTimeout = absl::Seconds\((\d+)\)", source)
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                self.assertGreater(overlay.pod()["terminationGracePeriodSeconds"], int(drain) + 5)

    def test_memory_limit_has_room(self):
        """RocksDB's own, by the flags: the block cache and three memtables of two families."""
        for name in ("single", "other"):
            overlay = self.overlays[name]
            flags = overlay.flags()
            store = MIB * (int(flags["block_cache_mb"]) + 6 * int(flags["memtable_mb"]))
            limits = overlay.container()["resources"]["limits"]
            self.assertGreaterEqual(quantity(limits["memory"]), 2 * store)
            self.assertNotIn("cpu", limits)

    # --- What fits what --------------------------------------------------------------------------

    def test_selectors_find_the_pod(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                labels = overlay.workload()["spec"]["template"]["metadata"]["labels"]
                selectors = [service["spec"]["selector"] for service in overlay.all("Service")]
                selectors.append(
                    overlay.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]
                )
                selectors += [
                    policy["spec"]["podSelector"]["matchLabels"]
                    for policy in overlay.all("NetworkPolicy")
                    if policy["metadata"]["name"] not in ("default-deny", "idempotency-backup")
                ]
                for selector in selectors:
                    self.assertTrue(selector)
                    self.assertLessEqual(selector.items(), labels.items())

    def test_prometheus_finds_the_metrics(self):
        for name in sorted(set(self.overlays) - {"dev"}):
            overlay = self.overlays[name]
            monitor = overlay.one("ServiceMonitor")["spec"]
            wanted = monitor["selector"]["matchLabels"]
            (service,) = [
                service
                for service in overlay.all("Service")
                if wanted.items() <= service["metadata"]["labels"].items()
            ]
            (endpoint,) = monitor["endpoints"]
            (port,) = service["spec"]["ports"]
            self.assertEqual(endpoint["port"], port["name"])
            self.assertEqual(endpoint["path"], "/metrics")
            self.assertIs(service["spec"]["publishNotReadyAddresses"], True)

    def test_ports_are_those_that_are_listened_on(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                declared = overlay.container()["ports"]
                ports = {port["name"]: str(port["containerPort"]) for port in declared}
                flags = overlay.flags()
                self.assertEqual(flags["listen"].rpartition(":")[2], ports["grpc"])
                self.assertEqual(flags["metrics_listen"].rpartition(":")[2], ports["metrics"])
                for service in overlay.all("Service"):
                    for port in service["spec"]["ports"]:
                        self.assertEqual(str(port["port"]), ports[port["targetPort"]])

    def test_flags_are_the_binarys(self):
        text = run(binary("IDEMPOTENCYD"), "--help").stdout.decode()
        known = set(re.findall(r"^  --(\w+)", text, re.MULTILINE))
        self.assertIn("listen", known)
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                self.assertLessEqual(set(overlay.flags()), known)

    def test_certificate_is_for_the_service_in_its_namespace(self):
        for name in sorted(set(self.overlays) - {"dev"}):
            namespace = "elsewhere" if name == "other" else "idempotency"
            overlay = self.overlays[name]
            certificate = overlay.one("Certificate")
            self.assertEqual(certificate["metadata"]["namespace"], namespace)
            self.assertEqual(
                certificate["spec"]["dnsNames"],
                ["idempotencyd", f"idempotencyd.{namespace}", f"idempotencyd.{namespace}.svc",
                 f"idempotencyd.{namespace}.svc.cluster.local"],
            )  # fmt: skip
            secrets = [
                volume["secret"]["secretName"]
                for volume in overlay.pod()["volumes"]
                if volume["name"] == "tls"
            ]
            self.assertEqual(secrets, [certificate["spec"]["secretName"]])

    def test_liveness_does_not_depend_on_the_store(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                container = overlay.container()
                for probe in ("livenessProbe", "startupProbe"):
                    self.assertEqual(
                        container[probe]["httpGet"], {"path": "/healthz", "port": "metrics"}
                    )

    # --- Carried out -----------------------------------------------------------------------------

    def fill(self, overlay: Overlay) -> pathlib.Path:
        """What the volumes hold, below one directory; and `self.here` leads there."""
        root = self.directory / self.id().rpartition(".")[2]
        etc = root / "etc/idempotencyd"
        (etc / "config").mkdir(parents=True)
        for volume in ("lib", "backups"):
            (root / "var" / volume / "idempotencyd").mkdir(parents=True)
        self.here = lambda text: re.sub(
            r"/(?:etc|var/lib|var/backups)/idempotencyd", lambda path: f"{root}{path[0]}", text
        )
        (etc / "config/config.yaml").write_text(self.here(overlay.config()), "utf-8")
        for secret in self.secrets.iterdir():
            (etc / secret.name).symlink_to(secret)
        return root

    def start(self, name: str, more: str = "") -> Service:
        """`more` is added to the configuration."""
        overlay = self.overlays[name]
        root = self.fill(overlay)
        config = root / "etc/idempotencyd/config/config.yaml"
        text = config.read_text("utf-8")
        config.write_text(text.replace("access:\n", "access:\n" + more), "utf-8")
        return self.run_pod(root, overlay, lambda word: word, {})

    def run_pod(self, directory, overlay: Overlay, elsewhere, environment: dict) -> Service:
        arguments = [elsewhere(self.here(word)) for word in overlay.container()["args"]]
        # The only change of our own: on loopback, on any free port.
        arguments = [re.sub(r"=0\.0\.0\.0:\d+$", "=127.0.0.1:0", word) for word in arguments]
        service = Service(directory, arguments, environment)
        self.addCleanup(service.stop)
        return service

    def probe(self, service: Service, probe: dict) -> bool:
        if "httpGet" in probe:
            return service.get(probe["httpGet"]["path"])[0] == 200
        if "grpc" in probe:
            self.assertEqual(probe["grpc"]["port"], 7420)
            return service.ctl("health").returncode == 0
        command = [self.here(word) for word in probe["exec"]["command"]]
        self.assertEqual(command[0], "idempotencyctl")
        command = [word.replace("127.0.0.1:7420", f"127.0.0.1:{service.port}") for word in command]
        return run(binary("IDEMPOTENCYCTL"), *command[1:]).returncode == 0

    def test_backup_is_taken_by_its_account_and_restored(self):
        overlay = self.overlays["other"]
        job = overlay.one("CronJob", "idempotency-backup")["spec"]["jobTemplate"]["spec"]
        pod = job["template"]["spec"]
        self.assertEqual(not_restricted(pod), [])
        (container,) = pod["containers"]
        self.assertEqual(container["image"], overlay.container()["image"])

        service = self.start("other", ADMIN.format(account="elsewhere:idempotency-backup"))
        token = service.log.parent / "token"
        account = f"elsewhere:{pod['serviceAccountName']}"
        token.write_text(self.cluster.token(account, "idempotencyd", int(time.time())), "utf-8")
        command = [
            self.here(word)
            .replace("idempotencyd:7420", f"127.0.0.1:{service.port}")
            .replace("/var/run/secrets/tokens/idempotencyd", str(token))
            for word in container["command"]
        ]
        done = run(binary("IDEMPOTENCYCTL"), *command[1:], "--server-name=idempotencyd")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(service.stop(), 0)

        data = service.log.parent / "var/lib/idempotencyd"
        self.carry_out("backups/restore.yaml", overlay)
        names = {path.name for path in data.iterdir()}
        self.assertEqual(names, {"store", "store.before-restore"})

        # Of answers that are not sealed there is no Secret: its volume is empty.
        shutil.rmtree(data / "store.before-restore")
        keys = service.log.parent / "etc/idempotencyd/response-keys"
        keys.unlink()
        keys.mkdir()
        faults = self.carry_out("backups/restore.yaml", overlay, code=1)
        self.assertIn("2026-01", faults)

    def test_plain_answers_are_restored_without_keys(self):
        overlay = self.overlays["other"]
        root = self.fill(overlay)
        (root / "etc/idempotencyd/response-keys").unlink()
        (root / "etc/idempotencyd/response-keys").mkdir()
        data = root / "var/lib/idempotencyd"
        backups = self.here(f"--backup_dir={overlay.flags()['backup_dir']}")
        service = Service(
            root,
            [f"--data_dir={data / 'store'}", backups, "--listen=127.0.0.1:0", "--ballast_mb=0"],
        )
        self.addCleanup(service.stop)
        done = service.ctl("backup")
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(service.stop(), 0)
        self.carry_out("backups/restore.yaml", overlay)
        self.assertTrue((data / "store.before-restore").is_dir())

    def carry_out(self, job: str, overlay: Overlay, code: int = 0) -> str:
        """Every step of a component's Job, as it is shipped; what the last of them says."""
        text = (DEPLOY / "kubernetes/components" / job).read_bytes()
        (document,), faults = check_schemas(text)
        self.assertEqual(faults, "")
        pod = document["spec"]["template"]["spec"]
        self.assertEqual(not_restricted(pod), [])
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        of_the_set = {
            mount["name"]: mount["mountPath"] for mount in overlay.container()["volumeMounts"]
        }
        steps = [*pod.get("initContainers", []), *pod["containers"]]
        for number, step in enumerate(steps, start=1):
            mounted = {mount["name"]: mount["mountPath"] for mount in step["volumeMounts"]}
            self.assertLessEqual(set(mounted), set(volumes))
            self.assertLessEqual(mounted.items(), of_the_set.items())
            words = [*step.get("command", ["idempotencyd"]), *step.get("args", [])]
            for path in re.findall(r"=(/(?:etc|var)/\S+)", " ".join(words)):
                below = [place for place in mounted.values() if path.startswith(place)]
                self.assertTrue(below, path)
            programs = {
                "idempotencyd": "IDEMPOTENCYD", "idempotencyctl": "IDEMPOTENCYCTL"
            }  # fmt: skip
            program = binary(programs[words[0]]) if words[0] in programs else words[0]
            done = run(program, *[self.here(word) for word in words[1:]])
            expected = code if number == len(steps) else 0
            self.assertEqual(done.returncode, expected, done.stderr.decode())
        self.assertEqual(
            {"persistentVolumeClaim": {"claimName": "data-idempotencyd-0"}, "name": "data"},
            volumes["data"],
        )
        return done.stderr.decode()

    def test_everything_is_sealed_again_by_its_job(self):
        overlay = self.overlays["other"]
        service = self.start("other")
        self.assertEqual(service.stop(), 0)
        self.assertIn('"rewrapped"', self.carry_out("sealed-responses/rewrap.yaml", overlay))

    def test_a_backup_that_hangs_does_not_keep_the_next_from_its_time(self):
        spec = self.overlays["other"].one("CronJob", "idempotency-backup")["spec"]
        self.assertEqual(spec["concurrencyPolicy"], "Forbid")
        self.assertLess(spec["jobTemplate"]["spec"]["activeDeadlineSeconds"], 24 * 3600)

    def test_the_runbook_names_what_there_is(self):
        text = (DEPLOY / "RUNBOOK.md").read_text("utf-8")
        overlay = self.overlays["other"]
        (job,) = re.findall(r"--from=cronjob/(\S+)", text)
        self.assertTrue(overlay.one("CronJob", job))
        (secret,) = re.findall(r"create secret generic (\S+)", text)
        self.assertIn(secret, self.text["other"].decode())
        components = DEPLOY / "kubernetes/components"
        shipped = {
            name
            for file in components.glob("*/re*.yaml")
            for name in re.findall(r"^  name: (\S+)", file.read_text("utf-8"), re.M)
        }
        self.assertEqual(shipped, {"idempotency-restore", "idempotency-rewrap"})
        named = set(re.findall(r"(?<!cron)job/(idempotency-\w+)", text))
        self.assertLessEqual(named, shipped | {job})

    def test_an_alert_tells_of_no_backup_where_some_are_to_be_taken(self):
        for name, wanted in (("single", False), ("other", True)):
            groups = self.overlays[name].one("PrometheusRule")["spec"]["groups"]
            names = {rule["alert"] for group in groups for rule in group["rules"]}
            self.assertIn("IdempotencyBackupOld", names)
            self.assertEqual("IdempotencyBackupNever" in names, wanted)

    def test_configuration_is_valid(self):
        for name, overlay in self.overlays.items():
            with self.subTest(overlay=name):
                root = self.directory / self.id().rpartition(".")[2]
                shutil.rmtree(root, ignore_errors=True)
                config = self.fill(overlay) / "etc/idempotencyd/config/config.yaml"
                done = run(binary("IDEMPOTENCYD"), f"--config={config}", "--check_config")
                self.assertEqual(done.returncode, 0, done.stderr.decode())

    def check_life(self, name: str):
        service = self.start(name)
        container = self.overlays[name].container()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertTrue(self.probe(service, container[probe]), probe)
        self.assertEqual(service.stop(), 0)
        self.assertFalse(self.probe(service, container["readinessProbe"]))

    def test_dev_starts_and_is_ready_and_stops(self):
        self.check_life("dev")

    def test_single_starts_and_is_ready_and_stops(self):
        self.check_life("single")

    def test_sealed_starts_and_is_ready_and_stops(self):
        self.check_life("other")

    def check_replicas(self, name: str, elsewhere, environment: dict):
        """Two pods on one store: ready, and one knows what was reserved through the other."""
        overlay = self.overlays[name]
        root = self.fill(overlay)
        token = root / "token"
        account = self.cluster.token("payments:api", "idempotencyd", int(time.time()))
        token.write_text(account, "utf-8")
        ctl = [f"--ca={root / 'etc/idempotencyd/tls/ca.crt'}", f"--token-file={token}",
               "--server-name=idempotencyd.idempotency.svc"]  # fmt: skip
        pods = []
        for pod in ("one", "other"):
            (root / pod).mkdir()
            pods.append(self.run_pod(root / pod, overlay, elsewhere, environment))
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertTrue(self.probe(pods[-1], overlay.container()[probe]), probe)
        acquired = pods[0].ctl(
            *ctl, "reserve", "payments.stripe", "acct-1", "order-1", "--lease=1h",
            f"--fingerprint=sha256/bytes-1:{'00' * 32}",
        )  # fmt: skip
        self.assertEqual(acquired.returncode, 0, acquired.stderr.decode())
        # A pod that goes takes nothing along.
        self.assertEqual(pods[0].stop(), 0)
        seen = pods[1].ctl(*ctl, "get", "payments.stripe", "acct-1", "order-1")
        self.assertIn("PENDING", seen.stdout.decode(), seen.stderr.decode())
        self.assertEqual(pods[1].stop(), 0)

    def test_replicas_on_etcd_know_of_each_other(self):
        etcd = Etcd(self.secrets / "etcd")
        self.addCleanup(etcd.stop)
        self.check_replicas(
            "replicated-etcd",
            lambda word: re.sub(r"(--etcd_endpoints)=.*", rf"\1=localhost:{etcd.port}", word),
            {},
        )

    def test_replicas_on_postgres_know_of_each_other(self):
        postgres = Postgres(self.secrets / "postgres")
        self.addCleanup(postgres.stop)
        (variable,) = self.overlays["replicated-postgres"].container()["env"]
        self.assertEqual(variable["valueFrom"]["secretKeyRef"]["key"], "password")
        self.check_replicas(
            "replicated-postgres",
            lambda word: re.sub(r"@[^/]+/idem", f"@localhost:{postgres.port}/idem", word),
            {variable["name"]: Postgres.PASSWORD},
        )

    def test_service_accounts_may_what_the_rules_say(self):
        service = self.start("single")
        now = int(time.time())
        etc = service.log.parent / "etc/idempotencyd"
        ctl = [f"--ca={etc / 'tls/ca.crt'}", "--server-name=idempotencyd.idempotency.svc"]

        def reserve(account, key, namespace="payments.stripe"):
            token = service.log.parent / "token"
            token.write_text(self.cluster.token(account, "idempotencyd", now), "utf-8")
            return service.ctl(
                *ctl, f"--token-file={token}", "reserve", namespace, "acct-1", key,
                f"--fingerprint=sha256/bytes-1:{'00' * 32}",
            )  # fmt: skip

        acquired = reserve("payments:api", "order-1")
        self.assertEqual(acquired.returncode, 0, acquired.stderr.decode())
        refused = reserve("shipping:api", "order-1")
        self.assertIn("ACCESS_DENIED", refused.stderr.decode())
        listed = service.ctl(
            *ctl, f"--token-file={service.log.parent / 'token'}", "list", "payments.stripe"
        )
        self.assertIn("ACCESS_DENIED", listed.stderr.decode())
        on_call = service.log.parent / "on-call"
        account = self.overlays["single"].one("ServiceAccount", "idempotency-on-call")["metadata"]
        name = f"{account['namespace']}:{account['name']}"
        on_call.write_text(self.cluster.token(name, "idempotencyd", now), "utf-8")
        listed = service.ctl(*ctl, f"--token-file={on_call}", "list", "payments.stripe")
        self.assertIn("order-1", listed.stdout.decode(), listed.stderr.decode())


def has_kubectl() -> bool:
    """One that knows components and replacements."""
    if shutil.which("kubectl") is None:
        return False
    version = run("kubectl", "version", "--client", "--output=json").stdout
    return int(re.sub(r"\D", "", json.loads(version)["clientVersion"]["minor"])) >= 22


if __name__ == "__main__":
    if not has_kubectl():
        print("no kubectl 1.22 or newer here (Debian 12's is older): nothing was tried")
        sys.exit(SKIPPED)
    unittest.main()

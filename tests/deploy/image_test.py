#!/usr/bin/env python3
"""The image, run by podman as the overlay `single` says: deploy/image/check.sh builds it first.

$IMAGE is its name, $IMAGE_DIRECTORY where it is stored. Nothing is reachable from outside of the
container: probes are carried out inside it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import kubernetes_test
from credentials import Cluster, make_certificate
from service import DEPLOY, PATIENCE_SECONDS, run

IMAGE = os.environ.get("IMAGE", "")
STORAGE = pathlib.Path(os.environ.get("IMAGE_DIRECTORY", ""))

# With the packages that it needs, and no others.
MOST_MIB = 256

# A request by hand: the image has no tool for it.
HTTP = 'exec 3<>/dev/tcp/127.0.0.1/{port}; printf "GET {path} HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3'


def podman(*words, **more) -> subprocess.CompletedProcess:
    return run(
        "podman", "--root", str(STORAGE / "root"), "--runroot", str(STORAGE / "run"),
        "--storage-driver", "overlay", "--runtime", "runc", "--cgroup-manager", "cgroupfs",
        "--events-backend", "file", *words, **more,
    )  # fmt: skip


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="idempotency-image-")
        cls.root = pathlib.Path(cls.temporary.name)
        text = kubernetes_test.render(DEPLOY / "kubernetes/overlays/single")
        documents, faults = kubernetes_test.check_schemas(text)
        assert faults == "", faults
        cls.overlay = kubernetes_test.Overlay(documents)
        cls.pod, cls.container = cls.overlay.pod(), cls.overlay.container()
        cls.user = cls.pod["securityContext"]["runAsUser"]
        cls.fill_volumes()
        cls.name = f"idempotencyd-check-{os.getpid()}"
        cls.start()

    @classmethod
    def tearDownClass(cls):
        podman("rm", "--force", "--time=0", cls.name)
        cls.temporary.cleanup()

    @classmethod
    def fill_volumes(cls):
        """What the cluster would put into each volume, for fsGroup to read."""
        make_certificate(cls.root / "tls", cls.overlay.one("Certificate")["spec"]["dnsNames"])
        (issuer,) = re.findall(r"issuer: (\S+)", cls.overlay.config())
        cls.cluster = Cluster(cls.root / "cluster", issuer)
        (cls.root / "callers").mkdir()
        (cls.root / "callers/cluster.jwks").write_text(cls.cluster.jwks(), "utf-8")
        account = "idempotency:idempotency-on-call"
        token = cls.cluster.token(account, "idempotencyd", int(time.time()))
        (cls.root / "callers/on-call").write_text(token, "utf-8")
        (cls.root / "config").mkdir()
        (cls.root / "config/config.yaml").write_text(cls.overlay.config(), "utf-8")
        (cls.root / "data").mkdir()
        group = cls.pod["securityContext"]["fsGroup"]
        cls.root.chmod(0o755)
        for path in (cls.root, *cls.root.rglob("*")):
            os.chown(path, 0, group)
            path.chmod((0o750 if path.is_dir() else 0o440))
        (cls.root / "data").chmod(0o2770)
        cls.root.chmod(0o755)

    @classmethod
    def start(cls):
        security = cls.container["securityContext"]
        memory = kubernetes_test.quantity(cls.container["resources"]["limits"]["memory"])
        read_only = ["--read-only", "--read-only-tmpfs=false"]
        volumes = []
        for mount in cls.container["volumeMounts"]:
            access = "ro" if mount.get("readOnly") else "rw"
            volumes.append(f"--volume={cls.root / mount['name']}:{mount['mountPath']}:{access}")
        done = podman(
            "run", "--detach", f"--name={cls.name}", "--network=none",
            "--ulimit=nofile=16384:16384", "--ulimit=nproc=8192:8192",
            f"--memory={memory}", f"--memory-swap={memory}",
            f"--user={cls.user}:{cls.pod['securityContext']['runAsGroup']}",
            *(read_only if security["readOnlyRootFilesystem"] else []),
            *(f"--cap-drop={name.lower()}" for name in security["capabilities"]["drop"]),
            *([] if security["allowPrivilegeEscalation"] else ["--security-opt=no-new-privileges"]),
            *volumes, IMAGE, *cls.container["args"],
        )  # fmt: skip
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())

    def inside(self, *words) -> subprocess.CompletedProcess:
        return podman("exec", self.name, *words)

    def http(self, path: str) -> str:
        _, _, port = self.overlay.flags()["metrics_listen"].rpartition(":")
        return self.inside("bash", "-c", HTTP.format(port=port, path=path)).stdout.decode()

    def await_ready(self):
        probe = self.container["readinessProbe"]["exec"]["command"]
        for _ in range(PATIENCE_SECONDS * 4):
            done = self.inside(*probe)
            if done.returncode == 0:
                return
            running = podman("inspect", "--format={{.State.Running}}", self.name).stdout
            self.assertEqual(running.strip(), b"true", self.log())
        self.fail(f"not ready: {done.stderr.decode()}\n{self.log()}")

    def log(self) -> str:
        done = podman("logs", self.name)
        return (done.stdout + done.stderr).decode()

    def ctl(self, *words) -> subprocess.CompletedProcess:
        return self.inside(
            "idempotencyctl", "--server=127.0.0.1:7420", "--server-name=idempotencyd",
            "--ca=/etc/idempotencyd/tls/ca.crt",
            "--token-file=/etc/idempotencyd/callers/on-call", *words,
        )  # fmt: skip

    def exit_code(self) -> int:
        done = podman("wait", self.name)
        return int(done.stdout)

    # --- In order of their names: the last ones stop it ------------------------------------------

    def test_1_probes_are_answered(self):
        self.await_ready()
        for name in ("startupProbe", "livenessProbe"):
            self.assertIn(" 200 OK", self.http(self.container[name]["httpGet"]["path"]))
        self.assertIn("idempotency_ready 1", self.http("/metrics"))

    def test_2_process_may_nothing(self):
        status = self.inside("cat", "/proc/1/status").stdout.decode()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        self.assertEqual(fields["Name"], "idempotencyd")
        self.assertEqual(fields["Uid"].split(), [str(self.user)] * 4)
        for capabilities in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(fields[capabilities], 16), 0, capabilities)
        self.assertEqual(fields["NoNewPrivs"], "1")
        self.assertEqual(fields["Seccomp"], "2")

    def test_3_root_is_read_only(self):
        for path in ("/", "/tmp", "/usr/local/bin", "/etc/idempotencyd/config"):
            self.assertNotEqual(self.inside("touch", f"{path}/new").returncode, 0, path)
        self.assertEqual(self.inside("touch", "/var/lib/idempotencyd/new").returncode, 0)

    def test_3_memory_is_limited(self):
        limit = kubernetes_test.quantity(self.container["resources"]["limits"]["memory"])
        state = json.loads(podman("inspect", self.name).stdout)[0]
        self.assertEqual(state["HostConfig"]["Memory"], limit)
        paths = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
        read = [self.inside("cat", path).stdout.strip() for path in paths]
        self.assertIn(str(limit).encode(), read)

    def test_3_kernel_tells_whether_its_clock_is_right(self):
        """Without it, a jump of the clock stays in doubt until a restart with --trust_clock."""
        call = r'my $t = "\0" x 256; exit(syscall(305, 0, $t) < 0 ? $! + 0 : 0)'
        self.assertEqual(self.inside("perl", "-e", call).returncode, 0)

    def test_3_holds_only_what_runs(self):
        for tool in ("g++", "cmake", "gcc", "git", "python3"):
            self.assertNotEqual(self.inside("which", tool).returncode, 0, tool)
        found = self.inside("find", "/", "-xdev", "-perm", "/6000", "-type", "f").stdout
        self.assertEqual(found, b"")
        size = int(podman("image", "inspect", "--format={{.Size}}", IMAGE).stdout)
        self.assertLess(size >> 20, MOST_MIB)

    def test_4_serves_whoever_has_a_token_and_takes_up_a_new_configuration(self):
        listed = self.ctl("namespaces")
        self.assertIn("payments.stripe", listed.stdout.decode(), listed.stderr.decode())
        config = self.root / "config/config.yaml"
        config.chmod(0o640)
        config.write_text(config.read_text("utf-8") + "  - name: later\n", "utf-8")
        self.inside("sh", "-c", "kill -HUP 1")
        for _ in range(PATIENCE_SECONDS):
            if '"event":"reloaded"' in self.log():
                break
        self.assertIn("later", self.ctl("namespaces").stdout.decode())

    def test_5_killed_it_comes_back_with_what_it_had(self):
        fingerprint = "--fingerprint=sha256/bytes-1:" + "00" * 32
        account = "payments:api"
        token = self.root / "callers/api"
        token.write_text(self.cluster.token(account, "idempotencyd", int(time.time())), "utf-8")
        token.chmod(0o444)
        reserve = ("idempotencyctl", "--server=127.0.0.1:7420", "--server-name=idempotencyd",
                   "--ca=/etc/idempotencyd/tls/ca.crt",
                   "--token-file=/etc/idempotencyd/callers/api",
                   "reserve", "payments.stripe", "acct-1", "order-1", "--lease=1h",
                   fingerprint)  # fmt: skip
        first = self.inside(*reserve)
        self.assertEqual(first.returncode, 0, first.stderr.decode())
        podman("kill", "--signal=KILL", self.name)
        self.assertEqual(self.exit_code(), 137)
        self.assertEqual(podman("start", self.name).returncode, 0)
        self.await_ready()
        again = self.inside(*reserve)
        self.assertEqual(again.returncode, 11, again.stderr.decode())  # IN_PROGRESS

    def test_6_sigterm_drains_and_ends_with_0(self):
        podman("kill", "--signal=TERM", self.name)
        self.assertEqual(self.exit_code(), 0, self.log())
        self.assertIn('"event":"stopped","exit_code":0', self.log())


if __name__ == "__main__":
    if not IMAGE:
        sys.exit("deploy/image/check.sh builds the image and calls this")
    unittest.main()

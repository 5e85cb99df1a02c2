"""An etcd and a PostgreSQL of a test's own: over TLS, for those who may, on any free port."""

import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile

from service import PATIENCE_SECONDS, end, run

POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")


def free_port() -> int:
    """Not of those that Linux gives to outgoing connections (as tests/support/free_port.h)."""
    for _ in range(1000):
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port of 127.0.0.1 is free")


class Store:
    """A program that is ready as soon as ready() says so; stop() ends it and takes away its files."""

    stop_signal = signal.SIGTERM

    def __init__(self, certificate: pathlib.Path):
        """`certificate`: a directory with tls.crt, tls.key and ca.crt, for localhost."""
        # pylint: disable=consider-using-with
        self._temporary = tempfile.TemporaryDirectory(prefix="idempotency-store-")
        self.directory = pathlib.Path(self._temporary.name)
        self.certificate = certificate
        self.port = free_port()
        self.log = self.directory / "log"
        self.prepare()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, **self.user()
            )
        for _ in range(PATIENCE_SECONDS * 10):
            if self.ready():
                return
            try:
                self.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            break
        said = self.log.read_text("utf-8")
        self.stop()
        raise RuntimeError(f"{self.command()[0]} did not start:\n{said}")

    def prepare(self):
        pass

    def command(self) -> list:
        raise NotImplementedError

    def user(self) -> dict:
        return {}

    def ready(self) -> bool:
        raise NotImplementedError

    def stop(self):
        end(self.process, self.stop_signal)
        self._temporary.cleanup()


class Etcd(Store):
    """One member, which asks for a certificate of the same authority."""

    def command(self) -> list:
        here = f"https://127.0.0.1:{self.port}"
        peers = f"http://127.0.0.1:{free_port()}"
        return [
            "etcd", "--name=one", f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=one={peers}", "--client-cert-auth",
            f"--cert-file={self.certificate / 'tls.crt'}",
            f"--key-file={self.certificate / 'tls.key'}",
            f"--trusted-ca-file={self.certificate / 'ca.crt'}",
        ]  # fmt: skip

    def ready(self) -> bool:
        return b"ready to serve client requests" in self.log.read_bytes()


class Postgres(Store):
    """A database "idempotency", whose owner has that name and PASSWORD."""

    PASSWORD = "of-this-test-alone"
    # "fast": without waiting for clients.
    stop_signal = signal.SIGINT

    def take_certificate(self):
        for name in ("tls.crt", "tls.key"):
            shutil.copy(self.certificate / name, self.directory / name)
        (self.directory / "tls.key").chmod(0o600)

    def prepare(self):
        self.take_certificate()
        (self.directory / "password").write_text(self.PASSWORD, "utf-8")
        if self.user():
            entry = pwd.getpwnam("postgres")
            for path in (self.directory, *self.directory.iterdir()):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        done = run(
            POSTGRES / "initdb", "-D", self.directory / "data", "-A", "scram-sha-256",
            "-U", "idempotency", f"--pwfile={self.directory / 'password'}",
            cwd=self.directory, **self.user(),
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())

    def command(self) -> list:
        settings = {
            "listen_addresses": "localhost", "unix_socket_directories": "", "ssl": "on",
            "ssl_cert_file": self.directory / "tls.crt", "ssl_key_file": self.directory / "tls.key",
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [POSTGRES / "postgres", "-D", self.directory / "data", "-p", str(self.port), *words]

    def user(self) -> dict:
        # It refuses to run as root.
        if os.geteuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def ready(self) -> bool:
        made = run(
            POSTGRES / "createdb", "-h", "localhost", "-p", str(self.port), "-U", "idempotency",
            "idempotency", env={**os.environ, "PGPASSWORD": self.PASSWORD},
        )  # fmt: skip
        return made.returncode == 0

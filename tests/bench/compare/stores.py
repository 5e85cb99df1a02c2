"""idempotencyd on each engine as one thing that is started and ended: its store, and one server."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import servers

ETCD_MEMBERS = 3
STANDBY = "standby"
SCHEMA = "idempotency"


class EtcdMember(servers.Etcd):
    """One of several."""

    def __init__(self, directory: Path, number: int, ports: list):
        super().__init__(directory)
        self.number = number
        self.ports = ports

    def command(self) -> list:
        self.port, peer = self.ports[self.number]
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        everybody = ",".join(f"m{i}=http://127.0.0.1:{pair[1]}"
                             for i, pair in enumerate(self.ports))  # fmt: skip
        return [
            "etcd", f"--name=m{self.number}", f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster={everybody}", "--quota-backend-bytes=8589934592",
        ]  # fmt: skip

    def ready(self) -> bool:
        # Whether it answers is for all of them together to say.
        return True

    def serves(self) -> bool:
        return super().ready()

    def leads(self) -> bool:
        try:
            ask = urllib.request.Request(f"http://{self.target}/v3/maintenance/status", b"{}")
            with urllib.request.urlopen(ask, timeout=1) as answer:
                status = json.loads(answer.read())
        except (OSError, ValueError):
            return False
        return status.get("leader") == status["header"]["member_id"]


class Replicated(servers.Postgres):
    """A primary that waits for its standby, or the standby."""

    setting = "a primary and its synchronous standby: both have synced before each answer"

    def __init__(self, directory: Path, primary=None):
        super().__init__(directory)
        self.primary = primary

    def command(self) -> list:
        if self.primary is None:
            return [*super().command(), "-c", f"synchronous_standby_names={STANDBY}"]
        data = self.directory / "data"
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
        connection = f"host=127.0.0.1 port={self.primary.port} user=postgres"
        copied = subprocess.run(
            [f"{servers.POSTGRES}/pg_basebackup", "--checkpoint=fast", "-R", "-X", "stream",
             "-d", connection, "-D", data],
            cwd=self.directory, capture_output=True, text=True, check=False, **self.user(),
        )  # fmt: skip
        if copied.returncode != 0:
            raise servers.NotStarted(f"pg_basebackup failed: {copied.stdout}{copied.stderr}")
        return [*super().command(), "-c",
                f"primary_conninfo={connection} application_name={STANDBY}"]  # fmt: skip

    def kill(self) -> int:
        """All of its processes at once, as when the machine is lost."""
        for pid in self._family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self.process.wait()

    def promote(self):
        subprocess.run(
            [f"{servers.POSTGRES}/pg_ctl", "promote", "-w", "-s", "-D", self.directory / "data"],
            cwd=self.directory, check=True, **self.user(),
        )  # fmt: skip


def sql(postgres: servers.Postgres, statement: str):
    subprocess.run(
        [f"{servers.POSTGRES}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1",
         "-p", str(postgres.port), "-U", "postgres", "-c", statement],
        check=True, capture_output=True,
    )  # fmt: skip


class OnStore(servers.Ours):
    """idempotencyd with an engine that needs no directory."""

    def command(self) -> list:
        return [
            self.binary, "--listen=127.0.0.1:0", f"--port_file={self.port_file}",
            f"--log_level={self.log_level}", *self.flags,
        ]  # fmt: skip


class System:
    """A store and a server on it. `setting`: how it is durable, for the report."""

    def __init__(self, directory: Path, binary: Path):
        self.directory = directory
        self.binary = binary
        self.stores = []
        self.ours = None
        directory.mkdir(mode=0o755)

    def start(self):
        """Returns once it answers."""
        raise NotImplementedError

    def stop(self):
        if self.ours is not None:
            self.ours.stop()
        for store in self.stores:
            # An etcd that is asked to end hands over first, which takes seconds.
            if isinstance(store, servers.Etcd):
                store.kill_if_alive()
            else:
                store.stop()

    def serve(self, flags: tuple):
        self.ours = OnStore(self.directory / "ours", self.binary, flags)
        self.ours.start()

    def version(self) -> str:
        return self.stores[0].version() if self.stores else self.ours.version()


class RocksDb(System):
    setting = servers.Ours.setting

    def start(self):
        self.ours = servers.Ours(self.directory / "ours", self.binary)
        self.ours.start()


class OneEtcd(System):
    setting = servers.Etcd.setting

    def start(self):
        etcd = servers.Etcd(self.directory / "etcd")
        self.stores.append(etcd)
        etcd.start()
        self.serve(("--engine=etcd", f"--etcd_endpoints={etcd.target}"))


class ThreeEtcd(System):
    setting = "three members on one disk: the logs of two are synced before each answer"

    def start(self):
        ports = [(servers.free_port(), servers.free_port()) for _ in range(ETCD_MEMBERS)]
        self.stores = [EtcdMember(self.directory / f"etcd{i}", i, ports)
                       for i in range(ETCD_MEMBERS)]  # fmt: skip
        for member in self.stores:
            member.start()
        deadline = time.monotonic() + servers.START_SECONDS
        while not all(member.serves() for member in self.stores):
            if time.monotonic() > deadline:
                raise servers.NotStarted(f"etcd has no leader:\n{self.stores[0].last_words()}")
            time.sleep(servers.POLL_SECONDS)
        endpoints = ",".join(member.target for member in self.stores)
        self.serve(("--engine=etcd", f"--etcd_endpoints={endpoints}"))

    def fail_over(self) -> int:
        """Its leader is lost; by time.monotonic_ns(), when."""
        next(member for member in self.stores if member.leads()).kill()
        return time.monotonic_ns()


class OnePostgres(System):
    setting = servers.Postgres.setting

    def start(self):
        postgres = servers.Postgres(self.directory / "postgres")
        self.stores.append(postgres)
        postgres.start()
        self.serve(flags_of([postgres]))


class TwoPostgres(System):
    setting = Replicated.setting

    def start(self):
        primary = Replicated(self.directory / "primary")
        self.stores.append(primary)
        primary.start()
        standby = Replicated(self.directory / "standby", primary)
        self.stores.append(standby)
        standby.start()
        self.serve(flags_of([primary, standby]))

    def fail_over(self) -> int:
        """The primary is lost, and somebody notices at once; by time.monotonic_ns(), when."""
        self.stores[0].kill()
        lost = time.monotonic_ns()
        self.stores[1].promote()
        return lost


def flags_of(postgres: list) -> tuple:
    sql(postgres[0], f"CREATE SCHEMA {SCHEMA}")
    hosts = ",".join(one.target for one in postgres)
    uri = f"postgresql://postgres@{hosts}/postgres?options=-csearch_path%3D{SCHEMA}"
    return ("--engine=postgres", f"--postgres_uri={uri}")


# By name, in the order of a round.
SYSTEMS = {
    "rocksdb": RocksDb,
    "etcd": OneEtcd,
    "etcd_3": ThreeEtcd,
    "postgres": OnePostgres,
    "postgres_sync": TwoPostgres,
}
# Which of servers.missing_programs each needs.
PROGRAMS = {"etcd": "etcd", "etcd_3": "etcd", "postgres": "postgres", "postgres_sync": "postgres"}

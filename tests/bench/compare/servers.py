"""The systems under comparison as processes: each durable, on loopback, in a directory of its own.

All of them are started for a round and frozen (SIGSTOP) but for the one that is being measured,
so that what a system does in the background costs itself and nobody else.
"""

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

START_SECONDS = 300
POLL_SECONDS = 0.005
STOP_SECONDS = 120
POSTGRES = "/usr/lib/postgresql/15/bin"
PR_SET_PDEATHSIG = 1


class NotStarted(RuntimeError):
    """A server is not there; the message has its last words."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _die_with_us():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server:
    """One process, and the children it makes by itself."""

    name = ""
    # How it is durable, for the report.
    setting = ""

    def __init__(self, directory: Path):
        self.directory = directory
        self.port = 0
        self.process = None
        directory.mkdir(parents=True)

    # What a system fills in.

    def command(self) -> list:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def version(self) -> str:
        return ""

    def user(self) -> dict:
        return {}

    # For everybody.

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=_die_with_us,
                **self.user(),
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NotStarted(f"{self.name} did not start:\n{self.last_words()}")
            time.sleep(POLL_SECONDS)

    @property
    def log(self) -> Path:
        return self.directory.parent / f"{self.directory.name}.log"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def last_words(self) -> str:
        return self.log.read_text("utf-8", "replace")[-2000:]

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def freeze(self):
        # The parent first, so that no child is made meanwhile.
        for pid in self._family():
            _signal(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in reversed(self._family()):
            _signal(pid, signal.SIGCONT)

    def stop(self) -> int:
        """Ends it as its supervisor would; the exit code."""
        if not self.alive():
            return self.process.returncode if self.process else 0
        self.thaw()
        self.process.send_signal(self.stop_signal())
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        if self.alive():
            self.process.kill()
        return self.process.wait()

    def kill_if_alive(self):
        if self.alive():
            self.kill()

    def stop_signal(self) -> int:
        return signal.SIGTERM

    def _family(self) -> list:
        if not self.alive():
            return []
        return [self.pid, *_children(self.pid)]


def _children(pid: int) -> list:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    except OSError:
        return []
    children = [int(word) for word in text.split()]
    return children + [pid for child in children for pid in _children(child)]


def cpu_ticks(pid: int) -> int:
    """User and system time that the process has used."""
    words = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def _signal(pid: int, number: int):
    assert pid > 1
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class PortFile(Server):
    """Those of ours: they choose the port and write it down."""

    def __init__(self, directory: Path, binary: Path):
        super().__init__(directory)
        self.binary = binary
        self.port_file = directory / "port"

    def ready(self) -> bool:
        try:
            self.port = int(self.port_file.read_text("ascii"))
        except (OSError, ValueError):
            return False
        return True

    def start(self):
        self.port_file.unlink(missing_ok=True)
        super().start()


class Echo(PortFile):
    name = "echo"
    setting = "keeps nothing; gRPC callback API, default settings"

    def command(self) -> list:
        return [self.binary, f"--port-file={self.port_file}"]


class Ours(PortFile):
    name = "ours"
    setting = "default flags: every answer after fdatasync of RocksDB's log"

    def __init__(self, directory: Path, binary: Path, flags: tuple = ()):
        super().__init__(directory, binary)
        self.flags = flags
        self.log_level = "warning"

    def command(self) -> list:
        return [
            self.binary,
            f"--data_dir={self.directory / 'store'}",
            "--listen=127.0.0.1:0",
            f"--port_file={self.port_file}",
            f"--log_level={self.log_level}",
            *self.flags,
        ]

    def version(self) -> str:
        return _output(self.binary, "--version")


class Redis(Server):
    name = "redis"
    setting = "appendonly yes, appendfsync always; no snapshots, no rewrite of the log"

    def command(self) -> list:
        self.port = free_port()
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.directory,
            "appendonly": "yes",
            "appendfsync": "always",
            "auto-aof-rewrite-percentage": 0,
            "save": "",
            "daemonize": "no",
            "maxmemory": "6gb",
            "maxmemory-policy": "noeviction",
        }
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        return ["redis-server", *words]

    def ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False

    def version(self) -> str:
        return _output("redis-server", "--version")


class Postgres(Server):
    name = "postgres"
    setting = "fsync on, synchronous_commit on; shared_buffers 512MB, max_wal_size 16GB"

    def command(self) -> list:
        self.port = free_port()
        data = self.directory / "data"
        if os.geteuid() == 0:
            entry = pwd.getpwnam("postgres")
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
        if not data.exists():
            made = subprocess.run(
                [f"{POSTGRES}/initdb", "-D", data, "-A", "trust", "-U", "postgres"],
                cwd=self.directory,
                capture_output=True,
                text=True,
                check=False,
                **self.user(),
            )
            if made.returncode != 0:
                raise NotStarted(f"initdb failed: {made.stdout}{made.stderr}")
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
            "shared_buffers": "512MB",
            "max_wal_size": "16GB",
            "fsync": "on",
            "synchronous_commit": "on",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [f"{POSTGRES}/postgres", "-D", str(data), "-p", str(self.port), *words]

    def user(self) -> dict:
        # It refuses to run as root.
        if os.geteuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def ready(self) -> bool:
        command = [f"{POSTGRES}/pg_isready", "-q", "-U", "postgres", "-h", "127.0.0.1",
                   "-p", str(self.port)]  # fmt: skip
        return subprocess.run(command, check=False).returncode == 0

    def version(self) -> str:
        return _output(f"{POSTGRES}/postgres", "--version")

    def stop_signal(self) -> int:
        return signal.SIGINT  # "fast": without waiting for clients


class Etcd(Server):
    name = "etcd"
    setting = "one member, default settings: fsync of its log before each answer"

    def command(self) -> list:
        self.port = free_port()
        here, peers = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{free_port()}"
        return [
            "etcd", "--name=bench", f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=bench={peers}", "--quota-backend-bytes=8589934592",
        ]  # fmt: skip

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.target}/health", timeout=1) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def version(self) -> str:
        return _output("etcd", "--version").split("\n")[0]


def missing_programs(systems: list) -> list:
    """What has to be installed before these can run."""
    needed = {"redis": "redis-server", "postgres": f"{POSTGRES}/postgres", "etcd": "etcd"}
    return [needed[name] for name in systems if name in needed and not shutil.which(needed[name])]


def make(name: str, directory: Path, binaries: dict) -> Server:
    """`binaries`: the paths of echo and ours."""
    directory = directory / name
    if name == "echo":
        return Echo(directory, binaries["echo"])
    if name == "ours":
        return Ours(directory, binaries["ours"])
    return {"redis": Redis, "postgres": Postgres, "etcd": Etcd}[name](directory)

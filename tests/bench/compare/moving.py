#!/usr/bin/env python3
"""Measures how a store is moved to another engine; see tests/bench/README.md."""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import common
import servers
import stores

SEED = 11
MEBIBYTE = 1024 * 1024
TARGETS = ("postgres", "etcd")
# etcd does not say before 3.6 how large it may grow; servers.Etcd does it.
ETCD_QUOTA_MB = 8192


def parse(arguments: list) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/bench/moving.sh", add_help=False)
    parser.add_argument("--keys", type=int, default=2_000_000, help="records (2000000)")
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"some of {','.join(TARGETS)}")
    common.add_common_flags(parser)
    options = parser.parse_args(arguments)
    options.targets = options.targets.split(",")
    if options.operations:
        options.keys = options.operations
    if options.keys < 1:
        parser.error("--keys must be above zero")
    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"--targets: there is no {unknown[0]}; take some of {','.join(TARGETS)}")
    missing = servers.missing_programs(options.targets)
    if missing:
        parser.error(f"there is no {missing[0]}; try deploy/install_deps.sh bench")
    if not common.is_disk(options.dir):
        parser.error(f"--dir: {options.dir} is no disk")
    return options


def peak_mib(pid: int) -> float:
    """The most memory that a process has had."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MEBIBYTE
    raise common.Failed(f"process {pid} does not say how much memory it has had")


class Moving:
    def __init__(self, options: argparse.Namespace, directory: Path):
        self.options = options
        self.directory = directory
        self.source = servers.Ours(directory / "source", options.server)
        self.file = directory / "records"
        self.running = [self.source]
        self.result = {"keys": options.keys}

    def run(self) -> dict:
        try:
            with common.holding(self.options.lock):
                self.fill()
            with common.holding(self.options.lock):
                trailer = self.export()
            for name in self.options.targets:
                with common.holding(self.options.lock):
                    self.bring_into(name, trailer)
            with common.holding(self.options.lock):
                self.retire(trailer)
        finally:
            for server in reversed(self.running):
                server.kill_if_alive()
        return self.result

    # --- Parts ----------------------------------------------------------------------------------

    def ctl(self, name: str, server, *words) -> dict:
        """Runs idempotencyctl, notes what it took, and gives what it has printed."""
        command = [self.options.ctl, f"--server={server.target}",
                   "--output=json", "--progress=always", *words]  # fmt: skip
        log = self.directory / f"{name}.progress"
        begun = time.monotonic()
        with open(log, "wb") as progress, subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=progress
        ) as process:
            printed = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - begun
        said = log.read_text("utf-8")
        if process.returncode != 0:
            raise common.Failed(f"{name}: idempotencyctl ended with {process.returncode}:\n"
                                f"{said[-2000:]}\n{server.last_words()}")  # fmt: skip
        found = {
            "seconds": took,
            "records_per_second": self.options.keys / took,
            "server_peak_mib": peak_mib(server.pid),
            "ctl_peak_mib": usage.ru_maxrss * 1024 / MEBIBYTE,
            # How often it has said how far it is.
            "progress_lines": said.count("records"),
        }
        self.result[name] = found
        common.say(f"  {name}: {took:.1f} s, {found['records_per_second']:,.0f} records a second; "
                   f"memory at most: server {found['server_peak_mib']:,.0f} MiB, idempotencyctl "
                   f"{found['ctl_peak_mib']:,.0f} MiB")  # fmt: skip
        return json.loads(printed)

    def started(self, server):
        self.running.append(server)
        server.start()
        return server

    # --- Steps ----------------------------------------------------------------------------------

    def fill(self):
        self.source.start()
        command = [
            self.options.bin / "idempotency_load", f"--target={self.source.target}",
            f"--server-pid={self.source.pid}", "--api=pipeline", "--mix=lifecycle",
            f"--operations={self.options.keys}", f"--seed={SEED}", "--commands=256",
            "--in-flight=16", "--connections=4",
        ]  # fmt: skip
        run = common.run_load(command, self.directory / "run.json", 3600, self.source)
        common.say(f"  brought in {self.options.keys:,} completed keys: "
                   f"{run['operations_per_second']:,.0f} a second")  # fmt: skip
        self.source.stop()

    def export(self) -> dict:
        self.source.flags = ("--transfer=export",)
        self.source.start()
        trailer = self.ctl("export", self.source, "export", f"--to={self.file}")
        self.result["file_bytes"] = self.file.stat().st_size
        if int(trailer["counts"]["complete"]) != self.options.keys:
            raise common.Failed(f"{self.options.keys} records were stored, and exported: {trailer}")
        return trailer

    def bring_into(self, name: str, trailer: dict):
        if name == "etcd":
            store = self.started(servers.Etcd(self.directory / "etcd"))
            flags = ("--engine=etcd", f"--etcd_endpoints={store.target}",
                     f"--etcd_quota_mb={ETCD_QUOTA_MB}")  # fmt: skip
        else:
            store = self.started(servers.Postgres(self.directory / "postgres"))
            flags = stores.flags_of([store])
        ours = self.started(stores.OnStore(self.directory / f"on_{name}", self.options.server,
                                           (*flags, "--transfer=import")))  # fmt: skip
        summary = self.ctl(f"import_{name}", ours, "import", f"--from={self.file}")
        if summary["stored"] != trailer:
            raise common.Failed(f"{name} holds {summary['stored']}, and not {trailer}")
        if name == "etcd":
            self.result["import_etcd"]["store_peak_mib"] = peak_mib(store.pid)
        ours.stop()
        # As in stores.System.
        if name == "etcd":
            store.kill_if_alive()
        else:
            store.stop()

    def retire(self, trailer: dict):
        digest = base64.b64decode(trailer["digest"]).hex()
        self.ctl("retire", self.source, "retire", f"--digest={digest}", "--moved-to=another",
                 "--actor=bench")  # fmt: skip


def main() -> int:
    options = parse(sys.argv[1:])
    with common.work_directory(options.dir) as directory:
        options.ctl = (options.server or options.bin / "idempotencyd").parent / "idempotencyctl"
        common.take_programs(options, directory)
        options.ctl = shutil.copy2(options.ctl, options.bin)
        try:
            result = Moving(options, directory).run()
        except (common.Failed, servers.NotStarted) as error:
            common.say(f"moving: {error}")
            return 1
    result["machine"] = common.machine()
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

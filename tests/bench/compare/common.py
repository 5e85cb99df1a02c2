"""What compare.py and scale.py share: flags, locks, disks, and one run of a load generator."""

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).parents[3]
NOT_DISKS = {"tmpfs", "ramfs", "devtmpfs"}
GRACE_SECONDS = 180
# A measurement during which other processes used more of the machine than this is made again.
DISTURBED_SHARE = 0.1
TRIES = 4


class Failed(RuntimeError):
    """Something did not work; the message says what."""


def add_common_flags(parser: argparse.ArgumentParser):
    parser.add_argument("--help-options", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--operations", type=int, default=0,
                        help="so many operations each, instead of --seconds; for tests")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"),
                        help="where the data lies, on a real disk (/var/tmp)")
    parser.add_argument("--bin", type=Path, default=SOURCE / "build/release/bin",
                        help="the bench's programs (build/release/bin)")
    parser.add_argument("--server", type=Path, help="idempotencyd (that of --bin)")
    parser.add_argument("--lock", type=Path,
                        help="hold this lock file while measuring, where others use the machine")


@contextlib.contextmanager
def holding(lock: Path):
    if not lock:
        yield
        return
    with open(lock, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_disk(directory: Path) -> bool:
    run = ["stat", "-f", "-c", "%T", str(directory)]
    kind = subprocess.run(run, capture_output=True, text=True, check=False).stdout.strip()
    return bool(kind) and kind not in NOT_DISKS


@contextlib.contextmanager
def work_directory(where: Path):
    """Deleted at the end, also at SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="idempotency-bench-", dir=where) as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def take_programs(options: argparse.Namespace, directory: Path):
    """Copies what is measured, so that all rounds run the same though it may be built anew."""
    programs = directory / "bin"
    programs.mkdir(mode=0o755)
    server = options.server or options.bin / "idempotencyd"
    for source in (server, *sorted(options.bin.glob("idempotency_*"))):
        shutil.copy2(source, programs / source.name)
    options.bin = programs
    options.server = programs / server.name


def run_load(command: list, output: Path, seconds: float, server) -> dict:
    """One run of a load generator, which writes its result to `output`."""
    output.unlink(missing_ok=True)
    try:
        run = subprocess.run(
            [*command, f"--json={output}"],
            capture_output=True, text=True, timeout=seconds + GRACE_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{error}\n{server.name} says:\n{server.last_words()}") from error
    if run.returncode != 0:
        raise Failed(
            f"{' '.join(map(str, command))} ended with {run.returncode}:\n{run.stdout}{run.stderr}\n"
            f"{server.name} says:\n{server.last_words()}"
        )
    return json.loads(output.read_text("utf-8"))


def run_undisturbed(run, tries: int = TRIES) -> dict:
    """The first result of `run()` with the machine for itself, or the least disturbed one."""
    best = None
    for _ in range(tries):
        result = run()
        if best is None or result["others_cpu_share"] < best["others_cpu_share"]:
            best = result
        if best["others_cpu_share"] <= DISTURBED_SHARE or tries == 1:
            break
        say(f"    again: other processes used {result['others_cpu_share']:.0%} of the machine")
    return best


def machine() -> dict:
    model = ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpus": os.cpu_count(), "cpu": model, "kernel": platform.release()}


def say(text: str):
    print(text, file=sys.stderr, flush=True)

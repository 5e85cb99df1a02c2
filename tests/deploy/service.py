"""An idempotencyd of a test's own, its pages and its tool."""

import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys

SOURCE = pathlib.Path(__file__).parents[2]
DEPLOY = SOURCE / "deploy"

# Long enough for a busy machine; nothing waits that long unless something is wrong.
PATIENCE_SECONDS = 240


def binary(variable: str) -> str:
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd and idempotencyctl first")
    return path


def run(*words, stdin: bytes = b"", **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        words, input=stdin, capture_output=True, timeout=PATIENCE_SECONDS, check=False, **more
    )


def end(process: subprocess.Popen, how: signal.Signals) -> int:
    """Asks a process to end, and ends it where it does not listen; its exit code."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Service:
    """Runs with `arguments`, and `environment` besides ours, until stop(); `directory` takes its log."""

    def __init__(self, directory: pathlib.Path, arguments: list, environment: dict | None = None):
        self.log = directory / "log"
        port_file = directory / "port"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [binary("IDEMPOTENCYD"), *arguments, f"--port_file={port_file}"],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        self._await(port_file.exists)
        # The log is written by a thread of its own, a little later.
        self._await(lambda: any(line["event"] == "started" for line in self.lines()))
        self.port = int(port_file.read_text("utf-8"))
        self.metrics_port = next(
            (line["port"] for line in self.lines() if line["event"] == "metrics_listening"), None
        )

    def _await(self, holds):
        for _ in range(PATIENCE_SECONDS * 20):
            if holds():
                return
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        self.stop()
        raise RuntimeError("idempotencyd did not start:\n" + self.log.read_text("utf-8"))

    def lines(self) -> list:
        """Of the log, as far as they are complete; those of the audit are not among them."""
        whole, _, _ = self.log.read_text("utf-8").rpartition("\n")
        lines = [json.loads(line) for line in whole.splitlines()]
        return [line for line in lines if "event" in line]

    def get(self, path: str):
        """(status, body) of a page beside the metrics, over a connection of its own."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.metrics_port, timeout=PATIENCE_SECONDS
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ctl(self, *words, stdin: bytes = b"") -> subprocess.CompletedProcess:
        return run(
            binary("IDEMPOTENCYCTL"), f"--server=127.0.0.1:{self.port}", *words, stdin=stdin
        )

    def stop(self) -> int:
        """Asks it to drain; the exit code says whether it did."""
        return end(self.process, signal.SIGTERM)

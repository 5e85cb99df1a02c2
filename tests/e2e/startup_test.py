#!/usr/bin/env python3
"""What probes are told while a store takes its time to open, as after a crash with much to read.

The binary is $IDEMPOTENCYD. A file of the store is a pipe that nobody has written to yet: opening it
takes as long as the test wants.
"""

import errno
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

PATIENCE_SECONDS = 60
ROUNDS = PATIENCE_SECONDS * 20


def binary(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd first")
    return path


class StartupTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="idempotency-startup-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.process = None
        self.addCleanup(self.kill)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log(self):
        return (self.root / "log").read_text(errors="replace")

    def start(self):
        (self.root / "port").unlink(missing_ok=True)
        with open(self.root / "log", "wb") as sink:
            self.process = subprocess.Popen(
                [
                    binary("IDEMPOTENCYD"), f"--data_dir={self.root / 'data'}",
                    "--listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", "--ballast_mb=0",
                    f"--port_file={self.root / 'port'}",
                ],
                stdout=sink, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def wait_for(self, look, what):
        """What `look` finds once it finds something; the process must live so long."""
        for _ in range(ROUNDS):
            found = look()
            if found:
                return found
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        raise AssertionError(f"no {what}:\n{self.log()}")

    def serving(self):
        return (self.root / "port").exists()

    def writer(self, pipe):
        """The end of a pipe that somebody reads by now."""
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None

    def probe(self, path):
        port = self.wait_for(
            lambda: re.search(r'"event":"metrics_listening".*"port":(\d+)', self.log()), "port")
        try:
            url = f"http://127.0.0.1:{port.group(1)}{path}"
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_a_store_that_opens_slowly_is_alive_and_not_ready(self):
        self.start()
        self.wait_for(self.serving, "first start")
        self.assertEqual(self.end(), 0)
        current = self.root / "data" / "db" / "CURRENT"
        content = current.read_bytes()
        current.unlink()
        os.mkfifo(current)

        self.start()
        pipe = self.wait_for(lambda: self.writer(current), "store being opened")
        # Startup and liveness, as often as they ask: so that no recovery is cut short.
        for _ in range(3):
            self.assertEqual(self.probe("/healthz"), 200)
        self.assertEqual(self.probe("/readyz"), 503)
        self.assertFalse(self.serving())
        self.assertIn("idempotency_ready 0", self.metrics())

        # From here on it is an ordinary start.
        current.unlink()
        current.write_bytes(content)
        os.write(pipe, content)
        os.close(pipe)
        self.wait_for(self.serving, "end of the start")
        self.assertEqual(self.probe("/readyz"), 200)
        self.assertEqual(self.end(), 0)

    def metrics(self):
        port = re.search(r'"event":"metrics_listening".*"port":(\d+)', self.log()).group(1)
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS
        ) as answer:
            return answer.read().decode()


if __name__ == "__main__":
    unittest.main(verbosity=2)

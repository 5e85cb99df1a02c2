#!/usr/bin/env python3
"""Backs up an idempotencyd that is in use, loses its store, and restores it, as an operator would.

The binaries are $IDEMPOTENCYD and $IDEMPOTENCYCTL.
"""

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

CONFIG = """
namespaces:
  - name: payments
    settle_duration: 0s
"""
PATIENCE_SECONDS = 60
REFUSED, COMPLETED, UNRESOLVED, TOO_OLD = 3, 12, 13, 16


def binary(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd and idempotencyctl first")
    return path


class Place:
    """A directory with a server's configuration, store and backups."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.data = self.root / "data"
        self.backups = self.root / "backups"
        self.config = self.root / "config.yaml"
        self.config.write_text(CONFIG)
        self.process = None
        self.address = None

    def start(self, *flags):
        port_file = self.root / "port"
        port_file.unlink(missing_ok=True)
        log = self.root / "log"
        with open(log, "ab") as sink:
            self.process = subprocess.Popen(
                [
                    binary("IDEMPOTENCYD"),
                    f"--data_dir={self.data}",
                    "--listen=127.0.0.1:0",
                    f"--port_file={port_file}",
                    f"--config={self.config}",
                    *flags,
                ],
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        for _ in range(PATIENCE_SECONDS * 20):
            if port_file.exists() and port_file.read_text().strip():
                self.address = f"127.0.0.1:{port_file.read_text().strip()}"
                return
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        raise RuntimeError("idempotencyd did not start:\n" + log.read_text(errors="replace"))

    def end(self, with_signal=signal.SIGTERM):
        if self.process is None:
            return None
        self.process.send_signal(with_signal)
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self.process = None
        return code

    def ctl(self, *words):
        environment = dict(os.environ, IDEMPOTENCY_SERVER=self.address or "", USER="ann")
        return subprocess.run(
            [binary("IDEMPOTENCYCTL"), *words],
            capture_output=True,
            env=environment,
            timeout=PATIENCE_SECONDS,
            text=True,
            check=False,
        )

    def on_a_terminal(self, *words):
        """What the tool writes to a terminal that is its standard error, and to a pipe."""
        terminal, tool = pty.openpty()
        environment = dict(os.environ, IDEMPOTENCY_SERVER=self.address or "", TERM="xterm")
        with subprocess.Popen(
            [binary("IDEMPOTENCYCTL"), *words], stdout=subprocess.PIPE, stderr=tool,
            stdin=subprocess.DEVNULL, env=environment,
        ) as process:
            os.close(tool)
            seen = b""
            while True:
                try:
                    more = os.read(terminal, 65536)
                except OSError:  # nobody has the other end any more
                    more = b""
                if not more:
                    break
                seen += more
            out = process.stdout.read()
            code = process.wait(timeout=PATIENCE_SECONDS)
        os.close(terminal)
        return code, out, seen.decode(errors="replace")

    def reserve(self, key, *more):
        return self.ctl(
            "reserve", "payments", "acct-1", key, "--fingerprint=sha256/bytes-1:" + "ab" * 32,
            "--output=json", *more,
        )

    def complete(self, key, token):
        return self.ctl(
            "complete", "payments", "acct-1", key, f"--fencing-token={token}",
            "--verdict=succeeded", "--http-status=200",
        )


def token_of(reserved):
    return int(json.loads(reserved.stdout)["lease"]["fencingToken"])


class BackupTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="idempotency-backup-")
        self.addCleanup(directory.cleanup)
        self.place = Place(directory.name)
        self.addCleanup(self._kill)

    def _kill(self):
        if self.place.process is not None:
            self.place.process.kill()
            self.place.process.wait()

    def _start(self, *flags):
        self.place.start(f"--backup_dir={self.place.backups}", *flags)

    def test_restores_under_traffic_and_forgets_nothing_it_knew(self):
        self._start()
        self.assertEqual(
            self.place.complete("done", token_of(self.place.reserve("done"))).returncode, 0)
        open_token = token_of(self.place.reserve("open", "--lease=10m"))

        # Others go on while it is taken.
        completed, stop = [], threading.Event()

        def traffic():
            while not stop.is_set():
                key = f"traffic-{len(completed)}"
                reserved = self.place.reserve(key)
                if self.place.complete(key, token_of(reserved)).returncode == 0:
                    completed.append(key)

        worker = threading.Thread(target=traffic)
        worker.start()
        while len(completed) < 3 and worker.is_alive():
            worker.join(timeout=0.01)
        before = list(completed)
        backup = self.place.ctl("backup")
        stop.set()
        worker.join()
        self.assertEqual(backup.returncode, 0, backup.stderr)
        self.assertIn("BACKED UP: backup 1 is whole and was read back", backup.stdout)
        listed = self.place.ctl("backups", "--output=json")
        self.assertEqual([b["id"] for b in json.loads(listed.stdout)["backups"]], [1])

        # What the backup cannot know.
        self.assertEqual(self.place.complete("open", open_token).returncode, 0)
        late = token_of(self.place.reserve("late"))
        self.place.end(signal.SIGKILL)
        shutil.rmtree(self.place.data)

        verified = self.place.ctl("verify", f"--backup-dir={self.place.backups}")
        self.assertEqual(verified.returncode, 0, verified.stderr)
        restored = self.place.ctl(
            "restore", f"--backup-dir={self.place.backups}", f"--data-dir={self.place.data}")
        self.assertEqual(restored.returncode, 0, restored.stderr)
        again = self.place.ctl(
            "restore", f"--backup-dir={self.place.backups}", f"--data-dir={self.place.data}")
        self.assertEqual(again.returncode, 1)
        self.assertIn("move it away", again.stderr)
        # Time does not run backwards to before what the backup knows.
        self.assertTrue((self.place.data / "CLOCK").exists())

        self._start()
        for key in ["done", *before]:
            self.assertEqual(self.place.reserve(key).returncode, COMPLETED, key)
        # It ended after the backup: nobody here knows.
        self.assertEqual(self.place.reserve("open").returncode, UNRESOLVED)
        # Begun before the restore, and nothing is known of it: not granted again.
        self.assertEqual(self.place.reserve("late", "--operation-age=1h").returncode, TOO_OLD)
        self.assertGreater(token_of(self.place.reserve("new")), late)
        self.assertEqual(self.place.end(), 0)

    def test_without_a_directory_it_says_what_to_set(self):
        self.place.start()
        for command in ("backup", "backups"):
            refused = self.place.ctl(command)
            self.assertEqual(refused.returncode, REFUSED)
            self.assertIn("--backup_dir", refused.stderr)
        self.assertEqual(self.place.end(), 0)

    def test_keeps_the_newest(self):
        self._start("--backups_kept=2")
        for number in range(3):
            self.place.reserve(f"k-{number}")
            self.assertEqual(self.place.ctl("backup").returncode, 0)
        listed = json.loads(self.place.ctl("backups", "--output=json").stdout)
        self.assertEqual([b["id"] for b in listed["backups"]], [2, 3])
        self.assertEqual(self.place.end(), 0)

    def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(self):
        self._start()
        self.place.complete("done", token_of(self.place.reserve("done")))
        self.assertEqual(self.place.ctl("backup").returncode, 0)
        self.assertEqual(self.place.end(), 0)
        shutil.rmtree(self.place.data)
        verify = ("verify", f"--backup-dir={self.place.backups}")
        restore = ("restore", f"--backup-dir={self.place.backups}", f"--data-dir={self.place.data}")
        for words, done in ((verify, '"backup_is_whole"'), (restore, '"restored"')):
            code, out, seen = self.place.on_a_terminal(*words)
            self.assertEqual((code, out), (0, b""), seen)
            self.assertRegex(seen, r"\r\x1b\[Kchecking   \[[#.]{24}\]")
            self.assertRegex(seen, r"\r\x1b\[Kverifying  \[[#.]{24}\]")
            # The line is taken away before what was done is told.
            self.assertIn(done, seen[seen.rindex("\r\x1b[K"):])
            self.assertNotIn('"event":"verifying"', seen)
        self.assertRegex(seen, r"\r\x1b\[Krestoring  \[[#.]{24}\]")
        piped = self.place.ctl(*verify)
        self.assertEqual((piped.returncode, piped.stdout), (0, ""), piped.stderr)
        for line in piped.stderr.splitlines():
            json.loads(line)
        self.assertIn('"event":"verifying"', piped.stderr)
        self.assertNotIn("\x1b", piped.stderr)
        self.assertIn("checking   [", self.place.ctl(*verify, "--progress=always").stderr)
        code, _, seen = self.place.on_a_terminal(*verify, "--quiet")
        self.assertEqual(code, 0, seen)
        self.assertNotIn("\x1b", seen)

    def test_verifying_ends_at_once_when_it_is_told_to(self):
        self._start()
        self.assertEqual(self.place.ctl("backup").returncode, 0)
        self.assertEqual(self.place.end(), 0)
        # Nobody writes to this end of a pipe: reading it never ends by itself.
        facts = self.place.backups / "meta" / "1"
        facts.unlink()
        os.mkfifo(facts)
        process = subprocess.Popen(
            [binary("IDEMPOTENCYCTL"), "verify", f"--backup-dir={self.place.backups}"],
            stderr=subprocess.PIPE,
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        # The audit has its line before anything is read.
        self.assertIn(b"verify_backup", process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=PATIENCE_SECONDS), -signal.SIGTERM)

    def test_a_damaged_backup_is_not_restored(self):
        self._start()
        self.place.complete("done", token_of(self.place.reserve("done")))
        self.assertEqual(self.place.ctl("backup").returncode, 0)
        self.assertEqual(self.place.end(), 0)
        shutil.rmtree(self.place.data)
        tables = sorted(self.place.backups.rglob("*.sst"), key=lambda f: f.stat().st_size)
        content = bytearray(tables[-1].read_bytes())
        content[len(content) // 2] ^= 0x55
        tables[-1].write_bytes(content)
        for words in (["verify"], ["restore", f"--data-dir={self.place.data}"]):
            refused = self.place.ctl(*words, f"--backup-dir={self.place.backups}")
            self.assertEqual(refused.returncode, 1, words)
            self.assertIn("damaged", refused.stderr)
        self.assertFalse(self.place.data.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

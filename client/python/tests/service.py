"""An idempotencyd of a test's own ($IDEMPOTENCYD), on a free port and a directory of its own, ended
by its process id; and the connections that lose things."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Any, Sequence

# Long enough for a busy machine; nothing waits that long unless something is wrong.
PATIENCE_SECONDS = 60


class Service:
    """As a context manager. config: the server's configuration, or the text of its file; tokens: by
    name, or none (with them it is no text); flags: besides those that every one has; store: a tar
    file of the store that it begins with."""

    def __init__(
        self,
        config: dict[str, Any] | str,
        tokens: dict[str, str] | None = None,
        flags: Sequence[str] = (),
        store: pathlib.Path | None = None,
    ) -> None:
        self._config = config
        self._tokens = tokens
        self._flags = flags
        self._store = store

    def __enter__(self) -> Service:
        program = os.environ.get("IDEMPOTENCYD", "")
        if not os.access(program, os.X_OK):
            sys.exit(f"IDEMPOTENCYD={program!r} is no program: build idempotencyd first")
        self._temporary = tempfile.TemporaryDirectory(prefix="idempotency-python-")
        directory = pathlib.Path(self._temporary.name)
        if self._tokens is not None and not isinstance(self._config, str):
            lines = (
                f"{name} sha256:{hashlib.sha256(token.encode()).hexdigest()}\n"
                for name, token in self._tokens.items()
            )
            (directory / "tokens").write_text("".join(lines))
            identity = {"tokens_file": str(directory / "tokens")}
            self._config = {**self._config, "identity": identity}
        text = self._config if isinstance(self._config, str) else json.dumps(self._config)
        (directory / "config.yaml").write_text(text)
        if self._store is not None:
            (directory / "data").mkdir()
            subprocess.run(["tar", "-xzf", self._store, "-C", directory / "data"], check=True)
        self.log = directory / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    f"--data_dir={directory / 'data'}",
                    "--listen=127.0.0.1:0",
                    f"--port_file={directory / 'port'}",
                    f"--config={directory / 'config.yaml'}",
                    *self._flags,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.address = f"127.0.0.1:{self._port(directory / 'port')}"
        return self

    def _port(self, file: pathlib.Path) -> int:
        for _ in range(PATIENCE_SECONDS * 50):
            if file.exists() and file.read_text().strip():
                return int(file.read_text())
            try:
                self.process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                continue
            break
        text = self.log.read_text(errors="replace")
        self.__exit__()
        raise RuntimeError("idempotencyd did not start:\n" + text)

    def __exit__(self, *ignored: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._temporary.cleanup()

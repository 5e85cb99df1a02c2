#!/usr/bin/python3
"""The package as others get it: its generated code is the protos', it is typed (mypy --strict),
and it installs into a clean environment, without a network, and works from there."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
CLIENT = PACKAGE.parent

CONSUMER = '''
import idempotency
from idempotency import Attempt, CachedResponse, Client, OperationId, RunOptions, RunRequest

print(idempotency.__file__)
print(len(idempotency.provider_names()))


def charge(attempt: Attempt) -> CachedResponse:
    return CachedResponse(http_status=201, body=attempt.provider_key.encode())


def main(address: str) -> bytes | None:
    with Client(address) as client:
        request = RunRequest(OperationId("payments", "acct_1", "order-1"))
        return client.run(request, charge, RunOptions(classify=idempotency.classify_http)).answer().body
'''


def run(*command: object, cwd: pathlib.Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Package(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="idempotency-package-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def test_the_generated_code_is_that_of_the_protos(self) -> None:
        run(sys.executable, PACKAGE / "generate.py", "--check")

    def test_it_is_strictly_typed(self) -> None:
        mypy = shutil.which("mypy") or self.fail("mypy is not installed")
        run(mypy, f"--cache-dir={self.directory}", "--config-file=pyproject.toml",
            "src/idempotency", "tests", "examples", cwd=PACKAGE)  # fmt: skip

    def test_it_installs_and_works_from_there(self) -> None:
        # Building leaves files beside the sources: a copy, with what its links name.
        sources = self.directory / "client"
        ignore = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(PACKAGE, sources / "python", symlinks=True, ignore=ignore)
        shutil.copytree(CLIENT / "contracts", sources / "contracts")
        shutil.copy(CLIENT / "service_config.json", sources)
        venv = self.directory / "venv"
        # Its own pip would only be another copy of the system's, and slow to unpack.
        run("/usr/bin/python3", "-m", "venv", "--system-site-packages", "--without-pip", venv)
        python = venv / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation",
            "--no-deps", "--disable-pip-version-check", sources / "python")  # fmt: skip
        shutil.rmtree(sources)

        consumer = self.directory / "consumer.py"
        consumer.write_text(CONSUMER)
        where, profiles = run(python, consumer, cwd=self.directory).split()
        self.assertTrue(where.startswith(str(venv)), where)
        self.assertEqual(int(profiles), len(list((CLIENT / "contracts").glob("*.json"))))
        run("mypy", "--strict", f"--python-executable={python}", f"--cache-dir={self.directory}/mypy",
            consumer)  # fmt: skip

        script = PACKAGE / "tests" / "conformance.py"
        scenario = "run: lost replies"
        lines = run(python, script, f"--scenario={scenario}", cwd=self.directory).splitlines()
        trace = CLIENT.parent / "tests" / "vectors" / "conformance_trace.jsonl"
        wanted = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
        self.assertEqual(
            [json.loads(line) for line in lines],
            [line for line in wanted if line["scenario"] == scenario],
        )


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
"""Every recipe of examples/, against a service with the configuration beside them. A recipe ends with
a sentence and a status where what it promises does not hold."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import unittest

from service import PATIENCE_SECONDS, Service

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"


class Examples(unittest.TestCase):
    def test_each(self) -> None:
        recipes = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "example.py")
        self.assertEqual(len(recipes), 7)
        with Service((EXAMPLES / "idempotencyd.yaml").read_text("utf-8")) as service:
            for recipe in recipes:
                with self.subTest(recipe.name):
                    done = subprocess.run(
                        [sys.executable, str(recipe), service.address],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                        timeout=PATIENCE_SECONDS,
                    )  # fmt: skip
                    self.assertEqual(done.returncode, 0, done.stdout)
                    self.assertNotIn("Traceback", done.stdout)
                    print(f"{recipe.name}:\n{done.stdout}", end="")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The guard, with stand-ins for valgrind and micro_count."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import guard

DUMP = """# callgrind format
desc: Trigger: Client Request: {name} 10
events: Ir
fn=(1) outer(int)
12 {own}
cfn=(2) inner()
calls=10 4
+1 400
fi=(3) other.h
-2 50
fn=(2)
* 400
totals: {total}
"""


class Guard(unittest.TestCase):
    """A PATH with a valgrind that writes the dumps it is told to, and a micro_count."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.baselines = self.root / "baselines.json"
        self.toolchain("12.2.0")
        self.stand_in(
            "valgrind",
            f"""for argument in "$@"; do
                  case "$argument" in
                    --version) echo valgrind-3.19.0 ;;
                    --callgrind-out-file=*)
                      for dump in {self.root}/dump.*; do
                        cp "$dump" "${{argument#*=}}.${{dump##*.}}"
                      done ;;
                  esac
                done""",
        )

    def stand_in(self, program: str, body: str):
        path = self.root / program
        path.write_text(f"#!/usr/bin/env bash\n{body}\n", "utf-8")
        path.chmod(0o755)

    def toolchain(self, compiler: str, build: str = "release"):
        self.stand_in(
            "micro_count",
            f"""case "$1" in
                  --toolchain) printf 'compiler {compiler}\\nrocksdb 7.8.3\\nbuild {build}\\n' ;;
                  --list) printf 'step/a\\nstep/b\\n' ;;
                esac""",
        )

    def counts(self, **totals: int):
        """How many instructions ten operations of step/a, step/b take."""
        for path in self.root.glob("dump.*"):
            path.unlink()
        for number, (name, total) in enumerate(totals.items(), 1):
            dump = DUMP.format(name=f"step/{name}", own=total - 450, total=total)
            (self.root / f"dump.{number}").write_text(dump, "utf-8")

    def run_guard(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, guard.__file__, f"--binary={self.root}/micro_count",
             f"--baselines={self.baselines}", *arguments],
            env={**os.environ, "PATH": f"{self.root}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip

    def baseline(self, **totals: int):
        self.counts(**totals)
        self.assertEqual(self.run_guard("--update").returncode, 0)

    def test_the_same_passes(self):
        self.baseline(a=10000, b=20000)
        run = self.run_guard()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertNotIn("TOOLCHAIN", run.stdout)

    def test_the_tolerance_is_allowed_and_no_more(self):
        self.baseline(a=10000, b=20000)
        self.counts(a=10500, b=20000)
        self.assertEqual(self.run_guard().returncode, 0)
        self.counts(a=10501, b=20000)
        run = self.run_guard()
        self.assertEqual(run.returncode, 1)
        self.assertIn("step/a takes 5.01 % more instructions (5 % allowed)", run.stdout)

    def test_faster_passes_and_is_told(self):
        self.baseline(a=10000, b=20000)
        self.counts(a=10000, b=18000)
        run = self.run_guard()
        self.assertEqual(run.returncode, 0)
        self.assertIn("-10.0 %  faster", run.stdout)

    def test_what_has_no_baseline_fails(self):
        self.baseline(a=10000)
        self.counts(a=10000, b=20000)
        run = self.run_guard()
        self.assertEqual(run.returncode, 1)
        self.assertIn("step/b has no baseline", run.stdout)

    def test_a_baseline_of_nothing_fails(self):
        self.baseline(a=10000, b=20000)
        self.counts(a=10000)
        run = self.run_guard()
        self.assertEqual(run.returncode, 1)
        self.assertIn("step/b has a baseline and is not counted any more", run.stdout)

    def test_another_compiler_is_told(self):
        self.baseline(a=10000)
        self.toolchain("13.1.0")
        run = self.run_guard()
        self.assertEqual(run.returncode, 0)
        self.assertIn("NOT THE TOOLCHAIN OF THE BASELINES", run.stdout)
        self.assertIn("compiler: 12.2.0 then, 13.1.0 now", run.stdout)

    def test_an_update_keeps_the_tolerance_and_takes_the_rest(self):
        self.baseline(a=10000)
        written = json.loads(self.baselines.read_text("utf-8"))
        self.baselines.write_text(json.dumps({**written, "tolerance_percent": 2}), "utf-8")
        self.toolchain("13.1.0")
        self.baseline(a=12000, b=20000)
        written = json.loads(self.baselines.read_text("utf-8"))
        self.assertEqual(written["tolerance_percent"], 2)
        self.assertEqual(written["toolchain"]["compiler"], "13.1.0")
        self.assertEqual(written[guard.COUNTS], {"step/a": 1200, "step/b": 2000})

    def test_a_debug_build_is_not_compared(self):
        self.baseline(a=10000)
        self.toolchain("12.2.0", build="debug")
        run = self.run_guard()
        self.assertEqual(run.returncode, 2)
        self.assertIn("not from the release preset", run.stderr)

    def test_a_failing_valgrind_is_shown(self):
        self.baseline(a=10000)
        self.stand_in("valgrind", 'echo "unhandled instruction" >&2; exit 1')
        run = self.run_guard()
        self.assertEqual(run.returncode, 2)
        self.assertIn("unhandled instruction", run.stderr)

    def test_nothing_counted_is_no_pass(self):
        self.baseline(a=10000)
        self.counts(a=0)
        run = self.run_guard()
        self.assertEqual(run.returncode, 2)
        self.assertIn("counted nothing of step/a", run.stderr)

    def test_a_missing_binary_says_what_to_build(self):
        (self.root / "micro_count").unlink()
        run = self.run_guard("--update")
        self.assertEqual(run.returncode, 2)
        self.assertIn("build micro_count", run.stderr)

    def test_functions_count_what_they_do_themselves(self):
        dump = DUMP.format(name="step/a", own=550, total=1000)
        self.assertEqual(guard.functions_of(dump), {"outer(int)": 60, "inner()": 40})

    def test_functions_of_a_scenario(self):
        self.counts(a=1000)
        run = self.run_guard("--functions", "step/a")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("60.0  outer(int)", run.stdout)
        self.assertEqual(self.run_guard("--functions", "step/c").returncode, 2)


if __name__ == "__main__":
    unittest.main()

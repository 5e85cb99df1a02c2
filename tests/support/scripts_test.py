#!/usr/bin/env python3
"""The scripts that install, build and test, with stand-ins for apt, cmake and ctest."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).parents[2]
ALL_PASSED = "100%% tests passed, 0 tests failed out of {}\\n\\nTotal Test time (real) = 1 sec"


class Scripts(unittest.TestCase):
    """A copy of the scripts in an empty tree, and a PATH whose programs write down their calls."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name, "tree")
        self.bin = Path(directory.name, "bin")
        self.calls = Path(directory.name, "calls")
        self.bin.mkdir()
        for script in ("deploy/install_deps.sh", "tests/run.sh", ".ci/run"):
            target = self.root / script
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / script, target)
        tools = "bash env cat cut dirname grep head mktemp nproc rm tail tee tr"
        for tool in tools.split():
            (self.bin / tool).symlink_to(shutil.which(tool))
        for program in ("cmake", "ctest", "apt-get", "sudo"):
            self.stand_in(program)
        self.stand_in("ctest", f'printf "{ALL_PASSED.format(3)}\\n"')
        self.stand_in("sudo", 'exec "$@"')
        self.stand_in("id", "echo 0")
        self.missing()

    def stand_in(self, program: str, body: str = "", path: str = ""):
        target = Path(self.root, path) if path else self.bin / program
        target.unlink(missing_ok=True)
        target.write_text(
            f'#!/usr/bin/env bash\necho "{program} $*" >>"{self.calls}"\n{body}\n', "utf-8"
        )
        target.chmod(0o755)

    def missing(self, *packages: str):
        """What dpkg-query, asked about many packages, does not know or has removed."""
        self.stand_in(
            "dpkg-query",
            f"""for package in "${{@:3}}"; do
              case " {' '.join(packages)} " in
                *" $package "*) echo "$package config-files" ;;
                *) echo "$package installed" ;;
              esac
            done
            exit 1""",
        )

    def run_script(self, script: str, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.root / script), *arguments],
            env={"PATH": str(self.bin), "HOME": str(self.root), "JOBS": "2"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def called(self, *programs: str) -> list:
        lines = self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []
        return [line for line in lines if line.split()[0] in programs]


class InstallDeps(Scripts):
    def test_is_silent_where_nothing_is_missing(self):
        run = self.run_script("deploy/install_deps.sh", "test")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        self.assertEqual(self.called("apt-get"), [])

    def test_installs_what_is_missing_and_only_that(self):
        self.missing("ninja-build", "libssl-dev")
        run = self.run_script("deploy/install_deps.sh")
        self.assertEqual(run.returncode, 0, run.stderr)
        install = self.called("apt-get")[-1]
        self.assertTrue(install.endswith("--no-install-recommends ninja-build libssl-dev"), install)
        self.assertIn("ninja-build", run.stderr)
        self.assertEqual(self.called("sudo"), [])

    def test_tests_need_more_than_builds(self):
        self.missing("clang-14")
        self.assertEqual(self.run_script("deploy/install_deps.sh", "build").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])
        self.assertEqual(self.run_script("deploy/install_deps.sh", "test").returncode, 0)
        self.assertIn("clang-14", self.called("apt-get")[-1])

    def test_a_user_goes_through_sudo(self):
        self.missing("cmake")
        self.stand_in("id", "echo 1000")
        run = self.run_script("deploy/install_deps.sh")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(self.called("sudo")), 2)

    def test_a_user_without_sudo_is_told_what_to_ask_for(self):
        self.missing("cmake")
        self.stand_in("id", "echo 1000")
        (self.bin / "sudo").unlink()
        run = self.run_script("deploy/install_deps.sh")
        self.assertEqual(run.returncode, 1)
        self.assertIn("apt-get install cmake", run.stderr)

    def test_a_failing_apt_is_tried_again_and_then_shown(self):
        self.missing("cmake")
        self.stand_in("apt-get", 'case "$*" in *install*) echo "E: no such mirror"; exit 100 ;; esac')
        run = self.run_script("deploy/install_deps.sh")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(len(self.called("apt-get")), 6)
        self.assertIn("E: no such mirror", run.stderr)
        self.assertIn("then run this again", run.stderr)

    def test_a_broken_list_of_a_third_party_stops_nothing(self):
        self.missing("cmake")
        self.stand_in("apt-get", 'case "$*" in *update*) exit 100 ;; esac')
        self.assertEqual(self.run_script("deploy/install_deps.sh").returncode, 0)

    def test_another_system_is_told_the_packages(self):
        (self.bin / "apt-get").unlink()
        run = self.run_script("deploy/install_deps.sh")
        self.assertEqual(run.returncode, 1)
        self.assertIn("librocksdb-dev", run.stderr)

    def test_a_word_it_does_not_know(self):
        self.assertEqual(self.run_script("deploy/install_deps.sh", "tests").returncode, 2)


class RunTests(Scripts):
    def test_builds_both_presets_and_ends_with_the_summary(self):
        run = self.run_script("tests/run.sh")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("100% tests passed, 0 tests failed out of 3", run.stdout)
        self.assertTrue(run.stdout.endswith("Total Test time (real) = 1 sec\n"), run.stdout)
        presets = [line.split("--preset ")[1].split()[0] for line in self.called("cmake", "ctest")]
        self.assertEqual(presets, ["release", "release", "asan", "asan", "asan"])

    def test_other_arguments_go_to_ctest(self):
        self.run_script("tests/run.sh", "--no-install", "-R", "a b")
        self.assertEqual(self.called("ctest"), ["ctest --preset asan --parallel 2 -R a b"])
        self.assertEqual(self.called("dpkg-query"), [])

    def test_a_failing_test_fails_it(self):
        self.stand_in("ctest", "exit 8")
        self.assertEqual(self.run_script("tests/run.sh").returncode, 8)

    def test_a_failing_build_stops_it_and_shows_why(self):
        self.stand_in("cmake", 'case "$*" in --preset*) echo "no such compiler"; exit 1 ;; esac')
        run = self.run_script("tests/run.sh")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("no such compiler", run.stdout)
        self.assertEqual(self.called("ctest"), [])

    def test_help(self):
        run = self.run_script("tests/run.sh", "--help")
        self.assertEqual(run.returncode, 0)
        self.assertIn("usage: tests/run.sh", run.stdout)
        self.assertEqual(self.called("cmake", "ctest"), [])


class Ci(Scripts):
    def last_line(self, ctest_asan: str, ctest_tsan: str) -> tuple:
        self.stand_in("ctest", f'case "$*" in *asan*) {ctest_asan} ;; *) {ctest_tsan} ;; esac')
        run = self.run_script(".ci/run")
        return run.returncode == 0, run.stdout.splitlines()[-1]

    @staticmethod
    def summary(failed: int, out_of: int, status: int) -> str:
        text = f"{100 * (out_of - failed) // out_of}% tests passed, {failed} tests failed out of"
        return f'echo "{text} {out_of}"; exit {status}'

    def test_adds_up_both_runs(self):
        good = self.last_line(self.summary(0, 12, 0), self.summary(0, 3, 0))
        self.assertEqual(good, (True, "15 passed, 0 failed"))

    def test_a_failure_in_either_fails_it(self):
        self.assertEqual(
            self.last_line(self.summary(1, 12, 8), self.summary(0, 3, 0)),
            (False, "14 passed, 1 failed"),
        )
        self.assertEqual(
            self.last_line(self.summary(0, 12, 0), self.summary(2, 3, 8)),
            (False, "13 passed, 2 failed"),
        )

    def test_a_run_without_summary_is_a_failure(self):
        self.assertEqual(
            self.last_line('echo "No tests were found!!!"', self.summary(0, 3, 0)),
            (False, "3 passed, 1 failed"),
        )

    def test_a_status_that_its_tests_do_not_explain_is_a_failure(self):
        self.assertEqual(
            self.last_line(self.summary(0, 12, 1), self.summary(0, 3, 0)),
            (False, "15 passed, 1 failed"),
        )

    def test_a_broken_build_is_a_failure(self):
        self.stand_in("cmake", 'case "$*" in *tsan*) exit 1 ;; esac')
        run = self.run_script(".ci/run")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout.splitlines()[-1], "3 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()

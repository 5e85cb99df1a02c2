#!/usr/bin/env python3
"""The scripts that install, build and test, with stand-ins for apt, cmake and ctest."""

import os
import re
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
        scripts = ("deploy/install_deps.sh", "tests/run.sh", "tests/proof/run.sh", ".ci/run")
        for script in scripts:
            target = self.root / script
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / script, target)
        tools = "awk bash env cat cut dirname grep head mktemp nproc rm tail tee tr"
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

    def test_benchmarks_need_what_they_compare_with(self):
        self.missing("redis-server")
        self.assertEqual(self.run_script("deploy/install_deps.sh", "test").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])
        self.assertEqual(self.run_script("deploy/install_deps.sh", "bench").returncode, 0)
        self.assertIn("redis-server", self.called("apt-get")[-1])

    def test_npm_installs_what_is_locked_once_until_that_changes(self):
        lock = self.root / "tests/deploy/schemas/package-lock.json"
        lock.parent.mkdir(parents=True)
        lock.write_text("1", "utf-8")
        self.stand_in("npm")
        (lock.parent / "node_modules").mkdir()
        for text, calls in (("1", 1), ("1", 1), ("2", 2)):
            lock.write_text(text, "utf-8")
            run = self.run_script("deploy/install_deps.sh", "test")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(len(self.called("npm")), calls)
        self.assertEqual(self.run_script("deploy/install_deps.sh", "build").returncode, 0)
        self.assertEqual(len(self.called("npm")), 2)

    def test_a_failing_npm_is_told(self):
        lock = self.root / "tests/deploy/schemas/package-lock.json"
        lock.parent.mkdir(parents=True)
        lock.write_text("1", "utf-8")
        self.stand_in("npm", "exit 1")
        run = self.run_script("deploy/install_deps.sh", "test")
        self.assertEqual(run.returncode, 1)
        self.assertIn("npm could not install", run.stderr)

    def test_images_need_their_tools(self):
        self.missing("podman")
        self.assertEqual(self.run_script("deploy/install_deps.sh", "test").returncode, 0)
        self.assertEqual(self.called("apt-get"), [])
        self.assertEqual(self.run_script("deploy/install_deps.sh", "image").returncode, 0)
        self.assertIn("podman", self.called("apt-get")[-1])

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


class RunFuzz(Scripts):
    """tests/fuzz/run.sh, with a stand-in for every target."""

    def setUp(self):
        super().setUp()
        for tool in ("mkdir", "sed", "xargs"):
            (self.bin / tool).symlink_to(shutil.which(tool))
        script = self.root / "tests/fuzz/run.sh"
        script.parent.mkdir(parents=True)
        shutil.copy(SOURCE / "tests/fuzz/run.sh", script)
        rows = re.findall(r"^(\w+) +(\d+) +(\d+)$", script.read_text("utf-8"), re.MULTILINE)
        self.floors = {name: (int(floor), int(small)) for name, floor, small in rows}
        (self.root / "build/asan/bin").mkdir(parents=True)
        for name in self.floors:
            self.target(name)

    def target(self, name: str, least: str = "$runs", status: int = 0):
        """Does as many runs as it is told, or others."""
        body = f"""for argument in "$@"; do
              case "$argument" in -runs=*) runs=${{argument#-runs=}} ;; esac
            done
            echo "Done {least} runs in 1 second(s)"
            exit {status}"""
        self.stand_in(name, body, f"build/asan/bin/idempotency_fuzz_{name}")

    def fuzz(self, *arguments: str) -> tuple:
        run = self.run_script("tests/fuzz/run.sh", *arguments)
        lines = run.stdout.splitlines()
        return run.returncode, lines[0], lines[-1]

    def test_runs_every_target_over_a_million_inputs_together(self):
        total = sum(floor for floor, _ in self.floors.values())
        self.assertGreaterEqual(total, 1_000_000)
        self.assertEqual(self.fuzz("--seed=7"), (0, "seed 7", f"{total} passed, 0 failed"))
        for name in self.floors:
            replay, mutate = self.called(name)
            self.assertIn("-runs=0 -seed=7 ", replay)
            self.assertIn(f"/corpus tests/fuzz/corpus/{name}", mutate)

    def test_every_target_has_a_corpus_and_is_built(self):
        lists = (SOURCE / "tests/fuzz/CMakeLists.txt").read_text("utf-8")
        built = re.findall(r"^idempotency_fuzz_target\((\w+)", lists, re.MULTILINE)
        self.assertEqual(sorted(built), sorted(self.floors))
        for name in self.floors:
            self.assertTrue(any((SOURCE / "tests/fuzz/corpus" / name).iterdir()), name)

    def test_the_small_size_is_small(self):
        total = sum(small for _, small in self.floors.values())
        self.assertEqual(self.fuzz("--small"), (0, "seed 1", f"{total} passed, 0 failed"))

    def test_an_input_that_breaks_a_rule_is_a_failure(self):
        self.target("key", status=77)
        self.assertEqual(self.fuzz("--small", "key")[::2], (1, "0 passed, 1 failed"))

    def test_fewer_inputs_than_the_floor_are_a_failure(self):
        self.target("key", least="5")
        self.assertEqual(self.fuzz("--small", "key")[::2], (1, "5 passed, 1 failed"))


class RunProof(Scripts):
    """tests/proof/run.sh, with a stand-in for every harness."""

    def setUp(self):
        super().setUp()
        programs = self.root / "build/release/bin"
        programs.mkdir(parents=True)
        script = (self.root / "tests/proof/run.sh").read_text("utf-8")
        harnesses = script[script.index("harnesses() {") :].partition("\nTEXT\n")[0]
        self.programs = set(re.findall(r"\$BIN/(\w+)", harnesses))
        self.scripts = set(re.findall(r" (tests/\S+)", harnesses))
        for name in self.scripts:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        self.says("2 passed, 0 failed")

    def says(self, words: str, status: int = 0, only: str = ""):
        for name in self.programs:
            if only in ("", name):
                self.stand_in(name, f'echo "{words}"; exit {status}', f"build/release/bin/{name}")
        for name in self.scripts:
            if only in ("", name):
                self.stand_in(Path(name).name, f'echo "{words}"; exit {status}', name)

    def last_line(self, *harnesses: str) -> tuple:
        run = self.run_script("tests/proof/run.sh", *harnesses)
        return run.returncode == 0, run.stdout.splitlines()[-1]

    def test_runs_every_harness_and_adds_them_up(self):
        names = self.run_script("tests/proof/run.sh", "--list").stdout.split()
        self.assertIn("simulation", names)
        self.assertEqual(self.called("cmake"), [])
        self.assertEqual(self.last_line(), (True, f"{2 * len(names)} passed, 0 failed"))
        self.assertIn("--target idempotency_proof", self.called("cmake")[-1])

    def test_runs_those_that_are_named(self):
        good = self.last_line("--no-build", "simulation", "clocks")
        self.assertEqual(good, (True, "4 passed, 0 failed"))
        self.assertEqual(self.called("cmake"), [])
        self.assertEqual(self.run_script("tests/proof/run.sh", "simulations").returncode, 2)

    def test_a_failure_fails_it(self):
        self.says("1 passed, 3 failed", 1, only="idempotency_clocks")
        broken = self.last_line("--no-build", "simulation", "clocks")
        self.assertEqual(broken, (False, "3 passed, 3 failed"))

    def test_a_harness_that_says_nothing_is_a_failure(self):
        self.says("Killed", 137, only="idempotency_clocks")
        broken = self.last_line("--no-build", "simulation", "clocks")
        self.assertEqual(broken, (False, "2 passed, 1 failed"))

    def test_a_status_that_is_not_explained_is_a_failure(self):
        self.says("2 passed, 0 failed", 1, only="idempotency_clocks")
        broken = self.last_line("--no-build", "simulation", "clocks")
        self.assertEqual(broken, (False, "4 passed, 1 failed"))

    def test_what_this_machine_cannot_do_is_no_failure(self):
        self.says("SKIPPED: no loop devices\n0 passed, 0 failed", 77, only="idempotency_shutdowns")
        good = self.last_line("--no-build", "simulation", "shutdowns")
        self.assertEqual(good, (True, "2 passed, 0 failed"))
        self.assertEqual(self.last_line("--no-build", "shutdowns"), (False, "0 passed, 0 failed"))


class Ci(Scripts):
    def setUp(self):
        super().setUp()
        self.proof("echo '7 passed, 0 failed'")

    def proof(self, body: str):
        self.stand_in("proof", body, "tests/proof/run.sh")

    def last_line(self, ctest_asan: str, ctest_tsan: str) -> tuple:
        self.stand_in("ctest", f'case "$*" in *asan*) {ctest_asan} ;; *) {ctest_tsan} ;; esac')
        run = self.run_script(".ci/run")
        return run.returncode == 0, run.stdout.splitlines()[-1]

    @staticmethod
    def summary(failed: int, out_of: int, status: int) -> str:
        text = f"{100 * (out_of - failed) // out_of}% tests passed, {failed} tests failed out of"
        return f'echo "{text} {out_of}"; exit {status}'

    def test_adds_up_all_stages(self):
        good = self.last_line(self.summary(0, 12, 0), self.summary(0, 3, 0))
        self.assertEqual(good, (True, "22 passed, 0 failed"))
        self.assertEqual(self.called("ctest", "proof")[-1].split(), ["proof"])

    def test_a_failure_in_any_of_them_fails_it(self):
        self.assertEqual(
            self.last_line(self.summary(1, 12, 8), self.summary(0, 3, 0)),
            (False, "21 passed, 1 failed"),
        )
        self.assertEqual(
            self.last_line(self.summary(0, 12, 0), self.summary(2, 3, 8)),
            (False, "20 passed, 2 failed"),
        )
        self.proof("echo '5 passed, 2 failed'; exit 1")
        self.assertEqual(
            self.last_line(self.summary(0, 12, 0), self.summary(0, 3, 0)),
            (False, "20 passed, 2 failed"),
        )

    def test_a_run_without_summary_is_a_failure(self):
        self.assertEqual(
            self.last_line('echo "No tests were found!!!"', self.summary(0, 3, 0)),
            (False, "10 passed, 1 failed"),
        )
        self.proof("echo '5 passed, 0 failed'; echo Killed")
        self.assertEqual(
            self.last_line(self.summary(0, 12, 0), self.summary(0, 3, 0)),
            (False, "15 passed, 1 failed"),
        )

    def test_a_status_that_its_tests_do_not_explain_is_a_failure(self):
        self.assertEqual(
            self.last_line(self.summary(0, 12, 1), self.summary(0, 3, 0)),
            (False, "22 passed, 1 failed"),
        )
        self.proof("echo '7 passed, 0 failed'; exit 1")
        self.assertEqual(
            self.last_line(self.summary(0, 12, 0), self.summary(0, 3, 0)),
            (False, "22 passed, 1 failed"),
        )

    def test_a_broken_build_is_a_failure(self):
        self.stand_in("cmake", 'case "$*" in *tsan*) exit 1 ;; esac')
        run = self.run_script(".ci/run")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout.splitlines()[-1], "10 passed, 1 failed")


if __name__ == "__main__":
    unittest.main()

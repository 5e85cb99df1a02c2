#!/usr/bin/env python3
"""The systemd unit: by systemd itself, and held against the binary that it starts."""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from service import DEPLOY, SOURCE, binary, run

UNIT = DEPLOY / "systemd/idempotencyd.service"
SKIPPED = 77

# systemd's own scale: 0 is shut off from everything, 100 is open to everything.
MOST_EXPOSED = 15


def setting(text: str, name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)
    return value


class Unit(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="idempotency-systemd-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.text = UNIT.read_text("utf-8")

    def analyze(self, verb: str, *words: str, text: str = ""):
        """systemd looks for the program that is started: here it is the built one."""
        unit = self.directory / UNIT.name
        installed = "/usr/local/bin/idempotencyd"
        unit.write_text(
            (text or self.text).replace(installed, binary("IDEMPOTENCYD")), "utf-8"
        )
        done = run("systemd-analyze", verb, *words, str(unit))
        return done.returncode, (done.stdout + done.stderr).decode()

    def test_is_a_unit(self):
        self.assertEqual(self.analyze("verify", "--man=no"), (0, ""))

    def test_verify_notices_what_is_none(self):
        wrong = self.text.replace("Restart=on-failure", "Restart=sometimes")
        self.assertNotEqual(self.analyze("verify", "--man=no", text=wrong), (0, ""))

    def test_is_shut_off(self):
        threshold = f"--threshold={MOST_EXPOSED}"
        status, said = self.analyze("security", "--offline=true", threshold)
        self.assertEqual(status, 0, said)
        for line in ("NoNewPrivileges=yes\n", "PrivateDevices=yes\n", "CapabilityBoundingSet=\n"):
            weaker = self.text.replace(line, "")
            status, _ = self.analyze("security", "--offline=true", threshold, text=weaker)
            self.assertNotEqual(status, 0, line)

    def test_flags_are_the_binarys(self):
        command = self.text.partition("ExecStart=")[2].partition("\n#")[0]
        given = set(re.findall(r"--(\w+)", command))
        known = set(
            re.findall(r"^  --(\w+)", run(binary("IDEMPOTENCYD"), "--help").stdout.decode(), re.M)
        )
        self.assertTrue(given)
        self.assertLessEqual(given, known)

    def test_data_lies_in_the_state_directory(self):
        state = setting(self.text, "StateDirectory")
        self.assertIn(f"--data_dir=/var/lib/{state}/", self.text)

    def test_stopping_takes_no_longer_than_it_may(self):
        source = (SOURCE / "service/main.cc").read_text("utf-8")
        (drain,) = re.findall(r"kDrainTimeout = absl::Seconds\((\d+)\)", source)
        self.assertGreater(int(setting(self.text, "TimeoutStopSec").rstrip("s")), int(drain) + 5)

    def test_wrong_usage_is_not_tried_again(self):
        source = (SOURCE / "service/main.cc").read_text("utf-8")
        (code,) = re.findall(r"kExitWrongUsage = (\d+)", source)
        self.assertEqual(setting(self.text, "RestartPreventExitStatus"), code)

    def test_may_ask_the_kernel_for_its_clock(self):
        """ProtectClock would make every jump of the clock a doubt that only a restart ends."""
        self.assertNotIn("\nProtectClock=", self.text)
        self.assertRegex(self.text, r"\nSystemCallFilter=[^~\n]*adjtimex clock_adjtime")


if __name__ == "__main__":
    if shutil.which("systemd-analyze") is None:
        print("no systemd-analyze here")
        sys.exit(SKIPPED)
    unittest.main()

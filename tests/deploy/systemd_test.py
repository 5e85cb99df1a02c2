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
BACKUPS = DEPLOY / "systemd/backups.conf"
RUNBOOK = DEPLOY / "RUNBOOK.md"
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

    def analyze(self, verb: str, *words: str, text: str = "", drop_in: str = ""):
        """systemd looks for the program that is started: here it is the built one."""
        unit = self.directory / UNIT.name
        drop_ins = self.directory / f"{UNIT.name}.d"
        drop_ins.mkdir(exist_ok=True)
        (drop_ins / BACKUPS.name).write_text(drop_in, "utf-8")
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
        more = setting(BACKUPS.read_text("utf-8"), "Environment")
        self.assertIn("$IDEMPOTENCYD_FLAGS", command.split())
        self.assertIn("IDEMPOTENCYD_FLAGS=", more)
        given = set(re.findall(r"--(\w+)", command + more))
        known = set(
            re.findall(r"^  --(\w+)", run(binary("IDEMPOTENCYD"), "--help").stdout.decode(), re.M)
        )
        self.assertTrue(given)
        self.assertLessEqual(given, known)

    def test_data_lies_in_the_state_directory(self):
        state = setting(self.text, "StateDirectory")
        self.assertIn(f"--data_dir=/var/lib/{state}/", self.text)

    def may_write(self, path: str) -> bool:
        """Whether the unit with its drop-in may, where everything else is read-only."""
        self.assertEqual(setting(self.text, "ProtectSystem"), "strict")
        drop_in = BACKUPS.read_text("utf-8")
        places = [
            f"/var/lib/{setting(self.text, 'StateDirectory')}",
            f"/var/log/{setting(self.text, 'LogsDirectory')}",
            *setting(drop_in, "ReadWritePaths").split(),
        ]
        return any(pathlib.PurePath(path).is_relative_to(place) for place in places)

    def test_backups_and_audit_lie_where_it_may_write(self):
        more = setting(BACKUPS.read_text("utf-8"), "Environment")
        paths = re.findall(r"--(backup_dir|audit_log)=([^\s\"]+)", more)
        self.assertEqual([flag for flag, _ in paths], ["backup_dir", "audit_log"])
        for flag, path in paths:
            self.assertTrue(self.may_write(path), flag)
        self.assertFalse(self.may_write("/var/backups/other"))
        mounts = setting(BACKUPS.read_text("utf-8"), "RequiresMountsFor")
        self.assertTrue(pathlib.PurePath(paths[0][1]).is_relative_to(mounts))

    def test_the_runbook_knows_the_same_places(self):
        """What it restores from, verifies and makes is what the unit and its drop-in name."""
        runbook = RUNBOOK.read_text("utf-8")
        more = setting(BACKUPS.read_text("utf-8"), "Environment")
        (backups,) = re.findall(r"--backup_dir=(\S+)", more)
        self.assertEqual(set(re.findall(r"--backup-dir=(\S+)", runbook)), {backups})
        self.assertIn(f" {pathlib.PurePath(backups).parent}\n", runbook)
        (data,) = re.findall(r"--data_dir=(\S+)", self.text)
        self.assertEqual(set(re.findall(r"--data[-_]dir=(\S+)", runbook)), {data})

    def test_drop_in_is_one(self):
        drop_in = BACKUPS.read_text("utf-8")
        self.assertEqual(self.analyze("verify", "--man=no", drop_in=drop_in), (0, ""))
        wrong = drop_in.replace("ReadWritePaths=", "ReadWritePath=")
        self.assertNotEqual(self.analyze("verify", "--man=no", drop_in=wrong), (0, ""))
        threshold = f"--threshold={MOST_EXPOSED}"
        status, said = self.analyze("security", "--offline=true", threshold, drop_in=drop_in)
        self.assertEqual(status, 0, said)

    def test_stopping_takes_no_longer_than_it_may(self):
        source = (SOURCE / "service/process/process.h").read_text("utf-8")
        (drain,) = re.findall(r"kDrainTimeout = absl::Seconds\((\d+)\)", source)
        self.assertGreater(int(setting(self.text, "TimeoutStopSec").rstrip("s")), int(drain) + 5)

    def test_wrong_usage_is_not_tried_again(self):
        source = (SOURCE / "service/process/exit_codes.h").read_text("utf-8")
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

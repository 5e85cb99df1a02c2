#!/usr/bin/env python3
"""Alerts and dashboard: by promtool, and by a real Prometheus that scrapes a real idempotencyd.

Every series that they name has to be there, every panel has to have something to show, and every
alert has its section in the runbook.
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
import zlib

from service import DEPLOY, PATIENCE_SECONDS, SOURCE, Service, run

RULE = DEPLOY / "monitoring/prometheus_rule.yaml"
# Of whoever takes backups.
BACKUP_RULE = DEPLOY / "kubernetes/components/backups/alerts.yaml"
DASHBOARD = DEPLOY / "monitoring/dashboard.json"
RUNBOOK = DEPLOY / "RUNBOOK.md"
CASES = pathlib.Path(__file__).with_name("alerts_test.yaml")

CONFIG = """
namespaces:
  - name: payments
    settle_duration: 0s
"""

FINGERPRINT = "--fingerprint=sha256/bytes-1:" + "00" * 32
# How fast a round of traffic is says nothing of when Prometheus comes by.
PATIENCE_SECONDS = 120


def plain_rules() -> str:
    """The rules file of a Prometheus without the operator, made as the files themselves say."""
    rules = ""
    for file in (RULE, BACKUP_RULE):
        (command,) = re.findall(r"^#   (sed .*) deploy/\S+ >", file.read_text("utf-8"), re.M)
        rules += run("bash", "-c", f"{command} {file}").stdout.decode()
    return rules


def alerts() -> dict:
    """Name -> its lines."""
    _, *parts = re.split(r"^ +- alert: ", plain_rules(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in parts}


def without_annotations(rules: str) -> str:
    return re.sub(r"^( +)annotations:\n(?:\1 +.*\n)+", "", rules, flags=re.MULTILINE)


def alert_expression(lines: str) -> str:
    text = re.search(r"expr: (?:\|\n)?(.*?)\n +(?:for|labels):", lines, re.DOTALL)[1]
    return " ".join(text.split())


def panel_expressions() -> dict:
    """Name of a panel and its target -> the expression, its variables filled in."""
    expressions = {}
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", "1m")
            text = text.replace("$instance", ".*").replace("$idempotency_namespace", ".*")
            expressions[f"{panel['title']} {target['refId']}"] = text
    return expressions


def selectors(expression: str) -> set:
    """The series that an expression reads."""
    grouped = re.sub(r"\b(?:by|without|on|ignoring) \([^)]*\)", "", expression)
    return set(re.findall(r"idempotency_\w+(?:\{[^}]*\})?", grouped))


class Prometheus:
    """Scrapes one service every second."""

    def __init__(self, directory: pathlib.Path, target: int):
        config = directory / "prometheus.yaml"
        rules = directory / "live_rules.yaml"
        rules.write_text(plain_rules(), "utf-8")
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{rules}]\n"
            "scrape_configs:\n"
            "  - job_name: idempotencyd\n"
            f"    static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n",
            "utf-8",
        )
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", "--web.listen-address=127.0.0.1:0",
             f"--storage.tsdb.path={directory / 'series'}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.port = None
        said = []
        for line in self.process.stderr:
            said.append(line)
            listening = re.search(r"Listening on.*address=127\.0\.0\.1:(\d+)", line)
            self.port = int(listening[1]) if listening else self.port
            if "Server is ready" in line:
                return
        raise RuntimeError("prometheus did not start:\n" + "".join(said))

    def ask(self, expression: str) -> list:
        query = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return json.load(answer)["data"]["result"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE_SECONDS)


class Alerts(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="idempotency-alerts-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)

    def promtool(self, what: str, rules: str, *more: str):
        (self.directory / "rules.yaml").write_text(rules, "utf-8")
        shutil.copy(CASES, self.directory)
        done = run("promtool", what, "rules", *more, cwd=self.directory)
        return done.returncode, (done.stdout + done.stderr).decode()

    def test_rules_are_rules(self):
        status, said = self.promtool("check", plain_rules(), "rules.yaml")
        self.assertEqual(status, 0, said)

    def test_check_notices_a_text_that_cannot_be_filled_in(self):
        wrong = plain_rules().replace("humanizeDuration", "humaniseDuration")
        self.assertNotEqual(self.promtool("check", wrong, "rules.yaml")[0], 0)

    def test_fire_when_they_should_and_not_else(self):
        rules = without_annotations(plain_rules())
        self.assertNotIn("summary", rules)
        status, said = self.promtool("test", rules, CASES.name)
        self.assertEqual(status, 0, said)

    def test_every_alert_has_both_cases(self):
        cases = re.findall(
            r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:( \[\])?", CASES.read_text("utf-8")
        )
        for name in alerts():
            self.assertEqual({bool(quiet) for n, quiet in cases if n == name}, {True, False}, name)

    def test_every_alert_says_how_urgent_it_is_and_what_to_read(self):
        for name, lines in alerts().items():
            self.assertRegex(lines, r"severity: (critical|warning)\n", name)
            self.assertRegex(lines, r"summary: .", name)
            self.assertRegex(lines, r"description: .", name)
            self.assertIn(f"runbook: RUNBOOK.md#{name.lower()}\n", lines)

    def test_runbook_has_a_section_for_each(self):
        text = RUNBOOK.read_text("utf-8")
        sections = re.findall(r"^#+ (Idempotency\w+)$", text, re.MULTILINE)
        self.assertEqual(sorted(sections), sorted(alerts()))


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(DASHBOARD.read_text("utf-8"))
        self.panels = self.dashboard["panels"]

    def test_panels_lie_beside_each_other(self):
        taken = set()
        for panel in self.panels:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            self.assertFalse(taken & cells, panel["title"])
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            taken |= cells
        self.assertEqual(len({panel["id"] for panel in self.panels}), len(self.panels))

    def test_every_panel_asks_the_chosen_source_and_instance(self):
        for panel in self.panels:
            for target in panel.get("targets", []):
                self.assertEqual(target["datasource"]["uid"], "${datasource}", panel["title"])
                series = selectors(target["expr"])
                self.assertTrue(series, panel["title"])
                for selector in series:
                    self.assertIn('instance=~"$instance"', selector, panel["title"])


class Live(unittest.TestCase):
    """What happened in it: each answer that the panels divide by, and one operation unresolved."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="idempotency-monitoring-")
        directory = pathlib.Path(cls.temporary.name)
        (directory / "config.yaml").write_text(CONFIG, "utf-8")
        cls.service = Service(
            directory,
            [f"--data_dir={directory / 'store'}", "--listen=127.0.0.1:0", "--ballast_mb=1",
             "--metrics_listen=127.0.0.1:0", f"--config={directory / 'config.yaml'}"],
        )  # fmt: skip
        cls.count = 0
        try:
            token = cls.reserve("unknown")
            cls.service.ctl(
                "mark-unresolved", "payments", "a", "unknown", token, "--cause=timeout"
            )
            cls.prometheus = Prometheus(directory, cls.service.metrics_port)
        except BaseException:
            cls.service.stop()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.prometheus.stop()
        cls.service.stop()
        cls.temporary.cleanup()

    @classmethod
    def reserve(cls, key: str) -> str:
        done = cls.service.ctl("reserve", "payments", "a", key, FINGERPRINT, "--output=json")
        if done.returncode != 0:
            raise AssertionError(done.stderr.decode())
        return "--fencing-token=" + json.loads(done.stdout)["lease"]["fencingToken"]

    def traffic(self):
        """A bit of everything."""
        type(self).count += 1
        name = ("payments", "a", f"key-{self.count}")
        token = self.reserve(name[2])
        done = ("--verdict=succeeded", "--body-file=-")
        self.service.ctl("complete", *name, token, *done, stdin=b"{}")
        self.service.ctl("reserve", *name, FINGERPRINT)
        self.service.ctl("reserve", "payments", "a", "odd", FINGERPRINT[:-62])

    def empty(self, expressions: dict) -> dict:
        """Those that have no answer, however much happens."""
        left = dict(expressions)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            left = {name: text for name, text in left.items() if not self.prometheus.ask(text)}
            if not left or time.monotonic() > deadline:
                return left
            self.traffic()

    def test_every_panel_has_something_to_show(self):
        self.assertEqual(self.empty(panel_expressions()), {})

    def test_every_series_of_an_alert_is_there(self):
        wanted = {
            selector: selector
            for lines in alerts().values()
            for selector in selectors(alert_expression(lines))
        }
        self.assertGreater(len(wanted), len(alerts()) - 5)
        # Errors are counted from the first of their kind on: until then only the API knows them.
        api = (SOURCE / "protos/idempotency/v1/idempotency_service.proto").read_text("utf-8")
        for reason in ("overloaded", "store_unavailable"):
            refused = f'idempotency_requests_total{{outcome="{reason}"}}'
            self.assertIn(wanted.pop(refused, None), (refused,))
            self.assertIn(f"ERROR_REASON_{reason.upper()} ", api)
        self.assertEqual(self.empty(wanted), {})

    def test_notices_a_series_that_there_is_not(self):
        self.assertEqual(self.prometheus.ask("idempotency_request_total"), [])
        self.assertEqual(self.prometheus.ask('idempotency_lapses_total{result="freed"}'), [])

    def test_variables_of_the_dashboard_have_values(self):
        for variable in json.loads(DASHBOARD.read_text("utf-8"))["templating"]["list"]:
            if variable["type"] != "query":
                continue
            metric, label = re.fullmatch(
                r"label_values\((\w+), (\w+)\)", variable["query"]
            ).groups()
            self.empty({metric: metric})
            self.assertIn(label, self.prometheus.ask(metric)[0]["metric"])


class WallClockSetBack(unittest.TestCase):
    """The mark of a run whose wall clock was two days ahead of today's."""

    def test_offset_says_how_far_the_service_is_ahead(self):
        temporary = tempfile.TemporaryDirectory(prefix="idempotency-clock-")
        self.addCleanup(temporary.cleanup)
        directory = pathlib.Path(temporary.name)
        arguments = [f"--data_dir={directory / 'store'}", "--listen=127.0.0.1:0",
                     "--metrics_listen=127.0.0.1:0", "--ballast_mb=0"]  # fmt: skip
        self.assertEqual(Service(directory, arguments).stop(), 0)
        (directory / "port").unlink()
        mark = directory / "store/CLOCK"
        magic, now = mark.read_bytes()[:8], int.from_bytes(mark.read_bytes()[8:16], "little")
        changed = magic + (now + 2 * 24 * 3600 * 1000).to_bytes(8, "little")
        mark.write_bytes(changed + zlib.crc32(changed).to_bytes(4, "little"))

        service = Service(directory, arguments)
        self.addCleanup(service.stop)
        _, text = service.get("/metrics")
        (offset,) = re.findall(r"^idempotency_clock_offset_seconds (\S+)$", text, re.MULTILINE)
        self.assertGreater(float(offset), 47 * 3600)
        self.assertIn("\nidempotency_clock_in_doubt 0\n", text)


if __name__ == "__main__":
    for tool in ("promtool", "prometheus"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is not installed: deploy/install_deps.sh test")
    unittest.main()

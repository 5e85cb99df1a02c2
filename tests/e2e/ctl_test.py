#!/usr/bin/env python3
"""Drives every command of idempotencyctl against a real idempotencyd.

The binaries are $IDEMPOTENCYD and $IDEMPOTENCYCTL. One server for all tests, on a free port and a
directory of its own; each test has its own key. What the tool prints to be copied is run by bash.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

CONFIG = """
namespaces:
  - name: payments
    settle_duration: 0s
    provider:
      name: Example Acquirer
  - name: careful
    settle_duration: 1h
  - name: fleeting
    retention: 1ms
  - name: open
    scope_optional: true
    fingerprint_optional: true
"""

# Long enough for a busy machine; nothing waits that long unless something is wrong.
PATIENCE_SECONDS = 60

ACQUIRED, REFUSED, NO_ANSWER, NOT_WRITTEN = 0, 3, 4, 5
ALREADY_HELD, IN_PROGRESS, COMPLETED, UNRESOLVED = 10, 11, 12, 13
MISMATCH, EXPIRED, TOO_OLD, FREED = 14, 15, 16, 17
USAGE = 2


def binary(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        sys.exit(f"{variable}={path!r} is no program: build idempotencyd and idempotencyctl first")
    return path


class Server:
    """An idempotencyd of our own, ended by its process id."""

    def __init__(self, directory, content=CONFIG):
        config = directory / "config.yaml"
        config.write_text(content)
        port_file = directory / "port"
        self.log = open(directory / "log", "wb")
        self.process = subprocess.Popen(
            [
                binary("IDEMPOTENCYD"),
                f"--data_dir={directory / 'data'}",
                "--listen=127.0.0.1:0",
                "--engine=rocksdb",
                f"--port_file={port_file}",
                f"--config={config}",
                "--metrics_listen=127.0.0.1:0",
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        self.address = f"127.0.0.1:{self._port(port_file, directory / 'log')}"
        # It listens there before it answers calls, and says so.
        heard = re.search(
            r'"event":"metrics_listening".*"port":(\d+)', (directory / "log").read_text())
        self.metrics = f"127.0.0.1:{heard.group(1)}"

    def _port(self, port_file, log):
        for _ in range(PATIENCE_SECONDS * 20):
            if port_file.exists() and port_file.read_text().strip():
                return int(port_file.read_text())
            try:
                self.process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        self.stop()
        raise RuntimeError("idempotencyd did not start:\n" + log.read_text(errors="replace"))

    def stop(self):
        """Asks it to drain; the exit code says whether it did."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.log.close()


class Result:
    def __init__(self, code, out, err):
        self.code, self.out_bytes = code, out
        self.out, self.err = out.decode(errors="replace"), err.decode()

    def json(self):
        return json.loads(self.out)

    def command(self, start):
        """The first command line to copy that starts so."""
        for line in (self.out + self.err).splitlines():
            if line.startswith("  idempotencyctl ") and start in line:
                return line.strip()
        raise AssertionError(f"no command with {start!r} in:\n{self.out}{self.err}")


class CtlTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="idempotency-ctl-")
        cls.directory = pathlib.Path(cls.temporary.name)
        cls.server = Server(cls.directory)
        cls.request = cls.directory / "charge.json"
        cls.request.write_bytes(b'{"amount": 100}\n')
        # The name that printed commands use.
        (cls.directory / "bin").mkdir()
        (cls.directory / "bin" / "idempotencyctl").symlink_to(binary("IDEMPOTENCYCTL"))
        cls.env = {
            **os.environ,
            "PATH": f"{cls.directory / 'bin'}:{os.environ['PATH']}",
            "IDEMPOTENCY_SERVER": cls.server.address,
            "USER": "ann",
        }

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.temporary.cleanup()
        if code != 0:
            raise AssertionError(f"idempotencyd ended with {code}")

    def ctl(self, *words, stdin=b""):
        return self.finish([binary("IDEMPOTENCYCTL"), *words], stdin)

    def paste(self, command, stdin=b""):
        return self.finish(["bash", "-c", command], stdin)

    def finish(self, words, stdin):
        run = subprocess.run(
            words, input=stdin, capture_output=True, env=self.env, cwd=self.directory,
            timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        return Result(run.returncode, run.stdout, run.stderr)

    def expect(self, code, *words, **more):
        result = self.ctl(*words, **more)
        self.assertEqual(result.code, code, f"{words}\n{result.out}{result.err}")
        return result

    def key(self):
        return self.id().rpartition(".")[2] + "/1"

    def name(self, namespace="payments"):
        return namespace, "acct-1", self.key()

    def acquire(self, *more, namespace="payments"):
        """Reserves, and gives the fencing token as an option."""
        result = self.expect(
            ACQUIRED, "reserve", *self.name(namespace), f"--request-file={self.request}",
            "--output=json", *more,
        )  # fmt: skip
        return "--fencing-token=" + result.json()["lease"]["fencingToken"]

    def reserve(self, code, *more, namespace="payments"):
        words = ("reserve", *self.name(namespace), f"--request-file={self.request}", *more)
        return self.expect(code, *words)

    # --- The main job ----------------------------------------------------------------------------

    def test_reserve_complete_replay(self):
        token = self.acquire("--label=kind=charge", "--reference=order-7")
        body = b'{"id": "ch_1"}\x00\xff'
        done = self.expect(
            0, "complete", *self.name(), token, "--verdict=succeeded", "--http-status=201",
            "--body-file=-", "--header=X-Trace: a: b", "--provider-request-id=ch_1", stdin=body,
        )  # fmt: skip
        self.assertIn("COMPLETE: recorded", done.out)
        out = self.directory / "reply"
        replay = self.reserve(COMPLETED, f"--body-out={out}", "--output=json").json()
        self.assertEqual(out.read_bytes(), body)
        answer = replay["operation"]["response"]
        self.assertEqual(base64.b64decode(answer["body"]), body)
        self.assertEqual(answer["httpStatus"], 201)
        self.assertEqual(base64.b64decode(answer["metadata"][0]["value"]), b"a: b")
        self.assertEqual(replay["nextStep"], "NEXT_STEP_USE_RESPONSE")
        again = self.expect(
            0, "complete", *self.name(), token, "--verdict=succeeded", "--http-status=201",
            "--body-file=-", "--header=X-Trace: a: b", "--provider-request-id=ch_1", stdin=body,
        )  # fmt: skip
        self.assertIn("recorded before", again.out)

    def test_another_request_is_a_mismatch(self):
        self.acquire()
        digest = hashlib.sha256(b"another").hexdigest()
        result = self.expect(
            MISMATCH, "reserve", *self.name(), f"--fingerprint=sha256/bytes-1:{digest}"
        )
        self.assertIn("FINGERPRINT_MISMATCH", result.out)
        self.assertIn("inspect payments acct-1", result.command("inspect"))

    def test_fingerprint_is_that_of_the_file(self):
        digest = hashlib.sha256(self.request.read_bytes()).hexdigest()
        words = (*self.name(), f"--fingerprint=sha256/bytes-1:{digest}")
        self.expect(ACQUIRED, "reserve", *words)
        self.reserve(IN_PROGRESS)

    def test_same_attempt_is_already_held(self):
        self.acquire("--attempt-id=attempt-0123456789")
        result = self.reserve(ALREADY_HELD, "--attempt-id=attempt-0123456789")
        self.assertIn("only if you know", result.out)

    def test_release_frees_and_reserve_acquires_again(self):
        token = self.acquire()
        self.expect(0, "release", *self.name(), token, "--detail=never sent")
        self.expect(FREED, "get", *self.name(), "--exit-code")
        self.acquire()

    def test_renew_extends_and_keeps_progress(self):
        token = self.acquire("--lease=30s")
        result = self.expect(
            0, "renew", *self.name(), token, "--lease=10m", "--dispatched", "--progress-file=-",
            "--output=json", stdin=b"half",
        )  # fmt: skip
        self.assertIn("remaining", result.json()["lease"])
        shown = self.expect(0, "inspect", *self.name(), "--output=json").json()["operation"]
        self.assertTrue(shown["dispatched"])

    def test_expired_and_too_old(self):
        token = self.acquire(namespace="fleeting")
        self.expect(0, "complete", *self.name("fleeting"), token, "--verdict=succeeded")
        # Longer than retention lies between two processes; the answer may not come earlier.
        for _ in range(100):
            result = self.ctl(
                "reserve", *self.name("fleeting"), f"--request-file={self.request}"
            )
            if result.code != COMPLETED:
                break
        self.assertEqual(result.code, EXPIRED, result.out + result.err)
        again = self.paste(result.command("--start-over"))
        self.assertEqual(again.code, ACQUIRED, again.err)
        namespace, scope, key = self.name()
        self.expect(
            TOO_OLD, "reserve", namespace, scope, key + "/new", f"--request-file={self.request}",
            "--operation-age=399d",
        )  # fmt: skip

    # --- What is not known -----------------------------------------------------------------------

    def test_unresolved_is_settled_by_the_printed_command(self):
        token = self.acquire()
        self.expect(0, "mark-unresolved", *self.name(), token, "--cause=timeout", "--detail=504")
        blocked = self.reserve(UNRESOLVED)
        command = blocked.command("resolve completed")
        self.assertIn("--actor=ann", command)
        settled = self.paste(command)
        self.assertEqual(settled.code, 0, settled.err)
        self.reserve(COMPLETED)
        shown = self.expect(0, "inspect", *self.name())
        self.assertIn("RESOLVED", shown.out)
        self.assertIn("WHAT YOU FOUND", shown.out)
        self.assertRegex(shown.out, r"(ago|now) \(2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ\)")

    def test_not_executed_frees_and_abandoned_stops(self):
        token = self.acquire()
        self.expect(0, "mark-unresolved", *self.name(), token)
        self.expect(0, "resolve", "not-executed", *self.name(), "--reason=not in their list")
        token = self.acquire()
        self.expect(0, "mark-unresolved", *self.name(), token, "--reconcile-first")
        self.expect(0, "resolve", "abandoned", *self.name(), "--reason=they lost it", "--actor=bob")
        result = self.reserve(COMPLETED)
        self.assertIn("Stop", result.out)

    def test_not_settled_is_refused_with_its_reason(self):
        token = self.acquire(namespace="careful")
        self.expect(0, "mark-unresolved", *self.name("careful"), token)
        words = ("resolve", "not-executed", *self.name("careful"), "--reason=r")
        refused = self.expect(REFUSED, *words, "--output=json")
        error = refused.json()["error"]
        self.assertEqual(error["reason"], "ERROR_REASON_NOT_SETTLED")
        self.assertIn("retryAfter", error)
        self.assertIn("NOT_SETTLED", refused.err)

    def test_a_lapsed_lease_ends_the_wait(self):
        token = self.acquire("--lease=1s")
        result = self.expect(UNRESOLVED, "get", *self.name(), "--wait=50s", "--exit-code")
        self.assertIn("LEASE_LAPSED", result.out)
        self.expect(REFUSED, "renew", *self.name(), token)
        self.expect(0, "complete", *self.name(), token, "--verdict=failed")

    def test_etag_settles_only_what_was_seen(self):
        token = self.acquire()
        self.expect(0, "mark-unresolved", *self.name(), token)
        refused = self.expect(
            REFUSED, "resolve", "abandoned", *self.name(), "--reason=r", "--etag=stale"
        )
        self.assertIn("ETAG_MISMATCH", refused.err)

    # --- Interrupts ------------------------------------------------------------------------------

    def interrupt(self, *words):
        """Starts the tool, presses Ctrl-C once it waits, and returns how it ended."""
        process = subprocess.Popen(
            [binary("IDEMPOTENCYCTL"), *words], env=self.env, cwd=self.directory,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        seen = b""
        # It says that it waits when there is a connection, right before it sends.
        while b"waiting up to" not in seen:
            line = process.stderr.readline()
            self.assertTrue(line, seen)
            seen += line
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return Result(process.returncode, out, seen + err)

    def test_ctrl_c_while_waiting_says_how_to_go_on(self):
        token = self.acquire()
        words = ("reserve", *self.name(), f"--request-file={self.request}", "--wait=50s")
        result = self.interrupt(*words)
        self.assertEqual(result.code, -signal.SIGINT, result.err)
        self.assertIn("may have been applied", result.err)
        attempt = re.search(r"attempt id: (\w{32})", result.err).group(1)
        command = result.command("--attempt-id=" + attempt)
        self.expect(0, "release", *self.name(), token)
        # The wait was not a claim; the repeat is the first to acquire.
        self.assertEqual(self.paste(command).code, ACQUIRED)
        self.assertEqual(self.paste(command).code, ALREADY_HELD)

    def test_ctrl_c_of_a_read_changes_nothing(self):
        self.acquire()
        result = self.interrupt("get", *self.name(), "--wait=50s")
        self.assertEqual(result.code, -signal.SIGINT, result.err)
        self.assertIn("Nothing was changed", result.err)

    # --- Reading and operating -------------------------------------------------------------------

    def test_get_gives_the_answer_to_its_request_only(self):
        token = self.acquire()
        self.expect(
            0, "complete", *self.name(), token, "--verdict=succeeded", "--body-file=-", stdin=b"ok"
        )
        words = ("get", *self.name(), "--body-out=-")
        self.assertEqual(self.expect(NOT_WRITTEN, *words).out_bytes, b"")
        given = self.expect(0, *words, f"--request-file={self.request}")
        self.assertEqual(given.out_bytes, b"ok")
        self.assertEqual(self.expect(0, "inspect", *self.name(), "--body-out=-").out_bytes, b"ok")

    def test_list_filters_and_pages(self):
        prefix = self.key()
        for number in range(5):
            self.expect(
                ACQUIRED, "reserve", "open", "", f"{prefix}-{number}",
                f"--reference=run-{number % 2}",
            )  # fmt: skip
        words = ("list", "open", f"--prefix={prefix}", "--output=json")
        keys = [o["id"]["key"] for o in self.expect(0, *words).json()["operations"]]
        self.assertEqual(sorted(keys), [f"{prefix}-{number}" for number in range(5)])
        self.assertEqual(len(self.expect(0, *words, "--limit=2").json()["operations"]), 2)
        odd = self.expect(0, *words, "--reference=run-1", "--state=pending,unresolved")
        self.assertEqual(len(odd.json()["operations"]), 2)
        self.assertNotIn("operations", self.expect(0, *words, "--min-age=1h").json())
        self.assertNotIn("operations", self.expect(0, *words, "--state=complete").json())
        table = self.expect(0, "list", "open", f"--prefix={prefix}")
        self.assertIn("5 operations", table.out)

    def test_delete(self):
        token = self.acquire()
        words = ("delete", *self.name(), "--reason=erasure request 42")
        live = self.expect(REFUSED, *words, "--force")
        self.assertIn("LEASE_LIVE", live.err)
        self.expect(0, "mark-unresolved", *self.name(), token)
        self.assertIn("WRONG_STATE", self.expect(REFUSED, *words).err)
        self.assertEqual(self.expect(0, *words, "--force", "--output=json").json(), {})
        self.expect(0, *words)

    def test_namespaces(self):
        self.assertIn("payments", self.expect(0, "namespaces").out)
        one = self.expect(0, "namespaces", "payments", "--output=json").json()["namespace"]
        self.assertEqual(one["provider"]["name"], "Example Acquirer")
        unknown = self.expect(REFUSED, "namespaces", "nobody")
        self.assertIn("NAMESPACE_NOT_FOUND", unknown.err)

    def test_health_and_version(self):
        self.assertIn("SERVING", self.expect(0, "health").out)
        self.assertEqual(self.expect(0, "health", "--output=json").json(), {"status": "SERVING"})
        self.assertEqual(self.expect(0, "version", "--output=json").json()["api"], "idempotency.v1")

    def test_odd_keys_come_back_as_they_are(self):
        for key in ("list", "-x", "--", "++", "it's $HOME", "a/b", "ключ", "*"):
            name = ("open", "", f"{key}") if key == "list" else ("open", key, key)
            self.expect(ACQUIRED, "reserve", "--", *name)
            waits = self.expect(IN_PROGRESS, "reserve", "--output=json", "--", *name)
            self.assertEqual(waits.json()["operation"]["id"]["key"], key)
            looked = self.paste(waits.command(" get ").replace("30s", "1ms"))
            self.assertEqual(looked.code, 0, looked.err)
            self.assertIn("PENDING", looked.out)

    # --- What goes wrong -------------------------------------------------------------------------

    def test_refusals_say_reason_and_next_step(self):
        missing = self.expect(REFUSED, "get", *self.name())
        self.assertIn("OPERATION_NOT_FOUND", missing.err)
        self.assertEqual(self.paste(missing.command("list")).code, 0)
        self.acquire()
        stale = self.expect(REFUSED, "release", *self.name(), "--fencing-token=9007199254740991")
        self.assertIn("UNKNOWN_FENCING_TOKEN", stale.err)
        short = self.expect(
            REFUSED, "reserve", *self.name(), f"--request-file={self.request}", "--attempt-id=short",
            "--output=json",
        )  # fmt: skip
        self.assertEqual(short.json()["error"]["reason"], "ERROR_REASON_INVALID_FIELD")
        self.assertIn("attempt_id", short.json()["error"]["field"])

    # --- On call ---------------------------------------------------------------------------------

    def unresolved(self, key):
        """An operation of which nobody knows whether it happened."""
        name = ("payments", "acct-1", key)
        result = self.expect(
            ACQUIRED, "reserve", *name, f"--request-file={self.request}", "--output=json")
        token = result.json()["lease"]["fencingToken"]
        self.expect(
            0, "mark-unresolved", *name, f"--fencing-token={token}", "--cause=timeout")
        return name

    def test_what_is_unresolved_is_shown_explained_and_settled(self):
        name = self.unresolved(self.key())
        listed = self.expect(0, "unresolved", "--limit=0")
        self.assertIn(self.key(), listed.out)
        self.assertIn("TIMEOUT", listed.out)
        self.assertIn("a person: look up and resolve", listed.out)
        explained = self.expect(0, "explain", *name)
        for words in ("UNRESOLVED for", "ACQUIRED", "MARKED_UNRESOLVED", "RECONCILE_FIRST"):
            self.assertIn(words, explained.out)
        settle = explained.command("resolve abandoned")
        self.assertEqual(self.paste(settle).code, 0)
        watched = self.expect(COMPLETED, "watch", *name)
        self.assertIn("COMPLETE  attempt 1  verdict ABANDONED", watched.out)

    def test_resolve_from_csv(self):
        keys = [f"{self.key()}-{number}" for number in range(3)]
        for key in keys:
            self.unresolved(key)
        csv = "namespace,scope,key,resolution,verdict\n" + "".join(
            f"payments,acct-1,{key},{how}\n"
            for key, how in zip(keys, ("completed,succeeded", "not-executed,", "abandoned,")))
        command = ("resolve", "from-csv", "-", "--reason=export")
        look = self.expect(0, *command, "--dry-run", stdin=csv.encode())
        self.assertIn("3 would be settled, 0 would not, of 3 lines\n", look.out)
        self.assertIn("Not known: not-executed is refused for longer", look.out)
        self.assertEqual(
            self.expect(0, *command, stdin=csv.encode()).out, "3 settled, 0 not, of 3 lines\n")
        # The same file again changes nothing, and is no fault.
        self.expect(0, *command, stdin=csv.encode())
        again = self.expect(0, *command, "--dry-run", stdin=csv.encode())
        self.assertIn(
            "1 would be settled, 0 would not, 2 cannot be told, of 3 lines\n", again.out)
        self.expect(FREED, "get", "payments", "acct-1", keys[1], "--exit-code")
        self.expect(COMPLETED, "get", "payments", "acct-1", keys[2], "--exit-code")

    def test_a_dry_run_says_what_the_server_would(self):
        settled = ("careful", "acct-1", self.key() + "-unsettled")
        live = ("payments", "acct-1", self.key() + "-live")
        done = ("payments", "acct-1", self.key() + "-done")
        tokens = {}
        for name in (settled, live, done):
            reserved = self.expect(
                ACQUIRED, "reserve", *name, f"--request-file={self.request}", "--lease=1h",
                "--output=json")
            tokens[name] = "--fencing-token=" + reserved.json()["lease"]["fencingToken"]
        self.expect(0, "mark-unresolved", *settled, tokens[settled])
        self.expect(0, "complete", *done, tokens[done], "--verdict=succeeded")
        absent = ("payments", "acct-1", self.key() + "-absent")
        csv = "namespace,scope,key,resolution\n" + "".join(
            ",".join((*name, "not-executed")) + "\n" for name in (settled, live, done, absent))
        command = ("resolve", "from-csv", "-", "--reason=export", "--output=json")

        def reasons(*more):
            result = self.expect(REFUSED, *command, *more, stdin=csv.encode()).json()
            return [refused["reason"] for refused in result["refused"]], result["settled"]

        expected = (["NOT_SETTLED", "LEASE_LIVE", "WRONG_STATE", "OPERATION_NOT_FOUND"], 0)
        self.assertEqual(reasons("--dry-run"), expected)
        # The judge is the server itself.
        self.assertEqual(reasons(), expected)

    def test_a_dry_run_says_that_the_role_is_missing(self):
        directory = self.directory / "roles"
        directory.mkdir()
        lines = []
        for name in ("caller", "reader", "reconciler"):
            made = self.expect(0, "token", "new", name)
            (directory / f"{name}.token").write_text(made.out)
            lines.append(made.err)
        (directory / "tokens").write_text("".join(lines))
        server = Server(directory, f"""
namespaces:
  - name: payments
    settle_duration: 0s
identity:
  tokens_file: {directory / "tokens"}
access:
  - {{identities: ["token:caller"], namespaces: [payments], roles: [CALLER]}}
  - {{identities: ["token:reader"], namespaces: [payments], roles: [READER]}}
  - {{identities: ["token:reconciler"], namespaces: [payments], roles: [RECONCILER]}}
""")
        self.addCleanup(server.stop)

        def call(who, code, *words, **more):
            return self.expect(
                code, f"--server={server.address}", f"--token-file={directory / who}.token",
                *words, **more)  # fmt: skip

        reserved = call(
            "caller", ACQUIRED, "reserve", *self.name(), f"--request-file={self.request}",
            "--output=json").json()  # fmt: skip
        token = "--fencing-token=" + reserved["lease"]["fencingToken"]
        call("caller", 0, "mark-unresolved", *self.name(), token)
        csv = ("namespace,scope,key,resolution\n" + ",".join((*self.name(), "abandoned"))).encode()
        command = ("resolve", "from-csv", "-", "--reason=export")
        denied = call("reader", REFUSED, *command, "--dry-run", stdin=csv)
        self.assertIn("ACCESS_DENIED", denied.out)
        self.assertIn("0 would be settled, 1 would not, of 1 line\n", denied.out)
        self.assertIn("ACCESS_DENIED", call("reader", REFUSED, *command, stdin=csv).out)
        allowed = call("reconciler", 0, *command, "--dry-run", stdin=csv)
        self.assertEqual(allowed.out, "1 would be settled, 0 would not, of 1 line\n")
        # Asking has settled nothing.
        self.assertIn("UNRESOLVED for", call("reader", 0, "explain", *self.name()).out)
        self.assertEqual(
            call("reconciler", 0, *command, stdin=csv).out, "1 settled, 0 not, of 1 line\n")

    def test_contract_show(self):
        shown = self.expect(0, "contract", "show", "payments")
        self.assertIn("payments, Example Acquirer", shown.out)
        self.assertIn("no new attempt: a person looks up what happened", shown.out)

    def test_completion_is_a_script_for_bash(self):
        script = self.expect(0, "completion", "bash").out
        completed = self.paste(
            "source /dev/stdin; COMP_WORDS=(idempotencyctl resolve not); COMP_CWORD=2;"
            " _idempotencyctl; echo ${COMPREPLY[@]}", stdin=script.encode())
        self.assertEqual(completed.out, "not-executed\n", completed.err)

    def test_completion_knows_the_same_words_in_every_shell(self):
        bash = self.expect(0, "completion", "bash").out
        zsh = self.expect(0, "completion", "zsh").out
        self.assertIn("bashcompinit", zsh)
        self.assertTrue(zsh.endswith(bash))
        fish = self.expect(0, "completion", "fish").out
        completions = [line for line in fish.splitlines() if line.startswith("complete -c")]
        for words in ("reserve ", "not-executed"):
            self.assertTrue(any(words in line for line in completions), words)
        self.assertNotEqual(self.ctl("completion", "csh").code, 0)

    def test_top_reads_the_servers_metrics(self):
        shown = self.expect(
            0, "top", f"--metrics={self.server.metrics}", "--interval=100ms", "--count=1")
        self.assertIn("alarms             none", shown.out)
        missing = self.expect(NO_ANSWER, "top", "--metrics=127.0.0.1:1")
        self.assertIn("--metrics_listen", missing.err)

    def test_nobody_there(self):
        result = self.expect(NO_ANSWER, "reserve", *self.name(), "--server=127.0.0.1:1")
        self.assertIn("Nothing was sent", result.err)
        self.assertIn("--attempt-id=", result.command("reserve"))

    def test_usage(self):
        self.expect(USAGE)
        self.expect(USAGE, "get", "payments")
        self.expect(USAGE, "reserve", *self.name(), "--request-file=/nowhere/x")
        self.expect(0, "--help")

    def test_output_that_is_not_taken_is_said(self):
        with open("/dev/full", "wb") as full:
            run = subprocess.run(
                [binary("IDEMPOTENCYCTL"), "version"], env=self.env, stdout=full,
                stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
        self.assertEqual(run.returncode, NOT_WRITTEN, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

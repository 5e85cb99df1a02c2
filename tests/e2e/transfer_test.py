#!/usr/bin/env python3
"""Moves all records from engine to engine, as an operator would: RocksDB, etcd, PostgreSQL, RocksDB.

The binaries are $IDEMPOTENCYD and $IDEMPOTENCYCTL; etcd and PostgreSQL are real ones on loopback.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "deploy"))
# pylint: disable=wrong-import-position
from service import PATIENCE_SECONDS, Service, binary
from stores import POSTGRES, Etcd, Postgres, free_port

CONFIG = """
namespaces:
  - name: payments
    settle_duration: 0s
    max_response_bytes: 2097152
  - name: brief
    retention: 1s
"""
REFUSED, NO_ANSWER, NOT_SERVING = 3, 4, 6
IN_PROGRESS, COMPLETED, UNRESOLVED, EXPIRED = 11, 12, 13, 15


class PlainEtcd(Etcd):
    """One member on loopback, without TLS."""

    def command(self):
        here, peers = (f"http://127.0.0.1:{port}" for port in (self.port, free_port()))
        return [
            "etcd", "--name=one", f"--data-dir={self.directory / 'data'}",
            f"--listen-client-urls={here}", f"--advertise-client-urls={here}",
            f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=one={peers}",
        ]  # fmt: skip

    def flags(self):
        return ["--engine=etcd", f"--etcd_endpoints=127.0.0.1:{self.port}"]


class PlainPostgres(Postgres):
    """A database on loopback, without TLS."""

    def take_certificate(self):
        pass

    def command(self):
        return [
            POSTGRES / "postgres", "-D", self.directory / "data", "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
        ]  # fmt: skip

    def flags(self):
        return [
            "--engine=postgres",
            f"--postgres_uri=postgresql://idempotency@127.0.0.1:{self.port}/idempotency",
        ]


class Files:
    """A store of our own, in files."""

    def __init__(self, directory):
        self.directory = directory

    def flags(self):
        return [f"--data_dir={self.directory}"]


class Server(Service):
    """An idempotencyd on loopback; what its tool is told comes first."""

    def __init__(self, root, store, *flags):
        directory = pathlib.Path(tempfile.mkdtemp(dir=root))
        (directory / "config.yaml").write_text(CONFIG, "utf-8")
        super().__init__(
            directory,
            ["--listen=127.0.0.1:0", f"--config={directory / 'config.yaml'}", *store.flags(), *flags],
            {"PGPASSWORD": Postgres.PASSWORD},
        )

    def reserve(self, key, *more, namespace="payments"):
        done = self.ctl(
            "reserve", namespace, "acct-1", key, "--fingerprint=sha256/bytes-1:" + "ab" * 32,
            "--output=json", *more,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout)

    def acquire(self, key, *more, namespace="payments"):
        code, answer = self.reserve(key, *more, namespace=namespace)
        assert code == 0, answer
        return int(answer["lease"]["fencingToken"])

    def must(self, verb, key, token, *more, namespace="payments"):
        done = self.ctl(verb, namespace, "acct-1", key, f"--fencing-token={token}", *more)
        assert done.returncode == 0, done.stderr

    def settle(self, verdict, key):
        done = self.ctl(
            "resolve", verdict, "payments", "acct-1", key, "--reason=a test", "--actor=ann"
        )
        assert done.returncode == 0, done.stderr


def documents(done):
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


class TransferTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="idempotency-transfer-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def _serve(self, store, *flags):
        server = Server(self.root, store, *flags)
        self.addCleanup(server.stop)
        return server

    def _store(self, kind):
        store = kind(None)
        self.addCleanup(store.stop)
        return store

    def _files(self, name):
        return Files(self.root / name)

    def _fill(self, server):
        """Operations in every state; the tokens that were given, by key."""
        tokens = {}
        for key in ("done", "failed", "unknown", "settled", "freed", "again"):
            tokens[key] = server.acquire(key)
        body = self.root / "body"
        body.write_bytes(b'{"paid":true}\x00')
        server.must(
            "complete", "done", tokens["done"], "--verdict=succeeded", "--http-status=200",
            f"--body-file={body}",
        )  # fmt: skip
        server.must("complete", "failed", tokens["failed"], "--verdict=failed", "--http-status=402")
        for key in ("unknown", "settled", "freed"):
            server.must("mark-unresolved", key, tokens[key], "--cause=timeout")
        server.settle("abandoned", "settled")
        server.settle("not-executed", "freed")
        server.must("release", "again", tokens["again"])
        tokens["again now"] = server.acquire("again", "--lease=10h")
        tokens["open"] = server.acquire("open", "--lease=10h")
        server.acquire("lapsed", "--lease=1s")
        lapsed = server.ctl(
            "get", "payments", "acct-1", "lapsed", "--exit-code", "--wait=60s"
        )
        self.assertEqual(lapsed.returncode, UNRESOLVED, lapsed.stderr)
        tokens["expired"] = server.acquire("expired", namespace="brief")
        server.must(
            "complete", "expired", tokens["expired"], "--verdict=succeeded", namespace="brief"
        )
        self._await(lambda: server.reserve("expired", namespace="brief")[0] == EXPIRED, server)
        return tokens

    def _await(self, holds, server):
        for _ in range(PATIENCE_SECONDS * 10):
            if holds():
                return
            try:
                server.process.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                continue
            break
        self.fail("it did not come to pass")

    def _answers(self, server):
        """What is known of every operation, but for what the moment of asking says."""
        answers = {}
        for namespace in ("payments", "brief"):
            listed = documents(
                server.ctl(
                    "list", namespace, "--output=json",
                    *(f"--state={state}" for state in
                      ("pending", "complete", "unresolved", "expired", "freed")),
                )
            )  # fmt: skip
            for operation in listed["operations"]:
                key = operation["id"]["key"]
                shown = documents(
                    server.ctl("inspect", namespace, "acct-1", key, "--output=json")
                )
                answers[namespace, key] = (
                    shown["operation"], shown["fencingToken"], shown["nextStep"],
                )  # fmt: skip
        return answers

    def _export(self, store, name):
        server = self._serve(store, "--transfer=export")
        exported = server.ctl("export", f"--to={self.root / name}", "--output=json")
        trailer = documents(exported)
        self.assertEqual(server.stop(), 0)
        return trailer

    def _import(self, store, name):
        server = self._serve(store, "--transfer=import")
        done = server.ctl("import", f"--from={self.root / name}", "--output=json")
        summary = documents(done)
        self.assertEqual(server.stop(), 0)
        return summary

    def _refused(self, store, *more):
        """What a start says that is refused."""
        done = subprocess.run(
            [binary("IDEMPOTENCYD"), "--listen=127.0.0.1:0", *store.flags(), *more],
            capture_output=True, timeout=PATIENCE_SECONDS, check=False,
            env={**os.environ, "PGPASSWORD": Postgres.PASSWORD},
        )  # fmt: skip
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def _retire(self, store, digest):
        """And takes nothing but that for an answer: the store is not served any more."""
        server = self._serve(store, "--transfer=export")
        words = ("retire", "--moved-to=the next one", "--output=json")
        wrong = base64.b64encode(bytes(32)).decode()
        refused = server.ctl(*words, f"--digest={wrong}", "--actor=ann")
        self.assertEqual(refused.returncode, REFUSED, refused.stderr)
        self.assertIn(base64.b64decode(digest).hex().encode(), refused.stderr)
        retirement = documents(server.ctl(*words, f"--digest={digest}", "--actor=ann"))
        self.assertEqual(retirement["movedTo"], "the next one")
        again = documents(server.ctl(*words, f"--digest={digest}", "--actor=bob"))
        self.assertEqual(again, retirement)
        # Whatever ends it, it is noted.
        server.process.kill()
        server.process.wait()
        for more in ([], ["--transfer=import"]):
            said = self._refused(store, *more)
            for word in (b"is retired since", b"by ann", b"the next one", b"--transfer=export"):
                self.assertIn(word, said)

    def test_from_engine_to_engine_and_back_every_answer_is_the_same(self):
        first = self._files("first")
        server = self._serve(first)
        tokens = self._fill(server)
        before = self._answers(server)
        self.assertEqual(len(before), 9)
        self.assertEqual(server.stop(), 0)

        trailers = []
        stores = [first, self._store(PlainEtcd), self._store(PlainPostgres), self._files("last")]
        for number, (source, target) in enumerate(zip(stores, stores[1:])):
            trailers.append(self._export(source, f"records-{number}"))
            summary = self._import(target, f"records-{number}")
            self.assertEqual(summary["progress"], {"written": "9"})
            self.assertEqual(summary["stored"], trailers[-1])
            self._retire(source, trailers[-1]["digest"])
        # However they were kept, they are the same.
        self.assertEqual(trailers[0], trailers[1])
        self.assertEqual(trailers[0], trailers[2])

        server = self._serve(stores[-1])
        self.assertEqual(self._answers(server), before)
        self.assertEqual(server.reserve("done")[0], COMPLETED)
        self.assertEqual(server.reserve("open")[0], IN_PROGRESS)
        self.assertEqual(server.reserve("unknown")[0], UNRESOLVED)
        # A token that was superseded stays so; the one that holds still does.
        stale = server.ctl(
            "complete", "payments", "acct-1", "again", f"--fencing-token={tokens['again']}",
            "--verdict=succeeded",
        )  # fmt: skip
        self.assertEqual(stale.returncode, REFUSED)
        self.assertIn(b"STALE_FENCING_TOKEN", stale.stderr)
        server.must("complete", "again", tokens["again now"], "--verdict=succeeded")
        self.assertGreater(server.acquire("new"), max(tokens.values()))
        self.assertEqual(server.stop(), 0)

    def test_a_server_that_was_forgotten_on_a_retired_store_refuses_until_that_is_taken_back(self):
        for kind in (PlainEtcd, PlainPostgres):
            with self.subTest(kind=str(kind)):
                self._forget_a_server_on(self._store(kind), f"of {kind.__name__}")

    def _forget_a_server_on(self, store, name):
        forgotten = self._serve(store)
        token = forgotten.acquire("open", "--lease=10h")
        digest = self._export(store, name)["digest"]
        server = self._serve(store, "--transfer=export")
        words = ("retire", "--moved-to=the next one", f"--digest={digest}", "--actor=ann")
        done = server.ctl(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        # It has not noticed yet, or it has: it writes nothing either way.
        self.assertEqual(forgotten.ctl(
            "reserve", "payments", "acct-1", "new", "--fingerprint=sha256/bytes-1:" + "ab" * 32,
            "--timeout=5s",
        ).returncode, NO_ANSWER)  # fmt: skip
        self._await(lambda: forgotten.ctl("health").returncode == NOT_SERVING, forgotten)
        report = ("complete", "payments", "acct-1", "open", f"--fencing-token={token}",
                  "--verdict=succeeded", "--timeout=5s")  # fmt: skip
        refused = forgotten.ctl(*report)
        self.assertEqual(refused.returncode, NO_ANSWER)
        self.assertIn(b"moved to another store", refused.stderr)
        told = lambda: [line for line in forgotten.lines() if line["event"] == "store_retired"]
        self._await(told, forgotten)
        self.assertIn("by ann", told()[0]["error"])
        # The records are still those that were moved.
        again = server.ctl(*words)
        self.assertEqual(again.returncode, 0, again.stderr)
        done = server.ctl("retire", "--undo", "--reason=called off", "--actor=ann")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(server.stop(), 0)
        self._await(lambda: forgotten.ctl("health").returncode == 0, forgotten)
        self.assertEqual(forgotten.ctl(*report).returncode, 0)
        self.assertEqual(forgotten.stop(), 0)

    def test_callers_are_told_to_come_back_while_records_are_moved(self):
        store = self._files("store")
        server = self._serve(store)
        token = server.acquire("open", "--lease=10h")
        self.assertEqual(server.ctl("export", f"--to={self.root / 'f'}").returncode, REFUSED)
        self.assertFalse((self.root / "f").exists())
        self.assertEqual(server.stop(), 0)
        server = self._serve(store, "--transfer=export")
        refused = server.ctl(
            "complete", "payments", "acct-1", "open", f"--fencing-token={token}",
            "--verdict=succeeded",
        )  # fmt: skip
        self.assertEqual(refused.returncode, NO_ANSWER)
        self.assertIn(b"being moved to another store", refused.stderr)
        self.assertEqual(server.ctl("get", "payments", "acct-1", "open").returncode, 0)
        self.assertEqual(server.ctl("health").returncode, NOT_SERVING)
        self.assertEqual(server.stop(), 0)

    def test_half_an_import_is_never_served_and_is_run_again(self):
        source = self._files("source")
        server = self._serve(source)
        server.must("complete", "done", server.acquire("done"), "--verdict=succeeded")
        self.assertEqual(server.stop(), 0)
        self._export(source, "records")
        whole = (self.root / "records").read_bytes()
        (self.root / "cut").write_bytes(whole[:-8])

        for kind in ("files", PlainEtcd, PlainPostgres):
            with self.subTest(kind=str(kind)):
                target = self._files("target") if kind == "files" else self._store(kind)
                self._import_a_part_then_all(target)

    def _import_a_part_then_all(self, target):
        server = self._serve(target, "--transfer=import")
        cut = server.ctl("import", f"--from={self.root / 'cut'}")
        self.assertEqual(cut.returncode, REFUSED, cut.stderr)
        self.assertIn(b"ends before its end", cut.stderr)
        # As it is, it ends without having been asked to.
        server.process.kill()
        server.process.wait()
        # Nor may it be read: what has not come yet would be called unknown.
        for more in ([], ["--transfer=export"]):
            self.assertIn(b"--transfer=import", self._refused(target, *more))

        summary = self._import(target, "records")
        self.assertEqual(summary["progress"]["present"], "1")
        server = self._serve(target)
        self.assertEqual(server.reserve("done")[0], COMPLETED)
        self.assertEqual(server.stop(), 0)

    def test_a_retired_store_is_so_in_its_backup_too_and_may_come_back(self):
        store = self._files("store")
        server = self._serve(store)
        server.must("complete", "done", server.acquire("done"), "--verdict=succeeded")
        refused = server.ctl("retire", f"--digest={'00' * 32}", "--moved-to=away", "--actor=ann")
        self.assertEqual(refused.returncode, REFUSED, refused.stderr)
        self.assertIn(b"--transfer=export", refused.stderr)
        self.assertEqual(server.stop(), 0)
        trailer = self._export(store, "records")
        self._retire(store, trailer["digest"])

        backups = self.root / "backups"
        server = self._serve(store, "--transfer=export", f"--backup_dir={backups}")
        done = server.ctl("backup")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(server.ctl("get", "payments", "acct-1", "done").returncode, 0)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(self._export(store, "again"), trailer)
        restored = self._files("restored")
        done = server.ctl(
            "restore", f"--backup-dir={backups}", f"--data-dir={restored.directory}"
        )
        self.assertEqual(done.returncode, 0, done.stderr)

        for retired in (store, restored):
            self.assertIn(b"is retired since", self._refused(retired))
            server = self._serve(retired, "--transfer=export")
            done = server.ctl("retire", "--undo", "--reason=called off", "--actor=ann")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.stop(), 0)
            server = self._serve(retired)
            self.assertEqual(server.reserve("done")[0], COMPLETED)
            self.assertEqual(server.stop(), 0)

    def test_a_body_that_etcd_does_not_take_is_left_out_only_where_that_is_said(self):
        source = self._files("source")
        server = self._serve(source)
        body = self.root / "body"
        body.write_bytes(b"x" * 1_500_000)
        server.must(
            "complete", "large", server.acquire("large"), "--verdict=succeeded",
            f"--body-file={body}",
        )  # fmt: skip
        self.assertEqual(server.stop(), 0)
        trailer = self._export(source, "records")
        target = self._store(PlainEtcd)
        server = self._serve(target, "--transfer=import")
        words = ("import", f"--from={self.root / 'records'}", "--output=json")
        refused = server.ctl(*words)
        self.assertEqual(refused.returncode, REFUSED, refused.stderr)
        self.assertIn(b"--omit-large-bodies", refused.stderr)
        summary = documents(server.ctl(*words, "--omit-large-bodies"))
        self.assertEqual(summary["progress"], {"written": "1", "bodiesOmitted": "1"})
        self.assertEqual(summary["stored"]["counts"], trailer["counts"])
        self.assertNotEqual(summary["stored"]["digest"], trailer["digest"])
        self.assertEqual(server.stop(), 0)
        code, answer = self._serve(target).reserve("large")
        self.assertEqual(code, COMPLETED)
        self.assertEqual(answer["nextStep"], "NEXT_STEP_LOOK_UP_ANSWER")

    def test_a_store_with_other_operations_is_left_as_it_is(self):
        for name in ("source", "target"):
            server = self._serve(self._files(name))
            server.acquire(f"of {name}", "--lease=10h")
            self.assertEqual(server.stop(), 0)
        self._export(self._files("source"), "records")
        server = self._serve(self._files("target"), "--transfer=import")
        for more in ([], ["--dry-run"]):
            refused = server.ctl("import", f"--from={self.root / 'records'}", *more)
            self.assertEqual(refused.returncode, REFUSED, refused.stderr)
            self.assertIn(b"not empty", refused.stderr)
        self.assertEqual(server.stop(), 0)
        server = self._serve(self._files("target"))
        self.assertEqual(server.reserve("of target")[0], IN_PROGRESS)
        listed = documents(server.ctl("list", "payments", "--output=json"))
        self.assertEqual(len(listed["operations"]), 1)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    os.environ.pop("IDEMPOTENCY_SERVER", None)
    unittest.main(verbosity=2)

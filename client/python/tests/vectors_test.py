#!/usr/bin/python3
"""tests/vectors/*.json, all of them: what every client has to agree on."""

from __future__ import annotations

import json
import pathlib
import unittest
from datetime import timedelta
from typing import Any, Iterator

import idempotency as i
from google.protobuf import descriptor_pool
from google.protobuf import (  # noqa: F401 (the types of the rows)
    any_pb2, api_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2,
)  # fmt: skip
from idempotency import _canonical_proto, http_edge
from idempotency._acquire import _stopped_by
from idempotency.policies import SystemEnvironment

from protocol_test import RunStory

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "vectors"
Json = dict[str, Any]


def load(name: str) -> Json:
    loaded: Json = json.loads((VECTORS / name).read_text("utf-8"))
    return loaded


def fingerprint(row: Json) -> i.Fingerprint:
    method, resource = row["method"], row["resource"]
    key = None
    if "secret_hex" in row:
        key = i.FingerprintKey(bytes.fromhex(row["secret_hex"]), row.get("key_id", ""))
    if row["form"] == "bytes-1":
        return i.fingerprint_bytes(method, resource, bytes.fromhex(row["body_hex"]), key=key)
    if row["form"] == "jcs-1":
        return i.fingerprint_json(method, resource, json_of(row), exclude=row["exclude"], key=key)
    message = message_of(row)
    return i.fingerprint_message(method, resource, message, exclude=row["exclude"], key=key)


def json_of(row: Json) -> bytes:
    return bytes.fromhex(row["json_hex"]) if "json_hex" in row else row["json"].encode()


def message_of(row: Json) -> Any:
    descriptor = descriptor_pool.Default().FindMessageTypeByName(row["type"])
    message = _canonical_proto._class_of(descriptor)()
    message.MergeFromString(bytes.fromhex(row["wire_hex"]))
    return message


class FingerprintVectors(unittest.TestCase):
    def test_each_row(self) -> None:
        for row in load("fingerprints.json")["rows"]:
            with self.subTest(row["name"], row=row):
                if row.get("refused"):
                    self.assertRaises(i.InvalidFingerprint, fingerprint, row)
                    continue
                found = fingerprint(row)
                self.assertEqual((found.algorithm, found.digest.hex()), (row["algorithm"], row["digest_hex"]))
                if "canonical" in row:
                    self.assertEqual(i.canonical_json(json_of(row), row["exclude"]).decode(), row["canonical"])
                if "content_hex" in row:
                    content = _canonical_proto.canonical_message(message_of(row), row["exclude"])
                    self.assertEqual(content.hex(), row["content_hex"])

    def test_same_and_different(self) -> None:
        vectors = load("fingerprints.json")
        rows = {row["name"]: row for row in vectors["rows"]}
        for names in vectors["same"]:
            self.assertEqual(len({fingerprint(rows[name]).digest for name in names}), 1, names)
        for names in vectors["different"]:
            digests = [fingerprint(rows[name]).digest for name in names]
            self.assertEqual(len(set(digests)), len(names), names)

    def test_what_keys_and_texts_may_be(self) -> None:
        for secret, id in ((b"short", ""), (b"s" * 16, "x" * 25), (b"s" * 16, "not this")):
            self.assertRaises(i.InvalidFingerprint, i.FingerprintKey, secret, id)
        # A lone surrogate in a str is no UTF-8, however it got there.
        self.assertRaises(i.InvalidFingerprint, i.canonical_json, '"\ud800"')


class KeyVectors(unittest.TestCase):
    def test_provider_keys(self) -> None:
        for row in load("provider_keys.json")["provider_keys"]:
            with self.subTest(row["name"]):
                id = i.OperationId(row["namespace"], row["scope"], row["key"])
                self.assertEqual(i.provider_key(id), row["provider_key"])

    def test_derived_keys(self) -> None:
        for row in load("provider_keys.json")["derived_keys"]:
            with self.subTest(row["name"]):
                self.assertEqual(i.derive_key(row["domain_label"], row["business_id"]), row["key"])

    def test_random_keys_differ(self) -> None:
        self.assertRegex(i.random_key(), "^[0-9a-f]{32}$")
        self.assertNotEqual(i.random_key(), i.random_key())
        self.assertNotEqual(SystemEnvironment().random_id(), SystemEnvironment().random_id())


class ClassificationVectors(unittest.TestCase):
    def classify(self, row: Json, status: int | None) -> i.Classification:
        response = None
        if status is not None or "grpc_code" in row or row.get("answer"):
            headers = tuple((k, v.encode()) for k, v in row.get("headers", {}).items())
            response = i.CachedResponse(
                http_status=status, grpc_code=row.get("grpc_code"), metadata=headers
            )
        code = row.get("error_code", 0)
        result = i.EffectResult(
            response=response,
            error=i.EffectError(i.StatusCode(code)) if code else None,
            provider_code=row.get("provider_code"),
            retry_after=timedelta(milliseconds=row["retry_after_ms"]) if "retry_after_ms" in row else None,
            attempt=row.get("attempt", 1),
            certainty=i.Certainty[row.get("certainty", "CLASSIFY")],
        )
        tables = {"grpc": i.classify_grpc, "http": i.classify_http}
        classifier = row["classifier"]
        classify = tables.get(classifier) or i.classifier_for(i.find_provider(classifier))
        return classify(result)

    def test_each_row(self) -> None:
        for row in load("classification.json")["rows"]:
            first, last = row.get("http_status", (None, None))
            for status in [None] if first is None else range(first, last + 1):
                with self.subTest(row["name"], status=status):
                    found = self.classify(row, status)
                    self.assertEqual(found.disposition.name, row["means"])
                    if row["means"] == "UNKNOWN":
                        self.assertEqual(found.cause.name, row["cause"])
                        self.assertEqual(found.reconcile_first, row["reconcile_first"])

    def test_every_profile_is_there(self) -> None:
        contracts = VECTORS.parents[1] / "client" / "contracts"
        self.assertEqual(i.provider_names(), sorted(path.stem for path in contracts.glob("*.json")))
        stripe = i.find_provider("stripe-v1")
        self.assertEqual((stripe.key_place, stripe.key_field), ("header", "Idempotency-Key"))
        self.assertEqual(stripe.protection_window, timedelta(hours=23))


class NextStepVectors(unittest.TestCase):
    def response(self, row: Json) -> i.ReserveResponse:
        def number(kind: type, value: Any) -> Any:
            return kind[value] if isinstance(value, str) else kind.of(value)  # type: ignore

        answer = row.get("response")
        cached = None
        if answer is not None:
            body = answer["body"].encode() if "body" in answer else None
            cached = i.CachedResponse(answer.get("http_status"), answer.get("grpc_code"), body=body)
        outcome = number(i.ReserveOutcome, row["outcome"])
        granted = outcome in (i.ReserveOutcome.ACQUIRED, i.ReserveOutcome.ALREADY_HELD)
        id = i.OperationId("careful", "acct_1", "k")
        operation = i.Operation(
            id, verdict=i.Verdict[row.get("verdict", "UNSPECIFIED")], response=cached
        )
        return i.ReserveResponse(
            outcome=outcome,
            next_step=number(i.NextStep, row["next_step"]),
            lease=RunStory.lease() if granted else None,
            operation=None if row["outcome"] == "TOO_OLD" else operation,
            retry_after=timedelta(milliseconds=row["retry_after_ms"]) if "retry_after_ms" in row else None,
        )

    def test_names_and_numbers(self) -> None:
        vectors = load("next_steps.json")
        for kind, rows in ((i.NextStep, "next_steps"), (i.ReserveOutcome, "outcomes")):
            known = [(value.name, value.value) for value in kind]
            self.assertEqual(known, [(row["name"], row["number"]) for row in vectors[rows]])

    def test_what_a_run_that_does_not_wait_does_with_each(self) -> None:
        for row in load("next_steps.json")["rows"]:
            with self.subTest(row["name"]):
                answered = self.response(row)
                story = RunStory(answers={"Reserve": [answered]}, wait=timedelta(0))
                result = story.run()
                stop = i.StopReason[row["stop"]] if row["stop"] else None
                self.assertEqual(result.stop, stop)
                self.assertEqual(result.replayed, row["action"] == "return_response")
                self.assertEqual(story.sleeps, [])
                if row["may_start"]:
                    self.assertEqual(story.called, 1)
                    self.assertEqual(story.methods, ["Reserve", "Complete"])
                    self.assertEqual(result.response, i.CachedResponse(grpc_code=0, body=b"done"))
                    continue
                self.assertEqual(story.called, 0)
                self.assertEqual(story.methods, ["Reserve"])
                # One that is not known is STOP.
                known = isinstance(row["next_step"], str)
                self.assertIs(result.next_step, answered.next_step if known else i.NextStep.STOP)
                self.assertIs(result.verdict, i.Verdict[row.get("verdict", "UNSPECIFIED")])
                self.assertEqual(result.retry_after, answered.retry_after)
                kept = answered.operation.response if answered.operation else None
                response = (kept or i.CachedResponse()) if result.has_answer else None
                self.assertEqual(result.response, response)

    def test_asking_again_under_a_new_id_where_the_row_says_so_and_only_there(self) -> None:
        for row in load("next_steps.json")["rows"]:
            with self.subTest(row["name"]):
                story = RunStory(answers={"Reserve": [self.response(row), RunStory.acquired()]})
                result = story.run()
                ids = [call.attempt_id for call in story.sent("Reserve")]
                self.assertEqual(len(set(ids)), len(ids))
                if row["new_attempt_id"]:
                    self.assertEqual(len(ids), 2)
                    self.assertTrue(result.has_answer)
                    [slept] = story.sleeps
                    self.assertGreaterEqual(slept, row["retry_after_ms"] / 1000)
                else:
                    self.assertEqual(len(ids), 1)
                    self.assertEqual(result.stop and result.stop.name, row["stop"])

    def test_what_is_answered_over_http(self) -> None:
        for row in load("next_steps.json")["rows"]:
            with self.subTest(row["name"]):
                answer = http_edge.answer_reserve(self.response(row))
                if row["http"] is None:
                    self.assertIsNone(answer)
                else:
                    HttpEdgeVectors.check(self, answer, row["http"])

    def test_a_step_of_the_future_is_stop(self) -> None:
        unknown = i.ReserveResponse(i.ReserveOutcome.of(99), i.NextStep.of(99))
        self.assertEqual(_stopped_by(unknown).next_step, i.NextStep.STOP)


class ConformanceVectors(unittest.TestCase):
    def test_the_service_itself_gives_every_reason(self) -> None:
        played = {
            (scenario["name"], number)
            for scenario in load("conformance.json")["scenarios"]
            for number, step in enumerate(scenario["steps"])
            if any(fault["kind"] == "refuse" for fault in step.get("faults", ()))
        }
        lines = (VECTORS / "conformance_trace.jsonl").read_text("utf-8").splitlines()
        given = set()
        for line in map(json.loads, lines):
            if (line["scenario"], line["step"]) not in played:
                given |= set(self.reasons(line))
        self.assertEqual(given, {reason.name for reason in i.ErrorReason if reason.value})

    def reasons(self, seen: Any) -> Iterator[str]:
        if isinstance(seen, dict) and seen.get("reason"):
            yield seen["reason"]
        for value in seen.values() if isinstance(seen, dict) else seen if isinstance(seen, list) else ():
            yield from self.reasons(value)


class HttpEdgeVectors(unittest.TestCase):
    @staticmethod
    def check(test: unittest.TestCase, answer: http_edge.HttpAnswer | None, row: Json) -> None:
        assert answer is not None
        headers = dict(answer.headers)
        test.assertEqual(answer.status, row["status"])
        test.assertEqual(headers.get("Idempotency-Replayed") == b"true", row.get("replayed", False))
        retry_after = headers.get("Retry-After")
        test.assertEqual(int(retry_after) if retry_after else None, row.get("retry_after"))
        if "problem" in row:
            document = json.loads(answer.body or b"")
            test.assertTrue(document["type"].endswith("/" + row["problem"]), document)
            test.assertEqual(headers["Content-Type"], b"application/problem+json")

    def test_key_fields(self) -> None:
        for row in load("http_edge.json")["key_fields"]:
            with self.subTest(row["name"]):
                field = http_edge.parse_key_field(
                    row["values"],
                    max_bytes=row.get("max_bytes", 255),
                    allow_raw=row.get("allow_raw", True),
                )
                found = field.problem.name if field.problem else None
                self.assertEqual((field.key, found), (row.get("key", ""), row.get("problem")))

    def test_key_problems(self) -> None:
        for row in load("http_edge.json")["key_problems"]:
            with self.subTest(row["name"]):
                self.check(self, http_edge.answer_key_problem(http_edge.KeyProblem[row["name"]]), row)

    def test_runs(self) -> None:
        for row in load("http_edge.json")["runs"]:
            with self.subTest(row["name"]):
                refusal = None
                if "refusal" in row:
                    reason = i.ErrorReason[row["refusal"]["reason"]]
                    refusal = i.Refusal(reason, row["refusal"]["field"])
                result = i.RunResult(
                    response=i.CachedResponse(http_status=row["response"]["http_status"])
                    if row.get("response")
                    else None,
                    verdict=i.Verdict[row.get("verdict", "UNSPECIFIED")],
                    replayed=row.get("replay", False),
                    stop=i.StopReason[row["stop"]] if row["stop"] else None,
                    retry_after=timedelta(milliseconds=row["retry_after_ms"])
                    if "retry_after_ms" in row
                    else None,
                    refusal=refusal,
                )
                self.check(self, http_edge.answer_run(result), row)

    def test_no_header_can_begin_another(self) -> None:
        response = i.CachedResponse(
            http_status=200,
            content_type="text/plain\r\nX-Evil: 1",
            metadata=(("X-Evil", b"1\r\nSet-Cookie: a"), ("Connection", b"close"), ("X-Good", b"\xff")),
        )
        answer = http_edge.answer_run(i.RunResult(response=response))
        self.assertEqual(answer.headers, (("X-Good", b"\xff"),))


if __name__ == "__main__":
    unittest.main()

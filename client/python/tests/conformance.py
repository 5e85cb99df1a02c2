#!/usr/bin/python3
"""Runs tests/vectors/conformance.json against a service of its own, and prints the trace, a line of
JSON for each step (tests/vectors/README.md says what the script and the trace mean).

    IDEMPOTENCYD=build/release/bin/idempotencyd PYTHONPATH=client/python/src \\
      /usr/bin/python3 client/python/tests/conformance.py [--client=sync|aio] [--scenario=NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import pathlib
import sys
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import idempotency as i
from service import PATIENCE_SECONDS, Service

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "vectors"
Json = dict[str, Any]


class Thrown(Exception):
    """What an effect throws where its step says so."""


def millis(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(milliseconds=value)


# --- Faults ---------------------------------------------------------------------------------------


class Faults:
    """What becomes of the calls of one run; notes them, too."""

    def __init__(self, faults: list[Json]) -> None:
        self._left = [dict(fault) for fault in faults]
        self.calls: list[str] = []

    def next(self, method: str) -> Json:
        if method != "Renew":
            self.calls.append(method)
        for fault in self._left:
            if fault["method"] == method and fault["times"] > 0:
                fault["times"] -= 1
                return fault
        return {"kind": None}

    @staticmethod
    def failure(fault: Json) -> i.CallError:
        if fault["kind"] != "refuse":
            return i.CallError(i.StatusCode.UNAVAILABLE, fault["kind"])
        code = i.StatusCode[fault["code"]]
        if "reason" not in fault:
            return i.CallError(code, "refused")
        refusal = i.Refusal(i.ErrorReason[fault["reason"]], "", millis(fault.get("retry_after_ms")))
        return i.CallError(code, "refused", refusal)


class SyncFaulty:
    def __init__(self, inner: i.Connection, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    def call(self, request: Any, options: Any = i.CallOptions(), /) -> Any:
        fault = self._faults.next(request.METHOD)
        if fault["kind"] in (None, "lose_reply"):
            answer = self._inner.call(request, options)
            if fault["kind"] is None:
                return answer
        raise Faults.failure(fault)

    def start(self, request: Any, options: Any, done: Any, /) -> Any:
        fault = self._faults.next(request.METHOD)
        if fault["kind"] is None:
            return self._inner.start(request, options, done)
        if fault["kind"] == "lose_reply":
            return self._inner.start(request, options, lambda _: done(Faults.failure(fault)))
        done(Faults.failure(fault))
        return self

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


class AsyncFaulty:
    def __init__(self, inner: i.AsyncConnection, faults: Faults) -> None:
        self._inner, self._faults = inner, faults

    async def call(self, request: Any, options: Any = i.CallOptions(), /) -> Any:
        fault = self._faults.next(request.METHOD)
        if fault["kind"] in (None, "lose_reply"):
            answer = await self._inner.call(request, options)
            if fault["kind"] is None:
                return answer
        raise Faults.failure(fault)

    async def close(self) -> None:
        pass


# --- The two clients, both driven from one loop ---------------------------------------------------


class SyncClients:
    def __init__(self, address: str, tokens: Json) -> None:
        self._connections = {
            name: i.GrpcConnection(i.ConnectionOptions(address, bearer_token=lambda t=token: t))
            for name, token in tokens.items()
        }

    async def call(self, by: str, request: Any, options: Any) -> Any:
        return await asyncio.to_thread(self._connections[by].call, request, options)

    async def run(self, by: str, faults: Faults, request: Any, effect: Any, options: Any) -> Any:
        loop = asyncio.get_running_loop()

        class Face:
            """Of a sync attempt, for an effect that is a coroutine."""

            def __init__(self, attempt: i.Attempt) -> None:
                self.attempt = attempt

            async def dispatch(self) -> None:
                await asyncio.to_thread(self.attempt.dispatch)

            async def save_progress(self, progress: bytes) -> None:
                await asyncio.to_thread(self.attempt.save_progress, progress)

        def blocking(attempt: i.Attempt) -> Any:
            work = effect(attempt, Face(attempt))
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        with i.Client(SyncFaulty(self._connections[by], faults)) as client:
            return await asyncio.to_thread(client.run, request, blocking, options)

    async def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class AsyncClients:
    def __init__(self, address: str, tokens: Json) -> None:
        self._connections = {
            name: i.AsyncGrpcConnection(i.ConnectionOptions(address, bearer_token=lambda t=token: t))
            for name, token in tokens.items()
        }

    async def call(self, by: str, request: Any, options: Any) -> Any:
        return await self._connections[by].call(request, options)

    async def run(self, by: str, faults: Faults, request: Any, effect: Any, options: Any) -> Any:
        async with i.AsyncClient(AsyncFaulty(self._connections[by], faults)) as client:
            return await client.run(request, lambda attempt: effect(attempt, attempt), options)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()


# --- From the script ------------------------------------------------------------------------------


def response_of(data: Json | None) -> i.CachedResponse | None:
    if data is None:
        return None
    body = data["body"].encode() if "body" in data else None
    if "body_repeat" in data:
        body = bytes.fromhex(data["body_repeat"]["hex"]) * data["body_repeat"]["times"]
    return i.CachedResponse(
        http_status=data.get("http_status"),
        grpc_code=data.get("grpc_code"),
        status_message=data.get("status_message", ""),
        content_type=data.get("content_type", ""),
        metadata=tuple((name, bytes.fromhex(value)) for name, value in data.get("metadata", ())),
        body=body,
        body_omitted=data.get("body_omitted", False),
        body_size=int(data.get("body_size", 0)),
    )


def fingerprint_of(step: Json) -> i.Fingerprint | None:
    request = step.get("request", "charge 100")
    if request is None:
        return None
    return i.fingerprint_bytes("POST", "/v1/charges", request.encode())


def effect_result(data: Json) -> i.EffectResult:
    more = {
        "provider_request_id": data.get("provider_request_id", ""),
        "provider_code": data.get("provider_code"),
        "retry_after": millis(data.get("retry_after_ms")),
    }
    if "answer" in data:
        return i.EffectResult.answered(response_of(data["answer"]) or i.CachedResponse(), **more)
    kind = "error" if "error" in data else "nothing_happened"
    make = i.EffectResult.failed if kind == "error" else i.EffectResult.nothing_happened
    return make(i.StatusCode[data[kind]["code"]], data[kind]["message"], **more)


def classifier_of(name: str) -> i.Classifier:
    tables = {"grpc": i.classify_grpc, "http": i.classify_http}
    return tables.get(name) or i.classifier_for(i.find_provider(name))


# --- To the trace ---------------------------------------------------------------------------------


def name(value: Any) -> str | None:
    return value.name if value else None


def show_response(response: i.CachedResponse | None) -> Json | None:
    if response is None:
        return None
    body = response.body
    return {
        "http_status": response.http_status,
        "grpc_code": response.grpc_code,
        "status_message": response.status_message,
        "content_type": response.content_type,
        "metadata": [[key, value.hex()] for key, value in response.metadata],
        "body": None
        if body is None
        else {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()},
        "body_omitted": response.body_omitted,
        "body_size": str(response.body_size),
        "metadata_omitted": response.metadata_omitted,
    }


def show_operation(operation: i.Operation | None) -> Json | None:
    if operation is None:
        return None
    fingerprint = operation.fingerprint
    return {
        "state": name(operation.state),
        "attempt": operation.attempt,
        "dispatched": operation.dispatched,
        "verdict": name(operation.verdict),
        "cause": name(operation.unresolved_cause),
        "provider_request_id": operation.provider_request_id,
        "operation_ref": operation.owner.operation_ref,
        "labels": dict(operation.labels),
        "fingerprint": fingerprint.algorithm if fingerprint else None,
        "digest": bool(fingerprint and fingerprint.digest),
        "response": show_response(operation.response),
    }


def show_hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def show_error(error: i.CallError) -> Json:
    refusal = error.refusal
    return {
        "code": error.code.name,
        "reason": refusal.reason.name if refusal else None,
        "field": refusal.field if refusal else "",
        "retry_after": bool(refusal and refusal.retry_after is not None),
    }


def show_result(result: i.RunResult) -> Json:
    refusal, error = result.refusal, result.effect_error
    return {
        "stop": name(result.stop),
        "next_step": name(result.next_step),
        "verdict": name(result.verdict),
        "replayed": result.replayed,
        "response": show_response(result.response),
        "refusal": {"reason": refusal.reason.name, "field": refusal.field} if refusal else None,
        "effect_error": {"code": error.code.name, "message": error.message} if error else None,
        "record_open": result.record_open,
        "unprotected": result.unprotected,
        "retry_after": result.retry_after is not None,
        "state": name(result.operation.state) if result.operation else None,
    }


# --- One scenario ---------------------------------------------------------------------------------


class Scenario:
    def __init__(self, clients: Any, number: int, data: Json, emit: Callable[[Json], None]) -> None:
        self._clients, self._number, self._data, self._emit = clients, number, data, emit
        self._leases: dict[str, int] = {}
        self._attempts: dict[str, str] = {}
        self._tokens: list[int] = []
        self._background: dict[str, tuple[int, Json, asyncio.Task[Json]]] = {}

    async def play(self) -> None:
        for number, step in enumerate(self._data["steps"]):
            if step["do"] == "join":
                number, step, task = self._background.pop(step["background"])
                self._line(number, step, await task)
            elif "background" in step:
                task = asyncio.ensure_future(self._do(number, step))
                self._background[step["background"]] = (number, step, task)
            else:
                self._line(number, step, await self._do(number, step))

    def _line(self, number: int, step: Json, seen: Json) -> None:
        shown = {key: self._number_tokens(value) for key, value in seen.items()}
        self._emit({"scenario": self._data["name"], "step": number, "do": step["do"], **shown})

    def _number_tokens(self, value: Any) -> Any:
        """Which of the different tokens it is, in the order in which the trace shows them."""
        if not isinstance(value, dict) or not isinstance(value.get("token"), int):
            return value
        if value["token"] not in self._tokens:
            self._tokens.append(value["token"])
        return {**value, "token": self._tokens.index(value["token"]) + 1}

    async def _do(self, number: int, step: Json) -> Json:
        if step["do"] == "run":
            return await self._run(number, step)
        try:
            return await getattr(self, "_" + step["do"])(step)
        except i.CallError as error:
            return {"error": show_error(error)}

    def _id(self, step: Json) -> i.OperationId:
        namespace = step.get("namespace", self._data.get("namespace", "careful"))
        key = step.get("key", self._data["name"])
        # Scenarios share a server, unless they have one of their own.
        if key and "server" not in self._data:
            key = f"{key}/{self._number}"
        return i.OperationId(namespace, step.get("scope", "acct_1"), key)

    def _token(self, step: Json) -> int:
        return self._leases[step["lease"]] if "lease" in step else step["token"]

    async def _call(self, step: Json, request: Any) -> Any:
        timeout = timedelta(seconds=PATIENCE_SECONDS)
        return await self._clients.call(step.get("by", "all"), request, i.CallOptions(timeout))

    @staticmethod
    def _show_lease(step: Json, lease: i.Lease | None) -> Json | None:
        if lease is None:
            return None
        live = None if "lease_ms" in step else lease.remaining > timedelta(0)
        return {
            "attempt": lease.attempt,
            "token": lease.fencing_token,
            "live": live,
            "progress_hex": show_hex(lease.progress),
        }

    def _reserve_request(self, step: Json) -> i.ReserveRequest:
        attempt_id = step.get("attempt_id") or self._attempts.setdefault(
            step["attempt"], os.urandom(16).hex()
        )
        return i.ReserveRequest(
            id=self._id(step),
            attempt_id=attempt_id,
            fingerprint=fingerprint_of(step),
            lease_duration=millis(step.get("lease_ms")),
            wait_duration=timedelta(milliseconds=step.get("wait_ms", 0)),
            owner=i.Owner(operation_ref=step.get("operation_ref", "")),
            labels=step.get("labels", {}),
            operation_age=millis(step.get("operation_age_ms")),
            dispatch_later=step.get("dispatch_later", False),
            start_over=step.get("start_over", False),
        )

    async def _reserve(self, step: Json) -> Json:
        answer = await self._call(step, self._reserve_request(step))
        if "save" in step and answer.lease is not None:
            self._leases[step["save"]] = answer.lease.fencing_token
        return {
            "outcome": name(answer.outcome),
            "next_step": name(answer.next_step),
            "retry_after": answer.retry_after is not None,
            "lease": self._show_lease(step, answer.lease),
            "operation": show_operation(answer.operation),
        }

    async def _renew(self, step: Json) -> Json:
        progress = bytes.fromhex(step["progress_hex"]) if "progress_hex" in step else None
        answer = await self._call(
            step,
            i.RenewRequest(
                self._id(step),
                self._token(step),
                millis(step.get("lease_ms")),
                progress,
                step.get("dispatched", False),
            ),
        )
        return {"lease": self._show_lease(step, answer.lease)}

    async def _complete(self, step: Json) -> Json:
        answer = await self._call(
            step,
            i.CompleteRequest(
                id=self._id(step),
                fencing_token=self._token(step),
                verdict=i.Verdict[step["verdict"]],
                response=response_of(step.get("response")),
                provider_request_id=step.get("provider_request_id", ""),
            ),
        )
        return {
            "operation": show_operation(answer.operation),
            "already_complete": answer.already_complete,
        }

    async def _release(self, step: Json) -> Json:
        request = i.ReleaseRequest(self._id(step), self._token(step), step.get("detail", ""))
        return {"state": name((await self._call(step, request)).state)}

    @staticmethod
    def _show_next(answer: Any) -> Json:
        return {
            "operation": show_operation(answer.operation),
            "next_step": name(answer.next_step),
            "retry_after": answer.retry_after is not None,
        }

    async def _mark_unresolved(self, step: Json) -> Json:
        request = i.MarkUnresolvedRequest(
            id=self._id(step),
            fencing_token=self._token(step),
            cause=i.UnresolvedCause[step["cause"]],
            detail=step.get("detail", ""),
            provider_request_id=step.get("provider_request_id", ""),
            retry_after=millis(step.get("retry_after_ms")),
            reconcile_first=step.get("reconcile_first", False),
        )
        return self._show_next(await self._call(step, request))

    async def _get(self, step: Json) -> Json:
        wait = timedelta(milliseconds=step.get("wait_ms", 0))
        request = i.GetOperationRequest(self._id(step), wait, fingerprint_of(step))
        return self._show_next(await self._call(step, request))

    async def _resolve(self, step: Json) -> Json:
        request = i.ResolveRequest(
            id=self._id(step),
            resolution=i.Resolution[step["resolution"].upper()],
            actor=step["actor"],
            reason=step["reason"],
            verdict=i.Verdict[step.get("verdict", "SUCCEEDED")],
            response=response_of(step.get("response")),
            provider_request_id=step.get("provider_request_id", ""),
            etag=step.get("etag", ""),
        )
        return {"operation": show_operation(await self._call(step, request))}

    async def _list(self, step: Json) -> Json:
        id = self._id(step)
        states = tuple(i.OperationState[state] for state in step.get("states", ()))
        request = i.ListOperationsRequest(id.namespace, key_prefix=id.key, states=states)
        found = sorted((await self._call(step, request)).operations, key=lambda o: o.id.key)
        return {"operations": [show_operation(operation) for operation in found]}

    async def _batch(self, step: Json) -> Json:
        commands = tuple(self._reserve_request(command) for command in step["commands"])
        results = (await self._call(step, i.BatchRequest(commands))).results
        return {"results": [self._show_result(result) for result in results]}

    @staticmethod
    def _show_result(result: i.ReserveResponse | i.CallError) -> Json:
        if isinstance(result, i.CallError):
            return {"error": show_error(result)}
        return {"outcome": name(result.outcome), "next_step": name(result.next_step)}

    async def _await(self, step: Json) -> Json:
        # GetOperation itself waits while an operation is pending.
        request = i.GetOperationRequest(self._id(step), timedelta(milliseconds=100))
        for _ in range(100_000):
            state = name((await self._call(step, request)).operation.state)
            if state == step["state"]:
                return {"state": state}
        raise AssertionError(f"never {step['state']}: {self._data['name']}")

    async def _run(self, number: int, step: Json) -> Json:
        faults = Faults(step.get("faults", []))
        seen: Json = {"calls": faults.calls, "called": 0, "looked_up": 0, "attempt": None}

        def look_up(operation: i.Operation) -> i.LookUp:
            seen["looked_up"] += 1
            data = step["look_up"]
            return i.LookUp(
                found=i.Found[data["found"]],
                verdict=i.Verdict[data.get("verdict", "SUCCEEDED")],
                response=response_of(data.get("response")),
                provider_request_id=data.get("provider_request_id", ""),
                evidence=data.get("evidence", ""),
            )

        async def effect(attempt: Any, face: Any) -> i.EffectResult:
            seen["called"] += 1
            seen["attempt"] = {
                "number": attempt.number,
                "token": attempt.fencing_token or None,
                "provider_key": attempt.provider_key,
                "progress_hex": show_hex(attempt.progress),
            }
            self._leases["run"] = attempt.fencing_token
            return await self._effect(number, step["effect"], face)

        options = i.RunOptions(
            classify=classifier_of(step.get("classifier", "grpc")),
            look_up=look_up if "look_up" in step else None,
            reconciler=step.get("reconciler", ""),
            renew=step.get("renew", True),
            retry=i.RetryPolicy(timedelta(milliseconds=step.get("retry_total_ms", 10_000))),
            settle_retry=i.RetryPolicy(timedelta(milliseconds=step.get("settle_total_ms", 10_000))),
            backoff=i.BackoffPolicy(timedelta(milliseconds=1), timedelta(milliseconds=10)),
            allow_unprotected=step.get("allow_unprotected", False),
        )
        request = self._request(step)
        try:
            by = step.get("by", "all")
            result = await self._clients.run(by, faults, request, effect, options)
        except Thrown:
            return {**seen, "raised": True, "result": None}
        return {**seen, "raised": False, "result": show_result(result)}

    def _request(self, step: Json) -> i.RunRequest:
        age = millis(step.get("operation_age_ms"))
        return i.RunRequest(
            id=self._id(step),
            fingerprint=fingerprint_of(step),
            first_sent=None if age is None else datetime.now(timezone.utc) - age,
            lease_duration=millis(step.get("lease_ms")),
            wait=timedelta(milliseconds=step.get("wait_ms", 20_000)),
            call_timeout=millis(step.get("call_timeout_ms")),
            dispatch_later=step.get("dispatch_later", False),
            start_over=step.get("start_over", False),
        )

    async def _effect(self, number: int, data: Json, face: Any) -> i.EffectResult:
        if "save_progress_hex" in data:
            await face.save_progress(bytes.fromhex(data["save_progress_hex"]))
        for inner in data.get("during", []):
            self._line(number, inner, await self._do(number, inner))
        if data.get("dispatch"):
            await face.dispatch()
        if data.get("throw"):
            raise Thrown
        return effect_result(data)


def service_of(script: Json, server: Json) -> Service:
    """server: of a scenario that has one of its own."""
    config = {**script["config"], **server.get("config", {})}
    store = VECTORS / server["store"] if "store" in server else None
    return Service(config, script["tokens"], server.get("flags", ()), store)


async def play(script: Json, kind: str, address: str, only: str | None, emit: Any) -> None:
    make: Any = {"sync": SyncClients, "aio": AsyncClients}[kind]
    shared = make(address, script["tokens"])
    for number, data in enumerate(script["scenarios"]):
        if only not in (None, data["name"]):
            continue
        if "server" not in data:
            await Scenario(shared, number, data, emit).play()
            continue
        with service_of(script, data["server"]) as service:
            own = make(service.address, script["tokens"])
            await Scenario(own, number, data, emit).play()
            await own.close()
    await shared.close()


def trace(kind: str, only: str | None = None) -> list[Json]:
    script = json.loads((VECTORS / "conformance.json").read_text("utf-8"))
    lines: list[Json] = []
    with service_of(script, {}) as service:
        asyncio.run(play(script, kind, service.address, only, lines.append))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints the trace of the conformance script.")
    parser.add_argument("--client", choices=("sync", "aio"), default="sync")
    parser.add_argument("--scenario", help="only the one of this name")
    options = parser.parse_args()
    for line in trace(options.client, options.scenario):
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""run() of both clients against a real service: storms, interrupts, renewal, what is logged."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import io
import json
import logging
import random
import signal
import socket
import threading
import traceback
import unittest
from datetime import timedelta
from typing import Any, Callable

import conformance
import idempotency as i
from rough_proxy import RoughProxy
from service import PATIENCE_SECONDS, Service

CONFIG = {"namespaces": [{"name": "careful", "settle_duration": "0s"}]}
PATIENCE = timedelta(seconds=PATIENCE_SECONDS)

service: Service
direct: i.GrpcConnection


def setUpModule() -> None:
    global service, direct
    # Whoever starts a program in the background may have it ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    service = Service(CONFIG).__enter__()
    direct = i.GrpcConnection(service.address)


def tearDownModule() -> None:
    direct.close()
    service.__exit__()


def operation_id(key: str) -> i.OperationId:
    return i.OperationId("careful", "acct_1", key)


def request(key: str, **more: Any) -> i.RunRequest:
    fingerprint = i.fingerprint_bytes("POST", "/v1/charges", key.encode())
    return i.RunRequest(operation_id(key), fingerprint, **more)


def found(key: str) -> i.Operation:
    fingerprint = i.fingerprint_bytes("POST", "/v1/charges", key.encode())
    ask = i.GetOperationRequest(operation_id(key), fingerprint=fingerprint)
    return direct.call(ask).operation


def done(body: bytes = b"done") -> i.CachedResponse:
    return i.CachedResponse(grpc_code=0, body=body)


class JumpingClock(i.SystemEnvironment):
    """The system's, with a monotonic clock that a test lets jump ahead: what is due by it is noticed
    within a second, and leases that a busy machine cannot miss are renewed all the same."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    def jump(self, seconds: float) -> None:
        self._ahead += seconds


# Half of what is relied on of the default lease, and a little.
TO_THE_RENEWAL_S = 14.0


class Watching:
    """A connection of Client that tells when a method is about to be called, and when one that
    nobody waits for has been answered."""

    def __init__(
        self,
        inner: i.Connection,
        on_call: Callable[[str], None],
        on_answer: Callable[[str], None] = lambda method: None,
    ) -> None:
        self._inner, self._on_call, self._on_answer = inner, on_call, on_answer

    def call(self, request: Any, options: Any = i.CallOptions(), /) -> Any:
        self._on_call(request.METHOD)
        return self._inner.call(request, options)

    def start(self, request: Any, options: Any, done: Any, /) -> Any:
        self._on_call(request.METHOD)

        def tell(answer: object) -> None:
            done(answer)
            self._on_answer(request.METHOD)

        return self._inner.start(request, options, tell)

    def close(self) -> None:
        self._inner.close()


class AsyncWatching:
    """The same of AsyncClient."""

    def __init__(self, inner: i.AsyncConnection, on_call: Callable[[str], None]) -> None:
        self._inner, self._on_call = inner, on_call

    async def call(self, request: Any, options: Any = i.CallOptions(), /) -> Any:
        self._on_call(request.METHOD)
        return await self._inner.call(request, options)

    async def close(self) -> None:
        pass


class Conformance(unittest.TestCase):
    maxDiff = None

    def test_both_clients_leave_the_trace(self) -> None:
        text = (conformance.VECTORS / "conformance_trace.jsonl").read_text("utf-8")
        wanted = [json.loads(line) for line in text.splitlines()]
        for kind in ("sync", "aio"):
            with self.subTest(kind):
                logging.disable(logging.WARNING)
                lines = conformance.trace(kind)
                logging.disable(logging.NOTSET)
                for line, want in zip(lines, wanted):
                    self.assertEqual(line, want)
                self.assertEqual(len(lines), len(wanted))


class Storm(unittest.TestCase):
    """200 runs of 20 keys at once, over a connection that loses and delays replies."""

    RUNS, KEYS = 200, 20

    def setUp(self) -> None:
        self.seed = random.SystemRandom().randrange(10**6)
        self.effects: collections.Counter[str] = collections.Counter()
        self.lock = threading.Lock()
        self.options = i.RunOptions(retry=i.RetryPolicy(PATIENCE), settle_retry=i.RetryPolicy(PATIENCE))

    def key(self, prefix: str, number: int) -> str:
        return f"{prefix}-{self.seed}-{number % self.KEYS}"

    def effect(self, key: str) -> i.CachedResponse:
        with self.lock:
            self.effects[key] += 1
        return done(key.encode())

    def check(self, prefix: str, results: list[i.RunResult]) -> None:
        keys = [self.key(prefix, number) for number in range(self.KEYS)]
        context = f"seed {self.seed}"
        self.assertEqual(self.effects, collections.Counter(keys), context)
        for number, result in enumerate(results):
            self.assertTrue(result.has_answer, f"{context}: {result}")
            self.assertFalse(result.record_open, context)
            self.assertEqual(result.answer().body, self.key(prefix, number).encode())
        left = (i.OperationState.PENDING, i.OperationState.UNRESOLVED, i.OperationState.FREED)
        ask = i.ListOperationsRequest("careful", key_prefix=f"{prefix}-{self.seed}", states=left)
        self.assertEqual(direct.call(ask).operations, (), context)

    def test_with_threads(self) -> None:
        with RoughProxy(service.address, self.seed, cuts=30) as proxy:
            with i.Client(proxy.address) as client:

                def one(number: int) -> i.RunResult:
                    key = self.key("sync", number)
                    return client.run(
                        request(key, wait=PATIENCE), lambda _: self.effect(key), self.options
                    )

                with concurrent.futures.ThreadPoolExecutor(self.RUNS) as pool:
                    results = list(pool.map(one, range(self.RUNS)))
            self.assertLess(proxy.cuts_left, 30)
        self.check("sync", results)

    def test_with_asyncio(self) -> None:
        async def all_of_them(address: str) -> list[i.RunResult]:
            async with i.AsyncClient(address) as client:

                async def one(number: int) -> i.RunResult:
                    key = self.key("aio", number)

                    async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                        return self.effect(key)

                    return await client.run(request(key, wait=PATIENCE), effect, self.options)

                return await asyncio.gather(*map(one, range(self.RUNS)))

        with RoughProxy(service.address, self.seed, cuts=30) as proxy:
            results = asyncio.run(all_of_them(proxy.address))
            self.assertLess(proxy.cuts_left, 30)
        self.check("aio", results)


class Sync(unittest.TestCase):
    def interrupt_at(self, method: str, times: int = 1) -> i.Client:
        """Ctrl-C whenever this method is about to be called, so many times."""
        left = [times]

        def on_call(called: str) -> None:
            if called == method and left[0] > 0:
                left[0] -= 1
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        client = i.Client(Watching(direct, on_call))
        self.addCleanup(client.close)
        return client

    def test_ctrl_c_while_it_settles_is_raised_once_it_is_settled(self) -> None:
        client = self.interrupt_at("Complete")
        self.assertRaises(KeyboardInterrupt, client.run, request("ctrl-c-1"), lambda _: done())
        self.assertEqual(found("ctrl-c-1").state, i.OperationState.COMPLETE)

    def test_ctrl_c_in_the_function_leaves_an_unknown(self) -> None:
        client = self.interrupt_at("never")

        def effect(_: i.Attempt) -> i.CachedResponse:
            signal.raise_signal(signal.SIGINT)
            return done()

        self.assertRaises(KeyboardInterrupt, client.run, request("ctrl-c-2"), effect)
        operation = found("ctrl-c-2")
        self.assertEqual(operation.state, i.OperationState.UNRESOLVED)
        self.assertEqual(operation.unresolved_cause, i.UnresolvedCause.OWNER_CANCELLED)

    def test_ctrl_c_before_the_effect_frees_the_key(self) -> None:
        client = self.interrupt_at("Reserve")
        called: list[int] = []
        effect = lambda _: called.append(1) or done()  # noqa: E731
        self.assertRaises(KeyboardInterrupt, client.run, request("ctrl-c-3"), effect)
        self.assertEqual(called, [])
        self.assertEqual(found("ctrl-c-3").state, i.OperationState.FREED)

    def test_a_second_ctrl_c_leaves_at_once_and_it_is_settled_all_the_same(self) -> None:
        noticed, left, go_on = threading.Event(), threading.Event(), threading.Event()

        def on_sigint(*_: object) -> None:
            noticed.set()
            if not left.is_set():
                raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, on_sigint))

        def interrupt() -> None:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        def on_call(called: str) -> None:
            if called != "Complete":
                return
            if not noticed.is_set():
                interrupt()
                noticed.wait(PATIENCE_SECONDS)
                raise i.CallError(i.StatusCode.UNAVAILABLE, "lost")
            # Two that come at the same time are one: again, if need be.
            for _ in range(PATIENCE_SECONDS):
                interrupt()
                if left.wait(1):
                    break
            go_on.wait(PATIENCE_SECONDS)

        # With a channel of its own, which the end of the block must not take away.
        with i.Client(service.address) as client:
            client._connection = Watching(client.connection, on_call)
            self.assertRaises(KeyboardInterrupt, client.run, request("ctrl-c-4"), lambda _: done())
            left.set()
        self.assertEqual(found("ctrl-c-4").state, i.OperationState.PENDING)
        settling = [t for t in threading.enumerate() if t.name == "idempotency-run"]
        go_on.set()
        for thread in settling:
            thread.join()
        self.assertEqual(found("ctrl-c-4").state, i.OperationState.COMPLETE)

    def test_a_cancelled_wait_ends_and_leaves_nothing(self) -> None:
        attempt_id = i.random_key()
        holder = direct.call(
            i.ReserveRequest(operation_id("waited"), attempt_id, request("waited").fingerprint)
        )
        cancellation = i.Cancellation()

        def on_call(called: str) -> None:
            if called == "Reserve":
                threading.Thread(target=cancellation.cancel).start()

        with i.Client(Watching(direct, on_call)) as client:
            options = i.RunOptions(cancellation=cancellation)
            result = client.run(request("waited", wait=PATIENCE), lambda _: done(), options)
        self.assertEqual(result.stop, i.StopReason.CANCELLED)
        assert holder.lease is not None
        direct.call(i.ReleaseRequest(operation_id("waited"), holder.lease.fencing_token))
        self.assertEqual(found("waited").state, i.OperationState.FREED)

    def test_the_lease_is_renewed_by_one_thread_for_all(self) -> None:
        clock = JumpingClock()
        started, renewed = threading.Semaphore(0), threading.Semaphore(0)
        finish = threading.Event()
        threads: list[int] = []

        def on_answer(method: str) -> None:
            if method == "Renew":
                renewed.release()

        def effect(attempt: i.Attempt) -> i.CachedResponse:
            started.release()
            self.assertTrue(finish.wait(PATIENCE_SECONDS))
            threads.append(sum(t.name == "idempotency-renewal" for t in threading.enumerate()))
            self.assertFalse(attempt.should_stop)
            self.assertGreater(attempt.remaining, timedelta(0))
            return done()

        def wait_for_all(events: threading.Semaphore) -> None:
            for _ in range(5):
                self.assertTrue(events.acquire(timeout=PATIENCE_SECONDS))

        watching = Watching(direct, lambda method: None, on_answer)
        with i.Client(watching, clock) as client, concurrent.futures.ThreadPoolExecutor(5) as pool:
            runs = [pool.submit(client.run, request(f"renewed-{n}"), effect) for n in range(5)]
            wait_for_all(started)
            # By the own clock, the lease as it was given has ended after the second jump.
            for _ in range(2):
                clock.jump(TO_THE_RENEWAL_S)
                wait_for_all(renewed)
            finish.set()
            self.assertTrue(all(run.result().has_answer for run in runs))
        self.assertEqual(threads, [1] * 5)

    def test_a_lost_lease_is_told_to_the_function(self) -> None:
        clock = JumpingClock()
        lost = threading.Event()

        def effect(attempt: i.Attempt) -> i.EffectResult:
            attempt.on_stop(lost.set)
            direct.call(i.ReleaseRequest(attempt.id, attempt.fencing_token))
            clock.jump(TO_THE_RENEWAL_S)
            self.assertTrue(lost.wait(PATIENCE_SECONDS))
            self.assertTrue(attempt.should_stop)
            return i.EffectResult.nothing_happened(i.StatusCode.CANCELLED, "the lease was lost")

        with i.Client(direct, clock) as client, self.assertLogs("idempotency", "WARNING"):
            result = client.run(request("lost"), effect)
        self.assertEqual(result.stop, i.StopReason.NOTHING_HAPPENED)

    def test_as_a_decorator(self) -> None:
        with i.Client(direct) as client:

            def request_of(order: str, amount: int) -> i.RunRequest:
                return request(f"decorated-{order}")

            @client.run(request_of)
            def charge(attempt: i.Attempt, order: str, amount: int) -> i.CachedResponse:
                """Charges an order."""
                return done(f"{order}:{amount}:{attempt.number}".encode())

            self.assertEqual(charge("o1", amount=5).answer().body, b"o1:5:1")
            again = charge("o1", 5)
            self.assertEqual((again.replayed, again.answer().body), (True, b"o1:5:1"))
            self.assertEqual(charge.__doc__, "Charges an order.")

    def test_a_batch(self) -> None:
        requests = tuple(
            i.ReserveRequest(operation_id(f"batch-{n}"), i.random_key(), request("b").fingerprint)
            for n in range(3)
        )
        bad = i.ReserveRequest(operation_id("batch-3"), "short", request("b").fingerprint)
        results = direct.call(i.BatchRequest((*requests, bad))).results
        for result in results[:3]:
            assert isinstance(result, i.ReserveResponse)
            self.assertEqual(result.outcome, i.ReserveOutcome.ACQUIRED)
        assert isinstance(results[3], i.CallError)
        self.assertEqual(results[3].reason, i.ErrorReason.INVALID_FIELD)


class Asyncio(unittest.TestCase):
    def test_a_task_that_is_cancelled_while_it_settles_settles(self) -> None:
        async def story() -> None:
            def on_call(called: str) -> None:
                if called == "Complete" and not task.cancelling():
                    task.cancel()

            async with i.AsyncGrpcConnection(service.address) as inner:
                async with i.AsyncClient(AsyncWatching(inner, on_call)) as client:

                    async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                        return done()

                    async def run() -> None:
                        await client.run(request("cancelled-1"), effect)

                    task = asyncio.create_task(run())
                    with self.assertRaises(asyncio.CancelledError):
                        await task

        asyncio.run(story())
        self.assertEqual(found("cancelled-1").state, i.OperationState.COMPLETE)

    def test_a_function_that_is_cancelled_leaves_an_unknown(self) -> None:
        async def story() -> None:
            async with i.AsyncClient(service.address) as client:

                async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                    started.set()
                    await asyncio.Event().wait()
                    return done()

                async def run() -> None:
                    await client.run(request("cancelled-2"), effect)

                started = asyncio.Event()
                task = asyncio.create_task(run())
                await started.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(story())
        operation = found("cancelled-2")
        self.assertEqual(operation.state, i.OperationState.UNRESOLVED)
        self.assertEqual(operation.unresolved_cause, i.UnresolvedCause.OWNER_CANCELLED)

    def test_a_cancelled_wait_leaves_nothing(self) -> None:
        asking = request("cancelled-3", wait=PATIENCE)
        holder = direct.call(i.ReserveRequest(asking.id, i.random_key(), asking.fingerprint))

        async def story() -> None:
            def on_call(called: str) -> None:
                if not task.cancelling():
                    asyncio.get_running_loop().call_soon(task.cancel)

            async with i.AsyncGrpcConnection(service.address) as inner:
                async with i.AsyncClient(AsyncWatching(inner, on_call)) as client:

                    async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                        raise AssertionError("it must not be called")

                    async def run() -> None:
                        await client.run(asking, effect)

                    task = asyncio.create_task(run())
                    with self.assertRaises(asyncio.CancelledError):
                        await task

        asyncio.run(story())
        assert holder.lease is not None
        direct.call(i.ReleaseRequest(asking.id, holder.lease.fencing_token))
        self.assertEqual(found("cancelled-3").state, i.OperationState.FREED)

    def test_the_end_of_the_loop_waits_for_what_settles(self) -> None:
        async def story() -> None:
            reached = asyncio.Event()
            client = i.AsyncClient(
                AsyncWatching(
                    i.AsyncGrpcConnection(service.address),
                    lambda called: reached.set() if called == "Complete" else None,
                )
            )

            async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                return done()

            async def run() -> None:
                await client.run(request("cancelled-4"), effect)

            self.task = asyncio.create_task(run())
            await reached.wait()

        asyncio.run(story())
        self.assertTrue(self.task.cancelled())
        self.assertEqual(found("cancelled-4").state, i.OperationState.COMPLETE)

    def test_a_cancellation_from_outside_ends_a_wait(self) -> None:
        asking = request("cancelled-5", wait=PATIENCE)
        direct.call(i.ReserveRequest(asking.id, i.random_key(), asking.fingerprint))

        async def story() -> i.RunResult:
            cancellation = i.Cancellation()
            loop = asyncio.get_running_loop()
            async with i.AsyncGrpcConnection(service.address) as inner:

                def on_call(_: str) -> None:
                    loop.call_soon(cancellation.cancel)

                async with i.AsyncClient(AsyncWatching(inner, on_call)) as client:

                    async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                        return done()

                    options = i.RunOptions(cancellation=cancellation)
                    return await client.run(asking, effect, options)

        self.assertEqual(asyncio.run(story()).stop, i.StopReason.CANCELLED)

    def test_renewal_a_lost_lease_and_an_async_look_up(self) -> None:
        clock = JumpingClock()

        async def story() -> i.RunResult:
            async with i.AsyncClient(service.address, clock) as client:

                async def effect(attempt: i.AsyncAttempt) -> i.EffectResult:
                    direct.call(i.ReleaseRequest(attempt.id, attempt.fencing_token))
                    clock.jump(TO_THE_RENEWAL_S)
                    await asyncio.wait_for(attempt.stopped(), PATIENCE_SECONDS)
                    self.assertTrue(attempt.should_stop)
                    return i.EffectResult.failed(i.StatusCode.CANCELLED, "the lease was lost")

                async def look_up(_: i.Operation) -> i.LookUp:
                    return i.LookUp(i.Found.HAPPENED, response=done(b"looked up"))

                options = i.RunOptions(look_up=look_up)
                with self.assertLogs("idempotency", "WARNING"):
                    return await client.run(request("lost-aio"), effect, options)

        result = asyncio.run(story())
        self.assertEqual(result.answer().body, b"looked up")
        # The key had been freed: somebody else may own it by now, and the caller is told.
        self.assertTrue(result.record_open)

    def test_as_a_decorator(self) -> None:
        async def story() -> bytes | None:
            async with i.AsyncClient(service.address) as client:

                def request_of(order: str) -> i.RunRequest:
                    return request(f"decorated-aio-{order}")

                @client.run(request_of)
                async def charge(attempt: i.AsyncAttempt, order: str) -> i.CachedResponse:
                    await attempt.save_progress(b"sent")
                    return done(order.encode())

                await charge("o1")
                return (await charge("o1")).answer().body

        self.assertEqual(asyncio.run(story()), b"o1")


class Away(unittest.TestCase):
    def setUp(self) -> None:
        # Nobody listens there: it is held, so that nobody else will.
        held = socket.socket()
        self.addCleanup(held.close)
        held.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % held.getsockname()[1]
        self.options = i.RunOptions(retry=i.RetryPolicy(timedelta(milliseconds=100)))

    def test_a_service_that_cannot_be_reached_stops_the_run(self) -> None:
        with i.Client(self.address) as client:
            result = client.run(request("away", wait=timedelta(0)), lambda _: done(), self.options)
        self.assertEqual((result.stop, result.unprotected), (i.StopReason.UNAVAILABLE, False))

    def test_unless_the_caller_wants_to_go_on(self) -> None:
        options = dataclasses.replace(self.options, allow_unprotected=True)
        with i.Client(self.address) as client, self.assertLogs("idempotency", "WARNING"):
            result = client.run(request("away", wait=timedelta(0)), lambda _: done(), options)
        self.assertEqual((result.has_answer, result.unprotected), (True, True))

    def test_a_token_does_not_leave_the_machine_in_plain_text(self) -> None:
        options = i.ConnectionOptions("idempotency.example.org:7420", bearer_token=lambda: "secret")
        with i.GrpcConnection(options) as connection, self.assertRaises(i.CallError) as caught:
            connection.call(i.GetOperationRequest(operation_id("k")))
        self.assertEqual(caught.exception.code, i.StatusCode.FAILED_PRECONDITION)


class Secrets(unittest.TestCase):
    SECRETS = ("key-4242424242", "body-5555555555", "token-6666666666", "header-7777777777")

    def test_nothing_that_is_printed_gives_a_secret_away(self) -> None:
        key, body, token, header = self.SECRETS
        text = io.StringIO()
        handler = logging.StreamHandler(text)
        root = logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        self.addCleanup(root.setLevel, level)
        self.addCleanup(root.removeHandler, handler)
        answer = i.CachedResponse(200, metadata=((f"x-{header}", header.encode()),), body=body.encode())

        def fail(_: i.Attempt) -> i.CachedResponse:
            raise ValueError("no secret here")

        config = i.ConnectionOptions(service.address, bearer_token=lambda: token)
        printed: list[object] = [config]
        with i.GrpcConnection(config) as connection:
            faults = conformance.Faults(
                [{"method": "Complete", "kind": "lose_request", "times": 9, "code": ""}]
            )
            connections: tuple[i.Connection, ...] = (
                connection,
                conformance.SyncFaulty(connection, faults),
            )
            for number, wire in enumerate(connections):
                with i.Client(wire) as client:
                    asking = request(f"{key}-{number}", wait=timedelta(0))
                    options = i.RunOptions(
                        classify=i.classify_http, settle_retry=i.RetryPolicy.never()
                    )
                    printed += [asking, client.run(asking, lambda _: answer, options)]
                    printed += [client.run(asking, lambda _: answer, options)]
                    try:
                        client.run(request(f"{key}-{number}-x"), fail)
                    except ValueError:
                        text.write(traceback.format_exc())
                    try:
                        connection.call(i.ReserveRequest(operation_id(f"{key}\x01"), "short"))
                    except i.CallError as error:
                        printed += [error, error.refusal]
        text.write("\n".join(map(repr, printed)) + "\n".join(map(str, printed)))
        for secret in self.SECRETS:
            self.assertNotIn(secret, text.getvalue())
        self.assertIn("how an operation ended is not recorded", text.getvalue())


if __name__ == "__main__":
    unittest.main()

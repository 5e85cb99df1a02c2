#!/usr/bin/python3
"""The protocol of one run with a service that is played, and a clock that only the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import queue
import threading
import unittest
from datetime import timedelta
from typing import Any, Callable

import idempotency as i
from idempotency._channel import is_local_target
from idempotency._context import RunContext
from idempotency._convert import to_message
from idempotency._protocol import run_once
from idempotency._steps import Call, Sleep, Steps, UserCode
from idempotency._sync import _MainThreadRun
from idempotency._timer import _Agenda

# Nothing waits that long unless something is wrong.
PATIENCE_SECONDS = 30

ID = i.OperationId("careful", "acct_1", "the-key")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
LOST = i.CallError(i.StatusCode.UNAVAILABLE, "lost")


def refusal(reason: i.ErrorReason, retry_after: timedelta | None = None) -> i.CallError:
    return i.CallError(i.StatusCode.FAILED_PRECONDITION, "no", i.Refusal(reason, "", retry_after))


class ManualEnvironment:
    def __init__(self) -> None:
        self.now = 1000.0
        self.ids = 0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return NOW.timestamp()

    def random(self) -> float:
        return 0.0

    def random_id(self) -> str:
        self.ids += 1
        return f"{self.ids:032x}"


class ManualTimer:
    def __init__(self) -> None:
        self.agenda = _Agenda()

    def at(self, due: float, action: Callable[[], None]) -> object:
        return self.agenda.add(due, action)

    def cancel(self, place: object) -> None:
        self.agenda.drop(place)


class RunStory:
    """One run. answers: for each method, what its calls get, one after the other; the last is
    repeated. What is answered takes `takes` seconds, or what a pair of (seconds, answer) says."""

    def __init__(
        self,
        answers: dict[str, list[Any]] | None = None,
        effect: Callable[[Any], Any] | None = None,
        options: i.RunOptions = i.RunOptions(),
        **request: Any,
    ) -> None:
        self.environment = ManualEnvironment()
        self.timer = ManualTimer()
        self.cancelled = i.Cancellation()
        operation = i.Operation(ID, state=i.OperationState.COMPLETE)
        self.answers: dict[str, list[Any]] = {
            "Reserve": [self.acquired()],
            "Renew": [i.RenewResponse(self.lease())],
            "Complete": [i.CompleteResponse(operation)],
            "Release": [i.ReleaseResponse(i.OperationState.FREED)],
            "MarkUnresolved": [i.MarkUnresolvedResponse(operation, i.NextStep.RECONCILE_FIRST)],
            "ResolveOperation": [operation],
            **(answers or {}),
        }
        self.effect = effect or (lambda attempt: i.CachedResponse(grpc_code=0, body=b"done"))
        self.options = options
        self.request = i.RunRequest(ID, **request)
        self.calls: list[Call] = []
        self.sleeps: list[float] = []
        self.renewals: list[tuple[Any, Any]] = []
        self.called = 0

    @staticmethod
    def lease(token: int = 7, remaining_s: float = 30, attempt: int = 1) -> i.Lease:
        return i.Lease(token, NOW, timedelta(seconds=remaining_s), attempt)

    @classmethod
    def acquired(cls, **lease: Any) -> i.ReserveResponse:
        operation = i.Operation(ID, state=i.OperationState.PENDING)
        return i.ReserveResponse(
            i.ReserveOutcome.ACQUIRED, i.NextStep.PROCEED, cls.lease(**lease), operation
        )

    def sent(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.request.METHOD == method]

    @property
    def methods(self) -> list[str]:
        return [call.request.METHOD for call in self.calls]

    def advance(self, seconds: float) -> None:
        """Runs what becomes due, in its order, at its time."""
        end = self.environment.now + seconds
        while (due := self.timer.agenda.next_due()) is not None and due <= end:
            self.environment.now = max(self.environment.now, due)
            action = self.timer.agenda.take_due(self.environment.now)
            if action is not None:
                action()
        self.environment.now = end

    def run(self) -> i.RunResult:
        def effect(core: Any) -> Any:
            self.called += 1
            return self.effect(core)

        context = RunContext(
            environment=self.environment,
            timer=self.timer,
            start=lambda request, options, done: self.renewals.append((request, done)),
            request=self.request,
            options=self.options,
            cancelled=self.cancelled,
            effect=effect,
        )
        return self.drive(run_once(context))

    def drive(self, steps: Any) -> Any:
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            answer, error = None, None
            if isinstance(step, Sleep):
                self.sleeps.append(step.seconds)
                self.advance(step.seconds)
            elif isinstance(step, Call):
                answer = self._answer(step)
            else:
                assert isinstance(step, UserCode)
                try:
                    answer = step.run()
                except BaseException as raised:
                    error = raised

    def _answer(self, step: Call) -> Any:
        self.calls.append(step)
        left = self.answers[step.request.METHOD]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, tuple):
            self.advance(answer[0])
            answer = answer[1]
        return answer(step.request) if callable(answer) else answer


class Asking(unittest.TestCase):
    def test_a_lost_reserve_is_repeated_with_its_attempt_id_and_growing_delays(self) -> None:
        story = RunStory(answers={"Reserve": [LOST, LOST, LOST, RunStory.acquired()]})
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.sleeps, [0.05, 0.1, 0.2])
        self.assertEqual(len({call.attempt_id for call in story.sent("Reserve")}), 1)
        self.assertEqual(story.methods, ["Reserve"] * 4 + ["Complete"])

    def test_it_ends_where_the_policy_does(self) -> None:
        options = i.RunOptions(retry=i.RetryPolicy(timedelta(seconds=1)))
        story = RunStory(answers={"Reserve": [LOST]}, options=options, wait=timedelta(0))
        result = story.run()
        self.assertEqual((result.stop, result.next_step), (i.StopReason.UNAVAILABLE, i.NextStep.RESERVE_AGAIN))
        # 0.05 + 0.1 + 0.2 + 0.4: the next delay would be longer than what is left.
        self.assertEqual(len(story.calls), 5)
        self.assertEqual(story.called, 0)

    def test_max_attempts(self) -> None:
        options = i.RunOptions(retry=i.RetryPolicy.never())
        story = RunStory(answers={"Reserve": [LOST]}, options=options)
        self.assertEqual(story.run().stop, i.StopReason.UNAVAILABLE)
        self.assertEqual(len(story.calls), 1)

    def test_a_longer_retry_after_wins(self) -> None:
        busy = i.CallError(
            i.StatusCode.RESOURCE_EXHAUSTED,
            "busy",
            i.Refusal(i.ErrorReason.OVERLOADED, "", timedelta(seconds=3)),
        )
        story = RunStory(answers={"Reserve": [busy, RunStory.acquired()]})
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.sleeps, [3.0])

    def test_the_wait_comes_on_top_of_the_timeout_and_shrinks(self) -> None:
        busy = i.ReserveResponse(
            i.ReserveOutcome.IN_PROGRESS, i.NextStep.RESERVE_AGAIN, retry_after=timedelta(seconds=1)
        )
        story = RunStory(answers={"Reserve": [(12.0, busy)]}, wait=timedelta(seconds=20))
        self.assertEqual(story.run().stop, i.StopReason.IN_PROGRESS)
        waits = [call.wait_duration for call in story.sent("Reserve")]
        self.assertEqual(waits, [timedelta(seconds=20), timedelta(seconds=7)])
        self.assertEqual([call.timeout for call in story.calls], [30.0, 17.0])

    def test_a_lease_is_no_grant_where_the_next_step_is_to_ask_again(self) -> None:
        odd = dataclasses.replace(RunStory.acquired(), next_step=i.NextStep.RESERVE_AGAIN)
        story = RunStory(answers={"Reserve": [odd]})
        self.assertEqual(story.run().next_step, i.NextStep.RESERVE_AGAIN)
        self.assertEqual(story.called, 0)

    def test_nothing_is_started_without_a_grant_and_nothing_replayed_without_a_record(self) -> None:
        in_progress = i.ReserveOutcome.IN_PROGRESS
        answers = {
            "a grant without a lease": dataclasses.replace(RunStory.acquired(), lease=None),
            "a lease without a grant": dataclasses.replace(RunStory.acquired(), outcome=in_progress),
            "an answer without a record": i.ReserveResponse(
                i.ReserveOutcome.COMPLETED, i.NextStep.USE_RESPONSE
            ),
        }
        for name, answer in answers.items():
            with self.subTest(name):
                story = RunStory(answers={"Reserve": [answer]})
                result = story.run()
                self.assertEqual((result.stop, result.next_step), (i.StopReason.REFUSED, i.NextStep.STOP))
                self.assertEqual((story.called, story.methods), (0, ["Reserve"]))

    def test_a_refusal_for_good_ends_it(self) -> None:
        story = RunStory(answers={"Reserve": [refusal(i.ErrorReason.INVALID_FIELD)]})
        result = story.run()
        self.assertEqual((result.stop, result.next_step), (i.StopReason.REFUSED, i.NextStep.STOP))
        self.assertEqual((story.called, story.methods), (0, ["Reserve"]))

    def test_a_look_up_that_finds_nothing_changes_nothing(self) -> None:
        operation = i.Operation(ID, state=i.OperationState.UNRESOLVED)
        unresolved = i.ReserveResponse(
            i.ReserveOutcome.UNRESOLVED, i.NextStep.RECONCILE_FIRST, operation=operation
        )
        expired = i.ReserveResponse(
            i.ReserveOutcome.EXPIRED, i.NextStep.LOOK_UP_ANSWER, operation=operation
        )
        for answer, found, stop in (
            (unresolved, i.Found.UNKNOWN, i.StopReason.UNRESOLVED),
            # Nobody may settle it in this name.
            (unresolved, i.Found.NOT_THERE, i.StopReason.UNRESOLVED),
            (expired, i.Found.UNKNOWN, i.StopReason.ANSWER_GONE),
            (expired, i.Found.NOT_THERE, i.StopReason.ANSWER_GONE),
        ):
            with self.subTest(answer.outcome, found=found):
                options = i.RunOptions(look_up=lambda _, found=found: i.LookUp(found))
                story = RunStory(answers={"Reserve": [answer]}, options=options)
                result = story.run()
                self.assertEqual((result.stop, result.next_step), (stop, answer.next_step))
                self.assertEqual((story.called, story.methods), (0, ["Reserve"]))

    def test_an_attempt_that_was_freed_before_its_answer_came_is_replaced_three_times(self) -> None:
        finished = refusal(i.ErrorReason.ATTEMPT_FINISHED)
        story = RunStory(answers={"Reserve": [finished]})
        self.assertEqual(story.run().stop, i.StopReason.REFUSED)
        self.assertEqual(len({call.attempt_id for call in story.sent("Reserve")}), 4)

    def test_the_age_is_counted_from_first_sent(self) -> None:
        story = RunStory(first_sent=NOW - timedelta(hours=2))
        story.run()
        self.assertEqual(story.sent("Reserve")[0].operation_age, timedelta(hours=2))

    def test_a_run_that_is_cancelled_before_asks_nothing(self) -> None:
        story = RunStory()
        story.cancelled.cancel()
        self.assertEqual(story.run().stop, i.StopReason.CANCELLED)
        self.assertEqual(story.calls, [])

    def test_a_cancelled_wait_is_asked_about_and_given_back(self) -> None:
        story = RunStory()

        def cancel(_: Any) -> i.CallError:
            story.cancelled.cancel()
            return i.CallError(i.StatusCode.CANCELLED, "cancelled")

        story.answers["Reserve"] = [cancel, RunStory.acquired()]
        result = story.run()
        self.assertEqual((result.stop, result.record_open), (i.StopReason.CANCELLED, False))
        first, second = story.sent("Reserve")
        self.assertEqual(first.attempt_id, second.attempt_id)
        self.assertEqual(second.wait_duration, timedelta(0))
        self.assertEqual(story.methods, ["Reserve", "Reserve", "Release"])
        self.assertEqual(story.called, 0)

    def test_where_asking_fails_too_the_record_may_be_open(self) -> None:
        story = RunStory()

        def cancel(_: Any) -> i.CallError:
            story.cancelled.cancel()
            return LOST

        story.answers["Reserve"] = [cancel, LOST]
        result = story.run()
        self.assertEqual((result.stop, result.record_open), (i.StopReason.CANCELLED, True))


class Holding(unittest.TestCase):
    def test_the_lease_counts_from_before_sending_less_a_margin(self) -> None:
        seen = []
        story = RunStory(
            answers={"Reserve": [(2.0, RunStory.acquired())]},
            effect=lambda attempt: seen.append(attempt.remaining) or i.CachedResponse(),
            wait=timedelta(0),
        )
        story.run()
        self.assertEqual(seen, [30 - 3 - 2])

    def test_after_a_waited_grant_it_renews_first(self) -> None:
        story = RunStory(answers={"Reserve": [(5.0, RunStory.acquired())]})
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.methods, ["Reserve", "Renew", "Complete"])

    def test_a_prompt_grant_does_not(self) -> None:
        story = RunStory(answers={"Reserve": [(0.2, RunStory.acquired())]})
        story.run()
        self.assertEqual(story.methods, ["Reserve", "Complete"])

    def test_a_lease_that_is_not_confirmed_is_given_back(self) -> None:
        lapsed = refusal(i.ErrorReason.LEASE_LAPSED)
        story = RunStory(
            answers={
                "Reserve": [(5.0, RunStory.acquired()), RunStory.acquired(token=8)],
                "Renew": [lapsed],
            }
        )
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.methods, ["Reserve", "Renew", "Release", "Reserve", "Complete"])
        self.assertEqual(story.sent("Complete")[0].fencing_token, 8)

    def test_its_own_lapsed_lease_is_given_back(self) -> None:
        mine = i.ReserveResponse(
            i.ReserveOutcome.UNRESOLVED,
            i.NextStep.RECONCILE_FIRST,
            RunStory.lease(remaining_s=0),
            i.Operation(ID, state=i.OperationState.UNRESOLVED),
        )
        story = RunStory(answers={"Reserve": [mine, RunStory.acquired()]})
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.methods, ["Reserve", "Release", "Reserve", "Complete"])

    def test_it_renews_when_half_of_what_can_be_relied_on_has_gone(self) -> None:
        story = RunStory()

        def effect(attempt: Any) -> i.CachedResponse:
            story.advance(13.4)
            self.assertEqual(len(story.renewals), 0)
            story.advance(0.2)
            self.assertEqual(len(story.renewals), 1)
            request, done = story.renewals[0]
            self.assertEqual(request.fencing_token, 7)
            done(i.RenewResponse(RunStory.lease()))
            story.advance(13.3)
            self.assertEqual((len(story.renewals), attempt.should_stop), (1, False))
            story.advance(0.2)
            self.assertEqual(len(story.renewals), 2)
            return i.CachedResponse()

        story.effect = effect
        story.run()
        self.assertIsNone(story.timer.agenda.next_due())

    def test_a_failed_renewal_is_repeated_and_the_end_of_the_lease_is_told(self) -> None:
        story = RunStory()
        told = []

        def effect(attempt: Any) -> i.CachedResponse:
            attempt.on_stop(lambda: told.append(story.environment.now))
            story.advance(14)
            story.renewals[0][1](LOST)
            story.advance(0.05)
            self.assertEqual((len(story.renewals), told), (2, []))
            story.advance(20)
            self.assertEqual((told, attempt.should_stop), ([1027.0], True))
            return i.CachedResponse()

        story.effect = effect
        self.assertTrue(story.run().has_answer)

    def test_a_lost_lease_is_told_at_once(self) -> None:
        story = RunStory()

        def effect(attempt: Any) -> i.CachedResponse:
            story.advance(14)
            self.assertFalse(attempt.should_stop)
            story.renewals[0][1](refusal(i.ErrorReason.STALE_FENCING_TOKEN))
            self.assertTrue(attempt.should_stop)
            return i.CachedResponse()

        story.effect = effect
        with self.assertLogs("idempotency", "WARNING"):
            story.run()

    def test_fn_is_told_that_its_time_is_up(self) -> None:
        story = RunStory(call_timeout=timedelta(seconds=5))

        def effect(attempt: Any) -> i.EffectResult:
            story.advance(4.9)
            self.assertFalse(attempt.should_stop)
            story.advance(0.1)
            self.assertTrue(attempt.should_stop)
            return i.EffectResult.failed(i.StatusCode.DEADLINE_EXCEEDED)

        story.effect = effect
        self.assertEqual(story.run().stop, i.StopReason.UNRESOLVED)

    def test_nothing_of_fn_is_called_after_it(self) -> None:
        story = RunStory()
        told: list[int] = []

        def effect(attempt: Any) -> i.CachedResponse:
            attempt.on_stop(lambda: told.append(1))
            return i.CachedResponse()

        story.effect = effect
        story.run()
        story.cancelled.cancel()
        self.assertEqual(told, [])

    def test_dispatch_is_told_before_the_call(self) -> None:
        story = RunStory(dispatch_later=True)
        story.effect = lambda attempt: story.drive(attempt.dispatch()) or i.CachedResponse()
        self.assertTrue(story.run().has_answer)
        self.assertEqual(story.methods, ["Reserve", "Renew", "Complete"])
        self.assertTrue(story.sent("Renew")[0].dispatched)

    def test_what_cannot_be_dispatched_is_freed(self) -> None:
        story = RunStory(
            answers={"Renew": [refusal(i.ErrorReason.LEASE_LAPSED)]}, dispatch_later=True
        )
        story.effect = lambda attempt: story.drive(attempt.dispatch()) or i.CachedResponse()
        self.assertEqual(story.run().stop, i.StopReason.NOTHING_HAPPENED)
        self.assertEqual(story.methods, ["Reserve", "Renew", "Release"])


    def test_a_refused_dispatch_of_another_attempt_is_an_exception(self) -> None:
        refused = i.NotDispatched(i.StatusCode.CANCELLED, "of another attempt")

        def effect(attempt: Any) -> i.CachedResponse:
            raise refused

        story = RunStory(effect=effect)
        self.assertRaises(i.NotDispatched, story.run)
        self.assertEqual(story.methods, ["Reserve", "MarkUnresolved"])

    def test_without_protection_a_refused_dispatch_is_let_through_as_nothing_that_happened(self) -> None:
        asked: list[i.EffectResult] = []
        options = i.RunOptions(
            allow_unprotected=True,
            retry=i.RetryPolicy.never(),
            classify=lambda effect: asked.append(effect) or i.classify_grpc(effect),
        )
        story = RunStory(answers={"Reserve": [LOST]}, options=options, dispatch_later=True)

        def effect(attempt: Any) -> i.CachedResponse:
            story.cancelled.cancel()
            story.drive(attempt.dispatch())
            return i.CachedResponse()

        story.effect = effect
        with self.assertLogs("idempotency", "WARNING"):
            result = story.run()
        self.assertEqual((result.stop, result.unprotected), (i.StopReason.NOTHING_HAPPENED, True))
        self.assertEqual(result.effect_error and result.effect_error.code, i.StatusCode.CANCELLED)
        self.assertEqual(asked, [])

    def test_without_protection_what_was_dispatched_and_got_no_answer_is_unknown(self) -> None:
        options = i.RunOptions(allow_unprotected=True, retry=i.RetryPolicy.never())
        story = RunStory(answers={"Reserve": [LOST]}, options=options, dispatch_later=True)
        lost = i.EffectResult.failed(i.StatusCode.DEADLINE_EXCEEDED)
        story.effect = lambda attempt: story.drive(attempt.dispatch()) or lost
        with self.assertLogs("idempotency", "WARNING"):
            self.assertEqual(story.run().stop, i.StopReason.UNRESOLVED)


class Settling(unittest.TestCase):
    def test_it_is_told_until_it_is_confirmed_whatever_stands_in_between_says(self) -> None:
        broken = i.CallError(i.StatusCode.INTERNAL, "a proxy")
        story = RunStory(answers={"Complete": [LOST, broken, LOST, i.CompleteResponse(i.Operation(ID))]})
        result = story.run()
        self.assertEqual((result.has_answer, result.record_open), (True, False))
        self.assertEqual(len(story.sent("Complete")), 4)

    def test_a_cancelled_caller_changes_nothing_of_it(self) -> None:
        story = RunStory(answers={"Complete": [LOST, i.CompleteResponse(i.Operation(ID))]})

        def effect(attempt: Any) -> i.CachedResponse:
            story.cancelled.cancel()
            self.assertTrue(attempt.should_stop)
            return i.CachedResponse()

        story.effect = effect
        self.assertTrue(story.run().has_answer)
        self.assertFalse(any(call.ends_on_cancel for call in story.calls if call.request.METHOD == "Complete"))

    def test_the_real_answer_with_an_open_record_after_two_minutes(self) -> None:
        story = RunStory(answers={"Complete": [LOST]})
        begin = story.environment.now
        with self.assertLogs("idempotency", "WARNING"):
            result = story.run()
        self.assertEqual((result.response and result.response.body, result.record_open), (b"done", True))
        self.assertLessEqual(story.environment.now - begin, 120)

    def test_the_lease_is_renewed_while_it_is_told(self) -> None:
        story = RunStory(answers={"Complete": [(20.0, LOST), i.CompleteResponse(i.Operation(ID))]})
        self.assertTrue(story.run().has_answer)
        self.assertEqual(len(story.renewals), 1)

    def test_an_exception_is_unknown_and_goes_on(self) -> None:
        for error, cause in (
            (ValueError("secret"), i.UnresolvedCause.OTHER),
            (KeyboardInterrupt(), i.UnresolvedCause.OWNER_CANCELLED),
        ):
            story = RunStory()

            def effect(attempt: Any) -> i.CachedResponse:
                raise error

            story.effect = effect
            self.assertRaises(type(error), story.run)
            mark = story.sent("MarkUnresolved")[0]
            self.assertEqual(mark.cause, cause)
            self.assertNotIn("secret", mark.detail)

    def test_exceptions_of_the_classifier_and_of_the_look_up_and_a_wrong_result_are_too(self) -> None:
        def broken(_: Any) -> Any:
            raise ZeroDivisionError

        lost = i.EffectResult.failed(i.StatusCode.UNAVAILABLE)
        stories = (
            (RunStory(options=i.RunOptions(classify=broken)), ZeroDivisionError),
            (RunStory(effect=lambda _: lost, options=i.RunOptions(look_up=broken)), ZeroDivisionError),
            (RunStory(effect=lambda _: "no result"), TypeError),
            (RunStory(options=i.RunOptions(classify=lambda _: None)), TypeError),  # type: ignore
        )
        for story, error in stories:
            self.assertRaises(error, story.run)
            self.assertEqual(story.methods, ["Reserve", "MarkUnresolved"])

    def test_a_retried_attempt_that_did_nothing_leaves_the_unknown(self) -> None:
        unresolved = i.ReleaseResponse(i.OperationState.UNRESOLVED)
        story = RunStory(
            answers={"Release": [unresolved]},
            effect=lambda _: i.EffectResult.nothing_happened(i.StatusCode.UNAVAILABLE),
        )
        self.assertEqual(story.run().stop, i.StopReason.UNRESOLVED)

    def test_no_look_up_is_asked_more_than_ten_times(self) -> None:
        open_ = i.ReserveResponse(
            i.ReserveOutcome.UNRESOLVED, i.NextStep.RECONCILE_FIRST, operation=i.Operation(ID, etag="e")
        )
        asked = []
        look_up = lambda operation: asked.append(1) or i.LookUp(i.Found.NOT_THERE)  # noqa: E731
        story = RunStory(
            answers={"Reserve": [open_], "ResolveOperation": [refusal(i.ErrorReason.ETAG_MISMATCH)]},
            options=i.RunOptions(look_up=look_up, reconciler="me"),
        )
        self.assertEqual(story.run().stop, i.StopReason.UNRESOLVED)
        self.assertEqual(len(asked), 10)


class Made:
    """Answers a method of a story as a connection would that makes the message and sends nothing."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.messages: list[Any] = []

    def __call__(self, request: Any) -> Any:
        try:
            self.messages.append(to_message(request))
        except i.CallError as error:
            return error
        return self.answer


class Recording(unittest.TestCase):
    """What a caller hands in must not keep what happened from being recorded."""

    def recorded(self, method: str, effect: i.EffectResult) -> Any:
        made = Made(RunStory().answers[method][0])
        story = RunStory(answers={method: [made]}, effect=lambda _: effect)
        self.assertFalse(story.run().record_open)
        self.assertEqual(story.sleeps, [])
        return made.messages[0]

    def test_a_charge_whose_answer_has_no_request_id_is_recorded(self) -> None:
        headers: dict[str, Any] = {}
        response = i.CachedResponse(
            grpc_code=0, content_type=headers.get("Content-Type"), status_message=None, body=b"charged"  # type: ignore
        )
        effect = i.EffectResult.answered(response, provider_request_id=headers.get("Request-Id"))
        message = self.recorded("Complete", effect)
        self.assertEqual((message.provider_request_id, message.response.body), ("", b"charged"))

    def test_a_failure_without_a_text_is_recorded(self) -> None:
        effect = i.EffectResult.failed(i.StatusCode.UNAVAILABLE, None, provider_request_id=None)  # type: ignore
        self.assertEqual(self.recorded("MarkUnresolved", effect).detail, "")

    def test_a_retry_after_in_seconds_is_recorded(self) -> None:
        for said, seconds in ((30, 30), (1.5, 1), (timedelta(minutes=1), 60), (1e300, 315_576_000_000)):
            effect = i.EffectResult.failed(i.StatusCode.UNAVAILABLE, retry_after=said)
            message = self.recorded("MarkUnresolved", effect)
            self.assertEqual(message.retry_after.seconds, seconds)
        for said in (float("nan"), -1, timedelta(seconds=-1)):
            effect = i.EffectResult.failed(i.StatusCode.UNAVAILABLE, retry_after=said)
            self.assertFalse(self.recorded("MarkUnresolved", effect).HasField("retry_after"))

    def test_what_could_not_be_sent_cannot_be_made_and_the_field_is_named(self) -> None:
        wrong: tuple[tuple[str, Callable[[], object]], ...] = (
            ("content_type", lambda: i.CachedResponse(content_type=5)),  # type: ignore
            ("status_message", lambda: i.CachedResponse(status_message=b"")),  # type: ignore
            ("body_size", lambda: i.CachedResponse(body_size=None)),  # type: ignore
            ("http_status", lambda: i.CachedResponse("200")),  # type: ignore
            ("response", lambda: i.EffectResult.answered("text")),  # type: ignore
            ("provider_request_id", lambda: i.EffectResult(provider_request_id=7)),  # type: ignore
            ("provider_code", lambda: i.EffectResult(provider_code=7)),  # type: ignore
            ("retry_after", lambda: i.EffectResult(retry_after="30")),  # type: ignore
            ("retry_after", lambda: i.EffectResult(retry_after=True)),  # type: ignore
            ("certainty", lambda: i.EffectResult(certainty="UNKNOWN")),  # type: ignore
            ("code", lambda: i.EffectResult.failed("UNAVAILABLE")),  # type: ignore
            ("message", lambda: i.EffectResult.failed(i.StatusCode.UNKNOWN, OSError())),  # type: ignore
            ("disposition", lambda: i.Classification("SUCCEEDED")),  # type: ignore
            ("cause", lambda: i.Classification(cause="TIMEOUT")),  # type: ignore
            ("verdict", lambda: i.LookUp(i.Found.HAPPENED, "FAILED")),  # type: ignore
            ("evidence", lambda: i.LookUp(evidence=7)),  # type: ignore
            ("operation_ref", lambda: i.RunRequest(ID, operation_ref=7)),  # type: ignore
        )
        for field, make in wrong:
            with self.assertRaisesRegex(TypeError, rf"\.{field} "):
                make()

    def test_entries_that_can_be_read_once_are_kept(self) -> None:
        response = i.CachedResponse(metadata=((name, b"v") for name in ("a", "b")))  # type: ignore
        self.assertEqual(response.metadata, (("a", b"v"), ("b", b"v")))

    def test_a_message_that_cannot_be_made_is_not_repeated_as_if_it_were_lost(self) -> None:
        story = RunStory(answers={"Complete": [Made(None)]})
        story.answers["Reserve"] = [RunStory.acquired(token="seven")]
        with self.assertLogs("idempotency", "WARNING"):
            result = story.run()
        self.assertEqual((result.response and result.response.body, result.record_open), (b"done", True))
        self.assertEqual(result.refusal and result.refusal.reason, i.ErrorReason.INVALID_FIELD)
        self.assertEqual((len(story.sent("Complete")), story.sleeps), (1, []))

    def test_a_connection_refuses_what_it_cannot_make_a_message_of(self) -> None:
        for request in (i.ReleaseRequest(ID, "seven"), i.RenewRequest(ID, 7, progress="text")):  # type: ignore
            with i.GrpcConnection("127.0.0.1:1") as connection:
                with self.assertRaises(i.CallError) as caught:
                    connection.call(request)
            self.assertTrue(caught.exception.is_final_refusal)

    def test_an_answer_that_cannot_be_made_a_message_is_recorded_without_its_content(self) -> None:
        response = i.CachedResponse(grpc_code=0)
        object.__setattr__(response, "body", "no bytes")
        with self.assertLogs("idempotency", "WARNING"):
            message = self.recorded("Complete", i.EffectResult.answered(response))
        self.assertEqual(message.verdict, i.Verdict.SUCCEEDED)
        self.assertTrue(message.response.body_omitted)


class LosesTheFirst:
    """A queue that an interrupt takes the first thing out of, as one that comes between the end of
    get and the line that keeps what it gave."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lost = False

    def put(self, what: Any) -> None:
        self._queue.put(what)

    def get(self, timeout: float) -> Any:
        what = self._queue.get(timeout=timeout)
        if not self._lost:
            self._lost = True
            raise KeyboardInterrupt
        return what


class Interrupted(unittest.TestCase):
    def test_a_run_ends_though_an_interrupt_takes_the_news_that_it_has_ended(self) -> None:
        def nothing() -> Steps[int]:
            return 7
            yield

        run = _MainThreadRun(nothing(), lambda _: None, i.Cancellation())
        run._asked = LosesTheFirst()  # type: ignore[assignment]
        raised = threading.Event()

        def wait_for_it() -> None:
            try:
                run.run()
            except KeyboardInterrupt:
                raised.set()

        thread = threading.Thread(target=wait_for_it, daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        self.assertFalse(thread.is_alive())
        self.assertTrue(raised.is_set())


class Gate:
    """Instead of the connection that a client has made for itself: Complete waits until it may, and
    what is called once it is closed fails."""

    def __init__(self) -> None:
        self.answers = RunStory().answers
        self.reached, self.may_go_on = threading.Event(), threading.Event()
        self.closed = 0

    def answer(self, request: Any) -> Any:
        if self.closed:
            raise i.ConnectionClosed
        return self.answers[request.METHOD][0]


class Gated(Gate):
    def call(self, request: Any, _: Any = None, /) -> Any:
        if request.METHOD == "Complete":
            self.reached.set()
            self.may_go_on.wait(PATIENCE_SECONDS)
        return self.answer(request)

    def start(self, request: Any, _: Any, done: Callable[[object], None], /) -> Any:
        done(self.answer(request))
        return self

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


class AsyncGated(Gate):
    async def call(self, request: Any, _: Any = None, /) -> Any:
        if request.METHOD == "Complete":
            self.reached.set()
            while not self.may_go_on.is_set():
                await asyncio.sleep(0)
        return self.answer(request)

    async def close(self) -> None:
        self.closed += 1


class Closing(unittest.TestCase):
    def test_a_client_that_is_closed_leaves_its_channel_to_the_run_that_settles(self) -> None:
        gate = Gated()
        results: queue.SimpleQueue[i.RunResult] = queue.SimpleQueue()
        with i.Client("127.0.0.1:1") as client:
            client.connection.close()
            client._connection = gate
            run = lambda: results.put(client.run(i.RunRequest(ID), lambda _: i.CachedResponse()))  # noqa: E731
            threading.Thread(target=run, daemon=True).start()
            self.assertTrue(gate.reached.wait(PATIENCE_SECONDS))
        client.close()
        self.assertEqual(gate.closed, 0)
        refused = client.run(i.RunRequest(ID), lambda _: i.CachedResponse())
        self.assertEqual((refused.stop, refused.next_step), (i.StopReason.INVALID, i.NextStep.STOP))
        self.assertEqual(gate.closed, 0)
        gate.may_go_on.set()
        result = results.get(timeout=PATIENCE_SECONDS)
        self.assertEqual((result.has_answer, result.record_open), (True, False))
        client.close()
        self.assertEqual(gate.closed, 1)

    def test_with_asyncio_too(self) -> None:
        async def story() -> tuple[i.RunResult, i.RunResult]:
            async def effect(_: i.AsyncAttempt) -> i.CachedResponse:
                return i.CachedResponse()

            async def run() -> i.RunResult:
                return await client.run(i.RunRequest(ID), effect)

            async with i.AsyncClient("127.0.0.1:1") as client:
                await client.connection.close()
                client._connection = gate
                running = asyncio.create_task(run())
                while not gate.reached.is_set():
                    await asyncio.sleep(0)
            self.assertEqual(gate.closed, 0)
            refused = await run()
            gate.may_go_on.set()
            return refused, await running

        gate = AsyncGated()
        refused, result = asyncio.run(story())
        self.assertEqual(refused.stop, i.StopReason.INVALID)
        self.assertEqual((result.has_answer, result.record_open), (True, False))
        self.assertEqual(gate.closed, 1)

    def test_what_has_happened_is_not_told_over_and_over_to_a_connection_that_is_closed(self) -> None:
        story = RunStory(answers={"Complete": [i.ConnectionClosed()]})
        with self.assertLogs("idempotency", "WARNING"):
            result = story.run()
        self.assertEqual((result.has_answer, result.record_open), (True, True))
        self.assertEqual((len(story.sent("Complete")), story.sleeps), (1, []))

    def test_the_calls_of_a_closed_connection_say_so(self) -> None:
        connection = i.GrpcConnection("127.0.0.1:1")
        connection.close()
        self.assertRaises(i.ConnectionClosed, connection.call, i.GetOperationRequest(ID))

        async def with_asyncio() -> None:
            connection = i.AsyncGrpcConnection("127.0.0.1:1")
            await connection.close()
            with self.assertRaises(i.ConnectionClosed):
                await connection.call(i.GetOperationRequest(ID))
            await under_way()

        async def under_way() -> None:
            connection = i.AsyncGrpcConnection("127.0.0.1:1")
            options = i.CallOptions(timedelta(seconds=PATIENCE_SECONDS), wait_for_ready=True)
            calling = asyncio.ensure_future(connection.call(i.GetOperationRequest(ID), options))
            await asyncio.sleep(0)
            await connection.close()
            with self.assertRaises(i.ConnectionClosed):
                await calling

        asyncio.run(with_asyncio())


class Values(unittest.TestCase):
    def test_delays_grow_to_the_maximum_and_jitter_shortens_them(self) -> None:
        policy = i.BackoffPolicy(timedelta(seconds=1), timedelta(seconds=5), 2.0, 0.5)
        delays = [policy.delay(attempt, 0.0) for attempt in (1, 2, 3, 4, 5, 10**6)]
        self.assertEqual(delays, [0.0, 1.0, 2.0, 4.0, 5.0, 5.0])
        self.assertEqual(policy.delay(3, 1.0), 1.0)

    def test_answer_raises_with_reason_and_next_step(self) -> None:
        self.assertEqual(i.RunResult(response=i.CachedResponse(200)).answer().http_status, 200)
        result = i.RunResult(stop=i.StopReason.MISMATCH, next_step=i.NextStep.USE_OWN_KEY)
        with self.assertRaises(i.Stopped) as caught:
            result.answer()
        self.assertEqual(caught.exception.reason, i.StopReason.MISMATCH)
        self.assertEqual(caught.exception.next_step, i.NextStep.USE_OWN_KEY)

    def test_a_response_that_could_not_be_sent_cannot_be_made(self) -> None:
        wrong: tuple[dict[str, Any], ...] = (
            {"body": "text"},
            {"http_status": "200"},
            {"http_status": 2**31},
            {"metadata": (("name", "text"),)},
        )
        for fields in wrong:
            self.assertRaises(TypeError, i.CachedResponse, **fields)

    def test_a_token_stays_on_this_machine_only_where_every_address_of_the_target_does(self) -> None:
        for target in (
            "localhost", "localhost:1", "127.0.0.1:1", "127.9.9.9", "[::1]:1", "::1", "unix:/a,b",
            "unix-abstract:a", "dns:///localhost:1", "ipv4:127.0.0.1:1", "ipv6:[::1]:1",
        ):  # fmt: skip
            self.assertTrue(is_local_target(target), target)
        for target in (
            "", "10.0.0.1:1", "localhost.example.org:1", "127.example.org:1", "dns:///h:1",
            "ipv4:127.0.0.1:7420,10.0.0.5:7420", "ipv6:[::1]:1,[2001:db8::1]:1",
        ):  # fmt: skip
            self.assertFalse(is_local_target(target), target)

    def test_numbers_of_the_future_are_unspecified(self) -> None:
        self.assertEqual(i.NextStep.of(77), i.NextStep.UNSPECIFIED)
        self.assertEqual(i.StatusCode.of(77), i.StatusCode.UNKNOWN)

    def test_a_cancellation_tells_once_and_late_subscribers_at_once(self) -> None:
        told: list[str] = []
        cancellation = i.Cancellation()
        cancellation.on_cancel(lambda: told.append("first"))
        cancellation.on_cancel(lambda: told.append("gone"))()
        cancellation.cancel()
        cancellation.cancel()
        cancellation.on_cancel(lambda: told.append("late"))
        self.assertEqual(told, ["first", "late"])


if __name__ == "__main__":
    unittest.main()

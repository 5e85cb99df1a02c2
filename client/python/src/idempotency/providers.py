"""What is known of the idempotency of some providers: where the key goes, what their answers mean,
how long they remember a key. The data are client/contracts/*.json, the same for every language;
each statement in them says where it was read, when, and whether it was read in the provider's own
documents (verified). Check what is not before relying on it.

    stripe = find_provider("stripe-v1")
    options = RunOptions(classify=classifier_for(stripe))
    ... headers[stripe.key_field] = attempt.provider_key ...
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from datetime import timedelta
from typing import Any

from .classification import (
    Classification,
    Classifier,
    Disposition,
    EffectResult,
    by_certainty,
    classify_http,
)
from .types import UnresolvedCause


@dataclasses.dataclass(frozen=True)
class AnswerRule:
    """What an answer means; the first rule of a profile that fits counts. Every condition that is
    set must hold."""

    means: Classification
    why: str
    status_first: int = 100  # HTTP
    status_last: int = 599
    # One of these is EffectResult.provider_code; empty: whatever it is.
    codes: tuple[str, ...] = ()
    # provider_code was not looked for.
    code_missing: bool = False
    # The answer has this header (names compared without case) with exactly this value.
    header: str = ""
    header_value: str = ""

    def fits(self, result: EffectResult) -> bool:
        response = result.response
        if response is None or response.http_status is None:
            return False
        if not self.status_first <= response.http_status <= self.status_last:
            return False
        if self.code_missing and result.provider_code is not None:
            return False
        if self.codes and result.provider_code not in self.codes:
            return False
        value = self.header_value.encode()
        return not self.header or any(
            name.lower() == self.header.lower() and found == value for name, found in response.metadata
        )


@dataclasses.dataclass(frozen=True)
class ProviderProfile:
    """client/contracts/README.md says what the fields mean."""

    name: str  # "stripe-v1"
    provider: str  # "Stripe"
    api_version: str  # "v1"
    key_place: str  # "header", "argument", "body_field" or "none"
    key_field: str
    key_max_bytes: int | None  # None: not published
    scope: str  # within what keys are unique
    endpoints: tuple[str, ...]
    # How long the provider knows a key at least, by what it publishes; None: it does not say.
    retention: timedelta | None
    # How long to count on that, less a margin; None: do not count on it at all.
    protection_window: timedelta | None
    on_expiry: str
    replay: str
    replay_header: str  # marks a replayed answer; empty: there is none
    replay_value: str
    on_mismatch: str
    on_concurrent: str
    look_up: str  # how to find out what became of a request
    provider_code: str  # what EffectResult.provider_code has to be; empty: not needed
    # Whatever is unknown is not to be attempted again: a repetition would be a second effect.
    reconcile_first: bool
    # For answers that no rule fits, classify_http's table holds.
    answers: tuple[AnswerRule, ...]
    # about, says, basis, source, date, verified.
    statements: tuple[dict[str, Any], ...] = dataclasses.field(repr=False)


def _statuses(text: str) -> tuple[int, int]:
    """ "2xx", "409" or "400-499"; empty: any."""
    if not text:
        return 100, 599
    if text.endswith("xx"):
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _rule(data: dict[str, Any]) -> AnswerRule:
    disposition = Disposition(data["means"])
    means = Classification(disposition)
    if disposition is Disposition.UNKNOWN:
        means = Classification(
            disposition, UnresolvedCause[data["cause"]], data.get("reconcile_first", False)
        )
    first, last = _statuses(data.get("status", ""))
    return AnswerRule(
        means=means,
        why=data["why"],
        status_first=first,
        status_last=last,
        codes=tuple(data.get("codes", ())),
        code_missing=data.get("code_missing", False),
        header=data.get("header", ""),
        header_value=data.get("header_value", ""),
    )


def _seconds(value: int | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def parse_profile(text: str) -> ProviderProfile:
    """A profile of your own, written as client/contracts/README.md says. KeyError and ValueError
    where it is not."""
    data = json.loads(text)
    if data["format"] != 1:
        raise ValueError("format is not 1, the only one known")
    key, memory, repeats = data["key"], data["memory"], data["repeats"]
    return ProviderProfile(
        name=data["name"],
        provider=data["provider"],
        api_version=data["api_version"],
        key_place=key["place"],
        key_field=key.get("field", ""),
        key_max_bytes=key.get("max_bytes"),
        scope=key["scope"],
        endpoints=tuple(key["endpoints"]),
        retention=_seconds(memory.get("retention_seconds")),
        protection_window=_seconds(memory.get("protection_window_seconds")),
        on_expiry=memory["on_expiry"],
        replay=repeats["replay"],
        replay_header=repeats.get("header", ""),
        replay_value=repeats.get("header_value", ""),
        on_mismatch=repeats["on_mismatch"],
        on_concurrent=repeats["on_concurrent"],
        look_up=repeats["look_up"],
        provider_code=data.get("provider_code", ""),
        reconcile_first=data.get("reconcile_first", False),
        answers=tuple(_rule(answer) for answer in data["answers"]),
        statements=tuple(data["statements"]),
    )


@functools.cache
def _profiles() -> dict[str, ProviderProfile]:
    folder = importlib.resources.files("idempotency") / "_data" / "contracts"
    texts = [f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith(".json")]
    return {profile.name: profile for profile in sorted(map(parse_profile, texts), key=lambda p: p.name)}


def provider_names() -> list[str]:
    return list(_profiles())


def find_provider(name: str) -> ProviderProfile:
    """KeyError where there is none of that name."""
    return _profiles()[name]


def classifier_for(profile: ProviderProfile) -> Classifier:
    """What the caller is certain of first, then the profile's rules, then classify_http."""

    def classify(result: EffectResult) -> Classification:
        fitting = next((rule for rule in profile.answers if rule.fits(result)), None)
        if fitting is None or by_certainty(result) is not None:
            means = classify_http(result)
        else:
            means = fitting.means
        if profile.reconcile_first and means.disposition is Disposition.UNKNOWN:
            means = dataclasses.replace(means, reconcile_first=True)
        return means

    return classify

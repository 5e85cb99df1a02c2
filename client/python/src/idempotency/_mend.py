"""What a caller's values are made of, checked where they are made: in the function that knows the
effect, and not when its outcome is to be recorded. None for a text, as of a header that is not
there, is mended; what is of another type raises TypeError, which names the field."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any


def _set(values: object, field: str, value: object) -> None:
    object.__setattr__(values, field, value)  # they are frozen


def _wrong(values: object, field: str, wanted: str) -> TypeError:
    kind = type(getattr(values, field)).__name__
    return TypeError(f"{type(values).__name__}.{field} must be {wanted}, and is {kind}")


def mend_texts(values: object, *fields: str) -> None:
    for field in fields:
        value = getattr(values, field)
        if value is None:
            _set(values, field, "")
        elif not isinstance(value, str):
            raise _wrong(values, field, "a str")


def check(values: object, field: str, *kinds: type) -> None:
    if not isinstance(getattr(values, field), kinds):
        raise _wrong(values, field, " or ".join(kind.__name__ for kind in kinds))


def mend_enum(values: object, field: str, kind: Any) -> None:
    """A number becomes the member of `kind` that has it."""
    check(values, field, int)
    _set(values, field, kind.of(getattr(values, field)))


def mend_span(values: object, field: str) -> None:
    """A number counts as seconds; what is no time to wait (negative, or no number) as not said."""
    value = getattr(values, field)
    if value is None:
        return
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _set(values, field, _seconds(value))
    elif not isinstance(value, timedelta):
        raise _wrong(values, field, "a timedelta, a number of seconds, or None")
    elif value < timedelta(0):
        _set(values, field, None)


def _seconds(value: float) -> timedelta | None:
    if math.isnan(value) or value < 0:
        return None
    try:
        return timedelta(seconds=value)
    except OverflowError:
        return timedelta.max

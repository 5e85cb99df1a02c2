"""RFC 8785 (JCS), but for numbers, of which every digit counts. See fingerprint.canonical_json."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable

from .errors import InvalidFingerprint

_MAX_LEVELS = 128
_MAX_BYTES = 16 * 1024 * 1024
_MAX_EXPONENT_DIGITS = 9
_MAX_EXPONENT = 10**_MAX_EXPONENT_DIGITS - 1
_NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?")


class _Number(str):
    """A number as it was written."""


def _refuse(problem: str) -> InvalidFingerprint:
    return InvalidFingerprint(f"the request can have no JSON fingerprint: {problem}")


def canonical_number(text: str) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _refuse("no number")
    sign, whole, fraction, exponent_sign, exponent_digits = match.groups(default="")
    if len(exponent_digits.lstrip("0")) > _MAX_EXPONENT_DIGITS:
        raise _refuse(f"an exponent of more than {_MAX_EXPONENT_DIGITS} digits")
    exponent = int(exponent_sign + (exponent_digits or "0"))
    figures = (whole + fraction).lstrip("0")
    stripped = figures.rstrip("0")
    if not stripped:
        return "0"
    # The value is 0.stripped * 10^point.
    point = len(figures) - len(fraction) + exponent
    return sign + _written(stripped, point)


def _written(digits: str, point: int) -> str:
    """As ECMAScript writes a number of these digits."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    if abs(point - 1) > _MAX_EXPONENT:
        raise _refuse(f"an exponent of more than {_MAX_EXPONENT_DIGITS} digits")
    rest = "." + digits[1:] if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{point - 1:+d}"


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _refuse("a name twice in one object")
    return members


def _constant(name: str) -> Any:
    raise _refuse("a number that is not finite")


def _levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_levels, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_levels, value), default=0)
    return 0


def _write(value: Any) -> str:
    if isinstance(value, _Number):
        return canonical_number(value)
    if isinstance(value, dict):
        names = sorted(map(str, value), key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_write(name)}:{_write(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _element(items: list[Any], token: str) -> Any:
    known = token.isascii() and token.isdigit() and str(int(token)) == token
    return items[int(token)] if known and int(token) < len(items) else None


def _remove(document: Any, pointer: str) -> None:
    if not pointer.startswith("/") or "~" in pointer.replace("~0", "").replace("~1", ""):
        raise _refuse("an exclusion is no JSON pointer, or selects everything")
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    for token in tokens[:-1]:
        if isinstance(document, list):
            document = _element(document, token)
        else:
            document = document.get(token) if isinstance(document, dict) else None
    if isinstance(document, list):
        raise _refuse("an exclusion selects an element of an array")
    if isinstance(document, dict):
        document.pop(tokens[-1], None)


def canonical_json(text: bytes, exclude: Iterable[str]) -> bytes:
    if len(text) > _MAX_BYTES:
        raise _refuse(f"more than {_MAX_BYTES} bytes")
    try:
        document = json.loads(
            text.decode("utf-8"),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_constant,
            object_pairs_hook=_members,
        )
        if _levels(document) > _MAX_LEVELS:
            raise _refuse(f"more than {_MAX_LEVELS} levels")
        for pointer in exclude:
            _remove(document, pointer)
        return _write(document).encode("utf-8")
    except InvalidFingerprint:
        raise
    except (UnicodeError, RecursionError):
        raise _refuse("no UTF-8, a lone surrogate, or too many levels") from None
    except ValueError:
        # json's own message is left out: with the traceback it would show the document.
        raise _refuse("it is no JSON") from None

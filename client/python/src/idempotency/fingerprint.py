"""Fingerprints: what the service compares to notice that a key is used for another request.

A fingerprint is taken of the request as it goes out: the method, the resource, and the body. What
may differ between two tries of one request (a timestamp, a trace id) stays out of it, by `exclude`;
whatever else differs makes it another request.

    fingerprint_bytes("POST", "/v1/charges", body)
    fingerprint_json("POST", "/v1/charges", body, exclude=["/sent_at", "/meta/trace_id"])
    fingerprint_message("/bank.v1.Bank/Transfer", "", request)

Algorithm and version are part of the result, and a version never changes its meaning:

    sha256/bytes-1   the bytes as they are
    sha256/jcs-1     JSON, whatever its white space, order of members, escapes and way to write a
                     number (canonical_json)
    sha256/proto-1   a protobuf message, whatever the order of its fields
    hmac-sha256/...  the same, keyed (FingerprintKey)

What is hashed is said in client/include/idempotency/fingerprint.h and fingerprint_proto.h;
tests/vectors/fingerprints.json holds vectors for every language.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Iterable

from . import _canonical_json
from .errors import InvalidFingerprint
from .keys import frame
from .types import Fingerprint

if TYPE_CHECKING:
    from google.protobuf.message import Message

MIN_SECRET_BYTES = 16
MAX_KEY_ID_BYTES = 24


class FingerprintKey:
    """Makes fingerprints that nobody without the secret can check a guess against: for requests of
    which there are few (an amount, a birthday), as fingerprints are stored and shown to operators.
    Everybody who sends the same operation needs the same secret, for as long as its key is
    remembered.

    secret: random, at least 16 bytes, better 32. id: names it in the algorithm, at most 24 of
    [A-Za-z0-9._-]; give a new secret a new id, so that what was made with the old one counts as
    "cannot be compared" and not as another request. InvalidFingerprint otherwise.
    """

    def __init__(self, secret: bytes, id: str = "") -> None:
        if len(secret) < MIN_SECRET_BYTES:
            raise InvalidFingerprint(f"the secret is shorter than {MIN_SECRET_BYTES} bytes")
        if re.fullmatch(r"[A-Za-z0-9._-]{0,%d}" % MAX_KEY_ID_BYTES, id) is None:
            raise InvalidFingerprint(f"the id is not at most {MAX_KEY_ID_BYTES} of [A-Za-z0-9._-]")
        self._secret = secret
        self.id = id

    def digest(self, data: bytes) -> bytes:
        return hmac.new(self._secret, data, hashlib.sha256).digest()


def _fingerprint(
    form: str, method: str, resource: str, content: bytes, key: FingerprintKey | None
) -> Fingerprint:
    parts = (form.encode(), method.encode("utf-8"), resource.encode("utf-8"), content)
    data = b"".join(map(frame, parts))
    if key is None:
        return Fingerprint(f"sha256/{form}", hashlib.sha256(data).digest())
    suffix = f":{key.id}" if key.id else ""
    return Fingerprint(f"hmac-sha256/{form}{suffix}", key.digest(data))


def fingerprint_bytes(
    method: str, resource: str, body: bytes, *, key: FingerprintKey | None = None
) -> Fingerprint:
    """method and resource are taken as they are: say the same thing in the same way each time."""
    return _fingerprint("bytes-1", method, resource, body, key)


def fingerprint_json(
    method: str,
    resource: str,
    json_text: bytes | str,
    *,
    exclude: Iterable[str] = (),
    key: FingerprintKey | None = None,
) -> Fingerprint:
    """exclude: JSON pointers (RFC 6901) of members to leave out, as if the request had none.
    InvalidFingerprint where json_text or an exclusion is not what canonical_json takes."""
    return _fingerprint("jcs-1", method, resource, canonical_json(json_text, exclude), key)


def fingerprint_message(
    method: str,
    resource: str,
    message: Message,
    *,
    exclude: Iterable[str] = (),
    key: FingerprintKey | None = None,
) -> Fingerprint:
    """exclude: field paths such as "request_id" or "order.items.trace": through repeated fields and
    the values of maps they hold for every element. InvalidFingerprint where a path names no field
    of the message's type, where an Any holds what is not known here or cannot be read (exclude it,
    or send what is in it), and over 100 levels."""
    from ._canonical_proto import canonical_message

    return _fingerprint("proto-1", method, resource, canonical_message(message, exclude), key)


def canonical_json(json_text: bytes | str, exclude: Iterable[str] = ()) -> bytes:
    """What fingerprint_json hashes: RFC 8785 (JCS), but for numbers, of which every digit counts.

    - No white space; members in the order of their names' UTF-16 code units; strings with the
      shortest escapes, as UTF-8, not otherwise normalised.
    - A number is an exact decimal, never a double: 1, 1.0, 1e0 and 10e-1 are all written 1, and 0,
      -0 and 0.0 are 0; 9007199254740993 and 0.12345678901234567890 keep every digit. Written as
      ECMAScript would.

    Refused (InvalidFingerprint): invalid JSON and UTF-8, lone surrogates, a name twice in one
    object, more than 128 levels, more than 16 MiB, exponents of more than 9 digits as sent or in
    the canonical form; a pointer that is malformed, selects everything, or selects an element of
    an array.
    """
    if isinstance(json_text, str):
        json_text = json_text.encode("utf-8", "surrogatepass")
    return _canonical_json.canonical_json(json_text, exclude)

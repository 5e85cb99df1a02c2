"""Keys. A key names one operation, so it is made once, saved with what is to be done, and read
back for every further try. Never call random_key where a try is made (inside a retry, at the start
of a handler that may run again): each try would then be a new operation.

    random_key      when the operation is born here and can be saved before its first try: a row of
                    an outbox, an order that is just being created.
    derive_key      when a business identifier exists that is the same for every try and different
                    for every operation: "refund of order 4711", an event's id. Nothing has to be
                    saved.
    provider_key    what goes to the provider: not the caller's key itself, so that keys of two
                    namespaces or tenants never meet in the provider's account, and nothing that is
                    in a key leaves the house. Attempt.provider_key is this.
"""

from __future__ import annotations

import base64
import hashlib
import os

from .types import OperationId


def frame(part: bytes) -> bytes:
    """The length of part as 8 bytes, big endian, then part."""
    return len(part).to_bytes(8, "big") + part


def _frames(*parts: str) -> bytes:
    return b"".join(frame(part.encode("utf-8")) for part in parts)


def provider_key(id: OperationId) -> str:
    """base64url(SHA-256(frame(namespace) frame(scope) frame(key))), without padding: 43 of
    [A-Za-z0-9_-], which every provider of client/contracts accepts."""
    digest = hashlib.sha256(_frames(id.namespace, id.scope, id.key)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def random_key() -> str:
    """128 random bits as 32 lower-case hexadecimal digits."""
    return os.urandom(16).hex()


def derive_key(domain_label: str, business_id: str) -> str:
    """hex(SHA-256(frame("derive-1") frame(domain_label) frame(business_id))): always the same for
    the same two, and not readable back.

    domain_label says what is done ("refund-order"): two kinds of operations on one order need two
    labels. Whoever knows both can compute the key; that is no secret to rely on.
    """
    return hashlib.sha256(_frames("derive-1", domain_label, business_id)).hexdigest()

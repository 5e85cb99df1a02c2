"""What can be raised: by the calls of a connection, by an attempt, and by RunResult.answer()."""

from __future__ import annotations

from .types import ErrorReason, Refusal, StatusCode

# The reasons that pass by themselves.
_PASSING = frozenset(
    {ErrorReason.QUOTA_EXCEEDED, ErrorReason.OVERLOADED, ErrorReason.STORE_UNAVAILABLE}
)
_LOST = frozenset({StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED})


class IdempotencyError(Exception):
    """All that this package raises of its own."""


class CallError(IdempotencyError):
    """A call of the service failed.

    refusal: why the service said no; None where it did not (the call was lost, timed out, or never
    sent), and then it may have been applied or not. Every call may be made again.
    """

    def __init__(self, code: StatusCode, message: str, refusal: Refusal | None = None) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.refusal = refusal

    @property
    def reason(self) -> ErrorReason:
        """UNSPECIFIED where the service did not refuse."""
        return self.refusal.reason if self.refusal else ErrorReason.UNSPECIFIED

    @property
    def is_transient(self) -> bool:
        """Whether repeating may help: it was lost, or refused for a reason that passes."""
        if self.refusal is not None:
            return self.refusal.reason in _PASSING
        return self.code in _LOST

    @property
    def is_final_refusal(self) -> bool:
        """Whether the service itself has refused in a way that does not pass.

        What anything on the way to it says (UNKNOWN, INTERNAL, UNAUTHENTICATED ...) may be
        different the next time.
        """
        return self.refusal is not None and not self.is_transient


class ConnectionClosed(CallError):
    """The connection was closed on this side: every further call ends like this."""

    def __init__(self) -> None:
        super().__init__(StatusCode.FAILED_PRECONDITION, "the connection is closed")


class NotDispatched(IdempotencyError):
    """Attempt.dispatch: the outbound call must not start. Let it pass: the key is freed."""

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class InvalidFingerprint(IdempotencyError, ValueError):
    """What is given can have no fingerprint; says why."""

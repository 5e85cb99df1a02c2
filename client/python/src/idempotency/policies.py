"""How often and how patiently the client repeats its own calls to the service (never the caller's
effect: that is the namespace's policy). Values: replace() what should differ.

    RetryPolicy(total=timedelta(minutes=5))
    BackoffPolicy(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=5))
"""

from __future__ import annotations

import dataclasses
import os
import time
from datetime import timedelta
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """When to stop repeating one call. Every call of the service may be repeated safely."""

    total: timedelta = timedelta(seconds=30)
    max_attempts: int | None = None  # None: as many as fit

    @classmethod
    def never(cls) -> RetryPolicy:
        return cls(max_attempts=1)


@dataclasses.dataclass(frozen=True)
class BackoffPolicy:
    """initial, initial * factor ... at most maximum, each reduced by up to `jitter` of itself.

    A retry_after that the service sends wins where it is longer.
    """

    initial: timedelta = timedelta(milliseconds=50)
    maximum: timedelta = timedelta(seconds=5)
    factor: float = 2.0
    jitter: float = 0.5

    def delay(self, before_attempt: int, random: float) -> float:
        """In seconds. before_attempt: 2 for the first repetition; random: in [0, 1)."""
        if before_attempt < 2:
            return 0.0
        most = max(self.maximum.total_seconds(), 0.0)
        full = min(max(self.initial.total_seconds(), 0.0), most)
        factor = max(self.factor, 1.0)
        # Step by step, as a power would overflow; it is over soon.
        for _ in range(before_attempt - 2):
            if full >= most or full == 0.0 or factor == 1.0:
                break
            full = min(full * factor, most)
        return full * (1.0 - min(max(self.jitter, 0.0), 1.0) * min(max(random, 0.0), 1.0))


class Environment(Protocol):
    """Time and chance, so that tests decide both. Used from any thread."""

    def monotonic(self) -> float:
        """Seconds; counts on while the machine sleeps, where the system can."""

    def wall(self) -> float:
        """Seconds since 1970; for the age of an operation, nothing else is decided by it."""

    def random(self) -> float:
        """In [0, 1)."""

    def random_id(self) -> str:
        """16 random bytes as 32 hexadecimal digits, unguessable."""


class SystemEnvironment:
    """The system's. Leases go on while the machine sleeps, and so does this clock."""

    _clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic(self) -> float:
        return time.clock_gettime(self._clock)

    def wall(self) -> float:
        return time.time()

    def random(self) -> float:
        return (int.from_bytes(os.urandom(8), "big") >> 11) * 2.0**-53

    def random_id(self) -> str:
        return os.urandom(16).hex()

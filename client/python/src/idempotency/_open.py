"""Who still uses what a client is to close."""

from __future__ import annotations

import threading


class OpenRuns:
    """The runs that are under way. Whoever is told True closes what they use: close, or, where
    runs go on that settle what has happened, the last of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False

    def enter(self) -> bool:
        """False: it is closed, and nothing may be begun."""
        with self._lock:
            if self._closed:
                return False
            self._count += 1
            return True

    def leave(self) -> bool:
        with self._lock:
            self._count -= 1
            return self._closed and self._count == 0

    def close(self) -> bool:
        with self._lock:
            first, self._closed = not self._closed, True
            return first and self._count == 0

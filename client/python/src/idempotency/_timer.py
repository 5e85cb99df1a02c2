"""The two timers: one thread, or one task, for all running operations of a client."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
from typing import Callable

from .policies import Environment

_log = logging.getLogger("idempotency")

# While something is to come, it looks at the clock now and then: a machine that was asleep wakes up
# at another time than a wait ends.
_LONGEST_WAIT_S = 1.0

Action = Callable[[], None]


class _Agenda:
    """What is to be done, by when. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._actions: dict[int, Action] = {}
        self._ids = itertools.count()

    def add(self, due: float, action: Action) -> int:
        place = next(self._ids)
        self._actions[place] = action
        heapq.heappush(self._heap, (due, place))
        return place

    def drop(self, place: object) -> None:
        if isinstance(place, int):
            self._actions.pop(place, None)
        # What was dropped long before it is due must not pile up.
        if len(self._heap) > 2 * len(self._actions) + 16:
            self._heap = [entry for entry in self._heap if entry[1] in self._actions]
            heapq.heapify(self._heap)

    def take_due(self, now: float) -> Action | None:
        while self._heap and self._heap[0][0] <= now:
            action = self._actions.pop(heapq.heappop(self._heap)[1], None)
            if action is not None:
                return action
        return None

    def next_due(self) -> float | None:
        while self._heap and self._heap[0][1] not in self._actions:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


def _run(action: Action) -> None:
    try:
        action()
    except Exception as error:  # a subscriber of the caller's
        _log.error("a callback raised %s", type(error).__name__)


class ThreadTimer:
    """Thread-safe. The thread is started with the first action: a client that renews nothing has
    none. It is a daemon: it holds up no exit."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._agenda = _Agenda()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def at(self, due: float, action: Action) -> object:
        with self._changed:
            place = self._agenda.add(due, action)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._loop, name="idempotency-renewal", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return place

    def cancel(self, place: object) -> None:
        with self._changed:
            self._agenda.drop(place)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            thread, self._thread = self._thread, None
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                action = self._agenda.take_due(self._environment.monotonic())
                if action is None:
                    due = self._agenda.next_due()
                    wait = None if due is None else due - self._environment.monotonic()
                    self._changed.wait(None if wait is None else min(max(wait, 0), _LONGEST_WAIT_S))
                    continue
            _run(action)


class TaskTimer:
    """Of one loop. There is a task only while there is something to come."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._agenda = _Agenda()
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event | None = None

    def at(self, due: float, action: Action) -> object:
        place = self._agenda.add(due, action)
        self._wake()
        return place

    def cancel(self, place: object) -> None:
        self._agenda.drop(place)
        self._wake()

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            if self._agenda.next_due() is None:
                return
            self._changed = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._loop(self._changed))
        elif self._changed is not None:
            self._changed.set()

    async def _loop(self, changed: asyncio.Event) -> None:
        while True:
            changed.clear()
            action = self._agenda.take_due(self._environment.monotonic())
            if action is not None:
                _run(action)
                continue
            due = self._agenda.next_due()
            if due is None:
                return
            wait = min(max(due - self._environment.monotonic(), 0), _LONGEST_WAIT_S)
            try:
                await asyncio.wait_for(changed.wait(), wait)
            except asyncio.TimeoutError:
                pass

"""What the service counts of itself for ``/metrics``, and how many of one kind may be open at once."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from chatsnapshot.server.problems import Problem

__all__ = ["BOUNDS_SECONDS", "Counts", "Durations", "Slot", "Slots"]

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram of ``/metrics``; one more takes what was slower."""


class Durations:
    """How long something took: so many up to each bound, and the sum in seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.sum += seconds


class Counts:
    """Numbers that only grow, but ``open``. Events may be counted by any thread, the rest belongs to the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events = 0
        self.known = 0
        self.requests: dict[tuple[str, str, str], int] = {}
        self.durations: dict[str, Durations] = {}
        self.problems: dict[str, int] = {}
        self.open = 0
        """Requests that are under way."""

    def recorded(self, events: int, known: int = 0) -> None:
        """So many events were acknowledged, ``known`` of them had been there before."""
        with self._lock:
            self.events += events - known
            self.known += known

    def answered(self, method: str, route: str, status: str, seconds: float) -> None:
        """A request was answered; ``seconds`` is the time until the answer began."""
        key = (method, route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        found = self.durations.get(route)
        if found is None:
            found = self.durations[route] = Durations()
        found.add(seconds)

    def failed(self, kind: str) -> None:
        """A problem of this kind was answered."""
        self.problems[kind] = self.problems.get(kind, 0) + 1


class Slots:
    """So many of one kind at once; who finds none free is sent away with 503 and Retry-After. For the event loop only."""

    def __init__(self, what: str, count: int) -> None:
        self._what = what
        self._count = count
        self.taken = 0

    def hold(self) -> Slot:
        """Take one; give it back when done."""
        if self.taken >= self._count:
            raise Problem(
                503,
                "overloaded",
                f"{self.taken} {self._what} are open already; try again soon",
                retry_after=2,
            )
        self.taken += 1
        return Slot(self)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold one while the block runs."""
        slot = self.hold()
        try:
            yield
        finally:
            slot.give()


class Slot:
    """One that is taken."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots

    def give(self) -> None:
        """Give it back; a second time does nothing."""
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.taken -= 1

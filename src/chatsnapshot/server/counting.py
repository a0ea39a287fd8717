"""What the service counts of itself for ``/metrics``, and how many of one kind may be open at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chatsnapshot.server.problems import Problem

__all__ = ["Counts", "Slot", "Slots"]


class Counts:
    """Numbers that only grow. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events = 0
        self.requests: dict[tuple[str, int], int] = {}

    def recorded(self, events: int) -> None:
        """So many events were acknowledged."""
        with self._lock:
            self.events += events

    def answered(self, path: str, status: int) -> None:
        """A request to the endpoint ``path`` was answered."""
        with self._lock:
            self.requests[path, status] = self.requests.get((path, status), 0) + 1


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

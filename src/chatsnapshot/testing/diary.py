"""Diaries of processes that end: what was accepted and what was stored, in a file that is there afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.stores.base import Group, Outcome, Store
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.samples import event
from chatsnapshot.testing.wrappers import PassingStore

__all__ = ["Diary", "Noting", "Recording"]

SLOW_SECONDS = 0.01


class Diary:
    """A file that outlives its process: each line is there once it was written, whatever comes after."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *lines: str) -> None:
        """Add lines in one write."""
        os.write(self._descriptor, "".join(f"{line}\n" for line in lines).encode())

    @staticmethod
    def read(path: str, word: str) -> list[tuple[str, int]]:
        """The producers and numbers in the lines that begin with a word."""
        with open(path, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        return [(line[1], int(line[2])) for line in lines if line[0] == word]


class Noting(PassingStore):
    """Writes down what the store inside has stored, so that a store that ends with its process can be asked too."""

    def __init__(self, inner: Store, diary: Diary, seconds: float = 0.0) -> None:
        super().__init__(inner)
        self.diary = diary
        self.seconds = seconds

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        if self.seconds:
            time.sleep(self.seconds)
        outcomes = self.inner.append(groups)
        rows = [row for outcome in outcomes if isinstance(outcome, list) for row in outcome]
        entries = [LedgerEntry(*row) for row in rows]
        self.diary.write(*[f"stored {entry.correlation_id} {entry.payload['number']}" for entry in entries])
        return outcomes


class Recording:
    """A ledger whose store is noted, and a way to record that notes what was accepted."""

    def __init__(self, bench: Bench, place: str, path: str, slow: bool = False) -> None:
        self.diary = Diary(path)
        self.ledger = bench.open(
            place,
            limits=Limits(group_events_max=20) if slow else DEFAULTS,
            wrap=lambda store: Noting(store, self.diary, SLOW_SECONDS if slow else 0.0),
        )

    def note(self, name: str, number: int, **options: Any) -> None:
        """Record, and write down that the call came back."""
        self.ledger.record(**event(number, name), **options)
        self.diary.write(f"accepted {name} {number}")

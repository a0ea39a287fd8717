"""Reads a ledger and folds what it reads: the views that :meth:`Ledger.view` gives, and the list of runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.shapes import Run

__all__ = ["Readable", "list_runs", "view"]


class Readable(Protocol):
    """What a view needs of a ledger."""

    def replay(self, correlation_id: str, *, until: Any = None, children: bool = False) -> Iterator[LedgerEntry]:
        """The entries of a correlation in position order, with those of its children when asked."""
        ...

    def read(self, *, until: Any = None) -> Iterator[LedgerEntry]:
        """All entries in position order."""
        ...

    def get(self, event_id: str) -> LedgerEntry:
        """The entry of that event; raises :class:`~chatsnapshot.errors.NotFound`."""
        ...


def view(
    ledger: Readable, name: str, correlation_id: str, *, until: Any = None, children: bool = True
) -> Any:
    """The view ``name`` of one correlation, folded on read.

    ``runs`` gives :class:`~chatsnapshot.projections.shapes.Runs`, ``timeline`` a ``Timeline``, ``transcript`` a
    ``Transcript``; another registered projection its own result. ``until``: a position or a time, inclusive.
    ``children=False`` leaves child correlations out. Raises :class:`~chatsnapshot.errors.NotFound` for an unknown
    name (with the nearest ones) and for a correlation without entries.
    """
    raise NotImplementedError


def list_runs(ledger: Readable, *, last: int | None = None, until: Any = None) -> list[Run]:
    """All runs of the ledger as trees, in the order in which they began; ``last=n`` keeps the ``n`` roots that began last.

    One pass over the ledger. The ledger's own facts (correlation ``ledger``) are no run.
    """
    raise NotImplementedError

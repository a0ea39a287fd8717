"""Reads several ledgers as one: each keeps its own order, and they are merged by the time of recording."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, LedgerError, NotFound
from chatsnapshot.ledger import Ledger
from chatsnapshot.opening import open as open_ledger
from chatsnapshot.reading import Moment
from chatsnapshot.report import Report

__all__ = ["Federated", "Federation", "federate"]

Member = str | os.PathLike[str] | Ledger


class Federated(NamedTuple):
    """An entry, and the name of the ledger that it is in."""

    ledger: str
    entry: LedgerEntry


def federate(ledgers: Iterable[Member] | Mapping[str, Member]) -> Federation:
    """Several ledgers to be read as one, see :class:`Federation`; ``{name: place}``, or places that name themselves.

    A place is a path or URL, opened read-only, or an open ledger, which is left open. Raises :class:`NotFound` where no
    ledger is, :class:`LedgerError` when two are one history: what is in both would be read twice.
    """
    named = ledgers if isinstance(ledgers, Mapping) else None
    members = list(named.values()) if named is not None else list(ledgers)
    with ExitStack() as opened:
        found: dict[str, Ledger] = {}
        for index, member in enumerate(members):
            ledger = (
                member
                if isinstance(member, Ledger)
                else opened.enter_context(open_ledger(member, create=False, read_only=True))
            )
            name = list(named)[index] if named is not None else ledger.url
            if name in found:
                raise LedgerError(
                    f"two ledgers are named {name}; give each a name of its own: {{name: place}}"
                )
            for other, known in found.items():
                if known.ledger_id == ledger.ledger_id:
                    raise LedgerError(f"{name} and {other} are one history; give one of them")
            found[name] = ledger
        return Federation(found, opened.pop_all())


class Federation:
    """Several ledgers, read-only; made by :func:`federate`.

    There is no order over several ledgers but that of their clocks: entries come by ``recorded_at``, those of one ledger
    always in their own order, and what was recorded at the same time in the order of the ledgers given. ``with`` closes
    what was opened here.
    """

    def __init__(self, ledgers: Mapping[str, Ledger], opened: ExitStack) -> None:
        self.ledgers = dict(ledgers)
        self._opened = opened

    @property
    def heads(self) -> dict[str, int]:
        """The last position of each ledger; what a later ``read(after=...)`` goes on from."""
        return {name: ledger.head for name, ledger in self.ledgers.items()}

    def read(
        self,
        *,
        after: Mapping[str, int] | None = None,
        until: Moment | None = None,
        limit: int | None = None,
        reverse: bool = False,
        **filters: Any,
    ) -> Iterator[Federated]:
        """Entries of all ledgers, each ledger up to its head of now, a page of each in memory.

        ``after`` are positions (exclusive) by the names of ledgers; ``until`` is a time of recording (inclusive);
        ``filters`` are those of :meth:`Ledger.read`.
        """
        if isinstance(until, int):
            raise InvalidEvent("until is a time here: a position is of one ledger alone", path="until")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidEvent(f"limit is a number from 0 on, not {limit!r:.80}", path="limit")
        unknown = sorted(set(after or ()) - set(self.ledgers))
        if unknown:
            raise InvalidEvent(
                f"there is no ledger {unknown[0]!r} here to read after a position", path="after"
            )
        streams = [
            _named(
                name, ledger.read(after=(after or {}).get(name, 0), until=until, reverse=reverse, **filters)
            )
            for name, ledger in self.ledgers.items()
        ]
        return islice(heapq.merge(*streams, key=_recorded_at, reverse=reverse), limit)

    def get(self, event_id: object) -> Federated:
        """The entry of one event, in the first ledger that has it; raises :class:`NotFound`."""
        for name, ledger in self.ledgers.items():
            try:
                return Federated(name, ledger.get(event_id))
            except NotFound:
                continue
        raise NotFound(f"there is no event {event_id} in any of {', '.join(self.ledgers)}")

    def verify(self) -> dict[str, Report]:
        """The report of each ledger; each proves itself, and nothing about the others."""
        return {name: ledger.verify() for name, ledger in self.ledgers.items()}

    def close(self) -> None:
        """Close the ledgers that were opened here."""
        self._opened.close()

    def __enter__(self) -> Federation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _named(name: str, entries: Iterable[LedgerEntry]) -> Iterator[Federated]:
    return (Federated(name, entry) for entry in entries)


def _recorded_at(found: Federated) -> str:
    return found.entry.recorded_at

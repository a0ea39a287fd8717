"""The errors that ChatSnapshot raises, one tree.

    LedgerError
    ├── InvalidEvent        the event cannot be recorded as given (nothing was stored)
    ├── EventConflict       the event id is known, with other content
    ├── SequenceConflict    ``expected_sequence`` does not match the correlation
    ├── CommitUncertain     the commit itself failed: the events may or may not be stored
    ├── StoreFull           no space; nothing of this call was stored; works again when there is space
    ├── StoreUnavailable    the store cannot be reached or is locked; nothing of this call was stored
    ├── StorePoisoned       an uncertain commit could not be settled yet; nothing was stored
    ├── LedgerClosed        the ledger was closed, or the interpreter is shutting down
    ├── ReadOnly            the ledger was opened read-only, or is a copy that was not promoted
    ├── NotFound            no such ledger, event, run, view or blob
    ├── Corrupt             stored bytes do not match what was committed to
    ├── FormatTooNew        the file was written by a newer version
    ├── LimitExceeded       a named limit was passed
    └── MissingExtra        an optional dependency is not installed

Every message is one sentence that says what was wanted, what was found, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "CommitUncertain",
    "Corrupt",
    "EventConflict",
    "FormatTooNew",
    "InvalidEvent",
    "LedgerClosed",
    "LedgerError",
    "LimitExceeded",
    "MissingExtra",
    "NotFound",
    "ReadOnly",
    "SequenceConflict",
    "StoreFull",
    "StorePoisoned",
    "StoreUnavailable",
]


class LedgerError(Exception):
    """Base of every error that ChatSnapshot raises."""


class InvalidEvent(LedgerError):
    """The event cannot be recorded as given; nothing was stored.

    ``path`` is a JSON path into the payload (``$.a[3].b``) or the name of the argument. ``line`` is the number of the
    line at which :meth:`Ledger.ingest` stopped, after storing what came before it.
    """

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class EventConflict(LedgerError):
    """An event with this id is in the ledger already, with other content.

    ``event_id`` names it, ``position`` is where it stands (``None`` when both are in one batch),
    ``fields`` are the fields that differ.
    """

    def __init__(self, event_id: str, fields: Sequence[str], position: int | None = None) -> None:
        where = f"at position {position}" if position is not None else "in the same batch"
        super().__init__(
            f"event {event_id} is recorded {where} with another {', '.join(fields)}; "
            "events are immutable: record a new event with an id of its own"
        )
        self.event_id = event_id
        self.fields = tuple(fields)
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.event_id, self.fields, self.position)


class SequenceConflict(LedgerError):
    """``expected_sequence`` is not the correlation's last sequence.

    ``wanted`` is what the caller expected, ``found`` what the ledger holds (0 = no event yet).
    """

    def __init__(self, correlation_id: str, wanted: int, found: int) -> None:
        super().__init__(
            f"correlation {correlation_id!r} is at sequence {found}, not at {wanted} as expected; "
            "read what was added and decide again"
        )
        self.correlation_id = correlation_id
        self.wanted = wanted
        self.found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.correlation_id, self.wanted, self.found)


class CommitUncertain(LedgerError):
    """The commit failed in a way that leaves open whether the events are stored.

    ``events`` are the complete envelopes: ``ledger.record_many(error.events)`` is the safe retry,
    because known ids are stored once.
    """

    def __init__(self, message: str, events: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.events = tuple(events)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.events)


class StoreFull(LedgerError):
    """There is no space for the events; nothing of this call was stored."""


class StoreUnavailable(LedgerError):
    """The store cannot be reached, is locked or refuses; nothing of this call was stored."""


class StorePoisoned(LedgerError):
    """An earlier commit is uncertain and could not be settled yet; nothing of this call was stored."""


class LedgerClosed(LedgerError):
    """The ledger was closed, or the interpreter is shutting down; nothing of this call was stored."""


class ReadOnly(LedgerError):
    """The ledger was opened read-only, or is a copy that takes entries from its source alone."""


class NotFound(LedgerError):
    """There is no such ledger, event, run, view or blob."""


class Corrupt(LedgerError):
    """Stored bytes are damaged or do not match what the ledger committed to.

    ``position`` is the first entry concerned, where one is known.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class FormatTooNew(LedgerError):
    """The ledger was written by a newer version of ChatSnapshot."""


class LimitExceeded(LedgerError):
    """A named limit was passed; nothing was stored.

    ``limit`` is its name in :class:`chatsnapshot.limits.Limits`, ``allowed`` and ``found`` are in its unit.
    """

    def __init__(self, limit: str, allowed: int, found: int, what_to_do: str) -> None:
        super().__init__(f"{limit} is {allowed:,} and {found:,} were found; {what_to_do}")
        self.limit = limit
        self.allowed = allowed
        self.found = found
        self.what_to_do = what_to_do

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit, self.allowed, self.found, self.what_to_do)


class MissingExtra(LedgerError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'chatsnapshot[{extra}]'")
        self.feature = feature
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.feature, self.extra)

"""What an accepted event is until it is stored: a ticket in the queue, the caller's ``Pending``, the flush report."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import EventEnvelope, LedgerEntry, source_of
from chatsnapshot.stores.base import Draft, Group, Outcome, Row, Store

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "Failure",
    "FlushReport",
    "Pending",
    "Ticket",
    "envelope_of",
    "rows_of",
    "ticket_of",
    "with_refused",
]


def envelope_of(draft: Draft) -> EventEnvelope:
    """The complete envelope of a draft, ready to be recorded again."""
    event_id, event_type, timestamp, source, correlation, cause, payload, version, attributes = draft.columns
    return EventEnvelope(
        event_id=uuid_text(event_id),
        event_type=event_type,
        timestamp=timestamp,
        source=source_of(source),
        correlation_id=correlation,
        causation_id=None if cause is None else uuid_text(cause),
        payload_json=payload or b"{}",
        schema_version=version or 1,
        attributes_json=attributes,
        filled=draft.filled,
        blobs=draft.blobs,
    )


class Failure(msgspec.Struct, frozen=True):
    """An accepted event that could not be stored, and why."""

    event: EventEnvelope
    error: Exception


class FlushReport(msgspec.Struct, frozen=True):
    """What became of the events accepted with ``wait=False`` since the last flush."""

    stored: int
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every one is stored."""
        return not self.failures


def with_refused(report: FlushReport, store: Store, timeout: float | None) -> FlushReport:
    """The report, and behind a spool what the service refused of what was recorded; waits until all of it is sent.

    Raises ``TimeoutError`` when that takes longer than ``timeout`` seconds.
    """
    settle = getattr(type(store), "settle", None)
    if settle is None:
        return report
    refused = tuple(Failure(envelope_of(draft), error) for draft, error in settle(store, timeout))
    return FlushReport(report.stored, report.failures + refused)


_latching = threading.Lock()
"""Held for the moment in which a ticket gets its latch."""


def ticket_of(group: Group, waited: bool) -> Ticket:
    """The ticket of a group."""
    drafts = group.drafts
    if len(drafts) == 1:
        return Ticket(group, waited, 1, drafts[0].payload_bytes)
    return Ticket(group, waited, len(drafts), sum([draft.payload_bytes for draft in drafts]))


def rows_of(outcome: Outcome) -> list[Row]:
    """The rows of a group that was stored; raises what kept it from being stored."""
    if isinstance(outcome, list):
        return outcome
    raise outcome


class Ticket(msgspec.Struct, eq=False):
    """One group on its way through the queue: ``events`` of them, ``size`` bytes of payload."""

    group: Group
    waited: bool
    events: int
    size: int
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Outcome] | None = None
    outcome: Outcome | None = None
    done: bool = False
    settled: bool = False
    latch: threading.Lock | None = None

    def wait(self, timeout: float | None) -> bool:
        """Block until it is resolved; ``False`` after ``timeout`` seconds."""
        with _latching:
            latch = self.latch
            if latch is None:
                latch = threading.Lock()
                latch.acquire()
                self.latch = latch
        # Either the resolver has seen this latch, or this thread sees `done`.
        if self.done:
            return True
        if not latch.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return False
        latch.release()
        return True

    def resolve(self, outcome: Outcome) -> None:
        """Say what became of the group, and let whoever waits go on."""
        self.outcome = outcome
        self.done = True
        if self.latch is not None:
            self.latch.release()

    def rows(self) -> list[Row]:
        """The rows of its events; raises why none was stored."""
        assert self.outcome is not None
        return rows_of(self.outcome)


class Pending:
    """An event that was accepted and is not yet acknowledged.

    ``event_id`` is known at once, so that it can be the cause of other events.
    """

    __slots__ = ("_entry", "_ticket")

    def __init__(self, ticket: Ticket, entry: Callable[[Row], LedgerEntry]) -> None:
        self._ticket = ticket
        self._entry = entry

    @property
    def event_id(self) -> str:
        """The event's id, as text."""
        return uuid_text(self._ticket.group.drafts[0].columns[0])

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._ticket.done

    def result(self, timeout: float | None = None) -> LedgerEntry:
        """Wait until the event is durable and give its entry.

        Raises what kept it from being stored, or ``TimeoutError`` after ``timeout`` seconds (it is still accepted).
        """
        if not self._ticket.wait(timeout):
            raise TimeoutError(
                f"event {self.event_id} is not durable after {timeout} s; it is still accepted"
            )
        return self._entry(self._ticket.rows()[0])

    def __repr__(self) -> str:
        return f"<Pending {self.event_id} {'done' if self.done() else 'accepted'}>"


def _after_fork_in_child() -> None:
    global _latching
    _latching = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

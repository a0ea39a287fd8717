"""Reads what is neither said nor called: states, outputs, memory, guardrails, limits, what users see, ledger facts.

A part of the one reader of payloads (:mod:`chatsnapshot.events.normaliser`); nothing here raises because of a payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.events.fields import error_text, first, ident, items, name_of, readable, text_of, whole

__all__ = [
    "Artifact",
    "Change",
    "ClockBehind",
    "Erasure",
    "Gap",
    "Guardrail",
    "Interaction",
    "Limit",
    "Memory",
    "Output",
    "Promotion",
    "Rejection",
    "Retrieval",
    "Seen",
    "read_artifact",
    "read_change",
    "read_clock_behind",
    "read_erasure",
    "read_gap",
    "read_guardrail",
    "read_interaction",
    "read_limit",
    "read_memory",
    "read_output",
    "read_promotion",
    "read_rejection",
    "read_retrieval",
    "read_seen",
]


class Change(msgspec.Struct, frozen=True):
    """``subject`` went from the state ``before`` to ``after``, as far as these are known."""

    subject: str | None
    before: Any
    after: Any
    reason: str | None

    @property
    def text(self) -> str:
        """``desk waiting → working``; empty when nothing is known."""
        if self.after is None:
            return self.subject or ""
        after = text_of(self.after)
        move = after if self.before is None else f"{text_of(self.before)} → {after}"
        return f"{self.subject} {move}" if self.subject else move


class Output(msgspec.Struct, frozen=True):
    """A result; ``value`` is a JSON value."""

    name: str | None
    value: Any

    @property
    def text(self) -> str:
        """The result as text."""
        return text_of(self.value)


class Artifact(msgspec.Struct, frozen=True):
    """A file or document; ``bytes`` is its size, ``where`` a URI or a path."""

    name: str | None
    where: str | None
    mime_type: str | None
    bytes: int | None

    @property
    def text(self) -> str:
        """What it is called, else where it is."""
        return self.name or self.where or ""


class Retrieval(msgspec.Struct, frozen=True):
    """A search; ``count`` is how many documents were found, ``None`` when unknown."""

    name: str | None
    query: str | None
    count: int | None
    error: str | None

    @property
    def text(self) -> str:
        """What was searched for, else where."""
        return ": ".join(filter(None, (self.query or self.name, self.error)))


class Memory(msgspec.Struct, frozen=True):
    """Something remembered or recalled; ``value`` is a JSON value."""

    operation: str | None
    key: str | None
    value: Any

    @property
    def text(self) -> str:
        """``write odile: Customer since the first winter.``"""
        head = " ".join(filter(None, (self.operation, self.key)))
        return ": ".join(filter(None, (head, text_of(self.value))))


class Guardrail(msgspec.Struct, frozen=True):
    """A guardrail's judgement; ``phase`` is what it judged: input, output or a tool call."""

    name: str | None
    phase: str | None
    action: str | None
    message: str | None
    outcome: str | None
    error: str | None

    @property
    def text(self) -> str:
        """Its name, what it did and why."""
        return ": ".join(filter(None, (self.name, self.action, self.message, self.outcome, self.error)))


class Limit(msgspec.Struct, frozen=True):
    """A limit that was reached; ``limit`` and ``used`` are numbers as text, in ``unit``."""

    name: str | None
    limit: str | None
    used: str | None
    unit: str | None
    message: str | None

    @property
    def text(self) -> str:
        """``tokens a run: 20480 of 20000 tokens``."""
        amount = " of ".join(filter(None, (self.used, self.limit)))
        if amount and self.unit:
            amount += f" {self.unit}"
        return ": ".join(filter(None, (self.name, amount, self.message)))


class Seen(msgspec.Struct, frozen=True):
    """What a user gave or was shown; ``value`` is a JSON value."""

    element: str | None
    user: str | None
    value: Any

    @property
    def text(self) -> str:
        """The value as text."""
        return text_of(self.value)


class Interaction(msgspec.Struct, frozen=True):
    """What a user did; ``value`` is a JSON value."""

    element: str | None
    action: str | None
    value: Any
    user: str | None

    @property
    def text(self) -> str:
        """``select rating: 5``."""
        head = " ".join(filter(None, (self.action, self.element)))
        return ": ".join(filter(None, (head, text_of(self.value))))


class Erasure(msgspec.Struct, frozen=True):
    """At which positions payloads were erased, and why."""

    positions: tuple[int, ...]
    reason: str | None

    @property
    def text(self) -> str:
        """``positions 12, 13: asked for by the customer``."""
        named = ", ".join(map(str, self.positions[:20])) + (", …" if len(self.positions) > 20 else "")
        word = "position" if len(self.positions) == 1 else "positions"
        return ": ".join(filter(None, (f"{word} {named}" if named else "", self.reason)))


class Gap(msgspec.Struct, frozen=True):
    """How many events were dropped, with the timestamps of the first and the last."""

    events: int | None
    bytes: int | None
    first_at: str | None
    last_at: str | None
    adapter: str | None
    reason: str | None

    @property
    def text(self) -> str:
        """``3 events of ag2 were dropped: the store is full``."""
        count = "unknown events" if self.events is None else f"{self.events:,} events"
        if self.events == 1:
            count = "1 event"
        by = f" of {self.adapter}" if self.adapter else ""
        return ": ".join(filter(None, (f"{count}{by} dropped", self.reason)))


class Rejection(msgspec.Struct, frozen=True):
    """Which event a store refused, and why."""

    event_id: str | None
    event_type: str | None
    reason: str | None

    @property
    def text(self) -> str:
        """``execution.message 0193…: the payload is too large``."""
        head = " ".join(filter(None, (self.event_type, self.event_id)))
        return ": ".join(filter(None, (head, self.reason)))


class ClockBehind(msgspec.Struct, frozen=True):
    """By how much the ledger's clock went back, and which time was repeated."""

    clock: str | None
    recorded_at: str | None
    behind_ns: int | None

    @property
    def text(self) -> str:
        """``63.1 s behind 2026-11-30T02:26:03.123456Z``."""
        behind = "" if self.behind_ns is None else f"{self.behind_ns / 1e9:,.1f} s "
        return f"{behind}behind {self.recorded_at}" if self.recorded_at else behind.strip()


class Promotion(msgspec.Struct, frozen=True):
    """Which ledger a copy became, and of which ledger its entries up to here are."""

    ledger_id: str | None
    copied_from: str | None
    reason: str | None

    @property
    def text(self) -> str:
        """``0b1f6e0e-…, copied from c35ad881-…: the first machine is gone``."""
        of = f"copied from {self.copied_from}" if self.copied_from else ""
        return ": ".join(filter(None, (", ".join(filter(None, (self.ledger_id, of))), self.reason)))


def read_change(payload: Mapping[str, Any]) -> Change:
    """What changed, from what to what."""
    return Change(
        name_of(first(payload, "name", "node", "step", "key", "agent", "entity", "process")),
        readable(first(payload, "from", "old", "previous")),
        readable(first(payload, "to", "new", "state", "status", "value")),
        _text(payload, "reason"),
    )


def read_output(payload: Mapping[str, Any]) -> Output:
    """What a run produced."""
    value = first(payload, "output", "result", "content", "text", "value", "message")
    return Output(name_of(payload.get("name")), readable(value))


def read_artifact(payload: Mapping[str, Any]) -> Artifact:
    """Which file or document a run produced."""
    return Artifact(
        name_of(first(payload, "name", "title", "artifact_id")),
        _text(payload, "uri", "url", "path"),
        _text(payload, "mime_type", "media_type"),
        whole(first(payload, "bytes", "size")),
    )


def read_retrieval(payload: Mapping[str, Any]) -> Retrieval:
    """What was searched for, and how much was found."""
    count, documents = whole(payload.get("count")), items(first(payload, "documents", "results"))
    return Retrieval(
        name_of(first(payload, "name", "store", "index")),
        _text(payload, "query"),
        len(documents) if count is None and documents is not None else count,
        error_text(payload.get("error")),
    )


def read_memory(payload: Mapping[str, Any]) -> Memory:
    """What was remembered or recalled."""
    return Memory(
        _text(payload, "operation"),
        name_of(payload.get("key")),
        readable(first(payload, "content", "value", "query")),
    )


def read_guardrail(payload: Mapping[str, Any]) -> Guardrail:
    """What a guardrail judged."""
    outcome = _text(payload, "outcome")
    if outcome is None and isinstance(triggered := payload.get("triggered"), bool):
        outcome = "triggered" if triggered else "passed"
    return Guardrail(
        name_of(first(payload, "name", "guardrail")),
        _text(payload, "phase"),
        _text(payload, "action"),
        _text(payload, "message", "reason"),
        outcome,
        error_text(payload.get("error")),
    )


def read_limit(payload: Mapping[str, Any]) -> Limit:
    """Which limit was reached, and what it is."""
    return Limit(
        name_of(payload.get("name")),
        _text(payload, "limit"),
        _text(payload, "used"),
        _text(payload, "unit"),
        error_text(payload.get("error")) or _text(payload, "reason", "message", "text", "value"),
    )


def read_seen(payload: Mapping[str, Any]) -> Seen:
    """What a user gave or was shown."""
    value = first(payload, "text", "content", "value", "input", "output", "message")
    return Seen(name_of(payload.get("element")), name_of(payload.get("user")), readable(value))


def read_interaction(payload: Mapping[str, Any]) -> Interaction:
    """What a user did with what."""
    return Interaction(
        name_of(payload.get("element")),
        _text(payload, "action"),
        readable(payload.get("value")),
        name_of(payload.get("user")),
    )


def read_erasure(payload: Mapping[str, Any]) -> Erasure:
    """Which payloads were erased."""
    found = (whole(one) for one in items(payload.get("positions")) or ())
    return Erasure(tuple(one for one in found if one is not None), _text(payload, "reason"))


def read_gap(payload: Mapping[str, Any]) -> Gap:
    """What could not be stored."""
    return Gap(
        whole(payload.get("events")),
        whole(payload.get("bytes")),
        _text(payload, "from"),
        _text(payload, "to"),
        name_of(payload.get("adapter")),
        _text(payload, "reason"),
    )


def read_rejection(payload: Mapping[str, Any]) -> Rejection:
    """Which event was refused."""
    return Rejection(
        ident(payload.get("event_id")), ident(payload.get("event_type")), _text(payload, "reason", "error")
    )


def read_clock_behind(payload: Mapping[str, Any]) -> ClockBehind:
    """How far the clock went back."""
    return ClockBehind(
        _text(payload, "clock"), _text(payload, "recorded_at"), whole(payload.get("behind_ns"))
    )


def read_promotion(payload: Mapping[str, Any]) -> Promotion:
    """Which ledger a copy became, and of which it had been one."""
    return Promotion(
        ident(payload.get("ledger_id")), ident(payload.get("copied_from")), _text(payload, "reason")
    )


def _text(payload: Mapping[str, Any], *keys: str) -> str | None:
    return text_of(first(payload, *keys)) or None

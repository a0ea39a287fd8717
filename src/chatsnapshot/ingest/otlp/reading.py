"""One span while it becomes events: its place, its cause, its attributes as they are taken, and what is left of them."""

from __future__ import annotations

from typing import Any

from chatsnapshot.clock import time_text
from chatsnapshot.ingest.otlp.event import Event, event_key, name_text, place_text, source_json, start_key
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ingest.otlp.records import ERROR, OK, Facts, Span

__all__ = ["Reading", "correlation_of"]

_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_UNPARSED = frozenset(("tool", "handoff", "client", "server", "other"))
"""Kinds whose texts are taken as they are."""
_ORIGINS = {"execution": "agent", "integration": "integration"}


def correlation_of(facts: Facts) -> str | None:
    """The conversation that the attributes name."""
    for name in _CONVERSATIONS:
        if name in facts and (text := name_text(facts[name])) is not None:
            return text
    return None


class Reading:
    """A span being read. ``facts`` are its attributes: what an event takes is taken out, the rest is kept whole."""

    def __init__(self, span: Span, memory: Memory, kind: str) -> None:
        facts = span.facts
        self.span = span
        self.memory = memory
        self.kind = kind
        self.facts = facts
        self.named = correlation_of(facts)
        self.correlation = self.named or span.trace
        agent = facts.get("gen_ai.agent.name")
        self.agent = name_text(agent if agent is not None else facts.get("agent.name"))
        self.first = start_key(span.trace, span.id)
        self.cause = None if span.parent is None else start_key(span.trace, span.parent)
        self.place = place_text(span.trace, span.id)
        self.clear = 0 < span.start <= span.end
        self.left_out: list[str] = []
        self.plain = span.plain and kind in _UNPARSED

    # --- attributes ---

    def take(self, *names: str) -> Any:
        """The first of the attributes that is there, taken out; the others stay."""
        for name in names:
            if name in self.facts:
                value = self.facts.pop(name)
                if value is not None:
                    return value
        return None

    def take_all(self, *names: str) -> Any:
        """As :meth:`take`, and others that say the same go with it."""
        found = None
        for name in names:
            if name in self.facts:
                value = self.facts[name]
                if found is None:
                    found = self.facts.pop(name)
                elif found == value:
                    del self.facts[name]
        return found

    def count(self, *names: str) -> int | None:
        """A count of tokens, where it is one; what is none stays."""
        found = self.take_all(*names)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        return found if type(found) is int and found >= 0 else None

    def leave_out(self, *names: str) -> None:
        """Drop what stands in other events already; the names are kept."""
        for name in names:
            if self.facts.pop(name, None) is not None:
                self.left_out.append(name)

    def leave_out_list(self, prefix: str) -> None:
        """As :meth:`leave_out`, a flattened list."""
        found = [name for name in self.facts if name.startswith(prefix)]
        for name in found:
            del self.facts[name]
        if found:
            self.left_out.append(prefix)

    # --- facts about the span ---

    @property
    def duration_ns(self) -> int | None:
        """How long it took; ``None`` where the times do not tell."""
        return self.span.end - self.span.start if self.clear else None

    @property
    def started_at(self) -> str | None:
        """When it began."""
        return time_text(self.span.start) if self.clear else None

    def error(self) -> Facts | None:
        """What went wrong, by status, ``error.type`` and an ``exception`` event."""
        span = self.span
        raised: Facts = {}
        for _, name, facts in span.events:
            if name == "exception":
                raised = facts
        kind = self.facts.get("error.type")
        if span.status != ERROR and kind is None and (not raised or span.status == OK):
            return None
        error: Facts = {}
        if (said := kind or raised.get("exception.type")) is not None:
            error["type"] = str(said)
        message = raised.get("exception.message") or span.message or None
        if message is not None:
            error["message"] = message
        return error or {"message": "the span's status is an error"}

    def native(self) -> Facts:
        """What no key of the payload holds: goes with the last event of the span."""
        span, origin = self.span, self.span.origin
        native: Facts = {"span": span.name, "kind": span.kind}
        if self.facts:
            native["attributes"] = self.facts
        if self.left_out:
            native["left_out"] = self.left_out
        if span.status or span.message:
            native["status"] = {"code": span.status, "message": span.message}
        if span.events:
            native["events"] = [
                {"time_unix_nano": time, "name": name, "attributes": facts}
                for time, name, facts in span.events
            ]
        if span.links:
            native["links"] = span.links
        if origin.resource:
            native["resource"] = origin.resource
        if origin.scope_facts:
            native["scope"] = origin.scope_facts
        if span.more:
            native |= span.more
        if not self.clear:
            native["time"] = "unknown"
            native["start_time_unix_nano"], native["end_time_unix_nano"] = span.start, span.end
        return native

    # --- events ---

    def event(
        self, event_type: str, payload: Facts, *, end: bool = False, key: bytes | None = None, rank: int = 2
    ) -> Event:
        """An event of this span; the first has the id that events of its children name as their cause."""
        span = self.span
        at = span.end or span.start if end else span.start or span.end
        if end:
            payload["native"] = self.native()
        elif not self.clear:
            payload["native"] = {"time": "unknown"}
        return Event(
            key or (event_key(span.trace, span.id, "end") if end else self.first),
            event_type,
            at,
            source_json(_ORIGINS.get(event_type.partition(".")[0], "system"), span.origin.scope, self.agent),
            self.correlation,
            self.first if end and key is None else self.cause,
            payload,
            self.place,
            False,
            rank,
            self.plain,
        )

"""Builds the trace of one run and its children from its timeline: which span is inside which, and where events go."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.normaliser import read_model_call
from chatsnapshot.exporters.spans import (
    Span,
    attributes_of,
    begun,
    ended,
    event_facts,
    links_of,
    name_of_span,
    span_id,
    trace_id,
)
from chatsnapshot.exporters.stored import facts_of, time_ns
from chatsnapshot.projections.shapes import TimelineItem

__all__ = ["Trace"]

UNKNOWN_SPAN = "spans whose time is unknown"
UNKNOWN_EVENT = "span events whose time is unknown"

_HOLDERS = ("run", "workflow")


class Trace:
    """Takes the entries of a run and its children in order of position.

    A run, workflow, task, tool call, question or call of a service is a span from its first event to its last, a model
    call one of its own; every other event is a span event of the run that is open in its correlation.
    """

    def __init__(self, first_event_id: str) -> None:
        self.id = trace_id(first_event_id)
        self.left_out: Counter[str] = Counter()
        self._spans: dict[int, Span] = {}
        self._open: dict[str, list[Span]] = {}
        self._latest: dict[str, Span] = {}
        self._outside: dict[str, Span | None] = {}
        self._covering: dict[int, Span] = {}
        self._last: dict[str, int] = {}

    def take(self, item: TimelineItem, entry: LedgerEntry) -> None:
        """Add what one entry says."""
        correlation = item.correlation_id
        if correlation not in self._outside:
            # The first event of a child run has its cause in the run above.
            self._outside[correlation] = self._covering.get(item.cause_position or 0)
        at = time_ns(item.at)
        if at is not None:
            self._last[correlation] = max(at, self._last.get(correlation, 0))
        if item.edge == "end" and item.partner in self._spans:
            self._end(self._spans[item.partner], item, entry, at)
            self._cover(item, self._holder(correlation))
        elif item.edge in ("start", "whole"):
            self._begin(item, entry, at)
        else:
            self._note(item, entry, at)

    def _begin(self, item: TimelineItem, entry: LedgerEntry, at: int | None) -> None:
        what = item.span or "run"
        if at is None:
            self.left_out[UNKNOWN_SPAN] += 1
            self._cover(item, self._holder(item.correlation_id))
            return
        facts = begun(what, entry)
        start, end = at, None
        if item.edge == "whole":
            start, end = _whole(item, entry, at, facts)
        parent = self._parent(item, at)
        span = Span(
            key=item.position,
            id=span_id(entry.event_id),
            what=what,
            name=name_of_span(what, facts, item.correlation_id),
            start=start,
            end=end,
            parent=None if parent is None else parent.id,
            facts=facts,
            links=links_of(entry),
        )
        if item.edge == "whole":
            span.error = ended(what, entry)[1]
        self._spans[item.position] = span
        self._covering[item.position] = span
        if what in _HOLDERS:
            self._open.setdefault(item.correlation_id, []).append(span)
            self._latest[item.correlation_id] = span

    def _end(self, span: Span, item: TimelineItem, entry: LedgerEntry, at: int | None) -> None:
        facts, span.error = ended(span.what, entry)
        span.facts.update(facts)
        if at is None:
            span.facts["chatsnapshot.end_unknown"] = True
            span.end = span.start
        else:
            span.end = at
        still = self._open.get(item.correlation_id, [])
        if span in still:
            still.remove(span)

    def _note(self, item: TimelineItem, entry: LedgerEntry, at: int | None) -> None:
        holder = self._holder(item.correlation_id)
        if at is None:
            self.left_out[UNKNOWN_EVENT] += 1
            self._cover(item, holder)
            return
        if holder is None:
            holder = self._made_holder(item, at)
        name = "gen_ai.evaluation.result" if entry.event_type == "execution.evaluation" else entry.event_type
        facts = {**event_facts(entry), "chatsnapshot.summary": item.what}
        made: dict[str, Any] = {"timeUnixNano": str(at), "name": name, "attributes": attributes_of(facts)}
        holder.events.append(made)
        self._cover(item, holder)

    def _parent(self, item: TimelineItem, at: int) -> Span | None:
        cause = self._covering.get(item.cause_position or 0)
        if cause is not None and cause.what == "task" and cause.end is None:
            return cause
        holder = self._holder(item.correlation_id)
        if holder is not None or item.span in _HOLDERS:
            return holder or self._outside[item.correlation_id]
        return self._made_holder(item, at)

    def _holder(self, correlation: str) -> Span | None:
        """The run that is open in a correlation, else the one that was last."""
        still = self._open.get(correlation)
        return still[-1] if still else self._latest.get(correlation)

    def _made_holder(self, item: TimelineItem, at: int) -> Span:
        """A span for the events of a correlation that stand in no run."""
        outside = self._outside[item.correlation_id]
        span = Span(
            key=item.position,
            id=span_id(f"events {item.event_id}"),
            what="run",
            name=f"events {item.correlation_id}",
            start=at,
            parent=None if outside is None else outside.id,
            facts={"gen_ai.conversation.id": item.correlation_id, "chatsnapshot.no_run": True},
        )
        self._spans[-item.position] = span
        self._latest[item.correlation_id] = span
        return span

    def _cover(self, item: TimelineItem, span: Span | None) -> None:
        if span is not None:
            self._covering[item.position] = span

    def spans(self) -> list[dict[str, Any]]:
        """The spans in the order in which they began; an open one lasts until the last event of its correlation."""
        for span in self._spans.values():
            span.last = self._last.get(span.facts["gen_ai.conversation.id"], span.start)
        found = sorted(self._spans.items(), key=lambda pair: (pair[1].key, pair[0]))
        return [span.shaped(self.id) for _, span in found]


def _whole(item: TimelineItem, entry: LedgerEntry, at: int, facts: dict[str, Any]) -> tuple[int, int]:
    """Start and end of a model call, which is recorded once, at its end."""
    started = time_ns(_timestamp(read_model_call(facts_of(entry)).started_at))
    took = item.duration_ns
    if started is not None:
        return started, max(started, started + took if took is not None else at)
    if took is not None and took <= at:
        return at - took, at
    facts["chatsnapshot.start_unknown"] = True
    return at, at


def _timestamp(text: str | None) -> str | None:
    """A time that a payload gives, where it has a zone."""
    return text if text and (text.endswith(("Z", "z")) or "+" in text[10:] or "-" in text[10:]) else None

"""What a model can ask of a ledger, each answer a text within its budget: pure reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.mcp import answers
from chatsnapshot.projections.context.making import context
from chatsnapshot.projections.finding import correlation_of, every_run, find_event, is_event_id
from chatsnapshot.projections.render import render_text
from chatsnapshot.projections.search.searching import search
from chatsnapshot.projections.views import list_runs, view
from chatsnapshot.projections.words import duration_text, offset_text, status_text

if TYPE_CHECKING:
    from chatsnapshot.envelope import LedgerEntry
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.projections.shapes import Run, TimelineItem, Transcript

__all__ = ["History"]

_WIDTH = 10_000
"""Lines of a transcript are not wrapped: a model needs none."""


class History:
    """Questions to one ledger. Raises :class:`LedgerError`: ``NotFound`` with the nearest names among them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def runs(self, last: int, budget: int) -> str:
        """The runs that began last, children under their parents, the newest at the end."""
        found = list_runs(self._ledger, last=last)
        if not found:
            return "Nothing is recorded in this ledger yet."
        lines = [_run_line(run, depth) for run, depth in _with_depth(found)]
        head = f"{len(lines)} runs, children indented under their parents, the newest last. Times are UTC."
        return answers.last(
            head, lines, budget, lambda count: f"{count} earlier ones do not fit into the budget."
        )

    def search(
        self, query: str, run: str | None, event_type: str | None, newest: bool, limit: int, budget: int
    ) -> str:
        """The events in which all words are found."""
        found = search(
            self._ledger,
            query,
            limit=limit,
            order="newest" if newest else "best",
            keep=True,
            correlation_id=None if run is None else correlation_of(self._ledger, run),
            event_type=event_type,
        )
        if not found.hits:
            return "Nothing was found. All words must be in one event; try fewer, or begin* for beginnings."
        lines = [
            answers.line(hit.position, hit.at[:19] + "Z", hit.correlation_id, hit.event_type, hit.who)
            + f"\n        {answers.line(hit.snippet, chars_max=400)}"
            for hit in found.hits
        ]
        head = f"{len(lines)} hits, {'newest' if newest else 'best'} first: position, time, run, type, who, text."
        return answers.first(head, lines, budget, lambda count: f"{count} more do not fit into the budget.")

    def transcript(self, run: str, until: int | None, children: bool, budget: int) -> str:
        """The conversation of a run, its end when not all of it fits."""
        correlation = correlation_of(self._ledger, run)
        found: Transcript = view(self._ledger, "transcript", correlation, until=until, children=children)
        shown = found.items[-budget:]  # an item takes more than a token
        lines = [
            render_text(msgspec.structs.replace(found, items=(item,)), width=_WIDTH).rstrip("\n")
            for item in shown
        ]
        head = f"Transcript up to position {found.last_position:,}; each item begins with its position."

        def left_out(count: int) -> str:
            return f"{count} earlier items do not fit; {_again(found.items[count].position)}"

        return answers.last(head, lines, budget, left_out, before=len(found.items) - len(shown))

    def timeline(self, run: str, until: int | None, children: bool, budget: int) -> str:
        """What happened in a run, entry by entry, its end when not all of it fits."""
        correlation = correlation_of(self._ledger, run)
        found = view(self._ledger, "timeline", correlation, until=until, children=children)
        shown = found.items[-budget:]
        lines = [_timeline_line(item) for item in shown]
        head = (
            f"Timeline up to position {found.last_position:,}, from {found.started_at or 'an unknown time'}: "
            "position, time after the start, type, who, what, how long."
        )

        def left_out(count: int) -> str:
            return f"{count} earlier entries do not fit; {_again(found.items[count].position)}"

        return answers.last(head, lines, budget, left_out, before=len(found.items) - len(shown))

    def context(
        self,
        runs: list[str],
        query: str | None,
        near: str | None,
        until: int | None,
        children: bool,
        budget: int,
    ) -> str:
        """What matters most of the past of runs, within the budget."""
        if not runs and query is None:
            raise InvalidEvent("name at least one run, or say what to look for with query", path="runs")
        made = context(
            self._ledger,
            [correlation_of(self._ledger, run) for run in runs] or None,
            budget_tokens=budget,
            format="markdown",
            search=query,
            near=None if near is None else self.entry(near).event_id,
            until=until,
            children=children,
            keep=True,
        )
        notes = "".join(f"\n({note})" for note in made.notes)
        return (made.text or "Nothing was found.") + notes

    def event(self, name: str, budget: int) -> str:
        """One event whole, as JSON; cut where it is larger than the budget."""
        entry = self.entry(name)
        text = json.dumps(_plain(entry), ensure_ascii=False, indent=1)
        return answers.cut(f"The event at position {entry.position:,}.", text, budget)

    def entry(self, name: str) -> LedgerEntry:
        """The entry of an event id or of a position."""
        head = self._ledger.head
        if name.isascii() and name.isdigit() and len(name) <= 18:
            at = int(name)
            found = next(iter(self._ledger.read(after=at - 1, limit=1)), None) if at else None
            if found is not None and found.position == at:
                return found
            raise NotFound(f"there is no position {at}; the last one is {head}")
        if is_event_id(name):
            entry = find_event(self._ledger, name)
            if entry is not None:
                return entry
            raise NotFound(f"no event {name}; search and timeline tell positions, from 1 to {head}")
        raise NotFound(
            f"{name!r:.80} is neither an event id (a UUID) nor a position; positions go from 1 to {head}"
        )


def _again(position: int) -> str:
    return f"ask again with until={position - 1} for them." if position > 1 else "ask with a larger budget."


def _with_depth(runs: list[Run]) -> list[tuple[Run, int]]:
    """Every run with how deep it stands, parents first."""
    depths: dict[int, int] = {id(run): 0 for run in runs}
    found = []
    for run in every_run(runs):
        depth = depths[id(run)]
        found.append((run, depth))
        depths.update((id(child), depth + 1) for child in run.children)
    return found


def _run_line(run: Run, depth: int) -> str:
    started = run.started_at or run.first_at
    status = status_text(run) + (f": {run.error}" if run.error else "")
    facts = answers.line(
        run.run_id,
        run.name if run.name != run.run_id else None,
        "began at an unknown time" if started is None else started[:19] + "Z",
        None if run.duration_ns is None else f"took {duration_text(run.duration_ns)}",
        f"{run.events:,} events",
        status,
    )
    return "  " * min(depth, 20) + facts


def _timeline_line(item: TimelineItem) -> str:
    ended = item.edge in ("end", "whole") and item.duration_ns is not None
    return "  " * min(item.depth, 20) + answers.line(
        item.position,
        offset_text(item.offset_ns),
        item.event_type,
        item.who,
        item.what,
        "failed" if item.failed else None,
        "still open" if item.open else f"took {duration_text(item.duration_ns)}" if ended else None,
    )


def _plain(entry: LedgerEntry) -> Any:
    event = json.loads(entry.event.to_json())
    return {"position": entry.position, "sequence": entry.sequence, "recorded_at": entry.recorded_at, **event}

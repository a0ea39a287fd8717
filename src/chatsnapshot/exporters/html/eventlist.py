"""Every event with its position, which the rest of the page links to; payloads as far as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said, said_lines
from chatsnapshot.exporters.html.moments import moment, over_days
from chatsnapshot.projections.shapes import TimelineItem
from chatsnapshot.projections.words import duration_text

__all__ = ["EVENTS_MAX", "event_list", "failed_here", "listed"]

EVENTS_MAX = 6_000
"""So many events are listed, half of them the first, half the last ones."""
PAYLOAD_BUDGET = 900_000
"""Characters for all payloads together; each gets its share, at most ``_MOST``, and none when that is too little."""

_LEAST, _MOST = 300, 20_000
_FOLD = 100
_OPEN_MAX = 150
_BRIEF_FROM = 1_000
_CHARS, _BRIEF_CHARS = 200, 110


class _Look(NamedTuple):
    """How rows look: characters for a payload, whether there is little room, whether days are told."""

    room: int
    brief: bool
    days: bool


def listed(facts: PageFacts) -> list[TimelineItem]:
    """The events that the page lists, in position order."""
    items = facts.timeline.items
    if len(items) <= EVENTS_MAX:
        return list(items)
    half = EVENTS_MAX // 2
    return [*items[:half], *items[-half:]]


def event_list(facts: PageFacts, items: Sequence[TimelineItem], anchors: Anchors) -> Html:
    """The section's content."""
    left = len(facts.timeline.items) - len(items)
    room = min(PAYLOAD_BUDGET // max(len(items), 1), _MOST)
    entries = {entry.position: entry for entry in facts.entries} if room >= _LEAST else {}
    look = _Look(room, len(items) > _BRIEF_FROM, over_days(item.at for item in items))
    told = [
        f"{len(items):,} of {len(facts.timeline.items):,} events: {left:,} in the middle are left out."
        if left
        else "In the order of the ledger; times are UTC.",
    ]
    if not entries:
        told.append("Payloads have no room here: chatsnapshot show with an event's id prints one.")
    rows = [_row(item, entries.get(item.position), anchors, look) for item in items]
    intro = element("p", " ".join(told), class_="dim small")
    if len(rows) <= _OPEN_MAX:
        return joined([intro, element("ol", *rows, class_="events")])
    folds = [
        element(
            "details",
            element("summary", _span(items[start : start + _FOLD])),
            element("ol", *rows[start : start + _FOLD], class_="events"),
        )
        for start in range(0, len(rows), _FOLD)
    ]
    return joined([intro, *folds])


def failed_here(item: TimelineItem) -> bool:
    """Whether the failure stands at this event: that of a pair is told at its end alone."""
    return item.failed and not (item.edge == "start" and item.partner is not None)


def _span(items: Sequence[TimelineItem]) -> str:
    failed = sum(map(failed_here, items))
    since = "" if items[0].at is None else f", from {items[0].at[:10]} {items[0].at[11:19]}"
    return f"Positions {items[0].position:,} to {items[-1].position:,}{since}" + (
        f", {failed:,} failed" if failed else ""
    )


def _row(item: TimelineItem, entry: LedgerEntry | None, anchors: Anchors, look: _Look) -> Html:
    marks: list[str] = []
    if failed_here(item):
        marks += [element("strong", "failed", class_="bad"), " "]
    if item.open:
        marks += [element("strong", "open", class_="warn"), " "]
    if item.erased:
        marks += [element("strong", "[erased]", class_="warn"), " "]
    if item.unmatched:
        marks += [element("span", "no start recorded", class_="dim"), " "]
    who: list[str] = [said(item.who, 60), ": "] if item.who else []
    more: list[str] = []
    if item.cause_position is not None:
        more += ["after ", anchors(item.cause_position), " "]
    elif item.cause is not None:
        more += ["after ", element("code", said(item.cause)), " "]
    if item.partner is not None and item.edge == "end":
        more += ["ends ", anchors(item.partner), f" ({duration_text(item.duration_ns)}) "]
    more.append(element("code", item.event_id))
    return element(
        "li",
        anchors(item.position),
        moment(item.at, days=look.days, brief=look.brief),
        element("span", said(item.event_type, 80), class_="type mono"),
        element("span", *marks, *who, said(item.what, _BRIEF_CHARS if look.brief else _CHARS), class_="what"),
        element(
            "div", *more, *([_payload(entry, look.room)] if entry is not None else []), class_="more small"
        ),
        id=f"p{item.position}",
    )


def _payload(entry: LedgerEntry, room: int) -> Html:
    facts = [
        element(
            "p",
            "correlation ",
            element("code", said(entry.correlation_id, 256)),
            f", sequence {entry.sequence:,}",
        ),
        element(
            "p",
            f"recorded {entry.recorded_at}, origin {entry.source.origin}, runtime ",
            said(entry.source.runtime),
        ),
    ]
    if entry.attributes_json:
        facts.append(element("pre", said_lines(entry.attributes_json, room)))
    if entry.payload_json is None:
        facts.append(
            element("p", "The payload was erased; what it said is only committed to.", class_="warn")
        )
    else:
        facts.append(element("pre", said_lines(_readable(entry.payload_json, room), room)))
    return element("details", element("summary", "Payload"), *facts)


def _readable(payload: bytes, room: int) -> str:
    """The payload with indents, where it is short enough that these are no burden."""
    if len(payload) <= room * 4:
        try:
            payload = msgspec.json.format(payload, indent=1)
        except msgspec.DecodeError:
            pass
    return payload.decode("utf-8", "replace")

"""Makes a context: gathers what the named runs hold, orders it, and gives what fits in the format asked for."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.projections.context.choosing import Chooser
from chatsnapshot.projections.context.closeness import by_closeness, by_rank
from chatsnapshot.projections.context.formats import format_of
from chatsnapshot.projections.context.gathering import (
    EVENTS_MATCHED_MAX,
    Gathered,
    gather,
    keep_matched,
    matched_by,
)
from chatsnapshot.projections.context.shapes import Context, ContextItem, Elision
from chatsnapshot.projections.context.tokens import Counter, estimate_tokens, name_of_counter
from chatsnapshot.projections.search.searching import Hit
from chatsnapshot.projections.search.searching import search as search_events

__all__ = ["BUDGET_TOKENS", "context", "to_json"]

BUDGET_TOKENS = 4_000
BYTES_LEAST, BYTES_MOST = 200, 8_000
"""A text is shortened to as many bytes as the budget has tokens, within these."""
HITS_MAX = 200


def context(
    ledger: Any,
    runs: object = None,
    *,
    budget_tokens: int = BUDGET_TOKENS,
    format: str = "messages",
    search: str | None = None,
    near: object = None,
    until: Any = None,
    children: bool = True,
    quoted: bool = True,
    counter: Counter = estimate_tokens,
    item_bytes_max: int | None = None,
    keep: bool | None = None,
) -> Context:
    """The relevant past of runs within a token budget, for a model to read.

    ``runs`` is a correlation id, several, or a mapping of filters as :meth:`Ledger.read` takes (the newest 1,000 events
    that match are looked at); ``search`` looks for words among them, or in all runs without ``runs``. What is given is in
    order of position, each record with its citation; a call with its result, a question with its answer, is given whole
    or not at all. Chosen first is what led to the event ``near`` (an event id or entry; default: the newest one), then
    what has the same causes, then the newest; with ``search`` the best hits.

    ``budget_tokens`` holds everything, also notes and marks, as counted by ``counter`` (text to tokens). ``format``:
    ``messages``, ``markdown``, ``openai``, ``anthropic``, ``ag2``. ``quoted=False`` gives texts without fences. Texts
    longer than ``item_bytes_max`` are shortened, and say by how much. ``until`` is a position or time, inclusive;
    ``children=False`` leaves child runs out. ``keep`` is that of a search.

    Raises :class:`NotFound` for an unknown run, event or format, :class:`LimitExceeded` when the budget is smaller than
    any item, :class:`InvalidEvent` for arguments that make no sense.
    """
    render = partial(_rendered, format_of(format), bool(quoted))
    _check_number("budget_tokens", budget_tokens)
    if item_bytes_max is not None:
        _check_number("item_bytes_max", item_bytes_max)
    count = _checked(counter)
    found, order, notes = _source(ledger, runs, search, near, until, children, keep)
    if not order:
        return _made(format, "", [], [], 0, budget_tokens, counter, notes)
    chooser = Chooser(found.units, order, render, count, budget_tokens, _bytes(budget_tokens, item_bytes_max))
    parts, rendered, tokens = chooser.choose()
    return _made(format, rendered.text, rendered.messages, parts, tokens, budget_tokens, counter, notes)


def _made(
    format: str,
    text: str,
    messages: list[Any],
    parts: Sequence[Any],
    tokens: int,
    budget_tokens: int,
    counter: Counter,
    notes: Sequence[str],
) -> Context:
    return Context(
        format=format,
        text=text,
        messages=messages,
        items=tuple(part for part in parts if isinstance(part, ContextItem)),
        elisions=tuple(part for part in parts if isinstance(part, Elision)),
        tokens=tokens,
        budget_tokens=budget_tokens,
        counter=name_of_counter(counter),
        notes=tuple(notes),
    )


def _rendered(render: Any, quoted: bool, parts: Any) -> Any:
    return render(parts, quoted)


def _bytes(budget_tokens: int, given: int | None) -> list[int]:
    if given is not None:
        return [given]
    return sorted({min(max(budget_tokens, BYTES_LEAST), BYTES_MOST), BYTES_LEAST}, reverse=True)


Order = list[tuple[int, str]]


def _source(
    ledger: Any,
    runs: object,
    search: str | None,
    near: object,
    until: Any,
    children: bool,
    keep: bool | None,
) -> tuple[Gathered, Order, list[str]]:
    """What may be given, the order in which it is wanted, and notes."""
    if isinstance(runs, Mapping):
        until = runs.get("until", until)  # also of what belongs to the events that match
    if search is not None:
        if near is not None:
            raise InvalidEvent("a search has an order of its own; give near or search, not both", path="near")
        return _searched(ledger, runs, search, until, keep)
    if isinstance(runs, Mapping):
        entries, more = matched_by(ledger, runs, until)
        # Whole runs are read, so that what belongs together stays together.
        found = gather(ledger, list(dict.fromkeys(entry.correlation_id for entry in entries)), until, False)
        keep_matched(found, [entry.position for entry in entries])
        notes = [f"only the newest {EVENTS_MATCHED_MAX:,} matching events were looked at"] if more else []
        last = entries[0].position if entries else 0
        return found, by_closeness(found, _focus(ledger, found, near, last)), notes
    if runs is None:
        raise InvalidEvent("name a run, several runs, filters or a search", path="runs")
    found = gather(ledger, _correlations(runs), until, children)
    return found, by_closeness(found, _focus(ledger, found, near, found.last)), []


def _searched(
    ledger: Any, runs: object, query: str, until: Any, keep: bool | None
) -> tuple[Gathered, Order, list[str]]:
    filters: list[dict[str, Any]] = [{}]
    if isinstance(runs, Mapping):
        filters = [dict(runs)]
    elif runs is not None:
        filters = [{"correlation_id": one} for one in _correlations(runs)]
        for one in filters:
            next(
                iter(ledger.replay(one["correlation_id"]))
            )  # an unknown run is an error, not an empty answer
    hits: list[Hit] = []
    notes: list[str] = []
    for one in filters:
        given = one if until is None else {"until": until, **one}
        answer = search_events(ledger, query, limit=HITS_MAX + 1, keep=keep, **given)
        hits += answer.hits
        notes += [answer.note] if answer.note else []
    hits.sort(key=lambda hit: (-hit.score, -hit.position))
    if len(hits) > HITS_MAX:
        notes.append(f"only the best {HITS_MAX} hits were looked at")
    hits = hits[:HITS_MAX]
    found = gather(ledger, list(dict.fromkeys(hit.correlation_id for hit in hits)), until, False)
    keep_matched(found, [hit.position for hit in hits])
    return found, by_rank(found, [hit.position for hit in hits]), list(dict.fromkeys(notes))


def _correlations(runs: object) -> list[str]:
    several = runs if isinstance(runs, Iterable) and not isinstance(runs, (str, bytes)) else [runs]
    named = [unicodedata.normalize("NFC", str(getattr(one, "correlation_id", one))) for one in several]
    if not named:
        raise InvalidEvent("name at least one run", path="runs")
    return list(dict.fromkeys(named))


def _focus(ledger: Any, found: Gathered, near: object, newest: int) -> int:
    """The position of the event that the context is about; raises :class:`NotFound` when it was not read."""
    if near is None:
        return newest
    entry = ledger.get(near)
    if entry.event_id not in found.places:
        raise NotFound(
            f"event {entry.event_id} (position {entry.position}, run {entry.correlation_id!r}) "
            "is not among what was asked for; name its run, or a later until"
        )
    return int(entry.position)


def _check_number(name: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InvalidEvent(f"{name} is a whole number from 1 on, not {given!r:.80}", path=name)


def _checked(counter: Counter) -> Callable[[str], int]:
    def count(text: str) -> int:
        tokens = counter(text)
        try:
            # Also the whole numbers of other packages.
            number = -1 if isinstance(tokens, bool) else operator.index(tokens)
        except TypeError:
            number = -1
        if number < 0:
            raise InvalidEvent(f"the counter gave {tokens!r:.80}, not a number of tokens", path="counter")
        return number

    if not callable(counter):
        raise InvalidEvent(f"counter is a function from text to tokens, not {counter!r:.80}", path="counter")
    return count


def to_json(made: Context) -> bytes:
    """The context as a JSON object, with its messages where they are JSON; for programs."""
    plain = {name: getattr(made, name) for name in made.__struct_fields__}
    return msgspec.json.encode(plain | {"left_out": made.left_out, "positions": made.positions})

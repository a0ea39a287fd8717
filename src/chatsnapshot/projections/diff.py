"""Compares two runs, or one run at two positions: where they part, and what is added, missing or changed."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.projections.diffshapes import Change, Diff, StateChange
from chatsnapshot.projections.diffsteps import Compared, differences, steps_of
from chatsnapshot.projections.everystate import states_of
from chatsnapshot.projections.laststate import StateProjection
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.stateshapes import States

__all__ = ["ALIGNED_MAX", "diff_positions", "diff_runs"]

ALIGNED_MAX = 1_000
"""Where what differs (without the steps that agree at both ends) is longer than this, only steps nearby are compared."""

LOOKED_AHEAD = 64
"""So far ahead steps that agree, or that take the place of each other, are looked for."""


def diff_runs(
    ledger: Any,
    before: object,
    after: object,
    *,
    before_until: Any = None,
    after_until: Any = None,
    children: bool = True,
) -> Diff:
    """How the run (correlation) ``after`` differs from ``before``: kinds, names, arguments, results and texts.

    Ids, times, durations and tokens are not compared. Raises :class:`~chatsnapshot.errors.NotFound` for a correlation
    without entries.
    """
    first, last = _name(before), _name(after)
    one = _steps(ledger, first, before_until, children)
    other = _steps(ledger, last, after_until, children)
    return _diff(first, last, before_until, after_until, one, other)


def diff_positions(
    ledger: Any, correlation_id: object, before: Any, after: Any = None, *, children: bool = True
) -> Diff:
    """What happened in a run between two positions or times, and which states it changed.

    ``after`` is the end of the ledger when it is left out. Raises :class:`~chatsnapshot.errors.InvalidEvent` where the
    second position is before the first, :class:`~chatsnapshot.errors.NotFound` for a correlation without entries.
    """
    if after is not None and type(after) is type(before) and after < before:
        kind = "position" if isinstance(after, int) else "time"
        raise InvalidEvent(f"{kind} {after} is before {before}; name the earlier one first")
    name = _name(correlation_id)
    other = _steps(ledger, name, after, children)
    known = _steps(ledger, name, before, children, may_be_empty=True)
    found = _diff(name, name, before, after, known, other)
    states = _state_changes(_states(ledger, name, before, children), _states(ledger, name, after, children))
    return msgspec.structs.replace(found, states=states)


def _name(correlation_id: object) -> str:
    return unicodedata.normalize("NFC", str(correlation_id))


def _steps(ledger: Any, name: str, until: Any, children: bool, may_be_empty: bool = False) -> list[Compared]:
    steps = steps_of(newest(ledger, ledger.replay(name, until=until, children=children)), name)
    if not steps and not may_be_empty:
        when = "" if until is None else f" up to {until}"
        raise NotFound(f"no events under correlation {name!r}{when}; `chatsnapshot runs` lists what there is")
    return steps


def _diff(
    first: str,
    last: str,
    before_until: Any,
    after_until: Any,
    one: Sequence[Compared],
    other: Sequence[Compared],
) -> Diff:
    changes = list(_changes(one, other))
    kinds = [change.kind for change in changes]
    missing, added, changed = kinds.count("missing"), kinds.count("added"), kinds.count("changed")
    return Diff(
        before_correlation_id=first,
        after_correlation_id=last,
        before_until=before_until if before_until is None else _shown(before_until),
        after_until=after_until if after_until is None else _shown(after_until),
        before_steps=len(one),
        after_steps=len(other),
        same=len(one) - missing - changed,
        same_until=_head(one, other),
        divergence=changes[0] if changes else None,
        changes=tuple(changes),
        missing=missing,
        added=added,
        changed=changed,
    )


def _shown(until: Any) -> int | str:
    return until if isinstance(until, int) else str(until)


def _head(one: Sequence[Compared], other: Sequence[Compared]) -> int:
    """How many steps agree from the start on."""
    length = min(len(one), len(other))
    return next((n for n in range(length) if one[n].digest != other[n].digest), length)


def _changes(one: Sequence[Compared], other: Sequence[Compared]) -> Iterator[Change]:
    head = _head(one, other)
    tail = min(_head(one[::-1], other[::-1]), min(len(one), len(other)) - head)
    left, right = one[head : len(one) - tail], other[head : len(other) - tail]
    blocks = _nearby if max(len(left), len(right)) > ALIGNED_MAX else _aligned
    for start, end, other_start, other_end in blocks(left, right):
        yield from _replaced(left[start:end], right[other_start:other_end])


Blocks = Iterator[tuple[int, int, int, int]]
"""Stretches of both sides that stand in the place of each other; between them the steps agree."""


def _aligned(left: Sequence[Compared], right: Sequence[Compared]) -> Blocks:
    """With as many steps that agree as there can be, about; its time grows with the square of the length."""
    matcher = SequenceMatcher(
        None, [step.digest for step in left], [step.digest for step in right], autojunk=False
    )
    for tag, *block in matcher.get_opcodes():
        if tag != "equal":
            yield block[0], block[1], block[2], block[3]


def _nearby(left: Sequence[Compared], right: Sequence[Compared]) -> Blocks:
    """By the nearest steps that agree after each difference; in time that grows with the length."""
    at, other = 0, 0
    while at < len(left) or other < len(right):
        if at < len(left) and other < len(right) and left[at].digest == right[other].digest:
            at, other = at + 1, other + 1
            continue
        end, other_end = _meeting(left, right, at, other)
        yield at, end, other, other_end
        at, other = end, other_end


def _meeting(left: Sequence[Compared], right: Sequence[Compared], at: int, other: int) -> tuple[int, int]:
    """Where both sides agree again after a difference: the pair that leaves out the least; else the end of the window."""
    end, other_end = min(at + LOOKED_AHEAD, len(left)), min(other + LOOKED_AHEAD, len(right))
    ahead: dict[bytes, int] = {}
    for place in range(other_end - 1, other - 1, -1):
        ahead[right[place].digest] = place
    found = [
        (place - at + ahead[left[place].digest] - other, place, ahead[left[place].digest])
        for place in range(at, end)
        if left[place].digest in ahead
    ]
    return min(found)[1:] if found else (end, other_end)


def _replaced(left: Sequence[Compared], right: Sequence[Compared]) -> Iterator[Change]:
    """Steps in the place of others: alike ones, in order, are changed, the rest missing or added."""
    place = 0
    for before in left:
        if place < len(right) and right[place].digest == before.digest:
            place += 1
            continue
        ahead = range(place, min(place + LOOKED_AHEAD, len(right)))
        found = next((n for n in ahead if right[n].alike == before.alike), None)
        if found is None:
            yield Change("missing", before.step, None)
            continue
        for added in right[place:found]:
            yield Change("added", None, added.step)
        after = right[found]
        place = found + 1
        if after.digest != before.digest:
            yield Change("changed", before.step, after.step, differences(before.facts, after.facts))
    for added in right[place:]:
        yield Change("added", None, added.step)


def _states(ledger: Any, name: str, until: Any, children: bool) -> States:
    projection = StateProjection()
    try:
        states = states_of(ledger, projection, name, until, children)
    except NotFound:
        states = {}
    return projection.compose(states, {}, name)


def _state_changes(before: States, after: States) -> tuple[StateChange, ...]:
    known = {(one.correlation_id, one.kind, one.id): one.state for one in before.subjects}
    return tuple(
        StateChange(one.kind, one.id, known.get((one.correlation_id, one.kind, one.id)), one.state)
        for one in after.subjects
        if known.get((one.correlation_id, one.kind, one.id)) != one.state
    )

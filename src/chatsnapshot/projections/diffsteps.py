"""The steps of a run as they are compared with another's: what was said, asked for and answered; no ids, no times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import payload_of, readable
from chatsnapshot.events.readers import READERS
from chatsnapshot.projections.diffshapes import Field, Step
from chatsnapshot.projections.lineage import Link, Start, children_of, links
from chatsnapshot.projections.lines import line, who
from chatsnapshot.stores.hanging import hangs_late

__all__ = ["FIELDS_MAX", "Compared", "differences", "steps_of"]

FIELDS_MAX = 20
"""So many fields of two steps are told apart; the rest of a long difference is left out."""

_IDS = frozenset(
    {
        *("id", "ids", "answers", "parent", "native", "depends_on", "positions"),
        *(
            "timestamp",
            "time",
            "at",
            "started_at",
            "ended_at",
            "recorded_at",
            "first_at",
            "last_at",
            "retry_at",
        ),
        *(
            "created_at",
            "updated_at",
            "clock",
            "duration",
            "duration_ns",
            "duration_ms",
            "latency_ms",
            "elapsed",
        ),
        *("behind_ns", "usage", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
        *("reasoning_tokens",),
    }
)
_TOLD_BY = {
    "execution.tool_": "name",
    "execution.message": "role",
    "execution.state_change": "subject",
    "system.state_transition": "subject",
    "system.task_": "name",
    "integration.": "name",
}
"""Steps of these types can be one that changed only where they share this."""

_ID_ENDS = ("_id", "_ids", "_position")


class Compared(msgspec.Struct, frozen=True):
    """A step with what is compared of it, a digest of that, and what two steps must share to be one that changed."""

    step: Step
    facts: Any
    digest: bytes
    alike: tuple[str, str]


def steps_of(entries: Iterable[LedgerEntry], correlation_id: str) -> list[Compared]:
    """The steps of a correlation in order, those of its children after the ones that led to them.

    So the order in which runs that went on at the same time were recorded makes no difference.
    """
    by_key: dict[str, list[LedgerEntry]] = {}
    places: dict[str, tuple[str, int]] = {}
    for entry in entries:
        by_key.setdefault(entry.correlation_id, []).append(entry)
        places[entry.event_id] = entry.correlation_id, entry.position
    starts = {
        key: Start(of[0].position, of[0].causation_id if of[0].sequence == 1 else None, _late(of))
        for key, of in by_key.items()
    }
    found = links(starts, places.get)
    if correlation_id in found and found[correlation_id].parent is not None:
        found[correlation_id] = Link("cycle", None, found[correlation_id].position)
    below = children_of(found)
    steps: list[Compared] = []
    # What is still to be told: a correlation, from which entry on, its children, and how deep it stands.
    open_keys: list[tuple[str, int, int]] = [(correlation_id, 0, 0)] if correlation_id in by_key else []
    while open_keys:
        key, number, depth = open_keys.pop()
        own, children = by_key[key], below.get(key, [])
        while number < len(own):
            entry = own[number]
            steps.append(_compared(entry, depth))
            number += 1
            led = [child for child in children if found[child].position == entry.position]
            if led:
                open_keys.append((key, number, depth))
                led.sort(key=lambda child: starts[child].position, reverse=True)
                open_keys.extend((child, 0, depth + 1) for child in led)
                break
    return steps


def _late(entries: Sequence[LedgerEntry]) -> str | None:
    return next(
        (one.causation_id for one in entries if hangs_late(one.event_type, one.sequence, one.causation_id)),
        None,
    )


def _compared(entry: LedgerEntry, depth: int) -> Compared:
    payload = payload_of(entry)
    actor = who(entry, payload)
    facts = {"who": actor, "origin": entry.source.origin, **_facts(entry, payload)}
    data = msgspec.json.encode([entry.event_type, depth, facts], order="deterministic")
    told_by = next((key for start, key in _TOLD_BY.items() if entry.event_type.startswith(start)), None)
    alike = "" if told_by is None else str(facts.get(told_by))
    told = Step(entry.position, entry.correlation_id, depth, entry.event_type, line(entry, payload))
    return Compared(told, facts, hashlib.sha256(data).digest(), (entry.event_type, alike))


def _facts(entry: LedgerEntry, payload: Mapping[str, Any]) -> dict[str, Any]:
    if entry.erased:
        return {"erased": True}
    read = READERS.get(entry.event_type)
    if read is None:
        return {"payload": _without_ids(readable(payload))}
    said = msgspec.to_builtins(read(payload))
    plain = _without_ids(said)
    if isinstance(plain, list):
        return plain[0] if len(plain) == 1 and isinstance(plain[0], dict) else {"messages": plain}
    return plain if isinstance(plain, dict) else {"said": plain}


def _without_ids(value: Any, depth: int = 0) -> Any:
    """A JSON value without ids and times; what people gave as arguments and results is left whole."""
    if isinstance(value, dict):
        return {
            key: item if key in ("arguments", "result", "value", "output") else _without_ids(item, depth + 1)
            for key, item in value.items()
            if key not in _IDS and not key.endswith(_ID_ENDS)
        }
    if isinstance(value, (list, tuple)):
        return [_without_ids(item, depth + 1) for item in value]
    return value


def differences(before: Any, after: Any) -> tuple[Field, ...]:
    """What differs between two JSON values, by path."""
    found: list[Field] = []
    waiting: list[tuple[str, Any, Any]] = [("", before, after)]
    while waiting and len(found) < FIELDS_MAX:
        path, one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            keys = list(dict.fromkeys([*one, *other]))
            inner = [(f"{path}.{key}" if path else key, one.get(key), other.get(key)) for key in keys]
            waiting.extend(reversed([pair for pair in inner if _differ(*pair[1:])]))
        elif _lists(one, other) and len(one) == len(other):
            inner = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(one, other, strict=True))]
            waiting.extend(reversed([pair for pair in inner if _differ(*pair[1:])]))
        elif _differ(one, other):
            found.append(Field(path, one, other))
    return tuple(found)


def _lists(one: Any, other: Any) -> bool:
    return (
        isinstance(one, Sequence)
        and isinstance(other, Sequence)
        and not isinstance(one, str | bytes)
        and (not isinstance(other, str | bytes))
    )


def _differ(one: Any, other: Any) -> bool:
    return type(one) is not type(other) or one != other

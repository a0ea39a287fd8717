"""Decides what one commit holds: duplicates, conflicts, sequences, recorded_at, leaves and tree. Pure.

Used by the stores that decide in the client, inside their own transaction: what it needs to know of the ledger comes in
as arguments, what must be written comes out as a :class:`Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import source_of
from chatsnapshot.errors import EventConflict, InvalidEvent, LedgerError, SequenceConflict
from chatsnapshot.integrity import Tile, Tree
from chatsnapshot.stores.base import EVENT_ID, PAYLOAD, Draft, Group, Outcome, Row

__all__ = ["Plan", "differences", "known_ids", "later", "plan"]

_FIELDS = (
    (4, "event_type"),
    (5, "timestamp"),
    (6, "source"),
    (7, "correlation_id"),
    (8, "causation_id"),
    (10, "schema_version"),
    (11, "attributes"),
)


class Plan(NamedTuple):
    """What to write: new rows in order, full tiles, the tree after them; and what to answer each group."""

    rows: list[Row]
    tiles: list[Tile]
    tree: Tree
    recorded_at: str
    drafts: list[Draft]
    """The drafts of ``rows``, in the same order."""
    outcomes: list[Outcome]


def known_ids(groups: Sequence[Group]) -> list[bytes]:
    """The ids that must be looked up before planning: all that were not made just now."""
    return [draft.columns[0] for group in groups for draft in group.drafts if not draft.fresh]


def later(now: str, last: str) -> str:
    """The recorded_at of a commit: the clock, but never before the last one."""
    return now if now > last else last


def plan(
    groups: Sequence[Group],
    tree: Tree,
    recorded_at: str,
    known: Mapping[bytes, Row],
    last_sequence: Callable[[str], int],
    sequences: dict[str, int],
) -> Plan:
    """Decide on ``groups`` in their order against the ledger's state.

    ``tree`` is not changed. ``known`` holds the rows of all ids of :func:`known_ids` that are in the ledger.
    ``sequences`` receives the last sequence of every correlation touched; keep it only if the commit succeeds.
    """
    rows: list[Row] = []
    drafts: list[Draft] = []
    leaves: list[bytes] = []
    outcomes: list[Outcome] = []
    recent: dict[bytes, Row] = {}
    position = tree.size
    stamp = recorded_at.encode()
    sha, add_row, add_leaf, last_known = sha256, rows.append, leaves.append, sequences.get
    given = known_ids(groups)
    repeats = bool(known) or len(set(given)) != len(given)
    for group in groups:
        members = group.drafts
        places: list[Row | None] | None = None
        if group.expected_sequence is not None or (repeats and [1 for draft in members if not draft.fresh]):
            settled = _settle(group, known, recent, last_sequence, sequences)
            if isinstance(settled, LedgerError):
                outcomes.append(settled)
                continue
            members, places = settled
        first = len(rows)
        for draft in members:
            columns = draft.columns
            correlation = columns[4]
            sequence = last_known(correlation)
            if sequence is None:
                sequence = last_sequence(correlation)
            sequences[correlation] = sequence = sequence + 1
            position += 1
            leaf = sha(b"\x00" + draft.head + stamp + draft.tail).digest()
            add_leaf(leaf)
            add_row(
                (
                    position, sequence, recorded_at, *columns,
                    leaf, draft.salt, draft.commitment, draft.payload_bytes,
                )
            )  # fmt: skip
        drafts += members
        answer = rows[first:]
        if places is not None:
            recent.update((row[EVENT_ID], row) for row in answer)
            answer = _in_order(group, places, recent, answer)
        outcomes.append(answer)
    grown = tree.copy()
    tiles = grown.extend(leaves)
    return Plan(rows, tiles, grown, recorded_at, drafts, outcomes)


def _settle(
    group: Group,
    known: Mapping[bytes, Row],
    recent: Mapping[bytes, Row],
    last_sequence: Callable[[str], int],
    sequences: Mapping[str, int],
) -> tuple[list[Draft], list[Row | None]] | LedgerError:
    """Which drafts are new, and the row of each that is not (``None`` for the new ones)."""
    places: list[Row | None] = []
    fresh: dict[bytes, Draft] = {}
    new: list[Draft] = []
    for draft in group.drafts:
        event_id = draft.columns[0]
        row = known.get(event_id) or recent.get(event_id)
        if row is not None:
            fields = differences(draft, row)
            if fields:
                return EventConflict(uuid_text(event_id), fields, row[0])
            places.append(row)
            continue
        twin = fresh.get(event_id)
        if twin is not None:
            fields = differences(draft, _offered(twin))
            if fields:
                return EventConflict(uuid_text(event_id), fields)
        else:
            fresh[event_id] = draft
            new.append(draft)
        places.append(None)
    if group.expected_sequence is not None and new:
        correlation = new[0].columns[4]
        if any(draft.columns[4] != correlation for draft in new):
            return InvalidEvent(
                "expected_sequence is about one correlation, and this batch has several; record one batch for each",
                path="expected_sequence",
            )
        found = sequences.get(correlation)
        if found is None:
            found = last_sequence(correlation)
        if found != group.expected_sequence:
            return SequenceConflict(correlation, group.expected_sequence, found)
    return new, places


def _in_order(
    group: Group, places: Sequence[Row | None], recent: Mapping[bytes, Row], new: Sequence[Row]
) -> list[Row]:
    """The rows in the order of the group's drafts: those known before and those just made."""
    made = {row[EVENT_ID]: row for row in new}
    return [row or made[draft.columns[0]] for draft, row in zip(group.drafts, places, strict=False)]


def differences(draft: Draft, row: Row) -> list[str]:
    """The fields in which a draft differs from a recorded row; what was filled in by the ledger is not compared."""
    offered = _offered(draft)
    fields = [name for index, name in _FIELDS if offered[index] != row[index] and name not in draft.filled]
    payload = row[PAYLOAD]
    if (
        payload is not None
        and offered[PAYLOAD] != payload
        and not _same_json(offered[PAYLOAD] or b"", payload)
    ):
        fields.append("payload")
    if "source" in fields and source_of(offered[6]) == source_of(row[6]):
        fields.remove("source")
    return fields


def _offered(draft: Draft) -> Row:
    """The draft as a row whose place is not known yet."""
    return (0, 0, "", *draft.columns, b"", draft.salt, draft.commitment, draft.payload_bytes)


def _same_json(one: bytes, other: bytes) -> bool:
    """Whether two JSON texts hold the same value, whatever the order of their keys."""
    try:
        return _sorted(one) == _sorted(other)
    except msgspec.DecodeError:
        return False


def _sorted(text: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(text), order="sorted")

"""The Store contract over HTTP, version 1: what requests and answers hold, as MessagePack. Both ends use this file.

``POST …/store/OPERATION`` with a body of :data:`MEDIA_TYPE` and the header :data:`VERSION_HEADER`. What the server can
derive is not sent: commitments, headers and leaves follow from columns and salts, so a client cannot state them wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import leaf_hash
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.stores.base import Checkpoint, Columns, Draft, Group, Query, Row, Traits
from chatsnapshot.stores.draft import make_draft

__all__ = [
    "EMPTY",
    "MEDIA_TYPE",
    "VERSION",
    "VERSION_HEADER",
    "Append",
    "Asked",
    "Bring",
    "Erase",
    "Import",
    "Keys",
    "Named",
    "Opened",
    "Part",
    "Save",
    "WireDraft",
    "WireGroup",
    "decode",
    "draft_from",
    "encode",
    "left_out",
    "placed",
    "put_in",
    "rows_from",
    "sent",
    "sent_group",
]

MEDIA_TYPE = "application/vnd.chatsnapshot.store+msgpack"
VERSION_HEADER = "ChatSnapshot-Wire"
VERSION = "1"

EMPTY = sha256(b"").digest()
"""The name of the blob without bytes: any other that is sent without bytes came in parts before."""

encode = msgspec.msgpack.encode
decode = msgspec.msgpack.decode


class WireDraft(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A draft: its columns, which of them were filled in, its salt, and the blobs that its payload names."""

    event_id: bytes
    event_type: str
    timestamp: str
    source: str
    correlation_id: str
    causation_id: bytes | None
    payload: bytes
    schema_version: int | None
    attributes: str | None
    filled: tuple[str, ...]
    salt: bytes
    blobs: list[tuple[bytes, str, bytes]]


class WireGroup(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Events that are stored whole or not at all."""

    drafts: list[WireDraft]
    expected_sequence: int | None


class Append(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``append``; ``clock`` is of a client whose clock stamps, where the server lets it."""

    groups: list[WireGroup]
    clock: int | None


class Part(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``part``: bytes of a blob of ``size`` bytes, at ``offset``; the answer is how many are there from the first on."""

    digest: bytes
    size: int
    offset: int
    data: bytes


class Erase(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``erase``."""

    positions: list[int]
    record: WireDraft
    clock: int | None


class Import(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``import_rows``."""

    rows: list[Row]
    blobs: dict[bytes, bytes]


class Asked(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``read``."""

    query: Query
    after: int
    until: int
    limit: int
    reverse: bool
    hint: int | None


class Named(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``checkpoint``, ``load_state`` and ``drop_states``: a projection, and for ``load_state`` the key."""

    name: str
    version: int
    key: str = ""


class Bring(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``bring_up``: projections by name and version, and whether all of what is new is needed."""

    projections: list[tuple[str, int]]
    whole: bool


class Keys(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``keys``."""

    name: str
    version: int
    prefix: str
    after: str
    limit: int
    reverse: bool


class Save(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """``save_states``."""

    name: str
    version: int
    before: Checkpoint | None
    after: Checkpoint
    states: dict[str, bytes | None]


class Opened(msgspec.Struct):
    """What ``open`` answers: the ledger's id, what its store claims, and how much one request may hold."""

    ledger_id: str
    traits: Traits
    store_bytes_max: int
    client_clock: bool


def sent(draft: Draft) -> WireDraft:
    """A sealed draft as it is sent."""
    event_id, event_type, timestamp, source, correlation, cause, payload, version, attributes = draft.columns
    return WireDraft(
        event_id,
        event_type,
        timestamp,
        source,
        correlation,
        cause,
        payload or b"{}",
        version,
        attributes,
        draft.filled,
        draft.salt,
        [(blob.digest, blob.media_type, blob.data) for blob in draft.blobs],
    )


def sent_group(group: Group) -> WireGroup:
    """A group of sealed drafts as it is sent."""
    return WireGroup([sent(draft) for draft in group.drafts], group.expected_sequence)


def draft_from(given: WireDraft) -> Draft:
    """A draft out of what was sent, sealed again; for drafts that were checked before."""
    return make_draft(_columns(given), given.salt, False, given.filled, blobs_of(given))


def blobs_of(draft: WireDraft) -> tuple[Blob, ...]:
    """The blobs that came with a draft."""
    return tuple(Blob(digest, data, media_type) for digest, media_type, data in draft.blobs)


def left_out(request: Append) -> list[bytes]:
    """The blobs of a request that are named in it and not in it."""
    return [
        digest
        for group in request.groups
        for draft in group.drafts
        if draft.blobs
        for digest, _, data in draft.blobs
        if not data and digest != EMPTY
    ]


def put_in(request: Append, found: Mapping[bytes, bytes]) -> None:
    """Put blobs into their places; those that are not found are in the ledger already, and are named by the payload."""
    for group in request.groups:
        for draft in group.drafts:
            draft.blobs = [
                (digest, media_type, data or found.get(digest, b""))
                for digest, media_type, data in draft.blobs
                if data or digest == EMPTY or digest in found
            ]


def placed(row: Row, draft: Draft, given: WireDraft) -> Sequence[Any]:
    """A row as it is answered: only its place where all else is as it was sent, else whole."""
    same = (
        row[12] is not None
        and row[14] == draft.commitment
        and row[13] == given.salt
        and row[3:12] == _columns(given)
    )
    return (row[0], row[1], row[2], row[12]) if same else row


def _columns(given: WireDraft) -> Columns:
    return (
        given.event_id, given.event_type, given.timestamp, given.source, given.correlation_id,
        given.causation_id, given.payload, given.schema_version, given.attributes,
    )  # fmt: skip


def rows_from(answer: Sequence[Sequence[Any]], drafts: Sequence[Draft], url: str) -> list[Row]:
    """The rows of a group out of what :func:`placed` gave; raises :class:`Corrupt` for a leaf that is not the event's."""
    rows: list[Row] = []
    for one, draft in zip(answer, drafts, strict=True):
        if len(one) != 4:
            rows.append(tuple(one))
            continue
        position, sequence, recorded_at, leaf = one
        if leaf_hash(draft.head + recorded_at.encode() + draft.tail) != leaf:
            raise Corrupt(
                f"{url} answers with a leaf at position {position} that is not the one of the event sent; "
                "run chatsnapshot verify",
                position=position,
            )
        rows.append(
            (
                position, sequence, recorded_at, *draft.columns,
                leaf, draft.salt, draft.commitment, draft.payload_bytes,
            )
        )  # fmt: skip
    return rows


def problem_in(outcome: Any) -> Mapping[str, Any] | None:
    """The problem that an outcome is; ``None`` when the group was stored."""
    return outcome if isinstance(outcome, dict) else None

"""Payloads of the ledger's own facts: erasures, gaps, refused events, a clock that went back, a promotion, access."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from chatsnapshot.events.schemas.base import Schema, schema

__all__ = [
    "SCHEMAS",
    "AccessRefused",
    "ClockBehind",
    "EntriesRead",
    "Gap",
    "KeyCreated",
    "KeyRevoked",
    "PayloadErased",
    "Promoted",
    "Rejected",
]

_Natural = Annotated[int, Meta(ge=0)]
_Position = Annotated[int, Meta(ge=1)]


class PayloadErased(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Payloads were erased; the events, their order and their commitments stay."""

    positions: Annotated[list[_Position], Meta(description="positions of the events whose payloads are gone")]
    reason: Annotated[str | None, Meta(description="why")] = None


class Gap(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Events could not be stored and were dropped: how many, from when to when."""

    events: Annotated[_Natural, Meta(description="how many events were dropped")]
    bytes: Annotated[_Natural | None, Meta(description="their size", extra={"unit": "bytes"})] = None
    from_: Annotated[str | None, Meta(description="timestamp of the first", extra={"unit": "ISO 8601"})] = (
        msgspec.field(default=None, name="from")
    )
    to: Annotated[str | None, Meta(description="timestamp of the last", extra={"unit": "ISO 8601"})] = None
    adapter: Annotated[str | None, Meta(description="which adapter dropped them")] = None
    reason: Annotated[str | None, Meta(description="why the first was dropped")] = None
    correlations: Annotated[
        list[str] | None, Meta(description="the correlations they belong to, the first of them")
    ] = None


class Rejected(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A store refused an event that had been accepted before."""

    event_id: Annotated[str, Meta(description="id of the event that was refused")]
    reason: Annotated[str, Meta(description="why")]
    event_type: Annotated[str | None, Meta(description="its type")] = None
    correlation_id: Annotated[str | None, Meta(description="its correlation")] = None
    error: Annotated[Any, Meta(description="the store's error, as it came")] = None


class ClockBehind(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The ledger's clock went back; the last time was repeated instead."""

    clock: Annotated[str, Meta(description="what the clock said", extra={"unit": "ISO 8601"})]
    recorded_at: Annotated[str, Meta(description="the time that was repeated", extra={"unit": "ISO 8601"})]
    behind_ns: Annotated[_Natural, Meta(description="how far the clock is behind", extra={"unit": "ns"})]


class Promoted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A copy became a ledger of its own: up to here its entries are those of the ledger that it was copied from."""

    ledger_id: Annotated[str, Meta(description="id of the ledger from here on")]
    copied_from: Annotated[str, Meta(description="id of the ledger that the entries before are of")]
    reason: Annotated[str | None, Meta(description="why")] = None


class KeyCreated(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An API key of the service was made that is good for this ledger. The key itself is nowhere."""

    key_id: Annotated[str, Meta(description="id of the key")]
    name: Annotated[str | None, Meta(description="what it is for")] = None
    scopes: Annotated[list[str] | None, Meta(description="what it may do: ingest, read, admin")] = None
    expires_at: Annotated[str | None, Meta(description="when it ends", extra={"unit": "ISO 8601"})] = None
    by: Annotated[str | None, Meta(description="who made it")] = None


class KeyRevoked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An API key of the service was revoked."""

    key_id: Annotated[str, Meta(description="id of the key")]
    name: Annotated[str | None, Meta(description="what it was for")] = None
    by: Annotated[str | None, Meta(description="who revoked it")] = None


class AccessRefused(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Requests with wrong API keys came as often as is borne. At most one a minute is recorded."""

    tries: Annotated[_Natural, Meta(description="how many, since the last such event")]
    network: Annotated[
        str | None, Meta(description="where the last ones came from: a /24 or /48 network")
    ] = None


class EntriesRead(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A key was used to read over the service; once a minute for each path."""

    key_id: Annotated[str, Meta(description="id of the key")]
    path: Annotated[str, Meta(description="what was read, without the query")]


SCHEMAS: tuple[Schema, ...] = (
    schema(
        "ledger.payload_erased", PayloadErased, {"positions": [12, 13], "reason": "asked for by the customer"}
    ),
    schema(
        "ledger.gap",
        Gap,
        {
            "adapter": "ag2",
            "events": 3,
            "bytes": 1840,
            "from": "2026-11-30T02:26:03.123456Z",
            "to": "2026-11-30T02:26:09.000000Z",
            "reason": "the store is full",
            "correlations": ["run-7"],
        },
    ),
    schema(
        "ledger.rejected",
        Rejected,
        {
            "event_id": "01938a5e-7c00-7000-8000-000000000001",
            "event_type": "execution.message",
            "correlation_id": "run-7",
            "reason": "the payload is larger than the server takes",
        },
    ),
    schema(
        "ledger.clock_behind",
        ClockBehind,
        {
            "clock": "2026-11-30T02:25:00.000000Z",
            "recorded_at": "2026-11-30T02:26:03.123456Z",
            "behind_ns": 63_123_456_000,
        },
    ),
    schema(
        "ledger.promoted",
        Promoted,
        {
            "ledger_id": "0b1f6e0e-5f3c-4f0e-8f5e-6f1f4f1f2a33",
            "copied_from": "c35ad881-3229-4172-9fcf-fdb0b2847549",
            "reason": "the machine of the first ledger is gone",
        },
    ),
    schema(
        "ledger.key_created",
        KeyCreated,
        {
            "key_id": "k3x81hq2",
            "name": "nightly import",
            "scopes": ["ingest"],
            "expires_at": "2027-02-28T00:00:00.000000Z",
            "by": "user ledger",
        },
    ),
    schema(
        "ledger.key_revoked",
        KeyRevoked,
        {"key_id": "k3x81hq2", "name": "nightly import", "by": "user ledger"},
    ),
    schema("ledger.access_refused", AccessRefused, {"tries": 5, "network": "192.0.2.0/24"}),
    schema("ledger.entries_read", EntriesRead, {"key_id": "k3x81hq2", "path": "/runs/run-7/transcript"}),
)

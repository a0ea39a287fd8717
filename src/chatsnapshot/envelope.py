"""The event envelope, its source, and the entry that the ledger makes of an event.

All three are frozen msgspec structs. They hold text and bytes as they are stored; what costs time to decode (payload,
attributes, Python values) is decoded afresh at each access, so nobody can change a recorded event.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.clock import timestamp_text, uuid_bytes, uuid_text
from chatsnapshot.errors import InvalidEvent, NotFound
from chatsnapshot.limits import DEFAULTS

__all__ = ["ERASED_PAYLOAD", "ORIGINS", "EventEnvelope", "LedgerEntry", "Source"]

ORIGINS = ("agent", "system", "ui", "integration")

ERASED_PAYLOAD = b'{"$erased":true}'
"""What stands for the payload of an erased event. A caller's own key would be stored as ``$$erased``."""

_decode = msgspec.json.decode
_encode = msgspec.json.encode
_EVENT_TYPE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+", re.ASCII)


class Source(msgspec.Struct, frozen=True, order=True):
    """Who says that something happened.

    ``origin`` is ``agent``, ``system``, ``ui`` or ``integration``; ``runtime`` an open token (``ag2``, ``langgraph``,
    ``custom``, ``none``); ``name`` the agent, service or user that acted.
    """

    origin: str
    runtime: str = "none"
    name: str | None = None

    def to_dict(self) -> dict[str, str]:
        """The source as it stands in the envelope: ``name`` is left out when unset."""
        out = {"origin": self.origin, "runtime": self.runtime}
        if self.name is not None:
            out["name"] = self.name
        return out


class _Wire(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The seven keys in their order, then the optional ones."""

    event_id: str
    event_type: str
    timestamp: str
    source: dict[str, str]
    correlation_id: str
    causation_id: str | None
    payload: msgspec.Raw
    schema_version: int = 1
    attributes: Any = None  # a union of Raw and None is read as None only


_wire_decoder = msgspec.json.Decoder(_Wire)


class EventEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer says happened; immutable.

    The seven stable keys (``event_id``, ``event_type``, ``timestamp``, ``source``, ``correlation_id``,
    ``causation_id``, ``payload``) and two optional ones (``schema_version``, ``attributes``). ``payload_json`` and
    ``attributes_json`` are the stored bytes; :attr:`payload` and :attr:`attributes` decode them afresh.
    """

    event_id: str
    event_type: str
    timestamp: str
    source: Source
    correlation_id: str
    causation_id: str | None = None
    payload_json: bytes = b"{}"
    schema_version: int = 1
    attributes_json: str | None = None
    filled: tuple[str, ...] = ()
    """Fields that the ledger or a scope filled in; they are not compared when the id is known already."""
    blobs: tuple[jsonvalue.Blob, ...] = ()
    """Blobs that the payload names, where the envelope carries them (as those of ``CommitUncertain.events`` do)."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventEnvelope):
            return NotImplemented
        return self._identity() == other._identity()

    def __ne__(self, other: object) -> bool:
        # A struct brings a ``!=`` of its own, which does not ask ``==``.
        return not self == other

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (
            self.event_id, self.event_type, self.timestamp, self.source, self.correlation_id,
            self.causation_id, self.payload_json, self.schema_version, self.attributes_json,
        )  # fmt: skip

    @property
    def payload(self) -> Any:
        """The stored payload as JSON values (a dict), decoded afresh."""
        return _decode(self.payload_json)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes (an empty dict when there are none), decoded afresh."""
        return _decode(self.attributes_json) if self.attributes_json else {}

    def value(self, blobs: Callable[[Mapping[str, Any]], bytes] | None = None) -> Any:
        """The payload with its Python values back; ``blobs`` fetches what was moved to a blob."""
        return jsonvalue.decode(self.payload_json, blob=blobs)

    def upcast(self, schemas: Any = None) -> EventEnvelope:
        """The event with its payload in the newest version that upcasters lead to; itself when there is nothing to do.

        ``schemas`` is what ``open(schemas=...)`` takes (``ledger.validator.schemas`` are those of a ledger). Raises
        :class:`~chatsnapshot.events.upcasting.UpcastFailed`.
        """
        from chatsnapshot.events.registry import schemas_of

        version, payload = schemas_of(schemas).upcast(self.event_type, self.schema_version, self.payload_json)
        if version == self.schema_version:
            return self
        return msgspec.structs.replace(self, payload_json=payload, schema_version=version)

    def to_json(self) -> bytes:
        """The envelope as UTF-8 JSON: the seven keys in their order, then optional keys that are set."""
        return _encode(
            _Wire(
                self.event_id,
                self.event_type,
                self.timestamp,
                self.source.to_dict(),
                self.correlation_id,
                self.causation_id,
                msgspec.Raw(self.payload_json),
                self.schema_version,
                None if self.attributes_json is None else msgspec.Raw(self.attributes_json.encode()),
            )
        )

    @classmethod
    def from_json(cls, data: bytes | str) -> EventEnvelope:
        """Read one envelope; raises :class:`InvalidEvent` naming what is wrong.

        The payload is taken as stored JSON: its ``$`` tags are kept as they are.
        """
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        try:
            data.decode()
            wire = _wire_decoder.decode(data)
            payload = msgspec.json.format(bytes(wire.payload), indent=-1)
            attributes = wire.attributes
            source = Source(**wire.source)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError) as error:
            raise InvalidEvent(f"this is not an event envelope: {error}") from None
        check_payload_json(payload)
        if attributes is not None and not isinstance(attributes, dict):
            raise InvalidEvent("attributes must be a JSON object", path="attributes")
        if source.origin not in ORIGINS:
            raise InvalidEvent(
                f"source.origin is one of {', '.join(ORIGINS)}, not {source.origin!r}", path="source"
            )
        check_event_type(wire.event_type)
        return cls(
            event_id=uuid_text(uuid_bytes(wire.event_id)),
            event_type=wire.event_type,
            timestamp=timestamp_text(wire.timestamp),
            source=source,
            correlation_id=wire.correlation_id,
            causation_id=None
            if wire.causation_id is None
            else uuid_text(uuid_bytes(wire.causation_id, "causation_id")),
            payload_json=payload,
            schema_version=wire.schema_version,
            attributes_json=_encode(attributes, order="sorted").decode() if attributes else None,
        )


def check_payload_json(payload: object) -> None:
    """Make sure that stored payload bytes are one JSON object that can be read; else :class:`InvalidEvent`."""
    try:
        value = _decode(payload)  # type: ignore[call-overload]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError) as error:
        raise InvalidEvent(f"the payload of an envelope is no strict JSON: {error}", path="payload") from None
    if not isinstance(value, dict):
        raise InvalidEvent("the payload of an envelope must be a JSON object", path="payload")
    if isinstance(payload, bytes) and jsonvalue.nested_deeper(payload, value, DEFAULTS.json_depth_max):
        raise InvalidEvent(
            f"the payload of an envelope is nested deeper than {DEFAULTS.json_depth_max}", path="payload"
        )


def check_event_type(event_type: object) -> str:
    """The event type if it reads ``domain.name`` (lower case, digits, underscores, dots); else :class:`InvalidEvent`."""
    if isinstance(event_type, str) and len(event_type) <= 256 and _EVENT_TYPE.fullmatch(event_type):
        return str.__str__(event_type)  # plain text also of a member of a text enum
    raise InvalidEvent(
        f"event_type must read domain.name in lower case, such as execution.message, not {event_type!r:.80}",
        path="event_type",
    )


_SOURCES: dict[str, Source] = {}


def source_of(text: str) -> Source:
    """The source for its canonical JSON text; few differ in one ledger, so they are kept."""
    found = _SOURCES.get(text)
    if found is None:
        if len(_SOURCES) >= 4096:
            _SOURCES.clear()
        found = _SOURCES[text] = Source(**_decode(text))
    return found


class LedgerEntry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An event as the ledger holds it: the envelope, its ``position``, ``sequence`` and ``recorded_at``.

    The fields are the stored columns; :attr:`event` is the envelope made of them. ``leaf`` is the RFC 6962 leaf hash
    that commits to the event; behind a spool all four are ``None`` until the service has it. ``commitment`` is the
    salted hash of the payload; ``payload_json`` and ``salt`` are ``None`` when the payload was erased,
    ``payload_bytes`` stays.
    """

    position: int
    sequence: int
    recorded_at: str
    event_key: bytes
    event_type: str
    timestamp: str
    source_json: str
    correlation_id: str
    causation_key: bytes | None
    payload_json: bytes | None
    version: int | None
    attributes_json: str | None
    leaf: bytes
    salt: bytes | None
    commitment: bytes
    payload_bytes: int
    fetch: Callable[[Mapping[str, Any]], bytes] | None = None
    """Gives the bytes of a blob that the payload names; set by the ledger that the entry was read from."""

    @property
    def event(self) -> EventEnvelope:
        """What was recorded, unchanged."""
        return EventEnvelope(
            event_id=uuid_text(self.event_key),
            event_type=self.event_type,
            timestamp=self.timestamp,
            source=source_of(self.source_json),
            correlation_id=self.correlation_id,
            causation_id=None if self.causation_key is None else uuid_text(self.causation_key),
            payload_json=ERASED_PAYLOAD if self.payload_json is None else self.payload_json,
            schema_version=self.version or 1,
            attributes_json=self.attributes_json,
        )

    @property
    def event_id(self) -> str:
        """The event's id, as text."""
        return uuid_text(self.event_key)

    @property
    def causation_id(self) -> str | None:
        """The id of the event that led to this one, as text."""
        return None if self.causation_key is None else uuid_text(self.causation_key)

    @property
    def source(self) -> Source:
        """Who said that it happened."""
        return source_of(self.source_json)

    @property
    def payload(self) -> Any:
        """The stored payload as JSON values, decoded afresh; ``{"$erased": True}`` when it was erased."""
        return _decode(ERASED_PAYLOAD if self.payload_json is None else self.payload_json)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, decoded afresh."""
        return _decode(self.attributes_json) if self.attributes_json else {}

    @property
    def schema_version(self) -> int:
        """The version of this type's payload."""
        return self.version or 1

    def to_json(self) -> bytes:
        """The entry as one JSON object: what the ledger added, then the event as it is stored.

        ``{"position": 17, "sequence": 5, "recorded_at": …, "leaf": hex, "event": {…}}``; ``"erased": true`` stands
        before the event when its payload was erased.
        """
        erased = b'"erased":true,' if self.payload_json is None else b""
        if not self.position:  # it waits in a spool
            return (
                b'{"position":null,"sequence":null,"recorded_at":null,"leaf":null,"event":'
                + self.event.to_json()
                + b"}"
            )
        head = (
            f'{{"position":{self.position},"sequence":{self.sequence},'
            f'"recorded_at":"{self.recorded_at}","leaf":"{self.leaf.hex()}",'
        )
        return head.encode() + erased + b'"event":' + self.event.to_json() + b"}"

    @property
    def erased(self) -> bool:
        """Whether the payload was erased; the event, its place and its proof stay."""
        return self.payload_json is None

    def value(self) -> Any:
        """The payload with its Python values back; blobs are fetched from the ledger it was read from.

        Raises :class:`NotFound` when the payload was erased.
        """
        if self.payload_json is None:
            raise NotFound(f"the payload of event {self.event_id} at position {self.position} was erased")
        return jsonvalue.decode(self.payload_json, blob=self.fetch)

    def _identity(self) -> tuple[Any, ...]:
        return (
            self.position, self.sequence, self.recorded_at, self.event_key, self.event_type, self.timestamp,
            self.source_json, self.correlation_id, self.causation_key, self.payload_json, self.version,
            self.attributes_json, self.leaf, self.salt, self.commitment, self.payload_bytes,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LedgerEntry):
            return NotImplemented
        return self._identity() == other._identity()

    def __ne__(self, other: object) -> bool:
        # A struct brings a ``!=`` of its own, which does not ask ``==``.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.position, self.leaf))

    def __reduce__(self) -> tuple[Any, ...]:
        return LedgerEntry, self._identity()

    def __repr__(self) -> str:
        return (
            f"LedgerEntry(position={self.position}, sequence={self.sequence}, event_type={self.event_type!r}, "
            f"correlation_id={self.correlation_id!r}, event_id={self.event_id!r})"
        )

"""What a redactor is: a policy that an event passes on its way into the ledger, and that fails closed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.integrity import canonical_json
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.limits import Limits

__all__ = ["WITHHELD", "Hook", "Redacted", "Redactor", "redactor_of"]

Hook = Callable[[dict[str, Any]], "Mapping[str, Any] | None"]
"""Gets a copy of ``event_type``, ``correlation_id``, ``payload``, ``attributes`` and ``source_name``; changes payload,
attributes or source name in place, or returns a mapping with those that it changed."""

WITHHELD = b'{"$withheld":"redaction failed"}'
"""The payload of an event whose redaction failed."""

_log = logging.getLogger("chatsnapshot.redaction")


class Redacted(NamedTuple):
    """The parts of an event that redaction may change, in their stored form."""

    payload_json: bytes
    blobs: tuple[Blob, ...]
    attributes_json: str | None
    source_json: str


class Redactor:
    """Passes every event through hooks, in order, before commitment and storage. Safe to use from any thread.

    A hook that fails withholds the payload, attributes and source name (``errors="raise"``: :class:`InvalidEvent`).
    """

    def __init__(self, hooks: Sequence[Hook], *, errors: str = "withhold") -> None:
        self._hooks = tuple(hooks)
        self._raises = errors == "raise"
        self.withheld = 0
        """Events whose payload was withheld because a hook failed."""

    def apply(
        self,
        event_type: str,
        correlation_id: str,
        payload_json: bytes,
        blobs: tuple[Blob, ...],
        attributes_json: str | None,
        source_json: str,
        limits: Limits,
    ) -> Redacted:
        """The event's parts after redaction, in their stored form."""
        try:
            source = msgspec.json.decode(source_json)
            event: dict[str, Any] = {
                "event_type": event_type,
                "correlation_id": correlation_id,
                "payload": msgspec.json.decode(payload_json),
                "attributes": msgspec.json.decode(attributes_json) if attributes_json else {},
                "source_name": source.get("name"),
            }
            for hook in self._hooks:
                changed = hook(event)
                if changed is not None:
                    event.update(changed)
            encoded = jsonvalue.encode(event["payload"], limits=limits)
            attributes = event["attributes"]
            source["name"] = event["source_name"]
            if source["name"] is None:
                del source["name"]
            return Redacted(
                encoded.json,
                encoded.blobs,
                canonical_json(attributes).decode() if attributes else None,
                canonical_json(source).decode(),
            )
        except Exception as error:
            if self._raises:
                raise InvalidEvent(
                    f"redaction failed with {type(error).__name__}; nothing was stored"
                ) from None
            self.withheld += 1
            if self.withheld == 1:
                _log.warning(
                    "redaction failed with %s; the payload of the event is withheld", type(error).__name__
                )
            return Redacted(WITHHELD, (), None, source_json)


def redactor_of(redact: object, errors: str = "withhold") -> Redactor | None:
    """The redactor that ``redact`` stands for: ``None``, a :class:`Redactor`, a hook or several hooks."""
    if redact is None or isinstance(redact, Redactor):
        return redact
    if callable(redact):
        return Redactor([redact], errors=errors)
    if isinstance(redact, (list, tuple)) and all(callable(hook) for hook in redact):
        return Redactor(redact, errors=errors)
    raise InvalidEvent(f"redact is None, a Redactor, a hook or a list of hooks, not {redact!r:.80}")

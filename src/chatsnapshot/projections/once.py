"""An entry read once for all projections that fold it: payload, time, actor, and what the reader of its type finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.envelope import LedgerEntry, Source, source_of
from chatsnapshot.events.fields import first, name_of, payload_of
from chatsnapshot.events.normaliser import actor_of
from chatsnapshot.events.readers import READERS
from chatsnapshot.projections.lines import line
from chatsnapshot.projections.times import happened

__all__ = ["Once", "Sharing"]

State = TypeVar("State", bound=msgspec.Struct)

_decode = msgspec.json.decode
_NOBODY: Any = object()


class Sharing(Protocol[State]):
    """A projection that folds what was read of an entry once for all of them.

    Its ``apply(state, entry)`` is ``take_once(state, Once(entry))``: one rule, whoever reads the entry.
    """

    def take_once(self, state: State, once: Once) -> State:
        """As :meth:`~chatsnapshot.projections.base.Projection.apply`; ``once`` is left as it is."""
        ...


class Once:
    """One entry, read as far as somebody asked. The values are shared: whoever keeps one must not change it.

    ``at`` is when it happened, ``None`` where that is unknown; ``payload`` is an object, whatever is stored.
    """

    __slots__ = (
        *(
            "_event_id",
            "_facts",
            "_what",
            "_who",
            "at",
            "correlation_id",
            "entry",
            "erased",
            "event_type",
            "payload",
            "position",
        ),
        *("sequence", "source"),
    )

    def __init__(self, entry: LedgerEntry) -> None:
        self.entry = entry
        self.event_type: str = entry.event_type
        self.position: int = entry.position
        self.sequence: int = entry.sequence
        self.correlation_id: str = entry.correlation_id
        raw = entry.payload_json
        try:
            payload = _decode(raw)  # type: ignore[arg-type]  # None is no JSON
        except (msgspec.DecodeError, TypeError, UnicodeDecodeError, RecursionError):
            payload = None
        self.payload: Mapping[str, Any] = payload if type(payload) is dict else payload_of(entry)
        self.erased: bool = raw is None
        # The mark that an event has no time stands in few payloads; only those are asked.
        self.at: str | None = entry.timestamp if "native" not in self.payload else happened(entry)
        self.source: Source = source_of(entry.source_json)
        self._event_id = ""
        self._facts: Any = None
        self._what = ""
        self._who: Any = _NOBODY

    @property
    def facts(self) -> Any:
        """What the reader of the event's type (:data:`~chatsnapshot.events.readers.READERS`) makes of the payload."""
        found = self._facts
        if found is None:
            found = self._facts = READERS[self.event_type](self.payload)
        return found

    @property
    def event_id(self) -> str:
        """The event's id, as text."""
        found = self._event_id
        if not found:
            found = self._event_id = uuid_text(self.entry.event_key)
        return found

    @property
    def causation_id(self) -> str | None:
        """The id of the event that led to this one, as text."""
        key = self.entry.causation_key
        return None if key is None else uuid_text(key)

    @property
    def who(self) -> str | None:
        """Who acted: the agent or speaker that the payload names, else the source's name, else ``None``."""
        found = self._who
        if found is _NOBODY:
            found = self._who = self._actor() or self.source.name
        return found  # type: ignore[no-any-return]

    @property
    def what(self) -> str:
        """One line that says what happened, as on the timeline."""
        found = self._what
        if not found:
            known = self.event_type in READERS
            found = self._what = line(self.entry, self.payload, self.facts if known else None)
        return found

    def _actor(self) -> str | None:
        # The same as chatsnapshot.events.normaliser.actor_of, without reading a message twice.
        event_type, payload = self.event_type, self.payload
        if event_type == "execution.message":
            return name_of(first(payload, "agent", "speaker")) or self.facts[0].name
        if "agent" in payload or "speaker" in payload or "role" in payload or event_type.startswith("ui."):
            return actor_of(event_type, payload)
        return None

"""Upcasters: pure steps that make a payload of a version one of the next; what is stored never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.errors import InvalidEvent, LedgerError

__all__ = ["UpcastFailed", "Upcaster", "Upcasters"]

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the stored JSON of a payload, ``$`` tags included, and gives that of the next version."""

Wrong = Callable[[str, int, bytes], str | None]
"""What is wrong with a payload as one of this type and version, in words."""


class UpcastFailed(LedgerError):
    """An upcaster raised, or gave no payload of the next version; the event is stored and can be read as it is.

    ``event_type``, ``from_version`` and ``to_version`` name the step, ``position`` the entry where one is known.
    """

    def __init__(self, event_type: str, from_version: int, reason: str, position: int | None = None) -> None:
        where = "" if position is None else f" at position {position}"
        super().__init__(
            f"the upcaster of {event_type} from version {from_version} to {from_version + 1} {reason}{where}; "
            "what was recorded is unchanged: read entry.event, and mend the upcaster"
        )
        self.event_type = event_type
        self.from_version = from_version
        self.to_version = from_version + 1
        self.reason = reason
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.event_type, self.from_version, self.reason, self.position)


class Upcasters:
    """The steps by event type and the version that they start from."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, int], Upcaster] = {}
        self.types: set[str] = set()
        """Event types that have any step."""

    def add(self, event_type: str, from_version: int, step: Upcaster) -> None:
        """Register a step; raises :class:`InvalidEvent` when there is another one."""
        if isinstance(from_version, bool) or not isinstance(from_version, int) or from_version < 1:
            raise InvalidEvent(
                f"an upcaster starts from a whole version from 1 on, not {from_version!r:.40}", path="schemas"
            )
        if not callable(step):
            raise InvalidEvent(f"an upcaster is a function, not {type(step).__name__}", path="schemas")
        if self.steps.setdefault((event_type, from_version), step) is not step:
            raise InvalidEvent(
                f"{event_type} has an upcaster from version {from_version} already", path="schemas"
            )
        self.types.add(event_type)

    def upcast(
        self,
        event_type: str,
        version: int,
        payload_json: bytes,
        wrong: Wrong,
        position: int | None = None,
    ) -> tuple[int, bytes]:
        """The newest version that the steps lead to, and the payload in it; raises :class:`UpcastFailed`.

        Each step gets a payload of its own. What it gives must be a JSON object, and fit where the next version has a
        schema.
        """
        while (step := self.steps.get((event_type, version))) is not None:
            try:
                made = step(msgspec.json.decode(payload_json))
            except Exception as error:
                raise UpcastFailed(event_type, version, f"raised {type(error).__name__}", position) from error
            if not isinstance(made, dict):
                raise UpcastFailed(event_type, version, f"gave {type(made).__name__}, not a dict", position)
            try:
                payload_json = msgspec.json.encode(made)
            except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                raise UpcastFailed(event_type, version, f"gave no JSON ({error})", position) from None
            reason = wrong(event_type, version + 1, payload_json)
            if reason is not None:
                raise UpcastFailed(
                    event_type, version, f"gave a payload that does not fit: {reason}", position
                )
            version += 1
        return version, payload_json

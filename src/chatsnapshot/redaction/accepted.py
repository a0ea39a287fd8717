"""What ``redact=`` takes: nothing, ``"secrets"``, a redactor, a hook, or several of those in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.limits import Limits
from chatsnapshot.redaction.base import WITHHELD, Redacted, Redactor, check_errors

__all__ = ["Chain", "Redacts", "redactor_of"]


class Redacts(Protocol):
    """What an event passes: a redactor, or several behind each other."""

    @property
    def withheld(self) -> int:
        """Events whose payload was withheld because redaction failed."""

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


class Chain:
    """Redactors behind each other; after one has withheld an event the others do not see it."""

    def __init__(self, redactors: Sequence[Redactor]) -> None:
        self.redactors = tuple(redactors)

    @property
    def withheld(self) -> int:
        """Events whose payload was withheld because redaction failed."""
        return sum(redactor.withheld for redactor in self.redactors)

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
        """The event's parts after all redactors."""
        parts = Redacted(payload_json, blobs, attributes_json, source_json)
        for redactor in self.redactors:
            parts = redactor.apply(event_type, correlation_id, *parts, limits)
            if parts.payload_json is WITHHELD:
                break
        return parts


def redactor_of(redact: object, errors: str | None = None) -> Redacts | None:
    """The redactor that ``redact`` stands for; raises :class:`InvalidEvent` for what is none.

    ``errors`` is for hooks and ``"secrets"``; a :class:`Redactor` has its own. Without it (for a single event) the
    redactor that ``"secrets"`` stands for is shared, and failures withhold.
    """
    if errors is not None:
        check_errors(errors)
    if redact is None or isinstance(redact, (Redactor, Chain)):
        return redact
    if isinstance(redact, (list, tuple)):
        chain = [_single(one, errors) for one in redact if one is not None]
        return Chain(chain) if len(chain) > 1 else chain[0] if chain else None
    return _single(redact, errors)


def _single(redact: object, errors: str | None) -> Redactor:
    if isinstance(redact, Redactor):
        return redact
    if isinstance(redact, str) and redact == "secrets":
        return _shared() if errors is None else Redactor(errors=errors)
    if callable(redact) and not isinstance(redact, type):
        hook: Callable[..., object] = redact
        return Redactor((), hooks=[hook], names=False, errors=errors or "withhold")  # type: ignore[list-item]
    raise InvalidEvent(
        f'redact is None, "secrets", a Redactor, a hook or a list of those, not {type(redact).__name__}',
        path="redact",
    )


@lru_cache(1)
def _shared() -> Redactor:
    """The built-in patterns for single events; made once."""
    return Redactor()

"""Validation of payloads on their way into a ledger: off, warn or strict."""

from __future__ import annotations

from chatsnapshot.errors import InvalidEvent

__all__ = ["MODES", "Validator"]

MODES = ("off", "warn", "strict")


class Validator:
    """Checks each payload against the schema of its type. Safe to use from any thread.

    ``warn`` counts, and logs once a type; ``strict`` raises :class:`InvalidEvent`. Types without a schema pass.
    """

    def __init__(self, mode: str = "warn", schemas: object = None) -> None:
        if mode not in MODES:
            raise InvalidEvent(
                f"validation is one of {', '.join(MODES)}, not {mode!r:.80}", path="validation"
            )
        self.mode = mode
        self.schemas = schemas
        self.invalid: dict[str, int] = {}
        """Number of payloads by event type that did not fit their schema."""

    def check(self, event_type: str, version: int | None, payload_json: bytes) -> None:
        """Look at one payload as it will be stored; ``version`` is ``None`` for 1."""

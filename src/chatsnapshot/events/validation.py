"""Validation of payloads on their way into a ledger: off, warn or strict."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.fitting import Misfit
from chatsnapshot.events.registry import Schemas, schemas_of

__all__ = ["MODES", "Validator"]

_log = logging.getLogger("chatsnapshot.schemas")

MODES = ("off", "warn", "strict")


class Validator:
    """Checks each payload against the schema of its type. Safe to use from any thread.

    ``warn`` counts, and logs once a type; ``strict`` raises :class:`InvalidEvent`. Types without a schema pass, a version
    without a schema of a type that has some does not. ``schemas`` is what ``open(schemas=...)`` takes.
    """

    def __init__(self, mode: str = "warn", schemas: Any = None) -> None:
        if mode not in MODES:
            raise InvalidEvent(
                f"validation is one of {', '.join(MODES)}, not {mode!r:.80}", path="validation"
            )
        self.mode = mode
        self.schemas: Schemas = Schemas() if schemas is None else schemas_of(schemas)
        """The schemas in use."""
        self.invalid: dict[str, int] = {}
        """Number of payloads by event type that did not fit their schema."""
        self._accepts: dict[Any, Callable[[bytes], object]] = self.schemas.accepts
        self._lock = threading.Lock()

    def ready(self) -> Callable[[str, int | None, bytes], None] | None:
        """Load the schemas and give :meth:`check`, or ``None`` when payloads are not looked at.

        Now, not at the first payload: an import that Ctrl-C interrupts can hold up other threads for ever.
        """
        if self.mode == "off":
            return None
        self.schemas.complete()
        return self.check

    def check(self, event_type: str, version: int | None, payload_json: bytes) -> None:
        """Look at one payload as it will be stored; ``version`` is ``None`` for 1.

        Raises :class:`InvalidEvent` in ``strict`` mode, with the JSON path of what does not fit.
        """
        accept = self._accepts.get(event_type if version is None else (event_type, version))
        if accept is None:
            self._first(event_type, version or 1, payload_json)
            return
        try:
            accept(payload_json)
        except Exception:  # a class may raise anything; the slow way says what
            misfit = self.schemas.misfit(event_type, version or 1, payload_json)
            if misfit is not None:
                self._refuse(event_type, version or 1, misfit)

    def fits(self, event_type: str, payload_json: bytes) -> bool:
        """Whether a payload of version 1 is known to fit, without counting or refusing it where it does not."""
        accept = self._accepts.get(event_type)
        if accept is None:
            return not self.schemas.versions(event_type)
        try:
            accept(payload_json)
        except Exception:  # a class may raise anything
            return False
        return True

    def _first(self, event_type: str, version: int, payload_json: bytes) -> None:
        """No schema for this version of this type, or none was looked for yet."""
        if self.schemas.versions(event_type):
            misfit = self.schemas.misfit(event_type, version, payload_json)
            if misfit is not None:
                self._refuse(event_type, version, misfit)

    def _refuse(self, event_type: str, version: int, misfit: Misfit) -> None:
        what = f"the payload of {event_type} does not fit version {version} of its schema"
        if self.mode == "strict":
            raise InvalidEvent(f"{what} at {misfit.path}: {misfit.reason}", path=misfit.path)
        with self._lock:
            seen = self.invalid.get(event_type, 0)
            self.invalid[event_type] = seen + 1
        if not seen:
            _log.warning(
                "%s at %s: %s; it is recorded unchanged, and further ones of this type are only counted",
                what, misfit.path, misfit.reason,
            )  # fmt: skip

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

"""One request and its answer as two events: begun, and exactly one end; seen from the caller or from the server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.plain import describe_error, header_text
from chatsnapshot.adapters.policy import Event, new_event
from chatsnapshot.clock import uuid7, uuid_text

__all__ = ["Exchange", "new_correlation"]


def new_correlation() -> str:
    """A correlation of its own, for what belongs to none."""
    return uuid_text(uuid7()[0])


class Exchange:
    """The events of one request: ``started`` is there at once, :meth:`ended` gives the end once and then ``None``.

    Both share a ``call_id``; the end is caused by the start and tells ``status`` and ``duration_ns``.
    """

    def __init__(
        self,
        event_type: str,
        *,
        correlation_id: str,
        cause: str | None,
        service: str | None,
        method: str,
        path: str,
        url: str,
        source: Mapping[str, Any],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.correlation_id = correlation_id
        operation = header_text(f"{method} {path.partition('?')[0]}", 200)
        self._shared: dict[str, Any] = {"call_id": new_correlation(), "operation": operation}
        if service is not None:
            self._shared["service"] = service
        self._source = source
        self._began = time.monotonic_ns()
        self._over = False
        self.started: Event = new_event(
            event_type,
            {**self._shared, "method": method, "url": url},
            correlation_id=correlation_id,
            causation_id=cause,
            source=source,
            attributes=attributes or None,
        )

    @property
    def event_id(self) -> str:
        """The id of the event that begins it: the cause of what comes of it."""
        return str(self.started["event_id"])

    @property
    def over(self) -> bool:
        """Whether its end was given."""
        return self._over

    def ended(
        self, status: int | None, error: BaseException | Mapping[str, Any] | None = None, **facts: Any
    ) -> Event | None:
        """The event that ends it; ``None`` when it has ended already."""
        if self._over:
            return None
        self._over = True
        payload: dict[str, Any] = {**self._shared, "duration_ns": time.monotonic_ns() - self._began}
        if status is not None:
            payload["status"] = status
        if error is not None:
            payload["error"] = describe_error(error) if isinstance(error, BaseException) else dict(error)
        return new_event(
            "integration.response",
            payload | facts,
            correlation_id=self.correlation_id,
            causation_id=self.event_id,
            source=self._source,
        )

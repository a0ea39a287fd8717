"""What both kinds of middleware share: which requests are recorded, under which scope, and how they begin."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import SafeRecorder
from chatsnapshot.adapters.web.carrying import Received, extract
from chatsnapshot.adapters.web.exchange import Exchange, new_correlation
from chatsnapshot.scope import Scope

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Accept", "Serving", "aborted", "believed"]

Accept = bool | Callable[[Any], bool]
"""Whose word about correlation and cause is taken: everybody's, nobody's, or as a function of the request says."""


def aborted(message: str, kind: str = "ClientDisconnected") -> dict[str, str]:
    """The error of a request whose answer did not get to its end."""
    return {"type": kind, "message": message}


def believed(accept: Accept, request: Any, note: Callable[[Exception], object]) -> bool:
    """Whether the word of this request is taken; a function that fails takes it of nobody, and ``note`` is told."""
    if isinstance(accept, bool):
        return accept
    try:
        return bool(accept(request))
    except Exception as error:
        note(error)
        return False


class Serving:
    """How one application's requests are recorded."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        service: str | None,
        exclude: Collection[str],
        accept: Accept,
        redact: object,
        wait_seconds_max: float,
        adapter: str,
    ) -> None:
        self.ledger = ledger
        self.recorder = SafeRecorder(
            ledger, adapter=adapter, redact=redact, wait_seconds_max=wait_seconds_max
        )
        self._service = None if service is None else header_text(service)
        self._exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        self._accept = accept
        self._source: dict[str, str] = {"origin": "integration", "runtime": adapter}
        if self._service is not None:
            self._source["name"] = self._service

    def leaves_out(self, path: str) -> bool:
        """Whether requests for this path are not recorded."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self._exclude)

    def begin(self, request: Any, headers: Any, method: str, path: str, url: str) -> tuple[Exchange, Scope]:
        """The request's events, and the scope in which it is answered."""
        received = extract(headers)
        if not believed(self._accept, request, self.recorder.note):
            received = Received(
                traceparent=received.traceparent, tracestate=received.tracestate, baggage=received.baggage
            )
        exchange = Exchange(
            "integration.api_triggered",
            correlation_id=received.correlation_id or new_correlation(),
            cause=received.cause,
            service=self._service,
            method=header_text(method, 32) or "?",
            path=path,
            url=url,
            source=self._source,
            attributes=received.attributes,
        )
        return exchange, received.scope(self.ledger, exchange.correlation_id, cause=exchange.event_id)

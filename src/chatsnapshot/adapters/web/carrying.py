"""``inject`` writes the scope of here and now into headers; ``extract`` reads it out of them, and opens it again."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from chatsnapshot.adapters.web import header, w3c
from chatsnapshot.adapters.web.header import HEADER, Carried
from chatsnapshot.clock import uuid_text
from chatsnapshot.fields import Causelike, cause_key
from chatsnapshot.scope import Frame, Scope, current_frame, innermost_frame

if TYPE_CHECKING:
    from chatsnapshot.envelope import Source
    from chatsnapshot.ledger import Ledger

__all__ = ["Received", "ReceivedScope", "carried_here", "extract", "inject", "write_into"]

M = TypeVar("M", bound=MutableMapping[str, Any])

_log = logging.getLogger("chatsnapshot.adapters")

_WANTED = frozenset((HEADER, w3c.TRACEPARENT, w3c.TRACESTATE, w3c.BAGGAGE))
_VALUES_MAX = 16


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What a request or message brought along; everything ``None`` when it brought nothing that can be meant.

    ``cause`` is the id of the event that led to it, ``run_id`` the run that event is of. ``traceparent``, ``tracestate``
    and ``baggage`` (its members, without ours) are kept to be passed on.
    """

    correlation_id: str | None = None
    cause: str | None = None
    run_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    baggage: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.correlation_id is not None

    @property
    def attributes(self) -> dict[str, str]:
        """``trace_id`` and ``span_id`` of the trace that the sender is in, for the attributes of an event."""
        if self.traceparent is None:
            return {}
        _, trace, span, *_ = self.traceparent.split("-")
        return {"trace_id": trace, "span_id": span}

    def scope(
        self,
        ledger: Ledger,
        correlation_id: object = None,
        *,
        cause: Causelike | None = None,
        source: Source | Mapping[str, Any] | None = None,
    ) -> Scope:
        """As ``ledger.scope``, with what was brought along where nothing else is given.

        A run that begins inside is a child of the sender's run. Headers that are injected inside pass the trace and the
        baggage on.
        """
        given = self.correlation_id if correlation_id is None else correlation_id
        frame = ledger._frame(given, source, self.cause if cause is None else cause, self.run_id)
        return ReceivedScope(ledger, frame, self)


_received: contextvars.ContextVar[Received | None] = contextvars.ContextVar(
    "chatsnapshot_received", default=None
)


class ReceivedScope(Scope):
    """A scope that also holds what was received with it."""

    def __init__(self, ledger: Ledger, frame: Frame, received: Received) -> None:
        super().__init__(ledger, frame)
        self.received = received
        self._outer: Received | None = None

    def _enter(self) -> None:
        super()._enter()
        self._outer = _received.get()
        _received.set(self.received)

    def _leave(self) -> None:
        super()._leave()
        _received.set(self._outer)


def extract(headers: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None) -> Received:
    """What the headers of a request or message bring along; never raises, and what is malformed is as not there.

    ``headers``: a mapping, or pairs of name and value, of text or bytes (a value may be a list of them); names in any
    case. Our own header goes before ``baggage``. One that is there twice, or is too long, counts as malformed.
    """
    try:
        found = _found(headers)
        baggage = w3c.members(",".join(found[w3c.BAGGAGE]))
        own = found[HEADER]
        carried = header.read(own[0]) if len(own) == 1 else None
        if carried is None:
            carried = w3c.carried_in(baggage)
        parents = found[w3c.TRACEPARENT]
        parent = w3c.traceparent(parents[0]) if len(parents) == 1 else None
        return Received(
            correlation_id=carried and carried.correlation_id,
            cause=carried and carried.cause,
            run_id=carried and carried.run_id,
            traceparent=parent,
            tracestate=None if parent is None else w3c.tracestate(",".join(found[w3c.TRACESTATE])),
            baggage=w3c.members(w3c.with_ours(baggage, None) or ""),
        )
    except Exception as error:
        _log.warning("headers could not be read for context: %r", error)
        return Received()


def inject(headers: M | None = None, *, ledger: Ledger | None = None, cause: Causelike | None = None) -> M:
    """Write the scope of here and now into headers, and give them back; a new ``dict`` when none are given.

    Written are ``chatsnapshot-context`` and ``baggage``; ``traceparent`` and ``tracestate`` only where the headers have
    none and they are known: received with this scope, or those of OpenTelemetry's current span. Outside of any scope
    nothing of ours is written. ``ledger`` chooses its scope, else the innermost one counts; ``cause`` stands in for the
    scope's cause.
    Raises :class:`InvalidEvent` for a cause that is none.
    """
    into: Any = {} if headers is None else headers
    key = cause_key(cause)
    write_into(into, carried_here(ledger, None if key is None else uuid_text(key)))
    made: M = into
    return made


def carried_here(ledger: Ledger | None, cause: str | None = None) -> Carried | None:
    """What a scope of here and now hands on; ``None`` outside of any."""
    frame = innermost_frame() if ledger is None else current_frame(ledger.scope_owner)
    if frame is None or frame.correlation_id is None:
        return None
    if cause is None and frame.cause is not None:
        cause = uuid_text(frame.cause)
    return Carried(frame.correlation_id, cause, frame.run_id)


def write_into(headers: MutableMapping[str, Any], carried: Carried | None) -> None:
    """Write what is carried, and what was received to be passed on, into headers."""
    received = _received.get()
    if carried is not None:
        _set(headers, HEADER, header.write(carried))
    there = _one(headers, w3c.BAGGAGE)
    others = w3c.members(there) if there else received.baggage if received is not None else ()
    if not there or others:  # what is there and cannot be read is left alone
        _set(headers, w3c.BAGGAGE, w3c.with_ours(others, carried))
    if _one(headers, w3c.TRACEPARENT) is None:
        parent, state = _trace(received)
        _set(headers, w3c.TRACEPARENT, parent)
        if parent is not None:
            _set(headers, w3c.TRACESTATE, state)


def _trace(received: Received | None) -> tuple[str | None, str | None]:
    """The trace of OpenTelemetry where it runs one here, else the one that was received."""
    from_here = _open_telemetry()
    if from_here is not None:
        return from_here
    return (None, None) if received is None else (received.traceparent, received.tracestate)


def _open_telemetry() -> tuple[str, str | None] | None:
    import sys

    trace = sys.modules.get("opentelemetry.trace")  # a process that has not loaded it has no span
    if trace is None:
        return None
    try:
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        state = context.trace_state.to_header() or None
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
        return parent, state
    except Exception:
        return None


def _found(headers: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in _WANTED}
    for key, value in _pairs(headers):
        name = _text(key)
        values = found.get(name.lower()) if name is not None and len(name) <= 32 else None
        if values is None:
            continue
        for one in value if isinstance(value, (list, tuple)) else (value,):
            text = _text(one)
            if text is not None and len(values) < _VALUES_MAX:
                values.append(text)
    return found


def _pairs(headers: Any) -> Iterator[tuple[Any, Any]]:
    if headers is None:
        return
    several = getattr(headers, "multi_items", None)
    if callable(several):
        yield from several()
    elif isinstance(headers, Mapping):
        yield from headers.items()
    else:
        for pair in headers:
            key, value, *_ = pair
            yield key, value


def _text(value: Any) -> str | None:
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value).decode("latin-1")
    return value if isinstance(value, str) else None


def _one(headers: MutableMapping[str, Any], name: str) -> str | None:
    for key in list(headers):
        if isinstance(key, str) and key.lower() == name:
            return _text(headers[key])
    return None


def _set(headers: MutableMapping[str, Any], name: str, value: str | None) -> None:
    if value is None:
        return
    for key in list(headers):
        if isinstance(key, str) and key.lower() == name and key != name:
            del headers[key]
    headers[name] = value

"""What comes over OTLP, decoded: spans and log records, each with the resource and scope that it came from."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

__all__ = [
    "CLIENT",
    "CONSUMER",
    "ERROR",
    "INTERNAL",
    "OK",
    "PRODUCER",
    "SERVER",
    "Log",
    "Origin",
    "Refused",
    "Span",
]

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5
"""Kinds of spans; 0 is not said."""

OK, ERROR = 1, 2
"""Codes of a span's status; 0 is not said."""

Facts = dict[str, Any]


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Resource and scope of the spans and logs of one program: shared by all of them, so never changed."""

    resource: Facts
    scope: str
    scope_facts: Facts
    """Version, attributes and schema of the scope, as far as they are said."""
    plain: bool = False
    """Whether all of it is text, truth values and whole numbers."""


class Span(msgspec.Struct):
    """One span. Ids are hexadecimal, times nanoseconds since 1970 (0: not said).

    ``events`` are time, name and attributes; ``links`` and ``more`` are kept as they came.
    """

    trace: str
    id: str
    parent: str | None
    name: str
    kind: int
    start: int
    end: int
    facts: Facts
    status: int
    message: str
    events: list[tuple[int, str, Facts]]
    links: list[Facts]
    more: Facts
    origin: Origin
    plain: bool = False
    """Whether all its attributes are text, truth values and whole numbers, and it has no events and links."""


class Log(msgspec.Struct):
    """One log record. ``trace`` and ``span`` are ``None`` outside of a trace; ``name`` is the name of an event."""

    trace: str | None
    span: str | None
    time: int
    observed: int
    severity: int
    severity_text: str
    name: str
    body: Any
    facts: Facts
    more: Facts
    origin: Origin


class Refused(NamedTuple):
    """One span or log record that could not be read, and why."""

    reason: str

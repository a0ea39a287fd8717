"""Reads the parameters of a query: filters, bounds and choices, each refused by name when it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request

from chatsnapshot.clock import timestamp_text
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.server.endpoints import Parameter
from chatsnapshot.server.problems import Problem

__all__ = [
    "FILTERS",
    "POSITION",
    "RUN",
    "TEXT",
    "TIME",
    "UNTIL",
    "choice",
    "filters",
    "flag",
    "moment",
    "number",
    "only",
]

_WHOLE = re.compile(r"[0-9]{1,16}", re.ASCII)
_ATTRIBUTE = "attribute."
_TYPES = r"[a-z][a-z0-9_]{0,60}(\.[a-z][a-z0-9_]{0,60}){0,2}\.([a-z][a-z0-9_]{0,60}|\*)"

TEXT: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 256,
    "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
}
"""An id or a name: no control characters."""
TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
POSITION: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}

UNTIL = Parameter(
    name="until",
    description="a position, or a time of recording: nothing after it is seen",
    schema={"anyOf": [POSITION, TIME]},
)
FILTERS = (
    Parameter(name="correlation_id", description="only events of this correlation", schema=TEXT),
    Parameter(
        name="event_type",
        description="types or prefixes such as execution.*, separated by commas",
        schema={"type": "string", "minLength": 1, "maxLength": 4_000, "pattern": f"^{_TYPES}(,{_TYPES})*$"},
    ),
    Parameter(
        name="origin",
        description="of this origin",
        schema={"type": "string", "enum": ["agent", "system", "ui", "integration"]},
    ),
    Parameter(name="runtime", description="of this runtime", schema=TEXT),
    Parameter(name="name", description="of the source with this name", schema=TEXT),
    Parameter(
        name="causation_id", description="caused by this event", schema={"type": "string", "format": "uuid"}
    ),
    Parameter(name="start", description="that happened at this time or later", schema=TIME),
    Parameter(name="end", description="that happened before this time", schema=TIME),
)
"""The filters of ``read``. Beside them stands ``attribute.KEY=VALUE``, which a list of names cannot hold."""

_NAMES = frozenset(one.name for one in FILTERS)


def only(request: Request, known: Iterable[str]) -> Mapping[str, str]:
    """The parameters, each given once; raises :class:`Problem` 400 for one that is not known."""
    found: dict[str, str] = {}
    allowed = frozenset(known)
    for name, value in request.query_params.multi_items():
        if name not in allowed and not (name.startswith(_ATTRIBUTE) and "correlation_id" in allowed):
            raise Problem(
                400,
                "parameter",
                f"there is no parameter {name[:80]!r} here; known are {', '.join(sorted(allowed)) or 'none'}",
                parameter=name[:80],
            )
        if name in found:
            raise _bad(name, "is given twice")
        found[name] = value
    return found


def filters(given: Mapping[str, str]) -> dict[str, Any]:
    """The filters among the parameters, as ``read`` takes them."""
    found: dict[str, Any] = {name: value for name, value in given.items() if name in _NAMES}
    if "event_type" in found:
        found["event_type"] = [one.strip() for one in found["event_type"].split(",")]
    attributes = {
        name[len(_ATTRIBUTE) :]: _value(value) for name, value in given.items() if name.startswith(_ATTRIBUTE)
    }
    if attributes:
        found["attributes"] = attributes
    return found


def _value(text: str) -> str | bool | int:
    """An attribute to look for: ``true``, ``false`` and whole numbers are such; in quotes they are text."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?[0-9]{1,16}", text, re.ASCII):
        return int(text)
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def number(given: Mapping[str, str], name: str, default: int, *, low: int = 0, high: int = 2**53 - 1) -> int:
    """A whole number between bounds."""
    text = given.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        raise _bad(name, f"is a whole number from {low:,} to {high:,}")
    return int(text)


def flag(given: Mapping[str, str], name: str, default: bool = False) -> bool:
    """``true`` or ``false``."""
    text = given.get(name)
    if text is None:
        return default
    if text not in ("true", "false"):
        raise _bad(name, "is true or false")
    return text == "true"


def choice(given: Mapping[str, str], name: str, known: tuple[str, ...]) -> str:
    """One of several words; the first is the default."""
    text = given.get(name, known[0])
    if text not in known:
        raise _bad(name, f"is one of {', '.join(known)}")
    return text


def moment(given: Mapping[str, str], name: str = "until") -> int | str | None:
    """A position or a time."""
    text = given.get(name)
    if text is None:
        return None
    if _WHOLE.fullmatch(text):
        return number(given, name, 0)
    try:
        return timestamp_text(text)
    except InvalidEvent:
        raise _bad(name, "is a position, or a time such as 2026-11-30T12:00:00Z") from None


def _bad(name: str, why: str) -> Problem:
    return Problem(400, "parameter", f"{name[:80]} {why}", parameter=name[:80])


RUN = Parameter(
    name="run", where="path", required=True, description="the id of a run, or its correlation", schema=TEXT
)

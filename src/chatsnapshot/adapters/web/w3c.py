"""The headers of the W3C: ``traceparent`` and ``tracestate`` (Trace Context), ``baggage`` (Baggage); read strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable

from chatsnapshot.adapters.web.header import Carried, encoded, made

__all__ = [
    "BAGGAGE",
    "TRACEPARENT",
    "TRACESTATE",
    "carried_in",
    "members",
    "traceparent",
    "tracestate",
    "with_ours",
]

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
BAGGAGE = "baggage"

TRACESTATE_CHARS_MAX = 1_024
TRACESTATE_MEMBERS_MAX = 32
BAGGAGE_BYTES_MAX = 8_192
BAGGAGE_MEMBERS_MAX = 64

_PREFIX = "chatsnapshot."
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_STATE = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MEMBER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*=[ \t]*([!#-+\--:<-\[\]-~]*)((?:[ \t]*;[ -+\--~]*)?)"
)
"""A key (a token), a value (baggage-octets), properties that are kept as they are."""


def traceparent(text: str) -> str | None:
    """The header when it is valid: version 00, or a later one that begins as it; else ``None``."""
    found = _TRACEPARENT.fullmatch(text.strip(" \t")) if len(text) <= 512 else None
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    if set(found[2]) == {"0"} or set(found[3]) == {"0"}:
        return None
    return found[0]


def tracestate(text: str) -> str | None:
    """The header when all of it is valid, else ``None``."""
    if not text or len(text) > TRACESTATE_CHARS_MAX:
        return None
    parts = [part.strip(" \t") for part in text.split(",")]
    kept = [part for part in parts if part]
    names = {part.partition("=")[0] for part in kept}
    if not kept or len(kept) > TRACESTATE_MEMBERS_MAX or len(names) < len(kept):
        return None
    return ",".join(kept) if all(_STATE.fullmatch(part) for part in kept) else None


def members(text: str) -> tuple[str, ...]:
    """The members of a ``baggage`` header; none of them when it is too large or one is malformed."""
    if len(text) > BAGGAGE_BYTES_MAX:
        return ()
    parts = [part.strip(" \t") for part in text.split(",")]
    kept = tuple(part for part in parts if part)
    if len(kept) > BAGGAGE_MEMBERS_MAX or not all(_MEMBER.fullmatch(part) for part in kept):
        return ()
    return kept


def carried_in(baggage: Iterable[str]) -> Carried | None:
    """What our own members say; ``None`` when they are not there, or there twice."""
    found: dict[str, str] = {}
    for member in baggage:
        match = _MEMBER.fullmatch(member)
        if match is None or not match[1].startswith(_PREFIX):
            continue
        name = match[1].removeprefix(_PREFIX)
        if name in found:
            return None
        found[name] = match[2]
    return made(found.get("correlation"), found.get("cause"), found.get("run"))


def with_ours(baggage: Iterable[str], carried: Carried | None) -> str | None:
    """The header: the members of others, then ours where there is room; ``None`` when it would be empty."""
    others = [member for member in baggage if not member.startswith(_PREFIX)]
    ours: list[str] = []
    if carried is not None:
        ours.append(f"{_PREFIX}correlation={encoded(carried.correlation_id)}")
        if carried.cause is not None:
            ours.append(f"{_PREFIX}cause={carried.cause}")
        if carried.run_id is not None:
            ours.append(f"{_PREFIX}run={encoded(carried.run_id)}")
    both = ",".join([*others, *ours])
    if len(both) > BAGGAGE_BYTES_MAX or len(others) + len(ours) > BAGGAGE_MEMBERS_MAX:
        both = ",".join(others)
    return both or None

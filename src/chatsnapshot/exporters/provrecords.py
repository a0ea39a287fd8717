"""The records of a PROV document as they are gathered: entities, activities, agents, and relations between them.

Source: the PROV-JSON serialization (W3C member submission, 24 April 2013), PROV-DM for what the records mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

__all__ = ["RELATIONS", "Records", "name", "qualified"]

RELATIONS: dict[str, tuple[str, str]] = {
    "used": ("prov:activity", "prov:entity"),
    "wasGeneratedBy": ("prov:entity", "prov:activity"),
    "wasInformedBy": ("prov:informed", "prov:informant"),
    "wasStartedBy": ("prov:activity", "prov:starter"),
    "wasAssociatedWith": ("prov:activity", "prov:agent"),
    "wasAttributedTo": ("prov:entity", "prov:agent"),
    "actedOnBehalfOf": ("prov:delegate", "prov:responsible"),
    "wasDerivedFrom": ("prov:generatedEntity", "prov:usedEntity"),
    "wasInfluencedBy": ("prov:influencee", "prov:influencer"),
    "specializationOf": ("prov:specificEntity", "prov:generalEntity"),
    "hadMember": ("prov:collection", "prov:entity"),
}
"""Relation to the keys of its two ends, in the order in which they are written."""

_ELEMENTS = ("entity", "activity", "agent")


def name(prefix: str, *parts: str) -> str:
    """A qualified name; what is no plain character in a part is percent-encoded, so that parts stay apart."""
    local = "/".join(quote(part.encode("utf-8", "surrogatepass"), safe="@+") for part in parts)
    # A local name may not end with a dot (PROV-N, section 3.7.1).
    return f"{prefix}:{local[:-1]}%2E" if local.endswith(".") else f"{prefix}:{local}"


def qualified(name: str) -> dict[str, str]:
    """A qualified name as the value of an attribute."""
    return {"$": name, "type": "prov:QUALIFIED_NAME"}


class Records:
    """Elements by name, and relations, each once, in the order in which they came."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = dict(prefixes)
        self._elements: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _ELEMENTS}
        self._relations: dict[str, dict[tuple[str | None, ...], dict[str, Any]]] = {
            kind: {} for kind in RELATIONS
        }

    def element(self, kind: str, name: str, **attributes: Any) -> str:
        """Add an entity, activity or agent, or attributes that it lacks; ``None`` is no attribute. Gives its name.

        ``__`` in a key stands for the colon: ``prov__label``.
        """
        held = self._elements[kind].setdefault(name, {})
        for key, value in attributes.items():
            if value is not None:
                held.setdefault(key.replace("__", ":"), value)
        return name

    def has(self, kind: str, name: str) -> bool:
        """Whether there is such an element."""
        return name in self._elements[kind]

    def relate(self, kind: str, one: str, other: str | None, **attributes: Any) -> None:
        """Add a relation from one to the other (``None``: to what is not known), unless it is there already."""
        ends = (one, other, attributes.get("prov__activity"))
        first, second = RELATIONS[kind]
        made: dict[str, Any] = {first: one}
        if other is not None:
            made[second] = other
        made |= {key.replace("__", ":"): value for key, value in attributes.items() if value is not None}
        self._relations[kind].setdefault(ends, made)

    def lines(self) -> Iterator[bytes]:
        """The document as PROV-JSON, a record a line."""
        yield b'{"prefix":' + msgspec.json.encode(self._prefixes)
        for kind in _ELEMENTS:
            yield from _section(kind, self._elements[kind])
        for kind, found in self._relations.items():
            yield from _section(kind, {f"_:{kind}{n}": made for n, made in enumerate(found.values(), 1)})
        yield b"\n}\n"


def _section(kind: str, records: Mapping[str, Mapping[str, Any]]) -> Iterator[bytes]:
    if not records:
        return
    before = f',\n"{kind}":{{\n'.encode()
    for name, record in records.items():
        yield before + msgspec.json.encode(name) + b":" + msgspec.json.encode(_valid(record))
        before = b",\n"
    yield b"\n}"


def _valid(value: Any) -> Any:
    """The value with text that is valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {key: _valid(one) for key, one in value.items()}
    return value

"""Channel values as typed bytes, part by part, so that a list that grew is stored as what came to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.errors import InvalidEvent

__all__ = ["Part", "Value", "changed", "dumped", "full", "join", "patched", "size", "split"]

Part = tuple[str, bytes]
"""One value as LangGraph's serializer gives it: type and bytes."""


class Value(NamedTuple):
    """A channel's value: a list by its items, a dict by its members, anything else in one part."""

    kind: str
    parts: tuple[Part, ...]
    keys: tuple[str, ...] = ()


def dumped(dumps: Callable[[Any], tuple[str, Any]], value: Any) -> Part:
    """A value's type and bytes; raises :class:`InvalidEvent` for pickled ones, which nothing here ever loads."""
    kind, data = dumps(value)
    if kind == "pickle":
        raise InvalidEvent(
            f"a {type(value).__name__} in the state would be pickled, and checkpoints in a ledger never are; keep values "
            "that JsonPlusSerializer knows in the state, without pickle_fallback"
        )
    return kind, bytes(data)


def split(value: Any, dumps: Callable[[Any], tuple[str, Any]]) -> Value:
    """The parts of a value. Lists and dicts with text keys are taken apart one level deep."""
    if type(value) is list:
        return Value("list", tuple(dumped(dumps, item) for item in value))
    if type(value) is dict and all(type(key) is str for key in value):
        return Value("dict", tuple(dumped(dumps, item) for item in value.values()), tuple(value))
    return Value("one", (dumped(dumps, value),))


def join(value: Value, loads: Callable[[Part], Any]) -> Any:
    """The value of these parts, made anew."""
    if value.kind == "list":
        return [loads(part) for part in value.parts]
    if value.kind == "dict":
        return {key: loads(part) for key, part in zip(value.keys, value.parts, strict=True)}
    return loads(value.parts[0])


def size(value: Value) -> int:
    """Bytes of all parts, and what they cost beside."""
    return sum(len(data) + 100 for _, data in value.parts) + sum(map(len, value.keys))


def full(value: Value) -> dict[str, Any]:
    """A value as a payload holds it whole."""
    made: dict[str, Any] = {"kind": value.kind, "parts": [list(part) for part in value.parts]}
    if value.kind == "dict":
        made["keys"] = list(value.keys)
    return made


def changed(value: Value, base: Value) -> dict[str, Any] | None:
    """What leads from ``base`` to ``value``, as a payload holds it; ``None`` where that saves nothing."""
    if value.kind != base.kind:
        return None
    if value.kind == "dict":
        return _changed_dict(value, base)
    new, old = value.parts, base.parts
    skip = 0
    if new and old and new[0] != old[0] and value.kind == "list":
        # A window that moved on: what is in front of the new beginning was dropped.
        skip = next((place for place, part in enumerate(old) if part == new[0]), 0)
    keep = 0
    while keep < len(new) and skip + keep < len(old) and new[keep] == old[skip + keep]:
        keep += 1
    tail = 0
    while tail < min(len(new) - keep, len(old) - skip - keep) and new[-1 - tail] == old[-1 - tail]:
        tail += 1
    if not keep and not tail and (new or old):
        return None
    made: dict[str, Any] = {"kind": value.kind, "keep": keep}
    if skip:
        made["skip"] = skip
    if tail:
        made["tail"] = tail
    made["parts"] = [list(part) for part in new[keep : len(new) - tail]]
    return made


def _changed_dict(value: Value, base: Value) -> dict[str, Any] | None:
    old = dict(zip(base.keys, base.parts, strict=True))
    gone = [key for key in base.keys if key not in set(value.keys)]
    stays = [key for key in base.keys if key in set(value.keys)]
    if list(value.keys[: len(stays)]) != stays or (not stays and (value.keys or base.keys)):
        return None
    new = [(key, part) for key, part in zip(value.keys, value.parts, strict=True) if old.get(key) != part]
    made: dict[str, Any] = {"kind": "dict", "keys": [key for key, _ in new]}
    made["parts"] = [list(part) for _, part in new]
    if gone:
        made["gone"] = gone
    return made


def patched(stored: Mapping[str, Any], base: Value | None) -> Value:
    """The value that a payload holds, on top of its base where it has one."""
    parts = tuple((str(kind), bytes(data)) for kind, data in stored["parts"])
    kind = stored["kind"]
    if base is None:
        return Value(kind, parts, tuple(stored.get("keys", ())))
    if kind == "dict":
        members = dict(zip(base.keys, base.parts, strict=True))
        for key in stored.get("gone", ()):
            members.pop(key, None)
        members.update(zip(stored["keys"], parts, strict=True))
        return Value("dict", tuple(members.values()), tuple(members))
    skip, tail = stored.get("skip", 0), stored.get("tail", 0)
    begin = base.parts[skip : skip + stored["keep"]]
    return Value(kind, (*begin, *parts, *(base.parts[len(base.parts) - tail :] if tail else ())))

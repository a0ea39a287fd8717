"""Owns ``decode``: stored JSON back to Python values, where that is safe."""

from __future__ import annotations

import base64
import datetime
import struct
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID

from chatsnapshot.errors import NotFound
from chatsnapshot.jsonvalue.blobs import JSON, BlobRef, is_ref, read_blob
from chatsnapshot.jsonvalue.foreign import BLOCK_FORMATS
from chatsnapshot.jsonvalue.rebuild import parse, rebuild, unescaped

__all__ = ["decode"]


_DOLLAR = ord("$")


def decode(stored: Any, *, blob: Callable[[Mapping[str, Any]], bytes] | None = None) -> Any:
    """Python values of a stored payload (bytes, or JSON already decoded, which is not changed).

    ``blob`` gives the bytes of a reference; without it, or where it raises :class:`NotFound`, a
    :class:`BlobRef` stands in. Tags that are unknown or malformed read as the objects that they are.
    No class is imported by a name from the data.

    Raises :class:`Corrupt` when bytes are not JSON.
    """
    tree = parse(stored)
    if type(stored) is bytes and _DOLLAR not in stored:
        return tree

    def fetch(ref: dict[str, Any]) -> Any:
        if blob is None:
            return BlobRef(ref)
        try:
            data = blob(ref)
        except NotFound:
            return BlobRef(ref)
        try:
            return read_blob(ref, data)
        except UnicodeError:
            return data

    if blob is not None and type(tree) is dict and is_ref(tree) and tree.get("media_type") == JSON:
        try:
            tree = parse(blob(tree))
        except NotFound:
            return BlobRef(tree)
    return rebuild(tree, _revive, fetch)


def _revive(node: dict[str, Any]) -> Any:
    name = node.get("$type")
    if name is None:
        cls = node.get("$class")
        if type(cls) is str:
            node = {key: child for key, child in node.items() if key != "$class"}
        return unescaped(node)
    rule = _RULES.get(name) if type(name) is str else None
    if rule is None:
        return node
    try:
        return rule(node)
    except Exception:  # a forged tag is data
        return node


def _map(node: dict[str, Any]) -> Any:
    pairs = [(key, child) for key, child in node["value"]]
    try:
        found = dict(pairs)
    except TypeError:
        return pairs
    return found if len(found) == len(pairs) else pairs


def _set(node: dict[str, Any]) -> Any:
    members = _list(node)
    try:
        return set(members)
    except TypeError:
        return members


def _frozenset(node: dict[str, Any]) -> Any:
    found = _set(node)
    return frozenset(found) if type(found) is set else found


def _list(node: dict[str, Any]) -> list[Any]:
    value = node["value"]
    if type(value) is not list:
        raise TypeError("no list")
    return value


def _text(node: dict[str, Any]) -> str:
    value = node["value"]
    if type(value) is not str:
        raise TypeError("no text")
    return value


def _surrogates(node: dict[str, Any]) -> str:
    text = list(_text(node))
    for at, code in node["surrogates"]:
        if text[at] != "\ufffd" or not 0xD800 <= code <= 0xDFFF:
            raise ValueError("no surrogate stood there")
        text[at] = chr(code)
    return "".join(text)


def _float(node: dict[str, Any]) -> float:
    return {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}[_text(node)]


def _datetime(node: dict[str, Any]) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(_text(node))
    found = found.replace(fold=int(node.get("fold") == 1))
    key = node.get("zone")
    if type(key) is not str:
        return found
    try:
        from zoneinfo import ZoneInfo

        local = found.replace(tzinfo=ZoneInfo(key))
    except Exception:  # not known on this machine: the offset says the same instant
        return found
    return local if local.utcoffset() == found.utcoffset() else found


def _path(node: dict[str, Any]) -> PurePath:
    return PureWindowsPath(_text(node)) if node.get("flavour") == "windows" else PurePosixPath(_text(node))


def _seconds(text: str) -> datetime.timedelta:
    return datetime.timedelta(microseconds=int(Decimal(text) * 1_000_000))


def _timezone(node: dict[str, Any]) -> datetime.timezone:
    offset = _seconds(node["seconds"])
    unnamed = datetime.timezone(offset)
    name = _text(node)
    return unnamed if unnamed.tzname(None) == name else datetime.timezone(offset, name)


def _zone(node: dict[str, Any]) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(_text(node))


def _ip(node: dict[str, Any]) -> Any:
    import ipaddress

    rules: dict[str, Callable[[str], Any]] = {
        "IPv4Address": ipaddress.IPv4Address,
        "IPv6Address": ipaddress.IPv6Address,
        "IPv4Network": ipaddress.IPv4Network,
        "IPv6Network": ipaddress.IPv6Network,
        "IPv4Interface": ipaddress.IPv4Interface,
        "IPv6Interface": ipaddress.IPv6Interface,
    }
    return rules[node["class"]](_text(node))


def _array(node: dict[str, Any]) -> Any:
    value = node["value"]
    if type(value) is not bytes:
        return value if not isinstance(value, dict | BlobRef) else node
    code = BLOCK_FORMATS[node["dtype"]]
    numbers: list[Any] = [*struct.unpack(f"<{len(value) // struct.calcsize(code)}{code}", value)]
    for size in reversed(node["shape"][1:]):
        numbers = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return numbers if len(numbers) == node["shape"][0] else node


def _fields(node: dict[str, Any]) -> dict[str, Any]:
    return {key: child for key, child in node.items() if key != "$type"}


_RULES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "array": _array,
    "bytes": lambda node: base64.b64decode(_text(node), validate=True),
    "complex": lambda node: complex(*_list(node)),
    "dataframe": _fields,
    "date": lambda node: datetime.date.fromisoformat(_text(node)),
    "datetime": _datetime,
    "decimal": lambda node: Decimal(_text(node)),
    "deque": lambda node: deque(_list(node), node["maxlen"]),
    "enum": lambda node: node["value"],
    "exception": _fields,
    "float": _float,
    "fraction": lambda node: Fraction(*_list(node)),
    "frozenset": _frozenset,
    "int": lambda node: int(_text(node), 16 if "x" in _text(node) else 10),
    "ip": _ip,
    "map": _map,
    "missing": lambda node: None,
    "path": _path,
    "range": lambda node: range(*_list(node)),
    "series": _fields,
    "set": _set,
    "str": _surrogates,
    "table": lambda node: node["value"],
    "time": lambda node: datetime.time.fromisoformat(_text(node)).replace(fold=int(node.get("fold") == 1)),
    "timedelta": lambda node: _seconds(_text(node)),
    "timezone": _timezone,
    "tuple": lambda node: tuple(_list(node)),
    "uuid": lambda node: UUID(_text(node)),
    "zone": _zone,
}

"""Owns ``plain``: stored JSON as JSON for people, with tags turned into readable text and numbers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.jsonvalue.decode import _DOLLAR, _seconds
from chatsnapshot.jsonvalue.rebuild import parse, rebuild, unescaped

__all__ = ["plain"]


def plain(stored: Any) -> Any:
    """Display JSON of a stored payload or of a part of it (bytes, or decoded JSON, which is not changed).

    Gives only dict, list, str, int, float, bool and None, for transcripts and pages; it does not read back.
    Tags that are unknown or malformed stay as they are. Raises :class:`Corrupt` when bytes are not JSON.
    """
    tree = parse(stored)
    return tree if type(stored) is bytes and _DOLLAR not in stored else rebuild(tree, _revive, _blob)


def _revive(node: dict[str, Any]) -> Any:
    name = node.get("$type")
    if name is None:
        return unescaped({key: child for key, child in node.items() if key != "$class"})
    rule = _RULES.get(name) if type(name) is str else None
    if rule is None:
        return node
    try:
        return rule(node)
    except Exception:  # a forged tag is data
        return node


def _blob(ref: dict[str, Any]) -> str:
    size = ref.get("bytes")
    shown = f"{size:,} bytes" if type(size) is int else "size unknown"
    return f"<{ref.get('media_type', 'blob')}, {shown}, {ref['$blob'][:19]}…>"


def _value(node: dict[str, Any]) -> Any:
    return node["value"]


def _text(node: dict[str, Any]) -> str:
    return str(node["value"])


def _map(node: dict[str, Any]) -> Any:
    pairs = [(key if type(key) is str else _key(key), child) for key, child in node["value"]]
    found = dict(pairs)
    return found if len(found) == len(pairs) else [[key, child] for key, child in node["value"]]


def _key(key: Any) -> str:
    return msgspec.json.encode(key).decode()


def _complex(node: dict[str, Any]) -> str:
    real, imaginary = node["value"]
    return f"{real} + {imaginary}j" if str in (type(real), type(imaginary)) else str(complex(real, imaginary))


def _range(node: dict[str, Any]) -> str:
    start, stop, step = node["value"]
    return f"range({start}, {stop})" if step == 1 else f"range({start}, {stop}, {step})"


def _bytes(node: dict[str, Any]) -> str:
    text = str(node["value"])
    size = len(text) * 3 // 4 - text.count("=")
    return f"<{size:,} byte{'' if size == 1 else 's'}>"


def _duration(node: dict[str, Any]) -> str:
    found: datetime.timedelta = _seconds(node["value"])
    return f"-{-found}" if found < datetime.timedelta(0) else str(found)


def _exception(node: dict[str, Any]) -> str:
    return f"{node['class']}: {node['message']}" if node["message"] else str(node["class"])


def _cut(node: dict[str, Any]) -> str:
    size = node.get("bytes", node.get("count"))
    unit = "bytes" if "bytes" in node else "values"
    return f"<cut: {node['kind']}{f', {size:,} {unit}' if type(size) is int else ''}>"


def _rows(node: dict[str, Any]) -> dict[str, Any]:
    return {"columns": node["columns"], "index": node["index"], "rows": node["value"]}


_RULES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "array": _value,
    "bytes": _bytes,
    "class": lambda node: f"<class {node['value']}>",
    "complex": _complex,
    "cut": _cut,
    "cycle": lambda node: f"<cycle: {node['class']}>",
    "dataframe": _rows,
    "date": _text,
    "datetime": _text,
    "decimal": _text,
    "deque": _value,
    "enum": _value,
    "exception": _exception,
    "float": _text,
    "fraction": lambda node: f"{node['value'][0]}/{node['value'][1]}",
    "frozenset": _value,
    "function": lambda node: f"<function {node['value']}>",
    "int": _text,
    "ip": _text,
    "map": _map,
    "missing": lambda node: None,
    "module": lambda node: f"<module {node['value']}>",
    "object": lambda node: str(node["repr"]),
    "path": _text,
    "range": _range,
    "regex": _value,
    "series": lambda node: {"name": node["name"], "index": node["index"], "values": node["value"]},
    "set": _value,
    "str": _text,
    "table": _value,
    "time": _text,
    "timedelta": _duration,
    "timezone": _text,
    "tuple": _value,
    "uuid": _text,
    "zone": _text,
}

"""Plain data out of live objects: agents, callables and exceptions become names, models become their fields.

Adapters hand only such data on. Values for which the payload encoder has a written rule (dates, UUID,
Decimal, bytes, enums, paths) pass through as they are; everything else is described, never kept.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import pathlib
import re
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["describe_error", "header_text", "plain", "type_name"]

_SCALARS = (type(None), bool, int, float, str)
_EXACT = frozenset(_SCALARS)
_VALUES = (
    bytes,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
    pathlib.PurePath,
    enum.Enum,
)
_DEPTH_MAX = 40
_TEXT_CHARS_MAX = 300
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def type_name(value: object) -> str:
    """The qualified class name, as in ``ag2.events.types.ModelResponse``."""
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def header_text(value: object, chars_max: int = 256) -> str | None:
    """A name or id as an envelope's header may hold it; ``None`` when nothing is left.

    Lone surrogates and control characters are replaced, what is too long is cut.
    """
    try:
        text = str(value).encode("utf-8", "replace").decode()
    except Exception:
        return None
    return _CONTROL.sub("?", unicodedata.normalize("NFC", text))[:chars_max] or None


def describe_error(error: BaseException) -> dict[str, Any]:
    """An exception as ``{"type", "module", "message"}``, with ``cause`` where one was given; never raises."""
    return _error(error, depth=0)


def plain(value: Any) -> Any:
    """A copy of ``value`` that holds no live object; never raises.

    Mappings, sequences and sets become dicts and lists; pydantic models, dataclasses, structs and other
    objects that declare fields become dicts of them; exceptions become ``{"type", "module", "message"}``;
    callables and classes become their qualified name; an object with a ``name`` becomes that name; anything
    else becomes ``{"object": class, "text": repr}``, cut and without memory addresses.
    """
    return _plain(value, 0, ())


def _plain(value: Any, depth: int, path: tuple[int, ...]) -> Any:
    kind = type(value)
    if kind in _EXACT:
        return value
    try:
        if kind is dict or kind is list:  # most of what there is, and looked at no further
            return _within(value, depth, path)
        if isinstance(value, (*_SCALARS, *_VALUES)):
            return value
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, BaseException):
            return _error(value, depth)
        if isinstance(value, type):
            return type_name(value)
        return _within(value, depth, path)
    except Exception:
        return _described(value)


def _within(value: Any, depth: int, path: tuple[int, ...]) -> Any:
    if depth >= _DEPTH_MAX or id(value) in path:
        return _described(value)
    deeper = depth + 1
    within = (*path, id(value))
    if type(value) is dict or isinstance(value, Mapping):
        return {_key(key): _plain(item, deeper, within) for key, item in list(value.items())}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, deeper, within) for item in list(value)]
    if (fields := _fields(value)) is not None:
        return {name: _plain(item, deeper, within) for name, item in fields}
    return _named(value)


def _key(key: Any) -> Any:
    return (
        key
        if type(key) is str or isinstance(key, (*_SCALARS, uuid.UUID, datetime.date, enum.Enum))
        else _text(key)
    )


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """The declared fields of a model-like object, read by attribute: a dump can fail or lose values."""
    kind = type(value)
    names: Iterator[str] | None = None
    if isinstance(declared := getattr(kind, "model_fields", None), Mapping):
        names = iter(declared)
    elif dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
    elif isinstance(declared := getattr(kind, "__struct_fields__", None), tuple):
        names = iter(declared)
    elif hasattr(kind, "_event_fields_") or type(kind).__name__ == "EventMeta":
        names = iter([name for name in vars(value) if not name.startswith("_")])
    if names is None:
        return None
    return [(name, getattr(value, name, None)) for name in names]


def _named(value: Any) -> Any:
    if callable(value) and (name := getattr(value, "__qualname__", None)):
        return f"{getattr(value, '__module__', None) or '?'}.{name}"
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else _described(value)


def _described(value: Any) -> dict[str, str]:
    return {"object": type_name(value), "text": _text(value)}


def _text(value: Any) -> str:
    try:
        return _ADDRESS.sub("", repr(value))[:_TEXT_CHARS_MAX]
    except Exception:
        return f"<{type_name(value)}>"


def _error(error: BaseException, depth: int) -> dict[str, Any]:
    kind = type(error)
    try:
        message = _ADDRESS.sub("", str(error))
    except Exception:
        message = ""
    out: dict[str, Any] = {"type": kind.__qualname__, "module": kind.__module__, "message": message}
    if error.__cause__ is not None and depth < 5:
        out["cause"] = _error(error.__cause__, depth + 1)
    return out

"""Tolerant reading of single payload fields: a name, an id, a text, a failure; nothing here raises."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.jsonvalue import plain

__all__ = [
    "error_text",
    "failed",
    "first",
    "ident",
    "items",
    "loads",
    "name_of",
    "payload_of",
    "placeholder",
    "readable",
]
__all__ += ["strings", "text_of", "whole"]

_INT64 = 2**63
_DEPTH_MAX = 80
_TOO_DEEP = "[nested too deeply to show]"
_FAILURES = frozenset({"error", "errored", "failed", "failure", "exception"})
_FAILURE_KEYS = frozenset({"is_error", "error", "success", "ok", "is_exec_success", "status"})
_SIMPLE_DEPTH_MAX = 20


def payload_of(entry: LedgerEntry) -> Mapping[str, Any]:
    """The payload as an object; a stored payload that is none, or no JSON at all, is wrapped and shown as it is."""
    try:
        payload = entry.payload
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = entry.payload_json or b""
        return {"value": raw.decode("utf-8", "replace")}
    return payload if isinstance(payload, dict) else {"value": payload}


def first(payload: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first of ``keys`` that is there and not null."""
    for key in keys:
        value = payload.get(key)
        if value is not None:
            return value
    return None


def ident(value: Any) -> str | None:
    """An id or a name as text: text, integers and tagged values that read as such; else, and when empty, ``None``."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping) and "$type" in value:
        # A UUID, an enum member, a path.
        shown = readable(value)
        return None if isinstance(shown, Mapping) else ident(shown)
    return None


def name_of(value: Any) -> str | None:
    """The name of someone or something: a text, or the ``name`` of an object."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, Mapping) and "$type" not in value:
        return ident(first(value, "name", "agent_name", "id"))
    return ident(value)


def whole(value: Any) -> int | None:
    """A count or a number of nanoseconds, where it is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _INT64 else None
    return value if abs(value) < _INT64 else None


def items(value: Any) -> list[Any] | None:
    """A list, also one that was given as a tuple or a set; ``None`` for anything else."""
    if isinstance(value, Mapping) and "$type" in value:
        value = readable(value)
    return value if isinstance(value, list) else None


def strings(value: Any) -> tuple[str, ...]:
    """Labels: a list of texts, one text, or an object as ``key=value``."""
    found = items(value)
    value = value if found is None else found
    if isinstance(value, Mapping):
        return tuple(f"{key}={text_of(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(text_of(item) for item in value if item is not None)
    return () if value is None else (text_of(value),)


def readable(value: Any) -> Any:
    """A stored JSON value as JSON that people read: tags as their values, numbers that any JSON reader can hold.

    A value that reads so already is given back itself.
    """
    if _simple(value, 0):
        return value
    try:
        return _bounded(plain(value), 0)
    except RecursionError:
        return _TOO_DEEP


def _simple(value: Any, depth: int) -> bool:
    """Whether a value is plain JSON, without tags and without numbers that some readers cannot hold."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-_INT64 <= value < 2 * _INT64)
    if kind is float:
        return bool(value - value == 0)
    if depth == _SIMPLE_DEPTH_MAX:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or key[:1] == "$" or not _simple(item, depth + 1):
                return False
        return True
    if kind is list:
        return all(_simple(item, depth + 1) for item in value)
    return False


def _bounded(value: Any, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        return _TOO_DEEP
    if isinstance(value, dict):
        return {str(key): _bounded(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_bounded(item, depth + 1) for item in value]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < 2 * _INT64 else str(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return str(value)


def placeholder(value: Any) -> str | None:
    """What to show for a value that is elsewhere or gone: ``[erased]``, ``<image/png, 1,024 bytes, sha256:…>``."""
    # Asking whether something is a mapping costs more than all else here.
    if type(value) is not dict and (
        value is None or isinstance(value, str) or not isinstance(value, Mapping)
    ):
        return None
    if "$erased" in value:
        return "[erased]"
    if "$withheld" in value:
        return f"[withheld: {value['$withheld']}]"
    return str(readable(value)) if "$blob" in value else None


def text_of(value: Any) -> str:
    """Any stored value as text: text as it is, nothing as the empty text, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    there = placeholder(value)
    if there is not None:
        return there
    shown = readable(value)
    if isinstance(shown, str):
        return shown
    return json.dumps(shown, ensure_ascii=False, separators=(", ", ": "))


def loads(value: Any) -> Any:
    """A value that a provider wrote as JSON text (tool arguments): read where it is an object or array, else as is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def error_text(value: Any) -> str | None:
    """A failure in one text: ``ValueError: no such city``; ``None`` for no failure."""
    if value is None or value is False or value in ("", {}, []):
        return None
    if value is True:
        return "failed"
    if isinstance(value, Mapping) and "$type" not in value and placeholder(value) is None:
        kind = ident(first(value, "type", "name", "code", "class"))
        message = text_of(first(value, "message", "msg", "detail", "error", "text"))
        if message:
            return f"{kind}: {message}" if kind and not message.startswith(kind) else message
        if kind and "message" in value:
            return kind  # an exception that says nothing: KeyboardInterrupt, TimeoutError, a bare assert
    return text_of(value) or "failed"


def failed(payload: Mapping[str, Any]) -> bool:
    """Whether a payload says that something went wrong: a flag, an error, a status."""
    if _FAILURE_KEYS.isdisjoint(payload):
        return False
    for flag in ("is_error", "error"):
        if payload.get(flag) not in (None, False, "", {}, []):
            return True
    if any(payload.get(flag) is False for flag in ("success", "ok", "is_exec_success")):
        return True
    status = payload.get("status")
    if isinstance(status, Mapping):
        status = readable(status)
    if isinstance(status, str):
        return status.lower() in _FAILURES
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599


def merged(payload: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The payload with the fields of the objects under ``keys`` beside its own; the inner ones win."""
    out: dict[str, Any] | None = None
    for key in keys:
        inner = payload.get(key)
        # Asking a text whether it is a mapping costs more than all else here.
        if inner is None or type(inner) is str or not isinstance(inner, Mapping):
            continue
        if placeholder(inner) is None:
            out = dict(payload) if out is None else out
            out.update((name, value) for name, value in inner.items() if value is not None)
    return payload if out is None else out


def known(payload: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """Whether the payload has any of ``keys``."""
    return any(key in payload for key in keys)

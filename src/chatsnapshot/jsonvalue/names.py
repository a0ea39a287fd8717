"""Owns safe facts about foreign objects: class names, reprs without addresses, lookups that run no code."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["class_name", "lookup", "mro", "safe_repr", "scrub", "short_error"]

REPR_CHARS_MAX = 1_000

_mro = type.__dict__["__mro__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
_members = type.__dict__["__dict__"].__get__

_ADDRESS = re.compile(r"(?: at)? 0x[0-9a-fA-F]{4,}\b| id=(['\"]?)\d{6,}\1")
_LONG_HEX = re.compile(r"\b0x[0-9a-fA-F]{8,}\b")
_SURROGATE = re.compile("[\ud800-\udfff]")


def mro(cls: type) -> tuple[type, ...]:
    """The class and its bases, from the type itself: no metaclass can answer in its place."""
    return _mro(cls)  # type: ignore[no-any-return]


def lookup(cls: type, name: str) -> Any:
    """What a class or a base holds under ``name``, unbound; ``None`` when nothing. Runs no descriptor."""
    for base in _mro(cls):
        members = _members(base)
        if name in members:
            return members[name]
    return None


def module_name(cls: type) -> str:
    """The module that a class says it is from; empty when it says something else than text."""
    module = _module(cls)
    return module if type(module) is str else ""


def class_name(cls: type) -> str:
    """``module.Class``, or ``Class`` for builtins."""
    name = clean(_qualname(cls))
    module = clean(module_name(cls))
    return name if module in ("builtins", "") else f"{module}.{name}"


def clean(text: str) -> str:
    """Exact, valid Unicode text of bounded length."""
    return _SURROGATE.sub("\ufffd", str.__str__(text))[:REPR_CHARS_MAX]


def scrub(text: str) -> str:
    """The text without memory addresses."""
    return _LONG_HEX.sub("0x…", _ADDRESS.sub("", text))


def safe_repr(value: Any) -> str:
    """The object's repr without memory addresses, at most 1,000 characters; never raises an ``Exception``."""
    try:
        text = repr(value)
    except Exception as error:
        return f"<{class_name(type(value))}: repr raised {class_name(type(error))}>"
    if len(text) > 20 * REPR_CHARS_MAX:
        text = str.__getitem__(text, slice(20 * REPR_CHARS_MAX))
    text = _SURROGATE.sub("\ufffd", scrub(str.__str__(text)))
    return text if len(text) <= REPR_CHARS_MAX else text[: REPR_CHARS_MAX - 1] + "…"


def short_error(error: BaseException) -> str:
    """The class of an error: its message may hold anything, and to ask for it may run anything."""
    return class_name(type(error))

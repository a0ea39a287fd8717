"""Owns the fast path: tells in about a microsecond that a small payload is plain JSON already."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["INT_MAX", "INT_MIN", "VALUES_MAX", "text_size", "values_left"]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
"""Integers within 64 bits are written as JSON numbers."""

VALUES_MAX = 200_000
"""Values that the fast path looks at; with more a payload takes the walk, to the same bytes."""


def values_left(box: Any, depth: int, room: int) -> int:
    """How much of ``room`` (a count of values) is left after ``box``; negative when it is not plain JSON.

    Plain means: exact builtin types, string keys, finite floats, 64-bit integers, nested at most ``depth`` deep.
    Lone surrogates, keys with ``$`` and the length of strings are not looked at. ``room`` bounds
    the time for structures that hold one object many times.
    """
    room -= len(box)
    if room < 0 or depth <= 0:
        return -1
    if type(box) is dict:
        for key in box:
            if type(key) is not str:
                return -1
        box = box.values()
    for value in box:
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
                return -1
        elif kind is dict or kind is list:
            room = values_left(value, depth - 1, room)
            if room < 0:
                return -1
        elif kind is float:
            if value - value != 0.0:  # NaN and the infinities
                return -1
        elif kind is not bool and value is not None:
            return -1
    return room


def text_size(box: Any, text_max: int) -> int:
    """Characters of all text in plain ``box``; negative for a longer string or a key that begins with ``$``."""
    size = 0
    if type(box) is dict:
        for key in box:
            if key[:1] == "$":
                return -1
            size += len(key)
        box = box.values()
    for value in box:
        kind = type(value)
        if kind is str:
            length = len(value)
            if length > text_max:
                return -1
            size += length
        elif kind is dict or kind is list:
            inner = text_size(value, text_max)
            if inner < 0:
                return -1
            size += inner
    return size


def has_dollar_key(box: Any) -> bool:
    """Whether a key in plain ``box`` begins with ``$``."""
    return text_size(box, sys.maxsize) < 0

"""Owns ``nested_deeper``: how deep JSON goes, asked without recursion, so that every Python answers the same."""

from __future__ import annotations

from typing import Any

__all__ = ["nested_deeper"]


def nested_deeper(json: bytes, value: Any, depth: int) -> bool:
    """Whether ``value``, which was read from ``json``, has boxes within boxes beyond ``depth``."""
    if json.count(b"[") + json.count(b"{") <= depth:
        return False
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        below: list[Any] = []
        for box in level:
            inside = box.values() if type(box) is dict else box
            below += [item for item in inside if type(item) is dict or type(item) is list]
        level = below
    return bool(level)

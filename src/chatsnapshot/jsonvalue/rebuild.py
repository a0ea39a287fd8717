"""Owns the way back through stored JSON: from the leaves up, without recursion, on a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from chatsnapshot.errors import Corrupt
from chatsnapshot.jsonvalue.blobs import is_ref

Revive = Callable[[dict[str, Any]], Any]

__all__ = ["parse", "rebuild", "unescaped"]

_NOTHING = object()


def parse(stored: Any) -> Any:
    """Stored JSON as values; bytes are decoded, anything else is taken as decoded JSON.

    Raises :class:`Corrupt` when bytes are not JSON.
    """
    if not isinstance(stored, bytes | bytearray | memoryview):
        return stored
    try:
        return msgspec.json.decode(stored)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Corrupt(
            f"the stored payload is not JSON ({error}); run verify to see what else is damaged"
        ) from None


def rebuild(tree: Any, revive: Revive, fetch: Revive) -> Any:
    """A copy of ``tree`` in which each object with ``$`` keys is what ``revive`` makes of it, insides first.

    ``fetch`` stands in for blob references. A ``$json`` string is opened; one that is not JSON stays.
    """
    top = [tree]
    stack: list[tuple[Any, Any, Any]] = [(top, 0, tree)]
    marked: list[tuple[Any, Any]] = []
    while stack:
        holder, slot, node = stack.pop()
        if type(node) is list:
            holder[slot] = box = list(node)
            stack.extend((box, at, child) for at, child in enumerate(box) if type(child) in (dict, list))
        elif type(node) is dict:
            inner = _opened(node)
            if inner is not _NOTHING:
                holder[slot] = inner
                stack.append((holder, slot, inner))
            elif "$blob" in node and is_ref(node):
                holder[slot] = fetch(node)
            else:
                holder[slot] = copy = dict(node)
                if any(type(key) is str and key[:1] == "$" for key in copy):
                    marked.append((holder, slot))
                stack.extend((copy, key, child) for key, child in copy.items() if type(child) in (dict, list))
    for holder, slot in reversed(marked):
        holder[slot] = revive(holder[slot])
    return top[0]


def _opened(node: dict[str, Any]) -> Any:
    text = node.get("$json")
    if len(node) != 1 or type(text) is not str:
        return _NOTHING
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING


def unescaped(node: dict[str, Any]) -> dict[str, Any]:
    """An object with the caller's own ``$`` keys as they were; as it is when two keys would become one."""
    out = {key[1:] if type(key) is str and key[:2] == "$$" else key: child for key, child in node.items()}
    return out if len(out) == len(node) else node

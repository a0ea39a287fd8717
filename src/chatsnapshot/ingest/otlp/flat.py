"""Puts flattened attributes together again: ``llm.input_messages.0.message.role`` is a list of objects."""

from __future__ import annotations

from typing import Any

__all__ = ["taken_list"]

_DIGITS_MAX = 5
"""A longer number is no index."""

Facts = dict[str, Any]


def taken_list(facts: Facts, prefix: str) -> list[Any]:
    """The list that attributes ``prefix.N.…`` flatten, taken out of ``facts``; empty where there are none."""
    start = prefix + "."
    names = [
        name for name in facts if name.startswith(start) and _index(name[len(start) :].partition(".")[0])
    ]
    if not names:
        return []
    root: Facts = {}
    for name in names:
        _put(root, name[len(start) :].split("."), facts.pop(name))
    made = _listed(root)
    return made if isinstance(made, list) else [made]


def _put(box: Facts, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        inner = box.get(step)
        if type(inner) is not _Node:
            inner = box[step] = _Node()
        box = inner
    # ``message.content`` beside ``message.content.x``: the deeper one stays, neither happens in practice.
    box.setdefault(path[-1], value)


class _Node(dict[str, Any]):
    """An object that was made here, not an attribute's own value."""


def _listed(box: Facts) -> Any:
    """Objects whose keys are all indices, as lists in the order of the indices."""
    made = {key: _listed(value) if type(value) is _Node else value for key, value in box.items()}
    if made and all(_index(key) for key in made):
        return [made[key] for key in sorted(made, key=int)]
    return made


def _index(text: str) -> bool:
    return 0 < len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit()

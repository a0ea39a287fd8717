"""How a stored payload is held against a schema: as stored, and with its tags read as values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.events.fitting import Check, Misfit, json_path

__all__ = ["is_elsewhere", "misfit_of"]

_ELSEWHERE = ("$blob", "$withheld", "$erased", "$json")
_STAND_INS: tuple[Any, ...] = ("", {}, [], 0, None, True)
"""What a value that is elsewhere might be."""


def is_elsewhere(payload_json: bytes) -> bool:
    """Whether the whole payload is one mark: in a blob, in one JSON string, withheld or erased."""
    return payload_json.startswith((b'{"$blob"', b'{"$json"', b'{"$withheld"', b'{"$erased"'))


def misfit_of(check: Check, payload_json: bytes) -> Misfit | None:
    """What does not fit, or ``None``; never raises.

    A payload fits as it is stored, as ``entry.value()`` reads it, or as it is shown to people: a schema may speak of a
    decimal as number or text. A value that is elsewhere (a blob, withheld) fits wherever it stands.
    """
    try:
        value = msgspec.json.decode(payload_json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Misfit("$", "the payload is no JSON")
    if not isinstance(value, dict):
        return Misfit("$", "the payload is no object")
    if any(mark in value for mark in _ELSEWHERE):
        return None
    found = _problem(check, value)
    if found is None or b'"$' not in payload_json:
        return found
    try:
        return _with_tags_read(check, value, found)
    except RecursionError:
        return Misfit("$", "nested too deeply")


def _with_tags_read(check: Check, value: dict[str, Any], found: Misfit) -> Misfit | None:
    """What does not fit once tags are read as values, and some value stands in for each that is elsewhere."""
    hidden = [json_path(place) for place in _hidden(value, ())]
    blamed: Misfit | None = None
    for stand_in in _STAND_INS if hidden else _STAND_INS[:1]:
        problems: list[Misfit] = []
        for form in _forms(_without(value, stand_in) if hidden else value):
            problem = _problem(check, form) if isinstance(form, dict) else None
            if isinstance(form, dict) and problem is None:
                return None
            if problem is not None:
                problems.append(problem)
        if problems and not any(_inside(problem.path, hidden) for problem in problems):
            blamed = blamed or problems[0]
    # Where every stand-in is refused only at a place that is elsewhere, nothing can be said against the payload.
    return blamed if hidden and _inside(found.path, hidden) else found


def _inside(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)


def _problem(check: Check, value: Any) -> Misfit | None:
    try:
        return check.problem(value)
    except Exception as error:  # a class may run any code
        return Misfit("$", f"the schema raised {type(error).__name__}")


def _forms(value: dict[str, Any]) -> Iterator[Any]:
    """The payload as stored, as it reads back, as it is shown."""
    yield value
    for form in (_read_back, jsonvalue.plain):
        try:
            yield form(value)
        except Exception:  # a tag that leads nowhere is data
            continue


def _read_back(value: dict[str, Any]) -> Any:
    return jsonvalue.decode(value, blob=None)


def _hidden(value: Any, place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        if any(mark in value for mark in _ELSEWHERE[:3]):
            yield place
            return
        for key, inner in value.items():
            yield from _hidden(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _hidden(inner, (*place, index))


def _without(value: Any, stand_in: Any) -> Any:
    """A copy with ``stand_in`` for every value that is elsewhere."""
    if isinstance(value, dict):
        if any(mark in value for mark in _ELSEWHERE[:3]):
            return stand_in
        return {key: _without(inner, stand_in) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without(inner, stand_in) for inner in value]
    return value

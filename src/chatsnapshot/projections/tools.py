"""Folds the four facts about a tool (asked for, called, answered, told to the model) into one item for each call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from chatsnapshot.events.messages import Call, Result
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.shapes import Item, ToolUse
from chatsnapshot.projections.times import duration

__all__ = ["ToolsState", "asked", "at", "called", "new_run", "resulted", "told"]

_SAME_ID_LOOKED_AT = 8
"""Of tools with one call id the last ones are looked at; providers use ids such as ``call_1`` again in each run."""

_PLACE = {
    "asked": "asked_position",
    "called": "call_position",
    "resulted": "result_position",
    "told": "told_position",
}


_NOTHING: Any = ToolUse(position=0, sequence=0, at=None, name=None, call_id=None, arguments=None)
"""What is known of a tool of which nothing was heard."""


Places = dict[str, int | list[int]]
"""Numbers of items by a text; one alone as itself."""


class ToolsState(msgspec.Struct, omit_defaults=True, gc=False):
    """Where tools stand among the items: by call id, by the events that told of them, by the causes of those.

    ``by_name`` holds tools without an id that wait for a fact, first come first served; its keys are ``fact name``.
    """

    by_id: Places = {}
    by_event: Places = {}
    by_cause: Places = {}
    by_name: Places = {}


def new_run(state: ToolsState) -> None:
    """A run begins and no other is open: ids and names that are heard from now on are new."""
    state.by_id = {}
    state.by_name = {}


def asked(state: ToolsState, items: list[Item], once: Once, call: Call, speaker: str | None) -> None:
    """A message asks for a tool."""
    number, _ = _find(state, items, "asked", once, call.call_id, call.name)
    tool = _NOTHING if number is None else _tool(items, number)
    changes: dict[str, Any] = {"asked_position": once.position}
    if tool.call_position is None:
        changes["arguments"] = call.arguments
    if number is None:
        changes["speaker"] = speaker
    _settle(state, items, number, once, call.call_id, call.name, changes)


def called(state: ToolsState, items: list[Item], once: Once, call: Call, speaker: str | None) -> bool:
    """A tool is being called; gives whether that is a new item."""
    number, _ = _find(state, items, "called", once, call.call_id, call.name)
    tool = _NOTHING if number is None else _tool(items, number)
    changes = {
        "call_position": once.position,
        "called_at": once.at,
        "arguments": tool.arguments if call.arguments is None else call.arguments,
        "speaker": speaker or tool.speaker,
        "erased": tool.erased or once.erased,
    }
    _settle(state, items, number, once, call.call_id, call.name, changes)
    return number is None


def resulted(state: ToolsState, items: list[Item], once: Once, result: Result) -> bool:
    """A tool answered or failed: the best witness of its result; gives whether that is a new item."""
    number, how = _find(state, items, "resulted", once, result.call_id, result.name)
    tool = _NOTHING if number is None else _tool(items, number)
    changes = {
        "result_position": once.position,
        "answered_at": once.at,
        "result": result.result,
        "error": result.error,
        "matched_by": how or tool.matched_by,
        "erased": tool.erased or once.erased,
    }
    _settle(state, items, number, once, result.call_id, result.name, changes)
    return number is None


def told(state: ToolsState, items: list[Item], once: Once, result: Result) -> None:
    """A message tells the model a result: a repetition where the result is recorded, else all that is known of it."""
    number, how = _find(state, items, "told", once, result.call_id, result.name)
    tool = _NOTHING if number is None else _tool(items, number)
    changes: dict[str, Any] = {"told_position": once.position}
    if tool.result_position is None:
        changes["result"], changes["error"] = result.result, result.error
        changes["matched_by"] = how or tool.matched_by
    _settle(state, items, number, once, result.call_id, result.name, changes)


def _find(
    state: ToolsState, items: list[Item], fact: str, once: Once, call_id: str | None, name: str | None
) -> tuple[int | None, str | None]:
    """The tool that a fact belongs to, which must lack that fact, and how it was found.

    The call id decides where both have one. Else the cause: the fact's cause told of the tool, or the fact itself is
    the cause of what was heard of the tool before. Without any id the name decides, first come first served.
    """
    cause = once.causation_id
    related = () if cause is None else at(state.by_event, cause)
    if state.by_cause:
        related = (*related, *at(state.by_cause, once.event_id))
    elif not related and call_id is not None:
        # As a rule: one tool of that id, and no cause to look at.
        alone = state.by_id.get(call_id)
        if alone is None:
            return None, None
        if isinstance(alone, int):
            return (alone, "id") if _lacks(items, alone, fact) else (None, None)
    fitting = [number for number in related if _lacks(items, number, fact) and _agree(items, number, call_id)]
    if call_id is not None:
        same = [
            number for number in at(state.by_id, call_id)[-_SAME_ID_LOOKED_AT:] if _lacks(items, number, fact)
        ]
        both = [number for number in same if number in fitting]
        if both or same:
            return (both or same)[-1], "id"
    if fitting:
        named = [number for number in fitting if name is None or _tool(items, number).name in (name, None)]
        if named or name is None or fact in ("resulted", "told"):
            return (named or fitting)[0], "cause"
    if call_id is None and name is not None and fact != "asked":
        key = f"{fact} {name}"
        while waiting := at(state.by_name, key):
            number = waiting[0]
            state.by_name[key] = list(waiting[1:])
            if _lacks(items, number, fact):
                return number, "name"
    return None, None


def _lacks(items: list[Item], number: int, fact: str) -> bool:
    return getattr(items[number], _PLACE[fact]) is None


def _agree(items: list[Item], number: int, call_id: str | None) -> bool:
    known = _tool(items, number).call_id
    return known is None or call_id is None or known == call_id


def _settle(
    state: ToolsState,
    items: list[Item],
    number: int | None,
    once: Once,
    call_id: str | None,
    name: str | None,
    changes: dict[str, Any],
) -> None:
    """Make or change an item, let its status follow its facts, and make it findable by what was just heard."""
    tool = _NOTHING if number is None else _tool(items, number)
    known = changes.get
    answered = (
        known("result_position", tool.result_position) is not None
        or known("told_position", tool.told_position) is not None
    )
    wanted = (
        known("call_position", tool.call_position) is not None
        or known("asked_position", tool.asked_position) is not None
    )
    ended = "ok" if known("error", tool.error) is None else "failed"
    changes["name"] = tool.name or name
    changes["call_id"] = tool.call_id or call_id
    changes["status"] = ("open" if not answered else ended) if wanted else "unmatched"
    changes["matched_by"] = known("matched_by", tool.matched_by) if wanted else None
    changes["duration_ns"] = duration(
        known("called_at", tool.called_at), known("answered_at", tool.answered_at)
    )
    if number is None:
        number = len(items)
        changes.setdefault("arguments", None)
        tool = ToolUse(position=once.position, sequence=once.sequence, at=once.at, **changes)
        items.append(tool)
    else:
        tool = items[number] = msgspec.structs.replace(tool, **changes)
    _put(state.by_event, once.event_id, number)
    cause = once.causation_id
    if cause is not None and tool.position == once.position:
        _put(state.by_cause, cause, number)
    if tool.call_id is not None:
        _put(state.by_id, tool.call_id, number)
    elif tool.name is not None:
        waits_for = [
            fact
            for fact in ("called", "resulted", "told")
            if _lacks(items, number, fact) and not (answered and fact != "told")
        ]
        for fact in waits_for:
            _put(state.by_name, f"{fact} {tool.name}", number)


def _put(places: Places, key: str, number: int) -> None:
    numbers = places.get(key)
    if numbers is None:
        places[key] = number
    elif isinstance(numbers, int):
        if numbers != number:
            places[key] = [numbers, number]
    elif number not in numbers[-_SAME_ID_LOOKED_AT:]:
        numbers.append(number)


def at(places: Places, key: str) -> Sequence[int]:
    """The numbers under a key, in the order in which they came."""
    numbers = places.get(key)
    return () if numbers is None else (numbers,) if isinstance(numbers, int) else numbers


def _tool(items: list[Item], number: int) -> Any:
    return items[number]

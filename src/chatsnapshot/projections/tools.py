"""Folds the four facts about a tool (asked for, called, answered, told to the model) into one item for each call."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.messages import Call, Result
from chatsnapshot.projections.shapes import Item, ToolUse
from chatsnapshot.projections.times import duration, happened

__all__ = ["ToolsState", "asked", "called", "new_run", "resulted", "told"]

_SAME_ID_LOOKED_AT = 8
"""Of tools with one call id the last ones are looked at; providers use ids such as ``call_1`` again in each run."""

_PLACE = {
    "asked": "asked_position",
    "called": "call_position",
    "resulted": "result_position",
    "told": "told_position",
}


class ToolsState(msgspec.Struct):
    """Where tools stand among the items: by call id, by the events that told of them, by the causes of those.

    ``by_name`` holds tools without an id that wait for a fact, first come first served; its keys are ``fact name``.
    """

    by_id: dict[str, list[int]] = {}
    by_event: dict[str, list[int]] = {}
    by_cause: dict[str, list[int]] = {}
    by_name: dict[str, list[int]] = {}


def new_run(state: ToolsState) -> None:
    """A run begins and no other is open: ids and names that are heard from now on are new."""
    state.by_id = {}
    state.by_name = {}


def asked(state: ToolsState, items: list[Item], entry: LedgerEntry, call: Call, speaker: str | None) -> None:
    """A message asks for a tool."""
    number, _ = _find(state, items, "asked", entry, call.call_id, call.name)
    if number is None:
        number = _new(items, entry, call.name, call.call_id, speaker)
    tool = _tool(items, number)
    arguments = tool.arguments if tool.call_position is not None else call.arguments
    items[number] = msgspec.structs.replace(tool, asked_position=entry.position, arguments=arguments)
    _settle(state, items, number, entry, call.call_id, call.name)


def called(state: ToolsState, items: list[Item], entry: LedgerEntry, call: Call, speaker: str | None) -> None:
    """A tool is being called."""
    number, _ = _find(state, items, "called", entry, call.call_id, call.name)
    if number is None:
        number = _new(items, entry, call.name, call.call_id, speaker)
    tool = _tool(items, number)
    items[number] = msgspec.structs.replace(
        tool,
        call_position=entry.position,
        called_at=happened(entry),
        arguments=tool.arguments if call.arguments is None else call.arguments,
        speaker=speaker or tool.speaker,
        erased=tool.erased or entry.erased,
    )
    _settle(state, items, number, entry, call.call_id, call.name)


def resulted(state: ToolsState, items: list[Item], entry: LedgerEntry, result: Result) -> None:
    """A tool answered or failed: the best witness of its result."""
    number, how = _find(state, items, "resulted", entry, result.call_id, result.name)
    if number is None:
        number = _new(items, entry, result.name, result.call_id, None)
    tool = _tool(items, number)
    items[number] = msgspec.structs.replace(
        tool,
        result_position=entry.position,
        answered_at=happened(entry),
        result=result.result,
        error=result.error,
        matched_by=how or tool.matched_by,
        erased=tool.erased or entry.erased,
    )
    _settle(state, items, number, entry, result.call_id, result.name)


def told(state: ToolsState, items: list[Item], entry: LedgerEntry, result: Result) -> None:
    """A message tells the model a result: a repetition where the result is recorded, else all that is known of it."""
    number, how = _find(state, items, "told", entry, result.call_id, result.name)
    if number is None:
        number = _new(items, entry, result.name, result.call_id, None)
    tool = _tool(items, number)
    tool = msgspec.structs.replace(tool, told_position=entry.position)
    if tool.result_position is None:
        tool = msgspec.structs.replace(
            tool, result=result.result, error=result.error, matched_by=how or tool.matched_by
        )
    items[number] = tool
    _settle(state, items, number, entry, result.call_id, result.name)


def _find(
    state: ToolsState, items: list[Item], fact: str, entry: LedgerEntry, call_id: str | None, name: str | None
) -> tuple[int | None, str | None]:
    """The tool that a fact belongs to, which must lack that fact, and how it was found.

    The call id decides where both have one. Else the cause: the fact's cause told of the tool, or the fact itself is
    the cause of what was heard of the tool before. Without any id the name decides, first come first served.
    """
    related = [
        *(state.by_event.get(entry.causation_id or "", ())),
        *(state.by_cause.get(entry.event_id, ())),
    ]
    fitting = [number for number in related if _lacks(items, number, fact) and _agree(items, number, call_id)]
    if call_id is not None:
        same = [
            number
            for number in state.by_id.get(call_id, ())[-_SAME_ID_LOOKED_AT:]
            if _lacks(items, number, fact)
        ]
        both = [number for number in same if number in fitting]
        if both or same:
            return (both or same)[-1], "id"
    if fitting:
        named = [number for number in fitting if name is None or _tool(items, number).name in (name, None)]
        if named or name is None or fact in ("resulted", "told"):
            return (named or fitting)[0], "cause"
    if call_id is None and name is not None and fact != "asked":
        waiting = state.by_name.get(f"{fact} {name}", [])
        while waiting:
            number = waiting.pop(0)
            if _lacks(items, number, fact):
                return number, "name"
    return None, None


def _lacks(items: list[Item], number: int, fact: str) -> bool:
    return getattr(items[number], _PLACE[fact]) is None


def _agree(items: list[Item], number: int, call_id: str | None) -> bool:
    known = _tool(items, number).call_id
    return known is None or call_id is None or known == call_id


def _new(
    items: list[Item], entry: LedgerEntry, name: str | None, call_id: str | None, speaker: str | None
) -> int:
    items.append(
        ToolUse(
            position=entry.position,
            sequence=entry.sequence,
            at=happened(entry),
            speaker=speaker,
            name=name,
            call_id=call_id,
            arguments=None,
        )
    )
    return len(items) - 1


def _settle(
    state: ToolsState,
    items: list[Item],
    number: int,
    entry: LedgerEntry,
    call_id: str | None,
    name: str | None,
) -> None:
    """Make the item's status follow its facts, and make it findable by what was just heard."""
    tool = _tool(items, number)
    answered = tool.result_position is not None or tool.told_position is not None
    wanted = tool.call_position is not None or tool.asked_position is not None
    ended = "ok" if tool.error is None else "failed"
    tool = msgspec.structs.replace(
        tool,
        name=tool.name or name,
        call_id=tool.call_id or call_id,
        status=("open" if not answered else ended) if wanted else "unmatched",
        matched_by=tool.matched_by if wanted else None,
        duration_ns=duration(tool.called_at, tool.answered_at),
    )
    items[number] = tool
    _put(state.by_event, entry.event_id, number)
    if entry.causation_id is not None and tool.position == entry.position:
        _put(state.by_cause, entry.causation_id, number)
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


def _put(places: dict[str, list[int]], key: str, number: int) -> None:
    numbers = places.setdefault(key, [])
    if number not in numbers[-_SAME_ID_LOOKED_AT:]:
        numbers.append(number)


def _tool(items: list[Item], number: int) -> Any:
    return items[number]

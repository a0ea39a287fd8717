"""What a transcript's item says, as records to cite: a call with its result, a question with its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from chatsnapshot.events.fields import text_of
from chatsnapshot.projections.context.shapes import Record
from chatsnapshot.projections.shapes import (
    Boundary,
    Handoff,
    Item,
    Message,
    Note,
    Problem,
    Question,
    ToolUse,
)

__all__ = ["CUT", "arguments_of", "positions_of", "records_of", "searchable", "shortened"]

CUT = "[…]"
_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function"})


def positions_of(item: Item) -> tuple[int, ...]:
    """The positions of all events that an item is made of, in order."""
    found: set[int | None] = {item.position}
    if isinstance(item, ToolUse):
        found |= {item.asked_position, item.call_position, item.result_position, item.told_position}
    elif isinstance(item, Question):
        found.add(item.answer_position)
    return tuple(sorted(position for position in found if position is not None))


def records_of(item: Item, bytes_max: int) -> tuple[Record, ...]:
    """The records of an item, each text shortened to ``bytes_max`` bytes of UTF-8."""
    return tuple(shortened(record, bytes_max) for record in _records(item))


def shortened(record: Record, bytes_max: int) -> Record:
    """The record with at most ``bytes_max`` bytes of its text: three quarters from its start, the rest from its end."""
    if len(record.text) * 4 <= bytes_max:
        return record
    data = record.text.encode("utf-8", "surrogatepass")
    if len(data) <= bytes_max:
        return record
    end = bytes_max // 4
    first = data[: bytes_max - end].decode("utf-8", "ignore")
    last = data[len(data) - end :].decode("utf-8", "ignore") if end else ""
    left_out = len(record.text) - len(first) - len(last)
    return msgspec.structs.replace(record, text=f"{first}{CUT}{last}", chars_left_out=left_out)


def _records(item: Item) -> Iterator[Record]:
    if isinstance(item, Message):
        yield _message(item)
    elif isinstance(item, ToolUse):
        yield from _tool(item)
    elif isinstance(item, Question):
        yield from _question(item)
    elif isinstance(item, Boundary):
        yield Record(item.position, f"{item.what} {item.event}", _joined(item.name, item.error))
    elif isinstance(item, Handoff):
        text = _joined(f"{item.source or 'someone'} -> {item.target or 'someone'}", item.text)
        yield Record(item.position, "handoff", text, by=item.speaker)
    elif isinstance(item, Problem):
        yield Record(item.position, f"failed {item.what}", item.text, by=item.speaker)
    elif isinstance(item, Note):
        seen = item.what == "shown"  # its speaker is who saw it
        by, to = (None, item.speaker) if seen else (item.speaker, None)
        yield Record(item.position, item.what, item.text, by=by, to=to)


def _message(item: Message) -> Record:
    text = "\n".join(filter(None, (item.text, *(part.text for part in item.parts))))
    role = item.role.lower()
    return Record(
        item.position,
        role if role in _ROLES else "message",
        text,
        name=None if role in _ROLES else item.role,
        by=None if item.speaker == item.role else item.speaker,
        to=item.to,
        facts=("thinking not shown",) if item.reasoning else (),
    )


def _tool(item: ToolUse) -> Iterator[Record]:
    answered = item.status != "open"
    if item.status != "unmatched":
        yield Record(
            next(at for at in (item.call_position, item.asked_position, item.position) if at is not None),
            "tool_call",
            "" if item.arguments is None else _json(item.arguments),
            name=item.name,
            by=item.speaker,
            facts=() if answered else ("no result recorded",),
            value=item.arguments,
        )
    if answered:
        failed = item.error is not None
        gone = "[erased]" if item.erased and item.result is None and not failed else None
        yield Record(
            next(at for at in (item.result_position, item.told_position, item.position) if at is not None),
            "tool_result",
            gone or (item.error if item.error is not None else _value(item.result)),
            name=item.name,
            facts=("failed",) * failed + ("its call is not recorded",) * (item.status == "unmatched"),
        )


def _question(item: Question) -> Iterator[Record]:
    what = f"question for {item.ask}" if item.ask in _ASKS else "question"
    if item.status != "unmatched":
        facts = ("not answered",) if item.status == "open" else ()
        yield Record(item.position, what, item.text, by=item.speaker, facts=facts)
    if item.status != "open":
        facts = ("its question is not recorded",) if item.status == "unmatched" else ()
        text = _joined(item.decision, None if item.answer is None else text_of(item.answer))
        yield Record(item.answer_position or item.position, "answer", text, by=item.answered_by, facts=facts)


_ASKS = frozenset({"approval", "edit"})


def _joined(*texts: str | None) -> str:
    return ": ".join(filter(None, texts))


def _value(value: Any) -> str:
    return "null" if value is None else text_of(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def searchable(records: Iterable[Record]) -> str:
    """The words of records as one text, for a search."""
    return "\n".join(filter(None, (part for record in records for part in (record.name, record.text))))


def arguments_of(record: Record) -> Mapping[str, Any]:
    """The arguments of a tool call as a JSON object; where its text was shortened, what is left of it."""
    if record.chars_left_out:
        return {"shortened": record.text, "characters_left_out": record.chars_left_out}
    if isinstance(record.value, Mapping):
        return record.value
    return {} if record.value is None else {"value": record.value}

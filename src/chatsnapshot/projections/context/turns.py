"""The parts of a context as turns of a conversation: who says what, each with its citation, calls with results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.projections.context.quoting import (
    BARE_NOTE,
    QUOTED_NOTE,
    bare,
    elision_text,
    quoted,
    recorded,
)
from chatsnapshot.projections.context.records import arguments_of
from chatsnapshot.projections.context.shapes import ContextItem, Part, Record

__all__ = ["Said", "Saying", "note_of", "turns"]

Saying = Callable[[ContextItem, Record], str]
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


class Said(msgspec.Struct, frozen=True):
    """One turn. ``role``: ``own`` (our words), ``user``, ``assistant``, ``call`` or ``result``.

    A call is always followed by the result with the same ``call_id``; ids are ours, for recorded ones repeat.
    """

    role: str
    text: str
    call_id: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    failed: bool = False


def note_of(quote: bool) -> str:
    """What a context says first about itself."""
    return QUOTED_NOTE if quote else BARE_NOTE


def turns(parts: Sequence[Part], quote: bool) -> Iterator[Said]:
    """The turns of the parts in order, with a note first.

    Only what a user or an assistant said has their roles: recorded system messages, notes and the like come as a user's,
    with a citation that says what they are, so that no recorded text speaks for the system.
    """
    say: Saying = quoted if quote else bare
    yield Said("own", note_of(quote))
    for number, part in enumerate(parts):
        if not isinstance(part, ContextItem):
            yield Said("own", elision_text(part))
        elif part.kind == "tool" and part.records[0].what == "tool_call":
            yield from _tool(part, say, f"position_{part.position}_{number}")
        else:
            for record in part.records:
                yield Said("assistant" if record.what == "assistant" else "user", say(part, record))


def _tool(item: ContextItem, say: Saying, call_id: str) -> Iterator[Said]:
    call = item.records[0]
    name = _UNFIT.sub("_", call.name or "tool")[:64]
    # The arguments stand in the call itself.
    cited = say(item, msgspec.structs.replace(call, text=""))
    yield Said("call", cited, call_id, name, _recorded(arguments_of(call)))
    if len(item.records) > 1:
        result = item.records[1]
        yield Said("result", say(item, result), call_id, name, failed="failed" in result.facts)
    else:
        missing = msgspec.structs.replace(
            call, what="no result is recorded", name=None, by=None, text="", facts=()
        )
        yield Said("result", say(item, missing), call_id, name)


def _recorded(value: Any) -> Any:
    """Arguments in which no text passes for a citation of ours."""
    if isinstance(value, str):
        return recorded(value)
    if isinstance(value, Mapping):
        return {recorded(str(key)): _recorded(one) for key, one in value.items()}
    return [_recorded(one) for one in value] if isinstance(value, list) else value

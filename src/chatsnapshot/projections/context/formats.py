"""The formats of a context, by name: Markdown text, messages with roles, and what providers take."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from typing import Any

from chatsnapshot.errors import NotFound
from chatsnapshot.projections.context import providers, quoting
from chatsnapshot.projections.context.shapes import ContextItem, Part, Rendered
from chatsnapshot.projections.context.turns import Said, Saying, note_of, turns

__all__ = ["Format", "format_of", "names"]

Format = Callable[[Sequence[Part], bool], Rendered]
"""Renders parts in order of position; the second argument says whether recorded texts are fenced."""


def names() -> list[str]:
    """The names of all formats, sorted."""
    return sorted(_FORMATS)


def format_of(name: str) -> Format:
    """The format of that name; raises :class:`NotFound` with the nearest names."""
    found = _FORMATS.get(name)
    if found is None:
        near = difflib.get_close_matches(str(name), _FORMATS, n=2, cutoff=0.5) or names()
        raise NotFound(f"no context format is called {name!r:.80}; did you mean {' or '.join(near)}?")
    return found


def _markdown(parts: Sequence[Part], quote: bool) -> Rendered:
    say: Saying = quoting.quoted if quote else quoting.bare
    blocks = [note_of(quote)]
    for part in parts:
        if isinstance(part, ContextItem):
            blocks += [say(part, record) for record in part.records]
        else:
            blocks.append(quoting.elision_text(part))
    return Rendered("\n\n".join(blocks) + "\n", [])


def _messages(parts: Sequence[Part], quote: bool) -> Rendered:
    """Plain role messages; a tool call is an assistant's message, its result one of role ``tool``."""
    return _json([_plain(said) for said in turns(parts, quote)])


def _plain(said: Said) -> dict[str, Any]:
    role = {"own": "system", "call": "assistant", "result": "tool"}.get(said.role, said.role)
    return {"role": role, "content": said.text}


def _openai(parts: Sequence[Part], quote: bool) -> Rendered:
    return _json(providers.openai(turns(parts, quote)))


def _anthropic(parts: Sequence[Part], quote: bool) -> Rendered:
    return _json(providers.anthropic(turns(parts, quote)))


def _ag2(parts: Sequence[Part], quote: bool) -> Rendered:
    said = list(turns(parts, quote))
    return Rendered(_json(providers.openai(said)).text, providers.ag2(said))


def _json(messages: list[Any]) -> Rendered:
    return Rendered(json.dumps(messages, ensure_ascii=False, separators=(",", ":")), messages)


_FORMATS: dict[str, Format] = {
    "messages": _messages,
    "markdown": _markdown,
    "openai": _openai,
    "anthropic": _anthropic,
    "ag2": _ag2,
}

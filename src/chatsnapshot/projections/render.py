"""A transcript as text for a terminal: a pure function; what agents said cannot reach the terminal's controls."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from chatsnapshot.events.fields import text_of
from chatsnapshot.events.text import visible
from chatsnapshot.projections.lines import call_text
from chatsnapshot.projections.markdown import render_markdown
from chatsnapshot.projections.shapes import (
    Boundary,
    Child,
    Handoff,
    Item,
    Message,
    Note,
    Problem,
    Question,
    ToolUse,
    Transcript,
)
from chatsnapshot.projections.words import duration_text

__all__ = ["render_markdown", "render_text"]

_NARROWEST = 24


def render_text(
    transcript: Transcript, *, children: str = "inline", width: int = 100, value_chars_max: int = 2_000
) -> str:
    """The transcript as plain text, each item beside its position; ends with a line feed.

    Lines are wrapped at ``width`` characters. ``children``: ``inline`` shows child runs at the place of their cause,
    ``link`` names them only. Arguments and results are cut after ``value_chars_max`` characters, with a note of how
    many are left out. Raises ``ValueError`` for another value of ``children``.
    """
    if children not in ("inline", "link"):
        raise ValueError(f"children is 'inline' or 'link', not {children!r}")
    out: list[str] = []
    # A stack of item iterators, so that a long line of children needs no recursion.
    stack: list[tuple[str, Iterator[Item]]] = [("", iter(transcript.items))]
    while stack:
        bars, items = stack[-1]
        item = next(items, None)
        if item is None:
            stack.pop()
            continue
        inside = isinstance(item, Child) and children == "inline"
        for number, line in enumerate(_lines(item, inside, value_chars_max)):
            gutter = f"{item.position:>6}  " if number == 0 else " " * 8
            out.extend(_wrapped(gutter + bars, " " * 8 + bars, line, width))
        if isinstance(item, Child) and inside:
            stack.append((bars + "| ", iter(item.transcript.items)))
    return "\n".join(out) + "\n"


def _lines(item: Item, inside: bool, chars_max: int) -> Iterator[str]:
    """The lines of an item, made visible; each may still be longer than the page."""
    if isinstance(item, Message):
        yield from _message(item)
    elif isinstance(item, ToolUse):
        yield from _tool(item, chars_max)
    elif isinstance(item, Question):
        yield from _question(item)
    elif isinstance(item, Boundary):
        named = item.name or item.run_id
        tail = f": {item.error}" if item.error else ""
        yield from _block(f"-- {item.what} {named} {item.event}{tail}", "   ")
    elif isinstance(item, Handoff):
        tail = f": {item.text}" if item.text else ""
        yield from _block(
            f"=> {item.source or 'someone'} hands over to {item.target or 'someone'}{tail}", "   "
        )
    elif isinstance(item, Problem):
        yield from _block(f"!! {item.what}: {item.text}", "   ")
    elif isinstance(item, Note):
        by = f" ({item.speaker})" if item.speaker else ""
        yield from _block(f"-- {item.what}{by}: {item.text}", "   ")
    else:
        name = f" ({item.transcript.name})" if item.transcript.name else ""
        where = "" if inside else f", from position {item.position}"
        yield from _block(f"+ child {item.correlation_id}{name}{where}", "  ")


def _message(item: Message) -> Iterator[str]:
    head = item.role if item.speaker in (None, item.role) else f"{item.role} {item.speaker}"
    if item.to:
        head += f" to {item.to}"
    yield visible(head) + ":"
    if item.reasoning:
        yield from _block(f"(thinking) {item.reasoning}", "  ", "  ")
    if item.text:
        yield from _block(item.text, "  ", "  ")
    for part in item.parts:
        yield from _block(part.text, "  ", "  ")
    if not (item.text or item.reasoning or item.parts):
        yield "  (empty)"


def _tool(item: ToolUse, chars_max: int) -> Iterator[str]:
    mark = {"ok": "* ", "failed": "x ", "open": "~ "}.get(item.status, "? ")
    if item.status == "unmatched":
        head = f"{item.name or 'tool'} (its call is not recorded)"
    else:
        head = _cut(call_text(item.name, item.arguments), chars_max)
    took = f"  [{duration_text(item.duration_ns)}]" if item.duration_ns is not None else ""
    yield from _block(f"{mark}{head}{took}", "    ")
    if item.erased:
        yield "    [erased]"
    if item.status == "open":
        yield "    (called, no result recorded)" if item.call_position else "    (asked for, never called)"
    elif item.error is not None:
        yield from _block(f"failed: {_cut(item.error, chars_max)}", "    ", "    ")
    elif not item.erased:
        yield from _block(f"= {_cut(_value(item.result), chars_max)}", "      ", "    ")


def _question(item: Question) -> Iterator[str]:
    if item.status != "unmatched":
        by = f"{item.speaker} asks" if item.speaker else "asks"
        kind = "" if item.ask == "question" else f" for {item.ask}"
        yield from _block(f"? {by}{kind}: {item.text}", "  ")
    if item.status == "open":
        yield "    (not answered)"
        return
    took = f"  [after {duration_text(item.duration_ns)}]" if item.duration_ns is not None else ""
    said = ": ".join(filter(None, (item.decision, text_of(item.answer)))) or "(nothing said)"
    by = item.answered_by or "answer"
    asked = " (its question is not recorded)" if item.status == "unmatched" else ""
    yield from _block(f"> {by}{asked}: {said}{took}", "    ", "" if asked else "  ")


def _value(value: Any) -> str:
    return "null" if value is None else text_of(value)


def _cut(text: str, chars_max: int) -> str:
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}… ({len(text) - chars_max:,} more characters)"


def _block(text: str, indent: str, first_indent: str = "") -> Iterator[str]:
    """The lines of a text of several lines, made visible; ``indent`` stands before all but the first."""
    for number, line in enumerate(visible(text, newlines=True).split("\n")):
        yield (first_indent if number == 0 else indent) + line


def _wrapped(first: str, rest: str, line: str, width: int) -> Iterator[str]:
    room = max(width - len(rest), _NARROWEST)
    if len(line) <= room:
        yield (first + line).rstrip()
        return
    indent = line[: len(line) - len(line.lstrip(" "))][: room // 2] + "  "
    pieces = textwrap.wrap(
        line,
        room,
        subsequent_indent=indent,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
    for number, piece in enumerate(pieces or [""]):
        yield ((first if number == 0 else rest) + piece).rstrip()

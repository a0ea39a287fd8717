"""A transcript as CommonMark: what agents said is quoted and escaped, so that it stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from chatsnapshot.events.text import one_line, visible
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

__all__ = ["render_markdown"]

_SPECIAL = re.compile(r"[\\`*_\[\]<>&~|$]")
_ADDRESS = re.compile(r"(?i)(?<=www)\.|:(?=//)")
_LINE_START = re.compile(r"^(\s*)([#+=-]|\d{1,9}[.)])")


def render_markdown(
    transcript: Transcript, *, children: str = "inline", value_chars_max: int = 20_000
) -> str:
    """The transcript as CommonMark, each item with its position; ends with a line feed.

    Text from agents stands in quotes with every mark escaped, values in fences longer than any inside them: it cannot
    end its block, open HTML, show an image or make a link. ``children``: ``inline`` or ``link``; values are cut after
    ``value_chars_max`` characters. Raises ``ValueError`` for another value of ``children``.
    """
    if children not in ("inline", "link"):
        raise ValueError(f"children is 'inline' or 'link', not {children!r}")
    title = transcript.name or transcript.correlation_id
    blocks = [f"# {_text(title)}", f"Correlation {_code(transcript.correlation_id)}"]
    stack: list[tuple[int, Iterator[Item]]] = [(1, iter(transcript.items))]
    while stack:
        level, items = stack[-1]
        item = next(items, None)
        if item is None:
            stack.pop()
            if stack:
                blocks.append("*End of the child run.*")
            continue
        if isinstance(item, Child):
            blocks.append(_child(item, level + 1))
            if children == "inline":
                stack.append((level + 1, iter(item.transcript.items)))
        else:
            blocks.extend(_blocks(item, value_chars_max))
    return "\n\n".join(blocks) + "\n"


def _child(item: Child, level: int) -> str:
    named = _text(item.transcript.name) + " " if item.transcript.name else ""
    return f"{'#' * min(level, 6)} Child run {named}{_code(item.correlation_id)} · {item.position}"


def _blocks(item: Item, chars_max: int) -> Iterator[str]:
    if isinstance(item, Message):
        head = item.role if item.speaker in (None, item.role) else f"{item.role} {item.speaker}"
        to = f" to {item.to}" if item.to else ""
        yield f"**{_text(head + to)}** · {item.position}"
        if item.reasoning:
            yield "*Thinking:*"
            yield _quote(item.reasoning)
        if item.text or not (item.parts or item.reasoning):
            yield _quote(item.text or "(empty)")
        for part in item.parts:
            yield _quote(part.text)
    elif isinstance(item, ToolUse):
        yield from _tool(item, chars_max)
    elif isinstance(item, Question):
        yield from _question(item)
    elif isinstance(item, Boundary):
        tail = f": {_text(item.error)}" if item.error else ""
        yield f"*{_text(f'{item.what} {item.name or item.run_id} {item.event}')}*{tail} · {item.position}"
    elif isinstance(item, Handoff):
        yield (
            f"*{_text(item.source or 'someone')} hands over to {_text(item.target or 'someone')}* · {item.position}"
        )
        if item.text:
            yield _quote(item.text)
    elif isinstance(item, (Problem, Note)):
        mark = "**Failed:** " if isinstance(item, Problem) else ""
        yield f"{mark}*{_text(item.what)}* · {item.position}"
        yield _quote(item.text)


def _tool(item: ToolUse, chars_max: int) -> Iterator[str]:
    took = f", {duration_text(item.duration_ns)}" if item.duration_ns is not None else ""
    words = {"open": "no result recorded", "unmatched": "its call is not recorded"}
    yield f"**Tool {_code(item.name or 'unknown')}** ({words.get(item.status, item.status)}{took}) · {item.position}"
    if item.erased:
        yield "*[erased]*"
    if item.arguments is not None:
        yield _fence(item.arguments, chars_max)
    if item.error is not None:
        yield "*Error:*"
        yield _fence(item.error, chars_max)
    elif item.status in ("ok", "unmatched") and not item.erased:
        yield "*Result:*"
        yield _fence(item.result, chars_max)


def _question(item: Question) -> Iterator[str]:
    by = _text(item.speaker) if item.speaker else "Someone"
    if item.status != "unmatched":
        kind = "" if item.ask == "question" else f" for {_text(item.ask)}"
        yield f"**{by} asks{kind}** · {item.position}"
        yield _quote(item.text)
    if item.status == "open":
        yield "*Not answered.*"
        return
    took = f" after {duration_text(item.duration_ns)}" if item.duration_ns is not None else ""
    decision = f": {_text(item.decision)}" if item.decision else ""
    yield f"**{_text(item.answered_by or 'Answer')}**{took}{decision} · {item.answer_position}"
    if item.answer is not None:
        yield _quote(item.answer) if isinstance(item.answer, str) else _fence(item.answer, 2_000)


def _escaped(text: str) -> str:
    text = _SPECIAL.sub(lambda found: "\\" + found[0], text)
    # Many renderers make links of bare addresses (GFM 6.9); one character given by its number stops that.
    return _ADDRESS.sub(lambda found: f"&#{ord(found[0])};", text)


def _text(text: str) -> str:
    """Text within a line."""
    return _escaped(one_line(text, 200))


def _code(text: str) -> str:
    """A code span whose fence is longer than any run of backticks inside (CommonMark 6.1)."""
    shown = one_line(text, 256) or " "
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def _quote(text: str) -> str:
    """A block quote that keeps the lines of the text."""
    lines = visible(text, newlines=True).split("\n")
    out = []
    for number, line in enumerate(lines):
        if not line.strip():
            out.append(">")
            continue
        body = line.lstrip(" ")
        escaped = _LINE_START.sub(_at_line_start, _escaped(body))
        follows = number + 1 < len(lines) and lines[number + 1].strip()
        out.append(
            "> " + "&nbsp;" * (len(line) - len(body)) + escaped.rstrip(" ") + ("\\" if follows else "")
        )
    return "\n".join(out)


def _at_line_start(found: re.Match[str]) -> str:
    space, mark = found.groups()
    return f"{space}{mark[:-1]}\\{mark[-1]}"


def _fence(value: Any, chars_max: int) -> str:
    """A fenced block whose fence is longer than any run of backticks inside (CommonMark 4.5)."""
    kind = "text" if isinstance(value, str) else "json"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    if len(text) > chars_max:
        text = f"{text[:chars_max]}…\n({len(text) - chars_max:,} more characters)"
    shown = visible(text, newlines=True)
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    return f"{ticks}{kind}\n{shown}\n{ticks}"

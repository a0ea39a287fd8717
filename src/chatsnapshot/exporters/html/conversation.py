"""The transcript: who said and did what, tool calls folded with their results, child runs at the place of their cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said, said_lines
from chatsnapshot.exporters.html.moments import moment, over_days
from chatsnapshot.projections.lines import call_text, short
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

__all__ = ["conversation"]

ITEMS_MAX = 6_000
"""So many items are shown, half of them the first, half the last ones."""
FOLD = 100
"""Of a longer list so many items stand in one fold."""
TEXT_BUDGET = 800_000
"""Characters for all texts together; each gets its share, at least ``_LEAST`` and at most ``_MOST``."""

_LEAST, _MOST = 160, 20_000
_SHOWN = 700
_SHOWN_LINES = 14
_DEPTH_MAX = 8
_OPEN_MAX = 150


class _Page(NamedTuple):
    anchors: Anchors
    chars_max: int
    open_children: bool
    days: bool

    @property
    def brief(self) -> bool:
        """Whether there is little room for each item."""
        return self.chars_max < _SHOWN


def conversation(transcript: Transcript, anchors: Anchors) -> Html:
    """The section's content."""
    flat = list(_flat(transcript.items))
    total = len(flat)
    if not total:
        return element("p", "Nothing was said.", class_="dim")
    texts = total + sum(isinstance(item, ToolUse) for item in flat)
    page = _Page(
        anchors,
        min(max(TEXT_BUDGET // texts, _LEAST), _MOST),
        total <= _OPEN_MAX,
        over_days(item.at for item in flat),
    )
    if total > ITEMS_MAX:
        half = ITEMS_MAX // 2
        left = len(flat) - 2 * half
        note = f"{left:,} items in the middle are left out, and child runs stand in line."
        return joined(
            [
                element("p", note, class_="dim"),
                _list(flat[:half], page, _DEPTH_MAX, 0),
                element("p", f"… {left:,} items left out …", class_="dim"),
                _list(flat[-half:], page, _DEPTH_MAX, len(flat) - half),
            ]
        )
    return _list(transcript.items, page, 0, 0)


def _flat(items: Sequence[Item]) -> Iterator[Item]:
    """All items, those of child runs after the item that names the child."""
    stack = [iter(items)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
            continue
        yield item
        if isinstance(item, Child):
            stack.append(iter(item.transcript.items))


def _list(items: Sequence[Item], page: _Page, depth: int, before: int) -> Html:
    if len(items) <= FOLD * 3 // 2:
        return element("ol", *(_item(item, page, depth) for item in items), class_="talk")
    folds = []
    for start in range(0, len(items), FOLD):
        part = items[start : start + FOLD]
        words = (
            f"Items {before + start + 1:,} to {before + start + len(part):,}, "
            f"from position {part[0].position:,} on"
        )
        folds.append(
            element(
                "details",
                element("summary", words),
                element("ol", *(_item(item, page, depth) for item in part), class_="talk"),
                open="" if start == 0 and depth == 0 and not before else None,
            )
        )
    return joined(folds)


def _item(item: Item, page: _Page, depth: int) -> Html:
    if isinstance(item, Child):
        return _child(item, page, depth)
    kind, content = _SHAPES[type(item)](item, page)
    return element("li", *content, class_=kind)


def _child(item: Child, page: _Page, depth: int) -> Html:
    name = item.transcript.name
    head = [
        "Child run ",
        element("strong", said(name or item.correlation_id)),
        *([" ", element("code", said(item.correlation_id))] if name and name != item.correlation_id else []),
    ]
    if depth >= _DEPTH_MAX:
        return element("li", *head, " ", page.anchors(item.position), class_="child")
    inside: Sequence[Item] = item.transcript.items
    if depth == _DEPTH_MAX - 1:
        inside = list(_flat(inside))
    many = f", {len(inside):,} item{'' if len(inside) == 1 else 's'}"
    # The link stands outside: what is inside a summary must not be pressed by itself.
    return element(
        "li",
        page.anchors(item.position),
        element(
            "details",
            element("summary", *head, many),
            _list(inside, page, depth + 1, 0),
            open="" if page.open_children else None,
        ),
        class_="child",
    )


def _time(item: Item, page: _Page) -> list[str]:
    return [" ", moment(item.at, days=page.days, brief=page.brief, class_="dim small")]


def _long(text: str, page: _Page) -> Html:
    """A text with its lines; of a long one the beginning, and the rest folded."""
    if len(text) <= min(_SHOWN, page.chars_max) and text.count("\n") < _SHOWN_LINES:
        return element("div", said_lines(text, _SHOWN), class_="said")
    beginning = min(280, page.chars_max // 2)
    begin = short(text, beginning)
    size = f" ({len(text):,} characters)"
    return element(
        "details",
        element("summary", said(begin, beginning), element("span", size, class_="dim small")),
        element("div", said_lines(text, page.chars_max), class_="said"),
    )


def _value(label: str, value: Any, page: _Page) -> Html:
    if isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, indent=1)
    return joined(
        [
            element("p", label, class_="dim small"),
            element("pre", said_lines(text, page.chars_max)),
        ]
    )


Shape = tuple[str, list[str]]


def _message(item: Message, page: _Page) -> Shape:
    role = item.role if item.role in ("user", "assistant", "system", "tool") else "other"
    who = item.speaker or item.role
    head: list[str] = [element("span", said(who), class_="who")]
    if item.role != who:
        head += [" ", element("span", said(item.role, 40), class_="dim small")]
    if item.to:
        head += [" to ", said(item.to)]
    content: list[str] = [element("p", *head, " ", page.anchors(item.position), *_time(item, page))]
    if item.reasoning:
        content.append(
            element(
                "details",
                element("summary", "Thinking"),
                element("div", said_lines(item.reasoning, page.chars_max), class_="said"),
            )
        )
    if item.erased:
        content.append(element("p", "[erased]", class_="warn"))
    elif item.text:
        content.append(_long(item.text, page))
    content += [element("div", said_lines(part.text, _SHOWN), class_="said dim") for part in item.parts]
    if not (item.text or item.reasoning or item.parts or item.erased):
        content.append(element("p", "(empty)", class_="dim"))
    return role, content


_TOOL_WORDS = {
    "ok": "answered",
    "failed": "failed",
    "open": "no result recorded",
    "unmatched": "its call is not recorded",
}


def _tool(item: ToolUse, page: _Page) -> Shape:
    took = f" after {duration_text(item.duration_ns)}" if item.duration_ns is not None else ""
    state = _TOOL_WORDS.get(item.status, item.status)
    if item.status == "open" and item.call_position is None:
        state = "asked for, never called"
    colour = {"ok": "good", "failed": "bad"}.get(item.status, "warn")
    shown = 80 if page.brief else 160
    called = call_text(item.name, item.arguments) if item.status != "unmatched" else item.name or "tool"
    summary = element(
        "summary",
        "Tool ",
        element("code", said(called, shown)),
        " ",
        element("span", state, took, class_=colour),
    )
    inside: list[str] = []
    if item.arguments is not None and (len(called) > shown or not page.brief):
        inside.append(_value("Arguments", item.arguments, page))
    if item.erased:
        inside.append(element("p", "[erased]", class_="warn"))
    elif item.error is not None:
        inside.append(_value("Error", item.error, page))
    elif item.status in ("ok", "unmatched"):
        inside.append(_value("Result", item.result, page))
    places = [
        (word, at)
        for word, at in (
            ("asked", item.asked_position),
            ("called", item.call_position),
            ("answered", item.result_position),
            ("told", item.told_position),
        )
        if at is not None
    ]
    facts: list[str] = []
    for word, at in places:
        facts += [f"{word} ", page.anchors(at), "  "]
    if item.call_id:
        facts += ["call id ", element("code", said(item.call_id))]
    inside.append(element("p", *facts, class_="dim small"))
    by: list[str] = [element("span", said(item.speaker), class_="who"), " "] if item.speaker else []
    head = element("p", *by, page.anchors(item.position), *_time(item, page))
    kind = "failed" if item.status == "failed" else "tool"
    content: list[str] = [head, element("details", summary, *inside)]
    if item.error is not None and not item.erased:
        content.append(element("p", said(item.error, 200), class_="bad small"))
    return kind, content


def _question(item: Question, page: _Page) -> Shape:
    content: list[str] = []
    if item.status != "unmatched":
        who = said(item.speaker) if item.speaker else Html("Someone")
        kind = "asks" if item.ask == "question" else f"asks for {item.ask}"
        content.append(
            element(
                "p",
                element("span", who, class_="who"),
                " ",
                kind,
                " ",
                page.anchors(item.position),
                *_time(item, page),
            )
        )
        content.append(element("p", "[erased]", class_="warn") if item.erased else _long(item.text, page))
    if item.status == "open":
        return "question", [*content, element("p", "Not answered.", class_="warn")]
    took = f" after {duration_text(item.duration_ns)}" if item.duration_ns is not None else ""
    line: list[str] = [element("span", said(item.answered_by or "Answer"), class_="who"), took, " "]
    if item.decision:
        line += [said(item.decision), " "]
    if item.answer_position is not None:
        line.append(page.anchors(item.answer_position))
    content.append(element("p", *line))
    if isinstance(item.answer, str):
        content.append(_long(item.answer, page))
    elif item.answer is not None:
        content.append(_value("Answer", item.answer, page))
    return "question", content


def _boundary(item: Boundary, page: _Page) -> Shape:
    what = [f"{item.what} ", said(item.name or item.run_id), f" {item.event}"]
    tail: list[str] = [": ", element("span", said(item.error, 400), class_="bad")] if item.error else []
    return "quiet", [element("p", *what, *tail, " ", page.anchors(item.position), *_time(item, page))]


def _handoff(item: Handoff, page: _Page) -> Shape:
    who = [said(item.source or "someone"), " hands over to ", said(item.target or "someone")]
    content: list[str] = [element("p", *who, " ", page.anchors(item.position), *_time(item, page))]
    return "handoff", [*content, _long(item.text, page)] if item.text else content


def _problem(item: Problem, page: _Page) -> Shape:
    head = element(
        "p",
        element("strong", "Failed: ", said(item.what), class_="bad"),
        " ",
        page.anchors(item.position),
        *_time(item, page),
    )
    return "problem", [head, _long(item.text, page)]


def _note(item: Note, page: _Page) -> Shape:
    # Of what is shown the speaker is who saw it.
    word = " to " if item.what == "shown" else " by "
    by: list[str] = [word, said(item.speaker)] if item.speaker else []
    head = element(
        "p", said(item.what), *by, " ", page.anchors(item.position), *_time(item, page), class_="dim"
    )
    body = element("p", "[erased]", class_="warn") if item.erased else _long(item.text, page)
    return "note", [head, body]


_SHAPES: dict[type, Callable[[Any, _Page], Shape]] = {
    Message: _message,
    ToolUse: _tool,
    Question: _question,
    Boundary: _boundary,
    Handoff: _handoff,
    Problem: _problem,
    Note: _note,
}

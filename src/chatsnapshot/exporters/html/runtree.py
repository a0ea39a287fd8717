"""The tree of runs: each with its status in words, its failures, its time, and the runs below it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said
from chatsnapshot.projections.shapes import Run
from chatsnapshot.projections.words import duration_text, status_text

__all__ = ["RUNS_MAX", "badge", "run_tree"]

RUNS_MAX = 200
"""So many runs are named; of the others the number is told."""

_DEPTH_MAX = 10
_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "⊘", "paused": "‖", "unfinished": "…", "unknown": "?"}


def badge(run: Run) -> Html:
    """The status in words, with a sign and a colour that repeat them."""
    words = status_text(run)
    if run.status == "failed":
        colour = "bad"
    elif run.status == "completed" and words == "completed":
        colour = "good"
    elif (run.errors + run.errors_below).total:
        colour = "bad"
    else:
        colour = "warn"
    sign = _SIGNS.get(run.status, "?")
    return element("span", Html(f'<span aria-hidden="true">{sign}</span> '), words, class_=f"badge {colour}")


def run_tree(runs: Sequence[Run], anchors: Anchors) -> Html:
    """Nested lists; below ten levels deeper runs stand at the tenth."""
    count = [0]
    tree = _list(runs, anchors, 0, count)
    more = _size(runs) - min(count[0], RUNS_MAX)
    if more <= 0:
        return tree
    return joined([tree, element("p", f"{more:,} more runs are not named here.", class_="dim small")])


def _list(runs: Sequence[Run], anchors: Anchors, depth: int, count: list[int]) -> Html:
    items = []
    for run in runs:
        if count[0] >= RUNS_MAX:
            break
        count[0] += 1
        below = (
            _list(run.children, anchors, depth + 1, count) if run.children and depth < _DEPTH_MAX else Html()
        )
        items.append(element("li", _line(run, anchors), below))
        if run.children and depth >= _DEPTH_MAX:
            deeper = _list(_flat(run.children), anchors, depth + 1, count)
            items[-1] = element("li", _line(run, anchors), deeper)
    if not items:
        return Html()
    return element("ul", *items, class_=None if depth else "tree")


def _flat(runs: Sequence[Run]) -> list[Run]:
    """All runs of a deep tree in one list, as far as they will be named."""
    found: list[Run] = []
    waiting = list(reversed(runs))
    while waiting and len(found) < RUNS_MAX:
        run = waiting.pop()
        waiting.extend(reversed(run.children))
        found.append(_childless(run))
    return found


def _childless(run: Run) -> Run:
    return msgspec.structs.replace(run, children=())


def _line(run: Run, anchors: Anchors) -> Html:
    name = run.name or run.run_id
    named = "" if run.name is None or run.name == run.run_id else run.run_id
    facts = [duration_text(run.duration_ns)] if run.duration_ns is not None else []
    facts.append(f"{run.events:,} event{'' if run.events == 1 else 's'}")
    if len(run.executions) > 1:
        facts.append(f"{len(run.executions):,} executions")
    pieces: list[str] = [
        element("strong", said(name)),
        " ",
        badge(run),
        " ",
        element("span", ", ".join(facts), class_="dim small"),
        " ",
        anchors(run.first_position),
    ]
    if named:
        pieces += [" ", element("code", said(named), class_="dim")]
    if run.agents:
        pieces += [" ", element("span", "by ", said(", ".join(run.agents)), class_="small")]
    if run.error:
        pieces.append(element("p", said(run.error, 400), class_="bad small"))
    if run.link == "dangling":
        pieces.append(element("p", "What led to it is not in this ledger.", class_="dim small"))
    return joined(pieces)


def _size(runs: Sequence[Run]) -> int:
    waiting, size = list(runs), 0
    while waiting:
        run = waiting.pop()
        size += 1
        waiting.extend(run.children)
    return size

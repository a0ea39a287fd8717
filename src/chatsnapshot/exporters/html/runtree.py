"""The tree of runs: each with its status in words, its failures, its time, and the runs below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said
from chatsnapshot.projections.shapes import Run
from chatsnapshot.projections.words import duration_text, status_text

__all__ = ["RUNS_MAX", "badge", "every_run", "run_tree"]

RUNS_MAX = 200
"""So many runs are named; of the others the number is told."""

FOLD_FROM = 15
"""More runs than these below one are folded."""

_DEPTH_MAX = 10
_SIGNS = {"completed": "✓", "failed": "✗", "cancelled": "⊘", "paused": "‖", "unfinished": "…", "unknown": "?"}


def badge(run: Run) -> Html:
    """The status in words, with a sign and a colour that repeat them."""
    words = status_text(run)
    sign = _SIGNS.get(run.status, "?")
    if run.status == "failed":
        colour = "bad"
    elif words == "completed":
        colour = "good"
    else:
        colour, sign = "warn", "!" if run.status == "completed" else sign
    return element("span", Html(f'<span aria-hidden="true">{sign}</span> '), words, class_=f"badge {colour}")


def run_tree(runs: Sequence[Run], anchors: Anchors) -> Html:
    """Nested lists; below ten levels deeper runs stand at the tenth."""
    count = [0]
    tree = _list(runs, anchors, 0, count)
    total = sum(1 for _ in every_run(runs))
    if total <= count[0]:
        return tree
    note = f"{count[0]:,} of {total:,} runs are named, those that began first."
    return joined([tree, element("p", note, class_="dim small")])


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
    listed = element("ul", *items, class_=None if depth else "tree")
    if len(runs) <= FOLD_FROM or not depth:
        return listed
    return element("details", element("summary", _counted(runs)), listed)


def _counted(runs: Sequence[Run]) -> str:
    """How many runs, and how many of each status: ``246 runs below: 218 completed, 28 completed with errors``."""
    found: dict[str, int] = {}
    for run in runs:
        wrong = " with errors" if (run.errors + run.errors_below).total and run.status != "failed" else ""
        found[run.status + wrong] = found.get(run.status + wrong, 0) + 1
    return f"{len(runs):,} runs below: " + ", ".join(
        f"{many:,} {words}" for words, many in sorted(found.items())
    )


def _flat(runs: Sequence[Run]) -> list[Run]:
    """All runs of a deep tree in one list, as far as they will be named."""
    return [msgspec.structs.replace(run, children=()) for run in islice(every_run(runs), RUNS_MAX)]


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


def every_run(runs: Sequence[Run]) -> Iterator[Run]:
    """The runs and all below them, parents first."""
    waiting = list(reversed(runs))
    while waiting:
        run = waiting.pop()
        yield run
        waiting.extend(reversed(run.children))

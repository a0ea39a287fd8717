"""The waterfall: what took time in a run as one SVG picture, with waiting for people, open ends and cut-out quiet."""

from __future__ import annotations

from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, isolated, joined, void
from chatsnapshot.exporters.html.timescale import Quiet, Scale, scale_of, tick_text
from chatsnapshot.exporters.html.waterrows import Row, Rows, choose_rows
from chatsnapshot.projections.words import duration_text, offset_text

__all__ = ["waterfall"]

ROW = 24
TOP = 56
LABELS = 30
BARS = 45
"""Hundredths of the width: labels end before the first, durations before the second, where the bars begin."""

_INDENT = 12
_INDENTS_MAX = 7


def waterfall(facts: PageFacts, anchors: Anchors) -> Html:
    """The section's content: a sentence on where the time went, the picture, its key, and what is left out."""
    chosen = choose_rows(facts.timeline)
    summary = element("p", _summary(facts))
    if not chosen.rows:
        nothing = element("p", "Nothing here took time that is known.", class_="dim")
        return joined([summary, nothing, *_left_out(chosen, None)])
    scale = scale_of(chosen.found.spans.values(), chosen.first_ns, chosen.last_ns)
    return joined([summary, _picture(chosen, scale, anchors), _key(), *_left_out(chosen, scale)])


def _summary(facts: PageFacts) -> str:
    path = facts.path
    told = [f"{duration_text(path.duration_ns)} in all: {duration_text(path.busy_ns)} at work"]
    if path.parallel_ns:
        told.append(f"{duration_text(path.parallel_ns)} of it with up to {path.at_once:,} at once")
    if path.waiting_ns:
        told.append(f"{duration_text(path.waiting_ns)} with a question to a person open")
    told.append(f"{duration_text(path.idle_ns)} idle")
    return ", ".join(told) + "."


def _picture(chosen: Rows, scale: Scale, anchors: Anchors) -> Html:
    height = TOP + ROW * len(chosen.rows) + 6
    bars = element(
        "svg",
        *_axis(scale, height),
        *(_bar(row, n, scale) for n, row in enumerate(chosen.rows)),
        x=f"{BARS}%",
        width=f"{100 - BARS - 1}%",
        height=height,
        overflow="visible",
        class_="bars",
    )
    picture = element(
        "svg",
        element("title", "Waterfall", id="waterfall-title"),
        element(
            "desc",
            f"{len(chosen.rows):,} rows from {offset_text(chosen.first_ns)} to {offset_text(chosen.last_ns)}, "
            "each a span of time beside its name; every row links to where it begins in the list of events.",
            id="waterfall-desc",
        ),
        _pattern(),
        *(_label(row, n, anchors) for n, row in enumerate(chosen.rows)),
        bars,
        role="group",
        aria_labelledby="waterfall-title waterfall-desc",
        width="100%",
        height=height,
        class_="waterfall",
    )
    return element(
        "div", picture, class_="picture", role="region", tabindex=0, aria_label="Waterfall, scrolls"
    )


def _pattern() -> Html:
    stripe = void("path", d="M0 8 8 0", class_="stripe")
    small = element("pattern", stripe, id="waiting", width=8, height=8, patternUnits="userSpaceOnUse")
    return element("defs", small)


def _axis(scale: Scale, height: int) -> list[Html]:
    found: list[Html] = []
    for number, cut in enumerate(scale.cuts):
        found += _cut(cut, scale, height, 11 + number % 2 * 15)
    for tick in scale.ticks():
        at = scale.at(tick)
        x = f"{at:.2f}%"
        found.append(void("line", x1=x, x2=x, y1=TOP - 6, y2=height, class_="tick"))
        anchor = "end" if at > 94 else "start" if at < 3 else "middle"
        found.append(element("text", tick_text(tick), x=x, y=TOP - 10, text_anchor=anchor, class_="dim"))
    return found


def _cut(cut: Quiet, scale: Scale, height: int, y: int) -> list[Html]:
    """A stretch that is drawn short, with its words at ``y``: those of neighbours stand above each other."""
    left, right = scale.at(cut.from_ns), scale.at(cut.to_ns)
    middle = (left + right) / 2
    anchor = "end" if middle > 85 else "start" if middle < 15 else "middle"
    at = right if anchor == "end" else left if anchor == "start" else middle
    class_ = "took warn" if cut.waiting else "took dim"
    field = void(
        "rect",
        x=f"{left:.2f}%",
        y=TOP - 8,
        width=f"{right - left:.2f}%",
        height=height - TOP + 8,
        class_="cut",
    )
    lines = (
        void("line", x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=TOP - 8, y2=height, class_="cutline")
        for x in (left, right)
    )
    return [
        field,
        *lines,
        element("text", _quiet(cut), x=f"{at:.2f}%", y=y, text_anchor=anchor, class_=class_),
    ]


def _quiet(cut: Quiet) -> str:
    return f"{'waits' if cut.waiting else 'idle'} {duration_text(cut.to_ns - cut.from_ns)}"


def _label(row: Row, number: int, anchors: Anchors) -> Html:
    y = TOP + number * ROW
    shift = min(row.depth, _INDENTS_MAX) * _INDENT
    alone = "bad" if row.failed == row.count else None
    text = element("text", _name(row), x=shift + 2, y=y + 16, class_=alone)
    # A picture inside the picture cuts long labels off before the next column begins.
    frame = element("svg", text, width=f"{BARS - 1}%", height=TOP + (number + 1) * ROW)
    # On a narrow page durations and the field behind them are not drawn, and labels have their room.
    field = void("rect", x=f"{LABELS}%", y=y, width=f"{BARS - LABELS}%", height=ROW, class_="took field")
    whole = void("rect", x=0, y=y, width="100%", height=ROW, class_="row")
    class_ = "bad" if row.failed or row.failed_inside else "warn" if row.open else "dim"
    took = element(
        "text", _brief(row), x=f"{BARS - 1}%", y=y + 16, text_anchor="end", class_=f"took {class_}"
    )
    parts = element("title", _told(row)), whole, frame, field, took
    href = anchors.href(row.position)
    if href is None:
        return element("g", *parts)
    return element("a", *parts, href=href)


def _name(row: Row) -> str:
    many = f" × {row.count:,}" if row.count > 1 else ""
    inside = f" (+{row.inside:,} inside)" if row.inside else ""
    failed = "✗ " if row.failed or row.failed_inside else ""
    return failed + isolated(row.label, 90) + many + inside


def _brief(row: Row) -> str:
    """How long, and what is wrong, in few words."""
    words = duration_text(row.took_ns)
    if row.open:
        words += ", no answer" if row.kind == "question" else f", {_some(row.open, row.count)}open"
    if row.failed or row.failed_inside:
        words += f", {_some(row.failed + row.failed_inside, row.count)}failed"
    return words


def _some(number: int, count: int) -> str:
    return "" if number == count == 1 else f"{number:,} "


def _told(row: Row) -> str:
    """A row in full; begins with what is shown of it."""
    start, end = row.pieces[0][0], row.pieces[-1][1]
    why = ", waiting for a person" if row.kind == "question" else ""
    inside = f", {row.inside:,} more spans inside" if row.inside else ""
    return f"{_name(row)} {_brief(row)}{why}, from {offset_text(start)} to {offset_text(end)}{inside}"


def _bar(row: Row, number: int, scale: Scale) -> Html:
    y = TOP + number * ROW + 5
    classes = f"bar {row.kind}" + (" open" if row.open else "")
    return element(
        "g",
        *(_piece(scale, piece, y, classes) for piece in row.pieces),
        *(_piece(scale, piece, y, f"bar {row.kind} failed") for piece in row.bad),
    )


def _piece(scale: Scale, piece: tuple[int, int], y: int, classes: str) -> Html:
    left, right = scale.at(piece[0]), scale.at(piece[1])
    x, width = f"{min(left, 99.7):.2f}%", f"{max(right - left, 0.3):.2f}%"
    return void("rect", x=x, y=y, width=width, height=14, class_=classes)


def _key() -> Html:
    kinds = (
        ("run", "run or workflow"),
        ("task", "task"),
        ("tool", "tool or service"),
        ("model", "model call"),
        ("question", "waiting for a person"),
        ("task open", "open: no end recorded"),
        ("tool failed", "✗ failed"),
    )
    return element(
        "ul",
        *(
            element(
                "li",
                element(
                    "svg",
                    void("rect", x=1, y=1, width=22, height=10, class_=f"bar {kind}"),
                    width=24,
                    height=12,
                    aria_hidden="true",
                ),
                words,
            )
            for kind, words in kinds
        ),
        class_="key",
        aria_label="Key",
    )


def _left_out(chosen: Rows, scale: Scale | None) -> list[Html]:
    told = []
    if scale is not None and scale.cuts:
        cuts = ", ".join(f"{_quiet(cut)} from {offset_text(cut.from_ns)}" for cut in scale.cuts)
        told.append(f"Drawn short, between dotted lines: {cuts}")
    if chosen.grouped:
        told.append(f"{chosen.grouped:,} of {chosen.spans:,} spans stand in rows with others of their kind")
    if chosen.hidden:
        told.append(
            f"{chosen.hidden:,} of {chosen.spans:,} spans have no row; what failed, is open or took longest has one"
        )
    if chosen.unknown:
        spans = "1 span has" if chosen.unknown == 1 else f"{chosen.unknown:,} spans have"
        told.append(f"{spans} no bar: a time is unknown, or clocks disagree")
    return [element("p", "; ".join(told) + ".", class_="dim small")] if told else []

"""The waterfall: what took time in a run as one SVG picture, with waiting for people, open ends and cut-out quiet."""

from __future__ import annotations

from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, isolated, joined, void
from chatsnapshot.exporters.html.timescale import Scale, scale_of, tick_text
from chatsnapshot.exporters.html.waterrows import Row, Rows, choose_rows
from chatsnapshot.projections.words import duration_text, offset_text

__all__ = ["waterfall"]

ROW = 24
TOP = 40
LABELS = 40
"""Hundredths of the width that labels take."""

_INDENT = 12
_INDENTS_MAX = 8


def waterfall(facts: PageFacts, anchors: Anchors) -> Html:
    """The section's content: a sentence on where the time went, the picture, its key, and what is left out."""
    chosen = choose_rows(facts.timeline)
    summary = element("p", _summary(facts))
    if not chosen.rows:
        return joined([summary, element("p", "Nothing here took time that is known.", class_="dim")])
    scale = scale_of(chosen.found.spans.values(), chosen.first_ns, chosen.last_ns)
    return joined([summary, _picture(chosen, scale, anchors), _key(), *_left_out(chosen)])


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
        x=f"{LABELS}%",
        width=f"{100 - LABELS - 1}%",
        height=height,
        overflow="visible",
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
        style="min-width:34rem",
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
    for cut in scale.cuts:
        left, right = scale.at(cut.from_ns), scale.at(cut.to_ns)
        x, width = f"{left:.2f}%", f"{right - left:.2f}%"
        found.append(void("rect", x=x, y=18, width=width, height=height - 18, class_="cut"))
        found += [
            void("line", x1=f"{at:.2f}%", x2=f"{at:.2f}%", y1=18, y2=height, class_="cutline")
            for at in (left, right)
        ]
        why = "waits" if cut.waiting else "idle"
        words = f"{why} {duration_text(cut.to_ns - cut.from_ns)}"
        middle = (left + right) / 2
        anchor = "end" if middle > 85 else "start" if middle < 15 else "middle"
        at = right if anchor == "end" else left if anchor == "start" else middle
        found.append(
            element(
                "text",
                words,
                x=f"{at:.2f}%",
                y=12,
                text_anchor=anchor,
                class_="warn" if cut.waiting else "dim",
            )
        )
    for tick in scale.ticks():
        at = scale.at(tick)
        x = f"{at:.2f}%"
        found.append(void("line", x1=x, x2=x, y1=34, y2=height, class_="tick"))
        anchor = "end" if at > 94 else "start" if at < 3 else "middle"
        found.append(element("text", tick_text(tick), x=x, y=30, text_anchor=anchor, class_="dim"))
    return found


def _label(row: Row, number: int, anchors: Anchors) -> Html:
    y = TOP + number * ROW
    shift = min(row.depth, _INDENTS_MAX) * _INDENT
    text = element("text", _name(row), x=shift + 2, y=y + 16, class_="bad" if row.failed else None)
    # A picture inside the picture cuts long labels off before the bars begin.
    frame = element("svg", text, width=f"{LABELS - 1}%", height=TOP + (number + 1) * ROW)
    whole = void("rect", x=0, y=y, width="100%", height=ROW, class_="row")
    told = element("title", _told(row))
    href = anchors.href(row.position)
    if href is None:
        return element("g", told, whole, frame)
    return element("a", told, whole, frame, href=href, aria_label=_told(row))


def _name(row: Row) -> str:
    return isolated(row.label, 90) + (f" × {row.count:,}" if row.count > 1 else "")


def _told(row: Row) -> str:
    """A row in words."""
    start, end = row.pieces[0][0], row.pieces[-1][1]
    inside = f", {row.inside:,} more spans inside" if row.inside else ""
    if row.failed_inside:
        inside += f", {row.failed_inside:,} of them failed"
    return f"{_name(row)}: {_took(row)}, from {offset_text(start)} to {offset_text(end)}{inside}"


def _took(row: Row) -> str:
    words = [duration_text(row.took_ns)]
    if row.kind == "question":
        words.append("no answer" if row.open else "waiting for a person")
    elif row.open:
        words.append(f"{row.open:,} open" if row.count > 1 else "open, no end recorded")
    if row.failed:
        words.append(f"{row.failed:,} failed" if row.count > 1 else "failed")
    return ", ".join(words)


def _bar(row: Row, number: int, scale: Scale) -> Html:
    y = TOP + number * ROW
    classes = " ".join(
        ["bar", row.kind, *(["failed"] if row.failed else []), *(["open"] if row.open else [])]
    )
    found = []
    for start, end in row.pieces:
        left, right = scale.at(start), scale.at(end)
        found.append(
            void(
                "rect",
                x=f"{min(left, 99.7):.2f}%",
                y=y + 5,
                width=f"{max(right - left, 0.3):.2f}%",
                height=14,
                class_=classes,
            )
        )
    left, right = scale.at(row.pieces[0][0]), scale.at(row.pieces[-1][1])
    words = duration_text(row.took_ns)
    if row.open:
        words += " open" if row.kind != "question" else ", no answer"
    if row.failed:
        words += f", {row.failed:,} failed" if row.count > 1 else ", failed"
    if row.inside:
        words += f", +{row.inside:,} inside"
    if row.failed_inside:
        words += f", {row.failed_inside:,} of them failed"
    class_ = "bad" if row.failed else "warn" if row.open else "dim"
    if right < 76:
        text = element("text", words, x=f"{right:.2f}%", dx=5, y=y + 16, class_=class_)
    elif left > 30:
        text = element("text", words, x=f"{left:.2f}%", dx=-5, y=y + 16, text_anchor="end", class_=class_)
    elif row.kind in ("run", "workflow") or row.open:
        text = element("text", words, x=f"{left:.2f}%", dx=8, y=y + 16, class_=class_)
    else:
        # A bar over nearly the whole width is full of colour: its words stand on a light field.
        wide = 9 * len(words)
        field = void("rect", x=f"{left:.2f}%", y=y + 5, width=wide, height=14, class_="field")
        text = joined([field, element("text", words, x=f"{left:.2f}%", dx=8, y=y + 16, class_=class_)])
    return element("g", *found, text)


def _key() -> Html:
    kinds = (
        ("run", "run or workflow"),
        ("task", "task"),
        ("tool", "tool or service"),
        ("model", "model call"),
        ("question", "waiting for a person"),
        ("task open", "open: no end recorded"),
        ("tool failed", "failed"),
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


def _left_out(chosen: Rows) -> list[Html]:
    told = []
    if chosen.grouped:
        told.append(f"{chosen.grouped:,} of {chosen.spans:,} spans stand in rows with others of their kind")
    if chosen.hidden:
        told.append(
            f"{chosen.hidden:,} of {chosen.spans:,} spans have no row; what failed, is open or took longest has one"
        )
    if chosen.unknown:
        told.append(f"{chosen.unknown:,} spans are left out: a time is unknown, or clocks disagree")
    return [element("p", "; ".join(told) + ".", class_="dim small")] if told else []

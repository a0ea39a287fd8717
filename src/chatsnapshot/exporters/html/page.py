"""The page as a whole: its sections in order, and the file that appears at once or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.exporters.html.conversation import conversation
from chatsnapshot.exporters.html.document import document
from chatsnapshot.exporters.html.eventlist import event_list, listed
from chatsnapshot.exporters.html.facts import PageFacts, gather
from chatsnapshot.exporters.html.graphpicture import graph_picture
from chatsnapshot.exporters.html.markup import Anchors, Html, element, isolated, joined, said
from chatsnapshot.exporters.html.measures import evaluations, judgements, metric_tables
from chatsnapshot.exporters.html.runtree import run_tree
from chatsnapshot.exporters.html.summary import summary, title_of, verification
from chatsnapshot.exporters.html.waterfall import waterfall
from chatsnapshot.exporters.placing import placed

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["PageReport", "render_page", "write_page"]


class PageReport(msgspec.Struct, frozen=True, kw_only=True):
    """The page that was written: where, how large, how many events it tells, up to which position of the ledger.

    ``verified`` is what ``verify`` said of the ledger (``None``: it was not asked).
    """

    path: str
    bytes: int
    events: int
    until: int
    verified: bool | None


def write_page(
    ledger: Ledger,
    run: str,
    path: str | os.PathLike[str],
    *,
    run_id: str | None = None,
    until: Any = None,
    children: bool = True,
    redact: object = None,
    prices: Any = None,
    verify: bool = True,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PageReport:
    """Write the page of the correlation ``run`` to ``path``, whole or not at all; the owner alone can read it.

    ``run_id`` chooses one of several runs of the correlation for the top of the page. ``until`` is a position or a
    recorded time, inclusive. ``redact`` is what ``open(redact=...)`` takes and changes the page, not the ledger.
    ``prices`` is what :func:`~chatsnapshot.projections.metricsreading.metrics_of` takes; without it costs are unknown.
    ``verify`` reads the whole ledger again and tells on the page what is proven. ``force`` replaces an older file.
    ``progress(done, whole)`` is called while the ledger is verified.

    The same ledger and arguments give the same bytes. Raises :class:`~chatsnapshot.errors.NotFound` for a correlation
    without entries, :class:`~chatsnapshot.errors.LedgerError` for a name that is taken, ``OSError``.
    """
    place = os.fspath(path)
    facts = gather(
        ledger,
        run,
        run_id=run_id,
        until=until,
        children=children,
        redact=redact,
        prices=prices,
        verify=verify,
        progress=progress,
    )
    page = render_page(facts)
    with placed(place, force=force) as file:
        file.write(page)
    return PageReport(
        path=place,
        bytes=len(page),
        events=len(facts.entries),
        until=facts.until,
        verified=None if facts.report is None else facts.report.ok,
    )


def render_page(facts: PageFacts) -> bytes:
    """The page as UTF-8: a pure function."""
    items = listed(facts)
    anchors = Anchors(frozenset(item.position for item in items))
    judged = judgements(facts)
    sections = [
        ("run", "Run", summary(facts, anchors)),
        ("verification", "Verification", verification(facts, anchors)),
        ("runs", "Tree of runs", run_tree(facts.runs.runs, anchors)),
        ("time", "Where the time went", waterfall(facts, anchors)),
        ("transcript", "Transcript", conversation(facts.transcript, anchors)),
        ("graph", "What led to what", graph_picture(facts, anchors)),
        ("metrics", "Metrics", metric_tables(facts.metrics)),
        *([("evaluations", "Evaluations", evaluations(judged, anchors))] if judged else []),
        ("events", "Events", event_list(facts, items, anchors)),
    ]
    title = title_of(facts)
    return document(
        f"{isolated(title, 120)}, a run in ChatSnapshot",
        element("a", "Skip to the run", class_="skip", href="#main"),
        element(
            "header",
            element("p", "ChatSnapshot, a record of a run", class_="brand"),
            element("h1", said(title, 300)),
        ),
        _contents(sections),
        element("main", *(_section(*one) for one in sections), id="main"),
        element("footer", element("p", _source(facts))),
    )


def _contents(sections: Iterable[tuple[str, str, Html]]) -> Html:
    links = [element("li", element("a", name, href=f"#{key}")) for key, name, _ in sections]
    return element("nav", element("ul", *links), aria_label="On this page")


def _section(key: str, name: str, content: Html) -> Html:
    head = element("h2", name, id=f"{key}-heading")
    return element("section", head, content, id=key, aria_labelledby=f"{key}-heading")


def _source(facts: PageFacts) -> Html:
    return joined(
        [
            f"The ledger as it stood at position {facts.until:,}. Times are those that were recorded, UTC. ",
            "This file loads nothing and runs no script.",
        ]
    )

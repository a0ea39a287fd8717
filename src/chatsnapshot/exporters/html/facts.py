"""What a page tells, read once: the views of one run and its children at one position, all from the same entries."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.html.runtree import every_run
from chatsnapshot.projections.criticalpath import critical_path
from chatsnapshot.projections.graphshapes import Graph
from chatsnapshot.projections.metricshapes import Metrics
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.projections.pathshapes import CriticalPath
from chatsnapshot.projections.shapes import Run, Runs, Timeline, Transcript
from chatsnapshot.projections.views import view
from chatsnapshot.redaction import redactor_of
from chatsnapshot.report import Report

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["PageFacts", "facts_of", "gather"]


class PageFacts(msgspec.Struct, frozen=True):
    """Everything on a page. ``until`` is the last position looked at, ``report`` what ``verify`` said, if it was asked.

    ``run`` is the run that the page is about (``None``: the correlation holds none), ``entries`` are in position order.
    """

    correlation_id: str
    until: int
    run: Run | None
    runs: Runs
    timeline: Timeline
    transcript: Transcript
    graph: Graph
    metrics: Metrics
    path: CriticalPath
    entries: list[LedgerEntry]
    redacted: bool
    report: Report | None


class _Held:
    """The entries of a family of correlations, read once, as the views want them."""

    def __init__(self, choice: Choice, correlation_id: str) -> None:
        self._choice = choice
        self.validator = choice.validator
        self.entries = list(choice.replay(correlation_id, children=choice.children))

    def replay(
        self, correlation_id: str, *, until: Any = None, children: bool = False
    ) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def read(self, *, until: Any = None) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    def get(self, event_id: str) -> LedgerEntry:
        return self._choice.get(event_id)


def gather(
    ledger: Ledger,
    run: str,
    *,
    run_id: str | None = None,
    until: Any = None,
    children: bool = True,
    redact: object = None,
    prices: Any = None,
    verify: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> PageFacts:
    """The facts of the correlation ``run``; ``run_id`` chooses one of several runs in it, else the last is told about.

    Raises :class:`~chatsnapshot.errors.NotFound` for a correlation without entries,
    :class:`~chatsnapshot.errors.InvalidEvent` for a price table that cannot be read.
    """
    name = unicodedata.normalize("NFC", run)
    redactor = redactor_of(redact, "withhold")
    choice = Choice(ledger, runs=[name], children=children, until=until, redactor=redactor)
    facts = facts_of(choice, name, run_id=run_id, prices=prices)
    report = ledger.verify(progress=progress) if verify else None
    return msgspec.structs.replace(facts, report=report)


def facts_of(
    choice: Choice,
    name: str,
    *,
    run_id: str | None = None,
    prices: Any = None,
    report: Report | None = None,
) -> PageFacts:
    """The facts of a correlation as far as they were chosen, with a report of ``verify`` that was made before."""
    held = _Held(choice, name)
    runs: Runs = view(held, "runs", name, children=choice.children)
    timeline: Timeline = view(held, "timeline", name, children=choice.children)
    return PageFacts(
        correlation_id=name,
        until=choice.until,
        run=_chosen(runs, name, run_id),
        runs=runs,
        timeline=timeline,
        transcript=view(held, "transcript", name, children=choice.children),
        graph=view(held, "graph", name, children=choice.children),
        metrics=metrics_of(held, name, children=choice.children, prices=prices),
        path=critical_path(timeline),
        entries=held.entries,
        redacted=choice.redactor is not None,
        report=report,
    )


def _chosen(runs: Runs, correlation_id: str, run_id: str | None) -> Run | None:
    mine = [run for run in every_run(runs.runs) if run.correlation_id == correlation_id]
    return next((run for run in mine if run.run_id == run_id), mine[-1] if mine else None)

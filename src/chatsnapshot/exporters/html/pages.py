"""Pages as an export: one run as a page, or several in a folder with a list of them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import JUDGED_OUT, Choice
from chatsnapshot.exporters.html.document import document
from chatsnapshot.exporters.html.facts import PageFacts, facts_of
from chatsnapshot.exporters.html.markup import Html, element, said, table
from chatsnapshot.exporters.html.page import render_page
from chatsnapshot.exporters.html.runtree import badge
from chatsnapshot.exporters.html.summary import title_of
from chatsnapshot.exporters.placing import check_not_of_ledger, placed
from chatsnapshot.projections.words import duration_text

if TYPE_CHECKING:
    from chatsnapshot.report import Report

__all__ = ["INDEX", "HtmlPages", "page_name"]

INDEX = "index.html"
"""The list of the pages of a folder."""

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9._-]{0,79}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


class HtmlPages:
    """A page for each run with its children.

    ``run_ids`` chooses, by correlation, which of several runs stands at the top of a page; ``prices`` is what
    :func:`~chatsnapshot.projections.metricsreading.metrics_of` takes; ``verify=False`` leaves the verification out.
    """

    format = "html"
    what = "a page for a browser; of several runs a folder of pages"
    unit = "runs"
    runs_only = True
    one_run = False
    text = True

    def __init__(
        self, *, run_ids: Mapping[str, str] | None = None, prices: Any = None, verify: bool = True
    ) -> None:
        self._run_ids = dict(run_ids or {})
        self._prices = prices
        self._verify = verify

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The page of the one run that was chosen; raises :class:`InvalidEvent` when there are several."""
        page = None
        for facts in self._each(choice, tally):
            if page is not None:
                raise InvalidEvent(
                    "several runs are several pages; name a folder for them, one that ends with /"
                )
            page = render_page(facts)
        if page is not None:
            out.write(page)

    def write_folder(self, choice: Choice, folder: str, tally: Tally, *, force: bool) -> int:
        """A page for each run that was chosen and is no child of one before it, then the list; gives the bytes.

        The folder is made where it is missing, for its owner alone. Each file appears whole or not at all. Raises
        :class:`~chatsnapshot.errors.LedgerError` for a page that is there already, without ``force``; ``OSError``.
        """
        os.makedirs(folder, mode=0o700, exist_ok=True)
        written = 0
        rows: list[Sequence[str]] = []
        for facts in self._each(choice, tally):
            name = page_name(facts.correlation_id)
            written += _place(os.path.join(folder, name), render_page(facts), choice, force)
            rows.append(_row(name, facts))
        if rows:
            written += _place(os.path.join(folder, INDEX), _index(rows, choice), choice, force)
        return written

    def _each(self, choice: Choice, tally: Tally) -> Iterator[PageFacts]:
        report: Report | None = None
        told: set[str] = set()
        found = dict.fromkeys(run.correlation_id for run in choice.runs())
        if choice.named is not None:
            found = dict.fromkeys(name for name in choice.named if name in found)
        if choice.judged_out:
            tally.left_out[JUDGED_OUT] += choice.judged_out
        if found and self._verify:
            report = choice.ledger.verify()
        for name in choice.each(list(found)):
            if choice.named is None and name in told:
                continue  # it stands on the page of the run above
            run_id = self._run_ids.get(name)
            facts = facts_of(choice, name, run_id=run_id, prices=self._prices, report=report)
            told.update(item.correlation_id for item in facts.timeline.items)
            yield facts
            tally.written += 1


def page_name(correlation_id: str) -> str:
    """The file name of a page: the correlation where that is a plain name, else what is plain in it and a hash.

    Two correlations never have one name, also where case does not count.
    """
    if _PLAIN.fullmatch(correlation_id) and f"{correlation_id}.html" != INDEX:
        return f"{correlation_id}.html"
    mark = hashlib.sha256(correlation_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_UNFIT.sub('_', correlation_id)[:60].strip('_') or 'run'}.{mark}.html"


def _place(path: str, page: bytes, choice: Choice, force: bool) -> int:
    check_not_of_ledger(path, choice.ledger.url)
    with placed(path, force=force) as file:
        file.write(page)
    return len(page)


def _row(name: str, facts: PageFacts) -> Sequence[str]:
    run = facts.run
    link = element("a", said(title_of(facts), 120), href=name)
    # A run that is called by its id needs it once.
    known = title_of(facts) == facts.correlation_id
    called = Html() if known else element("code", said(facts.correlation_id, 120), class_="dim")
    started = None if run is None or run.partial else run.started_at
    return (
        link,
        called,
        badge(run) if run is not None else element("span", "no run", class_="dim"),
        f"{started[:10]} {started[11:19]}" if started else "unknown",
        duration_text(run.duration_ns) if run is not None else "unknown",
        f"{len(facts.timeline.items):,}",
    )


def _index(rows: Sequence[Sequence[str]], choice: Choice) -> bytes:
    many = f"{len(rows):,} run{'' if len(rows) == 1 else 's'}"
    headings = ("Run", "Correlation", "Status", "Started (UTC)", "Took", "Events")
    return document(
        f"{many} in ChatSnapshot",
        element(
            "header",
            element("p", "ChatSnapshot, records of runs", class_="brand"),
            element("h1", many),
        ),
        element("main", element("section", table("Runs, each with those below it", headings, rows))),
        element("footer", element("p", f"The ledger as it stood at position {choice.until:,}.")),
    )

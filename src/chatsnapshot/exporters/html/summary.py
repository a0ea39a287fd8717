"""The top of the page: what the run is, how it ended, and what of it is proven."""

from __future__ import annotations

from collections.abc import Iterator

from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said
from chatsnapshot.exporters.html.measures import cost_text, tokens_text
from chatsnapshot.exporters.html.runtree import badge, every_run
from chatsnapshot.projections.shapes import Run
from chatsnapshot.projections.words import duration_text, evaluation_text
from chatsnapshot.report import Report

__all__ = ["summary", "title_of", "verification"]

PROBLEMS_MAX = 20


def title_of(facts: PageFacts) -> str:
    """What the run is called: its name, else its id, else the correlation."""
    run = facts.run
    return facts.correlation_id if run is None else run.name or run.run_id


def summary(facts: PageFacts, anchors: Anchors) -> Html:
    """Status and facts of the run."""
    rows = [
        joined([element("dt", name), element("dd", value)]) for name, value in _facts(facts, anchors) if value
    ]
    status = (
        element("p", badge(facts.run))
        if facts.run is not None
        else element("p", "No run began or ended here.")
    )
    error: list[Html] = []
    if facts.run is not None and facts.run.error:
        error.append(element("p", said(facts.run.error, 1_000), class_="bad"))
    return joined([status, *error, element("dl", *rows)])


def _moment(at: str | None) -> Html:
    if at is None:
        return Html("unknown")
    return element("time", f"{at[:10]} {at[11:23]} UTC", datetime=at)


def _facts(facts: PageFacts, anchors: Anchors) -> Iterator[tuple[str, str]]:
    run, total = facts.run, facts.metrics.total
    if run is not None:
        yield "Run", element("code", said(run.run_id, 256))
    if run is None or run.correlation_id != run.run_id:
        yield "Correlation", element("code", said(facts.correlation_id, 256))
    if run is not None:
        yield "Reason", said(run.reason, 400) if run.reason else ""
        if run.partial:
            yield "Started", joined(["not recorded; first seen ", _moment(run.first_at)])
        else:
            yield "Started", _moment(run.started_at)
        if run.status in ("unfinished", "unknown"):
            yield "Ended", joined(["no end recorded; last seen ", _moment(run.last_at)])
        else:
            yield "Ended", _moment(run.ended_at)
        yield "Took", _took(facts, run)
        agents = list(dict.fromkeys(name for one in every_run(facts.runs.runs) for name in one.agents))
        yield "Agents", said(", ".join(agents), 400) if agents else ""
        others = [one for one in run.participants if one not in agents]
        yield "Also in it", said(", ".join(others), 400) if others else ""
        runtimes = dict.fromkeys(name for one in every_run(facts.runs.runs) for name in one.runtimes)
        yield "Runtimes", said(", ".join(runtimes), 200) if runtimes else ""
        yield "Tags", said(", ".join(run.tags), 400) if run.tags else ""
    yield "Events", _events(facts, anchors)
    if total.model.calls:
        yield "Tokens", tokens_text(total.model)
        yield "Cost", cost_text(total.model)
    if run is not None and run.evaluations:
        yield "Evaluated", said("; ".join(evaluation_text(one) for one in run.evaluations), 400)
    if run is not None and run.cause is not None:
        where = f"position {run.cause_position:,}" if run.cause_position else "not in this ledger"
        yield "Caused by", joined([element("code", said(run.cause)), f" ({where})"])


def _took(facts: PageFacts, run: Run) -> str:
    took = duration_text(run.duration_ns)
    if len(run.executions) > 1:
        took += f" in {len(run.executions):,} executions"
    whole = facts.path.duration_ns
    return (
        took
        if whole == run.duration_ns
        else f"{took}; {duration_text(whole)} from the first event to the last"
    )


def _events(facts: PageFacts, anchors: Anchors) -> Html:
    items = facts.timeline.items
    ends: list[str] = []
    if items:
        ends = [", positions ", anchors(items[0].position), " to ", anchors(items[-1].position)]
    total = facts.metrics.total
    counts = (
        (total.messages, "message"),
        (total.tools.calls, "tool call"),
        (total.model.calls, "model call"),
        (total.people.questions, "question"),
    )
    words = [f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in counts if number]
    return joined([f"{len(items):,}", *ends, "".join(f", {one}" for one in words)])


def verification(facts: PageFacts, anchors: Anchors) -> Html:
    """What ``verify`` found, in plain words."""
    report = facts.report
    redacted = (
        [element("p", "Secrets were taken out of this page; what was verified is what the ledger holds.")]
        if facts.redacted
        else []
    )
    if report is None:
        words = "This page was made without a verification: chatsnapshot verify makes one."
        return joined([element("p", words, class_="warn"), *redacted])
    return joined([_verdict(report), *redacted, _proof(report), *_problems(report, anchors)])


def _verdict(report: Report) -> Html:
    if not report.entries and report.ok:
        return element("p", "Nothing to verify: the ledger is empty.")
    if report.ok:
        sign, words, colour = "✓", "verified", "good"
    else:
        sign, words, colour = "✗", "not sound", "bad"
    label = element("span", Html(f'<span aria-hidden="true">{sign}</span> '), words, class_=f"badge {colour}")
    if report.ok:
        told = (
            f" All {report.entries:,} entries of the ledger were read again when this page was made. Every payload fits "
            "what the ledger committed to, and together they hash to the root below."
        )
    else:
        told = f" {report.summary}. What this page tells may have been changed after it was recorded."
    return element("p", label, told)


_LEVELS = {
    "A1": "A1: payloads, entries and the tree over them fit each other",
    "A0": "A0: rows are well formed and in order; their hashes do not fit",
    "": "none: not even the rows are sound",
}


def _proof(report: Report) -> Html:
    rows = [
        joined([element("dt", "Level"), element("dd", _LEVELS.get(report.level, report.level))]),
        joined([element("dt", "Root"), element("dd", element("code", report.root or "–"))]),
        joined(
            [
                element("dt", "Entries"),
                element("dd", f"{report.entries:,}, {report.erased:,} with erased payloads"),
            ]
        ),
    ]
    found = [element("dl", *rows)]
    if report.notes:
        found.append(element("p", "Worth knowing: " + "; ".join(report.notes) + ".", class_="small"))
    if report.unproven:
        found.append(element("h3", "What is not proven"))
        found.append(element("ul", *(element("li", _sentence(one)) for one in report.unproven)))
    return joined(found)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _problems(report: Report, anchors: Anchors) -> Iterator[Html]:
    if not report.problems:
        return
    yield element("h3", "Problems")
    lines = []
    for problem in report.problems[:PROBLEMS_MAX]:
        where: list[str] = [anchors(problem.position), " "] if problem.position is not None else []
        lines.append(
            element(
                "li",
                *where,
                said(problem.what),
                ": expected ",
                element("code", said(problem.expected, 100)),
                ", found ",
                element("code", said(problem.found, 100)),
            )
        )
    yield element("ul", *lines)
    if report.problem_count > len(lines):
        yield element("p", f"and {report.problem_count - len(lines):,} more", class_="dim")

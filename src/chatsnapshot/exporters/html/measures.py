"""The metrics of a run as tables, and how it was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chatsnapshot.exporters.html.facts import PageFacts
from chatsnapshot.exporters.html.markup import Anchors, Html, element, joined, said, table
from chatsnapshot.exporters.html.runtree import every_run
from chatsnapshot.projections.metricshapes import Group, Latency, Metrics, ModelUse
from chatsnapshot.projections.shapes import Evaluation, Run
from chatsnapshot.projections.words import duration_text

__all__ = ["cost_text", "evaluations", "judgements", "metric_tables", "tokens_text"]

ROWS_MAX = 60
"""So many rows a table has; the number of the others is told."""


def tokens_text(model: ModelUse) -> str:
    """``1,200 in, 90 out``, and for how many calls that is unknown; empty without any call."""
    tokens = model.tokens
    if not model.calls:
        return ""
    if tokens.unknown_calls == model.calls and not tokens.input + tokens.output:
        return "unknown"
    lost = f", unknown for {_calls(tokens.unknown_calls)}" if tokens.unknown_calls else ""
    return f"{tokens.input:,} in, {tokens.output:,} out{lost}"


def cost_text(model: ModelUse) -> str:
    """The exact amount; with calls of unknown cost it is a part; empty without any call."""
    if not model.calls:
        return ""
    amounts = " + ".join(f"{one.amount} {one.currency}" for one in model.cost)
    if not model.cost_unknown_calls:
        return amounts
    lost = f"unknown for {_calls(model.cost_unknown_calls)}"
    return f"{amounts}, {lost}" if amounts else "unknown"


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"


def metric_tables(metrics: Metrics) -> Html:
    """A table of everything together and one each by agent, model and tool, where there are such."""
    tables = [table("Everything together", ("What", "How much"), _total(metrics))]
    if metrics.by_agent:
        tables.append(_groups("By agent", "Agent", metrics.by_agent, _agent, _AGENT))
    if metrics.by_model:
        tables.append(_groups("By model", "Model", metrics.by_model, _model, _MODEL))
    if metrics.by_tool:
        tables.append(_groups("By tool", "Tool", metrics.by_tool, _tool, _TOOL))
    return joined(tables)


def _total(metrics: Metrics) -> Iterator[tuple[str, str]]:
    total = metrics.total
    yield "Events", f"{total.events:,}, of these {total.messages:,} messages"
    if metrics.runs:
        yield "Runs", ", ".join(f"{number:,} {status}" for status, number in metrics.runs.items())
    if total.model.calls:
        model = total.model
        retried = f", {model.retries:,} retried" if model.retries else ""
        yield "Model calls", f"{model.calls:,}{_failed(model.failed)}{retried}{_times(model.latency)}"
        yield "Tokens", tokens_text(model)
        yield "Cost", cost_text(model)
    if total.tools.calls or total.tools.unmatched:
        tools = total.tools
        odd = f", {tools.open:,} open" if tools.open else ""
        odd += f", {tools.unmatched:,} results without a call" if tools.unmatched else ""
        yield "Tool calls", f"{tools.calls:,}{_failed(tools.failed)}{odd}{_times(tools.latency)}"
    tasks = total.tasks
    counted = [
        (tasks.started, "started"),
        (tasks.completed, "completed"),
        (tasks.failed, "failed"),
        (tasks.cancelled, "cancelled"),
        (tasks.retried, "retried"),
    ]
    if any(number for number, _ in counted):
        yield "Tasks", ", ".join(f"{number:,} {word}" for number, word in counted if number)
    if total.people.questions:
        opened = f", {total.people.open:,} not answered" if total.people.open else ""
        yield "Questions to people", f"{total.people.questions:,}{opened}{_times(total.people.waiting)}"
    if total.handoffs:
        yield "Handoffs", f"{total.handoffs:,}"
    if total.services.calls:
        yield "Calls of services", f"{total.services.calls:,}{_failed(total.services.failed)}"


def _failed(number: int) -> str:
    return f", {number:,} failed" if number else ""


def _times(latency: Latency) -> str:
    told = ""
    if latency.count:
        told = (
            f"; half took up to {duration_text(latency.p50_ns)}, the longest {duration_text(latency.max_ns)}"
        )
    return told + (f"; {latency.unknown:,} of unknown duration" if latency.unknown else "")


_AGENT = ("Events", "Model calls", "Tokens", "Tool calls", "Failed")
_MODEL = ("Calls", "Failed", "Tokens", "Cost", "Median", "Longest")
_TOOL = ("Calls", "Failed", "Open", "Median", "Longest")


def _agent(group: Group) -> Sequence[str]:
    found = group.measures
    return (
        f"{found.events:,}",
        f"{found.model.calls:,}",
        tokens_text(found.model) or "–",
        f"{found.tools.calls:,}",
        f"{found.tools.failed + found.model.failed + found.tasks.failed + found.services.failed:,}",
    )


def _model(group: Group) -> Sequence[str]:
    use = group.measures.model
    return (
        f"{use.calls:,}",
        f"{use.failed:,}",
        tokens_text(use) or "–",
        cost_text(use) or "–",
        duration_text(use.latency.p50_ns),
        duration_text(use.latency.max_ns),
    )


def _tool(group: Group) -> Sequence[str]:
    tools = group.measures.tools
    return (
        f"{tools.calls:,}",
        f"{tools.failed:,}",
        f"{tools.open:,}",
        duration_text(tools.latency.p50_ns),
        duration_text(tools.latency.max_ns),
    )


def _groups(caption: str, what: str, groups: Sequence[Group], cells: object, headings: Sequence[str]) -> Html:
    assert callable(cells)
    shown = groups[:ROWS_MAX]
    rows = [(_key(group), *cells(group)) for group in shown]
    found = table(caption, (what, *headings), rows)
    if len(groups) <= len(shown):
        return found
    more = f"{len(groups) - len(shown):,} more are not in this table."
    return joined([found, element("p", more, class_="dim small")])


def _key(group: Group) -> str:
    return said(group.key) if group.key is not None else "unknown"


def judgements(facts: PageFacts) -> list[tuple[Run, Evaluation]]:
    """Every evaluation of these runs, in order of position."""
    found = [(run, one) for run in every_run(facts.runs.runs) for one in run.evaluations]
    return sorted(found, key=lambda pair: pair[1].position)


def evaluations(judged: Sequence[tuple[Run, Evaluation]], anchors: Anchors) -> Html:
    """The judgements as a table."""
    rows = []
    for run, one in judged[:ROWS_MAX]:
        score = "–" if one.score is None else f"{one.score:.6g}"
        rows.append(
            (
                said(one.name),
                score,
                said(one.label) if one.label else "–",
                joined([said(one.evaluator) if one.evaluator else "–", f" ({one.kind})" if one.kind else ""]),
                said(run.name or run.run_id),
                said(one.comment, 400) if one.comment else "–",
                anchors(one.position),
            )
        )
    found = table(
        "How the runs were judged", ("What", "Score", "Label", "By", "Run", "Comment", "Position"), rows
    )
    more = len(judged) - len(rows)
    return joined([found, element("p", f"{more:,} more.", class_="dim small")]) if more > 0 else found

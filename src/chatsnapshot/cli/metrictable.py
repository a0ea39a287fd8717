"""Metrics as a summary of a few lines, and as a table with a row for each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chatsnapshot.cli.table import Column, table
from chatsnapshot.cli.terminal import Terminal, Text, dim, red, yellow
from chatsnapshot.cli.wording import UNKNOWN, count, moment
from chatsnapshot.projections.words import duration_text

if TYPE_CHECKING:
    from chatsnapshot.projections.metricshapes import Group, Latency, Measures, Metrics, ModelUse

__all__ = ["metric_summary", "metric_table"]

LABEL = 10


def metric_summary(out: Terminal, found: Metrics) -> None:
    """Write what there is to say of everything together; what did not happen is left out."""
    total = found.total
    runs = ", ".join(f"{number:,} {status}" for status, number in found.runs.items())
    shown = f"{count(sum(found.runs.values()), 'run')}: {runs}" if found.runs else "no runs"
    known = found.first_at is not None
    out.line(dim(f"{moment(found.first_at)} to {moment(found.last_at)}" if known else "times are unknown"))
    _line(out, "runs", shown)
    _line(out, "events", f"{total.events:,}, of these {count(total.messages, 'message')}")
    for label, words in _told(total, found.priced):
        _line(out, label, words)


def _line(out: Terminal, label: str, words: Text) -> None:
    out.line(dim(label.ljust(LABEL)), words)


def _told(total: Measures, priced: bool) -> Iterator[tuple[str, Text]]:
    model, tools, people, tasks = total.model, total.tools, total.people, total.tasks
    if model.calls:
        failed = _share(model.failed, model.error_rate)
        retried = f", {count(model.retries, 'retry', 'retries')}" if model.retries else ""
        yield "models", f"{count(model.calls, 'call')}{failed}{retried}{_times(model.latency)}"
        yield "tokens", _tokens(model)
        yield "cost", _cost(model) if priced else dim("unknown; give a price table with --prices")
    if tools.calls or tools.unmatched:
        odd = f", {tools.open:,} open" if tools.open else ""
        odd += f", {count(tools.unmatched, 'result')} without a call" if tools.unmatched else ""
        failed = _share(tools.failed, tools.error_rate)
        yield "tools", f"{count(tools.calls, 'call')}{failed}{odd}{_times(tools.latency)}"
    if tasks.started or tasks.completed or tasks.failed or tasks.retried or tasks.cancelled:
        said = [f"{number:,} {word}" for word, number in _tasks(total) if number]
        yield "tasks", ", ".join(said)
    if people.questions:
        odd = f", {people.open:,} open" if people.open else ""
        yield "people", f"{count(people.questions, 'question')}{odd}{_times(people.waiting)}"
    if total.handoffs:
        yield "handoffs", f"{total.handoffs:,}"
    if total.services.calls or total.services.failed:
        failed = f", {total.services.failed:,} failed" if total.services.failed else ""
        yield "services", f"{count(total.services.calls, 'call')}{failed}"


def _tasks(total: Measures) -> tuple[tuple[str, int], ...]:
    tasks = total.tasks
    return (
        ("started", tasks.started),
        ("completed", tasks.completed),
        ("failed", tasks.failed),
        ("cancelled", tasks.cancelled),
        ("retried", tasks.retried),
    )


def _share(failed: int, rate: float | None) -> str:
    return f", {failed:,} failed ({rate * 100:.1f} %)" if failed and rate is not None else ""


def _times(latency: Latency) -> str:
    said = ""
    if latency.count:
        p50, p90, p99 = map(duration_text, (latency.p50_ns, latency.p90_ns, latency.p99_ns))
        near = "" if latency.exact else " (to 0.4 %)"
        said = f"; p50 {p50}, p90 {p90}, p99 {p99}{near}"
    return said + (f"; {latency.unknown:,} of unknown duration" if latency.unknown else "")


def _tokens(model: ModelUse) -> str:
    tokens = model.tokens
    if tokens.unknown_calls == model.calls and not tokens.input + tokens.output:
        return f"unknown for {count(model.calls, 'call')}"
    cached = [
        f"{number:,} {word}"
        for number, word in ((tokens.cache_read, "from caches"), (tokens.cache_write, "to caches"))
        if number
    ]
    inside = f" ({', '.join(cached)})" if cached else ""
    thought = f" ({tokens.reasoning:,} reasoning)" if tokens.reasoning else ""
    unknown = f"; unknown for {count(tokens.unknown_calls, 'call')}" if tokens.unknown_calls else ""
    return f"{tokens.input:,} in{inside}, {tokens.output:,} out{thought}{unknown}"


def _cost(model: ModelUse) -> Text:
    """An exact amount; with calls of unknown cost it is a part, and with nothing but these unknown."""
    amounts = " + ".join(f"{cost.amount} {cost.currency}" for cost in model.cost)
    if not model.cost_unknown_calls:
        return amounts
    lost = count(model.cost_unknown_calls, "call")
    return yellow(f"{amounts} and unknown for {lost}" if amounts else f"unknown for {lost}")


def metric_table(out: Terminal, found: Metrics, by: str) -> None:
    """Write a row for each group."""
    groups: Sequence[Group] = getattr(found, f"by_{by}")
    if not groups:
        out.line(dim(f"nothing to group by {by}"))
        return
    name = Column(by.upper(), gives=2)
    if by == "tool":
        times = [Column(f"P{share}", right=True) for share in (50, 90, 99)]
        headings = [name, *(Column(one, right=True) for one in ("CALLS", "FAILED", "OPEN")), *times]
        table(out, headings, [_tool_row(out, group) for group in groups])
        return
    headings = [
        name,
        Column("NAME" if by == "run" else "PROVIDER" if by == "model" else "", gives=1, spare=1),
        Column("STATUS" if by == "run" else ""),
        Column("" if by == "model" else "EVENTS", right=True, spare=1),
        Column("MODEL CALLS", right=True),
        Column("FAILED", right=True),
        Column("TOKENS IN", right=True),
        Column("OUT", right=True),
        Column("COST", right=True),
        Column("P50", right=True, spare=1),
        Column("P99", right=True, spare=1),
        Column("" if by == "model" else "TOOL CALLS", right=True, spare=1),
        Column("" if by == "model" else "FAILED", right=True, spare=1),
    ]
    table(out, headings, [_row(out, group, by, found.priced) for group in groups])


def _key(out: Terminal, group: Group) -> Text:
    return dim("unknown") if group.key is None else out.one_line(group.key)


def _failed(number: int) -> Text:
    return red(f"{number:,}") if number else ""


def _took(ns: int | None) -> str:
    return "" if ns is None else duration_text(ns)


def _tool_row(out: Terminal, group: Group) -> tuple[Text, ...]:
    tools, latency = group.measures.tools, group.measures.tools.latency
    opened: Text = yellow(f"{tools.open:,}") if tools.open else ""
    times = _took(latency.p50_ns), _took(latency.p90_ns), _took(latency.p99_ns)
    return (_key(out, group), f"{tools.calls:,}", _failed(tools.failed), opened, *times)


def _known(tokens: int, model: ModelUse) -> str:
    if not model.calls:
        return ""
    return UNKNOWN if not tokens and model.tokens.unknown_calls == model.calls else f"{tokens:,}"


def _row(out: Terminal, group: Group, by: str, priced: bool) -> tuple[Text, ...]:
    model, tools = group.measures.model, group.measures.tools
    name = out.one_line(group.name or "") if group.name != group.key else ""
    told = tools.calls and by != "model"
    cost: Text = ""
    if model.calls:
        amounts = " + ".join(f"{one.amount} {one.currency}" for one in model.cost)
        lost = f"{model.cost_unknown_calls:,} unknown"
        cost = yellow(f"{amounts} + {lost}" if amounts else lost) if model.cost_unknown_calls else amounts
    return (
        _key(out, group),
        name,
        group.status or "",
        f"{group.measures.events:,}" if by != "model" else "",
        f"{model.calls:,}" if model.calls else "",
        _failed(model.failed),
        *(_known(number, model) for number in (model.tokens.input, model.tokens.output)),
        (cost if priced else UNKNOWN) if model.calls else "",
        _took(model.latency.p50_ns),
        _took(model.latency.p99_ns),
        f"{tools.calls:,}" if told else "",
        _failed(tools.failed) if by != "model" else "",
    )

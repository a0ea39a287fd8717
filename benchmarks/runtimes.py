"""What recording adds to a run of each agent runtime that is here, beside a bare ``record`` and its OpenTelemetry."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import logging
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import chatsnapshot
from benchmarks.measure import Result, interleave
from chatsnapshot.testing import adapters

PLAYS = 8
"""How often the story is played in a round: one message with two tool calls at once, then the answer; for agents that
tell of no tools (A2A), the question and the answer."""
STORIES = ("parallel_tools", "plain")
"""What is played: the first of these that the runtime has."""
ADDED_MAX = 1.5
GROWN_EVENTS = 1_000
"""More than fit into the 4,000 pages after which SQLite begins its log anew, at some five pages a commit."""
ADAPTERS = (
    *("langgraph", "openai_agents", "pydantic_ai", "crewai", "google_adk", "agent_framework"),
    "autogen_agentchat",
    *("strands", "smolagents"),
    "llama_index",
    *("mcp_calls", "a2a", "ag_ui", "custom"),
)
NOT_HERE = frozenset({"ag2", "custom"})
"""AG2 has measurements of its own; the custom bench is no runtime."""


def run(folder: str, rounds: int) -> None:
    logging.disable(logging.WARNING)
    print(
        "Runs with two tools at once, durable events in SQLite. What recording adds to an event, in bare records of\n"
        f"the same event, made in the run where it is told of (at most {ADDED_MAX}); then in bare records made in a\n"
        "loop that does nothing else. Beside them the runtime's usual OpenTelemetry instrumentation"
    )
    _imports(rounds)
    missing = []
    for name in adapters.benches():
        for bench in adapters.named(name):
            if bench.runtime in NOT_HERE:
                continue
            made = bench()
            story = next((one for one in STORIES if one not in made.lacks), None)
            if story is None:
                continue
            if absent := made.missing():
                missing.append(absent)
            else:
                _measure(folder, rounds, made, story)
    if missing:
        print(
            f"  not installed here, measured in environments of their own: {', '.join(sorted(set(missing)))}"
        )


def _imports(rounds: int) -> None:
    """What importing an adapter costs beside Python alone, and what the ledger does, in processes of their own."""
    names = {
        "Python alone": "sys",
        "the ledger": "chatsnapshot.ledger",
        **{name: f"chatsnapshot.adapters.{name}" for name in ADAPTERS},
    }
    found = interleave(
        {name: _Turn(1, functools.partial(_import, module)) for name, module in names.items()}, rounds
    )
    # The quickest of the rounds: starting a process takes longer for many reasons, and shorter for none.
    took = {name: 1e3 / max(one.rates) for name, one in found.items()}
    alone, ledger = took.pop("Python alone"), took.pop("the ledger")
    worst = max(took, key=lambda name: took[name])
    print(
        f"  importing an adapter, its runtime unused: {statistics.median(took.values()) - alone:.0f} ms, most "
        f"{took[worst] - alone:.0f} ms ({worst}); the ledger {ledger - alone:.0f} ms"
    )


def _import(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)


def _measure(folder: str, rounds: int, bench: adapters.AdapterBench, story: str) -> None:
    ledger, inside, loop = (
        chatsnapshot.open(os.path.join(folder, f"{bench.runtime}-{what}.db"))
        for what in ("recorded", "inside", "loop")
    )
    recorder = bench.recorder(ledger)
    _play(bench, story, recorder, 1)
    recorder.flush(10)
    events = [
        {"event_type": one.event_type, "payload": one.payload, "correlation_id": one.correlation_id}
        for one in ledger.read()
    ]
    if not events:
        print(f"  {bench.runtime:<16} this version of {bench.package} does not play the story")
        return
    count = len(events) * PLAYS
    for one in (ledger, inside, loop):
        grown(one, events)

    def barely() -> None:
        for _ in range(PLAYS):
            for event in events:
                loop.record(**event)

    contestants: dict[str, Callable[[], object]] = {
        "alone": lambda: _play(bench, story, None, PLAYS),
        "recorded": lambda: _play(bench, story, recorder, PLAYS),
        "loop": barely,
        "inside": lambda: _play(bench, story, silent_recorder(inside), PLAYS),
        "silent": lambda: _play(bench, story, silent_recorder(None), PLAYS),
    }

    def silent_recorder(told: Any) -> Any:
        return _instead(bench.recorder(ledger), told)

    if _instrumented(bench.runtime) is not None:
        contestants["traced"] = lambda: _traced(bench, story)
    turns = {name: _Turn(count, work) for name, work in contestants.items()}
    found = interleave(turns, rounds)
    _report(bench.runtime, len(events), found, {name: turn.cpu for name, turn in turns.items()})
    for one in (ledger, inside, loop):
        one.close()


def grown(ledger: chatsnapshot.Ledger, events: list[dict[str, Any]]) -> None:
    """Record the events until the file has had a checkpoint: commits are slower while its log still grows."""
    for number in range(GROWN_EVENTS):
        ledger.record(**events[number % len(events)])


def _instead(recorder: Any, ledger: Any) -> Any:
    """A recorder that builds its events, and has them recorded one at a time by a bare ``record``, or not at all."""

    def record(*events: Any, seconds_max: float | None = None) -> None:
        for event in events if ledger is not None else ():
            ledger.record(event["event_type"], event["payload"], correlation_id=event["correlation_id"])

    async def arecord(*events: Any) -> None:
        record(*events)

    recorder.safe.record, recorder.safe.arecord = record, arecord
    return recorder


def _play(bench: adapters.AdapterBench, story: str, recorder: Any, times: int) -> None:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(times):
            bench.play(story, recorder)


def _traced(bench: adapters.AdapterBench, story: str) -> None:
    instrumented = _instrumented(bench.runtime)
    assert instrumented is not None
    with instrumented():
        _play(bench, story, None, PLAYS)


class _Turn:
    """A turn of a contestant; remembers the processor time of each item, in seconds."""

    def __init__(self, count: int, work: Callable[[], object]) -> None:
        self._count, self._work = count, work
        self.cpu: list[float] = []

    def __call__(self) -> int:
        begin = time.process_time()
        self._work()
        self.cpu.append((time.process_time() - begin) / self._count)
        return self._count


def _report(runtime: str, events: int, found: dict[str, Result], cpu: dict[str, list[float]]) -> None:
    times = {name: [1 / rate for rate in one.rates] for name, one in found.items()}
    cpu = {name: took[1:] for name, took in cpu.items()}  # the first round warms up
    verdict = "  ok" if bare_records(times) <= ADDED_MAX else f"  ABOVE {ADDED_MAX:g}"
    print(f"  {runtime:<16} {events:>3} events   time {_line(times)}{verdict}")
    print(f"  {'':<16} {'':>3}           CPU  {_line(cpu)}")


def _line(took: dict[str, list[float]]) -> str:
    """What was measured, in microseconds an event."""

    def micros(more: str, less: str | None = None) -> str:
        less_by = took[less] if less else [0.0] * len(took[more])
        return f"{statistics.median(a - b for a, b in zip(took[more], less_by, strict=True)) * 1e6:>6,.0f} µs"

    traced = f", OpenTelemetry {micros('traced', 'alone')}" if "traced" in took else ""
    return (
        f"adds {micros('recorded', 'alone')}{traced}; a bare record {micros('inside', 'silent')}, in a loop "
        f"{micros('loop')}; run alone {micros('alone')}   ratio {bare_records(took):5.2f}, "
        f"{bare_records(took, 'loop'):5.2f}"
    )


def bare_records(took: dict[str, list[float]], where: str = "inside") -> float:
    """The median over the rounds of what is added, in bare records made in the run or in a loop."""
    rounds = range(len(took["recorded"]))
    added = [took["recorded"][at] - took["alone"][at] for at in rounds]
    bare = [took[where][at] - (took["silent"][at] if where == "inside" else 0) for at in rounds]
    return statistics.median(one / two for one, two in zip(added, bare, strict=True))


_INSTRUMENTORS = {
    "langgraph": ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    "openai_agents": ("openinference.instrumentation.openai_agents", "OpenAIAgentsInstrumentor"),
    "crewai": ("openinference.instrumentation.crewai", "CrewAIInstrumentor"),
}


def _instrumented(runtime: str) -> Callable[[], contextlib.AbstractContextManager[Any]] | None:
    """What records the runtime's spans into memory, where its usual instrumentation is installed."""
    try:
        trace = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        if runtime == "pydantic_ai":
            agents = importlib.import_module("pydantic_ai")
        elif runtime == "strands":
            tracing = importlib.import_module("strands.telemetry.tracer").get_tracer()
        else:
            module, name = _INSTRUMENTORS[runtime]
            instrumentor = getattr(importlib.import_module(module), name)
    except (ImportError, KeyError):
        return None

    @contextlib.contextmanager
    def instrumented() -> Iterator[None]:
        provider = trace.TracerProvider()
        provider.add_span_processor(export.BatchSpanProcessor(memory.InMemorySpanExporter()))
        if runtime == "pydantic_ai":
            agents.Agent.instrument_all(agents.InstrumentationSettings(tracer_provider=provider))
            try:
                yield
            finally:
                agents.Agent.instrument_all(False)
        elif runtime == "strands":
            before, tracing.tracer = tracing.tracer, provider.get_tracer("strands-agents")
            try:
                yield
            finally:
                tracing.tracer = before
        else:
            instrumentor().instrument(tracer_provider=provider)
            try:
                yield
            finally:
                instrumentor().uninstrument()
        provider.shutdown()

    return instrumented

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
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import chatsnapshot
from benchmarks.added import ADDED_MAX, Turn, grown, instead, report, same
from benchmarks.measure import interleave
from chatsnapshot.testing import adapters

PLAYS = 8
"""How often the story is played in a round: one message with two tool calls at once, then the answer; for agents that
tell of no tools (A2A), the question and the answer."""
STORIES = ("parallel_tools", "plain")
"""What is played: the first of these that the runtime has."""
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
        {name: Turn(1, functools.partial(_import, module)) for name, module in names.items()}, rounds
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
    events = same(ledger)
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
        return instead(bench.recorder(ledger), told)

    if _instrumented(bench.runtime) is not None:
        contestants["traced"] = lambda: _traced(bench, story)
    report(f"{bench.runtime:<16} {len(events):>3} events", count, contestants, rounds)
    for one in (ledger, inside, loop):
        one.close()


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

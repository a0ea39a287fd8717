"""What recording adds to an AG2 turn, beside a bare ``record`` of the same events and AG2's own ways to log."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import chatsnapshot
from benchmarks.measure import Result, interleave
from chatsnapshot.adapters.ag2 import AG2Recorder

TOOLS = 10
"""Tool calls in a turn; each is a model call, its response, the call and the result."""
ADDED_MAX = 1.5


def run(folder: str, rounds: int) -> None:
    logging.getLogger("ag2").setLevel(logging.CRITICAL)
    _present(folder, rounds)
    _classic(folder, rounds)


def _present(folder: str, rounds: int) -> None:
    from ag2 import Agent, KnowledgeConfig
    from ag2.events import ToolCallEvent
    from ag2.knowledge import SqliteKnowledgeStore
    from ag2.testing import TestConfig

    ledger = chatsnapshot.open(os.path.join(folder, "us.db"))
    bare = chatsnapshot.open(os.path.join(folder, "bare.db"))
    recorder = AG2Recorder(ledger)
    store = SqliteKnowledgeStore(os.path.join(folder, "knowledge.db"))

    def turn(**options: Any) -> None:
        calls = [
            ToolCallEvent("add", id=f"call-{n}", arguments=json.dumps({"a": n, "b": 2})) for n in range(TOOLS)
        ]
        agent = Agent("sums", config=TestConfig(*calls, "done"), tools=[add], **options)
        asyncio.run(agent.ask("Add these numbers, please."))

    turn(middleware=[recorder.middleware])
    events = _same(ledger.read())
    count = len(events)

    def with_log() -> None:
        turn(knowledge=KnowledgeConfig(store=store))

    print(
        f"A turn of AG2 1.x with {TOOLS} tools, {count} durable events in SQLite (added time at most {ADDED_MAX})"
    )
    found = interleave(
        {
            "alone": _items(count, turn),
            "recorded": _items(count, lambda: turn(middleware=[recorder.middleware])),
            "bare": _items(count, lambda: _record(bare, events)),
            "log": _items(count, with_log),
        },
        rounds,
    )
    _report("  AG2Recorder", found, "recorded", ADDED_MAX)
    _report("  AG2's EventLogWriter, at the end of the turn", found, "log")
    ledger.close()
    bare.close()


def _classic(folder: str, rounds: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from autogen import ConversableAgent, UserProxyAgent, runtime_logging

    ledger = chatsnapshot.open(os.path.join(folder, "classic.db"))
    bare = chatsnapshot.open(os.path.join(folder, "classic-bare.db"))
    recorder = AG2Recorder(ledger)

    def chat() -> None:
        replies = iter([*(_asks(n) for n in range(TOOLS)), {"content": "TERMINATE"}])
        assistant = ConversableAgent("assistant", llm_config=False, human_input_mode="NEVER")
        assistant.register_reply([ConversableAgent, None], lambda *_, **__: (True, next(replies)), position=0)
        user = UserProxyAgent(
            "user", human_input_mode="NEVER", code_execution_config=False, function_map={"add": add}
        )
        user.initiate_chat(assistant, message="Add these numbers, please.")

    def quiet(work: Callable[[], None]) -> None:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()

    def teed() -> None:
        with recorder.tee():
            chat()

    def logged() -> None:
        runtime_logging.start(logger_type="sqlite", config={"dbname": os.path.join(folder, "runtime.db")})
        try:
            chat()
        finally:
            runtime_logging.stop()

    quiet(teed)
    events = _same(ledger.read())
    count = len(events)
    print(f"A chat of the classic line with {TOOLS} tools, {count} events (added time at most {ADDED_MAX})")
    found = interleave(
        {
            "alone": _items(count, lambda: quiet(chat)),
            "recorded": _items(count, lambda: quiet(teed)),
            "bare": _items(count, lambda: _record(bare, events)),
            "log": _items(count, lambda: quiet(logged)),
        },
        rounds,
    )
    _report("  tee()", found, "recorded", ADDED_MAX)
    _report("  AG2's SQLite logger", found, "log")
    ledger.close()
    bare.close()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _asks(n: int) -> dict[str, Any]:
    function = {"name": "add", "arguments": json.dumps({"a": n, "b": 2})}
    return {"content": None, "tool_calls": [{"id": f"call-{n}", "type": "function", "function": function}]}


def _same(entries: Any) -> list[dict[str, Any]]:
    return [
        {"event_type": one.event_type, "payload": one.payload, "correlation_id": one.correlation_id}
        for one in entries
    ]


def _record(ledger: chatsnapshot.Ledger, events: list[dict[str, Any]]) -> None:
    for event in events:
        ledger.record(**event)


def _items(count: int, work: Callable[[], object]) -> Callable[[], int]:
    def contestant() -> int:
        work()
        return count

    return contestant


def _report(what: str, found: dict[str, Result], mine: str, most: float | None = None) -> None:
    """Added time an event, and how many bare records that is; medians over the rounds."""
    rounds = zip(found[mine].rates, found["alone"].rates, found["bare"].rates, strict=True)
    added, ratios = [], []
    for with_it, alone, bare in rounds:
        added.append((1 / with_it - 1 / alone) * 1e6)
        ratios.append((1 / with_it - 1 / alone) * bare)
    times = statistics.median(ratios)
    verdict = "" if most is None else ("  ok" if times <= most else f"  ABOVE {most:g}")
    print(
        f"{what:<46} adds {statistics.median(added):>6,.0f} µs an event; bare record "
        f"{1e6 / found['bare'].median:>6,.0f} µs; turn alone {1e6 / found['alone'].median:>6,.0f} µs   "
        f"ratio {times:5.2f}{verdict}"
    )

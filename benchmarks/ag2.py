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
from benchmarks.added import ADDED_MAX, grown, instead, report, same
from benchmarks.measure import Result
from chatsnapshot.adapters.ag2 import AG2Recorder

TOOLS = 10
"""Tool calls in a turn; each is a model call, its response, the call and the result."""


def run(folder: str, rounds: int) -> None:
    logging.getLogger("ag2").setLevel(logging.CRITICAL)
    _present(folder, rounds)
    _classic(folder, rounds)


def _present(folder: str, rounds: int) -> None:
    from ag2 import Agent, KnowledgeConfig
    from ag2.events import ToolCallEvent
    from ag2.knowledge import SqliteKnowledgeStore
    from ag2.testing import TestConfig

    ledger, inside, loop = _ledgers(folder, "present")
    recorder = AG2Recorder(ledger)
    store = SqliteKnowledgeStore(os.path.join(folder, "knowledge.db"))

    def turn(**options: Any) -> None:
        calls = [
            ToolCallEvent("add", id=f"call-{n}", arguments=json.dumps({"a": n, "b": 2})) for n in range(TOOLS)
        ]
        agent = Agent("sums", config=TestConfig(*calls, "done"), tools=[add], **options)
        asyncio.run(agent.ask("Add these numbers, please."))

    turn(middleware=[recorder.middleware])
    events = same(ledger)
    for one in (ledger, inside, loop):
        grown(one, events)

    def told(to: chatsnapshot.Ledger | None) -> None:
        turn(middleware=[instead(AG2Recorder(ledger), to).middleware])

    print(f"A turn of AG2 1.x with {TOOLS} tools, durable events in SQLite (added time at most {ADDED_MAX})")
    found = report(
        f"AG2Recorder      {len(events):>3} events",
        len(events),
        {
            "alone": turn,
            "recorded": lambda: turn(middleware=[recorder.middleware]),
            "loop": lambda: _record(loop, events),
            "inside": lambda: told(inside),
            "silent": lambda: told(None),
            "log": lambda: turn(knowledge=KnowledgeConfig(store=store)),
        },
        rounds,
    )
    _log("AG2's EventLogWriter, at the end of the turn", found)
    for one in (ledger, inside, loop):
        one.close()


def _classic(folder: str, rounds: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from autogen import ConversableAgent, UserProxyAgent, runtime_logging

    ledger, inside, loop = _ledgers(folder, "classic")
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

    def teed(by: Any = recorder) -> None:
        with by.tee():
            chat()

    def logged() -> None:
        runtime_logging.start(logger_type="sqlite", config={"dbname": os.path.join(folder, "runtime.db")})
        try:
            chat()
        finally:
            runtime_logging.stop()

    quiet(teed)
    events = same(ledger)
    for one in (ledger, inside, loop):
        grown(one, events)

    def told(to: chatsnapshot.Ledger | None) -> None:
        quiet(lambda: teed(instead(AG2Recorder(ledger), to)))

    print(f"A chat of the classic line with {TOOLS} tools (added time at most {ADDED_MAX})")
    found = report(
        f"tee()            {len(events):>3} events",
        len(events),
        {
            "alone": lambda: quiet(chat),
            "recorded": lambda: quiet(teed),
            "loop": lambda: _record(loop, events),
            "inside": lambda: told(inside),
            "silent": lambda: told(None),
            "log": lambda: quiet(logged),
        },
        rounds,
    )
    _log("AG2's SQLite logger", found)
    for one in (ledger, inside, loop):
        one.close()


def _ledgers(folder: str, line: str) -> list[chatsnapshot.Ledger]:
    return [
        chatsnapshot.open(os.path.join(folder, f"{line}-{what}.db"))
        for what in ("recorded", "inside", "loop")
    ]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _asks(n: int) -> dict[str, Any]:
    function = {"name": "add", "arguments": json.dumps({"a": n, "b": 2})}
    return {"content": None, "tool_calls": [{"id": f"call-{n}", "type": "function", "function": function}]}


def _record(ledger: chatsnapshot.Ledger, events: list[dict[str, Any]]) -> None:
    for event in events:
        ledger.record(**event)


def _log(what: str, found: dict[str, Result]) -> None:
    """What AG2's own way to log adds."""
    rounds = zip(found["log"].rates, found["alone"].rates, strict=True)
    added = statistics.median((1 / logged - 1 / alone) * 1e6 for logged, alone in rounds)
    print(f"  {what}: adds {added:,.0f} µs an event")

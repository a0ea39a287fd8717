"""A ledger with a small story in it, made of fixed ids, times and salts, and exports into bytes."""

from __future__ import annotations

import io
import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.exporters import export

NOON = 1_795_953_600_000_000_000
AGENT = {"origin": "agent", "runtime": "test", "name": "planner"}
CHILD = {"origin": "agent", "runtime": "test", "name": "reader"}
PERSON = {"origin": "ui", "runtime": "none", "name": "dana"}


def fixed_ledger() -> Any:
    """An empty memory ledger whose clock and chance repeat."""
    seconds = itertools.count()
    chance = random.Random(1)
    return chatsnapshot.open(
        "memory:", clock=lambda: NOON + next(seconds) * 1_000_000_000, entropy=chance.randbytes
    )


class Teller:
    """Records events a second apart, with ids that count up."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.number = 0

    def __call__(self, event_type: str, payload: Any, correlation: str = "run-1", **options: Any) -> Any:
        self.number += 1
        return self.ledger.record(
            event_type,
            payload,
            correlation_id=correlation,
            event_id=f"00000000-0000-4000-8000-{self.number:012d}",
            timestamp=f"2026-11-30T02:26:{self.number:02d}.000000Z",
            **{"source": AGENT, **options},
        )


@pytest.fixture
def ledger() -> Iterator[Any]:
    with fixed_ledger() as opened:
        yield opened


@pytest.fixture
def tell(ledger: Any) -> Teller:
    """``tell(event_type, payload, correlation)``: one event, a second after the last."""
    return Teller(ledger)


@pytest.fixture
def story(ledger: Any, tell: Teller) -> Any:
    """A run that asks a tool twice (it fails once), hands a part to a child run, completes and is judged."""
    tell("execution.run_started", {"name": "triage"})
    tell("execution.message", {"role": "user", "content": "When is high tide?"}, source=PERSON)
    call = {"tool_name": "search", "arguments": {"q": "tides"}}
    first = tell("execution.tool_call", {**call, "call_id": "c1"})
    tell("execution.tool_result", {"call_id": "c1", "error": "no answer"}, causation_id=first)
    second = tell("execution.tool_call", {**call, "call_id": "c2"})
    tell("execution.run_started", {"name": "read table"}, "child-1", causation_id=second, source=CHILD)
    tell("execution.message", {"role": "assistant", "content": "04:12"}, "child-1", source=CHILD)
    tell("execution.run_completed", {}, "child-1", source=CHILD)
    tell("execution.tool_result", {"call_id": "c2", "result": "04:12"}, causation_id=second)
    usage = {"input_tokens": 5, "output_tokens": 2}
    tell(
        "execution.model_call", {"model": "m-1", "provider": "p", "duration_ns": 500_000_000, "usage": usage}
    )
    tell("execution.message", {"role": "assistant", "content": "=At 04:12."}, attributes={"outcome": "said"})
    tell("execution.run_completed", {"output": "At 04:12."})
    tell("execution.evaluation", {"name": "correctness", "score": 0.9, "run_id": "run-1"})
    return ledger


@pytest.fixture
def exported() -> Callable[..., bytes]:
    """``exported(ledger, "csv", **options)``: the bytes of an export."""

    def run(ledger: Any, format: str, **options: Any) -> bytes:
        out = io.BytesIO()
        export(ledger, out, format, **options)
        return out.getvalue()

    return run


@pytest.fixture
def lines(exported: Callable[..., bytes]) -> Callable[..., list[Any]]:
    """``lines(ledger, "jsonl", **options)``: the JSON lines of an export."""

    def run(ledger: Any, format: str, **options: Any) -> list[Any]:
        return [json.loads(line) for line in exported(ledger, format, **options).splitlines()]

    return run


@pytest.fixture
def timeless(tell: Teller) -> Any:
    """An event whose time its file did not know."""
    return tell(
        "execution.message", {"role": "user", "content": "when?", "native": {"time": "unknown"}}, "old-1"
    )

"""Events to record in checks: plain numbered ones, and a varied set whose every column matters."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

__all__ = ["Ticking", "entropy_of", "event", "events", "new_id", "varied"]

TYPES = (
    "execution.message",
    "execution.tool_call",
    "execution.tool_result",
    "execution.run_started",
    "execution_log.line",
    "system.task_started",
    "ui.input_received",
    "custom.a.b",
)


def event(number: int, correlation_id: str = "run-1", **options: Any) -> dict[str, Any]:
    """The arguments of one ``record``; the payload tells the number."""
    return {
        "event_type": "execution.message",
        "correlation_id": correlation_id,
        "payload": {"role": "user", "content": f"number {number}", "number": number},
        **options,
    }


def events(count: int, correlation_id: str = "run-1", first: int = 0) -> list[dict[str, Any]]:
    """So many numbered events."""
    return [event(first + number, correlation_id) for number in range(count)]


def new_id(chance: random.Random) -> str:
    """A UUID out of repeatable chance."""
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def varied(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Events that differ in every column, with ids and times of their own; causes point to earlier ones."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        source = {"origin": chance.choice(["agent", "system", "ui", "integration"])}
        if chance.random() < 0.5:
            source["runtime"] = chance.choice(["ag2", "langgraph", "custom"])
        if chance.random() < 0.4:
            source["name"] = chance.choice(["Ann", "planner", "naïve ☃", 'quote"d'])
        one: dict[str, Any] = {
            "event_id": new_id(chance),
            "event_type": chance.choice(TYPES),
            "correlation_id": chance.choice(["run-1", "run-2", "run 3 %_'\"", "läuft-4"]),
            "timestamp": f"2026-11-{chance.randint(1, 28):02d}T{chance.randint(0, 23):02d}:00:00.{number:06d}Z",
            "source": source,
            "payload": {"number": number, "text": chance.choice(["", "x" * 40, "naïve ☃ \u2028", "\x00"])},
        }
        if made and chance.random() < 0.5:
            one["causation_id"] = chance.choice(made)["event_id"]
        if chance.random() < 0.5:
            one["attributes"] = {
                "outcome": chance.choice(["ok", "failed", "1"]),
                "done": chance.choice([True, False]),
                "tries": chance.choice([0, 1, 2**53 - 1, -1]),
                "subjects": chance.sample(["ann", "bob", "cid", 'd"e'], 2),
            }
        if chance.random() < 0.2:
            one["schema_version"] = chance.randint(2, 9)
        made.append(one)
    return made


class Ticking:
    """A clock that goes on by a millisecond a call, from 2026-11-30 on; ``nanoseconds`` may be set."""

    def __init__(self, nanoseconds: int = 1_796_000_000_000_000_000, step: int = 1_000_000) -> None:
        self.nanoseconds = nanoseconds
        self.step = step

    def __call__(self) -> int:
        self.nanoseconds += self.step
        return self.nanoseconds


def entropy_of(chance: random.Random) -> Callable[[int], bytes]:
    """A salt source that the chance repeats."""

    def entropy(count: int) -> bytes:
        return chance.randbytes(count) if count else b""

    return entropy

"""A small rollout of Codex to be written line by line, and a strict ledger to import it into."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

THREAD = "019b0000-0000-7000-8000-000000000001"


class Rollout:
    """Writes the lines of one thread, each a second after the one before."""

    def __init__(self, thread: str = THREAD, second: float = 0, **meta: Any) -> None:
        self.thread, self.second = thread, second
        self.lines: list[dict[str, Any]] = []
        self.total = 0
        facts = {
            "id": thread,
            "timestamp": self.time(),
            "cwd": "/shed",
            "cli_version": "0.90.0",
            "source": "cli",
        }
        self.line("session_meta", {**facts, "model_provider": "openai", **meta})

    def time(self) -> str:
        return f"2026-11-30T10:{int(self.second) // 60:02d}:{self.second % 60:06.3f}Z"

    def line(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        found = {"timestamp": self.time(), "type": kind, "payload": payload}
        self.second += 1
        self.lines.append(found)
        return found

    def event(self, kind: str, **facts: Any) -> dict[str, Any]:
        return self.line("event_msg", {"type": kind, **facts})

    def item(self, kind: str, **facts: Any) -> dict[str, Any]:
        return self.line("response_item", {"type": kind, **facts})

    def user(self, text: str) -> None:
        """A prompt as Codex writes it: for the model, and for the person."""
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        self.event("user_message", message=text, images=[])

    def answer(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def call(self, call_id: str, name: str, arguments: Any) -> None:
        self.item("function_call", name=name, arguments=json.dumps(arguments), call_id=call_id)

    def output(self, call_id: str, output: Any) -> None:
        self.item("function_call_output", call_id=call_id, output=output)

    def tokens(self, used: int = 10) -> None:
        self.total += used
        counts = {
            "input_tokens": used,
            "cached_input_tokens": 1,
            "output_tokens": 2,
            "reasoning_output_tokens": 1,
        }
        totals = {"input_tokens": self.total, "total_tokens": self.total}
        self.event(
            "token_count", info={"total_token_usage": totals, "last_token_usage": counts}, rate_limits={}
        )

    def write(self, folder: Path, name: str | None = None) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or f"rollout-2026-11-30T10-00-00-{self.thread}.jsonl")
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path


@pytest.fixture
def rollout() -> type[Rollout]:
    """``rollout(thread, second, **meta)``: writes lines."""
    return Rollout


@pytest.fixture
def ledger() -> Iterator[Any]:
    """Refuses what does not fit the catalogue."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def told(ledger: Any) -> Callable[..., list[Any]]:
    """``told("message", correlation=...)``: the events of a type, in their order."""

    def find(*names: str, correlation: str = THREAD) -> list[Any]:
        wanted = {f"execution.{name}" for name in names}
        return [
            one for one in ledger.read(correlation_id=correlation) if one.event_type in wanted or not names
        ]

    return find

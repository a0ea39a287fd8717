"""A small Claude Code session to be written line by line, and a strict ledger to import it into."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

SESSION = "5b1c0f6e-0000-4000-8000-000000000001"


class Author:
    """Writes the lines of one file: each follows from the one before, a second later, unless it is told otherwise."""

    def __init__(self, session: str = SESSION, agent: str | None = None, second: float = 0) -> None:
        self.session, self.agent, self.second = session, agent, second
        self.last: str | None = None
        self.lines: list[dict[str, Any]] = []

    def line(self, kind: str, **more: Any) -> dict[str, Any]:
        number = f"{self.session} {self.agent} {len(self.lines)}"
        found: dict[str, Any] = {
            "parentUuid": self.last,
            "isSidechain": self.agent is not None,
            "userType": "external",
            "cwd": "/shed",
            "sessionId": self.session,
            "version": "2.1.0",
            "gitBranch": "main",
            "type": kind,
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, number)),
            "timestamp": f"2026-11-30T10:{int(self.second) // 60:02d}:{self.second % 60:06.3f}Z",
        }
        if self.agent is not None:
            found["agentId"] = self.agent
        found |= more
        self.second += 1
        self.last = found["uuid"] or self.last
        self.lines.append(found)
        return found

    def user(self, content: Any, **more: Any) -> dict[str, Any]:
        return self.line("user", message={"role": "user", "content": content}, **more)

    def assistant(
        self, message_id: str, *blocks: Any, stop: str | None = None, out: int = 5, **more: Any
    ) -> Any:
        message = {
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": list(blocks),
            "stop_reason": stop,
            "usage": {
                "input_tokens": 10,
                "output_tokens": out,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 7,
            },
        }
        return self.line("assistant", message=message, requestId=f"req-{message_id}", **more)

    def result(
        self, call_id: str, content: Any, error: bool = False, structured: Any = None
    ) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": error}
        more = {} if structured is None else {"toolUseResult": structured}
        return self.user([block], **more)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@pytest.fixture
def author() -> type[Author]:
    """``author(session, agent, second)``: writes lines."""
    return Author


@pytest.fixture
def ledger() -> Iterator[Any]:
    """Refuses what does not fit the catalogue."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def told(ledger: Any) -> Callable[..., list[Any]]:
    """``told("message", correlation)``: the events of a type, in their order."""

    def find(*names: str, correlation: str = SESSION) -> list[Any]:
        wanted = {f"execution.{name}" for name in names}
        return [
            one for one in ledger.read(correlation_id=correlation) if one.event_type in wanted or not names
        ]

    return find


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A session with two sub-agents that run at once, each in its file, and one that one of them began."""
    main = Author()
    main.user("Count lamps and wicks.")
    main.assistant("m1", {"type": "thinking", "thinking": "Two at once.", "signature": "x"}, out=1)
    main.assistant("m1", text("I ask two."), out=2)
    spawn: Sequence[tuple[str, str]] = (("toolu_1", "Count the lamps."), ("toolu_2", "Count the wicks."))
    for call_id, prompt in spawn:
        arguments = {"subagent_type": "Explore", "description": prompt[:-1], "prompt": prompt}
        main.assistant("m1", call(call_id, "Task", arguments), out=60)
    lamps, wicks = Author(agent="aaa1", second=5.5), Author(agent="bbb2", second=5.7)
    inner = Author(agent="ccc3", second=7.2)
    lamps.user("Count the lamps.")
    lamps.assistant(
        "l1", call("toolu_3", "Task", {"subagent_type": "Plan", "description": "Deeper", "prompt": "Deep."})
    )
    inner.user("Deep.")
    inner.assistant("i1", text("Down here are 3."), stop="end_turn")
    lamps.second = 10
    lamps.result("toolu_3", [text("Down here are 3.")], structured={"agentId": "ccc3", "status": "completed"})
    lamps.assistant("l2", text("12 lamps."), stop="end_turn")
    wicks.user("Count the wicks.")
    wicks.assistant("w1", text("I cannot."))
    main.second = 20
    for call_id, agent, said, error in (
        ("toolu_1", "aaa1", "12 lamps.", False),
        ("toolu_2", "bbb2", "the agent failed", True),
    ):
        main.result(call_id, [text(said)], error, {"agentId": agent, "status": "completed"})
    main.assistant("m2", text("12 lamps; nobody knows about wicks."), stop="end_turn")
    folder = tmp_path / "-shed" / SESSION / "subagents"
    for writer in (lamps, wicks, inner):
        writer.write(folder / f"agent-{writer.agent}.jsonl")
    return main.write(tmp_path / "-shed" / f"{SESSION}.jsonl")

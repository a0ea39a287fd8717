"""What the AG2 tests share: a ledger, agents that follow a script, and ways to look at what was recorded."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag2.events import ToolCallEvent

import chatsnapshot
from chatsnapshot import Ledger, LedgerEntry

# Test files import these helpers by this name; the folder is no package.
_spec = importlib.util.spec_from_file_location("ag2_agents", Path(__file__).with_name("agents.py"))
assert _spec and _spec.loader
sys.modules["ag2_agents"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["ag2_agents"])


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@pytest.fixture
def call() -> Callable[..., ToolCallEvent]:
    """``call("add", a=1)``: a tool call of a scripted model; its id is the tool's name and a number."""
    counts: dict[str, int] = {}

    def make(tool: str, **arguments: Any) -> ToolCallEvent:
        counts[tool] = counts.get(tool, 0) + 1
        return ToolCallEvent(tool, id=f"{tool}-{counts[tool]}", arguments=json.dumps(arguments))

    return make


@pytest.fixture
def steps() -> Callable[[Iterable[LedgerEntry]], list[tuple[str, str]]]:
    """Entries as ``(label, label of the cause)``; a label is the type without its domain, and what it is about."""

    def tell(entries: Iterable[LedgerEntry]) -> list[tuple[str, str]]:
        known = list(entries)
        labels = {entry.event_id: _label(entry) for entry in known}
        return [
            (labels[entry.event_id], labels.get(entry.causation_id or "", entry.causation_id or ""))
            for entry in known
        ]

    return tell


def _label(entry: LedgerEntry) -> str:
    payload = entry.payload
    about = (
        payload.get("role") or payload.get("call_id") or payload.get("task_id") or payload.get("question_id")
    )
    if entry.event_type.startswith("execution.run_"):
        about = payload.get("name")
    name = entry.event_type.partition(".")[2]
    return f"{name} {about}" if about else name

"""What the tests of Agno share: they are skipped where it is not installed, and its telemetry is off."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

HERE = Path(__file__).parent
INSTALLED = importlib.util.find_spec("agno") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing runs without the runtime."""
    for item in items:
        if HERE in item.path.parents and not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="agno is not installed"))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agno sends nothing, and does not print the errors that these tests raise."""
    monkeypatch.setenv("AGNO_TELEMETRY", "false")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.fixture
def ledger() -> Iterator[Any]:
    """A ledger in memory that refuses payloads that do not fit their schemas."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Any) -> Iterator[Any]:
    """A recorder that has made no mistake, and left no run open, when the test ends."""
    from chatsnapshot.adapters.agno import AgnoRecorder

    made = AgnoRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped, made.safe.runs_open) == (0, 0, 0)


@pytest.fixture
def agent() -> Callable[..., Any]:
    """``agent("alpha", "text", [("add", {"a": 1})], error, tools=[...])``: an agent with these answers."""
    from agno.agent import Agent

    from chatsnapshot.testing.runtimes.agno import scripted

    def made(name: str, *answers: Any, **options: Any) -> Any:
        return Agent(name=name, model=scripted(*answers), telemetry=False, **options)

    return made


@pytest.fixture
def told(ledger: Any) -> Callable[..., list[str]]:
    """The record as lines: type, what it is about, and the type of its cause."""

    def lines(agent: str | None = None) -> list[str]:
        entries = {entry.event_id: entry for entry in ledger.read()}
        return [
            f"{_short(entry)} <- {_short(entries[entry.causation_id])}"
            if entry.causation_id
            else _short(entry)
            for entry in entries.values()
            if agent in (None, entry.payload.get("agent"), entry.payload.get("recipient"))
        ]

    return lines


def _short(entry: Any) -> str:
    payload, kind = entry.payload, entry.event_type.partition(".")[2]
    about = (
        payload.get("call_id")
        or payload.get("role")
        or payload.get("answers")
        or payload.get("task_id")
        or ""
    )
    if kind.startswith("run_"):
        about = payload["agent"]
    return f"{kind} {about}".strip()

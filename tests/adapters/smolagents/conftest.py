"""What the tests of smolagents share: they are skipped where it is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.smolagents import SmolagentsRecorder

HERE = Path(__file__).parent
INSTALLED = importlib.util.find_spec("smolagents") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing runs without the runtime."""
    for item in items:
        if HERE in item.path.parents and not INSTALLED:
            item.add_marker(pytest.mark.skip(reason="smolagents is not installed"))


@pytest.fixture
def ledger() -> Iterator[Any]:
    """A ledger in memory that refuses payloads that do not fit their schemas."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Any) -> Iterator[SmolagentsRecorder]:
    """A recorder that has made no mistake and left no run open when the test ends."""
    made = SmolagentsRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped, made.safe.runs_open) == (0, 0, 0)


@pytest.fixture
def told(ledger: Any) -> Callable[..., list[str]]:
    """The record as lines: type, what it is about, and what its cause is about; without model calls."""

    def lines(**filters: Any) -> list[str]:
        entries = {entry.event_id: entry for entry in ledger.read()}
        chosen = [one for one in ledger.read(**filters) if one.event_type != "execution.model_call"]
        return [
            f"{_short(one)} <- {_short(_told_cause(one, entries))}" if one.causation_id else _short(one)
            for one in chosen
        ]

    return lines


def _told_cause(entry: Any, entries: dict[str, Any]) -> Any:
    cause = entries[entry.causation_id]
    while cause.event_type == "execution.model_call":
        cause = entries[cause.causation_id]
    return cause


def _short(entry: Any) -> str:
    payload = entry.payload
    about = payload.get("call_id") or payload.get("role") or payload.get("answers") or ""
    if entry.event_type.startswith("execution.run_"):
        about = payload["agent"]
    wrong = "!" if payload.get("is_error") else ""
    return f"{entry.event_type.partition('.')[2]}{wrong} {about}".strip()

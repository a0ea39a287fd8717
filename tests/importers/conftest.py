"""A small log of each of the two shapes, written for these tests, and a ledger to import into."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.importers import import_file

NAMED: dict[str, Any] = {
    "is_correct": False,
    "question": "How many lamps are in the shed?",
    "question_ID": "q-1",
    "level": "1",
    "ground_truth": "12",
    "history": [
        {"content": "Count them:\n```python\nprint(11)\n```", "role": "assistant", "name": "Counter"},
        {
            "content": "exitcode: 0 (execution succeeded)\nCode output: 11\n",
            "role": "user",
            "name": "Terminal",
        },
        {"content": "There are eleven. TERMINATE", "role": "assistant", "name": "Counter"},
        {"content": "TERMINATE", "role": "assistant", "name": "Counter"},
    ],
    "mistake_agent": "Counter",
    "mistake_step": "0",
    "mistake_reason": "It counted nothing.",
    "system_prompt": {"Counter": "You count.", "Terminal": ""},
}
UNNAMED: dict[str, Any] = {
    "history": [
        {"content": "Where is the oil?", "role": "human"},
        {"content": "Ask the store.", "role": "Orchestrator (thought)"},
        {"content": "Please look it up.", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "Next speaker WebSurfer", "role": "Orchestrator (thought)"},
        {"content": "In the celläž.", "role": "WebSurfer"},
        {"content": "No agent selected.", "role": "Orchestrator (termination condition)"},
    ],
    "question": "Where is the oil?",
    "ground_truth": "cellar",
    "is_corrected": False,
    "mistake_agent": "WebSurfer",
    "mistake_step": 4,
    "mistake_reason": "A typing error.",
    "question_ID": "q-2",
    "level": 2,
}


@pytest.fixture
def named() -> dict[str, Any]:
    """A log whose items name their speakers."""
    return copy.deepcopy(NAMED)


@pytest.fixture
def unnamed() -> dict[str, Any]:
    """A log whose roles are the speakers."""
    return copy.deepcopy(UNNAMED)


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """``write(document)``: a file that holds it; bytes as they are."""

    def writer(document: Any, name: str = "log.json") -> Path:
        path = tmp_path / name
        if isinstance(document, bytes):
            path.write_bytes(document)
        else:
            path.write_text(json.dumps(document, indent=4, ensure_ascii=False))
        return path

    return writer


@pytest.fixture
def strict() -> Iterator[Any]:
    """A ledger that refuses payloads that do not fit their schemas."""
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def take(strict: Any) -> Callable[..., tuple[Any, list[Any]]]:
    """``take(path)``: what became of a file, and all its entries in their order."""

    def taker(path: Path, *more: Any, **options: Any) -> tuple[Any, list[Any]]:
        report = import_file(strict, path, *more, **options)
        return report, [entry for entry in strict.read() if entry.correlation_id in report.correlations]

    return taker

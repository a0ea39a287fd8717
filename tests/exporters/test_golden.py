"""Each format of one small story, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"
FORMATS = ["jsonl", "csv", "mermaid", "dot", "graphml", "prov", "ocel", "otlp", "cloudevents", "chat"]


@pytest.mark.parametrize("format", FORMATS)
def test_the_story_is_written_as_in_the_golden_file(
    format: str, story: Any, exported: Callable[..., bytes]
) -> None:
    made = exported(story, format, runs=["run-1"]).replace(story.ledger_id.encode(), b"LEDGER-ID")
    assert made == (GOLDEN / f"{format}.txt").read_bytes()


def test_entries_are_written_as_in_the_golden_file(story: Any, exported: Callable[..., bytes]) -> None:
    made = exported(story, "jsonl", runs=["run-1"], entries=True).replace(
        story.ledger_id.encode(), b"LEDGER-ID"
    )
    assert made == (GOLDEN / "entries.txt").read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_export_gives_the_same_bytes(
    format: str, story: Any, exported: Callable[..., bytes]
) -> None:
    assert exported(story, format, runs=["run-1"]) == exported(story, format, runs=["run-1"])

"""Parquet: typed columns, nulls for what is unknown or erased, row groups of bounded size."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.exporters import export
from chatsnapshot.exporters import parquet as module
from chatsnapshot.exporters.columns import COLUMNS

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

Exported = Callable[..., bytes]


def read(data: bytes) -> Any:
    return parquet.read_table(io.BytesIO(data))


def test_columns_have_the_types_that_the_page_lists(story: Any, exported: Exported) -> None:
    types = {"text": "string", "time": "timestamp[us, tz=UTC]"}
    schema = read(exported(story, "parquet")).schema
    assert {field.name: str(field.type) for field in schema} == {
        name: types.get(kind, kind) for name, kind in COLUMNS.items()
    }


def test_rows_are_the_events_in_their_order(story: Any, exported: Exported) -> None:
    rows = read(exported(story, "parquet")).to_pylist()
    entries = list(story.read())
    assert [row["position"] for row in rows] == list(range(1, 14))
    assert [json.loads(row["payload"]) for row in rows] == [entry.payload for entry in entries]
    assert rows[0]["timestamp"] == datetime(2026, 11, 30, 2, 26, 1, tzinfo=timezone.utc)
    assert rows[0]["causation_id"] is None
    assert rows[10]["summary"] == "assistant: =At 04:12."


def test_erased_and_unknown_are_null(ledger: Any, tell: Any, timeless: Any, exported: Exported) -> None:
    tell("execution.message", {"role": "user", "content": "forget me"})
    ledger.erase([2], reason="asked for")
    unknown, erased, _ = read(exported(ledger, "parquet")).to_pylist()
    assert (unknown["timestamp"], unknown["erased"]) == (None, False)
    assert (erased["payload"], erased["erased"]) == (None, True)
    assert erased["payload_bytes"] > 0


def test_row_groups_are_bounded_by_rows_and_bytes(
    story: Any, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_ROWS", 5)
    assert parquet.ParquetFile(io.BytesIO(exported(story, "parquet"))).num_row_groups == 3
    monkeypatch.setattr(module, "GROUP_BYTES", 1)
    assert parquet.ParquetFile(io.BytesIO(exported(story, "parquet"))).num_row_groups == 13


def test_an_empty_ledger_gives_a_table_without_rows(ledger: Any, exported: Exported, tmp_path: Any) -> None:
    assert read(exported(ledger, "parquet")).num_rows == 0
    export(ledger, tmp_path / "out.parquet", "parquet")
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == 0


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=30) | st.integers() | st.none(), max_size=4))
def test_every_payload_reads_back(payload: dict[str, Any]) -> None:
    with chatsnapshot.open("memory:") as ledger:
        entry = ledger.record("custom.thing", payload, correlation_id="run-1")
        out = io.BytesIO()
        export(ledger, out, "parquet", redact=None)
        (row,) = read(out.getvalue()).to_pylist()
    assert json.loads(row["payload"]) == entry.payload

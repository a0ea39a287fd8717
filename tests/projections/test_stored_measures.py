"""Metrics, audit trails and differences out of stored states are those of the entries themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.projections.auditreading import audit_of
from chatsnapshot.projections.diff import diff_positions, diff_runs
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.projections.views import view

PRICES = {"currency": "USD", "models": {"m": {"input": 1, "output": 2}}}


class Entries:
    """Something that reads like a ledger and has no store: everything is folded."""

    def __init__(self, ledger: Any) -> None:
        self.replay, self.read, self.get = ledger.replay, ledger.read, ledger.get


def fill(ledger: Any, run: str, cause: Any = None) -> Any:
    common = {"correlation_id": run, "attributes": {"principal": "odile"}}
    start = ledger.record("execution.run_started", {"name": run}, causation_id=cause, **common)
    call = ledger.record("execution.tool_call", {"name": "f", "call_id": "a"}, causation_id=start, **common)
    usage = {"input_tokens": 3, "output_tokens": 4}
    ledger.record("execution.model_call", {"model": "m", "usage": usage, "duration_ns": 5}, **common)
    ledger.record("execution.tool_result", {"call_id": "a", "error": "no"}, causation_id=call, **common)
    ledger.record("execution.run_completed", {}, **common)
    return call


def read(ledger: Any) -> list[bytes]:
    found = [
        metrics_of(ledger, prices=PRICES),
        metrics_of(ledger, until=7),
        metrics_of(ledger, "one", prices=PRICES),
        metrics_of(ledger, "one", children=False),
        audit_of(ledger),
        audit_of(ledger, "one", until=8),
        diff_runs(ledger, "one", "two"),
        diff_positions(ledger, "one", 2, 6),
        *(view(ledger, name, "one") for name in ("metrics", "audit", "state", "critical_path")),
    ]
    return [msgspec.json.encode(one) for one in found]


@pytest.mark.parametrize("url", ["memory:", "runs.db", "runs.jsonl"])
def test_stored_states_give_what_a_fold_gives(tmp_path: Path, url: str) -> None:
    where = url if url == "memory:" else str(tmp_path / url)
    with chatsnapshot.open(where) as ledger:
        call = fill(ledger, "one")
        fill(ledger, "child", call)
        assert metrics_of(ledger).total.model.calls == 2
        fill(ledger, "two")
        assert read(ledger) == read(Entries(ledger))
        assert metrics_of(ledger, prices=PRICES).total.model.cost[0].amount == "0.000033"
        assert [line.depth for line in audit_of(ledger, "one").lines] == [0, 0, 0, 1, 1, 1]
        # Reading changed nothing that is stored.
        assert read(ledger) == read(Entries(ledger))


def test_a_read_only_ledger_gives_the_same(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as ledger:
        call = fill(ledger, "one")
        metrics_of(ledger)
        fill(ledger, "child", call)
        fill(ledger, "two")
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert read(ledger) == read(Entries(ledger))

"""What is large: dropped events, pictures stored again and again, lists that load everything or end too early."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.cli.main import cli

PICTURE = "data:image/png;base64," + base64.b64encode(os.urandom(3_000_000)).decode()


@pytest.mark.parametrize("size", [5_000_000, 20_000_000])
def test_a_large_event_is_kept_whole(ledger: Ledger, size: int) -> None:
    text = "ü" * (size // 2)
    payload = {"text": text, "rows": [["y" * 1_000] * 1_000] * (size // 1_000_000), "usage": {"tokens": 3}}
    entry = ledger.record("a.b", payload, correlation_id="c")
    assert entry.value() == payload
    assert ledger.get(entry.event_id).value() == payload
    assert ledger.verify().ok


def test_a_picture_that_is_sent_with_every_message_is_stored_once(
    path: str, opened: Callable[..., Ledger]
) -> None:
    ledger = opened(path)
    for number in range(20):
        message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}
        ledger.record("execution.message", {**message, "n": number}, correlation_id="c")
    assert all(len(entry.event.to_json()) < 2_000 for entry in ledger.read())
    assert next(ledger.read(after=19)).value()["content"][0]["image_url"]["url"] == PICTURE
    ledger.close()
    folder = os.path.dirname(path)
    held = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
    assert held < 3 * 3_000_000


def test_no_list_or_view_loads_what_is_large(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        with ledger.run(f"run-{number}", name="big"):
            ledger.record("execution.message", {"role": "user", "content": f"{number}" * 300_000})
            ledger.record("execution.tool_result", {"call_id": "1", "result": b"x" * 300_000})

    def refuse(*_: Any) -> Any:
        raise AssertionError("a blob was loaded")

    monkeypatch.setattr(ledger, "_stored_blob", refuse)
    monkeypatch.setattr(type(ledger._store), "blob", refuse)
    with pytest.raises(AssertionError):
        next(ledger.read(event_type="execution.message")).value()
    assert len(ledger.view("runs")) == 30
    assert len(ledger.view("timeline", "run-7").items) == 4
    assert len(ledger.view("transcript", "run-7").items) == 4
    assert len(list(ledger.read())) == 120
    assert len(list(ledger.replay("run-7"))) == 4


def test_more_than_a_page_of_runs_and_entries_is_listed_whole(path: str) -> None:
    with chatsnapshot.open(path, durability="os") as ledger:
        ledger.record_many(
            {"event_type": "execution.run_started", "correlation_id": f"run-{n:04d}"} for n in range(1_500)
        )
        ledger.record_many({"event_type": "a.b", "correlation_id": "long"} for n in range(2_500))
        assert len(ledger.view("runs")) == 1_501
        assert len(ledger.view("timeline", "long").items) == 2_500
        assert len(list(ledger.replay("long"))) == 2_500

    def printed(*arguments: str) -> list[str]:
        done = CliRunner().invoke(cli, [*arguments, "--ledger", path])
        assert done.exit_code == 0
        return done.output.splitlines()

    assert sum(line.startswith("run-") for line in printed("runs")) == 1_500
    assert len(printed("runs", "--json")) == 1_501
    assert len(printed("replay", "long", "--json")) == 2_500
    assert len(json.loads(printed("timeline", "long", "--json")[0])["items"]) == 2_500


def test_a_view_of_a_long_run_takes_time_in_proportion_to_its_length(opened: Callable[..., Ledger]) -> None:
    """Four times the events: about four times the time, where each event looks at all others sixteen times."""
    ledger = opened("memory:")
    for length in (1_000, 4_000):
        ledger.record_many(
            {
                "event_type": f"execution.tool_{'result' if n % 2 else 'call'}",
                "payload": {"call_id": str(n // 2), "name": "add"},
                "correlation_id": f"{length}",
            }
            for n in range(length)
        )

    def seconds(name: str, length: int) -> float:
        started = time.process_time()
        ledger.view(name, str(length))
        return time.process_time() - started

    for name in ("timeline", "transcript", "runs"):
        pairs = [(seconds(name, 1_000), seconds(name, 4_000)) for _ in range(5)]
        # Whatever else comes in takes longer.
        short, long = (min(times) for times in zip(*pairs, strict=True))
        assert long < 8 * short, (name, pairs)

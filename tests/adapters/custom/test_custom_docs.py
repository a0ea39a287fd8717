"""The page on runtimes of one's own is true: its example runs and records what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chatsnapshot

PAGE = Path(__file__).resolve().parents[3] / "docs" / "custom-runtimes.md"


def test_the_thirty_lines_record_a_run_with_its_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, str(PAGE), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "5\n"
    with chatsnapshot.open("runs.db", validation="strict") as ledger:
        view = ledger.view("transcript", "chat-7")
        kinds = [entry.event_type.partition(".")[2] for entry in ledger.read(correlation_id="chat-7")]
        assert {entry.event.source.runtime for entry in ledger.read()} == {"my-runtime"}
    assert kinds == [
        "run_started",
        "message",
        "model_call",
        "message",
        "tool_call",
        "tool_result",
        "message",
        "run_completed",
    ]
    assert "What is 2+3?" in str(view)

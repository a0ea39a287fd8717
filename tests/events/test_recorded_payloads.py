"""What the ledger, its runs, the demonstration and the AG2 recorder write themselves fits the schemas."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.demo import story
from chatsnapshot.demo.workflow import Workflow
from chatsnapshot.events.schemas import SCHEMAS


def misfits(ledger: Ledger) -> list[str]:
    """What does not fit, and every recorded type that has no schema."""
    found = []
    for entry in ledger.read():
        schema = SCHEMAS[entry.event_type]
        try:
            made = msgspec.json.decode(entry.payload_json or b"{}", type=schema.payload)
        except msgspec.ValidationError as error:
            found.append(f"{entry.event_type}: {error}")
            continue
        names = {field.encode_name: field.name for field in msgspec.structs.fields(schema.payload)}
        found += [
            f"{entry.event_type}: none of {group}"
            for group in schema.one_of
            if all(getattr(made, names[key]) is None for key in group)
        ]
    return found


def test_the_demonstration_fits(tmp_path: Path) -> None:
    pytest.importorskip("ag2")
    with chatsnapshot.open("memory:", validation="off") as ledger:
        letter = ledger.record(
            "ui.input_received", {"user": story.CUSTOMER, "value": story.LETTER}, correlation_id="case"
        )
        flow = Workflow(ledger, "case", story.NAME, story.tasks(story.Shop(tmp_path / "book")))
        asyncio.run(flow.run(cause=letter))
        types = {entry.event_type for entry in ledger.read()}
        assert types >= {
            "execution.run_started",
            "execution.message",
            "execution.model_call",
            "execution.tool_result",
            "execution.human_input_received",
            "system.task_completed",
            "integration.response",
        }
        assert misfits(ledger) == []


def test_what_runs_and_the_ledger_write_fits() -> None:
    with chatsnapshot.open("memory:", validation="off") as ledger:
        with ledger.run("a", name="n", tags=("x",), user="odile") as run:
            run.complete(output={"x": 1})
        with ledger.run("b", name="n") as run:
            run.fail(ValueError("no"))
        with ledger.run("c") as run:
            run.pause(reason="waits")
        with ledger.run("c", resume=True) as run:
            run.cancel("enough")
        with pytest.raises(ZeroDivisionError), ledger.run("d"):
            _ = 1 / 0
        ledger.erase([1, 2], reason="asked for")
        assert misfits(ledger) == []
        assert any(entry.event_type == "ledger.payload_erased" for entry in ledger.read())

"""The runs that a process took with it are ended, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.auto.leaving import end_left
from chatsnapshot.adapters.auto.parents import PARENT, parent_in, parent_text, same_place
from chatsnapshot.adapters.places import Parent


def begun(ledger: Any, name: str, parent: str | None, pid: int | None, kind: str = "started") -> str:
    payload = {"name": name, "run_id": name} | ({"parent_run_id": parent} if parent else {})
    return ledger.record(
        f"execution.run_{kind}",
        payload,
        correlation_id=name,
        attributes={"pid": pid} if pid is not None else None,
    ).event_id


@pytest.fixture(scope="module")
def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_what_was_begun_by_a_process_that_is_gone_is_cancelled_from_the_inside_out(gone: int) -> None:
    with chatsnapshot.open("memory:") as ledger:
        begun(ledger, "earlier", "program", gone)
        process = Parent("program", begun(ledger, "program", None, None), None, "program")
        begun(ledger, "outer", "program", gone)
        begun(ledger, "inner", "outer", gone)
        begun(ledger, "ended", "program", gone)
        ledger.record("execution.run_completed", {"run_id": "ended"}, correlation_id="ended")
        begun(ledger, "elsewhere", "program", gone)
        begun(ledger, "elsewhere", "another", os.getpid(), "resumed")
        begun(ledger, "living", "program", os.getpid())
        begun(ledger, "unmarked", "program", None)
        begun(ledger, "another", "another program", gone)
        before = ledger.head
        end_left(ledger, process, "its process ended: SIGKILL")
        end_left(ledger, process, "its process ended: SIGKILL")
        assert [
            (entry.event.correlation_id, entry.event_type, entry.payload["reason"])
            for entry in ledger.read(after=before)
        ] == [
            ("inner", "execution.run_cancelled", "its process ended: SIGKILL"),
            ("outer", "execution.run_cancelled", "its process ended: SIGKILL"),
        ]


def test_process_ids_count_only_where_they_mean_the_same_process() -> None:
    parent = Parent("run", "01a22d4b-2238-7443-9474-0b71f6532210", None, "correlation")
    here = parent_text(parent)
    assert parent_in({PARENT: here}) == parent
    assert same_place({PARENT: here})
    elsewhere = here[: here.rindex(", ")] + ', "another machine"]'
    assert parent_in({PARENT: elsewhere}) == parent
    assert not same_place({PARENT: elsewhere})
    assert not same_place({})

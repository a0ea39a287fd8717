"""Lost power at every step of a session: nothing acknowledged is lost, nothing is corrupt, and the ledger goes on."""

from __future__ import annotations

import importlib.util
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.limits import Limits

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


def _power() -> Any:
    spec = importlib.util.spec_from_file_location("jsonl_power", Path(__file__).with_name("power.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["jsonl_power"] = module
    spec.loader.exec_module(module)
    return module


power = _power()


def session(ledger: Ledger, note: Callable[..., None], event: Event) -> None:
    """Batches, a large record, a blob, an erasure, and segments that roll."""

    def said() -> None:
        note("acknowledged", [entry._identity() for entry in ledger.read()])

    ledger.record(**event(1))
    said()
    ledger.record_many([event(2), event(3, "run-2"), event(4)])
    said()
    ledger.record("execution.message", {"text": "x" * 5_000}, correlation_id="run-1")
    said()
    ledger.record("execution.output", {"data": b"secret" * 10_000}, correlation_id="run-1")
    said()
    ledger.record_many([event(number) for number in range(7, 12)])
    said()
    ledger.erase([3, 6], reason="asked")
    note("erased", [3, 6])
    said()
    ledger.record(**event(12))
    said()
    ledger.erase([5], reason="asked again")
    note("erased", [5])
    said()


@pytest.mark.parametrize("index", ["no index", "the index of the end"])
def test_lost_power_at_any_step_loses_nothing_acknowledged(
    path: Path,
    opened: Open,
    event: Event,
    seeded: random.Random,
    tmp_path: Path,
    without_index: Callable[[Path], None],
    index: str,
) -> None:
    limits = Limits(segment_bytes_max=4_000)
    files = power.RecordingIO()
    ledger = opened(files=files, limits=limits)
    session(ledger, files.note, event)
    ledger.close()
    assert Path(f"{path}.000003").exists()
    blob = next(iter(Path(f"{path}.blobs").iterdir()), None)
    assert blob is None, "the only blob was erased"
    states = list(power.states(files.steps, seeded, torn=3))
    if index != "no index":
        states = seeded.sample(states, 60)
    crash = tmp_path / "crash"
    for number, how, found, folders in states:
        acknowledged: list[Any] = []
        erased: set[int] = set()
        for step in files.steps[:number]:
            if step[0] == "acknowledged":
                acknowledged = step[1]
            elif step[0] == "erased":
                erased |= set(step[1])
        shutil.rmtree(crash, ignore_errors=True)
        crash.mkdir()
        power.lay_out(crash, path.parent, found, folders)
        at = crash / path.name
        if index != "no index":
            for suffix in ("", "-wal"):
                shutil.copy2(f"{path}.index.db{suffix}", f"{at}.index.db{suffix}")
        where = (number, how, files.steps[number - 1][:2])
        if not at.exists():
            assert not acknowledged, where
            continue
        with chatsnapshot.open(at, limits=limits, durability="os") as after:
            entries = [entry._identity() for entry in after.read()]
            assert len(entries) >= len(acknowledged), where
            for before, now in zip(acknowledged, entries, strict=False):
                if now[9] is None:
                    assert now[:9] == before[:9] and now[14:] == before[14:], where
                else:
                    assert now == before, where
            gone = {entry[0] for entry in entries if entry[9] is None}
            assert gone >= erased, where
            assert len(entries) in (0, 1, 4, 5, 6, 11, 12, 13, 14), where
            report = after.verify()
            assert report.ok, (where, report.problems)
            assert after.record(**event(99)).position == len(entries) + 1, where
            assert after.verify().ok, where

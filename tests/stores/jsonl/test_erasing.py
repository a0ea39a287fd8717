"""Erasure overwrites in place, is finished after a crash, and keeps every proof."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.jsonl_file import FileIO

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


class Stops(BaseException):
    """Stands for the end of the process."""


class StoppingIO(FileIO):
    """Ends the process after so many overwriting calls, and inside the last after so many bytes."""

    def __init__(self, calls: int, inside: int | None = None) -> None:
        super().__init__()
        self.left = calls
        self.inside = inside

    def overwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self.left == 0:
            if self.inside is not None:
                super().overwrite(descriptor, data[: self.inside], offset)
            raise Stops
        self.left -= 1
        return super().overwrite(descriptor, data, offset)


def test_an_erased_line_stays_in_place_and_says_nothing(
    path: Path, opened: Open, event: Event, lines: Callable[..., list[dict[str, Any]]]
) -> None:
    ledger = opened()
    entries = [ledger.record(**event(number)) for number in (1, 2, 3)]
    before = path.read_bytes()
    root = ledger._store.head().frontier
    record = ledger.erase(2, reason="asked")
    after = path.read_bytes()
    assert len(after) > len(before)
    changed = [place for place in range(len(before)) if before[place] != after[place]]
    assert changed, "something was overwritten"
    second = before.splitlines(keepends=True)[2]
    start = before.index(second)
    assert start < changed[0] and changed[-1] < start + len(second)
    line = lines()[1]
    assert (line["salt"], line["event"]["payload"]) == (None, None)
    assert b"number 2" not in after
    assert (line["leaf"], line["payload_bytes"]) == (entries[1].leaf.hex(), entries[1].payload_bytes)
    assert lines()[3]["event"]["payload"]["positions"] == [2]
    assert ledger.get(entries[1].event_id).erased
    assert ledger.get(entries[1].event_id).leaf == entries[1].leaf
    assert record.position == 4
    assert ledger._store.head().frontier != root
    assert ledger.verify().ok
    assert ledger.record(entries[1].event).erased, "the erased entry is given, and nothing is stored"
    assert ledger.head == 4


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("inside", [None, 1, 13])
@pytest.mark.parametrize("calls", range(6))
def test_an_erasure_that_broke_off_is_finished_at_the_next_opening(
    path: Path,
    opened: Open,
    event: Event,
    without_index: Callable[[Path], None],
    calls: int,
    inside: int | None,
    index: bool,
) -> None:
    files = StoppingIO(calls, inside)
    ledger = opened(files=files)
    for number in (1, 2, 3):
        ledger.record(**event(number, payload={"number": number, "secret": "hunter2" * 30}))
    broke_off = False
    try:
        ledger.erase([1, 3], reason="asked")
    except Stops:
        broke_off = True
    assert broke_off == (calls < 4)
    if not index:
        without_index(path)
    with chatsnapshot.open(path, read_only=True) as reader:
        assert len(list(reader.read())) == 4
        assert reader.verify().ok != broke_off or not broke_off
    again = opened()
    assert [entry.erased for entry in again.read()] == [True, False, True, False]
    assert again.verify().ok
    assert path.read_bytes().count(b"hunter2") == 30
    assert [json.loads(line) for line in path.read_bytes().splitlines()]


def test_an_erasure_that_broke_off_is_finished_by_the_next_write(
    path: Path, opened: Open, event: Event
) -> None:
    files = StoppingIO(1)
    one, other = opened(files=files), opened()
    one.record(**event(1))
    with pytest.raises(Stops):
        one.erase(1, reason="asked")
    assert other.record(**event(2)).position == 3
    assert next(other.read()).erased
    assert other.verify().ok


def test_a_half_erased_line_without_a_record_is_damage(path: Path, opened: Open, event: Event) -> None:
    ledger = opened()
    ledger.record(**event(1))
    ledger.record(**event(2))
    ledger.close()
    data = path.read_bytes()
    start = data.index(b'"salt":') + 7
    path.write_bytes(data[:start] + b"null".ljust(26) + data[start + 26 :])
    again = opened()
    assert not again.verify().ok
    with pytest.raises(LedgerError):
        again.record(**event(3))
    # Removed whole, it is a line like any erased one: only the missing record tells.
    payload = data.index(b'{"number":1')
    length = len(b'{"number":1,"text":"number 1"}')
    gone = data[:start] + b"null".ljust(26) + data[start + 26 :]
    path.write_bytes(gone[:payload] + b"null".ljust(length) + gone[payload + length :])
    report = opened().verify()
    assert [problem.code for problem in report.problems] == [7]


def test_blobs_go_with_their_last_user(path: Path, opened: Open) -> None:
    ledger = opened()
    big, other = b"x" * 100_000, b"y" * 100_000
    for data in (big, big, other):
        ledger.record("execution.output", {"data": data}, correlation_id="run-1")
    folder = Path(f"{path}.blobs")
    assert sorted(users for _, _, users in ledger._store.blobs()) == [1, 2]
    ledger.erase(1, reason="asked")
    assert len(list(folder.iterdir())) == 2
    ledger.erase(2, reason="asked")
    assert len(list(folder.iterdir())) == 1
    assert ledger.verify().ok
    assert next(ledger.read(after=2)).value() == {"data": other}


def test_orphan_blobs_are_swept_by_a_call(path: Path, opened: Open) -> None:
    ledger = opened()
    ledger.record("execution.output", {"data": b"x" * 100_000}, correlation_id="run-1")
    folder = Path(f"{path}.blobs")
    (folder / ("ab" * 32)).write_bytes(b"orphan")
    (folder / ("cd" * 32 + ".new")).write_bytes(b"half")
    assert ledger.verify().ok, "orphans are harmless"
    assert ledger._store.sweep_blobs() == 2  # type: ignore[attr-defined]
    assert len(list(folder.iterdir())) == 1
    assert ledger.verify().ok


def test_a_missing_or_changed_blob_is_found(path: Path, opened: Open) -> None:
    ledger = opened()
    ledger.record("execution.output", {"data": b"x" * 100_000}, correlation_id="run-1")
    (file,) = Path(f"{path}.blobs").iterdir()
    data = file.read_bytes()
    file.write_bytes(b"y" + data[1:])
    assert not ledger.verify().ok
    file.write_bytes(data)
    assert ledger.verify().ok
    shutil.move(file, path.parent / "elsewhere")
    assert not ledger.verify().ok


def test_payloads_in_sealed_segments_are_erased(path: Path, opened: Open, event: Event) -> None:
    limits = Limits(segment_bytes_max=1_500)
    ledger = opened(limits=limits)
    for number in range(12):
        ledger.record(**event(number))
    assert Path(f"{path}.000004").exists()
    ledger.erase([1, 5, 9, 12], reason="asked")
    assert ledger.verify().ok
    ledger.close()
    again = opened(limits=limits)
    assert [entry.position for entry in again.read() if entry.erased] == [1, 5, 9, 12]
    assert again.verify().ok


def test_an_import_that_carries_a_record_erases_too(path: Path, opened: Open, event: Event) -> None:
    from chatsnapshot.stores.base import Query

    source = opened(path.with_suffix(".db"))
    source.record(**event(1))
    rows = list(source._store.read(Query(), after=0, until=9, limit=9, reverse=False, hint=None).rows)
    target = opened()
    target._store.import_rows(rows, {})
    source.erase(1, reason="asked")
    rows = list(source._store.read(Query(), after=1, until=9, limit=9, reverse=False, hint=None).rows)
    target._store.import_rows(rows, {})
    assert next(target.read()).erased
    assert target.verify().ok
    assert b"number 1" not in path.read_bytes()


def test_a_disk_that_fails_while_erasing_is_reported_and_the_erasure_is_finished_later(
    path: Path, opened: Open, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileIO()
    ledger = opened(files=files)
    ledger.record(**event(1))

    def fail(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(files, "overwrite", fail)
        with pytest.raises(StoreUnavailable):
            ledger.erase(1, reason="asked")
    ledger.record(**event(2))
    assert next(ledger.read()).erased
    assert ledger.verify().ok

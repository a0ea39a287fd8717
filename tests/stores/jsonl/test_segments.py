"""Large ledgers go on in further files: reading, verification and crashes span them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import Corrupt, LedgerError
from chatsnapshot.limits import Limits

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]
SMALL = Limits(segment_bytes_max=2_000)


@pytest.fixture
def rolled(path: Path, opened: Open, event: Event) -> Ledger:
    """Forty entries in many segments."""
    ledger = opened(limits=SMALL)
    for number in range(1, 41):
        ledger.record(**event(number, f"run-{number % 3}"))
    return ledger


def files(path: Path) -> list[Path]:
    return [path, *sorted(path.parent.glob(f"{path.name}.0*"))]


def test_segments_follow_each_other(path: Path, rolled: Ledger, opened: Open, event: Event) -> None:
    found = files(path)
    assert len(found) > 5
    expected = 1
    for number, file in enumerate(found, 1):
        header, *entries = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert (header["segment"], header["first"], header["ledger_id"]) == (
            number,
            expected,
            rolled.ledger_id,
        )
        assert [entry["position"] for entry in entries] == list(range(expected, expected + len(entries)))
        assert file.stat().st_size <= SMALL.segment_bytes_max
        expected += len(entries)
    assert [entry.payload["number"] for entry in rolled.read()] == list(range(1, 41))
    assert [entry.payload["number"] for entry in rolled.read(reverse=True)] == list(range(40, 0, -1))
    assert len(list(rolled.replay("run-1"))) == 14
    assert rolled.verify().ok
    with_larger = opened()
    assert with_larger.record(**event(41)).position == 41
    assert len(files(path)) == len(found)
    assert rolled.head == 41


def test_a_ledger_of_many_segments_opens_with_and_without_its_index(
    path: Path, rolled: Ledger, opened: Open, event: Event, without_index: Callable[[Path], None]
) -> None:
    rows = [entry._identity() for entry in rolled.read()]
    head = rolled._store.head()
    rolled.close()
    for read_only in (True, False):
        for prepare in (lambda _: None, without_index):
            prepare(path)
            ledger = opened(limits=SMALL, read_only=read_only)
            assert ledger._store.head() == head
            assert [entry._identity() for entry in ledger.read()] == rows
            assert ledger.verify().ok
            ledger.close()
    assert opened(limits=SMALL).record(**event(41)).position == 41


def test_a_commit_larger_than_a_segment_is_kept_whole(path: Path, opened: Open, event: Event) -> None:
    ledger = opened(limits=SMALL)
    for _ in range(3):
        ledger.record_many([event(number) for number in range(20)])
    assert len(files(path)) == 3
    assert ledger.verify().ok


def test_two_handles_follow_each_other_over_segments(
    path: Path, rolled: Ledger, opened: Open, event: Event
) -> None:
    other = opened(limits=SMALL)
    reader = opened(limits=SMALL, read_only=True)
    for number in range(41, 81):
        writer = other if number % 2 else rolled
        entry = writer.record(**event(number))
        assert entry.position == number
        assert reader.get(entry.event_id) == entry
    assert reader.verify().ok


class Stops(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("stop_at", range(1, 9))
def test_a_crash_while_a_segment_begins_leaves_a_ledger_that_goes_on(
    path: Path,
    opened: Open,
    event: Event,
    stop_at: int,
    index: bool,
    without_index: Callable[[Path], None],
) -> None:
    from chatsnapshot.stores.jsonl_file import FileIO

    class StoppingIO(FileIO):
        left = -1

        def count(self) -> None:
            if self.left > 0:
                self.left -= 1
                if self.left == 0:
                    raise Stops

        def create(self, path: str) -> int:
            self.count()
            return super().create(path)

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            self.count()
            return super().write(descriptor, data)

        def sync(self, descriptor: int) -> None:
            self.count()
            super().sync(descriptor)

        def rename(self, path: str, to: str) -> None:
            self.count()
            super().rename(path, to)

        def sync_folder(self, folder: str) -> None:
            self.count()
            super().sync_folder(folder)

        def open_to_append(self, path: str) -> int:
            self.count()
            return super().open_to_append(path)

    stopping = StoppingIO()
    ledger = opened(files=stopping, limits=SMALL)
    for number in (1, 2, 3):
        ledger.record(**event(number))
    assert len(files(path)) == 1
    stopping.left = stop_at
    try:
        ledger.record(**event(4))
        assert stop_at > 7
    except Stops:
        pass
    stopping.left = -1
    if not index:
        without_index(path)
    again = opened(limits=SMALL)
    assert again.head in (3, 4)
    position = again.head + 1
    assert again.record(**event(5)).position == position
    assert again.verify().ok
    assert [entry.position for entry in again.read()] == list(range(1, position + 1))


@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_missing_segment_is_found_and_nothing_is_added(
    path: Path, rolled: Ledger, opened: Open, event: Event, which: int
) -> None:
    rolled.close()
    lost = files(path)[which]
    lost.unlink()
    before = {file: file.read_bytes() for file in files(path) if file.exists()}
    if which == -1:
        # The last one may never have been there, as far as the others tell: keep a root elsewhere.
        ledger = opened(limits=SMALL)
        assert ledger.head < 40
        assert ledger.verify().ok
        return
    with pytest.raises(LedgerError):
        ledger = opened(limits=SMALL, create=False)
        assert not ledger.verify().ok
        ledger.record(**event(41))
    assert {file: file.read_bytes() for file in files(path) if file.exists()} == before


def test_a_damaged_sealed_segment_is_named(path: Path, rolled: Ledger, opened: Open, event: Event) -> None:
    rolled.close()
    second = files(path)[1]
    data = second.read_bytes()
    second.write_bytes(data.replace(b"number 5", b"number 6"))
    ledger = opened(limits=SMALL)
    with pytest.raises(Corrupt, match=r"runs\.jsonl\.000002") as caught:
        ledger.record(**event(41))
    assert caught.value.position == 5
    assert len(list(ledger.read(after=5))) == 35
    assert not ledger.verify().ok
    second.write_bytes(data)
    again = opened(limits=SMALL)
    assert again.record(**event(41)).position == 41
    assert again.verify().ok


def test_a_segment_of_another_ledger_is_found(
    path: Path, rolled: Ledger, opened: Open, event: Event, tmp_path: Path
) -> None:
    rolled.close()
    other = tmp_path / "other.jsonl"
    with chatsnapshot.open(other, limits=SMALL) as ledger:
        for number in range(1, 41):
            ledger.record(**event(number, f"run-{number % 3}"))
    shutil.copy2(f"{other}.000003", f"{path}.000003")
    ledger = opened(limits=SMALL)
    assert not ledger.verify().ok
    with pytest.raises(Corrupt, match="header"):
        ledger.record(**event(41))

"""The end of the file after a crash: whole batches stay, the rest is set aside, and only what was never whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import Corrupt

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


@pytest.fixture
def three_batches(path: Path, opened: Open, event: Event) -> tuple[bytes, list[int]]:
    """A ledger of batches of 2, 1 and 3 entries: its bytes, and the sizes at which a batch ends."""
    ledger = opened()
    sizes = [path.stat().st_size]
    for batch in ([event(1), event(2)], [event(3)], [event(4), event(5, "run-2"), event(6)]):
        ledger.record_many(batch)
        sizes.append(path.stat().st_size)
    ledger.close()
    return path.read_bytes(), sizes


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.torn-*"))


@pytest.mark.parametrize(
    ("index", "each"),
    [("index as it was", 3), ("no index", 3), pytest.param("no index", 1, marks=pytest.mark.faults)],
)
def test_every_prefix_opens_with_its_whole_batches_and_goes_on(
    path: Path,
    three_batches: tuple[bytes, list[int]],
    index: str,
    each: int,
    without_index: Callable[[Path], None],
    event: Event,
    tmp_path: Path,
) -> None:
    data, sizes = three_batches
    entries = [0, 2, 3, 6]
    copy = tmp_path / "copy"
    # Every byte of the last two lines, one in nine before (one in `each` of them), and both sides of every end.
    last = data.rindex(b"\n", 0, data.rindex(b"\n", 0, -1))
    cuts = [*range(sizes[0], last, 9), *range(last, len(data) + 1)]
    ends = {size + step for size in sizes[:-1] for step in (-1, 0, 1)}
    for cut in sorted({*cuts[::each], *ends} - {sizes[0] - 1}):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path.parent, copy)
        at = copy / path.name
        at.write_bytes(data[:cut])
        if index == "no index":
            without_index(at)
        kept = max(number for number, size in enumerate(sizes) if size <= cut)
        with chatsnapshot.open(at, durability="os") as ledger:
            assert ledger.head == entries[kept], cut
            assert ledger.record(**event(7)).position == entries[kept] + 1
            assert [entry.position for entry in ledger.read()] == list(range(1, entries[kept] + 2))
            assert at.read_bytes()[: sizes[kept]] == data[: sizes[kept]]
        torn = data[sizes[kept] : cut]
        assert [one.read_bytes() for one in aside(at)] == ([torn] if torn else []), cut


def test_a_torn_tail_is_named_by_verify_and_left_alone_by_a_reader(
    path: Path, three_batches: tuple[bytes, list[int]], opened: Open
) -> None:
    data, sizes = three_batches
    path.write_bytes(data[:-10])
    report = opened(read_only=True).verify()
    assert (report.head, report.entries) == (3, 3)
    assert [(problem.expected, str(sizes[2]) in problem.found) for problem in report.problems] == [
        ("whole batches", True)
    ]
    assert path.read_bytes() == data[:-10]


def test_a_record_after_a_torn_line_is_not_glued_to_it(
    path: Path, three_batches: tuple[bytes, list[int]], opened: Open, event: Event
) -> None:
    data, _ = three_batches
    path.write_bytes(data + data[-400:-200])
    ledger = opened()
    ledger.record(**event(7))
    assert ledger.verify().ok
    assert [json.loads(line)["position"] for line in path.read_bytes().splitlines()[1:]] == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]


@pytest.mark.parametrize("start", [0, 1, 100, 511, 700])
@pytest.mark.parametrize("length", [9, 512, 4096])
def test_a_run_of_nul_in_the_last_batch_takes_the_whole_batch_away(
    path: Path,
    three_batches: tuple[bytes, list[int]],
    opened: Open,
    event: Event,
    start: int,
    length: int,
) -> None:
    data, sizes = three_batches
    damaged = bytearray(data)
    at = sizes[2] + start
    damaged[at : at + length] = bytes(len(damaged[at : at + length]))
    path.write_bytes(damaged)
    ledger = opened()
    assert ledger.head == 3
    assert ledger.record(**event(9)).position == 4
    assert ledger.verify().ok
    assert aside(path)[0].read_bytes() == damaged[sizes[2] :]


def test_nul_after_the_last_line_is_set_aside(
    path: Path, three_batches: tuple[bytes, list[int]], opened: Open, event: Event
) -> None:
    data, _ = three_batches
    path.write_bytes(data + bytes(5000))
    ledger = opened()
    assert ledger.head == 6
    assert path.read_bytes() == data
    assert aside(path)[0].read_bytes() == bytes(5000)
    ledger.record(**event(7))
    assert ledger.verify().ok


def test_the_tail_that_another_process_left_is_mended_by_the_next_write(
    path: Path, opened: Open, event: Event
) -> None:
    ledger = opened()
    ledger.record(**event(1))
    with path.open("ab") as other:
        other.write(b'{"position":2,"sequ')
    assert ledger.head == 1
    assert [entry.position for entry in ledger.read()] == [1]
    assert ledger.record(**event(2)).position == 2
    assert ledger.verify().ok
    assert aside(path)[0].read_bytes() == b'{"position":2,"sequ'


def test_whole_lines_that_the_index_does_not_know_are_taken_in(
    path: Path, three_batches: tuple[bytes, list[int]], opened: Open, event: Event, without_index: Any
) -> None:
    data, sizes = three_batches
    path.write_bytes(data[: sizes[2]])
    without_index(path)
    ledger = opened()
    assert ledger.head == 3
    with path.open("ab") as other:  # as a process that was killed before it told the index
        other.write(data[sizes[2] :])
    assert ledger.record(**event(7)).position == 7
    assert ledger.verify().ok


def test_a_line_whose_line_feed_was_changed_is_damage_and_no_torn_tail(
    path: Path, three_batches: tuple[bytes, list[int]], opened: Open, event: Event
) -> None:
    data, _ = three_batches
    path.write_bytes(data[:-1] + b"\x0b")
    ledger = opened()
    with pytest.raises(Corrupt):
        ledger.record(**event(7))
    assert path.read_bytes() == data[:-1] + b"\x0b"


def test_a_file_that_was_cut_inside_its_header_begins_anew(path: Path, opened: Open, event: Event) -> None:
    first = opened()
    known = first.ledger_id
    first.close()
    data = path.read_bytes()
    for cut in (1, 5, 30, len(data) - 1):
        path.write_bytes(data[:cut])
        with chatsnapshot.open(path) as ledger:
            assert ledger.head == 0
            assert ledger.ledger_id != known
            ledger.record(**event(1))
            assert ledger.verify().ok
    assert len(aside(path)) == 4


def test_nothing_below_a_signed_size_is_cut(path: Path, opened: Open, event: Event) -> None:
    from chatsnapshot.stores.jsonl_file import FileIO
    from chatsnapshot.stores.jsonl_repair import set_aside_tail
    from chatsnapshot.stores.jsonl_segments import Segments

    ledger = opened()
    ledger.record(**event(1))
    ledger.close()
    data = path.read_bytes()
    files = FileIO()
    with pytest.raises(Corrupt, match="signed"):
        set_aside_tail(files, Segments(str(path), files), 1, 300, "test", lambda: 0, entries=3, signed=4)
    assert path.read_bytes() == data
    assert aside(path) == []

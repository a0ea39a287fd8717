"""A write that was taken back, left at the end of a sealed segment by a version that did not sync before it sealed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import Corrupt
from chatsnapshot.limits import Limits

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]
SMALL = Limits(segment_bytes_max=2_000)


@pytest.fixture
def sealed(path: Path, opened: Open, event: Event) -> Path:
    """Nine entries in more than two segments, closed."""
    ledger = opened(limits=SMALL)
    for number in range(1, 10):
        ledger.record(**event(number))
    ledger.close()
    assert path.with_name("runs.jsonl.000003").exists()
    return path


def leftover(path: Path, event: Event, opened: Open, *, bytes_of_it: int) -> bytes:
    """The first bytes of a batch of three that begins where the second segment does."""
    first = int(path.with_name("runs.jsonl.000002").read_bytes().split(b'"first":', 1)[1].split(b",")[0])
    other = path.with_name("other") / "other.jsonl"
    other.parent.mkdir()
    ledger = opened(other)
    for number in range(1, first):
        ledger.record(**event(number))
    before = other.stat().st_size
    ledger.record_many([event(number) for number in (97, 98, 99)])
    data = other.read_bytes()[before:]
    assert b'"batch":[%d,3]' % first in data and bytes_of_it < len(data)
    return data[:bytes_of_it]


@pytest.fixture(params=[1, 200, 700], ids=["a byte", "part of a line", "a line and a part"])
def left(request: pytest.FixtureRequest, sealed: Path, event: Event, opened: Open) -> bytes:
    """What stands at the end of the first segment, and was never acknowledged."""
    data = leftover(sealed, event, opened, bytes_of_it=request.param)
    assert (b"\n" in data) == (request.param == 700)
    with sealed.open("ab") as file:
        file.write(data)
    return data


def numbers(ledger: Ledger) -> list[int]:
    return [entry.payload["number"] for entry in ledger.read()]


@pytest.mark.parametrize("index", [True, False], ids=["with the index", "without"])
def test_every_entry_is_readable_and_the_leftover_is_set_aside(
    sealed: Path,
    left: bytes,
    index: bool,
    opened: Open,
    event: Event,
    without_index: Callable[[Path], None],
) -> None:
    if not index:
        without_index(sealed)
    ledger = opened(limits=SMALL)
    assert numbers(ledger) == list(range(1, 10))
    assert ledger.verify().ok
    assert ledger.record(**event(10)).position == 10
    (aside,) = sealed.parent.glob("runs.jsonl.torn-*")
    assert aside.read_bytes() == left
    assert not sealed.read_bytes().endswith(left)
    ledger.close()
    assert numbers(opened(limits=SMALL)) == list(range(1, 11))


def test_who_may_not_write_reads_every_entry_and_verify_names_the_leftover(
    sealed: Path, left: bytes, without_index: Callable[[Path], None]
) -> None:
    without_index(sealed)
    before = sealed.read_bytes()
    with chatsnapshot.open(sealed, read_only=True) as ledger:
        assert numbers(ledger) == list(range(1, 10))
        report = ledger.verify()
        assert [one.position for one in report.problems] == [None]
        assert "a write broke off" in str(report.problems[0])
    assert sealed.read_bytes() == before


def test_fsck_says_that_it_is_set_aside_and_nothing_is_to_be_restored(sealed: Path, left: bytes) -> None:
    from chatsnapshot.stores.file_findings import REPAIR
    from chatsnapshot.stores.jsonl_fsck import look_at_lines

    found = [one for one in look_at_lines(str(sealed)) if one.path == str(sealed)]
    assert [one.cure for one in found] == [REPAIR]
    assert f"{len(left):,} bytes" in found[0].what


def test_a_line_that_was_cut_off_in_a_sealed_segment_is_damage(
    sealed: Path, opened: Open, event: Event
) -> None:
    sealed.write_bytes(sealed.read_bytes()[:-20])
    ledger = opened(limits=SMALL)
    with pytest.raises(Corrupt) as caught:
        numbers(ledger)
    lost = caught.value.position
    assert lost is not None
    assert [entry.position for entry in ledger.read(after=lost)] == list(range(lost + 1, 10))
    with pytest.raises(Corrupt):
        ledger.record(**event(10))
    assert not list(sealed.parent.glob("*.torn-*"))


def test_rubbish_behind_the_last_entry_of_a_sealed_segment_takes_no_position_away(
    sealed: Path, opened: Open, event: Event
) -> None:
    with sealed.open("ab") as file:
        file.write(b"somebody wrote this\n")
    ledger = opened(limits=SMALL)
    assert numbers(ledger) == list(range(1, 10))
    assert not ledger.verify().ok
    with pytest.raises(Corrupt, match="is damaged at byte"):
        ledger.record(**event(10))


@pytest.mark.parametrize(("first", "fine"), [(4, True), (9, True), (3, False)])
def test_a_segment_that_was_begun_and_holds_nothing_yet_is_no_fault(
    path: Path, opened: Open, event: Event, first: int, fine: bool
) -> None:
    """Its writer is at work, or was lost; how many entries there are by then, a reader cannot know."""
    ledger = opened()
    for number in (1, 2, 3):
        ledger.record(**event(number))
    writer = ledger._store._writer  # type: ignore[attr-defined]
    writer._begin_segment(ledger.ledger_id, 2, first, writer.at.tree.root())
    assert ledger.verify().ok == fine
    assert numbers(ledger) == [1, 2, 3]

"""Damage inside the file: named with its offset, nothing is added, everything else stays readable."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.errors import Corrupt, FormatTooNew, LedgerError

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


@pytest.fixture
def ten(path: Path, opened: Open, event: Event) -> list[bytes]:
    """A ledger of ten entries, closed: its lines with their line feeds, the header first."""
    ledger = opened()
    for number in range(1, 11):
        ledger.record(**event(number, f"run-{number % 2}"))
    ledger.close()
    return path.read_bytes().splitlines(keepends=True)


def put(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def offset_of(lines: list[bytes], number: int) -> int:
    return sum(map(len, lines[:number]))


def test_a_damaged_line_is_named_with_position_and_offset_and_the_others_stay_readable(
    path: Path, ten: list[bytes], opened: Open, event: Event
) -> None:
    changed = [*ten]
    changed[4] = ten[4].replace(b"number 4", b"number 9")
    put(path, changed)
    for ledger in (opened(), opened(read_only=True)):
        assert ledger.head == 10
        with pytest.raises(Corrupt, match=f"byte {offset_of(ten, 4)} ") as caught:
            list(ledger.read())
        assert caught.value.position == 4
        reading = ledger.read()
        assert [next(reading).position for _ in range(3)] == [1, 2, 3]
        assert [entry.position for entry in ledger.read(after=4)] == [5, 6, 7, 8, 9, 10]
        assert [entry.position for entry in ledger.read(after=4, reverse=True)] == [10, 9, 8, 7, 6, 5]
        assert [entry.position for entry in ledger.read(correlation_id="run-1")] == [1, 3, 5, 7, 9]
        with pytest.raises(Corrupt):
            list(ledger.read(correlation_id="run-0"))
        report = ledger.verify()
        assert not report.ok
        assert 4 in [problem.position for problem in report.problems]
        assert report.entries == 9
    with pytest.raises(Corrupt, match=f"byte {offset_of(ten, 4)}, position 4"):
        opened().record(**event(11))
    assert path.read_bytes() == b"".join(changed)


def test_a_ledger_that_was_restored_goes_on(path: Path, ten: list[bytes], opened: Open, event: Event) -> None:
    put(path, [*ten[:4], b"nonsense\n", *ten[5:]])
    ledger = opened()
    with pytest.raises(Corrupt):
        ledger.record(**event(11))
    put(path, ten)
    assert ledger.record(**event(11)).position == 11
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("change", "unreadable"),
    [
        (lambda lines: [*lines[:3], *lines[4:]], [3]),  # a line is gone
        (lambda lines: [*lines[:3], *lines[6:]], [3, 4, 5]),
        (lambda lines: [*lines[:3], lines[3][:-1] + lines[4], *lines[5:]], [3, 4]),  # two are glued
        (lambda lines: [*lines[:3], lines[3][:200] + lines[4][100:], *lines[5:]], [3, 4]),  # spliced
        (lambda lines: [*lines[:3], bytes(400) + b"\n", *lines[4:]], [3]),
        (lambda lines: [*lines[:3], b"\n", *lines[3:]], []),  # a line that is none
        (lambda lines: [*lines[:4], lines[2], *lines[4:]], []),  # a line stands twice
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], [3]),  # two change places
        (lambda lines: [*lines, b'{"position":11}\n'], [11]),
        (lambda lines: [*lines[:10], b"x" * 500 + b"\n"], [10]),
        (lambda lines: [*lines[:3], b'{"position":3,"leaf"\n', b"more\n", *lines[4:]], [3]),
    ],
)
@pytest.mark.parametrize("index", [True, False])
def test_lines_that_are_missing_spliced_or_strange_are_found(
    path: Path,
    ten: list[bytes],
    opened: Open,
    event: Event,
    without_index: Callable[[Path], None],
    change: Callable[[list[bytes]], list[bytes]],
    unreadable: list[int],
    index: bool,
) -> None:
    put(path, change(ten))
    if not index:
        without_index(path)
    ledger = opened()
    with pytest.raises(Corrupt):
        ledger.record(**event(11))
    report = ledger.verify()
    assert not report.ok
    found, after = [], 0
    while after < ledger.head:
        try:
            for entry in ledger.read(after=after):
                found.append(entry.payload["number"])
                after = entry.position
            break
        except Corrupt as error:
            assert error.position is not None
            after = error.position
    assert [number for number in range(1, 11) if number not in found] == [
        one for one in unreadable if one < 11
    ]
    assert path.read_bytes() == b"".join(change(ten))


def test_random_changed_bits_are_found_or_change_nothing(
    path: Path, ten: list[bytes], tmp_path: Path, seeded: random.Random
) -> None:
    data = b"".join(ten)
    with chatsnapshot.open(path, read_only=True) as ledger:
        whole = [entry._identity() for entry in ledger.read()]
    copy = tmp_path / "copy"
    shutil.copytree(path.parent, copy)
    at = copy / path.name
    missed = []
    for _ in range(150):
        place = seeded.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << seeded.randrange(8)
        at.write_bytes(changed)
        try:
            with chatsnapshot.open(at, read_only=True) as ledger:
                if ledger.verify().ok and [entry._identity() for entry in ledger.read()] != whole:
                    missed.append(place)
                elif ledger.verify().ok:
                    missed.append(place)  # every byte of this file says something
        except LedgerError:
            pass
    # The last two bits of base64 text mean nothing: a salt or commitment that decodes to the same bytes is the same.
    assert [place for place in missed if not _spare_bits(data, place)] == []


def _spare_bits(data: bytes, place: int) -> bool:
    return bool(re.match(rb'[A-Za-z0-9+/]==?"', data[place : place + 4]))


def test_a_byte_changed_while_the_ledger_is_open_is_noticed_before_the_next_append(
    path: Path, opened: Open, event: Event
) -> None:
    ledger = opened()
    for number in range(5):
        ledger.record(**event(number))
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(data.index(b"number 2"))
        file.write(b"NUMBER")
    with pytest.raises(Corrupt) as caught:
        ledger.record(**event(9))
    assert caught.value.position == 3


def test_a_damaged_header_leaves_the_entries_readable(
    path: Path, ten: list[bytes], opened: Open, event: Event
) -> None:
    put(path, [ten[0].replace(b"ledger_id", b"ledger-id"), *ten[1:]])
    ledger = opened()
    assert len(list(ledger.read())) == 10
    assert not ledger.verify().ok
    with pytest.raises(Corrupt, match="byte 0"):
        ledger.record(**event(11))


@pytest.mark.parametrize("content", [b"hello\n", b'{"role":"user"}\n{"role":"agent"}\n', b"\0" * 100, b"x"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(
    path: Path, content: bytes, read_only: bool
) -> None:
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="not a ChatSnapshot ledger"):
        chatsnapshot.open(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_newer_format_is_refused(path: Path, ten: list[bytes]) -> None:
    from chatsnapshot.stores.jsonl_lines import Header, encode_header

    header = json.loads(ten[0])
    newer = Header(2, header["ledger_id"], header["created_at"], 1, 1, header["root"])
    put(path, [encode_header(newer), *ten[1:]])
    for read_only in (True, False):
        with pytest.raises(FormatTooNew):
            chatsnapshot.open(path, read_only=read_only)


def test_damage_that_left_no_trace_in_the_time_of_the_file_is_found_when_it_is_read(
    path: Path, ten: list[bytes], opened: Open, event: Event
) -> None:
    import os

    stat = path.stat()
    put(path, [*ten[:4], ten[4].replace(b'"position"', b'"Position"'), *ten[5:]])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    ledger = opened()
    assert [entry.position for entry in ledger.read(until=3)] == [1, 2, 3]
    with pytest.raises(Corrupt) as caught:
        list(ledger.read())
    assert caught.value.position == 4
    assert 4 in [problem.position for problem in ledger.verify().problems]

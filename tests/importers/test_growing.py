"""A growing file gives its whole lines, each once and at its byte, however it is looked at."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from chatsnapshot.importers import growing
from chatsnapshot.importers.base import Problem
from chatsnapshot.importers.growing import Growing, head_of

LINES = [b"one", b"", "zw\u00f6lf \u20ac".encode(), b"x" * 50, b'{"last": 1}']


def all_of(file: Growing) -> list[tuple[int, bytes] | Problem]:
    found: list[tuple[int, bytes] | Problem] = []
    while True:
        found += file.lines()
        if not file.unread:
            return found


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
def test_lines_come_whole_and_at_their_bytes(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "LOOK_BYTES", step)
    path, data = tmp_path / "a", b"\n".join(LINES)
    path.write_bytes(data)
    found = all_of(Growing(str(path)))
    assert [line[1] for line in found] == LINES[:-1]
    assert all(data[offset:].startswith(line) for offset, line in found if isinstance(line, bytes))


def test_what_is_written_between_two_looks_is_read_at_the_second(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntw")
    file = Growing(str(path))
    assert all_of(file) == [(0, b"one")]
    assert file.changed() is None
    with path.open("ab") as stream:
        stream.write(b"o\nthree")
    assert file.changed() == "grown"
    assert all_of(file) == [(4, b"two")]
    assert all_of(file) == []


@pytest.mark.parametrize(("end", "found"), [(b'{"a": 1}', (4, b'{"a": 1}')), (b" \t", None), (b"", None)])
def test_a_last_line_without_its_end_is_itself_where_it_is_whole(
    tmp_path: Path, end: bytes, found: object
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\n" + end)
    file = Growing(str(path))
    all_of(file)
    assert file.rest() == found
    assert file.offset == 4 + len(end)


def test_a_last_line_that_is_torn_is_told_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b'one\n{"a": 1')
    file = Growing(str(path))
    all_of(file)
    assert file.rest() == Problem(4, "the file is cut off in the line that begins here")


def test_a_line_that_is_too_long_is_left_out_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "LINE_BYTES_MAX", 20)
    monkeypatch.setattr(growing, "LOOK_BYTES", 8)
    path = tmp_path / "a"
    path.write_bytes(b"one\n" + b"x" * 300 + b"\ntwo\n" + b"y" * 90)
    file = Growing(str(path))
    assert all_of(file) == [
        (0, b"one"),
        Problem(4, "the line is longer than 20 bytes"),
        (305, b"two"),
        Problem(309, "the line is longer than 20 bytes"),
    ]
    assert file.rest() is None


def test_a_compressed_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    text = b"\n".join(b"%d" % (number * number * 7919) for number in range(9000))
    path.write_bytes(gzip.compress(text)[:-40])
    file = Growing(str(path))
    found = all_of(file)
    assert len(found) > 1000
    place = file.offset
    assert file.rest() == Problem(place, "the compressed data is cut off")
    assert text.startswith(b"\n".join(line[1] for line in found if isinstance(line[1], bytes)))
    assert text.startswith(head_of(str(path)))
    assert head_of(str(path))
    file.close()


def test_the_beginning_of_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    assert head_of(str(tmp_path)) == head_of(str(tmp_path / "nowhere")) == b""

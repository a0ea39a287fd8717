"""Members of an archive are read as far as they are whole, with or without the archive's directory."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatsnapshot.importers import zipmembers
from chatsnapshot.importers.zipmembers import Member, members_of

TEXTS = {"a.json": b"first " * 40, "b.json": b"second " * 40, "other": b"x"}


def archive(method: int = zipfile.ZIP_DEFLATED, *, streamed: bool = False) -> bytes:
    """The texts in an archive; ``streamed`` as one writes who cannot go back: sizes stand behind the members."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise OSError

    stream = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, text in TEXTS.items():
            file.writestr(name, text)
    return stream.getvalue()


def read(data: bytes) -> list[Member]:
    return list(members_of(data, lambda name: name.endswith(".json")))


def zstandard(data: bytes) -> bytes:
    """An archive of one member packed by method 93, as Inspect writes it today."""
    module = pytest.importorskip("zstandard")
    text = TEXTS["a.json"]
    packed, name = module.ZstdCompressor().compress(text), b"a.json"
    facts = (63, 0, 93, 0, 0, zlib.crc32(text), len(packed), len(text), len(name), 0)
    local = struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", *facts) + name + packed
    central = (
        struct.pack("<4sH", b"PK\x01\x02", 63) + struct.pack("<HHHHHIIIHHHHHII", *facts, 0, 0, 0, 0, 0) + name
    )
    return local + central + struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local), 0)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_is_wanted_is_read_in_order(method: int) -> None:
    data = archive(method)
    found = read(data)
    assert [(one.name, one.data, one.problem) for one in found] == [
        ("a.json", TEXTS["a.json"], None),
        ("b.json", TEXTS["b.json"], None),
    ]
    assert all(data[one.offset :].startswith(b"PK\x03\x04") for one in found)


def test_of_several_members_with_one_name_the_last_counts() -> None:
    stream = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(stream, "w") as file:
        file.writestr("a.json", b"old")
        file.writestr("a.json", b"new")
    assert [one.data for one in read(stream.getvalue())] == [b"new"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("streamed", [False, True])
def test_without_its_directory_an_archive_is_read_member_by_member(streamed: bool, method: int) -> None:
    data = archive(method, streamed=streamed)
    torn = data[: data.index(b"PK\x01\x02")]
    assert [(one.name, one.data, one.problem) for one in read(torn)] == [
        ("a.json", TEXTS["a.json"], None),
        ("b.json", TEXTS["b.json"], None),
    ]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_of_a_torn_member_what_is_whole_is_given(method: int) -> None:
    data = archive(method)
    last = read(data)[1]
    torn = data[: last.offset + 42]
    first, second = read(torn)
    assert (first.data, first.problem) == (TEXTS["a.json"], None)
    assert second.problem == "is cut off"
    assert TEXTS["b.json"].startswith(second.data)


def test_where_bytes_were_lost_the_members_are_found_by_themselves() -> None:
    data = archive(zipfile.ZIP_STORED)
    lost = data.replace(b"first ", b"", 3)
    first, second = read(lost)
    assert (first.name, first.data, first.offset) == ("a.json", b"", 0)
    assert first.problem is not None
    assert (second.data, second.problem) == (TEXTS["b.json"], None)


def test_a_damaged_member_is_named_and_the_others_are_read() -> None:
    data = bytearray(archive(zipfile.ZIP_STORED))
    data[data.index(b"first")] ^= 1
    first, second = read(bytes(data))
    assert (first.data, first.problem) == (b"", "does not match its checksum")
    assert (second.data, second.problem) == (TEXTS["b.json"], None)


def test_a_member_above_the_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipmembers, "MEMBER_BYTES_MAX", 100)
    assert [one.problem for one in read(archive())] == ["has more than 100 bytes unpacked"] * 2


def test_zstandard_is_read_where_python_or_a_package_can(monkeypatch: pytest.MonkeyPatch) -> None:
    data = zstandard(b"")
    assert [(one.data, one.problem) for one in read(data)] == [(TEXTS["a.json"], None)]
    assert [(one.data, one.problem) for one in read(data[: data.index(b"PK\x01\x02")])] == [
        (TEXTS["a.json"], None)
    ]
    for name in ("compression", "compression.zstd", "backports", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    (told,) = read(data)
    assert told.problem is not None
    assert "install backports.zstd" in told.problem


@given(cut=st.integers(0, 600), flip=st.integers(0, 600), to=st.integers(0, 255), streamed=st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_damage_makes_it_raise(cut: int, flip: int, to: int, streamed: bool) -> None:
    data: Any = bytearray(archive(streamed=streamed))
    data[flip % len(data)] = to
    for one in read(bytes(data[: len(data) - cut])):
        assert one.problem is not None or one.data

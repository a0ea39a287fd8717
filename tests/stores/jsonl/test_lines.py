"""The line format: every row comes back exactly, every changed byte that matters is found."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.clock import uuid_bytes
from chatsnapshot.integrity import canonical_json, commit, leaf_hash
from chatsnapshot.stores.base import Row
from chatsnapshot.stores.imports import row_header
from chatsnapshot.stores.jsonl_lines import (
    BadLine,
    Header,
    blanks,
    encode_header,
    encode_rows,
    read_header,
    read_line,
    read_row,
    sound,
)

TIME = "2026-11-30T02:26:03.123456Z"


def row_of(
    payload: bytes = b'{"a":1}',
    position: int = 1,
    sequence: int = 1,
    correlation: str = "run-1",
    event_type: str = "execution.message",
    source: str = '{"origin":"agent","runtime":"ag2"}',
    cause: bytes | None = None,
    version: int | None = None,
    attributes: str | None = None,
    salt: bytes = bytes(range(16)),
) -> Row:
    made = (
        position, sequence, TIME, bytes(range(16, 32)), event_type, TIME, source, correlation, cause, payload,
        version, attributes, b"", salt, commit(salt, payload), len(payload),
    )  # fmt: skip
    return (*made[:12], leaf_hash(row_header(made)), *made[13:])


def erased(row: Row) -> Row:
    return (*row[:9], None, *row[10:13], None, *row[14:])


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
payloads = st.builds(
    lambda value, indent, separators: json.dumps(value, indent=indent, separators=separators).encode(),
    st.dictionaries(texts, jsons, max_size=4),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([(",", ":"), (" ,", ": "), (",\n", ":\t"), ("\r\n,", ":")]),
)
rows = st.builds(
    row_of,
    payload=payloads,
    position=st.integers(1, 2**53),
    sequence=st.integers(1, 2**53),
    correlation=texts,
    source=st.builds(
        lambda name: canonical_json({"origin": "ui", "runtime": "none", "name": name}).decode(), texts
    ),
    cause=st.none() | st.binary(min_size=16, max_size=16),
    version=st.none() | st.integers(2, 2**31 - 1),
    attributes=st.none()
    | st.dictionaries(st.sampled_from(["actor", "links"]), texts | st.lists(texts), min_size=1).map(
        lambda value: canonical_json(value).decode()
    ),
    salt=st.binary(min_size=16, max_size=16),
)


@given(rows, st.booleans())
def test_a_row_comes_back_exactly(row: Row, without_payload: bool) -> None:
    if without_payload:
        row = erased(row)
    (line,) = encode_rows([row])
    assert len(line.splitlines()) == 1 and line.endswith(b"\n")
    assert read_row(line[:-1]) == row
    sound(read_row(line[:-1]))
    found = json.loads(line)
    assert (found["position"], found["batch"]) == (row[0], [row[0], 1])
    if row[9] is not None:
        assert found["event"]["payload"] == json.loads(row[9])


@given(rows)
def test_blanks_erase_a_line_in_place_and_leave_it_readable(row: Row) -> None:
    (line,) = encode_rows([row])
    changed = bytearray(line)
    for offset, data, _ in blanks(line[:-1]):
        assert b"\n" not in data
        changed[offset : offset + len(data)] = data
    assert len(changed) == len(line)
    assert read_row(bytes(changed[:-1])) == erased(row)
    assert blanks(bytes(changed[:-1])) == []
    assert json.loads(changed)["event"]["payload"] is None
    sound(read_row(bytes(changed[:-1])))


@given(rows, st.data())
def test_an_erasure_that_broke_off_anywhere_is_read_as_erased_and_can_be_finished(
    row: Row, data: st.DataObject
) -> None:
    (line,) = encode_rows([row])
    changed = bytearray(line)
    steps = blanks(line[:-1])
    (salt_offset, salt, is_salt), *rest = steps
    assert is_salt
    torn = data.draw(st.integers(1, len(salt)))
    changed[salt_offset : salt_offset + torn] = salt[:torn]
    if torn == len(salt):
        for offset, blank, _ in rest:
            cut = data.draw(st.integers(0, len(blank)))
            start = data.draw(st.integers(0, cut))
            changed[offset + start : offset + cut] = blank[start:cut]
    found = read_line(bytes(changed[:-1]))
    assert found.row == erased(row)
    for offset, blank, _ in blanks(bytes(changed[:-1])):
        changed[offset : offset + len(blank)] = blank
    assert read_line(bytes(changed[:-1])) == (erased(row), row[0], 1, False)


def test_the_keys_stand_in_one_order_and_the_payload_is_verbatim() -> None:
    (line,) = encode_rows([row_of(b'{ "b" : 1 , "a":[1.50, 1e3] }', attributes='{"actor":"a"}', version=2)])
    found = json.loads(line, object_pairs_hook=list)
    assert [key for key, _ in found] == [
        "position", "sequence", "recorded_at", "batch", "leaf", "check", "commitment", "payload_bytes", "salt",
        "event",
    ]  # fmt: skip
    assert [key for key, _ in found[-1][1]] == [
        "event_id", "event_type", "timestamp", "source", "correlation_id", "causation_id", "payload",
        "schema_version", "attributes",
    ]  # fmt: skip
    assert b'"payload":{ "b" : 1 , "a":[1.50, 1e3] },' in line


@pytest.mark.parametrize("payload", [b"{}", b"{ }", b"{}\n", b"\n{}", b"{  }"])
def test_the_shortest_payloads_leave_room_for_null(payload: bytes) -> None:
    row = row_of(payload)
    (line,) = encode_rows([row])
    assert read_row(line[:-1]) == row
    assert len(blanks(line[:-1])[-1][1]) >= 4


def test_every_changed_bit_of_a_line_is_found_or_changes_nothing() -> None:
    row = row_of(
        b'{"text":"one two"}', cause=bytes(16), version=3, attributes='{"actor":"Zo\xc3\xab"}', position=12
    )
    (line,) = encode_rows([row])
    for place in range(len(line) - 1):
        for bit in range(8):
            changed = bytearray(line[:-1])
            changed[place] ^= 1 << bit
            try:
                found = read_line(bytes(changed)).row
                sound(found)
            except BadLine:
                continue
            # A salt that is no base64 any more reads as half erased: the scan asks for the record of it.
            assert found in (row, erased(row)), (place, bit, bytes(changed))
            if found == erased(row):
                with pytest.raises(BadLine):
                    read_row(bytes(changed))


def test_a_header_reads_back_and_every_changed_bit_is_found() -> None:
    header = Header(1, "0199c4d2-7f3a-4b21-8c55-1f0e2d3c4b5a", TIME, 3, 1001, "ab" * 32)
    line = encode_header(header)
    assert read_header(line[:-1], "x") == header
    for place in range(len(line) - 1):
        for bit in range(8):
            changed = bytearray(line[:-1])
            changed[place] ^= 1 << bit
            with pytest.raises(BadLine):
                read_header(bytes(changed), "x")


@pytest.mark.parametrize("prefix", ["{" * 60_000, '{"position":1' * 5_000, '"' * 60_000, "[" * 60_000])
def test_hostile_lines_are_refused_in_no_time(prefix: str) -> None:
    (line,) = encode_rows([row_of()])
    for hostile in (prefix.encode(), line[:-40] + prefix.encode(), prefix.encode() + line):
        with pytest.raises(BadLine):
            read_row(hostile)


def test_random_bytes_are_no_lines() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        with pytest.raises(BadLine):
            read_row(chance.randbytes(chance.randrange(600)))


def test_the_golden_lines_of_the_format_page_are_the_lines_that_are_written() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "format.md").read_text(encoding="utf-8")
    vectors = {
        name: json.loads(text)
        for name, text in re.findall(r"<!-- vector: ([\w-]+) -->\n```json\n(.*?)```", page, re.S)
    }
    golden = vectors["jsonl"]
    rows = []
    for number, entry in enumerate([*vectors["entries"], vectors["ledger"]["entry_3"]]):
        salt, payload = bytes.fromhex(entry["salt"]), bytes.fromhex(entry["payload"])
        attributes = entry["attributes"]
        rows.append(
            (
                number + 1, entry["sequence"], entry["recorded_at"], uuid_bytes(entry["event_id"]),
                entry["event_type"], entry["timestamp"], canonical_json(entry["source"]).decode(),
                entry["correlation_id"],
                None if entry["causation_id"] is None else uuid_bytes(entry["causation_id"]), payload,
                entry["schema_version"], None if attributes is None else canonical_json(attributes).decode(),
                bytes.fromhex(entry["leaf"]), salt, bytes.fromhex(entry["commitment"]), len(payload),
            )
        )  # fmt: skip
    assert encode_rows(rows[:1])[0].decode() == golden["line_1"] + "\n"
    assert encode_rows(rows[1:])[0].decode() == golden["line_2"] + "\n"
    assert encode_rows([erased(rows[0])])[0].decode() != golden["line_1_erased"] + "\n"
    changed = bytearray(encode_rows(rows[:1])[0])
    for offset, data, _ in blanks(bytes(changed[:-1])):
        changed[offset : offset + len(data)] = data
    assert changed.decode() == golden["line_1_erased"] + "\n"
    pretty = row_of(golden["line_feeds"]["payload"].encode(), salt=bytes(16))
    (line,) = encode_rows([pretty])
    assert golden["line_feeds"]["in_the_line"] in line.decode()
    header = Header(*golden["header"].values())
    assert encode_header(header).decode() == golden["header_line"] + "\n"

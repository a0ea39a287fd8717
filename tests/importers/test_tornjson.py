"""Torn JSON is closed behind its last whole item; halves of surrogate pairs are replaced, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.importers.tornjson import closed, without_lone_surrogates

DOCUMENT = {"a": [{"spans": [{"n": "ä[{"}, {"n": '"}'}]}, {"spans": [{"n": 3, "spans": []}]}], "b": 1}
TEXT = json.dumps(DOCUMENT, ensure_ascii=False).encode()
LISTS = frozenset({b"spans"})


def spans(value: Any) -> list[Any]:
    return [one for group in value["a"] for one in group.get("spans", [])]


@given(st.integers(0, len(TEXT)))
def test_cut_off_anywhere_the_items_before_are_there_and_no_part_of_one(cut: int) -> None:
    part = closed(TEXT[:cut], LISTS)
    ends = [TEXT.index(end) + len(end) for end in (b'"\xc3\xa4[{"}', b'"\\"}"}', b'"spans": []}')]
    count = sum(cut >= end for end in ends)
    if part is None:
        assert count == 0
        return
    text, rest = part
    assert spans(json.loads(text)) == spans(DOCUMENT)[:count]
    assert rest == ends[count - 1]


def test_what_comes_after_a_fault_is_left_out() -> None:
    text = b'{"spans": [{"a": 1}, {oops}, {"a": 2}]}'
    assert closed(text, LISTS) == (b'{"spans": [{"a": 1}]}', 19)
    assert closed(b'{"spans": [{"a": "\xff"}]}', LISTS) is None


def test_only_halves_are_replaced() -> None:
    pair = json.dumps("😀 \\ud800 ä")
    assert without_lone_surrogates(pair.encode()) == pair.encode()
    assert json.loads(without_lone_surrogates(json.dumps("\ud800x\udc00😀\ud83d").encode())) == "�x�😀�"
    assert without_lone_surrogates(rb'"\\ud800"') == rb'"\\ud800"'

"""Channel values, part by part: what is stored of a change leads from the value before to the value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot.adapters.langgraph.checkpoints.values import changed, dumped, full, join, patched, split
from chatsnapshot.errors import InvalidEvent

items = st.lists(st.integers(0, 4), max_size=8)
members = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6)


def dumps(value: Any) -> tuple[str, bytes]:
    return "text", repr(value).encode()


def loads(part: tuple[str, bytes]) -> Any:
    return eval(part[1].decode(), {}, {})  # own text of plain literals


@given(st.one_of(st.tuples(items, items), st.tuples(members, members), st.tuples(items, members)))
def test_a_change_leads_from_the_value_before_to_the_value(pair: tuple[Any, Any]) -> None:
    before, after = split(pair[0], dumps), split(pair[1], dumps)
    delta = changed(after, before)
    made = patched(full(after), None) if delta is None else patched(delta, before)
    assert made == after
    assert join(made, loads) == pair[1]
    assert list(join(made, loads)) == list(pair[1])


def test_what_came_to_a_list_is_all_that_is_stored() -> None:
    before, after = split([1, 2, 3], dumps), split([1, 2, 3, 4], dumps)
    assert changed(after, before) == {"kind": "list", "keep": 3, "parts": [["text", b"4"]]}


def test_a_window_that_moves_on_is_stored_as_what_came_to_it() -> None:
    before, after = split([1, 2, 3], dumps), split([2, 3, 4], dumps)
    assert changed(after, before) == {"kind": "list", "keep": 2, "skip": 1, "parts": [["text", b"4"]]}


def test_one_changed_member_is_all_that_is_stored_of_a_dict() -> None:
    before, after = split({"a": 1, "b": 2, "c": 3}, dumps), split({"a": 1, "b": 9}, dumps)
    assert changed(after, before) == {"kind": "dict", "keys": ["b"], "parts": [["text", b"9"]], "gone": ["c"]}


def test_an_unchanged_value_is_stored_as_nothing_new() -> None:
    value = split("text", dumps)
    assert changed(value, value) == {"kind": "one", "keep": 1, "parts": []}


def test_a_pickled_value_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="would be pickled"):
        dumped(lambda value: ("pickle", b""), object())

"""Filters at their edges: what cannot match is refused or finds nothing, alike on every store."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot import InvalidEvent, Ledger, Limits


def positions(ledger: Ledger, **filters: Any) -> list[int]:
    return [entry.position for entry in ledger.read(**filters)]


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    ledger.record_many(
        [
            {"event_type": "execution.message", "correlation_id": "a", "source": {"origin": "agent", "name": "e\u0301"}},
            {"event_type": "execution.tool_call", "correlation_id": "b", "attributes": {"n": 2**60, "t": "1"}},
            {"event_type": "execution_x.message", "correlation_id": "a", "attributes": {"n": 1, "t": True}},
            {"event_type": "system.error", "correlation_id": "c", "attributes": {"n": True, "tags": ["a", "1"]}},
            {"event_type": "system.error", "correlation_id": "c", "attributes": {"q": "a\"b\\c", "tags": []}},
        ]
    )  # fmt: skip
    return ledger


def test_an_empty_list_of_types_matches_nothing(filled: Ledger) -> None:
    assert positions(filled, event_type=[]) == []
    assert positions(filled, event_type=()) == []


def test_a_prefix_ends_at_the_dot(filled: Ledger) -> None:
    assert positions(filled, event_type="execution.*") == [1, 2]
    assert positions(filled, event_type=["execution.*", "system.error"]) == [1, 2, 4, 5]
    assert positions(filled, event_type="*") == [1, 2, 3, 4, 5]
    assert positions(filled, event_type=["*", "system.error"]) == [1, 2, 3, 4, 5]


def test_names_are_matched_in_the_form_in_which_they_are_stored(filled: Ledger) -> None:
    assert positions(filled, name="e\u0301") == positions(filled, name="é") == [1]
    assert positions(filled, name="e") == []


def test_attributes_match_by_kind_and_by_member(filled: Ledger) -> None:
    assert positions(filled, attributes={"n": 1}) == [3]
    assert positions(filled, attributes={"n": True}) == [4]
    assert positions(filled, attributes={"t": "1"}) == [2]
    assert positions(filled, attributes={"tags": "1"}) == [4]
    assert positions(filled, attributes={"tags": "a", "n": True}) == [4]
    assert positions(filled, attributes={"tags": "a", "n": 1}) == []
    assert positions(filled, attributes={"q": 'a"b\\c'}) == [5]
    assert positions(filled, attributes={}) == [1, 2, 3, 4, 5]


def test_an_attribute_that_became_text_is_found_by_what_was_given(filled: Ledger) -> None:
    assert (
        positions(filled, attributes={"n": 2**60}) == positions(filled, attributes={"n": str(2**60)}) == [2]
    )
    assert positions(filled, attributes={"n": 2**100}) == []
    entry = filled.record("a.b", correlation_id="d", attributes={"s": "x\ud800"})
    assert positions(filled, attributes={"s": "x\ud800"}) == [entry.position]


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_type": "message"},
        {"event_type": "Execution.*"},
        {"event_type": "execution.tool_*"},
        {"event_type": ""},
        {"event_type": ["execution.message", "*.message"]},
        {"event_type": "a.\ud800"},
        {"event_type": 7},
        {"event_type": [7]},
        {"origin": "robot"},
        {"origin": 7},
        {"runtime": ""},
        {"name": "a\ud800"},
        {"name": "a\x00"},
        {"correlation_id": ""},
        {"attributes": {"n": 1.5}},
        {"attributes": {"n": None}},
        {"attributes": {"Bad": "x"}},
        {"attributes": {'a"b': "x"}},
        {"attributes": ["a"]},
        {"causation_id": "x"},
        {"start": "yesterday"},
        {"limit": -1},
        {"limit": True},
        {"after": "1"},
        {"until": 1.5},
        {"until": True},
        {"until": "now"},
    ],
)
def test_a_filter_that_can_match_nothing_by_its_form_is_refused(
    filled: Ledger, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidEvent):
        list(filled.read(**wrong))
    assert positions(filled, limit=1) == [1]


def test_bounds_beyond_every_number_are_taken(filled: Ledger) -> None:
    huge = 2**80
    assert positions(filled, after=huge) == []
    assert positions(filled, after=-huge, until=huge, limit=huge) == [1, 2, 3, 4, 5]
    assert positions(filled, until=-huge) == positions(filled, until=0) == []
    assert positions(filled, after=5) == positions(filled, limit=0) == []
    assert positions(filled, after=2, until=4, reverse=True) == [4, 3]
    assert positions(filled, until="9999-12-31T23:59:59Z") == [1, 2, 3, 4, 5]
    assert positions(filled, until="0001-01-01T00:00:00Z") == []


def test_a_ledger_with_longer_ids_reads_them(url: str, opened: Any) -> None:
    ledger = opened(url, limits=Limits(id_chars_max=1_000))
    text = "x" * 900
    ledger.record("a.b", correlation_id=text, source={"origin": "ui", "name": text})
    assert positions(ledger, correlation_id=text, name=text) == [1]
    assert [entry.position for entry in ledger.replay(text)] == [1]
    assert [entry.position for entry in ledger.tail(after=0, correlation_id=text, timeout=0)] == [1]


def test_an_unknown_filter_is_a_type_error(filled: Ledger) -> None:
    with pytest.raises(TypeError):
        filled.read(kind="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        filled.tail(limit=1)

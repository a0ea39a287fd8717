"""Reading: every filter against a brute-force oracle, pages, bounds, and holes that are errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot import Corrupt, InvalidEvent, Ledger, LedgerEntry, Limits, NotFound

TYPES = ["execution.message", "execution.tool_call", "execution_x.y", "system.error", "ui.interaction"]
TIMES = [f"2026-11-30T02:26:0{second}.000000Z" for second in range(6)]

events = st.fixed_dictionaries(
    {
        "event_type": st.sampled_from(TYPES),
        "correlation_id": st.sampled_from(["a", "b", "c"]),
        "timestamp": st.sampled_from(TIMES),
        "payload": st.just({}),
        "source": st.fixed_dictionaries(
            {"origin": st.sampled_from(["agent", "ui"]), "runtime": st.sampled_from(["ag2", "none"])},
            optional={"name": st.sampled_from(["ada", "bob", "ag2"])},
        ),
        "attributes": st.fixed_dictionaries(
            {},
            optional={
                "actor": st.sampled_from(["ada", "bob", "1", "true"]),
                "n": st.sampled_from([0, 1, 2]),
                "ok": st.booleans(),
                "links": st.lists(st.sampled_from(["x", "y"]), max_size=2),
            },
        ),
    }
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "correlation_id": st.sampled_from(["a", "b", "nobody"]),
        "event_type": st.sampled_from([*TYPES, "execution.*", "*", ["ui.*", "system.error"], "no.such", []]),
        "origin": st.sampled_from(["agent", "ui"]),
        "runtime": st.sampled_from(["ag2", "none"]),
        "name": st.sampled_from(["ada", "ag2"]),
        "attributes": st.sampled_from(
            [
                {"actor": "ada"},
                {"n": 1},
                {"n": True},
                {"ok": True},
                {"ok": 1},
                {"links": "x"},
                {"actor": "1", "n": 0},
            ]
        ),
        "start": st.sampled_from(TIMES),
        "end": st.sampled_from(TIMES),
        "after": st.integers(-1, 30),
        "until": st.integers(0, 30),
        "limit": st.integers(0, 12),
        "reverse": st.booleans(),
    },
)


def matches(entry: LedgerEntry, wanted: dict[str, Any]) -> bool:
    types = wanted.get("event_type")
    if types is not None:
        types = [types] if isinstance(types, str) else types
        if not any(
            kind == "*"
            or (entry.event_type.startswith(kind[:-1]) if kind.endswith(".*") else entry.event_type == kind)
            for kind in types
        ):
            return False
    for key, value in wanted.get("attributes", {}).items():
        found = entry.attributes.get(key)
        if isinstance(found, list):
            if value not in found:
                return False
        elif type(found) is not type(value) or found != value:
            return False
    return (
        wanted.get("correlation_id", entry.correlation_id) == entry.correlation_id
        and wanted.get("origin", entry.source.origin) == entry.source.origin
        and wanted.get("runtime", entry.source.runtime) == entry.source.runtime
        and wanted.get("name", entry.source.name) == entry.source.name
        and wanted.get("start", "") <= entry.timestamp < wanted.get("end", "9")
        and wanted.get("after", 0) < entry.position <= wanted.get("until", 10**9)
    )


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(recorded=st.lists(events, min_size=1, max_size=28), asked=st.lists(filters, min_size=4, max_size=8))
def test_every_filter_gives_what_a_look_at_each_entry_gives(
    tmp_path_factory: pytest.TempPathFactory, store: str, recorded: list[Any], asked: list[Any]
) -> None:
    url = "memory:" if store == "memory" else str(tmp_path_factory.mktemp("read") / "runs.db")
    limits = Limits(page_entries_max=3, scan_entries_max=5)
    with chatsnapshot.open(url, limits=limits, durability="os") as ledger:
        ledger.record_many(recorded)
        everything = list(ledger.read())
        assert [entry.position for entry in everything] == list(range(1, len(recorded) + 1))
        for wanted in asked:
            expected = [entry for entry in everything if matches(entry, wanted)]
            if wanted.get("reverse"):
                expected.reverse()
            if "limit" in wanted:
                expected = expected[: wanted["limit"]]
            assert list(ledger.read(**wanted)) == expected, wanted


def fill(ledger: Ledger, count: int) -> None:
    ledger.record_many(
        [{"event_type": "a.b", "payload": {"n": n}, "correlation_id": f"c{n % 3}"} for n in range(count)]
    )


def test_a_read_ends_at_the_head_of_its_start(ledger: Ledger) -> None:
    fill(ledger, 3)
    reading = ledger.read()
    fill(ledger, 3)
    assert [entry.position for entry in reading] == [1, 2, 3]


def test_a_loop_that_breaks_off_goes_on_where_it_was(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, limits=Limits(page_entries_max=4))
    fill(ledger, 10)
    reading = ledger.read()
    first = []
    for entry in reading:
        first.append(entry.position)
        if len(first) == 3:
            break
    assert first + [entry.position for entry in reading] == list(range(1, 11))
    reading = ledger.read()
    assert [next(reading).position for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert list(reading) == list(ledger.read(after=6))
    with pytest.raises(StopIteration):
        next(reading)


def test_a_filtered_page_ends_after_what_it_may_scan_and_says_how_far(
    opened: Callable[..., Ledger], url: str
) -> None:
    ledger = opened(url, limits=Limits(scan_entries_max=4))
    fill(ledger, 10)
    reading = ledger.read(origin="agent")
    pages = []
    while not reading.exhausted:
        pages.append((len(reading.page()), reading.scanned_to))
    assert pages == [(0, 4), (0, 8), (0, 10)]


def test_a_page_ends_after_its_bytes(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, limits=Limits(page_bytes_max=1000))
    ledger.record_many([{"event_type": "a.b", "payload": {"x": "y" * 600}, "correlation_id": "c"}] * 9)
    reading = ledger.read()
    sizes = []
    while not reading.exhausted:
        sizes.append(len(reading.page()))
    assert sum(sizes) == 9
    assert max(sizes) <= 4


def test_until_may_be_a_time_and_gives_a_prefix(url: str, hands: Any, opened: Callable[..., Ledger]) -> None:
    ledger = opened(url, clock=hands.clock)
    stamps = []
    for number in range(20):
        stamps.append(ledger.record("a.b", {"n": number}, correlation_id="c").recorded_at)
        hands.move(1)
    for number, stamp in enumerate(stamps):
        assert len(list(ledger.read(until=stamp))) == number + 1
        moment = datetime.fromisoformat(stamp.replace("Z", "+00:00"))
        assert len(list(ledger.read(until=moment - timedelta(microseconds=1)))) == number
        assert len(list(ledger.replay("c", until=stamp))) == number + 1
    assert list(ledger.read(until=datetime(1999, 1, 1, tzinfo=timezone.utc))) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"until": datetime(2026, 1, 1)},
        {"until": True},
        {"until": 1.5},
        {"after": "1"},
        {"limit": -1},
        {"limit": True},
        {"event_type": "execution*"},
        {"event_type": ""},
        {"start": "yesterday"},
        {"attributes": {"a": None}},
        {"attributes": {'a"': "x"}},
        {"causation_id": "no uuid"},
        {"correlation_id": ""},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        ledger.read(**wrong)


def test_effects_are_found_by_their_cause(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="c")
    effects = [ledger.record("a.c", correlation_id=name, causation_id=cause) for name in "cde"]
    assert list(ledger.read(causation_id=cause)) == effects
    assert list(ledger.read(causation_id=cause.event_id, correlation_id="d")) == effects[1:2]


def test_get_names_one_event_in_every_way(ledger: Ledger) -> None:
    entry = ledger.record("a.b", correlation_id="c")
    assert ledger.get(entry.event_id) == ledger.get(entry) == ledger.get(entry.event) == entry
    assert ledger.get(entry.event_id.upper()) == entry
    with pytest.raises(NotFound, match="there is no event"):
        ledger.get("00000000-0000-4000-8000-000000000000")
    with pytest.raises(InvalidEvent):
        ledger.get("x")


@pytest.mark.parametrize(
    ("sql", "read", "what"),
    [
        ("DELETE FROM entry WHERE position = 5", {}, "position 5 is missing"),
        ("DELETE FROM entry WHERE position = 12", {}, "position 12 is missing"),
        ("DELETE FROM entry WHERE position = 5", {"correlation_id": "c1"}, "sequence of 'c1' 2 is missing"),
        ("DELETE FROM entry WHERE position = 5", {"reverse": True}, "position 5 is missing"),
    ],
)
def test_a_hole_is_an_error_and_never_a_skip(
    path: str, opened: Callable[..., Ledger], sql: str, read: dict[str, Any], what: str
) -> None:
    ledger = opened(path)
    fill(ledger, 12)
    ledger.close()
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER entry_kept")
        raw.execute(sql)
    raw.close()
    with pytest.raises(Corrupt, match=what):
        list(opened(path, read_only=True).read(**read))


def test_reading_does_not_change_what_is_read(ledger: Ledger) -> None:
    entry = ledger.record("a.b", {"x": [1]}, correlation_id="c", attributes={"links": ["a"]})
    entry.payload["x"].append(2)
    entry.attributes["links"].append("b")
    entry.event.payload["x"].append(3)
    assert entry.payload == {"x": [1]}
    assert entry.attributes == {"links": ["a"]}
    with pytest.raises(AttributeError):
        entry.position = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        entry.event.event_type = "x.y"  # type: ignore[misc]


@pytest.mark.parametrize("given", [(500, 0), (0, 500), (250, 250)])
def test_a_filter_takes_five_hundred_conditions_and_no_more(ledger: Ledger, given: tuple[int, int]) -> None:
    types = [f"a{n}.*" if n % 2 else f"a.b{n}" for n in range(given[0])]
    attributes: dict[str, str | bool | int] = {f"a{n}": n for n in range(given[1])}
    assert list(ledger.read(event_type=types or None, attributes=attributes)) == []
    with pytest.raises(InvalidEvent, match="at most 500 types and attributes, and this one has 501"):
        ledger.read(event_type=[*types, "x.y"], attributes=attributes)

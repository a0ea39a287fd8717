"""Projections are pure: any payload under any type, split anywhere, stored and read back, gives the same state."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.projections import criticalpath, views
from chatsnapshot.projections.auditreading import audit_of
from chatsnapshot.projections.base import Projection, copy_state, fold, get, names, register
from chatsnapshot.projections.diff import diff_positions, diff_runs
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.projections.render import render_markdown, render_text

STANDARD = (
    "runs",
    "timeline",
    "transcript",
    "graph",
    "metrics",
    "audit",
    "state",
    criticalpath.CriticalPathProjection.name,
)
PRICES = {"currency": "USD", "models": {"*": {"input": 1, "output": 2}}}
CALLS = st.sampled_from(["a", "b", None, 7])
NAMES = st.sampled_from(["f", "g", None, {"name": "h"}, ["odd"]])
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "run_id": st.sampled_from(["r1", "r2", None]),
        "parent_run_id": st.sampled_from(["r1", "r2"]),
        "call_id": CALLS,
        "task_id": CALLS,
        "id": CALLS,
        "answers": CALLS,
        "name": NAMES,
        "role": st.sampled_from(["user", "assistant", "tool", 3]),
        "content": st.none() | st.text(max_size=5) | st.lists(st.none() | st.text(max_size=3), max_size=2),
        "parts": st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "tool_call", "tool_call_response", "blob"])},
                optional={
                    "id": CALLS,
                    "name": NAMES,
                    "content": st.text(max_size=3),
                    "result": st.integers(),
                },
            ),
            max_size=3,
        ),
        "arguments": st.integers() | st.text(max_size=4),
        "result": st.floats() | st.none(),
        "error": st.none() | st.text(max_size=4) | st.booleans(),
    },
)
WORDS = """
    type text content role parts name tool messages message function usage error status $type $blob $json agent user
    sender tags kind task question interrupt run_id output
"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "event_type": st.sampled_from(
                [*TYPES, "acme.thing", "execution.tool_call", "execution.tool_result"]
            ),
            "payload": SHAPED | JSON,
            "run": st.sampled_from(["x", "x", "y"]),
            "cause": st.none() | st.integers(1, 14),
            "at": st.integers(-5, 30),
            "erased": st.sampled_from([False, False, False, True]),
        }
    ),
    min_size=1,
    max_size=14,
)


def record(history: Any, events: list[dict[str, Any]]) -> Any:
    history.entries.clear()
    history.sequences.clear()
    for event in events:
        cause = event["cause"]
        named = f"00000000-0000-0000-0000-{cause:012x}" if cause else None
        history.add(event["event_type"], event["payload"], **{**event_options(event), "cause": named})
    return history


def event_options(event: dict[str, Any]) -> dict[str, Any]:
    return {key: event[key] for key in ("run", "at", "erased")}


def standard() -> list[Projection[Any]]:
    return [get(name)() for name in STANDARD]


same_history = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)


@given(EVENTS)
@same_history
def test_no_payload_under_any_type_makes_a_view_or_its_rendering_raise(history: Any, events: Any) -> None:
    record(history, events)
    msgspec.json.encode(views.list_runs(history))
    for name in STANDARD:
        for run in history.sequences:
            try:
                found = views.view(history, name, run)
            except views.NotFound:
                assert name in ("runs", "metrics", "state")
                continue
            msgspec.json.encode(found)
            if name == "transcript":
                render_text(found)
                render_markdown(found)
    msgspec.json.encode(metrics_of(history, prices=PRICES))
    msgspec.json.encode(audit_of(history))
    runs = list(history.sequences)
    msgspec.json.encode(diff_runs(history, runs[0], runs[-1]))
    msgspec.json.encode(diff_positions(history, runs[0], 3))


@given(EVENTS, st.integers(0, 14))
@same_history
def test_a_fold_may_be_split_anywhere_and_its_state_stored_between(
    history: Any, events: Any, cut: int
) -> None:
    entries = [entry for entry in record(history, events).entries if entry.correlation_id == "x"]
    for projection in standard():
        whole = fold(projection, entries)
        half = fold(projection, entries[:cut])
        seen = msgspec.json.encode(half)
        result = msgspec.json.encode(projection.result(half))
        again = fold(projection, entries[cut:], copy_state(half))
        assert msgspec.json.encode(again) == msgspec.json.encode(whole)
        # The copy went on without touching what it was copied from, and a result changes no state.
        assert msgspec.json.encode(half) == seen
        assert msgspec.json.encode(projection.result(half)) == result


@given(EVENTS, st.integers(1, 14))
@same_history
def test_a_view_up_to_a_position_does_not_depend_on_what_follows(
    history: Any, events: Any, until: int
) -> None:
    record(history, events)
    early = views.list_runs(history, until=until)
    full = list(history.entries)
    del history.entries[until:]
    assert msgspec.json.encode(views.list_runs(history)) == msgspec.json.encode(early)
    wanted = [name for name in STANDARD if name != "runs"]
    measured, audited = metrics_of(history, prices=PRICES), audit_of(history)
    cut = {name: views.view(history, name, "x") for name in wanted if _has(history, "x")}
    history.entries.extend(full[until:])
    assert metrics_of(history, prices=PRICES, until=until) == measured
    assert audit_of(history, until=until) == audited
    for name, found in cut.items():
        assert msgspec.json.encode(views.view(history, name, "x", until=until)) == msgspec.json.encode(found)


def _has(history: Any, run: str) -> bool:
    return any(entry.correlation_id == run for entry in history.entries)


@given(EVENTS)
@same_history
def test_every_entry_is_on_the_timeline_once_and_partners_agree(history: Any, events: Any) -> None:
    record(history, events)
    for run in history.sequences:
        items = views.view(history, "timeline", run, children=False).items
        by_position = {item.position: item for item in items}
        assert len(by_position) == history.sequences[run]
        for item in items:
            if item.partner is not None:
                assert by_position[item.partner].partner == item.position
            elif item.edge in ("start", "end"):
                assert item.open if item.edge == "start" else item.unmatched


def test_a_fold_leaves_the_initial_state_of_the_next_one_alone(history: Any) -> None:
    history.add("execution.run_started", {"name": "n", "tags": ["t"]})
    history.add("execution.tool_call", {"name": "f", "call_id": "c"})
    for projection in standard():
        before = copy.deepcopy(projection.initial())
        fold(projection, history.entries)
        assert projection.initial() == before


class Count(msgspec.Struct):
    events: int = 0


class Counting:
    name = "test_counting"
    version = 1

    def key(self, entry: Any) -> str | None:
        return str(entry.correlation_id)

    def initial(self) -> Count:
        return Count()

    def apply(self, state: Count, entry: Any) -> Count:
        return Count(state.events + 1)


def test_a_projection_of_ones_own_takes_ten_lines(history: Any) -> None:
    register(Counting)
    history.add("acme.thing")
    history.add("acme.thing")
    assert views.view(history, "test_counting", "run-1") == Count(2)
    assert "test_counting" in names()


def test_a_name_belongs_to_one_projection() -> None:
    class Runs(Counting):
        name = "runs"

    with pytest.raises(ValueError, match="registered already"):
        register(Runs)


def test_an_unknown_projection_is_named_with_the_nearest_ones() -> None:
    with pytest.raises(views.NotFound, match="'trancript'; did you mean transcript"):
        get("trancript")
    with pytest.raises(views.NotFound, match="runs or "):
        get("zzz")

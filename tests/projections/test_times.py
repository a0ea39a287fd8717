"""An event that says that its time is unknown has none in any view; durations beside it are unknown too."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.projections.times import happened
from chatsnapshot.projections.views import view

UNKNOWN = {"native": {"time": "unknown"}}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"time": "unknown"},
        {"native": "unknown"},
        {"native": {"time": "noon"}},
        {"a": {"native": {"time": "unknown"}}},
    ],
)
def test_only_the_mark_itself_takes_a_time_away(history: Any, payload: Any) -> None:
    entry = history.add("execution.message", payload)
    assert happened(entry) == entry.timestamp


def test_the_mark_is_read_however_it_is_written(history: Any) -> None:
    assert happened(history.add("execution.message", UNKNOWN)) is None
    assert happened(history.add("execution.message", raw=b'{"native": {"time" : "unknown"}}')) is None


def test_a_run_without_times_is_whole_and_has_no_duration(history: Any) -> None:
    history.add("execution.run_started", UNKNOWN)
    history.add("execution.run_completed", UNKNOWN)
    (run,) = view(history, "runs", "run-1").runs
    assert (run.status, run.partial, run.started_at, run.ended_at, run.duration_ns) == (
        "completed",
        False,
        None,
        None,
        None,
    )
    assert (run.first_at, run.last_at, run.executions[0].duration_ns) == (None, None, None)


def test_a_run_of_which_only_the_end_is_known_in_time_has_no_duration(history: Any) -> None:
    history.add("execution.run_started", UNKNOWN)
    end = history.add("execution.run_completed")
    (run,) = view(history, "runs", "run-1").runs
    assert (run.started_at, run.ended_at, run.duration_ns) == (None, end.timestamp, None)


def test_offsets_count_from_the_first_known_time(history: Any) -> None:
    history.add("execution.tool_call", {"call_id": "x", **UNKNOWN})
    history.add("execution.message", {"content": "a"}, at=5)
    history.add("execution.tool_result", {"call_id": "x"}, at=6)
    timeline = view(history, "timeline", "run-1")
    assert [item.offset_ns for item in timeline.items] == [None, 0, 1_000_000_000]
    assert [item.duration_ns for item in timeline.items] == [None, None, None]
    tool = view(history, "transcript", "run-1").items[0]
    assert (tool.at, tool.called_at, tool.duration_ns) == (None, None, None)

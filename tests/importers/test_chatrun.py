"""What the importers of chats share: payloads that fit, times, tokens, names that follow from content."""

from __future__ import annotations

from typing import Any

import pytest

from chatsnapshot.events.messages import Call, Result
from chatsnapshot.importers.chatrun import ChatRun, digest, fitting, moment, usage_of


def test_what_does_not_fit_goes_into_native_and_nothing_is_lost() -> None:
    given = {
        "role": "user",
        "content": "Hi",
        "tool_calls": 5,
        "refusal": [1],
        "native": {"a": 1},
        "other": {"b": 2},
    }
    assert fitting("execution.message", dict(given)) == {
        "role": "user",
        "content": "Hi",
        "other": {"b": 2},
        "native": {"a": 1, "unfit": {"tool_calls": 5, "refusal": [1]}},
    }
    plain = {"role": "user", "content": "Hi"}
    assert fitting("execution.message", plain) is plain


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ("2025-07-05T09:59:48-04:00", "2025-07-05T13:59:48.000000Z"),
        ("2025-07-05T09:59:48.5Z", "2025-07-05T09:59:48.500000Z"),
        ("2025-07-05T09:59:48.5", "2025-07-05T09:59:48.500000Z"),
        ("2025-07-05 09:59:48", "2025-07-05T09:59:48.000000Z"),
        ("2025-07-05", "2025-07-05T00:00:00.000000Z"),
        ("2025-07-05T09:59:48.500Z", "2025-07-05T09:59:48.500000Z"),
        ("2026-05-04T11:00:00", "2026-05-04T11:00:00.000000Z"),
        (1_760_000_000, "2025-10-09T08:53:20.000000Z"),
        (1_760_000_000.25, "2025-10-09T08:53:20.250000Z"),
        *(
            (none, None)
            for none in ("never", "", None, True, -5, 0, 1e300, float("nan"), [], {}, "0000-01-01")
        ),
    ],
)
def test_times_are_read_as_they_are_recorded(given: Any, time: str | None) -> None:
    assert moment(given) == time


@pytest.mark.parametrize(
    ("given", "usage"),
    [
        ({"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}, {"input_tokens": 3, "output_tokens": 2}),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}},
            {"input_tokens": 9, "output_tokens": 4, "cache_read": 6},
        ),
        (
            {
                "input_tokens": 1.0,
                "input_tokens_cache_read": 2,
                "input_tokens_cache_write": 3,
                "reasoning_tokens": 4,
            },
            {"input_tokens": 1, "cache_read": 2, "cache_write": 3, "reasoning": 4},
        ),
        *(
            (none, None)
            for none in ({}, None, 5, {"input_tokens": -1}, {"input_tokens": "3"}, {"input_tokens": 1.5})
        ),
        ({"input_tokens": float("inf"), "output_tokens": True}, None),
    ],
)
def test_tokens_are_read_by_the_names_of_providers(given: Any, usage: Any) -> None:
    assert usage_of(given) == usage


def test_a_digest_follows_from_what_is_said_not_from_how_it_is_written() -> None:
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
    assert len(digest(["\ud800"], 8)) == 8


def test_parallel_calls_follow_from_one_message_and_each_result_from_its_call() -> None:
    run = ChatRun("c", "x")
    first = run.call(0, "a", Call("add", "1", {})).event
    run.cause = None
    second = run.call(0, "b", Call("add", "2", {})).event
    assert second["causation_id"] is None
    assert run.result(0, "c", Result("add", "2", 1)).event["causation_id"] == second["event_id"]
    assert run.result(0, "d", Result(None, "1", 1)).event["causation_id"] == first["event_id"]
    lone = run.result(0, "e", Result(None, "9", 1)).event
    assert lone["causation_id"] == run.id_of("d")


def test_of_two_calls_with_one_id_the_first_is_answered_first() -> None:
    run = ChatRun("c", "x")
    first, second = (run.call(0, key, Call("add", "1", {})).event for key in "ab")
    causes = [run.result(0, key, Result("add", "1", 1)).event["causation_id"] for key in "cd"]
    assert causes == [first["event_id"], second["event_id"]]

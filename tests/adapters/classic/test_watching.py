"""Watched runs: the record is whole, and the user's loop sees what it saw without us."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from autogen import testing
from autogen.events.agent_events import TextEvent
from autogen.events.client_events import StreamEvent
from classic_chats import agent, calls, causes, one, pair, said, types

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder, map_event, normalize

SCRIPT = (calls(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "3 and 7 TERMINATE")


def run(recorder: AG2Recorder | None, *script: Any) -> tuple[list[Any], Any]:
    assistant, user = pair(*script or SCRIPT)
    response = user.run(assistant, message="Add.", max_turns=5)
    if recorder is not None:
        assert recorder.watch(response) is response
    return list(response.events), response.summary


def run_iter(recorder: AG2Recorder | None, *script: Any) -> tuple[list[Any], Any]:
    assistant, user = pair(*script or SCRIPT)
    response = user.run_iter(assistant, message="Add.", max_turns=5)
    if recorder is not None:
        assert recorder.watch(response) is response
    return list(response), response.summary


def a_run(recorder: AG2Recorder | None, *script: Any) -> tuple[list[Any], Any]:
    async def main() -> tuple[list[Any], Any]:
        assistant, user = pair(*script or SCRIPT)
        call = user.a_run(assistant, message="Add.", max_turns=5)
        response = await (call if recorder is None else recorder.watch(call))
        return [event async for event in response.events], await response.summary

    return asyncio.run(main())


def a_run_iter(recorder: AG2Recorder | None, *script: Any) -> tuple[list[Any], Any]:
    async def main() -> tuple[list[Any], Any]:
        assistant, user = pair(*script or SCRIPT)
        response = user.a_run_iter(assistant, message="Add.", max_turns=5)
        if recorder is not None:
            assert recorder.watch(response) is response
        return [event async for event in response], response.summary

    return asyncio.run(main())


EVERY_WAY = pytest.mark.parametrize("way", [run, run_iter, a_run, a_run_iter])
Way = Callable[..., tuple[list[Any], Any]]


@EVERY_WAY
def test_a_watched_run_is_recorded_from_its_start_to_its_end(
    ledger: Ledger, recorder: AG2Recorder, way: Way
) -> None:
    way(recorder)
    assert types(ledger) == [
        "run_started",
        "message",
        "message",
        *["tool_call", "tool_result"] * 2,
        "message",
        "message",
        "state_change",
        "run_completed",
    ]
    start, end = one(ledger, "execution.run_started").payload, one(ledger, "execution.run_completed").payload
    assert (start["name"], start["agents"]) == ("user, assistant", ["user", "assistant"])
    assert end["status"] == "ok" and end["output"].startswith("3 and 7")
    assert end["last_speaker"] == "assistant" and end["cost"]
    assert ledger.view("runs", "run-1").runs[0].status == "completed"
    assert recorder.safe.failures == 0


@EVERY_WAY
def test_the_users_loop_sees_the_same_with_and_without_us(recorder: AG2Recorder, way: Way) -> None:
    events, summary = way(recorder)
    untouched, same_summary = way(None)
    assert [event.type for event in events] == [event.type for event in untouched]
    assert [type(event) for event in events] == [type(event) for event in untouched]
    assert summary == same_summary


@EVERY_WAY
def test_the_loop_and_the_watched_run_give_the_same_types_and_payloads(
    ledger: Ledger, recorder: AG2Recorder, way: Way
) -> None:
    events, _ = way(recorder)
    by_hand = [(map_event(event), normalize(event)) for event in events]
    with chatsnapshot.open("memory:") as other:
        looped = [
            other.record(event_type=kind, correlation_id="run-1", payload=payload)
            for kind, payload in by_hand
        ]
        watched = [entry for entry in ledger.read() if entry.event_type != "execution.run_started"]
        if len(watched) == len(looped) + 1:  # run_iter keeps the end of the run from its loop
            assert watched.pop().event_type == "execution.run_completed"
        assert [(entry.event_type, entry.payload) for entry in watched] == [
            (entry.event_type, entry.payload) for entry in looped
        ]


@EVERY_WAY
def test_a_result_is_caused_by_its_call_and_a_call_by_the_message_that_asked(
    ledger: Ledger, recorder: AG2Recorder, way: Way
) -> None:
    way(recorder)
    assert causes(ledger)[:8] == [
        ("run_started user assistant", ""),
        ("user user", "run_started user assistant"),
        ("assistant assistant", "user user"),
        ("tool_call call-1", "assistant assistant"),
        ("tool_result call-1", "tool_call call-1"),
        ("tool_call call-2", "assistant assistant"),
        ("tool_result call-2", "tool_call call-2"),
        ("tool user", "tool_result call-2"),
    ]
    first, _ = ledger.read(event_type="execution.tool_result")
    (response,) = [
        entry for entry in ledger.read(event_type="execution.message") if entry.payload["role"] == "tool"
    ]
    assert response.event.attributes == {"links": [first.event_id]}


@EVERY_WAY
def test_the_id_of_an_event_is_that_of_ag2(ledger: Ledger, recorder: AG2Recorder, way: Way) -> None:
    events, _ = way(recorder)
    recorded = {entry.event_id for entry in ledger.read()}
    assert {str(event.content.uuid) for event in events} <= recorded


@EVERY_WAY
def test_a_tool_that_fails_is_a_failed_result_in_a_run_that_completes(
    ledger: Ledger, recorder: AG2Recorder, way: Way
) -> None:
    way(recorder, calls(("explode", {"x": 1})), "sorry TERMINATE")
    result = one(ledger, "execution.tool_result").payload
    assert (result["is_error"], result["error"]) == (True, {"message": "Error: the tool exploded"})
    assert types(ledger)[-1] == "run_completed"


def test_a_tool_that_does_not_exist_is_a_failed_result_of_the_message(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    run(recorder, calls(("nothing", {})), "sorry TERMINATE")
    assert ("tool_result call-1", "assistant assistant") in causes(ledger)


def test_a_call_is_in_the_ledger_before_its_tool_runs(ledger: Ledger, recorder: AG2Recorder) -> None:
    found: list[list[str]] = []

    def look(x: int) -> int:
        found.append(types(ledger))
        return x

    assistant, user = pair(calls(("look", {"x": 1})), "TERMINATE", tools=[look])
    list(recorder.watch(user.run_iter(assistant, message="go")))
    assert found[0][-1] == "tool_call"


def test_a_run_that_nobody_reads_is_recorded_whole(ledger: Ledger, recorder: AG2Recorder) -> None:
    assistant, user = pair(*SCRIPT)
    recorder.watch(user.run(assistant, message="Add.", max_turns=5))
    for entry in ledger.tail(after=0, timeout=30):
        if entry.event_type == "execution.run_completed":
            break
    assert len(types(ledger)) == 11


def test_a_run_that_was_under_way_when_it_was_watched_is_recorded_from_what_was_not_read(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    assistant, user = pair(*SCRIPT)
    response = user.run(assistant, message="Add.", max_turns=5)
    untouched = response.iostream.input_stream
    with untouched.not_empty:  # all of it has happened before we come
        assert untouched.not_empty.wait_for(lambda: len(untouched.queue) == 10, timeout=30)
    seen = [event.type for event in recorder.watch(response).events]
    assert (len(seen), len(types(ledger))) == (10, 11)


@pytest.mark.parametrize("way", [run_iter, a_run_iter])
def test_events_that_the_user_filters_out_are_recorded(
    ledger: Ledger, recorder: AG2Recorder, way: Way
) -> None:
    assistant, user = pair(*SCRIPT)
    if way is run_iter:
        seen = list(
            recorder.watch(user.run_iter(assistant, message="Add.", max_turns=5, yield_on=[TextEvent]))
        )
    else:

        async def main() -> list[Any]:
            response = user.a_run_iter(assistant, message="Add.", max_turns=5, yield_on=[TextEvent])
            return [event async for event in recorder.watch(response)]

        seen = asyncio.run(main())
    assert [event.type for event in seen] == ["text", "text"]
    assert len(types(ledger)) == 11


def test_the_processor_of_a_response_works_as_before(
    ledger: Ledger,
    recorder: AG2Recorder,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assistant, user = pair(*SCRIPT)
    response = recorder.watch(user.run(assistant, message="Add.", max_turns=5))
    with caplog.at_level("INFO"):
        response.process()
    assert "3 and 7" in caplog.text + capsys.readouterr().out
    assert len(types(ledger)) == 11
    assert len(list(response.messages)) == 4


def test_watching_twice_records_once(ledger: Ledger, recorder: AG2Recorder) -> None:
    assistant, user = pair(*SCRIPT)
    response = recorder.watch(recorder.watch(user.run(assistant, message="Add.", max_turns=5)))
    AG2Recorder(ledger).watch(response)
    list(response.events)
    assert ledger.head == 11


def test_a_second_run_under_one_correlation_has_a_name_of_its_own(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    run(recorder)
    run(recorder)
    first, second = ledger.view("runs", "run-1").runs
    assert (first.run_id, first.status, second.status) == ("run-1", "completed", "completed")
    assert second.run_id != "run-1"
    assert {entry.payload.get("run_id") for entry in ledger.read(after=11)} == {second.run_id}


def test_without_a_correlation_the_runs_own_id_is_it(ledger: Ledger) -> None:
    assistant, user = pair(*SCRIPT)
    response = AG2Recorder(ledger).watch(user.run(assistant, message="Add.", max_turns=5))
    list(response.events)
    assert {entry.correlation_id for entry in ledger.read()} == {str(response.uuid)}


def test_a_run_inside_a_scope_is_its_child(ledger: Ledger) -> None:
    assistant, user = pair(*SCRIPT)
    with ledger.run(correlation_id="job"):
        asked = ledger.record("ui.input_received", {"value": "Add."})
        with ledger.scope(cause=asked):
            response = AG2Recorder(ledger).watch(user.run(assistant, message="Add.", max_turns=5))
            list(response.events)
    start = next(iter(ledger.read(correlation_id=str(response.uuid))))
    assert (start.causation_id, start.payload["parent_run_id"]) == (asked.event_id, "job")


def test_the_same_capture_recorded_twice_adds_nothing(ledger: Ledger) -> None:
    events, _ = run(None)
    for _ in range(2):
        recorder = AG2Recorder(ledger, correlation_id="captured")
        assert list(recorder.watch(iter(events))) == events
        assert recorder.safe.failures == 0
    assert len(types(ledger, "captured")) == ledger.head == 11


def test_a_capture_gives_the_same_as_the_run_itself(ledger: Ledger, recorder: AG2Recorder) -> None:
    events, _ = run(recorder)
    with chatsnapshot.open("memory:") as other:
        list(AG2Recorder(other, correlation_id="run-1").watch(events))
        assert causes(other) == causes(ledger)
        assert [entry.payload for entry in other.read(after=1)] == [
            entry.payload for entry in ledger.read(after=1)
        ]


def queue(*texts: str) -> list[dict[str, Any]]:
    return [
        {"recipient": agent(f"helper{number}", text), "message": f"task {number}", "max_turns": 1}
        for number, text in enumerate(texts, 1)
    ]


def check_sequence(ledger: Ledger, responses: Iterable[Any]) -> None:
    first, second = (str(response.uuid) for response in responses)
    for correlation in (first, second):
        assert types(ledger, correlation) == [
            "run_started",
            "state_change",
            "message",
            "message",
            "state_change",
            "run_completed",
        ]
    end = list(ledger.read(correlation_id=first))[-1]
    assert next(iter(ledger.read(correlation_id=second))).causation_id == end.event_id
    assert said(ledger, correlation_id=second) == [("user", "task 2\nContext: \none"), ("helper2", "two")]


def test_chats_in_sequence_are_runs_one_after_the_other(ledger: Ledger) -> None:
    responses = AG2Recorder(ledger).watch(agent("user").sequential_run(queue("one", "two")))
    for response in responses:
        list(response.events)
    check_sequence(ledger, responses)


def test_async_chats_in_sequence_are_runs_one_after_the_other(ledger: Ledger) -> None:
    async def main() -> Any:
        chats = [{**chat, "chat_id": number} for number, chat in enumerate(queue("one", "two"))]
        responses = await AG2Recorder(ledger).watch(agent("user").a_sequential_run(chats))
        for response in responses:
            async for _ in response.events:
                pass
        return responses

    check_sequence(ledger, asyncio.run(main()))


def test_chats_in_sequence_under_one_correlation_are_runs_of_their_own(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    for response in recorder.watch(agent("user").sequential_run(queue("one", "two"))):
        list(response.events)
    first, second = ledger.view("runs", "run-1").runs
    assert (first.run_id, first.status, second.status) == ("run-1", "completed", "completed")
    assert second.run_id != "run-1"


def test_ag2s_own_test_model_is_recorded_like_any_other(ledger: Ledger, recorder: AG2Recorder) -> None:
    user, assistant = agent("user"), agent("assistant", default_auto_reply="")
    user.register_function({"add": lambda a, b: str(a + b)})
    with testing.TestAgent(assistant, [testing.ToolCall("add", a=1, b=2).to_message(), "It is 3."]):
        list(recorder.watch(user.run(assistant, message="1+2?", max_turns=2)).events)
    assert one(ledger, "execution.tool_result").payload["result"] == "3"
    assert said(ledger)[-1] == ("assistant", "It is 3.")
    assert types(ledger)[-1] == "run_completed"


def test_chunks_are_left_out_for_the_message_holds_the_same(ledger: Ledger, recorder: AG2Recorder) -> None:
    events, _ = run(None)
    chunks = [StreamEvent(content="3 an"), StreamEvent(content="d 7")]
    assert list(recorder.watch([*events[:-2], *chunks, *events[-2:]])) == [
        *events[:-2],
        *chunks,
        *events[-2:],
    ]
    assert len(types(ledger)) == 11


def test_a_watched_run_is_freed_when_its_reader_lets_it_go(recorder: AG2Recorder) -> None:
    assistant, user = pair(*SCRIPT)
    response = recorder.watch(user.run(assistant, message="Add.", max_turns=5))
    list(response.events)
    known = weakref.ref(response)
    del response
    gc.collect()
    assert known() is None


def test_what_is_no_run_is_refused_with_what_to_use_instead(recorder: AG2Recorder) -> None:
    with pytest.raises(TypeError, match=r"record initiate_chat\(\) with tee\(\)"):
        recorder.watch(42)


def test_secrets_are_taken_out(ledger: Ledger, recorder: AG2Recorder) -> None:
    key = "sk-" + "Ab3" * 16
    assistant, user = pair("TERMINATE")
    list(recorder.watch(user.run(assistant, message=f"use {key}")).events)
    assert key not in "".join(str(entry.payload) for entry in ledger.read())

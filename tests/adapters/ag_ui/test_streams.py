"""Event streams of AG-UI: what is recorded of them, from models, mappings and SSE, sync and async."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.ag_ui import AgUiRecorder
from chatsnapshot.adapters.ag_ui.wire import as_wire

THREAD, RUN = "t-1", "r-1"
INPUT: dict[str, Any] = {
    "threadId": THREAD,
    "runId": RUN,
    "messages": [{"id": "u-1", "role": "user", "content": "What is 2+3?"}],
}


def event(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, **members}


def begun(run: str = RUN, **members: Any) -> dict[str, Any]:
    return event("RUN_STARTED", threadId=THREAD, runId=run, **members)


def finished(run: str = RUN, **members: Any) -> dict[str, Any]:
    return event("RUN_FINISHED", threadId=THREAD, runId=run, **members)


def said(text: str, message_id: str, **members: Any) -> list[dict[str, Any]]:
    return [
        event("TEXT_MESSAGE_START", messageId=message_id, role="assistant", **members),
        *[event("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=one, **members) for one in text],
        event("TEXT_MESSAGE_END", messageId=message_id, **members),
    ]


def called(call_id: str, **members: Any) -> list[dict[str, Any]]:
    return [
        event("TOOL_CALL_START", toolCallId=call_id, toolCallName="add", **members),
        event("TOOL_CALL_ARGS", toolCallId=call_id, delta='{"a": 2, '),
        event("TOOL_CALL_ARGS", toolCallId=call_id, delta='"b": 3}'),
        event("TOOL_CALL_END", toolCallId=call_id),
    ]


CAPTURE = [
    begun(),
    event("STEP_STARTED", stepName="plan"),
    event("REASONING_MESSAGE_START", messageId="th-1", role="reasoning"),
    event("REASONING_MESSAGE_CONTENT", messageId="th-1", delta="I add."),
    event("REASONING_MESSAGE_END", messageId="th-1"),
    *said("I look.", "m-1"),
    *called("c-1", parentMessageId="m-1"),
    event("TOOL_CALL_RESULT", messageId="m-2", toolCallId="c-1", content="5"),
    event("STATE_SNAPSHOT", snapshot={"sum": 5}),
    event("STATE_DELTA", delta=[{"op": "replace", "path": "/sum", "value": 6}]),
    event("ACTIVITY_SNAPSHOT", messageId="m-3", activityType="PLAN", content={"steps": 2}),
    event("CUSTOM", name="mood", value="good"),
    event("RAW", event={"anything": 1}),
    event("THINKING_START"),
    event("SOMETHING_NEW", thing=1),
    *said("5", "m-4"),
    event("STEP_FINISHED", stepName="plan"),
    finished(
        result="done",
        usage=[{"provider": "acme", "model": "large-2", "inputTokens": 10, "outputTokens": 4}],
    ),
]
WANTED = [
    *("run_started", "input_received", "message", "state_change", "message", "message", "tool_call"),
    *("tool_result", "state_change", "state_change", "output_displayed", "state_change", "state_change"),
    *("message", "state_change", "model_call", "run_completed"),
]


def sse(events: list[dict[str, Any]]) -> bytes:
    return "".join(f"data: {json.dumps(one)}\n\n" for one in events).encode()


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


async def streamed(items: Any) -> AsyncIterator[Any]:
    for item in items:
        await asyncio.sleep(0)
        yield item


def played(recorder: AgUiRecorder, events: list[Any], **options: Any) -> list[Any]:
    return list(recorder.tee(iter(events), **{"input": INPUT, **options}))


def test_a_run_is_recorded_with_what_it_told_put_together() -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgUiRecorder(ledger)
        assert played(recorder, CAPTURE, agent="desk") == CAPTURE
        assert kinds(ledger) == WANTED
        assert {entry.correlation_id for entry in ledger.read()} == {THREAD}
        asked, thought, looked, answer = of(ledger, "execution.message")
        assert asked.payload["parts"] == [{"type": "text", "content": "What is 2+3?"}]
        assert thought.payload["parts"] == [{"type": "reasoning", "content": "I add."}]
        assert looked.payload["parts"] == [{"type": "text", "content": "I look."}]
        assert (answer.payload["name"], answer.payload["message_id"]) == ("desk", "m-4")
        (call,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert call.causation_id == looked.event_id
        assert call.payload["arguments"] == {"a": 2, "b": 3}
        assert (result.causation_id, result.payload["result"]) == (call.event_id, 5)
        (tokens,) = of(ledger, "execution.model_call")
        assert tokens.payload["usage"] == {"input_tokens": 10, "output_tokens": 4}
        assert tokens.payload["model"] == "large-2"
        (end,) = of(ledger, "execution.run_completed")
        assert end.payload["output"] == "done"
        assert recorder.safe.failures == 0


def test_a_model_is_read_as_the_json_that_it_dumps() -> None:
    core = pytest.importorskip("ag_ui.core")
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(core.Event)
    known = [one for one in CAPTURE if one["type"] not in ("THINKING_START", "SOMETHING_NEW")]
    for one in (*known, {**known[0], "ownField": {"own_key": 1}}, {**known[0], "timestamp": 7}):
        model = adapter.validate_python(one)
        assert as_wire(model) == json.loads(model.model_dump_json(by_alias=True, exclude_none=True))


def test_models_mappings_and_sse_in_any_pieces_are_the_same_history() -> None:
    core = pytest.importorskip("ag_ui.core")
    pydantic = pytest.importorskip("pydantic")
    known = [one for one in CAPTURE if one["type"] not in ("THINKING_START", "SOMETHING_NEW")]
    adapter = pydantic.TypeAdapter(core.Event)
    body = sse(known)
    forms: dict[str, list[Any]] = {
        "mappings": known,
        "models": [adapter.validate_python(one) for one in known],
        "bytes": [body[at : at + 7] for at in range(0, len(body), 7)],
        "text": [body.decode().replace("\n", "\r\n")],
    }
    histories = {}
    for name, items in forms.items():
        with chatsnapshot.open("memory:") as ledger:
            assert played(AgUiRecorder(ledger), items) == items
            histories[name] = [
                (entry.event_id, entry.event_type, entry.causation_id, entry.payload)
                for entry in ledger.read()
            ]
    assert len(histories["mappings"]) == len(WANTED) - 1
    assert all(history == histories["mappings"] for history in histories.values())


def test_sync_and_async_streams_are_the_same_history() -> None:
    async def read(recorder: AgUiRecorder) -> list[Any]:
        return [one async for one in recorder.tee(streamed(CAPTURE), input=INPUT)]

    with chatsnapshot.open("memory:") as first, chatsnapshot.open("memory:") as second:
        played(AgUiRecorder(first), CAPTURE)
        assert asyncio.run(read(AgUiRecorder(second))) == CAPTURE
        ids = [[(one.event_id, one.event_type) for one in ledger.read()] for ledger in (first, second)]
        assert ids[0] == ids[1]


def test_a_capture_that_is_recorded_twice_adds_nothing() -> None:
    with chatsnapshot.open("memory:") as ledger:
        for recorder in (AgUiRecorder(ledger), AgUiRecorder(ledger)):
            played(recorder, CAPTURE)
            played(recorder, CAPTURE)
            assert recorder.flush(10)
            assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
            assert kinds(ledger) == WANTED


def test_an_interrupt_and_its_answer_recorded_twice_add_nothing_even_by_another_process() -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        for _ in range(2):
            recorder = AgUiRecorder(ledger)  # knows of the first run only what the ledger has
            played(recorder, interrupted("approval"))
            played(AgUiRecorder(ledger), resumed(), input=resumption({"approved": True}))
            assert recorder.safe.dropped == 0
            assert kinds(ledger) == [
                *("run_started", "input_received", "message", "tool_call"),
                *("human_input_requested", "run_paused", "human_input_received", "run_resumed"),
                *("tool_result", "message", "run_completed"),
            ]


def interrupted(reason: str, **members: Any) -> list[Any]:
    interrupt = {"id": "i-1", "reason": reason, "message": "May I?", "toolCallId": "c-1", **members}
    return [begun(), *called("c-1"), finished(outcome={"type": "interrupt", "interrupts": [interrupt]})]


def resumption(payload: Any, status: str = "resolved") -> dict[str, Any]:
    answer = {"interruptId": "i-1", "status": status, "payload": payload}
    return {**INPUT, "runId": "r-2", "resume": [answer]}


def resumed() -> list[Any]:
    result = event("TOOL_CALL_RESULT", messageId="m-2", toolCallId="c-1", content="5")
    return [begun("r-2"), result, *said("approved", "m-3"), finished("r-2")]


@pytest.mark.parametrize(
    ("payload", "status", "decision"),
    [
        ({"approved": True}, "resolved", "approved"),
        ({"approved": False}, "resolved", "rejected"),
        (True, "resolved", "approved"),
        (None, "resolved", "approved"),
        (None, "cancelled", "rejected"),
        ({"date": "Saturday"}, "resolved", None),
    ],
)
def test_what_a_person_decided(payload: Any, status: str, decision: str | None) -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgUiRecorder(ledger)
        played(recorder, interrupted("approval"))
        played(recorder, resumed(), input=resumption(payload, status))
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        (again,) = of(ledger, "execution.run_resumed")
        assert question.payload["kind"] == "approval"
        assert answer.payload.get("decision") == decision
        assert answer.causation_id == question.event_id
        assert again.causation_id == answer.event_id
        (call,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert (result.causation_id, result.payload["name"]) == (call.event_id, "add")


def test_results_of_tools_that_ran_in_the_page_come_with_the_next_run() -> None:
    messages = [
        *INPUT["messages"],
        {"id": "a-1", "role": "assistant", "toolCalls": []},
        {"id": "x-1", "role": "tool", "toolCallId": "c-1", "content": "", "error": "the page was closed"},
        {"id": "u-2", "role": "user", "content": "Again, please."},
    ]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgUiRecorder(ledger)
        played(recorder, [begun(), *called("c-1"), finished()])
        played(recorder, [begun("r-2"), finished("r-2")], input={**INPUT, "messages": messages})
        (call,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert result.causation_id == call.event_id
        assert result.payload["is_error"] is True
        users = [one.payload["parts"][0]["content"] for one in of(ledger, "execution.message")]
        assert users == ["What is 2+3?", "Again, please."]  # what was sent along again is told once
        assert [one.payload["run_id"] for one in of(ledger, "ui.input_received")] == ["r-1", "r-2"]


def test_subagents_are_child_runs_with_what_they_say() -> None:
    beta = {"subagentRunId": "s-1"}
    gamma = {"subagentRunId": "s-2"}
    events = [
        begun(),
        *called("c-1"),
        event("SUBAGENT_STARTED", name="beta", parentToolCallId="c-1", **beta),
        event("SUBAGENT_STARTED", name="gamma", parentSubagentRunId="s-1", **gamma),
        *said("gamma here", "m-2", **gamma),
        event("SUBAGENT_ERROR", message="gone", code="E1", **gamma),
        *said("beta here", "m-3", **beta),
        event("SUBAGENT_FINISHED", result="ok", **beta),
        event("TOOL_CALL_RESULT", messageId="m-4", toolCallId="c-1", content="ok"),
        finished(),
    ]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        played(AgUiRecorder(ledger), events)
        alpha, inner, innermost = of(ledger, "execution.run_started")
        (call,) = of(ledger, "execution.tool_call")
        assert inner.causation_id == call.event_id
        assert (inner.payload["name"], inner.payload["parent_run_id"]) == ("beta", RUN)
        assert (innermost.payload["name"], innermost.payload["parent_run_id"]) == ("gamma", "s-1")
        assert len({one.correlation_id for one in (alpha, inner, innermost)}) == 3
        said_by = {
            one.payload["parts"][0]["content"]: one.payload["run_id"]
            for one in of(ledger, "execution.message")
        }
        assert said_by == {"What is 2+3?": RUN, "gamma here": "s-2", "beta here": "s-1"}
        (failed,) = of(ledger, "execution.run_failed")
        assert (failed.payload["run_id"], failed.payload["error"]["message"]) == ("s-2", "gone")


def test_a_subagent_that_waits_goes_on_in_a_later_run() -> None:
    beta = {"subagentRunId": "s-1"}
    first = [
        begun(),
        event("SUBAGENT_STARTED", name="beta", **beta),
        event("SUBAGENT_FINISHED", outcome={"type": "suspended", "interruptIds": ["i-1"]}, **beta),
        finished(outcome={"type": "interrupt", "interrupts": [{"id": "i-1", "reason": "ask", **beta}]}),
    ]
    second = [
        begun("r-2"),
        event("SUBAGENT_STARTED", name="beta", **beta),
        event("SUBAGENT_FINISHED", **beta),
        finished("r-2"),
    ]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgUiRecorder(ledger)
        played(recorder, first)
        played(recorder, second, input=resumption({"n": 1}))
        told = [
            (one.event_type.partition(".")[2], one.payload["run_id"])
            for one in ledger.read(correlation_id="s-1")
        ]
        assert told == [
            ("run_started", "s-1"),
            ("run_paused", "s-1"),
            ("run_resumed", "s-1"),
            ("run_completed", "s-1"),
        ]


def test_chunks_end_when_something_else_comes() -> None:
    events = [
        begun(),
        event("TEXT_MESSAGE_CHUNK", messageId="m-1", role="assistant", delta="I "),
        event("TEXT_MESSAGE_CHUNK", delta="look."),
        event("TOOL_CALL_CHUNK", toolCallId="c-1", toolCallName="add", parentMessageId="m-1", delta='{"a":'),
        event("TOOL_CALL_CHUNK", delta=" 1}"),
        event("TOOL_CALL_CHUNK", toolCallId="c-2", toolCallName="add", parentMessageId="m-1", delta="{}"),
        event("TOOL_CALL_RESULT", messageId="m-3", toolCallId="c-2", content="0"),
        event("TEXT_MESSAGE_CHUNK", messageId="m-2", delta="Done."),
        finished(),
    ]
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        played(AgUiRecorder(ledger), events, input=None)
        first, second = of(ledger, "execution.message")
        assert [one.payload["parts"][0]["content"] for one in (first, second)] == ["I look.", "Done."]
        calls = of(ledger, "execution.tool_call")
        assert [one.payload["arguments"] for one in calls] == [{"a": 1}, {}]
        assert {one.causation_id for one in calls} == {first.event_id}
        (result,) = of(ledger, "execution.tool_result")
        assert (result.causation_id, result.position) == (calls[1].event_id, calls[1].position + 1)


@pytest.mark.parametrize(
    ("events", "end", "why"),
    [
        ([begun(), event("RUN_ERROR", message="boom", code="X")], "run_failed", "boom"),
        ([begun(), finished(outcome={"type": "cancelled"})], "run_cancelled", ""),
        ([begun(), event("TEXT_MESSAGE_CHUNK", messageId="m", delta="Hal")], "run_cancelled", "ended before"),
    ],
)
def test_how_a_run_ends(events: list[Any], end: str, why: str) -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        played(AgUiRecorder(ledger), events)
        *_, last = ledger.read()
        assert last.event_type == f"execution.{end}"
        assert why in str(last.payload)
        assert not [
            one for one in of(ledger, "execution.message") if one.payload["parts"][0]["content"] == ""
        ]


def test_what_was_said_when_a_stream_broke_is_not_lost() -> None:
    with chatsnapshot.open("memory:") as ledger:
        played(AgUiRecorder(ledger), [begun(), event("TEXT_MESSAGE_CHUNK", messageId="m", delta="Hal")])
        assert of(ledger, "execution.message")[-1].payload["parts"][0]["content"] == "Hal"


def test_an_agent_that_raises_fails_its_run_and_the_reader_sees_it() -> None:
    def events() -> Iterator[Any]:
        yield begun()
        raise RuntimeError("model is down")

    with chatsnapshot.open("memory:") as ledger:
        with pytest.raises(RuntimeError, match="model is down"):
            list(AgUiRecorder(ledger).tee(events()))
        (failed,) = of(ledger, "execution.run_failed")
        assert failed.payload["error"]["message"] == "model is down"


def test_a_reader_that_stops_closes_the_agents_stream_and_cancels_the_run() -> None:
    closed: list[bool] = []

    async def events() -> AsyncIterator[Any]:
        try:
            for one in CAPTURE:
                yield one
        finally:
            closed.append(True)

    async def read(recorder: AgUiRecorder) -> None:
        told = recorder.tee(events())
        await told.__anext__()
        await told.aclose()  # type: ignore[attr-defined]

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(read(AgUiRecorder(ledger)))
        assert closed == [True]
        assert kinds(ledger) == ["run_started", "run_cancelled"]


def test_times_are_those_of_the_events() -> None:
    at = 1_780_000_000_123
    with chatsnapshot.open("memory:") as ledger:
        played(AgUiRecorder(ledger), [begun(timestamp=at), finished(timestamp=at + 1000)], input=None)
        first, last = ledger.read()
        assert first.event.timestamp == "2026-05-28T20:26:40.123000Z"
        assert last.event.timestamp == "2026-05-28T20:26:41.123000Z"


def test_a_run_that_is_done_again_at_another_time_is_recorded_too() -> None:
    """A page that asks again with the same ids: another answer, and nothing is lost of either."""
    with chatsnapshot.open("memory:") as ledger:
        recorder = AgUiRecorder(ledger)
        for at, text in ((1_780_000_000_000, "one"), (1_780_000_060_000, "two")):
            events = [begun(timestamp=at), *said(text, "m-1"), finished(timestamp=at + 1)]
            played(recorder, events, input=None)
        assert [one.payload["parts"][0]["content"] for one in of(ledger, "execution.message")] == [
            "one",
            "two",
        ]
        assert recorder.safe.dropped == 0


@pytest.mark.parametrize(
    "junk",
    [
        [None, 7, object(), [], {"type": None}, {}],
        [begun(), *[{"type": one} for one in ("TEXT_MESSAGE_END", "TOOL_CALL_END", "SUBAGENT_FINISHED")]],
        [begun(), {"type": "RUN_FINISHED", "outcome": {"type": "interrupt", "interrupts": [{}, 7]}}],
        [begun(), {"type": "RUN_FINISHED", "outcome": "success", "usage": {"n": 1}}],
        [begun(), {"type": "TOOL_CALL_RESULT"}, {"type": "STATE_DELTA"}, {"type": "TEXT_MESSAGE_CHUNK"}],
        [b"data: {not json}\n\n", b": a comment\n\n", b"data: [1]\n\n", b"\xff\xfe\n\n"],
        [{"type": "RUN_STARTED"}, {"type": "RUN_STARTED", "threadId": "x" * 999, "runId": "\x00"}],
    ],
)
def test_junk_is_handed_on_and_never_raises(junk: list[Any]) -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgUiRecorder(ledger)
        assert played(recorder, junk, input=None) == junk
        assert recorder.flush(10)
        assert recorder.safe.dropped == 0


def test_something_that_is_no_stream_is_refused_in_one_sentence() -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder = AgUiRecorder(ledger)
        with pytest.raises(TypeError, match="an iterable of events or of pieces of SSE, not int"):
            recorder.tee(7)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="a RunAgentInput or a mapping, not str"):
            recorder.tee([], input="hello")

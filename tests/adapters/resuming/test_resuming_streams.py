"""A run of an AG2 1.x agent that was killed goes on from the ledger alone, and nothing finished runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from ag2.testing import TestConfig, TrackingConfig
from streamed_program import Tools, agent, openai

from chatsnapshot import InvalidEvent, Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

Models = Callable[..., Any]
Say = Callable[..., dict[str, Any]]


def go_on(place: Any, config: Any, ledger: Ledger, *, hook: Any = None, **options: Any) -> Any:
    """Make the agent anew and let it go on; gives the resumed run."""

    async def main() -> Any:
        recorder = AG2Recorder(ledger)
        made = agent(recorder, config, Tools(place.folder).all(), hitl_hook=hook)
        resumed = await recorder.aresume("case-7", made, **options)
        await resumed.go_on()
        assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
        return resumed

    return asyncio.run(main())


def one_run(ledger: Ledger) -> None:
    """Both processes made one run of one correlation, connected by causes, and the ledger proves it."""
    (run,) = ledger.view("runs", "case-7").runs
    assert (run.run_id, run.status) == ("case-7", "completed")
    assert [one.status for one in run.executions] == ["unfinished", "completed"]
    entries = list(ledger.read())
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    known = {entry.event_id for entry in entries}
    assert [entry.position for entry in entries if entry.causation_id not in known] == [1]
    assert ledger.verify().ok


def types(ledger: Ledger, after: int) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read(after=after)]


def chat(body: dict[str, Any]) -> list[Any]:
    """What a model was sent: role, and text or ids."""
    return [
        (
            one["role"],
            [call["id"] for call in one["tool_calls"]] if one.get("tool_calls") else one["content"],
            *([one["tool_call_id"]] if one["role"] == "tool" else []),
        )
        for one in body["messages"]
    ]


def test_only_the_call_without_a_result_is_executed_again(place: Any) -> None:
    place.kill_when_told("streamed_program", "parallel", "refund")
    assert place.executed == ["count", "look_up", "refund"]
    with place.ledger() as ledger:
        killed_at = ledger.head
        config = TrackingConfig(TestConfig("It is on its way, and paid back."))
        resumed = go_on(place, config, ledger)
        assert place.executed == ["count", "look_up", "refund", "refund"]
        assert resumed.reply.body == "It is on its way, and paid back."
        assert resumed.variables == {"language": "en", "counted": 1}
        (sent,) = config.mock.call_args.args
        assert [(one.parent_id, one.result.parts[0].content) for one in sent.results] == [
            ("c-1", "A-17 is on its way"),
            ("c-2", "A-17 is paid back"),
        ]
        one_run(ledger)
        assert types(ledger, killed_at) == [
            *["run_resumed", "tool_call", "tool_result"],
            *["model_call", "message", "run_completed"],
        ]
        first, again = list(ledger.read(after=killed_at, limit=2))
        assert first.causation_id == next(iter(ledger.read(after=killed_at - 1, limit=1))).event_id
        asked = next(entry for entry in ledger.read() if entry.payload.get("call_id") == "c-2")
        assert again.causation_id == asked.causation_id


def test_after_the_result_the_model_is_asked_again_and_no_tool_runs(
    place: Any, gate: Any, models: Models, say: Say
) -> None:
    server = models({"desk-model": [say("look_up", order="A-17"), gate]})
    place.kill_in_model_call(gate, "streamed_program", "", "", server.url)
    server.scripts["desk-model"].append("It is on its way.")
    with place.ledger() as ledger:
        killed_at = ledger.head
        resumed = go_on(place, openai(server.url), ledger)
        assert place.executed == ["look_up"]
        assert resumed.reply.body == "It is on its way."
        assert chat(server.requests[-1]) == [
            ("system", "Be kind."),
            ("user", "Where is A-17?"),
            ("assistant", ["call_1_0"]),
            ("tool", "A-17 is on its way", "call_1_0"),
        ]
        one_run(ledger)
        assert types(ledger, killed_at) == ["run_resumed", "model_call", "message", "run_completed"]
        result = next(ledger.read(event_type="execution.tool_result"))
        call = next(ledger.read(event_type="execution.model_call", after=killed_at))
        assert call.causation_id == result.event_id


def test_before_the_first_answer_the_request_is_not_recorded_twice(
    at: Callable[[str], Any], gate: Any, models: Models
) -> None:
    place = at("db")
    server = models({"desk-model": [gate]})
    place.kill_in_model_call(gate, "streamed_program", "", "", server.url)
    server.scripts["desk-model"].append("I do not know.")
    with place.ledger() as ledger:
        go_on(place, openai(server.url), ledger)
        assert chat(server.requests[-1]) == [("system", "Be kind."), ("user", "Where is A-17?")]
        assert [entry.payload["role"] for entry in ledger.read(event_type="execution.message")] == [
            "user",
            "assistant",
        ]
        one_run(ledger)


async def the_person(event: Any) -> str:
    assert event.content == "which colour?"
    return "green"


async def nobody(event: Any) -> str:
    raise AssertionError("a person was asked again")


def test_a_question_that_was_open_is_asked_again(at: Callable[[str], Any]) -> None:
    place = at("db")
    place.kill_when_told("streamed_program", "person", "asked")
    with place.ledger() as ledger:
        config = TrackingConfig(TestConfig("Green, then."))
        resumed = go_on(place, config, ledger, hook=the_person)
        (sent,) = config.mock.call_args.args
        assert sent.results[0].result.parts[0].content == "the person says green"
        assert resumed.questions == []
        question = next(ledger.read(event_type="execution.human_input_requested"))
        goes_on = next(ledger.read(event_type="execution.run_resumed"))
        assert goes_on.causation_id == question.event_id
        one_run(ledger)


@pytest.mark.parametrize("stop_at", ["asked", "answered"])
def test_an_answer_that_is_known_is_not_asked_for(stop_at: str, at: Callable[[str], Any]) -> None:
    place = at("jsonl")
    place.kill_when_told("streamed_program", "person", stop_at)
    with place.ledger() as ledger:
        asked = next(ledger.read(event_type="execution.human_input_requested"))
        answers = {asked.payload["question_id"]: "blue"} if stop_at == "asked" else {}
        config = TrackingConfig(TestConfig("Blue, then."))
        go_on(place, config, ledger, hook=nobody, answers=answers)
        (sent,) = config.mock.call_args.args
        assert sent.results[0].result.parts[0].content == "the person says blue"
        assert [
            entry.payload["answer"] for entry in ledger.read(event_type="execution.human_input_received")
        ][-1] == "blue"
        one_run(ledger)


def test_an_answer_to_another_question_is_refused(at: Callable[[str], Any]) -> None:
    place = at("db")
    place.kill_when_told("streamed_program", "person", "asked")
    with place.ledger() as ledger, pytest.raises(InvalidEvent, match="which colour"):
        go_on(place, TestConfig("?"), ledger, answers={"other": "blue"})

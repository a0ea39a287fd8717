"""A run of the classic line that was killed goes on from the ledger alone, and nothing finished runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from autogen.io import IOStream
from classic_program import Tools, group, pair, pattern

from chatsnapshot import InvalidEvent, Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder, resume_run

Models = Callable[..., Any]
Say = Callable[..., dict[str, Any]]
TALK = [
    ("user", "Where is A-17?"),
    ("assistant", ["c-1", "c-2"]),
    ("user", {"c-1": "A-17 is on its way", "c-2": "A-17 is paid back"}),
    ("assistant", "It is on its way, and paid back. TERMINATE"),
]


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
    return [
        entry.event_type.partition(".")[2]
        for entry in ledger.read(after=after)
        if entry.event_type != "execution.state_change"
    ]


def told(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages in short: who (for tool calls whoever is the assistant), and text, call ids or results."""
    out = []
    for one in messages:
        if one.get("tool_calls"):
            out.append(("assistant", [call["id"] for call in one["tool_calls"]]))
        elif one.get("tool_responses"):
            known = {part["tool_call_id"]: part["content"] for part in one["tool_responses"]}
            out.append((one["name"], known))
        else:
            out.append((one["name"], one["content"]))
    return out


def test_only_the_call_without_a_result_is_executed_again(place: Any) -> None:
    place.kill_when_told("classic_program", "pair", "refund")
    assert place.executed == ["look_up", "refund"]
    with place.ledger() as ledger:
        killed_at = ledger.head
        recorder = AG2Recorder(ledger)
        assistant, user = pair(Tools(place.folder), "It is on its way, and paid back. TERMINATE")
        resumed = recorder.resume("case-7", [assistant, user])
        assert [call.call_id for call in resumed.open_calls] == ["c-2"]
        assert told(resumed.go_on()) == TALK
        assert told(user._oai_messages[assistant]) == told(assistant._oai_messages[user])
        assert [one["role"] for one in user._oai_messages[assistant]] == [
            "assistant",
            "assistant",
            "tool",
            "user",
        ]
        assert place.executed == ["look_up", "refund", "refund"]
        assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
        assert types(ledger, killed_at) == [
            *["run_resumed", "tool_call", "tool_result", "message", "message", "run_completed"]
        ]
        one_run(ledger)


def test_after_the_result_the_model_is_asked_again_and_no_tool_runs(
    place: Any, gate: Any, models: Models, say: Say
) -> None:
    server = models({"desk-model": [say("look_up", order="A-17"), gate]})
    place.kill_in_model_call(gate, "classic_program", "pair", "", server.url)
    server.scripts["desk-model"].append("It is on its way. TERMINATE")
    with place.ledger() as ledger:
        killed_at = ledger.head
        resumed = resume_run(ledger, "case-7", pair(Tools(place.folder), url=server.url))
        resumed.go_on()
        assert place.executed == ["look_up"]
        assert [
            (one["role"], one.get("tool_call_id"), one.get("content"))
            for one in server.requests[-1]["messages"]
        ][1:] == [
            ("user", None, "Where is A-17?"),
            ("assistant", None, None),
            ("tool", "call_1_0", "A-17 is on its way"),
        ]
        assert types(ledger, killed_at) == ["run_resumed", "message", "run_completed"]
        one_run(ledger)


@pytest.mark.parametrize("known", [False, True])
def test_a_person_is_asked_again_unless_the_answer_is_given(known: bool, at: Callable[[str], Any]) -> None:
    place = at("db")
    place.kill_when_told("classic_program", "person", "asked")
    asked: list[str] = []

    class Person:
        def send(self, message: Any) -> None:
            pass

        def print(self, *objects: Any, **options: Any) -> None:
            pass

        def input(self, prompt: str = "", *, password: bool = False) -> str:
            asked.append(prompt)
            return "green"

    with place.ledger() as ledger, IOStream.set_default(Person()):
        question = next(ledger.read(event_type="execution.human_input_requested"))
        answers = {question.event_id: "blue"} if known else {}
        agents = pair(Tools(place.folder), "TERMINATE", human_input_mode="ALWAYS")
        resumed = resume_run(ledger, "case-7", agents, answers=answers)
        messages = resumed.go_on(max_replies=2)
        assert told(messages)[2] == ("user", "blue" if known else "green")
        assert len(asked) == (0 if known else 1)
        assert next(ledger.read(event_type="execution.run_resumed")).causation_id == question.event_id
        one_run(ledger)


def test_a_group_goes_on_with_its_open_tool_call(at: Callable[[str], Any]) -> None:
    place = at("jsonl")
    place.kill_when_told("classic_program", "group", "refund")
    with place.ledger() as ledger:
        manager = group(Tools(place.folder), "It is done. TERMINATE")
        resumed = resume_run(ledger, "case-7", manager)
        assert [call.call_id for call in resumed.open_calls] == ["c-2"]
        resumed.go_on()
        assert place.executed == ["look_up", "refund", "refund"]
        talk = [
            (one["name"], sorted(part["tool_call_id"] for part in one.get("tool_responses", ())))
            for one in manager.groupchat.messages
        ]
        assert ("user", ["c-1", "c-2"]) in talk
        recorded = [entry.payload["name"] for entry in ledger.read(event_type="execution.message")]
        assert recorded == [name for name, _ in talk]
        one_run(ledger)


@pytest.mark.parametrize("stop", ["hand_on", "model"])
def test_a_pattern_goes_on_by_its_own_rules_with_its_variables(
    stop: str, at: Callable[[str], Any], gate: Any, models: Models, say: Say
) -> None:
    place = at("db")
    server = models({"desk-model": [say("hand_on", order="A-17")], "refunds-model": []})
    if stop == "model":
        server.scripts["refunds-model"].append(gate)
        place.kill_in_model_call(gate, "classic_program", "pattern", "", server.url)
    else:
        place.kill_when_told("classic_program", "pattern", "hand_on", server.url)
    server.scripts["refunds-model"].append("It is paid back.")
    with place.ledger() as ledger:
        fresh = pattern(Tools(place.folder), server.url)
        resumed = resume_run(ledger, "case-7", fresh)
        assert resumed.context_variables["customer"] == "Ann"
        result = resumed.go_on()
        assert place.executed == ["hand_on"] * (2 if stop == "hand_on" else 1)
        assert result.chat_history[-1]["content"] == "It is paid back."
        assert [request["model"] for request in server.requests][-1] == "refunds-model"
        assert fresh.context_variables.to_dict() == {"customer": "Ann", "handed_on": "A-17"}
        assert [one["role"] for one in server.requests[-1]["messages"]].count("tool") == 1
        one_run(ledger)


def test_a_watched_run_goes_on_in_asyncio(at: Callable[[str], Any]) -> None:
    place = at("db")
    place.kill_when_told("classic_program", "watched", "refund")
    with place.ledger() as ledger:
        agents = pair(Tools(place.folder), "It is on its way, and paid back. TERMINATE")
        resumed = resume_run(ledger, "case-7", agents)
        assert told(asyncio.run(resumed.ago_on())) == TALK
        one_run(ledger)
        with pytest.raises(InvalidEvent, match="has ended"):
            resumed.go_on()


def test_agents_of_other_names_are_refused(at: Callable[[str], Any], tmp_path: Path) -> None:
    place = at("db")
    place.kill_when_told("classic_program", "pair", "refund")
    with place.ledger() as ledger:
        agents = pair(Tools(tmp_path))
        agents[0]._name = "someone"
        with pytest.raises(InvalidEvent, match="talk of user, assistant"):
            resume_run(ledger, "case-7", agents)


@pytest.mark.parametrize("policy", ["close", {"c-2": "paid by hand"}])
def test_an_open_call_is_answered_by_the_caller_and_on_record(policy: Any, at: Callable[[str], Any]) -> None:
    place = at("db")
    place.kill_when_told("classic_program", "pair", "refund")
    with place.ledger() as ledger:
        agents = pair(Tools(place.folder), "I see. TERMINATE")
        resumed = resume_run(ledger, "case-7", agents, open_calls=policy)
        assert resumed.open_calls == []
        answers = told(resumed.go_on())[2][1]
        assert answers["c-1"] == "A-17 is on its way"
        assert ("Nobody knows" if policy == "close" else "paid by hand") in answers["c-2"]
        assert place.executed == ["look_up", "refund"]
        results = {
            entry.payload["call_id"]: entry.payload["result"]
            for entry in ledger.read(event_type="execution.tool_result")
        }
        assert results == answers
        one_run(ledger)

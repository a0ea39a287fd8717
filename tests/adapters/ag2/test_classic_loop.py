"""The classic line in the loop of one's own: ``run_iter`` and ``run().events``, with real agents and a real client."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from autogen import ConversableAgent, UserProxyAgent, register_function
from autogen.agentchat import run_group_chat, run_group_chat_iter
from autogen.agentchat.group import (
    AgentNameTarget,
    AgentTarget,
    ContextVariables,
    OnCondition,
    ReplyResult,
    StringLLMCondition,
    TerminateTarget,
)
from autogen.agentchat.group.patterns import DefaultPattern

from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.adapters.ag2 import map_event, normalize

Models = Callable[..., Any]
Say = Callable[..., Any]
RUN = "run-1"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def pair(models: Models, *script: Any) -> tuple[ConversableAgent, ConversableAgent]:
    """An assistant that follows a script and a user that executes its tools and stops at TERMINATE."""

    def add(a: int, b: int) -> int:
        return a + b

    def explode(x: int) -> int:
        raise ValueError("the tool exploded")

    server = models({"m": script})
    assistant = ConversableAgent("assistant", llm_config=server.classic("m"), human_input_mode="NEVER")
    user = ConversableAgent(
        "user",
        llm_config=False,
        human_input_mode="NEVER",
        is_termination_msg=lambda message: "TERMINATE" in (message.get("content") or ""),
    )
    for tool in (add, explode):
        register_function(tool, caller=assistant, executor=user, description=tool.__name__)
    return assistant, user


def types(ledger: Ledger) -> list[str]:
    return [entry.event_type.removeprefix("execution.") for entry in ledger.read()]


def one(ledger: Ledger, event_type: str) -> LedgerEntry:
    (entry,) = ledger.read(event_type=event_type)
    return entry


def test_the_loop_over_run_iter_works_word_for_word(ledger: Ledger, models: Models, say: Say) -> None:
    snapshot, run_id = ledger, RUN
    assistant, agent = pair(models, say("add", a=1, b=2), "3 TERMINATE")

    for event in agent.run_iter(assistant, message="1+2?", max_turns=5):
        snapshot.record(event_type=map_event(event), correlation_id=run_id, payload=normalize(event))

    assert types(ledger) == [
        "message",
        "message",
        "tool_call",
        "tool_result",
        "message",
        "message",
        "state_change",
    ]
    said = [entry.payload for entry in ledger.read(event_type="execution.message")]
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant"]
    asked = said[1]["parts"][0]
    call, result = one(ledger, "execution.tool_call").payload, one(ledger, "execution.tool_result").payload
    assert (asked["type"], asked["name"], asked["arguments"]) == ("tool_call", "add", {"a": 1, "b": 2})
    assert asked["id"] == call["call_id"] == result["call_id"] == said[2]["parts"][0]["id"]
    assert (call["arguments"], result["result"], result["is_error"]) == ({"a": 1, "b": 2}, "3", False)
    assert [entry.correlation_id for entry in ledger.replay(RUN)] == [RUN] * 7


def test_the_loop_over_the_events_of_run_works_word_for_word(
    ledger: Ledger, models: Models, say: Say
) -> None:
    snapshot, run_id = ledger, RUN
    assistant, agent = pair(models, say("add", a=1, b=2), "3 TERMINATE")

    for event in agent.run(assistant, message="1+2?", max_turns=5).events:
        snapshot.record(event_type=map_event(event), correlation_id=run_id, payload=normalize(event))

    assert types(ledger)[-1] == "run_completed"
    assert types(ledger)[:-1] == [
        "message",
        "message",
        "tool_call",
        "tool_result",
        "message",
        "message",
        "state_change",
    ]
    end = one(ledger, "execution.run_completed").payload
    assert (end["status"], end["last_speaker"]) == ("ok", "assistant")
    assert end["output"].strip() == "3"


def test_parallel_tools_are_one_call_and_one_result_each(ledger: Ledger, models: Models, say: Say) -> None:
    assistant, agent = pair(models, [say("add", a=1, b=2), say("add", a=3, b=4)], "done TERMINATE")
    for event in agent.run_iter(assistant, message="add", max_turns=5):
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    calls = [entry.payload["call_id"] for entry in ledger.read(event_type="execution.tool_call")]
    results = [entry.payload for entry in ledger.read(event_type="execution.tool_result")]
    assert len(set(calls)) == 2
    assert [result["call_id"] for result in results] == calls
    assert [result["result"] for result in results] == ["3", "7"]


def test_a_failing_tool_leaves_a_failed_result_and_the_run_goes_on(
    ledger: Ledger, models: Models, say: Say
) -> None:
    assistant, agent = pair(models, say("explode", x=1), "sorry TERMINATE")
    for event in agent.run(assistant, message="go", max_turns=5).events:
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    result = one(ledger, "execution.tool_result").payload
    assert (result["name"], result["is_error"]) == ("explode", True)
    assert result["error"] == {"message": "Error: the tool exploded"}
    assert types(ledger)[-1] == "run_completed"


def test_a_failing_model_is_a_failed_run_before_the_loop_raises(ledger: Ledger, models: Models) -> None:
    assistant, agent = pair(models, 400)
    with pytest.raises(Exception, match="scripted status 400"):
        for event in agent.run(assistant, message="go", max_turns=5).events:
            ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    error = one(ledger, "execution.run_failed").payload["error"]
    assert (error["type"], error["module"].partition(".")[0]) == ("BadRequestError", "openai")
    assert "scripted status 400" in error["message"]


def test_a_question_to_a_person_is_recorded_without_its_callable(ledger: Ledger, models: Models) -> None:
    assistant = ConversableAgent("assistant", llm_config=models({"m": ["what colour?", "ok"]}).classic("m"))
    person = UserProxyAgent("user", human_input_mode="ALWAYS", code_execution_config=False)
    answers = ["blue", "exit"]
    for event in person.run(assistant, message="paint").events:
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
        if event.type == "input_request":
            event.content.respond(answers.pop(0))
    questions = [entry.payload for entry in ledger.read(event_type="execution.human_input_requested")]
    assert len(questions) == 2
    assert all(
        question["kind"] == "question" and "assistant" in question["question"] for question in questions
    )
    said = [entry.payload for entry in ledger.read(event_type="execution.message")]
    assert ("user", "blue") in [(message["role"], message["parts"][0]["content"]) for message in said]
    assert types(ledger)[-1] == "run_completed"


def test_the_async_run_works_in_the_same_loop(ledger: Ledger, models: Models, say: Say) -> None:
    assistant, agent = pair(models, say("add", a=1, b=2), "3 TERMINATE")

    async def run() -> None:
        response = await agent.a_run(assistant, message="1+2?", max_turns=5)
        async for event in response.events:
            await ledger.arecord(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))

    asyncio.run(run())
    assert types(ledger)[1:4] == ["message", "tool_call", "tool_result"]
    assert types(ledger)[-1] == "run_completed"


def team(models: Models, say: Say) -> DefaultPattern:
    """Triage routes by a tool, the specialist by a condition of the model, the closer ends the talk."""

    def hand_on(body: dict[str, Any]) -> Any:
        names = [tool["function"]["name"] for tool in body["tools"]]
        return say(next(name for name in names if name.startswith("transfer")))

    server = models({"triage": [say("route", topic="refund")], "specialist": [hand_on], "closer": ["bye"]})

    def route(topic: str, context_variables: ContextVariables) -> ReplyResult:
        """Route a topic."""
        context_variables["topic"] = topic
        return ReplyResult(
            message="routing", target=AgentNameTarget("specialist"), context_variables=context_variables
        )

    triage = ConversableAgent("triage", llm_config=server.classic("triage"), functions=[route])
    specialist = ConversableAgent("specialist", llm_config=server.classic("specialist"))
    closer = ConversableAgent("closer", llm_config=server.classic("closer"))
    specialist.handoffs.add_llm_conditions(
        [OnCondition(target=AgentTarget(closer), condition=StringLLMCondition("when done"))]
    )
    closer.handoffs.set_after_work(TerminateTarget())
    return DefaultPattern(
        initial_agent=triage,
        agents=[triage, specialist, closer],
        user_agent=ConversableAgent("customer", human_input_mode="NEVER", llm_config=False),
        context_variables=ContextVariables({}),
    )


def test_a_group_chat_tells_its_handoffs_by_name(ledger: Ledger, models: Models, say: Say) -> None:
    for event in run_group_chat(pattern=team(models, say), messages="help me", max_rounds=12).events:
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    handoffs = [entry.payload for entry in ledger.read(event_type="execution.handoff")]
    assert [(one["from"], one["to"], one["kind"]) for one in handoffs] == [
        ("triage", "specialist", "reply_result"),
        ("specialist", "closer", "on_condition_llm"),
        ("closer", "Terminate", "after_work"),
    ]
    end = one(ledger, "execution.run_completed").payload
    assert (end["last_speaker"], end["variables"]) == ("closer", {"topic": "refund"})
    routed, transferred = [entry.payload for entry in ledger.read(event_type="execution.tool_result")]
    assert routed["result"]["target"] == {"kind": "AgentNameTarget", "name": "specialist"}
    assert transferred["result"] == {"kind": "AgentTarget", "name": "closer"}
    speakers = [
        entry.payload["speaker"]
        for entry in ledger.read(event_type="execution.state_change")
        if entry.payload["name"] == "next_speaker"
    ]
    assert [name for name in speakers if not name.startswith("_")] == ["triage", "specialist", "closer"]


def test_a_group_chat_works_event_by_event_too(ledger: Ledger, models: Models, say: Say) -> None:
    for event in run_group_chat_iter(pattern=team(models, say), messages="help me", max_rounds=12):
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    assert types(ledger).count("handoff") == 3


def test_nothing_of_a_classic_run_needs_a_lossy_value(ledger: Ledger, models: Models, say: Say) -> None:
    for event in run_group_chat(pattern=team(models, say), messages="help me", max_rounds=12).events:
        ledger.record(event_type=map_event(event), correlation_id=RUN, payload=normalize(event))
    assert not [entry.event_type for entry in ledger.read() if b'"lossy":true' in (entry.payload_json or b"")]
    assert not [entry.event_type for entry in ledger.read() if b"0x" in (entry.payload_json or b"")]

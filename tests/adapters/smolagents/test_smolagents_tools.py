"""Tools, plans, checks and people in runs of smolagents agents that ask for tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.adapters.smolagents import SmolagentsRecorder
from chatsnapshot.testing.runtimes.smolagents import agent, call, tool

Told = Callable[..., list[str]]
TOOLS = ["execution.tool_call", "execution.tool_result"]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


def events(ledger: Any, *event_types: str) -> list[Any]:
    return list(ledger.read(event_type=list(event_types)))


def test_of_two_tools_at_once_one_may_fail(ledger: Any, recorder: SmolagentsRecorder) -> None:
    both = [call("fail"), call("add", a=1, b=2)]
    recorder.attach(agent("desk", both, "3", tools=[tool(add), tool(fail)])).run("1+2?")
    results = {one.payload["name"]: one.payload for one in events(ledger, "execution.tool_result")}
    assert results["add"]["result"] == 3
    assert results["fail"]["error"]["message"] == "no such city"
    assert not events(ledger, "system.error")


def test_calls_of_one_tool_without_arguments_have_a_result_each(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    numbers = iter(range(100))

    def draw() -> int:
        return next(numbers)

    asked = [call("draw"), call("draw"), call("draw")]
    recorder.attach(agent("desk", asked, "done", tools=[tool(draw)])).run("Draw")
    results = {
        one.payload["call_id"]: one.payload["result"] for one in events(ledger, "execution.tool_result")
    }
    assert sorted(results) == ["call_1", "call_2", "call_3"]
    assert sorted(results.values()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [(call("nowhere"), "AgentToolExecutionError"), (call("add", a=1), "ValueError")],
    ids=["unknown tool", "wrong arguments"],
)
def test_a_call_that_cannot_be_executed_has_an_error_as_its_result(
    ledger: Any, recorder: SmolagentsRecorder, told: Told, asked: Any, kind: str
) -> None:
    recorder.attach(agent("desk", [asked], "sorry", tools=[tool(add)])).run("Hello")
    (result,) = events(ledger, "execution.tool_result")
    assert (result.payload["is_error"], result.payload["error"]["type"]) == (True, kind)
    assert told()[-1] == "run_completed desk <- message assistant"


def test_an_answer_that_asks_for_nothing_is_an_error_of_the_step(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    recorder.attach(agent("desk", ("text", "I would rather not"), "sorry")).run("Hello")
    assert told() == [
        "run_started desk",
        "message user <- run_started desk",
        "message assistant <- message user",
        "error <- message assistant",
        "message assistant <- error",
        "run_completed desk <- message assistant",
    ]
    (error,) = events(ledger, "system.error")
    assert error.payload["error"]["type"] == "AgentParsingError"


def test_a_tool_call_in_the_text_of_an_answer_is_one(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    said = ("text", 'Action:\n{"name": "add", "arguments": {"a": 1, "b": 2}}')
    recorder.attach(agent("desk", said, "3", tools=[tool(add)])).run("1+2?")
    asked, result = events(ledger, *TOOLS)
    assert (asked.payload["arguments"], result.payload["result"]) == ({"a": 1, "b": 2}, 3)
    assert result.causation_id == asked.event_id
    assert events(ledger, "execution.message")[1].payload["parts"][0]["content"].startswith("Action:")


def test_a_final_answer_beside_a_tool_is_an_error_and_no_answer(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    both = [call("add", a=1, b=2), call("final_answer", answer="four")]
    recorder.attach(agent("desk", both, "three", tools=[tool(add)])).run("1+2?")
    (error,) = events(ledger, "system.error")
    assert "do not perform any other tool calls" in error.payload["error"]["message"]
    assert [one.payload["name"] for one in events(ledger, *TOOLS)] == ["add", "add"]
    assert events(ledger, "execution.run_completed")[0].payload["output"] == "three"


@pytest.mark.parametrize("first", ["add", "final_answer"])
def test_a_final_answer_that_fails_beside_a_tool_was_asked_for_with_it(
    ledger: Any, recorder: SmolagentsRecorder, first: str
) -> None:
    both = sorted(
        [call("add", a=1, b=2), call("final_answer", words="3")], key=lambda asked: asked[1] != first
    )
    desk = agent("desk", both, "3", tools=[tool(add)])
    desk.max_tool_threads = 1
    recorder.attach(desk).run("1+2?")
    asking = next(one for one in events(ledger, "execution.message") if one.payload["role"] == "assistant")
    calls = events(ledger, "execution.tool_call")
    assert {one.payload["name"]: one.causation_id for one in calls} == {
        "add": asking.event_id,
        "final_answer": asking.event_id,
    }


def test_a_final_answer_tool_of_ones_own_is_a_tool(ledger: Any, recorder: SmolagentsRecorder) -> None:
    def final_answer(answer: str) -> str:
        return answer.upper()

    recorder.attach(agent("desk", "hi", tools=[tool(final_answer)])).run("Hello")
    asked, result = events(ledger, *TOOLS)
    assert (asked.payload["name"], result.payload["result"]) == ("final_answer", "HI")
    assert events(ledger, "execution.message")[-1].payload["parts"] == [{"type": "text", "content": "HI"}]


def test_checks_of_the_final_answer_are_guardrails(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    def is_text(answer: Any, memory: Any, agent: Any) -> bool:
        return isinstance(answer, str)

    def is_polite(answer: Any, memory: Any, agent: Any) -> bool:
        return "please" in answer

    desk = agent("desk", "no", "please no", final_answer_checks=[is_text, is_polite])
    assert recorder.attach(desk).run("Hello") == "please no"
    judged = [(one.payload["name"], one.payload["outcome"]) for one in events(ledger, "execution.guardrail")]
    assert judged == [
        ("is_text", "passed"),
        ("is_polite", "blocked"),
        ("is_text", "passed"),
        ("is_polite", "passed"),
    ]
    assert not events(ledger, "system.error")


def test_a_plan_is_what_the_agent_says_first(ledger: Any, recorder: SmolagentsRecorder, told: Told) -> None:
    desk = agent("desk", ("text", "First I think"), [call("add", a=1, b=2)], "3", tools=[tool(add)])
    desk.planning_interval = 5
    recorder.attach(desk).run("1+2?")
    assert told()[:5] == [
        "run_started desk",
        "message user <- run_started desk",
        "message assistant <- message user",
        "message assistant <- message assistant",
        "tool_call call_1 <- message assistant",
    ]
    assert len(events(ledger, "execution.model_call")) == 3


def test_a_person_is_asked_in_the_tool_for_it(
    ledger: Any, recorder: SmolagentsRecorder, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smolagents import UserInputTool

    monkeypatch.setattr("builtins.input", lambda prompt: "Bruges")
    recorder.attach(
        agent("desk", [call("user_input", question="Where to?")], "ok", tools=[UserInputTool()])
    ).run("Go")
    assert told()[3:7] == [
        "tool_call call_1 <- message assistant",
        "human_input_requested call_1 <- tool_call call_1",
        "human_input_received call_1 <- human_input_requested call_1",
        "tool_result call_1 <- tool_call call_1",
    ]
    (question,) = events(ledger, "execution.human_input_requested")
    (answer,) = events(ledger, "execution.human_input_received")
    assert (question.payload["question"], answer.payload["answer"]) == ("Where to?", "Bruges")


def test_a_person_who_is_not_there_leaves_no_answer(
    ledger: Any, recorder: SmolagentsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smolagents import UserInputTool

    def away(prompt: str) -> str:
        raise EOFError("nobody")

    monkeypatch.setattr("builtins.input", away)
    recorder.attach(
        agent("desk", [call("user_input", question="Where to?")], "ok", tools=[UserInputTool()])
    ).run("Go")
    assert len(events(ledger, "execution.human_input_requested")) == 1
    assert not events(ledger, "execution.human_input_received")
    assert events(ledger, "execution.tool_result")[0].payload["error"]["type"] == "EOFError"


def test_an_agent_that_executes_tools_in_its_own_way_is_told_by_its_steps(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    import smolagents

    class Own(smolagents.ToolCallingAgent):
        def process_tool_calls(self, chat_message: Any, memory_step: Any) -> Any:
            for one in chat_message.tool_calls:
                asked = smolagents.agents.ToolCall(one.function.name, one.function.arguments, one.id)
                yield asked
                final = one.function.name == "final_answer"
                output = one.function.arguments["answer"] if final else 3
                yield smolagents.agents.ToolOutput(one.id, output, final, str(output), asked)

    model = agent("x", [call("add", a=1, b=2)], "3").model
    own = Own(tools=[tool(add)], model=model, name="own", verbosity_level=smolagents.LogLevel.OFF)
    assert recorder.attach(own).run("1+2?") == "3"
    assert "tool_result call_1 <- tool_call call_1" in told()
    assert told()[-1] == "run_completed own <- message assistant"


def test_a_picture_that_a_tool_gives_is_recorded_as_its_png(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))

    def draw() -> Any:
        return image

    made = tool(draw)
    made.output_type = "image"
    desk = recorder.attach(agent("desk", [call("draw")], "image.png", tools=[made]))
    assert type(desk.run("Draw")).__name__ == "AgentImage"
    (result,) = events(ledger, "execution.tool_result")
    (ended,) = events(ledger, "execution.run_completed")
    for value in (result.payload["result"], ended.payload["output"]):
        assert (value["mime_type"], value["modality"]) == ("image/png", "image")


def test_the_arguments_of_a_run_may_be_anything(ledger: Any, recorder: SmolagentsRecorder) -> None:
    class Broken:
        size = (1, 1)

        def save(self, *args: Any, **options: Any) -> None:
            raise OSError("no picture")

    desk = recorder.attach(agent("desk", "ok", "ok"))
    desk.run("Look", images=[Broken()], additional_args={"it": object(), "pairs": {1: {2}}})
    assert len(events(ledger, "execution.run_completed")) == 1

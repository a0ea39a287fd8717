"""Agents of smolagents that answer in code: the code is a tool call, and what it calls is inside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.adapters.smolagents import SmolagentsRecorder
from chatsnapshot.testing.runtimes.smolagents import agent, tool

Told = Callable[..., list[str]]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")


def coder(*codes: str, **options: Any) -> Any:
    return agent(
        "coder", *(f"Thought.\n<code>\n{code}\n</code>" for code in codes), kind="CodeAgent", **options
    )


def events(ledger: Any, *event_types: str) -> list[Any]:
    return list(ledger.read(event_type=list(event_types)))


def test_code_and_the_tools_that_it_calls(ledger: Any, recorder: SmolagentsRecorder, told: Told) -> None:
    desk = coder("x = add(1, b=2)\nfinal_answer(add(x, x))", tools=[tool(add)])
    assert recorder.attach(desk).run("1+2, twice?") == 6
    assert told() == [
        "run_started coder",
        "message user <- run_started coder",
        "message assistant <- message user",
        "tool_call call_1 <- message assistant",
        "tool_call call_1.1 <- tool_call call_1",
        "tool_result call_1.1 <- tool_call call_1.1",
        "tool_call call_1.2 <- tool_call call_1",
        "tool_result call_1.2 <- tool_call call_1.2",
        "tool_result call_1 <- tool_call call_1",
        "message assistant <- tool_result call_1",
        "run_completed coder <- message assistant",
    ]
    first, inside, _ = events(ledger, "execution.tool_call")
    assert (first.payload["name"], inside.payload["arguments"]) == ("python_interpreter", {"a": 1, "b": 2})
    assert first.payload["arguments"]["code"].startswith("x = add")
    assert events(ledger, "execution.message")[-1].payload["parts"][0]["content"] == "6"
    assert events(ledger, "execution.run_completed")[0].payload["output"] == 6


def test_code_that_fails_is_a_result_with_its_error(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    desk = coder("print('so far')\nfail()", "final_answer('sorry')", tools=[tool(fail)])
    assert recorder.attach(desk).run("Try") == "sorry"
    inside, code, last = events(ledger, "execution.tool_result")
    assert inside.payload["error"]["message"] == "no such city"
    assert "no such city" in code.payload["error"]["message"]
    assert "so far" in code.payload["result"]
    assert not last.payload["is_error"]
    assert not events(ledger, "system.error")


def test_an_agent_that_code_calls_is_a_child_run_of_that_call(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    beta = agent("beta", "child says hi")
    desk = coder("final_answer(beta('hi'))", managed_agents=[beta])
    assert "child says hi" in recorder.attach(desk).run("Ask beta")
    lines = told()
    assert lines[4:6] == ["tool_call call_1.1 <- tool_call call_1", "run_started beta <- tool_call call_1.1"]
    assert "tool_result call_1.1 <- tool_call call_1.1" in lines
    (_, asked) = events(ledger, "execution.tool_call")
    assert (asked.payload["name"], asked.payload["arguments"]) == ("beta", {"task": "hi"})


@pytest.mark.parametrize("timed", [True, False], ids=["in a thread", "in place"])
def test_what_code_and_its_tools_record_by_themselves_belongs_to_them(
    ledger: Any, recorder: SmolagentsRecorder, timed: bool
) -> None:
    def note(what: str) -> None:
        ledger.record("execution.artifact", {"name": what})

    class Noting:
        def note(self) -> None:
            note("code")

    desk = coder("helper.note()\nwrite('tool')\nfinal_answer('ok')", tools=[tool(named("write", note))])
    if not timed:
        desk.python_executor.timeout_seconds = None
    recorder.attach(desk).run("Note", additional_args={"helper": Noting()})
    calls = {one.event_id: one.payload["name"] for one in events(ledger, "execution.tool_call")}
    noted = {one.payload["name"]: calls[one.causation_id] for one in events(ledger, "execution.artifact")}
    assert noted == {"code": "python_interpreter", "tool": "write"}


def named(name: str, work: Callable[[str], Any]) -> Callable[[str], Any]:
    def function(what: str) -> Any:
        return work(what)

    function.__name__ = name
    return function


def test_what_the_model_said_is_told_as_it_said_it(ledger: Any, recorder: SmolagentsRecorder) -> None:
    desk = agent("coder", "no code at all", "<code>final_answer(1)</code>", kind="CodeAgent")
    recorder.attach(desk).run("Go")
    said = [one.payload["parts"][0]["content"] for one in events(ledger, "execution.message")]
    assert said[1] == "no code at all"  # smolagents goes on with a closing tag at its end
    (error,) = events(ledger, "system.error")
    assert error.payload["error"]["type"] == "AgentParsingError"


def test_code_is_recorded_alike_when_models_stream(ledger: Any, recorder: SmolagentsRecorder) -> None:
    for options in ({}, {"stream_outputs": True}):
        desk = recorder.attach(coder("final_answer(add(1, 2))", tools=[tool(add)], **options))
        items = list(desk.run("1+2?", stream=bool(options))) if options else [desk.run("1+2?")]
        assert items
    first, second = (
        [
            (one.event_type, one.payload.get("usage"))
            for one in ledger.read(correlation_id=started.correlation_id)
        ]
        for started in events(ledger, "execution.run_started")
    )
    assert first == second


def test_a_value_of_code_that_is_no_text_is_recorded_as_it_is(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    recorder.attach(coder("final_answer({'cities': ['Bruges', 'Ghent']})")).run("Where?")
    assert events(ledger, "execution.run_completed")[0].payload["output"] == {"cities": ["Bruges", "Ghent"]}

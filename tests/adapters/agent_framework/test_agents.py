"""Agents of Microsoft Agent Framework: what becomes of calls that are answered, refused, streamed or broken off."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.agent_framework import AgentFrameworkRecorder, install
from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.testing.runtimes.agent_framework import call, scripted

af = pytest.importorskip("agent_framework")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tool(function: Callable[..., Any], approval: str = "never_require") -> Any:
    return af.tool(function, approval_mode=approval)


def agent(recorder: AgentFrameworkRecorder | None, answers: list[Any], **options: Any) -> Any:
    middleware = recorder.middleware if recorder else None
    return af.Agent(scripted(answers), name="alpha", middleware=middleware, **options)


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


def test_a_session_is_the_conversation_and_each_call_a_run_in_it() -> None:
    async def run(ledger: Any) -> str:
        alpha = agent(AgentFrameworkRecorder(ledger), [["one"], ["two"]], instructions="Be kind.")
        session = alpha.create_session()
        await alpha.run("Hello", session=session)
        await alpha.run("Again", session=session)
        return str(session.session_id)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        session_id = asyncio.run(run(ledger))
        assert {entry.correlation_id for entry in ledger.read()} == {session_id}
        first, second = of(ledger, "execution.run_started")
        assert first.payload["run_id"] != second.payload["run_id"]
        assert first.payload["instructions"] == "Be kind."
        said = [one.payload["parts"][0]["content"] for one in of(ledger, "execution.message")]
        assert said == ["Hello", "one", "Again", "two"]


def test_an_approval_is_found_in_the_ledger_by_a_recorder_that_remembers_nothing() -> None:
    async def run(ledger: Any) -> None:
        answers = [[call("add", {"a": 2, "b": 3}, "call_1")], ["approved"]]
        first = agent(AgentFrameworkRecorder(ledger), answers, tools=[tool(add, "always_require")])
        session = first.create_session()
        asked = await first.run("Hello", session=session)
        kept = session.to_dict()
        # as another process would: everything is made anew from what was stored
        again = agent(AgentFrameworkRecorder(ledger), answers[1:], tools=[tool(add, "always_require")])
        requests = [one.to_function_approval_response(approved=True) for one in asked.user_input_requests]
        message = af.Message(role="user", contents=requests)
        response = await again.run(message, session=af.AgentSession.from_dict(kept))
        assert response.text == "approved"

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert len({entry.correlation_id for entry in ledger.read()}) == 1
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        (resumed,) = of(ledger, "execution.run_resumed")
        assert question.payload["question"] == "May add be called?"
        assert question.payload["arguments"] == {"a": 2, "b": 3}
        assert answer.causation_id == question.event_id
        assert resumed.causation_id == answer.event_id


def test_a_tool_that_a_person_refuses_has_a_result_that_says_so() -> None:
    async def run(ledger: Any) -> None:
        answers = [[call("add", {"a": 2, "b": 3}, "call_1")], ["all right"]]
        alpha = agent(AgentFrameworkRecorder(ledger), answers, tools=[tool(add, "always_require")])
        session = alpha.create_session()
        asked = await alpha.run("Hello", session=session)
        refusal = [one.to_function_approval_response(approved=False) for one in asked.user_input_requests]
        await alpha.run(af.Message(role="user", contents=refusal), session=session)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        (answer,) = of(ledger, "execution.human_input_received")
        (made,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert answer.payload["decision"] == "rejected"
        assert made.payload["executed"] is False
        assert result.causation_id == made.event_id
        assert "reject" in str(result.payload).lower()


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [("nothing", {}, "nothing"), ("add", {"a": "two"}, "Argument")],
    ids=["unknown tool", "wrong arguments"],
)
def test_a_call_that_the_framework_answers_itself_is_recorded_by_its_result(
    name: str, arguments: dict[str, Any], told: str
) -> None:
    async def run(ledger: Any) -> None:
        alpha = agent(
            AgentFrameworkRecorder(ledger), [[call(name, arguments, "call_1")], ["sorry"]], tools=[tool(add)]
        )
        assert (await alpha.run("Hello")).text == "sorry"

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        (made,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert made.payload["name"] == name
        assert result.causation_id == made.event_id
        assert result.payload["is_error"] is True
        assert told in str(result.payload["error"])


def test_attached_twice_it_records_once() -> None:
    async def run(ledger: Any) -> None:
        recorder = AgentFrameworkRecorder(ledger)
        alpha = agent(recorder, [[call("add", {"a": 2, "b": 3}, "call_1")], ["5"]], tools=[tool(add)])
        await alpha.run("Hello", middleware=recorder.middleware)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == [
            *("run_started", "message", "model_call", "message", "tool_call", "tool_result"),
            *("model_call", "message", "run_completed"),
        ]


def test_what_a_tool_records_and_the_agents_it_asks_belong_to_its_call() -> None:
    async def run(ledger: Any) -> None:
        recorder = AgentFrameworkRecorder(ledger)
        beta = af.Agent(scripted([["hi"]]), name="beta", middleware=recorder.middleware)

        async def ask() -> str:
            """Ask beta."""
            ledger.record("execution.state_change", {"name": "asking", "to": "beta"})
            return str((await beta.run("hi?")).text)

        alpha = agent(recorder, [[call("ask", {}, "call_1")], ["done"]], tools=[tool(ask)])
        await alpha.run("Hello")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        (made,) = of(ledger, "execution.tool_call")
        (noted,) = of(ledger, "execution.state_change")
        _, child = of(ledger, "execution.run_started")
        assert noted.causation_id == child.causation_id == made.event_id
        assert noted.correlation_id == made.correlation_id != child.correlation_id


def test_a_stream_that_is_closed_early_cancels_the_run() -> None:
    async def run(recorder: AgentFrameworkRecorder, how: str) -> None:
        stream = agent(recorder, [["one", "two"]]).run("Hello", stream=True)
        await stream.__anext__()
        if how == "closed":
            await stream.close()
        del stream
        gc.collect()
        await asyncio.sleep(0)

    for how in ("closed", "dropped"):
        with chatsnapshot.open("memory:", validation="strict") as ledger:
            recorder = AgentFrameworkRecorder(ledger)
            asyncio.run(run(recorder, how))
            assert recorder.flush(10)
            *_, last = ledger.read()
            assert last.event_type == "execution.run_cancelled", how
            assert how in last.payload["reason"]


def test_a_model_that_fails_in_a_stream_fails_the_run_and_the_reader_sees_it() -> None:
    async def run(ledger: Any) -> None:
        stream = agent(AgentFrameworkRecorder(ledger), [RuntimeError("model is down")]).run(
            "Hello", stream=True
        )
        async for _ in stream:
            pass

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with pytest.raises(RuntimeError, match="model is down"):
            asyncio.run(run(ledger))
        assert kinds(ledger) == ["run_started", "message", "model_call", "run_failed"]
        (model,) = of(ledger, "execution.model_call")
        assert model.payload["error"]["message"] == "model is down"


def test_a_call_that_is_cancelled_ends_as_cancelled() -> None:
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    async def run(ledger: Any) -> None:
        alpha = agent(AgentFrameworkRecorder(ledger), [[call("wait", {}, "call_1")]], tools=[tool(wait)])
        task = asyncio.ensure_future(alpha.run("Hello"))
        while not of(ledger, "execution.tool_call"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger)[-2:] == ["tool_result", "run_cancelled"]


def test_two_runs_at_once_are_kept_apart() -> None:
    async def run(ledger: Any) -> None:
        recorder = AgentFrameworkRecorder(ledger)
        agents = [
            agent(recorder, [[call("add", {"a": n, "b": 1}, "call_1")], [str(n + 1)]], tools=[tool(add)])
            for n in range(5)
        ]
        await asyncio.gather(*(one.run("Hello") for one in agents))

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        results = of(ledger, "execution.tool_result")
        assert len({one.correlation_id for one in results}) == 5
        for result in results:
            (made,) = ledger.read(correlation_id=result.correlation_id, event_type="execution.tool_call")
            assert result.causation_id == made.event_id
            assert result.payload["result"] == str(made.payload["arguments"]["a"] + 1)


def test_installed_it_records_every_agent_once_and_undone_none() -> None:
    layer = next(base for base in af.Agent.__mro__ if base.__name__ == "AgentMiddlewareLayer")
    before = layer.run, af.Workflow._run_core

    async def ask(recorder: AgentFrameworkRecorder | None) -> Any:
        return (await agent(recorder, [["Hi there"]]).run("Hello")).text

    with chatsnapshot.open("memory:") as ledger:
        recorder = AgentFrameworkRecorder(ledger)
        undo = install(recorder)
        try:
            assert asyncio.run(ask(None)) == "Hi there"
            assert asyncio.run(ask(recorder)) == "Hi there"
        finally:
            undo()
            undo()
        once = ["run_started", "message", "model_call", "message", "run_completed"]
        assert kinds(ledger) == once * 2
        asyncio.run(ask(None))
        assert kinds(ledger) == once * 2
    assert (layer.run, af.Workflow._run_core) == before


def test_something_that_is_no_workflow_is_refused_in_one_sentence() -> None:
    with (
        chatsnapshot.open("memory:") as ledger,
        pytest.raises(TypeError, match="a Workflow of agent_framework, not int"),
    ):
        AgentFrameworkRecorder(ledger).attach(7)


def test_a_framework_that_is_missing_or_too_old_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chatsnapshot.open("memory:") as ledger:
        monkeypatch.setitem(sys.modules, "agent_framework", types.ModuleType("agent_framework"))
        with pytest.raises(LedgerError, match=r"has no agent_framework\.agent_middleware; recording needs"):
            AgentFrameworkRecorder(ledger).middleware  # noqa: B018
        monkeypatch.setitem(sys.modules, "agent_framework", None)
        with pytest.raises((MissingExtra, LedgerError), match="agent"):
            AgentFrameworkRecorder(ledger).middleware  # noqa: B018

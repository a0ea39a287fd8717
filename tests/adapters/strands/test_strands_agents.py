"""What the recorder of Strands Agents tells of an agent, beyond the contract of adapters."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.strands import StrandsRecorder
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.runtimes.strands import call, scripted


@pytest.fixture
def ledger() -> Iterator[chatsnapshot.Ledger]:
    logging.getLogger("strands").setLevel(logging.CRITICAL)  # it logs what these tests raise
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: chatsnapshot.Ledger) -> Iterator[StrandsRecorder]:
    made = StrandsRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped, made.safe.runs_open) == (0, 0, 0)


def agent(name: str, *answers: Any, **options: Any) -> Any:
    from strands import Agent

    return Agent(name=name, model=scripted(*answers), callback_handler=None, **options)


def tool(function: Callable[..., Any], **options: Any) -> Any:
    from strands import tool as made

    return made(**options)(function)


def told(ledger: chatsnapshot.Ledger, kind: str, **filters: Any) -> list[LedgerEntry]:
    return list(ledger.read(event_type=f"execution.{kind}", **filters))


def kinds(ledger: chatsnapshot.Ledger) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def answers_to(asked: Any, answer: Any = "yes") -> list[Any]:
    return [{"interruptResponse": {"interruptId": one.id, "response": answer}} for one in asked.interrupts]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def who(tool_context: Any) -> str:
    """Ask for a name."""
    return f"hello {tool_context.interrupt('who', reason={'ask': 'your name?'})}"


SUM = [call("add", "call_1", a=2, b=3)]
ASK = [call("who", "call_1")]


def test_the_messages_that_an_agent_holds_are_a_conversation(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    alpha = agent("alpha", "one", "two", "three", hooks=[recorder], system_prompt="Be kind.")
    alpha("Hello")
    alpha("Again")
    alpha.messages.clear()
    alpha("Something else")
    first, second, other = told(ledger, "run_started")
    assert first.correlation_id == second.correlation_id != other.correlation_id
    assert first.payload["run_id"] != second.payload["run_id"]
    assert first.payload["instructions"] == "Be kind."
    said = [one.payload["parts"][0]["content"] for one in told(ledger, "message")]
    assert said == ["Hello", "one", "Again", "two", "Something else", "three"]


def test_a_session_is_the_correlation(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder, tmp_path: Any
) -> None:
    from strands.session import FileSessionManager

    for question in ("Hello", "Again"):
        kept = FileSessionManager(session_id="case-7", storage_dir=str(tmp_path))
        agent("alpha", "Hi", hooks=[recorder], session_manager=kept)(question)
    assert {entry.correlation_id for entry in ledger.read()} == {"case-7"}
    assert [one.payload["session"] for one in told(ledger, "run_started")] == ["case-7", "case-7"]
    assert [one.payload["parts"][0]["content"] for one in told(ledger, "message")][::2] == ["Hello", "Again"]


def test_an_agent_that_waits_goes_on_in_another_process_with_its_session(tmp_path: Any) -> None:
    from strands.session import FileSessionManager

    def process(prompt: Any, *answers: Any) -> Any:
        with chatsnapshot.open(tmp_path / "runs.db", validation="strict") as ledger:
            recorder = StrandsRecorder(ledger)
            kept = FileSessionManager(session_id="case-7", storage_dir=str(tmp_path))
            tools = [tool(who, context=True)]
            given = agent("alpha", *answers, hooks=[recorder], session_manager=kept, tools=tools)(prompt)
            assert recorder.flush(5)
            return given

    assert str(process(answers_to(process("Hello", ASK)), "bye")) == "bye\n"
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        (question,), (answer,) = told(ledger, "human_input_requested"), told(ledger, "human_input_received")
        (resumed,), (asked,), (result,) = (
            told(ledger, kind) for kind in ("run_resumed", "tool_call", "tool_result")
        )
        assert {entry.correlation_id for entry in ledger.read()} == {"case-7"}
    assert question.payload["question"] == {"ask": "your name?"}
    assert (question.payload["name"], question.payload["call_id"]) == ("who", "call_1")
    assert question.causation_id == asked.event_id
    assert (answer.causation_id, answer.payload["answer"]) == (question.event_id, "yes")
    assert resumed.causation_id == answer.event_id
    assert (result.causation_id, result.payload["result"]) == (asked.event_id, "hello yes")


def test_an_agent_that_is_a_tool_goes_on_in_another_process_where_it_waited(tmp_path: Any) -> None:
    from strands.session import FileSessionManager

    def process(prompt: Any, answers: list[Any], child_answers: list[Any]) -> Any:
        with chatsnapshot.open(tmp_path / "runs.db", validation="strict") as ledger:
            recorder = StrandsRecorder(ledger)
            kept = FileSessionManager(session_id="case-7", storage_dir=str(tmp_path))
            child = agent("beta", *child_answers, tools=[tool(who, context=True)])
            given = agent("alpha", *answers, hooks=[recorder], session_manager=kept, tools=[child])(prompt)
            assert recorder.flush(5)
            return given

    asked = process("Hello", [[call("beta", "call_2", input="go")]], [ASK])
    assert str(process(answers_to(asked), ["bye"], ["child bye"])) == "bye\n"
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        assert len({entry.correlation_id for entry in ledger.read()}) == 2
        questions = {one.event_id for one in told(ledger, "human_input_requested")}
        answers = {one.event_id: one.causation_id for one in told(ledger, "human_input_received")}
        assert set(answers.values()) == questions
        assert {one.causation_id for one in told(ledger, "run_resumed")} == set(answers)
        assert len(told(ledger, "run_completed")) == 2


def test_tools_beside_one_that_asks_are_called_once(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor

    for executor in (ConcurrentToolExecutor(), SequentialToolExecutor()):
        both = [call("who", "call_1"), call("add", "call_2", a=1, b=2)]
        tools = [tool(who, context=True), tool(add)]
        alpha = agent("alpha", both, "bye", hooks=[recorder], tools=tools, tool_executor=executor)
        alpha(answers_to(alpha("Hello")))
        calls = {one.payload["call_id"]: one for one in told(ledger, "tool_call")[-2:]}
        results = {one.payload["call_id"]: one for one in told(ledger, "tool_result")[-2:]}
        assert {one: results[one].causation_id for one in results} == {
            one: calls[one].event_id for one in calls
        }
        message = told(ledger, "message", correlation_id=calls["call_1"].correlation_id)[1]
        assert {one.causation_id for one in calls.values()} == {message.event_id}
    assert len(told(ledger, "tool_call")) == len(told(ledger, "tool_result")) == 4


def test_what_an_agent_asks_that_is_a_tool_is_asked_in_both_runs(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    child = agent("beta", ASK, "child bye", tools=[tool(who, context=True)])
    alpha = agent("alpha", [call("beta", "call_2", input="go")], "bye", hooks=[recorder], tools=[child])
    assert str(alpha(answers_to(alpha("Hello")))) == "bye\n"
    inner, outer = told(ledger, "human_input_requested")
    (asking,) = (one for one in told(ledger, "tool_call") if one.payload["name"] == "beta")
    assert (inner.payload["call_id"], outer.payload["call_id"]) == ("call_1", "call_2")
    assert outer.causation_id == asking.event_id
    outer_resumed, inner_resumed = told(ledger, "run_resumed")
    assert (inner_resumed.correlation_id, outer_resumed.correlation_id) == (
        inner.correlation_id,
        outer.correlation_id,
    )
    by_question = {one.causation_id: one.event_id for one in told(ledger, "human_input_received")}
    assert inner_resumed.causation_id == by_question[inner.event_id]
    assert outer_resumed.causation_id == by_question[outer.event_id]
    assert inner_resumed.payload["parent_run_id"] == outer_resumed.payload["run_id"]


def test_calls_that_are_refused_unknown_or_cancelled_have_their_results(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import BeforeToolCallEvent, BeforeToolsEvent

    def refuse(event: Any) -> None:
        if event.tool_use["name"] == "add":
            event.cancel_tool = "not today"

    def none_at_all(event: Any) -> None:
        event.cancel = "no tools"

    asked = [*SUM, call("unknown", "call_2")]
    alpha = agent("alpha", asked, "bye", asked, "bye", hooks=[recorder], tools=[tool(add)])
    alpha.add_hook(refuse, BeforeToolCallEvent)
    alpha("Hello")
    alpha.add_hook(none_at_all, BeforeToolsEvent)
    alpha("Again")
    calls, results = told(ledger, "tool_call"), told(ledger, "tool_result")
    assert [one.payload.get("executed", True) for one in calls] == [False, True, False, False]
    assert sorted(one.payload["error"]["message"] for one in results) == [
        "Unknown tool: unknown",
        "no tools",
        "no tools",
        "not today",
    ]
    assert {one.causation_id for one in results} == {one.event_id for one in calls}


def test_every_try_of_a_tool_and_of_a_model_is_told(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import AfterModelCallEvent, AfterToolCallEvent

    tries: list[int] = []

    def shaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("shaky")
        return "fine"

    def again(event: Any) -> None:
        event.retry = event.exception is not None

    answers = [RuntimeError("busy"), [call("shaky", "call_1")], "bye"]
    alpha = agent("alpha", *answers, hooks=[recorder], tools=[tool(shaky)])
    alpha.add_hook(again, AfterModelCallEvent)
    alpha.add_hook(again, AfterToolCallEvent)
    alpha("Hello")
    busy, _, _ = told(ledger, "model_call")
    assert (busy.payload["error"]["message"], busy.payload["retried"]) == ("busy", True)
    first, second = told(ledger, "tool_result")
    assert (first.payload["error"]["message"], first.payload["retried"]) == ("shaky", True)
    assert (second.payload["is_error"], second.payload["result"]) == (False, "fine")
    assert [first.causation_id, second.causation_id] == [one.event_id for one in told(ledger, "tool_call")]


def test_what_hooks_refuse_is_told_as_it_was(ledger: chatsnapshot.Ledger, recorder: StrandsRecorder) -> None:
    from strands.hooks import BeforeInvocationEvent, BeforeModelCallEvent

    def refuse(event: Any) -> None:
        event.cancel = "not today"

    alpha = agent("alpha", hooks=[recorder])
    alpha.add_hook(refuse, BeforeModelCallEvent)
    assert str(alpha("Hello")) == "not today\n"
    assert kinds(ledger) == ["run_started", "message", "message", "run_completed"]
    alpha.add_hook(refuse, BeforeInvocationEvent)
    alpha("Again")
    assert kinds(ledger)[4:] == ["run_started", "message", "run_cancelled"]


def test_a_checkpoint_pauses_the_run_until_it_goes_on(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    alpha = agent("alpha", SUM, "bye", hooks=[recorder], tools=[tool(add)], checkpointing=True)
    given = alpha("Hello")
    while given.stop_reason == "checkpoint":
        given = alpha({"checkpointResume": {"checkpoint": given.checkpoint.to_dict()}})
    paused, resumed = told(ledger, "run_paused"), told(ledger, "run_resumed")
    assert [one.payload["reason"] for one in paused] == ["checkpoint", "checkpoint"]
    assert [one.causation_id for one in resumed] == [one.event_id for one in paused]
    (asked,), (result,) = told(ledger, "tool_call"), told(ledger, "tool_result")
    assert asked.causation_id == told(ledger, "message")[1].event_id
    assert (result.causation_id, result.payload["result"]) == (asked.event_id, "5")
    assert len({one.payload["run_id"] for one in ledger.read()}) == 1


def test_an_agent_that_is_done_or_waits_is_not_kept_alive(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    made = [
        agent("alpha", "one", hooks=[recorder]),
        agent("beta", ASK, hooks=[recorder], tools=[tool(who, context=True)]),
    ]
    for each in made:
        each("Hello")
    kept = [weakref.ref(each) for each in made]
    made.clear()
    del each
    gc.collect()
    assert [one() for one in kept] == [None, None]


def test_a_run_that_a_hook_starts_follows_from_the_one_before(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import AfterInvocationEvent

    more = ["and then?"]

    def go_on(event: Any) -> None:
        event.resume = more.pop() if more else None

    alpha = agent("alpha", "one", "two", hooks=[recorder])
    alpha.add_hook(go_on, AfterInvocationEvent)
    alpha("Hello")
    ended, _ = told(ledger, "run_completed")
    started = told(ledger, "run_started")
    assert [one.causation_id for one in started] == [None, ended.event_id]
    assert len({one.correlation_id for one in started}) == 1


def test_a_hook_that_raises_at_the_end_leaves_no_run_open(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import AfterInvocationEvent

    def broken(event: Any) -> None:
        raise RuntimeError("the hook is broken")

    alpha = agent("alpha", "one", hooks=[recorder])
    alpha.add_hook(broken, AfterInvocationEvent)
    with pytest.raises(RuntimeError, match="the hook is broken"):
        alpha("Hello")
    gc.collect()
    assert recorder.flush(5)
    (failed,) = told(ledger, "run_failed")
    assert "hook failed" in failed.payload["error"]["message"]


def test_a_cancelled_task_and_a_cancelled_agent_are_cancelled_runs(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    async def cancelled() -> None:
        begun = asyncio.Event()

        async def slow() -> str:
            """Never end."""
            begun.set()
            await asyncio.Event().wait()
            return ""

        alpha = agent("alpha", [call("slow", "call_1")], hooks=[recorder], tools=[tool(slow)])
        task = asyncio.create_task(alpha.invoke_async("Hello"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def stop(tool_context: Any) -> str:
        """Stop."""
        tool_context.agent.cancel()
        return "stopped"

    asyncio.run(cancelled())
    stops = [call("stop", "call_1")]
    agent("alpha", stops, hooks=[recorder], tools=[tool(stop, context=True)])("Hello")
    assert [one.payload["reason"] for one in told(ledger, "run_cancelled")] == ["cancelled", "cancelled"]


def test_a_stream_that_is_closed_early_is_a_cancelled_run(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    async def read_a_little() -> None:
        stream = agent("alpha", "one two three", hooks=[recorder]).stream_async("Hello")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(read_a_little())
    assert [one.payload["reason"] for one in told(ledger, "run_cancelled")] == [
        "the stream was closed before its end"
    ]

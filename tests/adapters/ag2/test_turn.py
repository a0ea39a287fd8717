"""AG2 1.x: a whole turn is recorded in the right order, each event with its cause."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ag2 import Agent, Context, MemoryStream, tool
from ag2.events import HumanInputRequest, ModelRequest, TextInput, ToolResultEvent, ToolResultsEvent
from ag2.events.base import BaseEvent
from ag2.exceptions import HumanInputFailedError, HumanInputNotProvidedError
from ag2.middleware import BaseMiddleware, Middleware, RetryMiddleware
from ag2.testing import TestConfig
from ag2.tools import ToolResult

from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.adapters.ag2 import AG2Recorder

Steps = Callable[[Any], list[tuple[str, str]]]
Call = Callable[..., Any]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def explode(x: int) -> int:
    """Fail."""
    raise ValueError("the tool exploded")


async def ask_human(question: str, ctx: Context) -> str:
    """Ask a person."""
    return await ctx.input(question)


async def answer_blue(event: HumanInputRequest) -> str:
    return "blue"


async def answer_never(event: HumanInputRequest) -> str:
    raise OSError("the terminal is gone")


def scripted(*turns: Any, **options: Any) -> TestConfig:
    return TestConfig(*turns, raise_tool_errors=False, **options)


def run_one(
    ledger: Ledger,
    config: TestConfig,
    tools: Sequence[Any] = (),
    *,
    stream: MemoryStream | None = None,
    **options: Any,
) -> tuple[Any, AG2Recorder]:
    """One turn of a recorded agent; gives its reply or what it raised."""
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent(
        "assistant", "Be kind.", config=config, tools=tools, middleware=[recorder.middleware], **options
    )

    async def turn() -> Any:
        try:
            return await agent.ask("hello", stream=stream or MemoryStream())
        except Exception as error:
            return error

    outcome = asyncio.run(turn())
    assert (recorder.safe.failures, recorder.safe.kept, recorder.safe.dropped) == (0, 0, 0)
    return outcome, recorder


def entries(
    ledger: Ledger, event_type: str | None = None, correlation_id: str | None = None
) -> list[LedgerEntry]:
    return list(ledger.read(event_type=event_type, correlation_id=correlation_id))


def run_events(ledger: Ledger) -> list[LedgerEntry]:
    return [entry for entry in ledger.read() if entry.event_type.startswith("execution.run_")]


# --- order and causes ---------------------------------------------------------------------------------------------


def test_a_turn_with_a_tool_is_recorded_in_order_with_its_causes(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    reply, _ = run_one(ledger, scripted(call("add", a=1, b=2), "It is 3."), [add])
    assert reply.body == "It is 3."
    assert steps(ledger.read()) == [
        ("run_started assistant", ""),
        ("message user", "run_started assistant"),
        ("model_call", "message user"),
        ("message assistant", "model_call"),
        ("tool_call add-1", "message assistant"),
        ("tool_result add-1", "tool_call add-1"),
        ("model_call", "tool_result add-1"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]


def test_the_payloads_say_what_was_said_and_done(ledger: Ledger, call: Call) -> None:
    run_one(ledger, scripted(call("add", a=1, b=2), "It is 3.", provider="openai", model="m-1"), [add])
    by_type = {entry.event_type: entry.payload for entry in ledger.read()}
    started = by_type["execution.run_started"]
    assert (started["name"], started["instructions"]) == ("assistant", ["Be kind."])
    assert len({entry.payload["run_id"] for entry in ledger.read()}) == 1
    user, asks, answers = [entry.payload for entry in entries(ledger, "execution.message")]
    assert user["parts"] == [{"type": "text", "content": "hello"}]
    assert asks["parts"] == [
        {"type": "tool_call", "id": "add-1", "name": "add", "arguments": {"a": 1, "b": 2}}
    ]
    assert (answers["role"], answers["name"]) == ("assistant", "assistant")
    assert answers["parts"] == [{"type": "text", "content": "It is 3."}]
    assert by_type["execution.tool_call"]["arguments"] == {"a": 1, "b": 2}
    assert (by_type["execution.tool_result"]["result"], by_type["execution.tool_result"]["is_error"]) == (
        3,
        False,
    )
    model_call = by_type["execution.model_call"]
    assert (model_call["provider"], model_call["model"], model_call["attempt"]) == ("openai", "m-1", 1)
    assert model_call["duration_ns"] > 0
    assert by_type["execution.run_completed"]["output"] == "It is 3."


def test_the_source_names_the_agent(ledger: Ledger) -> None:
    run_one(ledger, scripted("hi"))
    sources = [(entry.source.origin, entry.source.runtime, entry.source.name) for entry in ledger.read()]
    assert sources == [("agent", "ag2", name) for name in ("assistant", None, *["assistant"] * 3)]


def test_what_others_say_to_an_agent_is_not_said_by_it(ledger: Ledger, call: Call) -> None:
    run_pair(ledger, call, call("ask_human", question="colour?"), "blue", tools=[ask_human])
    asked, delegated = [
        (entry.source.name, entry.payload.get("name"), entry.payload["recipient"])
        for entry in entries(ledger, "execution.message")
        if entry.payload["role"] == "user"
    ]
    assert asked == (None, None, "boss")
    assert delegated == ("boss", "boss", "researcher")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert (answer.source.name, answer.payload["recipient"]) == (None, "researcher")
    assert "agent" not in answer.payload


def test_the_first_run_of_a_conversation_carries_its_name(ledger: Ledger) -> None:
    recorders = [AG2Recorder(ledger, correlation_id="case-7") for _ in range(2)]

    async def talk() -> None:
        for recorder in recorders:
            await Agent("a", config=scripted("hi"), middleware=[recorder.middleware]).ask("hello")

    asyncio.run(talk())
    first, second = [entry.payload["run_id"] for entry in entries(ledger, "execution.run_started")]
    assert first == "case-7"
    assert second not in ("case-7", None)


def test_an_event_is_durable_before_the_runtime_goes_on(ledger: Ledger, call: Call) -> None:
    seen: list[str] = []

    def look(x: int) -> int:
        """Look into the ledger while the tool runs."""
        seen.extend(entry.event_type for entry in ledger.read())
        return x

    run_one(ledger, scripted(call("look", x=1), "done"), [look])
    assert seen[-1] == "execution.tool_call"
    assert len(seen) == 5


def test_parallel_tools_are_one_call_each_and_together_cause_the_next_model_call(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    run_one(ledger, scripted([call("add", a=1, b=2), call("add", a=3, b=4)], "3 and 7"), [add])
    told = steps(ledger.read())
    assert ("tool_call add-1", "message assistant") in told
    assert ("tool_call add-2", "message assistant") in told
    assert {one for one in told if one[0].startswith("tool_result")} == {
        ("tool_result add-1", "tool_call add-1"),
        ("tool_result add-2", "tool_call add-2"),
    }
    results = [entry.event_id for entry in entries(ledger, "execution.tool_result")]
    second = entries(ledger, "execution.model_call")[1]
    assert second.causation_id == results[-1]
    assert second.attributes["links"] == results[:-1]


@pytest.mark.parametrize(
    ("tool_name", "arguments", "error"),
    [
        ("explode", {"x": 1}, "ValueError"),
        ("nope", {}, "ToolNotFoundError"),
        ("add", {"a": "many"}, "ValidationError"),
    ],
    ids=["failing", "unknown", "bad arguments"],
)
def test_a_tool_that_fails_leaves_a_result_with_its_error(
    ledger: Ledger, steps: Steps, call: Call, tool_name: str, arguments: dict[str, Any], error: str
) -> None:
    reply, _ = run_one(ledger, scripted(call(tool_name, **arguments), "sorry"), [add, explode])
    assert reply.body == "sorry"
    assert (f"tool_result {tool_name}-1", f"tool_call {tool_name}-1") in steps(ledger.read())
    (result,) = entries(ledger, "execution.tool_result")
    assert result.payload["is_error"] is True
    assert result.payload["error"]["type"] == error
    assert entries(ledger)[-1].event_type == "execution.run_completed"


def test_a_tool_whose_middleware_fails_leaves_a_result_as_well(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    async def broken(call_next: Any, event: Any, context: Any) -> Any:
        raise RuntimeError("the guard broke")

    guarded = tool(add, middleware=[broken])
    run_one(ledger, scripted(call("add", a=1, b=2), "sorry"), [guarded])
    assert ("tool_result add-1", "tool_call add-1") in steps(ledger.read())
    (result,) = entries(ledger, "execution.tool_result")
    assert result.payload["error"]["message"] == "the guard broke"


def test_a_final_tool_result_is_the_answer(ledger: Ledger, steps: Steps, call: Call) -> None:
    def finish() -> ToolResult:
        """Finish."""
        return ToolResult("done by the tool", final=True)

    reply, _ = run_one(ledger, scripted(call("finish")), [finish])
    assert reply.body == "done by the tool"
    assert steps(ledger.read())[-3:] == [
        ("tool_result finish-1", "tool_call finish-1"),
        ("message assistant", "tool_result finish-1"),
        ("run_completed", "message assistant"),
    ]


# --- people -------------------------------------------------------------------------------------------------------


def test_a_question_and_its_answer_stand_between_call_and_result(
    ledger: Ledger, steps: Steps, call: Call
) -> None:
    reply, _ = run_one(
        ledger,
        scripted(call("ask_human", question="colour?"), "blue it is"),
        [ask_human],
        hitl_hook=answer_blue,
    )
    assert reply.body == "blue it is"
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    told = steps(ledger.read())
    at = told.index(("tool_call ask_human-1", "message assistant"))
    assert told[at + 1] == (
        f"human_input_requested {question.payload['question_id']}",
        "tool_call ask_human-1",
    )
    assert told[at + 2][1] == told[at + 1][0]
    assert told[at + 3] == ("tool_result ask_human-1", "tool_call ask_human-1")
    assert (question.payload["kind"], question.payload["question"]) == ("question", "colour?")
    assert (answer.payload["answer"], answer.payload["answers"]) == ("blue", question.payload["question_id"])


@pytest.mark.parametrize(
    ("hook", "error"), [(None, HumanInputNotProvidedError), (answer_never, HumanInputFailedError)]
)
def test_a_question_nobody_answers_fails_the_run_as_it_fails_the_turn(
    ledger: Ledger, steps: Steps, call: Call, hook: Any, error: type[Exception]
) -> None:
    raised, _ = run_one(
        ledger, scripted(call("ask_human", question="colour?"), "-"), [ask_human], hitl_hook=hook
    )
    assert type(raised) is error
    told = steps(ledger.read())
    assert told[-2][0].startswith("human_input_requested")
    assert told[-1] == ("run_failed", told[-2][0])
    assert entries(ledger)[-1].payload["error"]["type"] == error.__name__


@pytest.mark.parametrize(
    ("said", "decision", "result"), [("yes", "approved", 3), ("no", "rejected", "denied")]
)
def test_an_approval_tells_the_decision(
    ledger: Ledger, call: Call, said: str, decision: str, result: Any
) -> None:
    from ag2.middleware.builtin.tools.approval import approval_required

    async def answer(event: HumanInputRequest) -> str:
        return said

    guarded = tool(add, middleware=[approval_required(denied_message="denied")])
    run_one(ledger, scripted(call("add", a=1, b=2), "ok"), [guarded], hitl_hook=answer)
    (question,) = entries(ledger, "execution.human_input_requested")
    (answered,) = entries(ledger, "execution.human_input_received")
    assert (question.payload["kind"], question.payload["call_id"]) == ("approval", "add-1")
    assert answered.payload["decision"] == decision
    assert answered.attributes["outcome"] == decision
    assert answered.causation_id == question.event_id
    assert entries(ledger, "execution.tool_result")[0].payload["result"] == result


# --- sub-agents ---------------------------------------------------------------------------------------------------


def researcher(recorder: AG2Recorder | None, *turns: Any, tools: Sequence[Any] = (), **options: Any) -> Any:
    middleware = [recorder.middleware] if recorder else []
    agent = Agent("researcher", config=scripted(*turns), tools=tools, middleware=middleware, **options)
    return agent.as_tool(description="Find out.")


def run_pair(ledger: Ledger, call: Call, *turns: Any, recorded: bool = True, **options: Any) -> Any:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    child = researcher(recorder if recorded else None, *turns, **options)
    script = scripted(call("task_researcher", objective="find it"), "done")
    agent = Agent(
        "boss", config=script, tools=[child], hitl_hook=answer_blue, middleware=[recorder.middleware]
    )
    reply = asyncio.run(agent.ask("hello"))
    assert (recorder.safe.failures, recorder.safe.dropped) == (0, 0)
    return reply


def test_a_sub_agent_is_a_child_run_caused_by_the_tool_call(ledger: Ledger, steps: Steps, call: Call) -> None:
    run_pair(ledger, call, call("add", a=1, b=2), "found", tools=[add])
    parent = entries(ledger, correlation_id="run-1")
    (tool_call,) = [entry for entry in parent if entry.event_type == "execution.tool_call"]
    child = [entry for entry in ledger.read() if entry.correlation_id != "run-1"]
    assert len({entry.correlation_id for entry in child}) == 1
    assert child[0].event_type == "execution.run_started"
    assert child[0].causation_id == tool_call.event_id
    assert child[0].payload["parent_run_id"] == parent[0].payload["run_id"]
    assert steps(child)[1:] == [
        ("message user", "run_started researcher"),
        ("model_call", "message user"),
        ("message assistant", "model_call"),
        ("tool_call add-1", "message assistant"),
        ("tool_result add-1", "tool_call add-1"),
        ("model_call", "tool_result add-1"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]
    assert [entry.event_id for entry in ledger.replay("run-1", children=True)] == [
        e.event_id for e in ledger.read()
    ]


def test_a_delegation_is_a_task_of_the_parent(ledger: Ledger, call: Call) -> None:
    run_pair(ledger, call, "found")
    (tool_call,) = entries(ledger, "execution.tool_call")
    started, completed = entries(ledger, "system.*")
    assert started.causation_id == tool_call.event_id
    assert (started.payload["name"], started.payload["objective"]) == ("researcher", "find it")
    assert completed.causation_id == started.event_id
    assert completed.payload["output"] == "found"
    (child,) = {entry.correlation_id for entry in ledger.read()} - {"run-1"}
    assert completed.payload["stream_id"] == child


def test_a_failing_sub_agent_fails_its_own_run_only(ledger: Ledger, call: Call) -> None:
    reply = run_pair(ledger, call, ValueError("no such thing"))
    assert reply.body == "done"
    ends = {entry.correlation_id == "run-1": entry.event_type for entry in run_events(ledger)}
    assert ends == {True: "execution.run_completed", False: "execution.run_failed"}
    assert entries(ledger, "system.task_failed")[0].payload["error"]["type"] == "ValueError"


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "without the middleware"])
def test_the_question_of_a_sub_agent_is_asked_and_answered_once(
    ledger: Ledger, call: Call, recorded: bool
) -> None:
    run_pair(
        ledger, call, call("ask_human", question="colour?"), "blue", recorded=recorded, tools=[ask_human]
    )
    (question,) = entries(ledger, "execution.human_input_requested")
    (answer,) = entries(ledger, "execution.human_input_received")
    assert answer.causation_id == question.event_id
    assert (question.correlation_id == "run-1") is not recorded
    cause = ledger.get(question.causation_id)
    assert cause.payload["name"] == ("ask_human" if recorded else "task_researcher")


def test_an_agent_that_a_tool_asks_by_itself_is_a_child_run(ledger: Ledger, call: Call) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    helper = Agent("helper", config=scripted("42"), middleware=[recorder.middleware])

    async def consult(question: str) -> str:
        """Ask another agent."""
        return (await helper.ask(question)).body or ""

    script = scripted(call("consult", question="?"), "done")
    agent = Agent("boss", config=script, tools=[consult], middleware=[recorder.middleware])
    asyncio.run(agent.ask("hello"))
    (tool_call,) = entries(ledger, "execution.tool_call")
    child = next(entry for entry in ledger.read() if entry.correlation_id != "run-1")
    assert child.causation_id == tool_call.event_id


# --- runs ---------------------------------------------------------------------------------------------------------


def test_a_second_turn_on_the_same_stream_resumes_the_conversation(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=scripted("one", "two"), middleware=[recorder.middleware])
    stream = MemoryStream()

    async def talk() -> None:
        reply = await agent.ask("first", stream=stream)
        await reply.ask("second")

    asyncio.run(talk())
    runs = run_events(ledger)
    assert [run.event_type.partition(".")[2] for run in runs] == [
        "run_started",
        "run_completed",
        "run_resumed",
        "run_completed",
    ]
    assert {run.correlation_id for run in runs} == {str(stream.id)}
    assert runs[2].causation_id == runs[1].event_id
    assert runs[0].payload["run_id"] == runs[1].payload["run_id"] != runs[2].payload["run_id"]


def test_turns_without_a_stream_are_conversations_of_their_own(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("assistant", config=scripted("one"), middleware=[recorder.middleware])

    async def talk() -> None:
        await asyncio.gather(*(agent.ask("hello") for _ in range(5)))

    asyncio.run(talk())
    assert len({entry.correlation_id for entry in ledger.read()}) == 5
    for correlation_id in {entry.correlation_id for entry in ledger.read()}:
        assert len(entries(ledger, correlation_id=correlation_id)) == 5


def test_a_failing_model_fails_the_run_with_type_module_and_message(ledger: Ledger, steps: Steps) -> None:
    raised, _ = run_one(ledger, scripted(ConnectionError("the provider is down")))
    assert type(raised) is ConnectionError
    assert steps(ledger.read())[1:] == [
        ("message user", "run_started assistant"),
        ("model_call", "message user"),
        ("run_failed", "model_call"),
    ]
    error = {"type": "ConnectionError", "module": "builtins", "message": "the provider is down"}
    assert entries(ledger, "execution.model_call")[0].payload["error"] == error
    assert entries(ledger)[-1].payload["error"] == error


def test_each_attempt_of_a_retried_model_call_is_recorded(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    retry = RetryMiddleware(max_retries=2, retry_on=(ConnectionError,))
    script = scripted(ConnectionError("down"), "up again")
    agent = Agent("assistant", config=script, middleware=[retry, recorder.middleware])
    assert asyncio.run(agent.ask("hello")).body == "up again"
    calls = entries(ledger, "execution.model_call")
    assert [one.payload["attempt"] for one in calls] == [1, 2]
    assert ["error" in one.payload for one in calls] == [True, False]
    assert entries(ledger)[-1].event_type == "execution.run_completed"


def test_a_cancelled_turn_is_a_cancelled_run(ledger: Ledger, call: Call) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    started = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent("a", config=scripted(call("wait"), "-"), tools=[wait], middleware=[recorder.middleware])

    async def cancel() -> None:
        task = asyncio.ensure_future(agent.ask("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert recorder.safe.flush(timeout=10)
    types = [entry.event_type for entry in ledger.read()]
    assert types[-2:] == ["execution.tool_call", "execution.run_cancelled"]
    assert entries(ledger)[-1].payload["reason"] == "CancelledError"


def test_a_turn_that_runs_out_of_time_ends_its_run_once(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")

    class Slow(BaseMiddleware):
        async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
            await asyncio.Event().wait()

    agent = Agent("a", config=scripted("-"), middleware=[recorder.middleware, Middleware(Slow)])

    async def run() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(agent.ask("go"), 0.05)

    asyncio.run(run())
    assert recorder.safe.flush(timeout=10)
    ends = [entry.event_type for entry in run_events(ledger)]
    assert ends == ["execution.run_started", "execution.run_cancelled"]


def test_a_turn_resumed_with_a_tool_result_is_a_resumed_run(ledger: Ledger, steps: Steps, call: Call) -> None:
    asked = call("ask_human", question="colour?")
    stream = MemoryStream()

    async def stop() -> list[BaseEvent]:
        with pytest.raises(HumanInputNotProvidedError):
            await Agent("assistant", config=scripted(asked), tools=[ask_human]).ask("paint", stream=stream)
        return list(await stream.history.get_events())

    history = asyncio.run(stop())
    calls = next(at for at, event in enumerate(history) if type(event).__name__ == "ToolCallsEvent")
    result = ToolResultsEvent([ToolResultEvent.from_call(asked, "blue")])
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent(
        "assistant", config=scripted("blue it is"), tools=[ask_human], middleware=[recorder.middleware]
    )
    reply = asyncio.run(agent.resume(*history[: calls + 1], result))
    assert reply.body == "blue it is"
    assert steps(ledger.read()) == [
        ("run_resumed assistant", ""),
        ("message tool", "run_resumed assistant"),
        ("model_call", "message tool"),
        ("message assistant", "model_call"),
        ("run_completed", "message assistant"),
    ]


# --- beside the turn ----------------------------------------------------------------------------------------------


def test_the_middleware_given_twice_records_once(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware, recorder.middleware])
    asyncio.run(agent.ask("hello", middleware=[recorder.middleware]))
    assert len(entries(ledger)) == 5


def test_a_run_that_is_never_driven_leaves_nothing_on_its_stream(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])
    stream = MemoryStream()

    async def open_only() -> None:
        async with agent.run("hello", stream=stream):
            pass
        gc.collect()
        assert not stream._interrupters
        await agent.ask("hello", stream=stream)
        assert not stream._interrupters

    asyncio.run(open_only())
    assert len(entries(ledger)) == 5


def test_an_event_of_the_applications_own_is_recorded(ledger: Ledger, call: Call) -> None:
    class RefundIssued(BaseEvent):
        amount: int

    async def refund(amount: int, ctx: Context) -> str:
        """Refund."""
        await ctx.send(RefundIssued(amount=amount))
        return "refunded"

    run_one(ledger, scripted(call("refund", amount=5), "ok"), [refund])
    (entry,) = entries(ledger, "ag2.refund_issued")
    assert entry.payload["native"]["data"]["amount"] == 5


def test_what_a_tool_records_itself_belongs_to_the_run_and_its_call(ledger: Ledger, call: Call) -> None:
    async def book(room: str) -> str:
        """Book a room; the sync and the async way to record."""
        ledger.record("integration.call", {"service": "hotel"})
        await ledger.arecord("integration.response", {"service": "hotel", "status": 200})
        return "booked"

    run_one(ledger, scripted(call("book", room="7"), "ok"), [book])
    (tool_call,) = entries(ledger, "execution.tool_call")
    own = entries(ledger, "integration.*")
    assert len(own) == 2
    assert {(entry.correlation_id, entry.causation_id) for entry in own} == {("run-1", tool_call.event_id)}


def test_an_agent_asked_inside_a_run_of_the_application_is_its_child(ledger: Ledger) -> None:
    recorder = AG2Recorder(ledger)
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])

    async def work() -> None:
        async with ledger.run(correlation_id="case-7", name="case"):
            await agent.ask("hello")

    asyncio.run(work())
    outer = entries(ledger, correlation_id="case-7")
    child = next(entry for entry in ledger.read() if entry.correlation_id != "case-7")
    assert child.event_type == "execution.run_started"
    assert child.causation_id == outer[0].event_id
    assert child.payload["parent_run_id"] == "case-7"


def test_a_cause_can_be_given(ledger: Ledger) -> None:
    task = ledger.record("system.task_started", {"task_id": "t1"}, correlation_id="case-7")
    recorder = AG2Recorder(ledger, correlation_id="case-7/triage", cause=task)
    agent = Agent("a", config=scripted("hi"), middleware=[recorder.middleware])
    asyncio.run(agent.ask("hello"))
    assert entries(ledger, correlation_id="case-7/triage")[0].causation_id == task.event_id


def test_messages_that_are_enqueued_while_the_agent_works_are_recorded(ledger: Ledger, call: Call) -> None:
    async def remind(ctx: Context) -> str:
        """Put a message into the inbox."""
        ctx.stream.enqueue(TextInput("one more thing"))
        return "ok"

    run_one(ledger, scripted(call("remind"), "noted"), [remind])
    users = [
        entry.payload for entry in entries(ledger, "execution.message") if entry.payload["role"] == "user"
    ]
    assert [user["parts"][0]["content"] for user in users] == ["hello", "one more thing"]


def test_an_interrupter_that_changes_an_event_is_still_obeyed(ledger: Ledger) -> None:
    stream = MemoryStream()

    async def shout(event: BaseEvent) -> BaseEvent:
        if isinstance(event, ModelRequest):
            return ModelRequest([TextInput("HELLO")])
        return event

    stream.subscribe(shout, interrupt=True)
    run_one(ledger, scripted("hi"), stream=stream)
    user = entries(ledger, "execution.message")[0].payload
    assert user["parts"] == [{"type": "text", "content": "HELLO"}]

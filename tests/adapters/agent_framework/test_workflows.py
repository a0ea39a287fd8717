"""Workflows of Microsoft Agent Framework: their steps, questions, failures, and the agents in them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.agent_framework import AgentFrameworkRecorder, install
from chatsnapshot.testing.runtimes.agent_framework import AgentFrameworkBench, scripted

af = pytest.importorskip("agent_framework")


class Asker(af.Executor):  # type: ignore[misc]
    """Asks a person, and hands the answer on."""

    async def ask(self, text: str, ctx: Any) -> None:
        await ctx.request_info({"question": text}, response_type=str)

    async def answered(self, asked: dict, answer: str, ctx: Any) -> None:  # type: ignore[type-arg]
        await ctx.send_message(answer)


class Finisher(af.Executor):  # type: ignore[misc]
    async def finish(self, text: str, ctx: Any) -> None:
        if text == "fail":
            raise ValueError("no such city")
        await ctx.yield_output(f"it is {text}")


Asker.ask.__annotations__ = {"text": str, "ctx": af.WorkflowContext[str]}
Asker.answered.__annotations__ = {"asked": dict, "answer": str, "ctx": af.WorkflowContext[str]}
Finisher.finish.__annotations__ = {"text": str, "ctx": af.WorkflowContext[str, str]}
Asker.ask = af.handler(Asker.ask)
Asker.answered = af.response_handler(Asker.answered)
Finisher.finish = af.handler(Finisher.finish)


def workflow(*executors: Any, **options: Any) -> Any:
    builder = af.WorkflowBuilder(name="case", start_executor=executors[0], **options)
    for one, other in itertools.pairwise(executors):
        builder = builder.add_edge(one, other)
    return builder.build()


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


async def events_of(flow: Any, streaming: bool, *args: Any, **options: Any) -> list[Any]:
    if streaming:
        return [event async for event in flow.run(*args, stream=True, **options)]
    return list(await flow.run(*args, **options))


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_workflow_that_asks_is_paused_and_resumed_with_the_answer(streaming: bool) -> None:
    async def run(ledger: Any) -> Any:
        flow = AgentFrameworkRecorder(ledger).attach(workflow(Asker(id="asker"), Finisher(id="end")))
        events = await events_of(flow, streaming, "sure?")
        (request,) = [event for event in events if event.type == "request_info"]
        events = await events_of(flow, streaming, responses={request.request_id: "yes"})
        return [event.data for event in events if event.type == "output"]

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        assert asyncio.run(run(ledger)) == ["it is yes"]
        assert len({entry.correlation_id for entry in ledger.read()}) == 1
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        (resumed,) = of(ledger, "execution.run_resumed")
        (output,), (end,) = of(ledger, "execution.output"), of(ledger, "execution.run_completed")
        asker = of(ledger, "system.task_started")[0]
        assert question.payload["question"] == {"question": "sure?"}
        assert question.causation_id == asker.event_id
        assert answer.causation_id == question.event_id
        assert answer.payload["answer"] == "yes"
        assert resumed.causation_id == answer.event_id
        assert output.payload["output"] == end.payload["output"] == "it is yes"
        ends = [kind for kind in kinds(ledger) if kind.startswith("run_")]
        assert ends == ["run_started", "run_paused", "run_resumed", "run_completed"]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_executor_that_fails_fails_its_task_and_the_run(streaming: bool) -> None:
    async def run(ledger: Any) -> None:
        flow = AgentFrameworkRecorder(ledger).attach(workflow(Finisher(id="end")))
        await events_of(flow, streaming, "fail")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        with pytest.raises(ValueError, match="no such city"):
            asyncio.run(run(ledger))
        (task,), (failed,) = of(ledger, "system.task_failed"), of(ledger, "execution.run_failed")
        assert task.payload["error"]["type"] == "ValueError"  # the framework hides the message by itself
        assert failed.payload["error"]["message"] == "no such city"


def test_agents_of_a_workflow_are_child_runs_of_it() -> None:
    async def run(ledger: Any) -> None:
        recorder = AgentFrameworkRecorder(ledger)
        writer = af.Agent(scripted([["a draft"]]), name="writer", middleware=recorder.middleware)
        critic = af.Agent(scripted([["fine"]]), name="critic", middleware=recorder.middleware)
        await recorder.attach(workflow(writer, critic)).run("Write.")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        flow, writer, critic = of(ledger, "execution.run_started")
        assert [one.payload["name"] for one in (flow, writer, critic)] == ["case", "writer", "critic"]
        for child in (writer, critic):
            assert child.payload["parent_run_id"] == flow.payload["run_id"]
            assert child.correlation_id != flow.correlation_id
            cause = ledger.get(child.causation_id)
            assert cause.correlation_id == flow.correlation_id
        assert kinds(ledger).count("run_completed") == 3
        assert len(of(ledger, "execution.model_call")) == 2


def test_a_workflow_whose_stream_is_left_is_cancelled() -> None:
    async def run(ledger: Any) -> None:
        flow = AgentFrameworkRecorder(ledger).attach(workflow(Finisher(id="end")))
        stream = flow.run("fine", stream=True)
        await stream.__anext__()
        await stream.close()

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert kinds(ledger) == ["run_started", "run_cancelled"]


def test_attached_twice_and_installed_besides_a_workflow_is_recorded_once() -> None:
    async def run(ledger: Any, recorder: AgentFrameworkRecorder) -> None:
        flow = recorder.attach(recorder.attach(workflow(Finisher(id="end"))))
        await flow.run("fine")

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgentFrameworkRecorder(ledger)
        undo = install(recorder)
        try:
            asyncio.run(run(ledger, recorder))
        finally:
            undo()
        assert kinds(ledger).count("run_started") == 1
        assert kinds(ledger).count("output") == 1


def test_installed_it_tells_of_a_handoff_once_though_the_tool_never_runs() -> None:
    """The tool of a handoff is answered by the orchestration before a middleware at the end of the chain sees it."""
    bench = AgentFrameworkBench()
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        undo = install(AgentFrameworkRecorder(ledger))
        try:
            outcome = bench.play("handoff", None)
        finally:
            undo()
        assert outcome == bench.play("handoff", None)
        (handoff,) = of(ledger, "execution.handoff")
        assert (handoff.payload["from"], handoff.payload["to"]) == ("alpha", "beta")
        beta = next(one for one in of(ledger, "execution.run_started") if one.payload["name"] == "beta")
        assert beta.causation_id == handoff.event_id
        (call,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert call.payload["name"] == "handoff_to_beta"
        assert result.causation_id == call.event_id


def test_a_workflow_goes_on_from_a_checkpoint_in_the_correlation_that_is_given() -> None:
    async def run(ledger: Any) -> None:
        storage = af.InMemoryCheckpointStorage()
        first = workflow(Asker(id="asker"), Finisher(id="end"), checkpoint_storage=storage)
        AgentFrameworkRecorder(ledger, correlation_id="case-7").attach(first)
        events = await events_of(first, False, "sure?")
        (request,) = [event for event in events if event.type == "request_info"]
        checkpoint = (await storage.list_checkpoints(workflow_name="case"))[-1]
        # another process has nothing but the storage and the ledger
        again = workflow(Asker(id="asker"), Finisher(id="end"), checkpoint_storage=storage)
        AgentFrameworkRecorder(ledger, correlation_id="case-7").attach(again)
        options = {"checkpoint_id": checkpoint.checkpoint_id, "responses": {request.request_id: "yes"}}
        await events_of(again, False, **options)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(ledger))
        assert {entry.correlation_id for entry in ledger.read()} == {"case-7"}
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        (resumed,) = of(ledger, "execution.run_resumed")
        assert answer.causation_id == question.event_id
        assert resumed.causation_id == answer.event_id
        assert resumed.payload["checkpoint_id"]


@pytest.mark.filterwarnings("ignore")  # workflows of functions are announced as experimental
@pytest.mark.parametrize("how", ["attached", "installed"])
def test_a_workflow_made_of_a_function_is_recorded_with_its_steps_and_questions(how: str) -> None:
    @af.step
    async def shout(text: str) -> str:
        return text.upper()

    async def case(text: str, ctx: Any) -> str:
        loud = await shout(text)
        answer = await ctx.request_info({"question": loud}, str)
        return f"it is {answer}"

    case.__annotations__ = {"text": str, "ctx": af.RunContext, "return": str}

    async def run(recorder: AgentFrameworkRecorder) -> Any:
        flow = af.workflow(case).build()
        if how == "attached":
            recorder.attach(flow)
        events = await events_of(flow, False, "sure?")
        (request,) = [event for event in events if event.type == "request_info"]
        events = await events_of(flow, True, responses={request.request_id: "yes"})
        return [event.data for event in events if event.type == "output"]

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AgentFrameworkRecorder(ledger)
        undo = install(recorder) if how == "installed" else (lambda: None)
        try:
            assert asyncio.run(run(recorder)) == ["it is yes"]
        finally:
            undo()
        assert len({entry.correlation_id for entry in ledger.read()}) == 1
        ends = [kind for kind in kinds(ledger) if kind.startswith("run_")]
        assert ends == ["run_started", "run_paused", "run_resumed", "run_completed"]
        (answer,) = of(ledger, "execution.human_input_received")
        (question,) = of(ledger, "execution.human_input_requested")
        assert answer.causation_id == question.event_id
        started = [one.payload["name"] for one in of(ledger, "system.task_started")]
        assert "shout" in started


@pytest.mark.parametrize("first", ["one", "two"])
def test_executors_beside_each_other_have_one_cause_whichever_begins_first(first: str) -> None:
    other = "two" if first == "one" else "one"
    ended = asyncio.Event()

    class Split(af.Executor):  # type: ignore[misc]
        async def split(self, text: str, ctx: Any) -> None:
            await ctx.send_message(text)

    class Beside(af.Executor):  # type: ignore[misc]
        async def work(self, text: str, ctx: Any) -> None:
            await (asyncio.sleep(0) if self.id == first else ended.wait())
            ended.set()
            await ctx.yield_output(f"{text} {self.id}")

    Split.split.__annotations__ = {"text": str, "ctx": af.WorkflowContext[str]}
    Beside.work.__annotations__ = {"text": str, "ctx": af.WorkflowContext[str, str]}
    Split.split, Beside.work = af.handler(Split.split), af.handler(Beside.work)
    start = Split(id="start")
    builder = af.WorkflowBuilder(name="case", start_executor=start)
    both = [Beside(id=first), Beside(id=other)]
    flow = builder.add_fan_out_edges(start, both).build()

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(events_of(AgentFrameworkRecorder(ledger).attach(flow), False, "go"))
        tasks = {entry.payload["name"]: entry for entry in of(ledger, "system.task_started")}
        cause = ledger.get(tasks["one"].causation_id)
        assert cause.event_id == tasks["two"].causation_id
        assert (cause.event_type, cause.payload["name"]) == ("execution.state_change", "superstep")
        assert {entry.payload["output"] for entry in of(ledger, "execution.output")} == {"go one", "go two"}

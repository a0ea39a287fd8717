"""Tasks of served A2A agents as runs: states, artifacts, failures, cancellation, agents that call agents."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.a2a import A2ARecorder
from chatsnapshot.testing.runtimes.a2a import agent_card, application, ask, scripted_executor

pytest.importorskip("a2a")
pytest.importorskip("httpx")

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from a2a.types import a2a_pb2 as types

Act = Callable[[Any, TaskUpdater, Any], Any]


class Scripted(AgentExecutor):
    """Does what it is told; the task is announced first."""

    def __init__(self, act: Act) -> None:
        self.act = act

    async def execute(self, context: Any, event_queue: Any) -> None:
        if context.current_task is None:
            status = types.TaskStatus(state=types.TaskState.TASK_STATE_SUBMITTED)
            task = types.Task(id=context.task_id, context_id=context.context_id, status=status)
            await event_queue.enqueue_event(task)
        await self.act(context, TaskUpdater(event_queue, context.task_id, context.context_id), event_queue)

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def played(executor: Any, talk: Callable[[Any], Any], attach: A2ARecorder | None = None) -> Any:
    """Serve an executor in this process, and let a client talk to it."""

    async def run() -> Any:
        app, handler = application(executor)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as http:
            client = ClientFactory(ClientConfig(httpx_client=http)).create(agent_card())
            if attach is not None:
                attach.attach(client)
            try:
                return await talk(client)
            finally:
                await handler.aclose()

    return asyncio.run(run())


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


def test_pieces_of_an_artifact_are_recorded_once_and_whole() -> None:
    async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
        for number, piece in enumerate(("one ", "two ", "three")):
            await updater.add_artifact(
                [types.Part(text=piece)],
                artifact_id="a-1",
                name="report",
                append=number > 0,
                last_chunk=number == 2,
            )
        await updater.add_artifact([types.Part(raw=b"\x00\x01", media_type="image/png")], name="picture")
        await updater.add_artifact([types.Part(text="note")], name="note")
        await updater.complete()

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        played(recorder.executor(Scripted(act), name="desk"), lambda client: ask(client, "report"))
        report, picture, _ = of(ledger, "execution.artifact")
        assert report.payload["artifact_id"] == "a-1"
        assert [part["content"] for part in report.payload["content"]] == ["one ", "two ", "three"]
        assert picture.payload["content"][0] == {"type": "blob", "content": "AAE=", "mime_type": "image/png"}
        (end,) = of(ledger, "execution.run_completed")
        assert end.payload["output"] == ["report", "picture", "note"]
        assert recorder.safe.failures == 0


@pytest.mark.parametrize(
    ("state", "end"),
    [("failed", "run_failed"), ("reject", "run_failed"), ("cancel", "run_cancelled")],
)
def test_the_state_in_which_a_task_ends_is_the_end_of_the_run(state: str, end: str) -> None:
    async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
        await getattr(updater, state)(updater.new_agent_message([types.Part(text="no such city")]))

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        played(A2ARecorder(ledger).executor(Scripted(act)), lambda client: ask(client, "go"))
        assert kinds(ledger)[-1] == end
        assert "no such city" in str(list(ledger.read())[-1].payload)


def test_a_message_without_a_task_completes_the_run() -> None:
    class Answers(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            parts = [types.Part(text="Hi there")]
            message = types.Message(message_id="m-2", role=types.Role.ROLE_AGENT, parts=parts)
            await event_queue.enqueue_event(message)

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        played(A2ARecorder(ledger).executor(Answers()), lambda client: ask(client, "Hello"))
        assert kinds(ledger) == ["run_started", "message", "message", "run_completed"]
        first, *_, last = ledger.read()
        assert first.payload["name"] == "Answers"
        assert last.payload["output"] == "Hi there"


def test_an_agent_that_calls_another_is_its_parent() -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        beta, beta_handler = application(recorder.executor(scripted_executor("plain"), name="beta"))

        async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=beta)) as http:
                card = agent_card("http://beta/", "beta")
                client = recorder.attach(ClientFactory(ClientConfig(httpx_client=http)).create(card))
                answer = (await ask(client, "child?"))[-1].text
            await beta_handler.aclose()
            await updater.complete(updater.new_agent_message([types.Part(text=f"beta said {answer}")]))

        played(recorder.executor(Scripted(act), name="alpha"), lambda client: ask(client, "Hello"))
        alpha, beta_started = of(ledger, "execution.run_started")
        (call,), (answer,) = of(ledger, "integration.call"), of(ledger, "integration.response")
        assert (alpha.payload["agent"], beta_started.payload["agent"]) == ("alpha", "beta")
        assert call.correlation_id == alpha.correlation_id != beta_started.correlation_id
        assert call.payload["agent"] == "alpha"
        assert beta_started.causation_id == call.event_id
        assert beta_started.payload["parent_run_id"] == alpha.payload["run_id"]
        assert answer.causation_id == call.event_id
        assert (answer.payload["service"], answer.payload["status"]) == ("beta", "completed")
        assert ledger.verify().ok


def test_what_an_executor_records_and_the_agents_in_it_belong_to_the_task() -> None:
    custom = importlib.import_module("chatsnapshot.adapters.custom")
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        inner = custom.RuntimeRecorder(ledger, runtime="mine")

        async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
            ledger.record("execution.state_change", {"name": "thinking", "to": "hard"})
            run = inner.begin("helper", key="1")
            inner.record(run.started(), run.completed("done"))
            inner.end(run)
            await updater.complete()

        played(A2ARecorder(ledger).executor(Scripted(act), name="desk"), lambda client: ask(client, "go"))
        task, helper = of(ledger, "execution.run_started")
        noted = next(one for one in of(ledger, "execution.state_change") if one.payload["name"] == "thinking")
        assert noted.correlation_id == task.correlation_id != helper.correlation_id
        assert helper.payload["parent_run_id"] == task.payload["run_id"]
        assert helper.causation_id is not None


class Queue:
    async def enqueue_event(self, event: Any) -> None:
        """Nobody reads it."""


def asked_to_go() -> Any:
    """A request as the framework gives it to an executor."""
    message = types.Message(message_id="m-1", role=types.Role.ROLE_USER, parts=[types.Part(text="go")])
    facts = {"task_id": "t-1", "context_id": "c-1", "message": message, "metadata": {}}
    return SimpleNamespace(**facts, current_task=None)


def test_a_task_that_waits_for_a_permission_given_elsewhere_goes_on_as_a_resumed_run() -> None:
    async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
        await updater.requires_auth(updater.new_agent_message([types.Part(text="Sign in, please.")]))
        await updater.start_work()
        await updater.complete()
        await queue.enqueue_event(types.Task(id="t-1", context_id="c-1"))  # too late: it has ended

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        asyncio.run(recorder.executor(Scripted(act)).execute(asked_to_go(), Queue()))
        told = [kind for kind in kinds(ledger) if kind.startswith("run_")]
        assert told == ["run_started", "run_paused", "run_resumed", "run_completed"]
        assert kinds(ledger)[-1] == "run_completed"
        (question,), (resumed,) = (
            of(ledger, "execution.human_input_requested"),
            of(ledger, "execution.run_resumed"),
        )
        assert question.payload["question"] == "Sign in, please."
        assert resumed.causation_id == question.event_id
        assert resumed.correlation_id == "c-1"
        assert recorder.safe.failures == 0


@pytest.mark.parametrize("when", ["while it works", "while its start is recorded"])
def test_a_task_whose_work_was_stopped_and_then_is_cancelled_has_one_end(when: str) -> None:
    async def run(recorder: A2ARecorder) -> None:
        reached = asyncio.Event()
        arecord = recorder.safe.arecord

        async def act(context: Any, updater: TaskUpdater, queue: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        async def slowly(*events: Any) -> None:
            await arecord(*events)
            reached.set()
            await asyncio.Event().wait()

        if when == "while its start is recorded":
            recorder.safe.arecord = slowly  # type: ignore[method-assign]
        executor = recorder.executor(Scripted(act))
        context = asked_to_go()
        work = asyncio.ensure_future(executor.execute(context, Queue()))
        await asyncio.wait_for(reached.wait(), 30)
        recorder.safe.arecord = arecord  # type: ignore[method-assign]
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        context.current_task = types.Task(id="t-1", context_id="c-1")
        await executor.cancel(context, Queue())
        assert recorder.flush(30)

    with chatsnapshot.open("memory:", validation="strict") as ledger:
        asyncio.run(run(A2ARecorder(ledger)))
        assert [kind for kind in kinds(ledger) if kind.startswith("run_")] == ["run_started", "run_cancelled"]


def test_a_clients_request_is_left_as_it_was() -> None:
    request = types.SendMessageRequest(
        message=types.Message(message_id="m-1", role=types.Role.ROLE_USER, parts=[types.Part(text="Hello")])
    )

    async def talk(client: Any) -> None:
        async for _ in client.send_message(request):
            pass

    with chatsnapshot.open("memory:") as ledger:
        recorder = A2ARecorder(ledger)
        played(recorder.executor(scripted_executor("plain")), talk, recorder)
        assert not request.message.metadata.fields
        (started,) = of(ledger, "execution.run_started")
        assert started.causation_id == of(ledger, "integration.call")[0].event_id


def test_a_task_recorded_again_is_the_same() -> None:
    """Ids come from the task's own: a second recording of the same events adds nothing."""
    recorded: list[list[str]] = []
    with chatsnapshot.open("memory:") as ledger:
        first = A2ARecorder(ledger)
        given: list[Any] = []
        arecord = first.safe.arecord

        async def remember(*events: Any) -> None:
            given.extend(events)
            await arecord(*events)

        first.safe.arecord = remember  # type: ignore[method-assign]
        played(first.executor(scripted_executor("plain")), lambda client: ask(client, "Hello"))
        head = ledger.head
        ledger.record_many(given)
        assert ledger.head == head
        recorded.append(kinds(ledger))
    assert recorded[0][-1] == "run_completed"


def test_something_that_is_no_executor_or_no_client_is_refused_in_one_sentence() -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder = A2ARecorder(ledger)
        with pytest.raises(TypeError, match="an AgentExecutor of a2a, not str"):
            recorder.executor("desk")
        with pytest.raises(TypeError, match="a Client of a2a, not int"):
            recorder.attach(7)

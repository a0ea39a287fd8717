"""A real A2A server on the loopback interface and a real client, each recorded, are one history."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.a2a import A2ARecorder
from chatsnapshot.testing.runtimes.a2a import agent_card, application, ask, scripted_executor

pytest.importorskip("a2a")
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

import httpx
import uvicorn
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as types


@contextmanager
def served(executor: Any) -> Iterator[str]:
    """The executor behind HTTP on 127.0.0.1; gives its address."""
    app, _ = application(executor)
    held = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{held.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)
        held.close()


def talk(url: str, recorder: A2ARecorder | None, *texts: str, streaming: bool = True) -> list[str]:
    """Say the texts one after the other, in one conversation."""

    async def run() -> list[str]:
        said: list[str] = []
        async with httpx.AsyncClient() as http:
            factory = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming))
            client = factory.create(agent_card(url))
            if recorder is not None:
                recorder.attach(recorder.attach(client))
            ids: dict[str, str] = {}
            for text in texts:
                last = (await ask(client, text, **ids))[-1]
                ids = {"task_id": last.task_id, "context_id": last.context_id}
                said.append(last.text)
        return said

    return asyncio.run(run())


def of(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
def test_a_task_of_the_server_is_a_child_run_of_the_clients_call(tmp_path: Path, streaming: bool) -> None:
    with chatsnapshot.open(str(tmp_path / "runs.db"), validation="strict") as ledger:
        server, client = A2ARecorder(ledger), A2ARecorder(ledger, correlation_id="caller")
        with served(server.executor(scripted_executor("plain"), name="alpha")) as url:
            assert talk(url, client, "Hello", streaming=streaming) == ["Hi there"]
        (call,), (response,) = of(ledger, "integration.call"), of(ledger, "integration.response")
        (started,) = of(ledger, "execution.run_started")
        assert call.correlation_id == response.correlation_id == "caller"
        assert call.payload["service"] == "alpha"
        assert started.causation_id == call.event_id
        assert started.correlation_id == started.payload["context_id"]
        assert started.payload["parent_run_id"] == "caller"
        assert response.causation_id == call.event_id
        assert response.payload["status"] == "completed"
        assert response.payload["answers"] >= (2 if streaming else 1)
        assert (server.safe.failures, client.safe.failures) == (0, 0)


def test_an_answer_resumes_the_task_and_links_the_call_that_brought_it(tmp_path: Path) -> None:
    with chatsnapshot.open(str(tmp_path / "runs.db"), validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        with served(recorder.executor(scripted_executor("interruption"), name="alpha")) as url:
            assert talk(url, A2ARecorder(ledger), "Hello", "yes") == ["May I?", "approved"]
        first, second = of(ledger, "integration.call")
        (question,), (answer,) = (
            of(ledger, "execution.human_input_requested"),
            of(ledger, "execution.human_input_received"),
        )
        (paused,), (resumed,) = of(ledger, "execution.run_paused"), of(ledger, "execution.run_resumed")
        assert first.correlation_id == second.correlation_id  # one conversation at the client, too
        assert answer.causation_id == question.event_id
        assert answer.event.attributes["links"] == [second.event_id]
        assert resumed.causation_id == answer.event_id
        assert resumed.correlation_id == paused.correlation_id
        assert answer.payload["answer"] == "yes"
        assert [one.payload["status"] for one in of(ledger, "integration.response")] == [
            "input-required",
            "completed",
        ]


def test_a_resumed_task_in_a_new_process_finds_its_question_in_the_ledger(tmp_path: Path) -> None:
    """Another recorder, which remembers nothing, goes on where the first left off."""
    with chatsnapshot.open(str(tmp_path / "runs.db")) as ledger:
        inner = scripted_executor("interruption")
        recorders = iter([A2ARecorder(ledger), A2ARecorder(ledger)])

        class Changing(type(inner)):  # type: ignore[misc]
            async def execute(self, context: Any, queue: Any) -> None:
                await next(recorders).executor(inner, name="alpha").execute(context, queue)

        with served(Changing()) as url:
            assert talk(url, None, "Hello", "yes") == ["May I?", "approved"]
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        assert answer.causation_id == question.event_id


def test_an_agent_that_fails_fails_its_run_and_the_clients_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with chatsnapshot.open(str(tmp_path / "runs.db"), validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        with (
            served(recorder.executor(scripted_executor("model_error"))) as url,
            pytest.raises(Exception, match=r"(?i)error|down"),
        ):
            talk(url, A2ARecorder(ledger), "Hello")
        (failed,), (response,) = of(ledger, "execution.run_failed"), of(ledger, "integration.response")
        assert failed.payload["error"]["message"] == "model is down"
        assert response.payload["error"]["type"]


def doubting(context: Any) -> bool:
    raise KeyError("no such header")


@pytest.mark.parametrize("accept", [False, lambda context: False, doubting])
def test_a_server_that_believes_nobody_starts_a_history_of_its_own(tmp_path: Path, accept: Any) -> None:
    with chatsnapshot.open(str(tmp_path / "runs.db")) as ledger:
        recorder = A2ARecorder(ledger, accept=accept)
        with served(recorder.executor(scripted_executor("plain"))) as url:
            talk(url, A2ARecorder(ledger), "Hello")
        (started,) = of(ledger, "execution.run_started")
        assert started.causation_id is None
        assert "parent_run_id" not in started.payload


def test_without_carry_the_message_is_sent_as_it_is(tmp_path: Path) -> None:
    with chatsnapshot.open(str(tmp_path / "runs.db")) as ledger:
        recorder = A2ARecorder(ledger)
        with served(recorder.executor(scripted_executor("plain"))) as url:
            talk(url, A2ARecorder(ledger, carry=False), "Hello")
        (started,) = of(ledger, "execution.run_started")
        assert started.causation_id is None


def test_a_client_of_the_older_protocol_is_served_and_recorded(tmp_path: Path) -> None:
    message = {
        "kind": "message",
        "messageId": "m-1",
        "role": "user",
        "parts": [{"kind": "text", "text": "Hello"}],
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    with chatsnapshot.open(str(tmp_path / "runs.db"), validation="strict") as ledger:
        with served(A2ARecorder(ledger).executor(scripted_executor("plain"))) as url:
            answer = httpx.post(url, json=call, headers={"A2A-Version": "0.3"}).json()
        assert answer["result"]["status"]["state"] == "completed"
        said = [entry.payload["parts"][0]["content"] for entry in of(ledger, "execution.message")]
        assert said == ["Hello", "Hi there"]


def test_a_task_that_is_cancelled_while_it_works_has_one_end(tmp_path: Path) -> None:
    inner = scripted_executor("plain")

    class Waits(type(inner)):  # type: ignore[misc]
        async def execute(self, context: Any, queue: Any) -> None:
            status = types.TaskStatus(state=types.TaskState.TASK_STATE_WORKING)
            await queue.enqueue_event(
                types.Task(id=context.task_id, context_id=context.context_id, status=status)
            )
            await asyncio.Event().wait()

    async def cancel(url: str, recorder: A2ARecorder) -> Any:
        parts = [types.Part(text="go")]
        message = types.Message(message_id="m-1", role=types.Role.ROLE_USER, parts=parts)
        async with httpx.AsyncClient() as http:
            client = recorder.attach(ClientFactory(ClientConfig(httpx_client=http)).create(agent_card(url)))
            answers = client.send_message(types.SendMessageRequest(message=message))
            first = await answers.__anext__()
            cancelled = await client.cancel_task(types.CancelTaskRequest(id=first.task.id))
            assert [answer async for answer in answers]
            return cancelled.status.state

    with chatsnapshot.open(str(tmp_path / "runs.db"), validation="strict") as ledger:
        recorder = A2ARecorder(ledger)
        with served(recorder.executor(Waits(), name="alpha")) as url:
            state = asyncio.run(cancel(url, A2ARecorder(ledger)))
        assert state == types.TaskState.TASK_STATE_CANCELED
        assert recorder.flush(10)
        ends = [one.event_type for one in ledger.read() if ".run_" in one.event_type]
        assert ends == ["execution.run_started", "execution.run_cancelled"]
        calls = [one.payload["operation"] for one in of(ledger, "integration.call")]
        assert calls == ["send_message", "cancel_task"]


@pytest.mark.parametrize("trouble", ["raises", "closed"])
def test_an_agent_answers_the_same_whatever_becomes_of_the_ledger(trouble: str) -> None:
    ledger = chatsnapshot.open("memory:")
    recorder = A2ARecorder(ledger)
    if trouble == "closed":
        ledger.close()
    else:
        recorder.safe.ledger = object()  # type: ignore[assignment]  # nothing can be recorded with it
    with served(recorder.executor(scripted_executor("plain"))) as url:
        assert talk(url, recorder, "Hello") == ["Hi there"]

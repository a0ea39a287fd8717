"""The Agent2Agent protocol for the contract of adapters: a real agent, served, and a real client, in one process."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.a2a import A2ARecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome

__all__ = ["A2ABench", "agent_card", "application", "ask", "scripted_executor"]

_OPAQUE = "A2A agents are opaque to each other: they tell of messages, states and artifacts, not of tools"


class A2ABench(AdapterBench):
    """An agent behind a client; a task is a run."""

    runtime = "a2a"
    package = "a2a-sdk"
    title = "A2A"
    lacks: Mapping[str, str] = {
        "parallel_tools": _OPAQUE,
        "tool_error": _OPAQUE,
        "streaming": f"the story is one of tools; {_OPAQUE}",
        "sub_agent": f"agents call agents over the network, not in a tool; {_OPAQUE}",
        "handoff": "an agent that calls another waits for its answer and keeps the word",
        "model_calls": _OPAQUE,
    }

    def recorder(self, ledger: Any) -> A2ARecorder:
        """A recorder for the agent."""
        return A2ARecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One story, on an event loop of its own."""
        return Outcome.of(lambda: asyncio.run(self._play(scenario, self.attached(recorder))))

    async def _play(self, scenario: str, recorders: list[Any]) -> Any:
        executor = scripted_executor(scenario)
        for recorder in recorders:
            executor = recorder.executor(executor, name="alpha")
        httpx = importlib.import_module("httpx")
        clients = importlib.import_module("a2a.client")
        app, handler = application(executor)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as http:
            client = clients.ClientFactory(clients.ClientConfig(httpx_client=http)).create(agent_card())
            try:
                first = await ask(client, "Hello")
                if scenario != "interruption":
                    return first[-1].text
                return (await ask(client, "yes", task_id=first[-1].task_id, context_id=first[-1].context_id))[
                    -1
                ].text
            finally:
                await handler.aclose()


class _Told:
    """One thing that an agent told the client."""

    def __init__(self, answer: Any) -> None:
        types = importlib.import_module("a2a.types.a2a_pb2")
        body = getattr(answer, answer.WhichOneof("payload"))
        self.task_id = body.id if isinstance(body, types.Task) else body.task_id
        self.context_id = body.context_id
        said = (
            body
            if isinstance(body, types.Message)
            else getattr(getattr(body, "status", None), "message", None)
        )
        self.text = "".join(part.text for part in said.parts) if said is not None else ""


async def ask(client: Any, text: str, **ids: str) -> list[_Told]:
    """Send a message and gather what comes back."""
    types = importlib.import_module("a2a.types.a2a_pb2")
    message = types.Message(
        message_id=f"m-{text}", role=types.Role.ROLE_USER, parts=[types.Part(text=text)], **ids
    )
    return [_Told(answer) async for answer in client.send_message(types.SendMessageRequest(message=message))]


def agent_card(url: str = "http://alpha/", name: str = "alpha") -> Any:
    """The card of an agent that streams."""
    types = importlib.import_module("a2a.types.a2a_pb2")
    interface = types.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
    return types.AgentCard(
        name=name,
        description="an agent of the stories",
        version="1",
        capabilities=types.AgentCapabilities(streaming=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
        supported_interfaces=[interface],
    )


def application(executor: Any) -> tuple[Any, Any]:
    """An ASGI application that serves an executor, and its request handler."""
    handlers = importlib.import_module("a2a.server.request_handlers.default_request_handler_v2")
    tasks = importlib.import_module("a2a.server.tasks")
    routes = importlib.import_module("a2a.server.routes.jsonrpc_routes")
    starlette = importlib.import_module("starlette.applications")
    handler = handlers.DefaultRequestHandlerV2(executor, tasks.InMemoryTaskStore(), agent_card())
    served = routes.create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)
    return starlette.Starlette(routes=served), handler


def scripted_executor(scenario: str) -> Any:
    """The agent "alpha" of a story."""
    execution = importlib.import_module("a2a.server.agent_execution")
    tasks = importlib.import_module("a2a.server.tasks")
    types = importlib.import_module("a2a.types.a2a_pb2")

    async def execute(self: Any, context: Any, queue: Any) -> None:
        updater = tasks.TaskUpdater(queue, context.task_id, context.context_id)

        def said(text: str) -> Any:
            return updater.new_agent_message([types.Part(text=text)])

        goes_on = context.current_task is not None
        if not goes_on:
            status = types.TaskStatus(state=types.TaskState.TASK_STATE_SUBMITTED)
            task = types.Task(id=context.task_id, context_id=context.context_id, status=status)
            await queue.enqueue_event(task)
        await updater.start_work()
        if scenario == "model_error":
            raise RuntimeError("model is down")
        if scenario == "interruption" and not goes_on:
            await updater.requires_input(said("May I?"))
            return
        await updater.complete(said("approved" if goes_on else "Hi there"))

    async def cancel(self: Any, context: Any, queue: Any) -> None:
        await tasks.TaskUpdater(queue, context.task_id, context.context_id).cancel()

    return type("AlphaExecutor", (execution.AgentExecutor,), {"execute": execute, "cancel": cancel})()

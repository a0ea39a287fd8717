"""Google ADK 2 as the contract of adapters drives it, with a scripted model of ADK's own kind."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from typing import Any

from chatsnapshot.adapters.google_adk import GoogleADKRecorder
from chatsnapshot.testing.adapters import AdapterBench, Outcome, in_tool

__all__ = ["GoogleADKBench", "call", "scripted", "user"]


class GoogleADKBench(AdapterBench):
    """Plays every story with ``Runner.run_async`` and an app that has the recorder's plugin."""

    runtime = "google_adk"
    package = "google-adk"
    title = "Google ADK"
    usage = (5, 2)

    def recorder(self, ledger: Any) -> GoogleADKRecorder:
        """A recorder of this runtime."""
        return GoogleADKRecorder(ledger)

    def play(self, scenario: str, recorder: Any) -> Outcome:
        """One run; ``None`` as the recorder: not recorded at all."""
        plugins = [one.plugin for one in self.attached(recorder)]
        logging.getLogger("google_adk").setLevel(logging.CRITICAL)  # it logs what the stories raise
        return Outcome.of(lambda: asyncio.run(_play(scenario, plugins)))


async def _play(scenario: str, plugins: list[Any]) -> Any:
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.apps.app import App
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService

    agent, asked = _story(scenario)
    app = App(name="contract", root_agent=agent, plugins=plugins)
    sessions = InMemorySessionService()  # type: ignore[no-untyped-call, unused-ignore]
    session = await sessions.create_session(app_name="contract", user_id="ann")
    runner = Runner(app=app, session_service=sessions)
    mode = StreamingMode.SSE if scenario == "streaming" else StreamingMode.NONE

    async def turn(message: Any) -> list[Any]:
        running = runner.run_async(
            user_id="ann",
            session_id=session.id,
            new_message=message,
            run_config=RunConfig(streaming_mode=mode),
        )
        return [event async for event in running]

    events = await turn(user(asked))
    waiting = [one for event in events for one in event.get_function_calls() if event.long_running_tool_ids]
    if waiting:
        events += await turn(answered(waiting[-1]))
    return [(event.author, bool(event.partial), _texts(event)) for event in events]


def _story(scenario: str) -> tuple[Any, str]:
    """The agent of a story and what it is asked."""
    from google.adk.agents import LlmAgent
    from google.adk.tools import AgentTool, FunctionTool

    def agent(name: str, *answers: Any, **options: Any) -> Any:
        return LlmAgent(name=name, description=name, model=scripted(*answers), **options)

    if scenario in ("parallel_tools", "streaming"):
        both = [call("add", "call_1", a=2, b=3), call("add", "call_2", a=4, b=5)]
        return agent("alpha", both, "5 and 9", tools=[_add]), "What is 2+3 and 4+5?"
    if scenario == "sub_agent":
        child = AgentTool(agent=agent("beta", "child says hi"))
        child.name = "ask_child"
        asking = [call("ask_child", "call_1", request="hi")]
        return agent("alpha", asking, "done", tools=[child]), "Ask the child"
    if scenario == "handoff":
        over = [call("transfer_to_agent", "call_1", agent_name="beta")]
        return agent("alpha", over, sub_agents=[agent("beta", "beta here")]), "Let beta answer"
    if scenario == "interruption":
        asking = [call("book", "call_1", city="Bruges")]
        tools = [FunctionTool(_book, require_confirmation=True)]
        return agent("alpha", asking, "approved", tools=tools), "Book it"
    if scenario == "tool_error":
        return agent("alpha", [call("fail", "call_1")], "it failed", tools=[_fail]), "Try"
    if scenario == "model_error":
        return agent("alpha", RuntimeError("model is down")), "Hello"
    return agent("alpha", "Hi there"), "Hello"


def scripted(*answers: Any) -> Any:
    """A model that gives these answers, one a call: a text, a list of parts, or an exception to raise."""
    return _model()(model="scripted", answers=list(answers))


def call(name: str, call_id: str, **arguments: Any) -> Any:
    """A part that calls a tool."""
    from google.genai import types

    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=arguments))


def user(content: str) -> Any:
    """What a user says."""
    from google.genai import types

    return types.Content(role="user", parts=[types.Part(text=content)])


def answered(request: Any, **response: Any) -> Any:
    """What a user answers to a call that asks; approved, unless something else is given."""
    from google.genai import types

    answer = types.FunctionResponse(
        id=request.id, name=request.name, response=response or {"confirmed": True}
    )
    return types.Content(role="user", parts=[types.Part(function_response=answer)])


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):  # type: ignore[misc, unused-ignore]
        answers: list[Any] = []  # noqa: RUF012 - a field of a pydantic model

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            parts = [types.Part(text=answer)] if isinstance(answer, str) else answer
            if stream and isinstance(answer, str):
                for word in answer.split():
                    chunk = types.Content(role="model", parts=[types.Part(text=word)])
                    yield LlmResponse(content=chunk, partial=True)
            usage = types.GenerateContentResponseUsageMetadata(
                prompt_token_count=5, candidates_token_count=2, total_token_count=7
            )
            yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)

    return Scripted


def _texts(event: Any) -> list[str]:
    return [part.text for part in (event.content.parts or ()) if part.text] if event.content else []


def _add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    in_tool()
    return {"sum": a + b}


def _book(city: str) -> dict[str, str]:
    """Book a night."""
    return {"booked": city}


def _fail() -> None:
    """Fail."""
    raise ValueError("no such city")


_add.__name__, _book.__name__, _fail.__name__ = "add", "book", "fail"

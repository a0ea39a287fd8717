"""smolagents in the stories of the contract: agents that ask for tools, with a scripted model."""

from __future__ import annotations

import functools
import io
from types import MappingProxyType
from typing import Any

from chatsnapshot.adapters.smolagents import SmolagentsRecorder
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool

__all__ = ["SmolagentsBench", "agent", "ask_child", "call", "fail", "person", "scripted", "tool"]

_USAGE = (9, 4)


class SmolagentsBench(AdapterBench):
    """Agents of smolagents that ``SmolagentsRecorder`` is attached to."""

    runtime = "smolagents"
    package = "smolagents"
    title = "smolagents"
    usage = _USAGE
    lacks = MappingProxyType(
        {
            "handoff": "an agent calls another one like a tool, and has the word again when that one answers",
            "resume": "a person is asked in a tool, while the run goes on",
        }
    )

    def recorder(self, ledger: Any) -> SmolagentsRecorder:
        """A ``SmolagentsRecorder``."""
        return SmolagentsRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        alpha, asked = self.story(scenario)
        for one in self.attached(recorder):
            one.attach(alpha)
        if scenario == "streaming":
            return Outcome.of(lambda: _told(alpha.run(asked, stream=True)))
        return Outcome.of(lambda: alpha.run(asked))

    def story(self, scenario: str) -> tuple[Any, str]:
        """The agent of a story and what it is asked."""
        return _story(scenario)


def _told(stream: Any) -> list[Any]:
    """What a stream yields, in its order; tools that run at once give their outputs as they are done."""
    items = list(stream)
    outputs = [str(item.output) for item in items if hasattr(item, "output")]
    return [[type(item).__name__ for item in items], sorted(outputs)]


def _story(scenario: str) -> tuple[Any, str]:
    """The agent of a story and what it is asked."""
    if scenario in ("parallel_tools", "streaming"):
        both = [call("add", a=2, b=3), call("add", a=4, b=5)]
        stream: dict[str, Any] = {"stream_outputs": scenario == "streaming"}
        return agent("alpha", both, "5 and 9", tools=[tool(_add)], **stream), "What is 2+3 and 4+5?"
    if scenario == "sub_agent":
        asking = [call("ask_child", question="hi")]
        return agent("alpha", asking, "done", tools=[tool(ask_child)]), "Ask the child"
    if scenario == "interruption":
        return agent(
            "alpha", [call("user_input", question="May it be sent?")], "approved", tools=[person()]
        ), "Ask"
    if scenario == "tool_error":
        return agent("alpha", [call("fail")], "it failed", tools=[tool(fail)]), "Try"
    if scenario == "model_error":
        return agent("alpha", RuntimeError("model is down")), "Hello"
    return agent("alpha", "Hi there"), "Hello"


def agent(name: str, *answers: Any, kind: str = "ToolCallingAgent", **options: Any) -> Any:
    """An agent that says nothing on the terminal, whose model gives these answers (see :func:`scripted`)."""
    import smolagents
    from rich.console import Console

    quiet = smolagents.AgentLogger(level=smolagents.LogLevel.OFF, console=Console(file=io.StringIO()))
    told = {"tools": [], "logger": quiet, "description": f"the agent {name}"}
    return getattr(smolagents, kind)(model=scripted(*answers), name=name, **{**told, **options})


def call(
    name: str, call_id: str | None = None, /, **arguments: Any
) -> tuple[str | None, str, dict[str, Any]]:
    """A call of a tool, as a scripted model asks for it."""
    return call_id, name, arguments


def scripted(*answers: Any) -> Any:
    """A model that gives these answers, one a call.

    A text is given as the final answer, or to a ``CodeAgent`` as it is; ``("text", …)`` is a text to anybody; a list asks
    for tools (:func:`call`); an exception is raised.
    """
    return _model()(list(answers))


def tool(function: Any) -> Any:
    """A function as a tool; a leading underscore is no part of its name."""
    import inspect

    from smolagents import Tool

    kinds = {"int": "integer", "str": "string"}
    inputs = {
        name: {"type": kinds[str(one.annotation)], "description": name}
        for name, one in inspect.signature(function).parameters.items()
    }

    class Made(Tool):  # type: ignore[misc, unused-ignore]
        skip_forward_signature_validation = True
        name = function.__name__.lstrip("_")
        description = function.__doc__ or name
        output_type = "any"

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    Made.inputs = inputs
    return Made()


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    from smolagents import ChatMessage, ChatMessageStreamDelta, MessageRole, Model, TokenUsage
    from smolagents.models import (
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        ChatMessageToolCallStreamDelta,
    )

    class Scripted(Model):  # type: ignore[misc, unused-ignore]
        def __init__(self, answers: list[Any]) -> None:
            super().__init__(model_id="scripted")
            self.answers = answers

        def _next(self, wants_tools: bool) -> tuple[str | None, list[Any]]:
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            if isinstance(answer, tuple):
                return answer[1], []
            if isinstance(answer, str) and not wants_tools:
                return answer, []
            asked = [call("final_answer", answer=answer)] if isinstance(answer, str) else answer
            return None, [
                (call_id or f"call_{number}", name, arguments)
                for number, (call_id, name, arguments) in enumerate(asked, 1)
            ]

        def generate(self, messages: Any, stop_sequences: Any = None, **options: Any) -> Any:
            content, calls = self._next(bool(options.get("tools_to_call_from")))
            return ChatMessage(
                role=MessageRole.ASSISTANT,
                content=content,
                tool_calls=[
                    ChatMessageToolCall(
                        function=ChatMessageToolCallFunction(name=name, arguments=arguments),
                        id=call_id,
                        type="function",
                    )
                    for call_id, name, arguments in calls
                ]
                or None,
                token_usage=TokenUsage(*_USAGE),
            )

        def generate_stream(self, messages: Any, stop_sequences: Any = None, **options: Any) -> Any:
            import json

            content, calls = self._next(bool(options.get("tools_to_call_from")))
            for number, word in enumerate(content.split(" ") if content else ()):
                yield ChatMessageStreamDelta(content=f" {word}" if number else word)
            for number, (call_id, name, arguments) in enumerate(calls):
                function = ChatMessageToolCallFunction(name=name, arguments=json.dumps(arguments))
                delta = ChatMessageToolCallStreamDelta(
                    index=number, id=call_id, type="function", function=function
                )
                yield ChatMessageStreamDelta(tool_calls=[delta])
            yield ChatMessageStreamDelta(token_usage=TokenUsage(*_USAGE))

    return Scripted


@functools.lru_cache(maxsize=1)
def _asks() -> Any:
    from smolagents import UserInputTool

    class Person(UserInputTool):  # type: ignore[misc, unused-ignore]
        def forward(self, question: Any) -> str:
            return "approved"

    return Person


def person() -> Any:
    """A person who approves of everything, in place of the terminal."""
    return _asks()()


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    in_tool()
    return a + b


def ask_child(question: str) -> str:
    """Ask the child."""
    return str(agent("beta", "child says hi").run(question))


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")

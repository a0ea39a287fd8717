"""Agno as the contract of adapters drives it, with a scripted model of its own ``Model`` kind."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from chatsnapshot.adapters.agno import AgnoRecorder
from chatsnapshot.testing.adapters import AdapterBench, Outcome, in_tool

__all__ = ["AgnoBench", "scripted"]

_USAGE = (9, 3)


class AgnoBench(AdapterBench):
    """Agents and a team of Agno, attached to ``AgnoRecorder``; Agno's own telemetry is off."""

    runtime = "agno"
    package = "agno"
    title = "Agno"
    usage = _USAGE

    def recorder(self, ledger: Any) -> AgnoRecorder:
        """An ``AgnoRecorder``."""
        return AgnoRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        recorders = self.attached(recorder)
        with _quiet():
            return Outcome.of(lambda: _Story(recorders).play(scenario))


@contextmanager
def _quiet() -> Iterator[None]:
    """Agno prints to standard output what the stories raise."""
    from agno.utils import log

    silent = logging.Filter("nothing")
    loggers = (log.agent_logger, log.team_logger, log.workflow_logger)
    for logger in loggers:
        logger.addFilter(silent)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(silent)


class _Story:
    def __init__(self, recorders: list[Any]) -> None:
        self.recorders = recorders

    def play(self, scenario: str) -> Any:
        asked = {
            **dict.fromkeys(("plain", "model_error"), "Hello"),
            **dict.fromkeys(("parallel_tools", "streaming"), "What is 2+3 and 4+5?"),
        }.get(scenario, "Please")
        alpha = getattr(self, scenario)()
        for recorder in self.recorders:
            recorder.attach(alpha)
        if scenario == "streaming":
            events = list(alpha.run(asked, stream=True, stream_events=True))
            return [events[-1].content, [one.event for one in events]]
        output = alpha.run(asked)
        if output.is_paused:
            for one in output.requirements:
                one.confirm()
            output = alpha.continue_run(run_response=output)
        return [output.content, output.status.value]

    def agent(self, name: str, *answers: Any, **options: Any) -> Any:
        from agno.agent import Agent

        return Agent(model=scripted(*answers), name=name, telemetry=False, **options)

    def plain(self) -> Any:
        return self.agent("alpha", "Hi there")

    def parallel_tools(self) -> Any:
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            in_tool()
            return a + b

        both = [("add", {"a": 2, "b": 3}), ("add", {"a": 4, "b": 5})]
        return self.agent("alpha", both, "5 and 9", tools=[add])

    streaming = parallel_tools

    def sub_agent(self) -> Any:
        beta = self.agent("beta", "child says hi")

        def ask_child(question: str) -> str:
            """Ask the child."""
            return str(beta.run(question).content)

        return self.agent("alpha", [("ask_child", {"question": "hi"})], "done", tools=[ask_child])

    def handoff(self) -> Any:
        from agno.team import Team, TeamMode

        over = [("delegate_task_to_member", {"member_id": "beta", "task": "Answer"})]
        return Team(
            members=[self.agent("beta", "beta here")],
            model=scripted(over),
            name="alpha",
            mode=TeamMode.route,
            telemetry=False,
        )

    def interruption(self) -> Any:
        from agno.tools import tool

        @tool(requires_confirmation=True)  # type: ignore[untyped-decorator]
        def book(city: str) -> str:
            """Book a night."""
            return f"booked {city}"

        return self.agent("alpha", [("book", {"city": "Bruges"})], "approved", tools=[book])

    def tool_error(self) -> Any:
        def fail() -> str:
            """Fail."""
            raise ValueError("no such city")

        return self.agent("alpha", [("fail", {})], "it failed", tools=[fail])

    def model_error(self) -> Any:
        return self.agent("alpha", RuntimeError("model is down"))


def scripted(*answers: Any) -> Any:
    """A model that gives these answers in turn: a text, calls as (name, arguments), an error that it raises,
    or a ``ModelResponse`` as it is."""
    from agno.metrics import MessageMetrics
    from agno.models.base import Model
    from agno.models.response import ModelResponse

    left = list(answers)

    def answer() -> Any:
        given = left.pop(0)
        if isinstance(given, BaseException):
            raise given
        if isinstance(given, ModelResponse):
            return given
        usage = MessageMetrics(input_tokens=_USAGE[0], output_tokens=_USAGE[1], total_tokens=sum(_USAGE))
        if isinstance(given, str):
            return ModelResponse(role="assistant", content=given, response_usage=usage)
        calls = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for n, (name, arguments) in enumerate(given, 1)
        ]
        return ModelResponse(role="assistant", tool_calls=calls, response_usage=usage)

    class Scripted(Model):  # type: ignore[misc]
        def invoke(self, *args: Any, **options: Any) -> Any:
            return answer()

        async def ainvoke(self, *args: Any, **options: Any) -> Any:
            return answer()

        def invoke_stream(self, *args: Any, **options: Any) -> Iterator[Any]:
            yield from _pieces(answer())

        async def ainvoke_stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            for piece in _pieces(answer()):
                yield piece

        def _parse_provider_response(self, response: Any, **options: Any) -> Any:
            return response

        def _parse_provider_response_delta(self, response: Any) -> Any:
            return response

    return Scripted(id="scripted", name="Scripted", provider="tests")


def _pieces(answer: Any) -> Iterator[Any]:
    """An answer as a stream of words."""
    from agno.models.response import ModelResponse

    words = (answer.content or "").split(" ") if answer.content else []
    for at, word in enumerate(words[:-1]):
        yield ModelResponse(role="assistant", content=word + " " if at < len(words) - 1 else word)
    answer.content = words[-1] if words else None
    yield answer

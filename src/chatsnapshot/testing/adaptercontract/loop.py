"""A tiny runtime: agents with a scripted model in a loop, tools, handoffs, questions, and observers that are told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Agent", "Ask", "Call", "HandOver", "Loop", "Waits"]


class Call(NamedTuple):
    """The model asks for a tool."""

    tool: str
    arguments: dict[str, Any]
    id: str


class HandOver(NamedTuple):
    """What a tool gives when another agent shall go on."""

    agent: Agent


class Ask(NamedTuple):
    """What a tool gives when a person must answer first."""

    question: str


class Waits(NamedTuple):
    """What a run gives that waits for a person; :meth:`Loop.resume` goes on with it."""

    thread: str
    agent: Agent
    call: Call
    question: str


class Agent:
    """A name, tools, and what its model says: texts, lists of calls, and errors that it raises."""

    def __init__(self, name: str, script: Sequence[Any], *tools: Callable[..., Any]) -> None:
        self.name = name
        self.script = iter(script)
        self.tools = {tool.__name__: tool for tool in tools}

    def answer(self) -> str | list[Call]:
        """Ask the model."""
        said = next(self.script)
        if isinstance(said, Exception):
            raise said
        given: str | list[Call] = said
        return given


class Loop:
    """Runs agents; tells each observer by calling ``observer.told(what, run_id, **facts)``."""

    def __init__(self, observers: Sequence[Any] = ()) -> None:
        self.observers = observers

    def run(self, agent: Agent, text: str, thread: str | None = None) -> Any:
        """The last answer, or :class:`Waits`."""
        run_id, thread = str(uuid.uuid4()), thread or str(uuid.uuid4())
        return self._guarded(run_id, thread, agent, {"text": text}, [])

    def resume(self, waits: Waits, answer: str) -> Any:
        """Go on with a run that waits: the answer is the result of the tool that asked."""
        answered = {"call": waits.call, "answer": answer}
        return self._guarded(str(uuid.uuid4()), waits.thread, waits.agent, answered, [(waits.call, answer)])

    def stream(self, agent: Agent, text: str) -> Iterator[str]:
        """The last answer, word by word."""
        for index, word in enumerate(self.run(agent, text).split()):
            yield f" {word}" if index else word

    def _guarded(
        self, run_id: str, thread: str, agent: Agent, begun: dict[str, Any], results: list[tuple[Call, Any]]
    ) -> Any:
        self._tell("run began", run_id, thread=thread, agent=agent.name, **begun)
        try:
            end = self._turns(run_id, thread, agent, results)
        except BaseException as error:
            self._tell("run failed", run_id, error=error)
            raise
        self._tell("run waits" if isinstance(end, Waits) else "run ended", run_id, end=end)
        return end

    def _turns(self, run_id: str, thread: str, agent: Agent, results: list[tuple[Call, Any]]) -> Any:
        for call, result in results:
            self._tell("tool ended", run_id, call=call, result=result)
        while True:
            try:
                said = agent.answer()
            except Exception as error:
                self._tell("model failed", run_id, error=error)
                raise
            self._tell("model said", run_id, said=said)
            if isinstance(said, str):
                return said
            for call in said:
                given = self._call(run_id, agent, call)
                if isinstance(given, Ask):
                    self._tell("person asked", run_id, call=call, question=given.question)
                    return Waits(thread, agent, call, given.question)
                self._tell("tool ended", run_id, call=call, result=given)
                if isinstance(given, HandOver):
                    self._tell("agent changed", run_id, to=given.agent.name, call=call)
                    agent = given.agent

    def _call(self, run_id: str, agent: Agent, call: Call) -> Any:
        """What a tool gives; its error is a result."""
        self._tell("tool began", run_id, call=call)
        try:
            return agent.tools[call.tool](**call.arguments)
        except Exception as error:
            return error
        finally:
            self._tell("tool left", run_id, call=call)

    def _tell(self, what: str, run_id: str, **facts: Any) -> None:
        for observer in self.observers:
            observer.told(what, run_id, **facts)

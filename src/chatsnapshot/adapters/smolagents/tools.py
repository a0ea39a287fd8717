"""The tools of one run: asked for by a model or called by its code, executed in whatever thread, and what they gave."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.observed import error_facts
from chatsnapshot.adapters.payloads import text, tool_call_part
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.smolagents.everybody import Everybody, harmless
from chatsnapshot.adapters.smolagents.items import as_value, content_parts, is_own

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import ObservedRun

__all__ = ["Asked", "Tools"]


class Asked:
    """A tool that is to be executed."""

    def __init__(self, call_id: str, name: str, arguments: Any, *, is_answer: bool = False) -> None:
        self.call_id = call_id
        self.name = name
        self.arguments = arguments
        self.is_answer = is_answer
        """Whether it is how the agent answers, and no tool."""
        self.began: int | None = None
        """Since when it is executed, by the monotonic clock."""

    @property
    def took(self) -> int | None:
        """For how long, nanoseconds."""
        return None if self.began is None else time.monotonic_ns() - self.began


class Tools:
    """What was asked for in the step that goes on."""

    def __init__(self, everybody: Everybody, agent: Any) -> None:
        self.everybody = everybody
        self.agent = agent
        self.code: Asked | None = None
        """The code that is executed now."""
        self.failed = False
        """Whether a tool failed in this step."""
        self._asked: dict[str, Asked] = {}
        self._in_code = 0

    # --- asked for by a model -----------------------------------------------------------------------------

    def ask(self, answer: Any) -> bool:
        """The model's answer asks for tools, or for giving the final answer: whether it answers."""
        asked = [self._of(one) for one in {str(one.id): one for one in answer.tool_calls or ()}.values()]
        parts = content_parts(answer.content)
        for one in asked:
            if one.is_answer:
                given = one.arguments
                parts.append(text(as_value(given.get("answer", given) if isinstance(given, dict) else given)))
            else:
                parts.append(tool_call_part(one.call_id, one.name, as_value(one.arguments)))
        self._asked = {one.call_id: one for one in asked}

        def events(run: ObservedRun) -> Iterable[Event]:
            if parts:
                said = run.message("assistant", parts)
                yield said
                # An answer is told as words, and as a call when it fails: whatever else was done by then.
                run.asked.update({one.call_id: said["event_id"] for one in asked if one.is_answer})
            for one in asked:
                if not one.is_answer:
                    yield run.tool_call(one.call_id, one.name, as_value(one.arguments))

        self.everybody.record(events)
        return any(one.is_answer for one in asked)

    def _of(self, call: Any) -> Asked:
        name = str(call.function.name)
        answers = name == "final_answer" and is_own(self.agent.tools.get(name), "FinalAnswerTool")
        return Asked(str(call.id), name, call.function.arguments, is_answer=answers)

    @harmless
    def claim(self, name: str, arguments: Any) -> Asked | None:
        """The call that is executed now, by the very object of its arguments: the runtime does not tell which it is."""
        with self.everybody.lock:
            waiting = [one for one in self._asked.values() if one.name == name and one.began is None]
            found = next((one for one in waiting if one.arguments is arguments), None)
            found = found or next(iter(waiting), None)
            if found is not None:
                found.began = time.monotonic_ns()
            return found

    @harmless
    def ended(self, asked: Asked, result: Any, error: BaseException | None) -> None:
        """A tool gave its result or raised."""
        self._asked.pop(asked.call_id, None)
        self.failed = self.failed or error is not None
        if asked.is_answer and error is None:
            return
        cause = None if error is None else (error.__cause__ or error)
        value = None if error is not None else as_value(result)

        def events(run: ObservedRun) -> Iterable[Event]:
            if asked.is_answer:
                yield run.tool_call(asked.call_id, asked.name, as_value(asked.arguments))
            yield run.tool_result(
                asked.call_id, asked.name, result=value, error=cause, duration_ns=asked.took
            )

        self.everybody.record(events)

    def also(self, call: Any, said: list[dict[str, Any]]) -> None:
        """The agent executes a tool, and asked for it in a way of its own; ``said`` is not told yet."""
        asked = self._asked[call.id] = Asked(str(call.id), str(call.name), call.arguments)
        asked.began = time.monotonic_ns()
        given = as_value(call.arguments)

        def events(run: ObservedRun) -> Iterable[Event]:
            if said:
                yield run.message("assistant", said)
            yield run.tool_call(asked.call_id, asked.name, given)

        self.everybody.record(events)

    def gave(self, call_id: str, result: Any) -> None:
        """The agent says what a tool gave: new only where the agent executes tools in a way of its own."""
        asked = self._asked.get(call_id)
        if asked is not None:
            self.ended(asked, result, None)

    def leave(self, error: Any) -> None:
        """The step is over: what was asked for and has no result will have none."""
        with self.everybody.lock:
            left = [one for one in self._asked.values() if not one.is_answer]
            self._asked = {}
        self.everybody.record(
            lambda run: [run.tool_result(one.call_id, one.name, error=error) for one in left]
        )

    # --- a person ----------------------------------------------------------------------------------------

    @harmless
    def asks_person(self, asked: Asked) -> None:
        """A tool asks a person, who answers while the run waits."""
        given = asked.arguments
        question = given.get("question", given) if isinstance(given, Mapping) else given
        call_id = asked.call_id
        self.everybody.record(lambda run: [run.question(call_id, prompt=question, call_id=call_id)])

    @harmless
    def person_said(self, asked: Asked, answer: Any) -> None:
        """The person answered."""
        value = as_value(answer)
        self.everybody.hold(lambda run: [run.answer(asked.call_id, content=value)])

    @harmless
    def person_said_nothing(self, asked: Asked) -> None:
        """The tool failed before anybody answered."""
        for watch in self.everybody.watches:
            if watch.run is not None:
                watch.run.questions.pop(asked.call_id, None)

    # --- code --------------------------------------------------------------------------------------------

    def knows(self, call_id: str) -> bool:
        """Whether this call is on record already."""
        return call_id in self._asked

    def execute(self, call: Any, said: list[dict[str, Any]]) -> None:
        """What the model ``said`` is code that is executed next."""
        parts = [*said, tool_call_part(call.id, call.name, {"code": call.arguments})]
        self.code, self._in_code = Asked(str(call.id), str(call.name), {"code": call.arguments}), 0
        self.code.began = time.monotonic_ns()
        asked = self.code
        self.everybody.record(
            lambda run: [
                run.message("assistant", parts),
                run.tool_call(asked.call_id, asked.name, asked.arguments),
            ]
        )

    def executed(self, observations: Any, error: Any) -> None:
        """The code was executed; ``observations`` are what the model is told of it."""
        asked, self.code = self.code, None
        if asked is None:
            return
        facts = {"result": observations, "error": error, "duration_ns": asked.took}
        self.everybody.record(lambda run: [run.tool_result(asked.call_id, asked.name, **facts)])

    @harmless
    def call_in_code(self, name: str, arguments: Mapping[str, Any]) -> Asked | None:
        """Code calls a tool or an agent: a call inside of that of the code, by an id of ours."""
        code = self.code
        if code is None:
            return None
        with self.everybody.lock:
            self._in_code += 1
            asked = Asked(f"{code.call_id}.{self._in_code}", name, arguments)
        asked.began = time.monotonic_ns()
        given = as_value(arguments)
        self.everybody.record(
            lambda run: [run.tool_call(asked.call_id, name, given, cause=run.calls.get(code.call_id))]
        )
        return asked

    @harmless
    def ended_in_code(self, asked: Asked, result: Any, error: BaseException | None) -> None:
        """A tool gave its result to the code."""
        facts: dict[str, Any] = {"name": asked.name, "call_id": asked.call_id, "is_error": error is not None}
        facts.update({"result": as_value(result)} if error is None else {"error": error_facts(error)})

        def events(run: ObservedRun) -> Iterable[Event]:
            # The model answers to what the code gave, and not to this.
            cause = run.calls.pop(asked.call_id, None)
            run.names.pop(asked.call_id, None)
            yield run.event("execution.tool_result", facts, cause=cause, duration_ns=asked.took)

        self.everybody.record(events)

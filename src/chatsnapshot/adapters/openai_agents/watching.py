"""One recorder's view of one run: what the hooks, the spans and the result tell, as events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.openai_agents.given import Given, asked_of, own_trace
from chatsnapshot.adapters.openai_agents.items import (
    after_the_last_answer,
    input_messages,
    output_parts,
    usage_of,
)
from chatsnapshot.adapters.openai_agents.questions import paused_facts
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.surroundings import parent_of
from chatsnapshot.clock import idempotent_uuid, time_text, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import Earlier, ObservedRun
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder
    from chatsnapshot.adapters.places import Parent, Token

__all__ = ["Told", "Watch"]

_STOPPED = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


class Told(NamedTuple):
    """What spans told of a run besides the hooks, shared by all who record it."""

    models: list[Any]
    """Models of the answers that no hook has told of yet."""
    guardrails: dict[str, int]
    """Guardrail to when its span ended, nanoseconds since 1970."""


class Watch:
    """Builds the events of one run for one recorder. Nothing here records, and nothing is awaited."""

    def __init__(self, recorder: OpenAIAgentsRecorder, given: Given, above: Watch | None) -> None:
        self.recorder = recorder
        self.given = given
        self.above = above
        """The watch of the run around, of the same ledger."""
        self.run: ObservedRun | None = None
        self.begun = False
        self.held: list[Event] = []
        """Events that wait for the next hook that can record."""
        self.around: str | None = None
        """What caused the code around this run, so that a tool inside it is told from one outside."""
        self.child_of = self._parent()
        self._asking: tuple[int, int] | None = None
        self._in_tools: dict[str, Token | None] = {}
        self._began_tools: dict[str, tuple[str | None, int]] = {}

    # --- which run ----------------------------------------------------------------------------------------

    def _parent(self) -> Parent | None:
        """The run that this one happens in: the tool call around, or the run whose guardrail or hook this is."""
        here = self.recorder.parent_here()
        self.around = here.cause if here is not None else None
        above = self.above
        if above is None:
            return parent_of(here, None, None)
        return parent_of(here, above.run, above.around, self.given.tool_call_id)

    def correlation(self) -> str | None:
        """The conversation of the run; ``None`` while it is not known and no run was begun."""
        parent = self.child_of
        if parent is None:
            return self.recorder.correlation_id or self.given.conversation
        if self.given.session:
            return self.given.session
        if self.given.tool_call_id and parent.correlation_id:
            # The same in every process, so that a run that was interrupted finds its conversation again.
            name = f"openai_agents|{self.given.tool_call_id}"
            return uuid_text(idempotent_uuid(parent.correlation_id, name))
        return self.given.conversation

    @property
    def can_begin(self) -> bool:
        """Whether the run's conversation is known, or will not be known better later."""
        return self.child_of is not None or self.correlation() is not None

    def begin(self, key: str, correlation_id: str | None, earlier: Earlier | None, trace: Any = None) -> None:
        """The run begins; its first events are held."""
        if self.begun:
            return
        self.begun = True
        given = self.given
        trace = trace or own_trace()
        options: dict[str, Any] = {} if self.child_of is None else {"parent": self.child_of}
        run = self.recorder.begin(
            given.agent,
            key=key,
            correlation_id=correlation_id or (trace.trace_id if trace is not None else None),
            resumed=given.resumed,
            earlier=earlier,
            **options,
        )
        self.run = run
        if run is None:
            return
        for said in given.decisions():
            if said.call_id in run.questions:
                decision = "approved" if said.approved else "rejected"
                answer = run.answer(said.call_id, decision=decision, content=said.message, at_ns=given.at_ns)
                run.asked[said.call_id] = answer["event_id"]
                self.held.append(answer)
        trace_id = given.trace("trace_id") or (trace.trace_id if trace is not None else None)
        attributes = {"trace_id": trace_id} if trace_id else None
        version = self.recorder.version
        self.held.append(
            run.started(**given.facts(), version=version, attributes=attributes, at_ns=given.at_ns)
        )
        known = earlier is not None and earlier.cause is not None and not given.resumed
        items = after_the_last_answer(given.input) if known else given.input
        for role, parts in input_messages(items):
            self.held.append(run.message(role, parts, at_ns=given.at_ns))

    # --- models -------------------------------------------------------------------------------------------

    def asked_model(self, agent: Any, prompt: str | None) -> list[Event]:
        """A model is being asked; its instructions are told when they are new."""
        self._asking = (time.time_ns(), time.monotonic_ns())
        run = self.run
        name = str(getattr(agent, "name", None) or "agent")
        if run is None:
            return []
        run.agent = name
        if not prompt or not self.recorder.prompts.is_new(run.correlation_id, name, prompt):
            return []
        return [run.message("system", [text(prompt)], cause=run.started_event)]

    def model_answered(self, agent: Any, response: Any, model: Any) -> list[Event]:
        """A model answered: the call with its tokens, the message, and the tools that the provider ran."""
        run = self.run
        facts = self._model_facts(model)
        if run is None:
            return []
        run.agent = str(getattr(agent, "name", None) or run.agent)
        made = [run.model_call(usage=usage_of(response.usage), response_id=response.response_id, **facts)]
        parts, hosted = output_parts(response.output)
        if parts:
            made.append(run.message("assistant", parts))
        for tool in hosted:
            call_id = tool.call_id or None
            made.append(run.tool_call(call_id, tool.name, tool.arguments, native={"hosted": True}))
            result = {"error": tool.error} if tool.error else {"result": tool.result}
            made.append(run.tool_result(call_id, tool.name, cause=made[-1]["event_id"], **result))
        return made

    def _model_facts(self, model: Any) -> dict[str, Any]:
        began, self._asking = self._asking, None
        if began is None:
            return {"model": model}
        return {
            "model": model,
            "started_at": time_text(began[0]),
            "duration_ns": time.monotonic_ns() - began[1],
        }

    # --- tools --------------------------------------------------------------------------------------------

    def tool_began(self, call_id: str | None, name: str, arguments: Any) -> list[Event]:
        """A tool is executed from here on, in this context."""
        run = self.run
        if run is None:
            return []
        made = run.tool_call(call_id, name, arguments)
        key = call_id or name
        self._began_tools[key] = (call_id, time.monotonic_ns())
        self._in_tools[key] = run.enter(call_id)
        return [made]

    def tool_left(self, call_id: str | None, name: str) -> None:
        """Outside of the tool again, in this context."""
        if self.run is not None:
            self.run.leave(self._in_tools.get(call_id or name))

    def tool_ended(self, call_id: str | None, name: str, result: Any, error: Any) -> list[Event]:
        """A tool gave its result to the model, or the text that tells the model of its failure."""
        run = self.run
        if run is None:
            return []
        key = call_id or name
        self.tool_left(call_id, name)
        self._in_tools.pop(key, None)
        began = self._began_tools.pop(key, (None, None))[1]
        took = None if began is None else time.monotonic_ns() - began
        return [run.tool_result(call_id, name, result=result, error=error, duration_ns=took)]

    def handed_over(self, from_agent: str, to_agent: str, call_id: str | None) -> list[Event]:
        """Another agent goes on inside the same run."""
        run = self.run
        if run is None:
            return []
        made = run.handoff(to_agent, call_id=call_id, from_agent=from_agent)
        run.agent = to_agent
        return [made]

    # --- the end ------------------------------------------------------------------------------------------

    def finished(self, result: Any, told: Told) -> list[Event | None]:
        """The runner gave its result: an answer, or the question whether tools may be called."""
        run = self.run
        if run is None:
            return []
        made: list[Event | None] = [*self._guardrails(result, told)]
        asked = asked_of(getattr(result, "interruptions", None))
        for one in asked:
            if one.call_id in run.asked and one.call_id not in run.questions:
                prompt = {"tool": one.tool, "arguments": one.arguments}
                made.append(run.question(one.call_id, kind="approval", prompt=prompt, call_id=one.call_id))
        if asked:
            names = ", ".join(sorted({str(one.tool) for one in asked}))
            waiting = [one.call_id for one in asked]
            if self.child_of is None:
                self.recorder.waiting.add(run.agent, waiting, run.correlation_id)
            facts = paused_facts(waiting, child=self.child_of is not None)
            return [*made, run.paused(f"approval needed: {names}", **facts)]
        if getattr(result, "_cancel_mode", "none") != "none" and result.final_output is None:
            return [*made, *self._open_calls(None, {}), run.cancelled("the caller stopped the stream")]
        return [*made, run.completed(result.final_output)]

    def broke(
        self, error: BaseException, told: Told, model: Any, failed: Mapping[str, Any]
    ) -> list[Event | None]:
        """The runner raised."""
        run = self.run
        if run is None:
            return []
        stopped = isinstance(error, _STOPPED)
        made: list[Event | None] = []
        if self._asking is not None:
            facts = self._model_facts(model)
            ending = {"status": "cancelled"} if stopped else {"error": error}
            made.append(run.model_call(**facts, **ending))
        made += self._guardrails(getattr(error, "run_data", None), told, error)
        made += self._open_calls(None if stopped else error, failed)
        return [*made, run.cancelled(type(error).__name__) if stopped else run.failed(error)]

    def _open_calls(self, error: BaseException | None, failed: Mapping[str, Any]) -> Iterable[Event]:
        """Tools of this run that were still executed when it ended: the one that ended it, and those beside it."""
        run = self.run
        still = list(self._began_tools.items())
        self._began_tools.clear()
        for key, (call_id, _) in still:
            cause: Any = {"message": "cancelled with its run"}
            if error is not None and (key in failed or len(still) == 1):
                cause = _root(error)
            if run is not None:
                yield run.tool_result(call_id, None if call_id else key, error=cause)

    def _guardrails(self, result: Any, told: Told, error: Any = None) -> Iterable[Event]:
        run = self.run
        if run is None:
            return
        seen: set[int] = set()
        judged = self.given.judged
        tripped = getattr(error, "guardrail_result", None)
        groups = (
            ("input", getattr(result, "input_guardrail_results", None)),
            ("output", getattr(result, "output_guardrail_results", None)),
            ("tool_input", getattr(result, "tool_input_guardrail_results", None)),
            ("tool_output", getattr(result, "tool_output_guardrail_results", None)),
            (_phase_of(tripped), [tripped] if tripped is not None else None),
        )
        for phase, results in groups:
            before = 0 if results and results[0] is tripped else judged[phase]
            for one in list(results or ())[before:]:
                if id(one) in seen:
                    continue
                seen.add(id(one))
                name = _guardrail_name(one.guardrail)
                yield run.event(
                    "execution.guardrail",
                    {"name": name, "phase": phase, **_verdict(one.output)},
                    cause=run.started_event if phase == "input" else run.last,
                    at_ns=told.guardrails.get(name),
                )


def _guardrail_name(guardrail: Any) -> str:
    named = guardrail.get_name() if callable(getattr(guardrail, "get_name", None)) else None
    return str(named or getattr(guardrail, "name", None) or "guardrail")


def _phase_of(tripped: Any) -> str:
    return "output" if hasattr(tripped, "agent_output") else "input"


def _verdict(output: Any) -> dict[str, Any]:
    behavior = getattr(output, "behavior", None)
    if isinstance(behavior, dict):  # of a tool's guardrail
        kind = str(behavior.get("type", "allow"))
        triggered = kind != "allow"
        action = kind if triggered else None
    else:
        triggered, action = bool(getattr(output, "tripwire_triggered", False)), None
    return {
        "triggered": triggered,
        "outcome": "blocked" if triggered else "passed",
        "action": action,
        "message": plain(getattr(output, "output_info", None)),
    }


def _root(error: BaseException) -> BaseException:
    """What a tool raised, out of what the SDK made of it."""
    return error.__cause__ if error.__cause__ is not None else error

"""One invocation of a Strands agent: its events, in the order in which the hooks meet them."""

from __future__ import annotations

import asyncio
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import Token
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.strands.contents import as_value, output_of, parts_of, results_in, usage_of
from chatsnapshot.adapters.strands.finding import child_before, earlier_of
from chatsnapshot.clock import time_text, uuid7, uuid_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatsnapshot.adapters.strands.recorder import StrandsRecorder

__all__ = [
    "CLOSED_EARLY",
    "Left",
    "Turn",
    "asks_first",
    "dropped",
    "responses_of",
    "stopped",
    "unanswered",
]

CLOSED_EARLY = "the stream was closed before its end"
_HANDOFF = "handoff_to_agent"
"""The tool that a swarm gives to its agents."""


class Left(NamedTuple):
    """What a run that waits for somebody knows of the calls that its model asked for."""

    asked: dict[str, str]
    pending: dict[str, tuple[str, Any]]


class Turn:
    """A run of an agent: builds the events of what its hooks tell, and records none."""

    def __init__(self, recorder: StrandsRecorder, run: ObservedRun, event: Any) -> None:
        self.recorder = recorder
        self.run = run
        self._event = event  # kept, because the key of the run is its identity
        self._around = sys.exc_info()[1]
        """What is being handled around the run, and is none of its errors."""
        self._pending: dict[str, tuple[str, Any]] = {}
        """Tool calls that the model asked for and nobody has made yet: id to name and arguments."""
        self._tokens: dict[str, Token | None] = {}
        self._held: list[Event] = []
        """The model call whose message comes next."""
        self._began = 0
        self._denied = False
        self._watched: Any = None

    # --- the beginning ------------------------------------------------------------------------------------

    @classmethod
    async def begin(cls, recorder: StrandsRecorder, event: Any) -> Turn | None:
        """The invocation that begins; ``None`` where another recorder of the ledger has it."""
        agent = event.agent
        key = f"{id(event):x}"
        if recorder.run(key) is not None:
            return None  # attached twice
        name = header_text(getattr(agent, "name", None)) or "agent"
        resumed = _waits(agent) or getattr(agent, "_checkpoint", None) is not None
        session = getattr(agent, "_session_manager", None)
        if resumed and not recorder.knows(agent, session) and (known := await child_before(recorder, name)):
            recorder.remember(agent, known)
        own = recorder.conversation(agent, session, fresh=not resumed and not agent.messages)
        begin: dict[str, Any] = {"key": key, "correlation_id": own, "resumed": resumed}
        if resumed:
            begin["earlier"] = await earlier_of(recorder, own, name, responses_of(agent))
        run = recorder.begin(name, **begin)
        if run is None:
            return None
        turn = cls(recorder, run, event)
        left = recorder.waiting.pop(agent, None)
        if left is not None and resumed:
            run.asked.update(left.asked)
            turn._pending.update(left.pending)
        return turn

    def opening(self) -> list[Event]:
        """It begins, or goes on with what a person answered."""
        agent = self._event.agent
        made: list[Event] = []
        if self.run.resumed:
            for question, answer in responses_of(agent).items():
                made.append(self.run.answer(question, content=answer))
        facts = {
            "session": getattr(getattr(agent, "_session_manager", None), "session_id", None),
            "instructions": getattr(agent, "system_prompt", None),
            "description": getattr(agent, "description", None),
            "runtime_version": self.recorder.version,
        }
        before, of = self.recorder.going_on.pop(agent, (None, None))
        if of is not None and of() is not None and not self.run.resumed:
            facts["cause"] = before
        made.append(self.run.started(**{name: value for name, value in facts.items() if value}))
        return made

    # --- messages and models ------------------------------------------------------------------------------

    def said(self, event: Any) -> list[Event]:
        """A message came into the conversation: of a user, of the model, or with the results of tools."""
        message = event.message
        made = self._settled(message)
        parts = parts_of(message)
        if parts:
            made.append(self.run.message(str(message.get("role") or "user"), parts))
            for part in parts:
                if part["type"] == "tool_call":
                    self._pending[str(part["id"])] = str(part["name"]), part["arguments"]
        return self._after_held(*made)

    def replaced(self, event: Any) -> list[Event]:
        """A message of the conversation was replaced by another."""
        parts = parts_of(event.message)
        results = [as_value(result) for result in results_in(event.message)]
        return self._after_held(self.run.state("message_updated", value={"parts": parts, "results": results}))

    def asking(self, event: Any) -> None:
        """The model is about to be called, unless a hook answers in its place."""
        self._began = time.time_ns()
        self._denied = bool(event.cancel)

    def answered(self, event: Any) -> list[Event]:
        """The model answered or failed; the message of an answer that counts comes next."""
        if self._denied:
            return []
        response = event.stop_response
        message = getattr(response, "message", None) or {}
        model = event.agent.model
        call = self.run.model_call(
            **_model_facts(model),
            started_at=time_text(self._began),
            duration_ns=time.time_ns() - self._began,
            usage=usage_of(message),
            finish_reason=getattr(response, "stop_reason", None),
            error=event.exception,
            retried=True if event.retry else None,
        )
        if event.exception is None and not event.retry:
            self._held.append(call)
            return []
        return self._after_held(call)

    # --- tools --------------------------------------------------------------------------------------------

    def calling(self, call_id: str, event: Any) -> list[Event]:
        """A tool is about to be called; nothing is told of one that waited for somebody and goes on."""
        self._pending.pop(call_id, None)
        if call_id in self.run.calls:
            return []
        use = event.tool_use
        executed = False if event.cancel_tool else None
        call = self.run.tool_call(call_id, _name_in(use), use.get("input"), executed=executed)
        return self._after_held(call)

    def inside(self, call_id: str) -> None:
        """What happens from here on happens in the tool."""
        self._tokens[call_id] = self.run.enter(call_id)

    def called(self, event: Any) -> list[Event]:
        """A tool gave something, failed, or was refused."""
        call_id, name = id_in(event.tool_use), _name_in(event.tool_use)
        self.run.leave(self._tokens.pop(call_id, None))
        call = self.run.calls.get(call_id)
        if call is None:
            return []  # answered already: it goes on in the background
        if name == _HANDOFF and event.result.get("status") != "error":
            for flow in self.recorder.flows():
                flow.handing(event.agent, call)
        gave = self._gave(
            call_id,
            name,
            event.result,
            event.exception,
            duration_ns=None if event.duration is None else round(event.duration * 1e9),
            retried=True if event.retry else None,
        )
        return self._after_held(gave)

    def all_called(self, event: Any) -> None:
        """All tools of a message are through, or wait for somebody."""
        while self._tokens:
            self.run.leave(self._tokens.popitem()[1])

    def _gave(
        self, call_id: str, name: str | None, result: Mapping[str, Any], error: Any = None, **more: Any
    ) -> Event:
        value = as_value(result)
        if error is None and result.get("status") == "error":
            error = value if isinstance(value, str) and value else "the tool failed"
        return self.run.tool_result(call_id, name, result=value, error=error, **more)

    def _settled(self, message: Mapping[str, Any]) -> list[Event]:
        """Calls that got a result without being made: cancelled, not fit to be made, or sent to the background."""
        made: list[Event] = []
        for result in results_in(message):
            call_id = str(result.get("toolUseId"))
            if call_id in self._pending:
                name, arguments = self._pending.pop(call_id)
                if call_id not in self.run.calls:
                    made.append(self.run.tool_call(call_id, name, arguments, executed=False))
            if call_id in self.run.calls:
                made.append(self._gave(call_id, None, result))
        return made

    def _after_held(self, *events: Event | None) -> list[Event]:
        """These events behind the model call that is held, so that they are recorded together."""
        held, self._held = self._held, []
        return [*held, *(event for event in events if event is not None)]

    # --- the end ------------------------------------------------------------------------------------------

    def ending(self, event: Any) -> None:
        """The invocation ends; a hook that raises now keeps us from being told what it ends with."""
        agent = weakref.ref(event.agent)

        def lost() -> None:
            if (owner := agent()) is not None:
                self.recorder.forget(owner, self)
            dropped(self.recorder, self.run)

        self._watched = weakref.finalize(event, lost)
        self._watched.atexit = False

    def closing(self, event: Any) -> list[Event]:
        """The invocation is over: completed, waiting, cancelled or failed."""
        result = event.result
        made: list[Event | None] = []
        if result is None:
            error = sys.exc_info()[1]
            made.append(self._broke(None if error is self._around else error))
        elif result.stop_reason == "interrupt":
            made += [self._question(one) for one in result.interrupts or () if one.response is None]
            made.append(self.run.paused("waits for a person"))
            self.recorder.waiting[event.agent] = Left(dict(self.run.asked), dict(self._pending))
        elif result.stop_reason == "checkpoint":
            made.append(self.run.paused("checkpoint"))
            self.recorder.waiting[event.agent] = Left(dict(self.run.asked), dict(self._pending))
        elif result.stop_reason == "cancelled":
            made.append(self.run.cancelled("cancelled", output=plain(output_of(result))))
        else:
            made.append(self.run.completed(output_of(result), stop_reason=result.stop_reason))
        if self.run.ended is not None:
            self.recorder.going_on[event.agent] = (self.run.ended, weakref.ref(event))
        if self._watched is not None:
            self._watched.detach()
        self.recorder.end(self.run)
        return self._after_held(*made)

    def _broke(self, error: BaseException | None) -> Event | None:
        if error is not None:
            return stopped(self.run, error)
        denied = self._event.cancel
        if denied:
            return self.run.cancelled(denied if isinstance(denied, str) else "refused by a hook")
        return self.run.completed()  # structured_output() gives its value to the caller only

    def _question(self, interrupt: Any) -> Event:
        asked = {**self.run.asked, **self.run.calls}
        # The id of an interrupt names the calls that it came up in, the outermost first.
        places = {call: interrupt.id.find(f":{quote(call, safe='')}:") for call in asked}
        places |= {call: interrupt.id.find(f":{call}:") for call, place in places.items() if place < 0}
        found = [call for call in places if places[call] >= 0]
        call_id = min(found, key=lambda call: places[call]) if found else None
        return self.run.question(
            str(interrupt.id),
            prompt=plain(interrupt.reason),
            call_id=call_id,
            name=header_text(interrupt.name),
        )


def dropped(recorder: StrandsRecorder, run: ObservedRun) -> None:
    """The end of a run that a hook broke."""
    with recorder.guarded():
        if (event := run.failed("a hook failed at the end of the run")) is not None:
            recorder.end(run)
            recorder.safe.hand_over(event)


def _model_facts(model: Any) -> dict[str, Any]:
    """The id of a model, and the provider where it is one that comes with Strands."""
    try:
        config = model.get_config()
    except Exception:
        config = {}
    found = config.get("model_id") if hasattr(config, "get") else getattr(config, "model_id", None)
    package, _, provider = type(model).__module__.rpartition(".")
    known = provider if package == "strands.models" else None
    return {"model": header_text(found) if found else None, "provider": known}


def id_in(use: Mapping[str, Any]) -> str:
    """The id of a tool call."""
    return str(use.get("toolUseId") or uuid_text(uuid7()[0]))


def _name_in(use: Mapping[str, Any]) -> str:
    return str(use.get("name") or "tool")


def _waits(runner: Any) -> bool:
    return bool(getattr(getattr(runner, "_interrupt_state", None), "activated", False))


def responses_of(runner: Any) -> dict[str, Any]:
    """What persons answered: the ids of the interrupts and the answers."""
    state = getattr(runner, "_interrupt_state", None)
    given = (getattr(state, "context", None) or {}).get("responses") or ()
    answers = [one["interruptResponse"] for one in given if "interruptResponse" in one]
    return {str(answer["interruptId"]): answer.get("response") for answer in answers}


def unanswered(runner: Any) -> list[Any]:
    """The interrupts that wait for an answer."""
    state = getattr(runner, "_interrupt_state", None)
    known = getattr(state, "interrupts", None) or {}
    return [interrupt for interrupt in known.values() if interrupt.response is None]


def asks_first(event: Any, runner: Any) -> bool:
    """Whether another hook of this event asks a person, so that what it is about does not happen yet."""
    waiting = unanswered(runner)
    return bool(waiting) and any(one.id == event._interrupt_id(one.name) for one in waiting)


def stopped(run: ObservedRun, error: BaseException) -> Event | None:
    """The end of a run that something was raised in."""
    if isinstance(error, GeneratorExit):
        return run.cancelled(CLOSED_EARLY)
    if isinstance(error, asyncio.CancelledError):
        return run.cancelled("cancelled")
    return run.failed(error)

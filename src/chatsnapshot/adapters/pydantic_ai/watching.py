"""One recorder's view of one run: what the hooks of the capability tell, as events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.pydantic_ai.parts import (
    history_messages,
    native_tools,
    response_parts,
    retry_text,
    usage_of,
    user_parts,
)
from chatsnapshot.adapters.surroundings import parent_of
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import Earlier, ObservedRun
    from chatsnapshot.adapters.pydantic_ai.recorder import PydanticAIRecorder

__all__ = ["CURRENT", "Watch"]

CURRENT: ContextVar[tuple[Watch, ...]] = ContextVar("chatsnapshot_pydantic_ai", default=())
"""Who watches the run that the code of here and now belongs to."""

_STOPPED = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


class Watch:
    """Builds the events of one run for one recorder; records nothing."""

    def __init__(self, recorder: PydanticAIRecorder, context: Any) -> None:
        self.recorder = recorder
        self.key = str(context.run_id)
        self.conversation = context.conversation_id
        self.agent = str(getattr(context.agent, "name", None) or "agent")
        self.at_ns = time.time_ns()
        self.run: ObservedRun | None = None
        self.begun = False
        here = recorder.parent_here()
        self.around = here.cause if here is not None else None
        above = next(
            (one for one in CURRENT.get() if one.recorder.ledger is recorder.ledger and one.run), None
        )
        self.child_of = parent_of(here, above.run if above else None, above.around if above else None)
        self._prompt: Any = None
        self._answered: set[str] = set()
        self._asked: dict[str, Any] = {}
        """Tool call id to the arguments as the model wrote them."""
        self.executing: dict[str, str] = {}
        """Tools that are executed now: call id to the name of the tool."""
        self.in_model = False
        """Whether a model is being asked now."""
        self._since: tuple[Any, int, int] | None = None
        """The model that is being asked, and since when: nanoseconds since 1970, and of the monotonic clock."""

    # --- the life of the run ------------------------------------------------------------------------------

    def begin(self, prompt: Any, answers: Any, history: list[Any], earlier: Earlier | None) -> list[Event]:
        """The run begins: with a prompt, or with the answers that an earlier run was waiting for."""
        self.begun = True
        options: dict[str, Any] = {} if self.child_of is None else {"parent": self.child_of}
        run = self.recorder.begin(
            self.agent,
            key=self.key,
            correlation_id=self.conversation,
            resumed=answers is not None,
            earlier=earlier,
            **options,
        )
        self.run = run
        if run is None:
            return []
        made = self._answers(run, answers)
        native = {"run_id": self.key, "conversation_id": self.conversation}
        made.append(run.started(version=self.recorder.version, native=native, at_ns=self.at_ns))
        if history and answers is None and (earlier is None or earlier.cause is None):
            made += [run.message(role, parts, at_ns=self.at_ns) for role, parts in history_messages(history)]
        self._prompt = prompt
        if parts := user_parts(prompt):
            made.append(run.message("user", parts, at_ns=self.at_ns))
        return made

    def _answers(self, run: ObservedRun, answers: Any) -> list[Event]:
        made: list[Event] = []
        for call_id, said in getattr(answers, "approvals", {}).items():
            made.append(run.answer(call_id, at_ns=self.at_ns, **_decision(said), **_by(answers, call_id)))
            run.asked[call_id] = made[-1]["event_id"]
        for call_id, result in getattr(answers, "calls", {}).items():
            made.append(run.answer(call_id, content=result, at_ns=self.at_ns, **_by(answers, call_id)))
            run.asked[call_id] = made[-1]["event_id"]
        return made

    def finished(self, result: Any) -> list[Event | None]:
        """The run gave its output, or asks for approvals and results from outside."""
        run = self.run
        if run is None:
            return []
        requests = result.output
        if not _are_requests(requests):
            return [run.completed(requests)]
        made: list[Event | None] = []
        for call in requests.calls:
            if call.tool_call_id not in run.calls:
                made.append(run.tool_call(call.tool_call_id, call.tool_name, call.args))
            made.append(self._question(run, call, "question", requests))
        made += [self._question(run, call, "approval", requests) for call in requests.approvals]
        names = ", ".join(sorted({call.tool_name for call in [*requests.approvals, *requests.calls]}))
        return [*made, run.paused(f"waits for: {names}")]

    def _question(self, run: ObservedRun, call: Any, kind: str, requests: Any) -> Event:
        prompt = {"tool": call.tool_name, "arguments": plain(call.args_as_dict())}
        told = (getattr(requests, "metadata", None) or {}).get(call.tool_call_id)
        native = {"metadata": plain(told)} if told else None
        return run.question(
            call.tool_call_id, kind=kind, prompt=prompt, call_id=call.tool_call_id, native=native
        )

    def broke(self, error: BaseException) -> list[Event | None]:
        """The run raised, or was stopped."""
        if self.run is None:
            return []
        stopped = {"message": "cancelled with its run"}
        made: list[Event | None] = [*self.model_failed(error)]
        made += [
            self.run.tool_result(call_id, name, error=stopped) for call_id, name in self.executing.items()
        ]
        self.executing.clear()
        if isinstance(error, _STOPPED):
            return [*made, self.run.cancelled(type(error).__name__)]
        return [*made, self.run.failed(error)]

    # --- models -------------------------------------------------------------------------------------------

    def asking(self, request: Any) -> list[Event]:
        """A request goes to a model: what in it is not on record yet."""
        run = self.run
        if run is None or getattr(request, "kind", None) != "request":
            return []
        made: list[Event] = []
        for part in request.parts:
            made += self._requested(run, part)
        told = getattr(request, "instructions", None)
        if told and self.recorder.prompts.is_new(run.correlation_id, self.agent, told):
            made.append(run.message("system", [text(told)], cause=run.started_event))
        return made

    def _requested(self, run: ObservedRun, part: Any) -> list[Event]:
        kind = part.part_kind
        if kind == "system-prompt":
            new = self.recorder.prompts.is_new(run.correlation_id, self.agent, part.content)
            return [run.message("system", [text(part.content)], cause=run.started_event)] if new else []
        if kind == "user-prompt":
            known, self._prompt = self._prompt, None
            parts = user_parts(part.content)
            return [run.message("user", parts)] if parts and part.content != known else []
        call_id = getattr(part, "tool_call_id", None)
        if kind == "retry-prompt" and not part.tool_name:
            return [run.message("user", [text(retry_text(part))], native={"kind": kind})]
        if kind not in ("tool-return", "retry-prompt") or call_id in self._answered:
            return []
        return self._not_executed(run, str(call_id), part)

    def _not_executed(self, run: ObservedRun, call_id: str, part: Any) -> list[Event]:
        """The model is told of a call that no tool was executed for: wrong arguments, or a result from outside."""
        self._answered.add(call_id)
        if call_id not in run.asked and call_id not in run.calls:
            return []  # of an earlier run
        outcome = "retried" if part.part_kind == "retry-prompt" else part.outcome
        if outcome == "denied":
            return []  # what the person said is on record
        made: list[Event] = []
        if call_id not in run.calls:
            made.append(run.tool_call(call_id, part.tool_name, self._asked.get(call_id)))
        if outcome == "success":
            made.append(run.tool_result(call_id, part.tool_name, result=part.content))
        else:
            told = retry_text(part) if part.part_kind == "retry-prompt" else str(part.content)
            made.append(run.tool_result(call_id, part.tool_name, error={"message": told}, status=outcome))
        return made

    def asked(self, model: Any) -> None:
        """A model is being asked from now on."""
        self._since = (model, time.time_ns(), time.monotonic_ns())

    def answered(self, response: Any) -> list[Event]:
        """A model answered: the call with its tokens, the message, and the tools that the provider ran."""
        run, since = self.run, self._since
        self._since = None
        if run is None or since is None:
            return []
        self._asked = {
            part.tool_call_id: part.args for part in response.parts if part.part_kind == "tool-call"
        }
        self._answered.difference_update(self._asked)
        made = [
            run.model_call(
                model=response.model_name,
                provider=response.provider_name,
                usage=usage_of(response.usage),
                response_id=response.provider_response_id,
                finish_reason=response.finish_reason,
                **_took(since),
            )
        ]
        if parts := response_parts(response):
            made.append(run.message("assistant", parts))
        for tool in native_tools(response):
            made.append(run.tool_call(tool.call_id, tool.name, tool.arguments, native={"hosted": True}))
            made.append(run.tool_result(tool.call_id, tool.name, result=tool.result))
        return made

    def model_failed(self, error: BaseException) -> list[Event]:
        """A model failed, or the run was stopped while it answered."""
        since, self._since = self._since, None
        if self.run is None or since is None:
            return []
        ending = {"status": "cancelled"} if isinstance(error, _STOPPED) else {"error": error}
        return [self.run.model_call(model=getattr(since[0], "model_name", None), **_took(since), **ending)]

    # --- tools --------------------------------------------------------------------------------------------

    def tool_began(self, call: Any, arguments: Any) -> list[Event]:
        """A tool is executed; one that was deferred while it was executed is on record already."""
        run = self.run
        self._answered.add(call.tool_call_id)
        self.executing[call.tool_call_id] = call.tool_name
        if run is None or call.tool_call_id in run.calls:
            return []
        return [run.tool_call(call.tool_call_id, call.tool_name, plain(arguments))]

    def tool_gave(self, call: Any, result: Any, began: int) -> list[Event]:
        """A tool gave its result."""
        if self.executing.pop(call.tool_call_id, None) is None or self.run is None:
            return []
        took = time.monotonic_ns() - began
        return [self.run.tool_result(call.tool_call_id, call.tool_name, result=result, duration_ns=took)]

    def tool_failed(self, call: Any, error: Any, began: int) -> list[Event]:
        """A tool failed; ``error`` is what it raised, or the facts of it."""
        if self.executing.pop(call.tool_call_id, None) is None or self.run is None:
            return []  # it was stopped with its run, which has ended
        took = time.monotonic_ns() - began
        return [self.run.tool_result(call.tool_call_id, call.tool_name, error=error, duration_ns=took)]


def _took(since: tuple[Any, int, int]) -> dict[str, Any]:
    return {"started_at": time_text(since[1]), "duration_ns": time.monotonic_ns() - since[2]}


def _are_requests(output: Any) -> bool:
    return type(output).__name__ == "DeferredToolRequests" and hasattr(output, "approvals")


def _decision(said: Any) -> dict[str, Any]:
    if said is True or getattr(said, "kind", None) == "tool-approved":
        changed = getattr(said, "override_args", None)
        return {"decision": "edited", "content": changed} if changed else {"decision": "approved"}
    message = getattr(said, "message", None)
    return {"decision": "rejected", "content": message}


def _by(answers: Any, call_id: str) -> Mapping[str, Any]:
    who = (getattr(answers, "answered_by", None) or {}).get(call_id)
    return {"user": who} if who else {}

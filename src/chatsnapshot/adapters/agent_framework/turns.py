"""One call of an Agent Framework agent: its events, in the order in which the middlewares meet them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.agent_framework import handoffs
from chatsnapshot.adapters.agent_framework.contents import (
    APPROVAL_REQUEST,
    APPROVAL_RESPONSE,
    answer_facts,
    approval_facts,
    approval_of,
    as_value,
    parts_of,
    results_in,
    usage_of,
)
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import Parent
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import version_of
from chatsnapshot.clock import time_text, uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.agent_framework.recorder import AgentFrameworkRecorder

__all__ = ["Turn"]

_HANDED = "handoff_to"
"""The key under which the result of a generated handoff tool names the agent."""
_CLOSED_EARLY = "the stream was closed before its end"


class Turn:
    """A run of an agent as its three middlewares see it. Nothing here raises but what the runtime raises."""

    def __init__(self, recorder: AgentFrameworkRecorder, run: ObservedRun) -> None:
        self.recorder = recorder
        self.run = run
        self._pending: dict[str, tuple[str, Any]] = {}
        """Tool calls that the model asked for and nobody has made yet: id to name and arguments."""
        self._said = False
        self._followed: Any = None
        self._at_end = False
        """Whether a stream was read to its end."""

    @classmethod
    async def begin(cls, recorder: AgentFrameworkRecorder, context: Any, key: str) -> Turn | None:
        """The run of an agent's call that begins; ``None`` where another recorder of the ledger has it."""
        agent = context.agent
        name = header_text(getattr(agent, "name", None) or getattr(agent, "id", None)) or "agent"
        session = getattr(context.session, "session_id", None)
        answers = [
            one for message in context.messages for one in message.contents if _is(one, APPROVAL_RESPONSE)
        ]
        options: dict[str, Any] = {"key": key, "correlation_id": session, "resumed": bool(answers)}
        parent = recorder.parent_here()
        if parent is not None and (handed := handoffs.take(parent.run_id, name)):
            options["parent"] = parent = Parent(parent.run_id, handed, parent.agent, parent.correlation_id)
        if answers:
            inside = parent is not None and (parent.inside_tool or "parent" in options)
            correlation = session if inside else recorder.correlation_id or session
            if correlation is not None:
                options["earlier"] = await recorder.aleft_open(header_text(correlation) or "")
        run = recorder.begin(name, **options)
        if run is None:
            return None
        turn = cls(recorder, run)
        try:
            await recorder.arecord(*turn._opening(context, answers))
        except asyncio.CancelledError:  # the agent will not begin
            _dropped(recorder, run, "cancelled")
            raise
        return turn

    def _opening(self, context: Any, answers: list[Any]) -> list[Event]:
        made: list[Event] = []
        for content in answers:
            call_id, name, arguments = approval_of(content)
            made.append(self.run.answer(str(content.id), **answer_facts(content)))
            self._pending[call_id] = (name, arguments)
        defaults = getattr(context.agent, "default_options", None) or {}
        facts = {
            "session": getattr(context.session, "session_id", None),
            "instructions": defaults.get("instructions") if hasattr(defaults, "get") else None,
            "description": getattr(context.agent, "description", None),
            "streaming": True if context.stream else None,
            "runtime_version": version_of("agent-framework-core"),
        }
        made.append(self.run.started(**{key: value for key, value in facts.items() if value}))
        for message in context.messages:
            if parts := parts_of(message):
                made.append(self._message(message, parts))
        return made

    def _message(self, message: Any, parts: list[dict[str, Any]], **more: Any) -> Event:
        role = str(message.role)
        name = header_text(getattr(message, "author_name", None) or "")
        return self.run.message(role, parts, name=name, **more)

    # --- models -------------------------------------------------------------------------------------------

    async def around_chat(self, context: Any, call_next: Callable[[], Any]) -> None:
        """One call of the model."""
        began = time.time_ns()
        with self.recorder.guarded():
            await self._tell(*self._settled(results_in(context.messages)))
        try:
            await call_next()
        except BaseException as error:
            with self.recorder.guarded():
                await self._tell(self._model_call(context, None, began, error))
            raise
        if not context.stream:
            await self._answered(context, context.result, began)
            return

        async def answered(response: Any) -> None:
            await self._answered(context, response, began)

        async def cleaned() -> None:
            if (error := _failure()) is not None:
                with self.recorder.guarded():
                    await self._tell(self._model_call(context, None, began, error))

        context.stream_result_hooks.append(answered)
        context.stream_cleanup_hooks.append(cleaned)

    async def _answered(self, context: Any, response: Any, began: int) -> None:
        with self.recorder.guarded():
            made = [self._model_call(context, response, began, None)]
            for message in getattr(response, "messages", None) or ():
                if parts := parts_of(message):
                    made.append(self._message(message, parts))
                    self._said = True
                    self._asked(parts)
            await self._tell(*made)

    def _asked(self, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            if part["type"] == "tool_call" and part.get("id"):
                self._pending[str(part["id"])] = (str(part.get("name")), part.get("arguments"))
            elif part["type"] == "tool_call_response":
                self._pending.pop(str(part.get("id")), None)  # a tool that the provider ran by itself

    def _model_call(self, context: Any, response: Any, began: int, error: BaseException | None) -> Event:
        options = context.options or {}
        model = getattr(response, "model", None) or getattr(response, "model_id", None)
        model = model or (
            options.get("model") or options.get("model_id") if hasattr(options, "get") else None
        )
        finish = getattr(response, "finish_reason", None)
        provider = getattr(context.client, "OTEL_PROVIDER_NAME", None)
        return self.run.model_call(
            model=header_text(model) if model else None,
            provider=header_text(provider) if provider and provider != "unknown" else None,
            started_at=time_text(began),
            duration_ns=time.time_ns() - began,
            usage=usage_of(getattr(response, "usage_details", None)),
            finish_reason=str(finish) if finish else None,
            response_id=header_text(getattr(response, "response_id", None) or ""),
            error=error,
        )

    # --- tools --------------------------------------------------------------------------------------------

    async def around_function(self, context: Any, call_next: Callable[[], Any]) -> None:
        """One call of a tool; errors go on to the runtime, which makes results of them."""
        name = str(getattr(context.function, "name", None) or "tool")
        call_id = str(context.metadata.get("call_id") or uuid_text(uuid7()[0]))
        began = time.time_ns()
        with self.recorder.guarded():
            self._pending.pop(call_id, None)
            await self._tell(self.run.tool_call(call_id, name, plain(context.arguments)))
        token = self.run.enter(call_id)
        try:
            await call_next()
        except BaseException as error:
            self.run.leave(token)
            with self.recorder.guarded():
                await self._tell(*self._raised(call_id, name, error, began))
            raise
        self.run.leave(token)
        with self.recorder.guarded():
            await self._tell(*self._gave(call_id, name, as_value(context.result), began))

    def _raised(self, call_id: str, name: str, error: BaseException, began: int) -> list[Event]:
        kind = type(error).__name__
        if kind == "MiddlewareTermination":
            return self._gave(call_id, name, as_value(getattr(error, "result", None)), began)
        if kind == "UserInputRequiredException":
            return []  # the run asks a person, and the tool goes on with the answer
        return [self.run.tool_result(call_id, name, error=error, duration_ns=time.time_ns() - began)]

    def _gave(self, call_id: str, name: str, result: Any, began: int | None) -> list[Event]:
        call = self.run.calls.get(call_id)
        took = None if began is None else time.time_ns() - began
        made = [self.run.tool_result(call_id, name, result=result, duration_ns=took)]
        if (target := _handed_to(name, result)) is not None:
            made.append(self._handoff(target, call))
        return made

    def _handoff(self, target: str, call: str | None) -> Event:
        made = self.run.handoff(target, cause=call)
        if self.run.parent is not None:
            handoffs.tell(self.run.parent.run_id, target, made["event_id"])
        return made

    def _settled(self, results: list[Any]) -> list[Event]:
        """Calls that ended before our middleware: refused by a person, unknown, with arguments that do not fit."""
        made: list[Event] = []
        for content in results:
            call_id = str(content.call_id)
            if call_id not in self._pending:
                continue
            name, arguments = self._pending.pop(call_id)
            made.append(self.run.tool_call(call_id, name, arguments, executed=False))
            if getattr(content, "exception", None) is not None:
                made.append(self.run.tool_result(call_id, name, error=str(content.exception)))
            else:
                made += self._gave(call_id, name, as_value(content), None)
        return made

    async def _tell(self, *events: Event) -> None:
        """Record what happened, unless the run is over: what a stream that was dropped still does is not told."""
        if self.run.ended is None:
            await self.recorder.arecord(*events)

    # --- the end ------------------------------------------------------------------------------------------

    def follow(self, context: Any, inside: Callable[[], AbstractContextManager[None]]) -> None:
        """A call that streams: what happens while its stream is read belongs to it, and its end is the run's."""
        stream = context.result

        @contextmanager
        def pulling() -> Iterator[None]:
            with inside():
                try:
                    yield
                except StopAsyncIteration:
                    self._at_end = True
                    raise

        async def finished(response: Any) -> None:
            # A stream that is closed early is finalized, too, with what there was until then.
            if self._at_end:
                await self.done(response)
            else:
                await self._over(self.run.cancelled(_CLOSED_EARLY))

        async def cleaned() -> None:
            error = _failure()
            if error is not None:
                await self.broke(error)
            elif sys.exc_info()[1] is None and getattr(stream, "_stream_updates", True):
                await self._over(self.run.cancelled(_CLOSED_EARLY))

        context.stream_result_hooks.append(finished)
        context.stream_cleanup_hooks.append(cleaned)
        stream.with_pull_context_manager(pulling)
        self._followed = weakref.finalize(stream, _dropped, self.recorder, self.run)
        self._followed.atexit = False

    async def done(self, response: Any) -> None:
        """The call gave its response: completed, or paused where it asks a person."""
        with self.recorder.guarded():
            made: list[Event | None] = [*self._settled(results_in(getattr(response, "messages", None)))]
            requests = list(getattr(response, "user_input_requests", None) or ())
            if not self._said:
                made += [
                    self._message(message, parts)
                    for message in getattr(response, "messages", None) or ()
                    if (parts := parts_of(message))
                ]
            for content in requests:
                made.append(self._question(content))
            if requests:
                made.append(self.run.paused("waits for a person"))
            else:
                made.append(self.run.completed(getattr(response, "text", None) or None))
            await self._over(*made)

    def _question(self, content: Any) -> Event:
        if not _is(content, APPROVAL_REQUEST):
            return self.run.question(
                str(content.id or uuid_text(uuid7()[0])), prompt=plain(content.to_dict()), native=content.type
            )
        return self.run.question(str(content.id), **approval_facts(content))

    async def broke(self, error: BaseException) -> None:
        """The call raised."""
        with self.recorder.guarded():
            stopped = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            await self._over(self.run.cancelled(_why(error)) if stopped else self.run.failed(error))

    async def _over(self, *events: Event | None) -> None:
        self.recorder.end(self.run)
        if self._followed is not None:
            self._followed.detach()
        await self.recorder.arecord(*events)


def _dropped(
    recorder: AgentFrameworkRecorder, run: ObservedRun, reason: str = "the stream was dropped before its end"
) -> None:
    """A stream that nobody reads any more, or a call that never began."""
    with recorder.guarded():
        if (event := run.cancelled(reason)) is not None:
            recorder.end(run)
            recorder.safe.hand_over(event)


def _failure() -> BaseException | None:
    """What ends a stream whose cleanup hooks run, where it is not simply at its end."""
    error = sys.exc_info()[1]
    return None if isinstance(error, StopAsyncIteration) else error


def _why(error: BaseException) -> str:
    return _CLOSED_EARLY if isinstance(error, GeneratorExit) else "cancelled"


def _is(content: Any, kind: str) -> bool:
    return getattr(content, "type", None) == kind


def _handed_to(name: str, result: Any) -> str | None:
    """The agent that a generated handoff tool (``handoff_to_…``) gives the work to."""
    if not name.startswith(f"{_HANDED}_"):
        return None
    try:
        facts = json.loads(result) if isinstance(result, str) else result
    except ValueError:
        return None
    target = facts.get(_HANDED) if isinstance(facts, dict) else None
    return target if isinstance(target, str) and target else None

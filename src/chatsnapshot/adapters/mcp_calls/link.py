"""One session of an MCP client: its calls, and the questions that the server asks in the middle of them."""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.calling import caller_here, in_scope
from chatsnapshot.adapters.mcp_calls.wire import (
    Asked,
    answer_facts,
    as_wire,
    asked_in,
    error_of,
    operation_of,
    result_of,
    with_context,
)
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.places import Token, enter, leave
from chatsnapshot.adapters.plain import describe_error, header_text, plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.web.header import Carried
from chatsnapshot.clock import new_id, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.mcp_calls.client import McpClientRecorder

__all__ = ["Link"]

_NAMES = {"call_tool": "tools/call", "read_resource": "resources/read", "get_prompt": "prompts/get"}
_inside: ContextVar[frozenset[int]] = ContextVar("chatsnapshot_mcp_inside", default=frozenset())
"""The links whose call this is already."""


class _Call:
    """One logical call, however many requests it takes."""

    def __init__(self, run: ObservedRun, name: str, call_id: str, tool: bool, facts: dict[str, Any]) -> None:
        self.run = run
        self.name = name
        self.call_id = call_id
        self.tool = tool
        self.facts = facts
        self.began = time.monotonic_ns()
        self.event_id = ""
        self.questions: dict[str, str] = {}
        """Key of an input request to the id of the question."""


class Link:
    """Records one session for one recorder. Nothing here raises but what the session raises."""

    def __init__(self, recorder: McpClientRecorder, session: Any) -> None:
        self.recorder = recorder
        self._session = weakref.ref(session)
        self._name: str | None = None
        self._run: ObservedRun | None = None
        self._calls: list[_Call] = []
        """The calls that are going on, oldest first."""
        self._waiting: dict[tuple[str, str], _Call] = {}
        """Calls that wait for input, by what is called and the state that the next request will carry."""
        self._in_rounds: set[int] = set()
        """Parameters of questions that came as a result: their answers come with the next request."""
        with recorder.guarded():
            self._follow_questions(session)

    @property
    def _server(self) -> Any:
        """What the server says of itself: its name and version."""
        session = self._session()
        result = getattr(session, "initialize_result", None)
        return getattr(session, "server_info", None) or getattr(result, "serverInfo", None)

    # --- the connection -----------------------------------------------------------------------------------

    def open(self, name: str) -> bool:
        """The connection is a run from here on; it begins with the first call that belongs nowhere else."""
        if self._name is not None:
            return False
        self._name = name
        return True

    async def close(self, error: BaseException | None) -> None:
        """The connection was left."""
        with self.recorder.guarded():
            self._name = None
            run, self._run = self._run, None
            if run is None:
                return
            self.recorder.end(run)
            if error is None:
                await self.recorder.arecord(run.completed())
            elif isinstance(error, Exception):
                await self.recorder.arecord(run.failed(error))
            else:
                await self.recorder.arecord(run.cancelled(type(error).__name__))

    # --- calls --------------------------------------------------------------------------------------------

    async def call(
        self, method: str, call: Callable[..., Any], signature: inspect.Signature, args: Any, kwargs: Any
    ) -> Any:
        """Make a call of the session and record it."""
        mark = id(self)
        if mark in _inside.get():
            return await call(*args, **kwargs)
        current: _Call | None = None
        with self.recorder.guarded():
            bound = signature.bind(*args, **kwargs)
            current = await self._begun(_NAMES[method], bound.arguments)
            if self.recorder.carry and "meta" in signature.parameters:
                kwargs = {**kwargs, "meta": with_context(bound.arguments.get("meta"), self._carried(current))}
        token = _inside.set(_inside.get() | {mark})
        place = None if current is None else self._enter(current)
        try:
            result = await call(*args, **kwargs)
        except BaseException as error:
            if current is not None:
                await self._ended(current, None, error)
            raise
        finally:
            leave(place)
            _inside.reset(token)
        if current is not None:
            await self._ended(current, result, None)
        return result

    async def _begun(self, method: str, arguments: Mapping[str, Any]) -> _Call:
        goes_on = arguments.get("request_state") is not None or arguments.get("input_responses") is not None
        name = str(arguments.get("name") or arguments.get("uri"))
        known = self._waiting.pop((name, arguments.get("request_state") or ""), None) if goes_on else None
        if known is not None:
            self._calls.append(known)
            await self.recorder.arecord(*self._answers(known, arguments.get("input_responses")))
            return known
        given = plain(arguments.get("arguments") or {}) if method != "resources/read" else {"uri": name}
        server = getattr(self._server, "name", None)
        opening: list[Event] = []
        run, tool = self._place(method, opening)
        current = _Call(run, name, uuid_text(new_id()), tool, {})
        if tool:
            event = run.tool_call(
                current.call_id, name, given, cause=run.started_event, service=header_text(server or "")
            )
        else:
            current.facts = {
                "call_id": current.call_id,
                "service": header_text(server or "") or "mcp server",
                "operation": operation_of(method, {"name": name}),
            }
            request = {"name": name, "arguments": given} if method != "resources/read" else given
            event = run.event(
                "integration.call",
                {**current.facts, "request": request, "cause": run.started_event or run.last},
            )
        current.event_id = event["event_id"]
        self._calls.append(current)
        await self.recorder.arecord(*opening, event)
        return current

    def _place(self, method: str, opening: list[Event]) -> tuple[ObservedRun, bool]:
        """The run that a call belongs to, and whether it is a tool call of that run."""
        recorder = self.recorder
        if self._name is not None and not in_scope(recorder.ledger):
            if self._run is None:
                correlation = recorder.correlation_id
                self._run = recorder.begin(self._name, key=f"{id(self):x}", correlation_id=correlation)
                if self._run is not None:
                    server = self._server
                    facts = {
                        "service": getattr(server, "name", None),
                        "version": getattr(server, "version", None),
                    }
                    opening.append(self._run.started(**{key: value for key, value in facts.items() if value}))
            if self._run is not None:
                return self._run, method == "tools/call"
        return caller_here(recorder, recorder.name), False

    def _enter(self, current: _Call) -> Token | None:
        """What is recorded while the call is made, requests over HTTP among it, is caused by it."""
        run = current.run
        return enter(run.ledger, run.correlation_id, current.event_id, run.run_id, run.agent)

    def _carried(self, current: _Call) -> Carried:
        return Carried(current.run.correlation_id, current.event_id, current.run.run_id)

    async def _ended(self, current: _Call, result: Any, error: BaseException | None) -> None:
        with self.recorder.guarded():
            self._calls.remove(current)
            wire = None if error is not None else as_wire(result)
            if isinstance(wire, Mapping) and wire.get("resultType") == "input_required":
                await self._asks(current, result, wire)
                return
            failure = error if error is not None else error_of(wire)
            took = time.monotonic_ns() - current.began
            if current.tool:
                given = None if error is not None else result_of(wire)
                event = current.run.tool_result(
                    current.call_id, result=given, error=failure, cause=current.event_id, duration_ns=took
                )
            else:
                facts = {**current.facts, "duration_ns": took, "cause": current.event_id}
                if failure is not None:
                    facts["error"] = failure if isinstance(failure, dict) else describe_error(failure)
                event = current.run.event("integration.response", {**facts, "response": wire})
            await self.recorder.arecord(event)

    # --- questions ----------------------------------------------------------------------------------------

    async def _asks(self, current: _Call, result: Any, wire: Mapping[str, Any]) -> None:
        """The result asks for input; the same call goes on with another request."""
        made: list[Event] = []
        for key, asked in asked_in(wire).items():
            current.questions[key] = f"{current.call_id}:{key}"
            made.append(current.run.question(current.questions[key], cause=current.event_id, **asked.facts))
        for request in (getattr(result, "input_requests", None) or {}).values():
            self._in_rounds.add(id(getattr(request, "params", None)))
        self._waiting[current.name, wire.get("requestState") or ""] = current
        await self.recorder.arecord(*made)

    def _answers(self, current: _Call, responses: Any) -> list[Event]:
        return [
            current.run.answer(current.questions.pop(str(key)), content=answer_facts(response))
            for key, response in (responses or {}).items()
            if str(key) in current.questions
        ]

    def _follow_questions(self, session: Any) -> None:
        """Questions that come as a request of the server, in the middle of a call (before protocol 2026-07-28)."""
        inner = getattr(session, "_elicitation_callback", None)
        if inner is None:
            return

        async def elicit(context: Any, params: Any) -> Any:
            if id(params) in self._in_rounds:
                self._in_rounds.discard(id(params))
                return await inner(context, params)
            current = self._calls[-1] if self._calls else None
            question_id = uuid_text(new_id())
            if current is not None:
                with self.recorder.guarded():
                    facts = Asked(params).facts
                    await self.recorder.arecord(
                        current.run.question(question_id, cause=current.event_id, **facts)
                    )
            answer = await inner(context, params)
            if current is not None:
                with self.recorder.guarded():
                    await self.recorder.arecord(current.run.answer(question_id, content=answer_facts(answer)))
            return answer

        if "_default" not in getattr(inner, "__name__", ""):  # which capabilities are announced depends on it
            session._elicitation_callback = elicit

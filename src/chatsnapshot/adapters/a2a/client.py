"""The calls of an A2A client: one ``integration.call`` and one ``integration.response`` each, streamed or not."""

from __future__ import annotations

import functools
import inspect
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.a2a.wire import as_wire, kind_of, state_of
from chatsnapshot.adapters.calling import caller_here
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.plain import describe_error, header_text
from chatsnapshot.adapters.web.carrying import write_into
from chatsnapshot.adapters.web.header import Carried
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.a2a.recorder import A2ARecorder

__all__ = ["Calls"]

_ONE = ("get_task", "cancel_task")
_STREAMED = ("send_message", "subscribe")
_CONTEXTS_MAX = 1_000

_followed: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
"""Client to the ledgers that record it."""


class _Call:
    """One call and what has come of it."""

    def __init__(self, caller: ObservedRun, facts: dict[str, Any]) -> None:
        self.caller = caller
        self.facts = facts
        self.began = time.monotonic_ns()
        self.event_id = ""
        self.answers = 0
        self.last: Any = None
        self.state: str | None = None
        self.over = False


class Calls:
    """Records one client for one recorder. Nothing here raises but what the client raises."""

    def __init__(self, recorder: A2ARecorder, client: Any) -> None:
        self.recorder = recorder
        self._client = client
        self._contexts: OrderedDict[str, str] = OrderedDict()
        """``contextId`` of the agent to the correlation of the calls outside of any scope."""

    def follow(self) -> None:
        """Put the recording around the client's methods, once for each ledger."""
        recorder = self.recorder
        known = _followed.setdefault(self._client, set())
        owner = getattr(recorder.ledger, "scope_owner", id(recorder.ledger))
        if owner in known:
            return
        known.add(owner)
        for name in _ONE:
            if callable(method := getattr(self._client, name, None)):
                setattr(self._client, name, self._one(name, method))
        for name in _STREAMED:
            if callable(method := getattr(self._client, name, None)):
                setattr(self._client, name, self._streamed(name, method))

    def _one(self, name: str, method: Any) -> Any:
        @functools.wraps(method)
        async def recorded(request: Any, *args: Any, **kwargs: Any) -> Any:
            request, call = await self._begun(name, request)
            try:
                answer = await method(request, *args, **kwargs)
            except BaseException as error:
                await self._ended(call, error)
                raise
            self._saw(call, answer)
            await self._ended(call, None)
            return answer

        return recorded

    def _streamed(self, name: str, method: Any) -> Any:
        @functools.wraps(method)
        async def recorded(request: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            request, call = await self._begun(name, request)
            answers = method(request, *args, **kwargs)
            try:
                async for answer in answers:
                    self._saw(call, answer)
                    yield answer
            except BaseException as error:
                await self._ended(call, None if isinstance(error, GeneratorExit) else error)
                raise
            finally:
                if inspect.isasyncgen(answers):
                    await answers.aclose()
            await self._ended(call, None)

        return recorded

    # --- one call -----------------------------------------------------------------------------------------

    async def _begun(self, name: str, request: Any) -> tuple[Any, _Call | None]:
        """The request with the context in it (a copy), and the call; ``None`` where that went wrong."""
        call: _Call | None = None
        with self.recorder.guarded():
            wire = as_wire(request)
            context_id = (wire.get("message") or {}).get("contextId")
            caller = caller_here(self.recorder, "a2a client", self._contexts.get(str(context_id)))
            card = getattr(self._client, "_card", None)
            call = _Call(
                caller,
                {
                    "call_id": uuid_text(uuid7()[0]),
                    "service": header_text(getattr(card, "name", None) or "") or "a2a agent",
                    "operation": name,
                },
            )
            event = caller.event("integration.call", {**call.facts, "request": wire})
            call.event_id = event["event_id"]
            await self.recorder.arecord(event)
            if self.recorder.carry and name == "send_message":
                request = self._carrying(request, call)
        return request, call

    def _carrying(self, request: Any, call: _Call) -> Any:
        caller = call.caller
        copy = type(request)()
        copy.CopyFrom(request)
        headers: dict[str, Any] = {}
        write_into(headers, Carried(caller.correlation_id, call.event_id, caller.run_id))
        copy.message.metadata.update(headers)
        return copy

    def _saw(self, call: _Call | None, answer: Any) -> None:
        if call is None:
            return
        with self.recorder.guarded():
            wire = as_wire(answer)
            kind, body = kind_of(wire)
            call.answers += 1
            call.state = state_of(body) or call.state
            call.last = wire
            context_id = body.get("contextId")
            if kind is not None and isinstance(context_id, str):
                self._contexts[context_id] = call.caller.correlation_id
                if len(self._contexts) > _CONTEXTS_MAX:
                    self._contexts.popitem(last=False)

    async def _ended(self, call: _Call | None, error: BaseException | None) -> None:
        if call is None or call.over:
            return
        call.over = True
        with self.recorder.guarded():
            facts: dict[str, Any] = {**call.facts, "duration_ns": time.monotonic_ns() - call.began}
            facts |= {"status": call.state, "response": call.last, "answers": call.answers}
            if error is not None:
                facts["error"] = describe_error(error)
            await self.recorder.arecord(
                call.caller.event("integration.response", {**facts, "cause": call.event_id})
            )

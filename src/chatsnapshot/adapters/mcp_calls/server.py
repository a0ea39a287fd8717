"""``McpServerRecorder``: records the requests that an MCP server answers."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from typing import Any

from chatsnapshot.adapters.mcp_calls.wire import RECORDED, as_wire, asked_in, error_of, operation_of
from chatsnapshot.adapters.plain import describe_error, header_text, plain
from chatsnapshot.adapters.policy import Event, SafeRecorder, new_event
from chatsnapshot.adapters.requiring import need
from chatsnapshot.adapters.web.carrying import Received, extract
from chatsnapshot.adapters.web.serving import Accept, believed
from chatsnapshot.clock import uuid7, uuid_text

__all__ = ["McpServerRecorder"]

_VERSIONS = "mcp>=2,<3"
_WAITING_MAX = 1_000
_raised: ContextVar[list[BaseException] | None] = ContextVar("chatsnapshot_mcp_raised", default=None)
"""What the tool of this request raised: MCP puts only a text of it into the result."""
_answering: ContextVar[frozenset[int]] = ContextVar("chatsnapshot_mcp_answering", default=frozenset())
"""The ledgers that record this request already."""


class McpServerRecorder:
    """Records what an MCP server is asked, and what it answers.

    >>> recorder = McpServerRecorder(ledger)
    >>> server = recorder.attach(MCPServer("desk"))

    A request is an ``integration.api_triggered``, and its answer an ``integration.response`` caused by it, with the error
    where the tool failed. Where the client brought the context of its call (:class:`McpClientRecorder` does), both belong
    to the client's correlation, caused by its call; otherwise to a new one. What is recorded while the request is
    answered is caused by it. A request that goes on with another one, which asked for input, shares its ``call_id``.

    ``service``: the name that is recorded (default: the server's). ``methods``: those that are recorded (default:
    ``tools/call``, ``resources/read`` and ``prompts/get``; ``None``: every request). ``accept=False`` takes nobody's
    word for correlation and cause, for servers that strangers reach; a function of the request's context decides.
    ``redact`` and ``wait_seconds_max`` are as everywhere.
    """

    runtime = "mcp"

    def __init__(
        self,
        ledger: Any,
        *,
        service: str | None = None,
        methods: Collection[str] | None = RECORDED,
        accept: Accept = True,
        redact: object = "secrets",
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.ledger = ledger
        self.service = None if service is None else header_text(service)
        self.safe = SafeRecorder(
            ledger, adapter="mcp server", redact=redact, wait_seconds_max=wait_seconds_max
        )
        self._methods = None if methods is None else frozenset(methods)
        self._accept = accept
        self._waiting: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        """Operation and state of requests that asked for input: their call id, and the event that said so."""

    def attach(self, server: Any) -> Any:
        """Record an ``MCPServer`` or low-level ``Server``; gives it back. Attaching twice records once.

        Raises :class:`TypeError` for anything else, and a clear error where the installed ``mcp`` has no middleware.
        """
        need("mcp.server.context", "ServerMiddleware", extra="mcp", versions=_VERSIONS)
        kinds = (
            need("mcp.server.lowlevel", "Server", extra="mcp", versions=_VERSIONS).Server,
            need("mcp.server.mcpserver", "MCPServer", extra="mcp", versions=_VERSIONS).MCPServer,
        )
        if not isinstance(server, kinds):
            raise TypeError(f"attach() takes an MCPServer or a Server of mcp, not {type(server).__name__}")
        chain: list[Any] = server.middleware
        if any(getattr(one, "__self__", None) is self for one in chain):
            return server
        if self.service is None:
            self.service = header_text(getattr(server, "name", None) or "")
        chain.append(self.middleware)
        if callable(getattr(server, "call_tool", None)):
            server.call_tool = _remembering(server.call_tool)
        return server

    async def middleware(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        """The middleware itself, for ``MCPServer("desk", middleware=[recorder.middleware])``."""
        owner = getattr(self.ledger, "scope_owner", id(self.ledger))
        recorded = self._methods is None or context.method in self._methods
        if context.request_id is None or not recorded or owner in _answering.get():
            return await call_next(context)
        request: _Request | None = None
        try:
            request = self._begun(context)
        except Exception as error:
            self.safe.note(error)
        if request is None:
            return await call_next(context)
        await self.safe.arecord(*request.begun)
        raised: list[BaseException] = []
        tokens = _raised.set(raised), _answering.set(_answering.get() | {owner})
        scope = self._scope(request)
        if scope is not None:
            scope.__enter__()
        try:
            result = await call_next(context)
        except BaseException as error:
            await self._ended(request, None, error)
            raise
        finally:
            if scope is not None:
                scope.__exit__(None, None, None)
            _raised.reset(tokens[0])
            _answering.reset(tokens[1])
        await self._ended(request, result, raised[-1] if raised else None)
        return result

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is recorded; ``False`` when that takes more than ``timeout`` seconds."""
        return self.safe.flush(timeout)

    def _begun(self, context: Any) -> _Request:
        received = extract(context.meta or {})
        if not believed(self._accept, context, self.safe.note):
            received = Received(traceparent=received.traceparent, tracestate=received.tracestate)
        params = dict(context.params or {})
        params.pop("_meta", None)
        state, responses = params.pop("requestState", None), params.pop("inputResponses", None)
        operation = operation_of(context.method, params)
        before = None
        if state is not None or responses is not None:
            before = self._waiting.pop((operation, str(state or "")), None)
        return _Request(self, received, context.request_id, operation, params, responses, before)

    def _scope(self, request: _Request) -> Any:
        try:
            return request.received.scope(self.ledger, request.correlation_id, cause=request.event_id)
        except Exception:
            return None

    async def _ended(self, request: _Request, result: Any, error: BaseException | None) -> None:
        try:
            event, state = request.ended(result, error)
            if state is not None:
                self._waiting[request.operation, state] = (request.call_id, event["event_id"])
                if len(self._waiting) > _WAITING_MAX:
                    self._waiting.popitem(last=False)
            await self.safe.arecord(event)
        except Exception as mistake:
            self.safe.note(mistake)


class _Request:
    """One request: the events of its beginning and its end."""

    def __init__(
        self,
        recorder: McpServerRecorder,
        received: Received,
        request_id: Any,
        operation: str,
        params: Mapping[str, Any],
        responses: Any,
        before: tuple[str, str] | None,
    ) -> None:
        self.received = received
        self.operation = operation
        self.correlation_id = received.correlation_id or uuid_text(uuid7()[0])
        self.call_id, earlier = before or (uuid_text(uuid7()[0]), None)
        self._began = time.monotonic_ns()
        service = recorder.service or "mcp server"
        self._source = {"origin": "integration", "runtime": recorder.runtime, "name": service}
        self._facts = {
            "call_id": self.call_id,
            "service": service,
            "operation": operation,
            "run_id": received.run_id or self.correlation_id,
        }
        attributes: dict[str, Any] = dict(received.attributes)
        if earlier is not None and received.cause is not None:
            attributes["links"] = [earlier]
        request = {
            **plain(params),
            **({"inputResponses": as_wire(responses)} if responses is not None else {}),
        }
        native = {"request_id": request_id}
        started = new_event(
            "integration.api_triggered",
            {**self._facts, "request": request, "native": native},
            correlation_id=self.correlation_id,
            causation_id=received.cause or earlier,
            source=self._source,
            attributes=attributes or None,
        )
        self.event_id = str(started["event_id"])
        self.begun = [started]

    def ended(self, result: Any, error: BaseException | None) -> tuple[Event, str | None]:
        """The answer, and the state that the next request will bring where this one asks for input."""
        wire = as_wire(result)
        failure = describe_error(error) if error is not None else error_of(wire)
        asks = isinstance(wire, Mapping) and wire.get("resultType") == "input_required"
        facts: dict[str, Any] = {**self._facts, "duration_ns": time.monotonic_ns() - self._began}
        facts["status"] = "input required" if asks else "error" if failure else "ok"
        if wire is not None:
            facts["response"] = wire
        if failure is not None:
            facts["error"] = failure
        if asks and (questions := asked_in(wire)):
            facts["questions"] = {key: asked.facts["prompt"] for key, asked in questions.items()}
        event = new_event(
            "integration.response",
            facts,
            correlation_id=self.correlation_id,
            causation_id=self.event_id,
            source=self._source,
        )
        return event, (str(wire.get("requestState") or "") if asks else None)


def _remembering(call_tool: Any) -> Any:
    """``call_tool`` of a server, so that what a tool raised is known: the exception that ``mcp`` wrapped."""

    @functools.wraps(call_tool)
    async def remembered(*args: Any, **kwargs: Any) -> Any:
        try:
            return await call_tool(*args, **kwargs)
        except Exception as error:
            held = _raised.get()
            if held is not None:
                held.append(error.__cause__ or error)
            raise

    return remembered

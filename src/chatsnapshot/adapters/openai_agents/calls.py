"""One call of the runner and everybody who records it: hooks, spans and the end of the call come here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.observed import Earlier
from chatsnapshot.adapters.openai_agents.given import Given, own_trace
from chatsnapshot.adapters.openai_agents.questions import Wanted
from chatsnapshot.adapters.openai_agents.watching import Told, Watch
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.openai_agents.recorder import OpenAIAgentsRecorder

__all__ = ["CURRENT", "Call"]

CURRENT: ContextVar[Call | None] = ContextVar("chatsnapshot_openai_agents", default=None)
"""The call that the code of here and now belongs to."""

_ON_THE_LOOP_SECONDS_MAX = 0.25

Made = list[tuple[Watch, list[Event]]]


class Call:
    """A call of ``Runner.run``, ``run_sync`` or ``run_streamed``. No method raises."""

    def __init__(self, recorders: Sequence[OpenAIAgentsRecorder], given: Given) -> None:
        self.key = uuid.uuid4().hex
        self.given = given
        self.outer = CURRENT.get()
        self.watches: list[Watch] = []
        self.told = Told([], {})
        self.failures: dict[str, Any] = {}
        """Tool call id to what its span says went wrong."""
        self.spans: dict[str, tuple[str | None, str]] = {}
        """Id of a function span to the call id and name of its tool: the two ways in which a tool is told of."""
        self._agent: Any = None
        self._asked: dict[str, str] = {}
        for recorder in recorders:
            with recorder.guarded():
                self.watches.append(Watch(recorder, given, self._above(recorder)))

    def _above(self, recorder: OpenAIAgentsRecorder) -> Watch | None:
        watches = self.outer.watches if self.outer is not None else ()
        return next((one for one in watches if one.recorder.ledger is recorder.ledger and one.run), None)

    # --- the beginning ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin what can be begun before the runner does; looks up what an earlier run left open."""
        if self.outer is not None:
            await self.outer.arecord(self.outer.held())
        for watch in self.watches:
            with watch.recorder.guarded():
                if not watch.can_begin and not self.given.resumed:
                    continue
                earlier: Earlier | None = None
                correlation, trace_id = watch.correlation(), self.given.trace("trace_id")
                if correlation is None and trace_id is not None:
                    correlation, earlier = trace_id, await watch.recorder.aleft_open(trace_id)
                    if earlier.cause is None:
                        correlation = await self._found(watch) or trace_id
                elif correlation is None:
                    correlation = await self._found(watch)
                if correlation is not None and self._needs_history:
                    earlier = await watch.recorder.aleft_open(correlation)
                watch.begin(self.key, correlation, earlier)

    def open_now(self) -> None:
        """As :meth:`open`, where nothing can be awaited."""
        if self.outer is not None:
            self.outer.record(self.outer.held())
        for watch in self.watches:
            with watch.recorder.guarded():
                if not watch.can_begin and not self.given.resumed:
                    continue
                earlier: Earlier | None = None
                correlation, trace_id = watch.correlation(), self.given.trace("trace_id")
                if correlation is None and trace_id is not None:
                    correlation, earlier = trace_id, watch.recorder.left_open(trace_id)
                    if earlier.cause is None:
                        correlation = self._found_now(watch) or trace_id
                elif correlation is None:
                    correlation = self._found_now(watch)
                if correlation is not None and self._needs_history:
                    earlier = watch.recorder.left_open(correlation)
                watch.begin(self.key, correlation, earlier)

    async def _found(self, watch: Watch) -> str | None:
        """The conversation of a run that is resumed, by the approvals that it waits for."""
        wanted = self._wanted(watch)
        seconds = watch.recorder.safe.wait_seconds_max
        return await watch.recorder.waiting.find(wanted, seconds) if wanted.call_ids else None

    def _found_now(self, watch: Watch) -> str | None:
        wanted = self._wanted(watch)
        return watch.recorder.waiting.find_now(wanted, _ON_THE_LOOP_SECONDS_MAX) if wanted.call_ids else None

    def _wanted(self, watch: Watch) -> Wanted:
        recorder = watch.recorder
        return Wanted(recorder.ledger, recorder.runtime, self.given.agent, self.given.waiting())

    @property
    def _needs_history(self) -> bool:
        return self.given.resumed or not isinstance(self.given.input, str)

    def held(self) -> Made:
        """What waits to be recorded: the parent of a run is on record before its child."""
        return self._each(lambda watch: ())

    def begin(self, trace: Any = None) -> None:
        """Begin what has not begun: the trace is known now (its start is told before it is current), or never."""
        for watch in self.watches:
            with watch.recorder.guarded():
                watch.begin(self.key, watch.correlation(), None, trace)

    # --- what the hooks tell ------------------------------------------------------------------------------

    def asked_model(self, agent: Any, prompt: Any) -> Made:
        """A model is being asked."""
        self._agent = agent
        self.told.models.clear()
        self.begin()
        return self._each(lambda watch: watch.asked_model(agent, prompt))

    def model_answered(self, agent: Any, response: Any) -> Made:
        """A model answered."""
        self.begin()
        model = self._model(agent)
        self._asked = {
            item.call_id: item.name
            for item in response.output
            if getattr(item, "type", "") == "function_call"
        }
        return self._each(lambda watch: watch.model_answered(agent, response, model))

    def tool_began(self, context: Any, tool: Any) -> Made:
        """A tool is executed in this very context."""
        self.begin()
        call_id, name = _call_id(context), str(getattr(tool, "name", None) or "tool")
        if (span := _function_span()) is not None:
            self.spans[span.span_id] = (call_id, name)
        self._asked.pop(call_id or "", None)
        arguments = getattr(context, "tool_arguments", None)
        return self._each(lambda watch: watch.tool_began(call_id, name, arguments))

    def tool_ended(self, context: Any, tool: Any, result: Any) -> Made:
        """A tool ended; its span knows whether it failed, for the model gets a text in either case."""
        call_id, name = _call_id(context), str(getattr(tool, "name", None) or "tool")
        error = self.failures.pop(call_id or name, None) or getattr(_function_span(), "error", None)
        if error is None and isinstance(result, str) and result.startswith(_failure_text()):
            error = {"message": result}
        return self._each(lambda watch: watch.tool_ended(call_id, name, result, _error_of(error)))

    def handed_over(self, from_agent: Any, to_agent: Any) -> Made:
        """Another agent goes on; the tool call that says so is the one that no tool was executed for."""
        self._agent = to_agent
        name = "".join(char if char.isalnum() else "_" for char in f"transfer_to_{to_agent.name}").lower()
        left = [call_id for call_id, asked in self._asked.items() if asked.lower() == name] or list(
            self._asked
        )
        call_id = left[0] if left else None
        return self._each(lambda watch: watch.handed_over(from_agent.name, to_agent.name, call_id))

    # --- what the spans tell ------------------------------------------------------------------------------

    def span_ended(self, span: Any) -> None:
        """A span of this call ended."""
        with self.watches[0].recorder.guarded():
            self._span_ended(span, span.span_data)

    def _span_ended(self, span: Any, data: Any) -> None:
        if data.type == "function" and span.span_id in self.spans:
            call_id, name = self.spans.pop(span.span_id)
            if span.error is not None:
                self.failures.setdefault(call_id or name, span.error)
            for watch in self.watches:
                watch.tool_left(call_id, name)
        elif data.type == "guardrail":
            self.told.guardrails[str(data.name)] = _now_ns()
        elif data.type == "generation":
            self.told.models.append(data.model)
        elif data.type == "response" and data.response is not None:
            self.told.models.append(getattr(data.response, "model", None))

    # --- the end ------------------------------------------------------------------------------------------

    def finished(self, result: Any) -> Made:
        """The events of a result; the runs are over."""
        self.begin()
        return self._over(lambda watch: watch.finished(result, self.told))

    def broke(self, error: BaseException) -> Made:
        """The events of an error; the runs are over."""
        self.begin()
        model = self._model(self._agent)
        return self._over(lambda watch: watch.broke(error, self.told, model, self.failures))

    def _over(self, events: Callable[[Watch], Iterable[Event | None]]) -> Made:
        made = self._each(events)
        for watch in self.watches:
            with watch.recorder.guarded():
                if watch.run is not None:
                    watch.recorder.end(watch.run)
        return made

    # --- recording ----------------------------------------------------------------------------------------

    def record(self, made: Made) -> None:
        """Record, where nothing can be awaited."""
        for watch, events in made:
            watch.recorder.record(*events)

    async def arecord(self, made: Made) -> None:
        """Record; durable when it returns, unless a store is not well."""
        for watch, events in made:
            await watch.recorder.arecord(*events)

    def _each(self, events: Callable[[Watch], Iterable[Event | None]]) -> Made:
        """What every watch makes of something, with what it held until now."""
        made: Made = []
        for watch in self.watches:
            with watch.recorder.guarded():
                new = [event for event in events(watch) if event is not None]
                if watch.held or new:
                    made.append((watch, [*watch.held, *new]))
                    watch.held.clear()
        return made

    def _model(self, agent: Any) -> str | None:
        """The model's name: as its answer says, else as it was asked for."""
        said = next((name for name in reversed(self.told.models) if isinstance(name, str)), None)
        named = said or self.given.model or getattr(agent, "model", None)
        name = named if isinstance(named, str) else getattr(named, "model", None)
        return name if isinstance(name, str) else None


def _call_id(context: Any) -> str | None:
    found = getattr(context, "tool_call_id", None)
    return str(found) if found else None


def _function_span() -> Any:
    """The span of the tool that is executed here, where tracing is on."""
    from agents.tracing import get_current_span

    span = get_current_span() if own_trace() is not None else None
    return span if span is not None and span.span_data.type == "function" else None


def _failure_text() -> str:
    """How the SDK's own text begins that tells the model of a tool that failed."""
    from agents.tool import default_tool_error_function

    return default_tool_error_function(None, Exception())  # type: ignore[arg-type]


def _error_of(error: Any) -> Any:
    """The error of a span: a message and facts."""
    if not isinstance(error, dict):
        return error
    data = error.get("data") or {}
    return {"message": data.get("error") or error.get("message")}


def _now_ns() -> int:
    import time

    return time.time_ns()

"""Calls of plain Python as events: a tool or a task, from its start to exactly one end."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from chatsnapshot.clock import uuid7, uuid_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.fields import checked_text
from chatsnapshot.run import error_payload, is_cancellation, lost_end
from chatsnapshot.scope import Scope, current_frame

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Call", "Plan", "task", "tool"]

F = TypeVar("F", bound=Callable[..., Any])


class _Form(NamedTuple):
    """The event types of a kind of call, and the payload keys of its id, its arguments and its result."""

    what: str
    started: str
    completed: str
    failed: str
    cancelled: str
    id_key: str
    arguments_key: str
    result_key: str


_TOOL = _Form(
    "tool",
    "execution.tool_call",
    "execution.tool_result",
    "execution.tool_result",
    "execution.tool_result",
    "call_id",
    "arguments",
    "result",
)
_TASK = _Form(
    "task",
    "system.task_started",
    "system.task_completed",
    "system.task_failed",
    "system.task_cancelled",
    "task_id",
    "input",
    "output",
)

_NOTHING: Any = object()

_task: contextvars.ContextVar[tuple[int, str] | None] = contextvars.ContextVar(
    "chatsnapshot_task", default=None
)
"""The innermost task of this context: the scope owner of its ledger, and its id."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of one decorator or ``with`` have in common."""

    form: _Form
    name: str | None = None
    named_id: object = None
    arguments: Any = None
    record_arguments: bool = True
    record_result: bool = True
    facts: Mapping[str, Any] = {}
    correlation_id: object = None
    source: Any = None
    cause: Any = None
    options: Mapping[str, Any] = {}


def tool(
    ledger: Ledger,
    name: Any,
    call_id: object,
    arguments: Any,
    wanted: tuple[bool, bool],
    scope: dict[str, Any],
) -> Any:
    """What :meth:`chatsnapshot.Ledger.tool` gives: the decorated function, or a :class:`Call`."""
    return _made(ledger, name, _plan(_TOOL, name, call_id, arguments, wanted, {}, scope))


def task(
    ledger: Ledger,
    name: Any,
    task_id: object,
    given: Any,
    depends_on: Sequence[str] | None,
    wanted: tuple[bool, bool],
    scope: dict[str, Any],
) -> Any:
    """What :meth:`chatsnapshot.Ledger.task` gives: the decorated function, or a :class:`Call`."""
    if isinstance(depends_on, str):
        raise InvalidEvent("depends_on is a list of task ids, not one text", path="depends_on")
    facts = {} if depends_on is None else {"depends_on": list(depends_on)}
    return _made(ledger, name, _plan(_TASK, name, task_id, given, wanted, facts, scope))


def _plan(
    form: _Form,
    name: Any,
    named_id: object,
    arguments: Any,
    wanted: tuple[bool, bool],
    facts: dict[str, Any],
    scope: dict[str, Any],
) -> Plan:
    unknown = sorted(scope.keys() - {"correlation_id", "source", "cause", "options"})
    if unknown:
        raise TypeError(f"{form.what}() got an unexpected keyword argument {unknown[0]!r}")
    return Plan(
        form=form,
        name=name if isinstance(name, str) else None,
        named_id=named_id,
        arguments=arguments,
        record_arguments=wanted[0],
        record_result=wanted[1],
        facts=facts,
        **scope,
    )


def _made(ledger: Ledger, name: Any, plan: Plan) -> Any:
    call = Call(ledger, plan)
    if name is None or isinstance(name, str):
        return call
    if not callable(name) and not isinstance(name, (staticmethod, classmethod)):
        raise TypeError(f"{plan.form.what}() takes a function or a name, not {type(name).__name__}")
    return call(name)


class Call(Scope):
    """One call as ``with`` or ``async with``, or a decorator that makes one of each call of a function.

    The start is recorded on entry and exactly one end on exit, also on error and cancellation; exceptions go on
    unchanged. Events recorded inside have the start as their cause. :meth:`returns` gives the result. Outside of any
    scope a call gets a correlation of its own.
    """

    def __init__(self, ledger: Ledger, plan: Plan) -> None:
        self._ledger = ledger
        self._plan = plan
        self._mark = object()
        self._result: Any = _NOTHING
        self._more: dict[str, Any] = {}
        self.call_id = ""
        """The id of the call or task, once it was entered."""
        self.started: LedgerEntry | None = None
        """The start event, once it was entered."""
        self.ended: LedgerEntry | None = None
        """The end event, once there is one."""

    def __call__(self, function: F) -> F:
        """Decorate a function, coroutine function, generator function or async generator function."""
        from chatsnapshot.decorating import decorated

        return decorated(function, self._plan.name, self._for)

    def _for(self, name: str, arguments: Mapping[str, Any] | None) -> Call:
        """A call of a decorated function."""
        given = arguments if self._plan.arguments is None else self._plan.arguments
        return Call(self._ledger, msgspec.structs.replace(self._plan, name=name, arguments=given))

    def returns(self, value: Any, **more: Any) -> Any:
        """Say what the call gives; ``more`` are further payload keys of its end. Gives ``value`` back."""
        self._result = value
        self._more.update(more)
        return value

    # --- entering and leaving ---

    def __enter__(self) -> Call:
        self._begun(self._ledger._record(*self._start()))
        return self

    async def __aenter__(self) -> Call:
        self._begun(await self._ledger._arecord(*self._start()))
        return self

    def _start(self) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
        plan, form = self._plan, self._plan.form
        if self.started is not None:
            raise InvalidEvent(f"this {form.what} has begun already; make a new one for each call")
        if plan.name is None:
            raise InvalidEvent(f"the {form.what} has no name; give one, or decorate a function", path="name")
        correlation = plan.correlation_id
        if correlation is None and current_frame(self._ledger.scope_owner) is None:
            correlation = uuid_text(uuid7()[0])
        self._frame = self._ledger._frame(correlation, plan.source, plan.cause, None)
        if self._frame.correlation_id is None:
            self._frame = self._frame._replace(correlation_id=uuid_text(uuid7()[0]))
        limit = self._ledger.limits.id_chars_max
        named = plan.named_id() if callable(plan.named_id) else plan.named_id
        self.call_id = uuid_text(uuid7()[0]) if named is None else checked_text(named, form.id_key, limit)
        payload = {form.id_key: self.call_id, "name": plan.name, **plan.facts}
        outer = _task.get()
        if form is _TASK and outer is not None and outer[0] == self._ledger.scope_owner:
            payload["parent_task_id"] = outer[1]
        if plan.record_arguments and plan.arguments is not None:
            payload[form.arguments_key] = plan.arguments
        return self._frame, form.started, payload, dict(plan.options)

    def _begun(self, started: LedgerEntry) -> None:
        self.started = started
        self._frame = self._frame._replace(cause=started.event_key)
        self._enter()

    def _enter(self) -> None:
        super()._enter()
        self._outer_task = _task.get()
        if self._plan.form is _TASK:
            _task.set((self._ledger.scope_owner, self.call_id))

    def _leave(self) -> None:
        super()._leave()
        if self._plan.form is _TASK:
            _task.set(self._outer_task)

    def __exit__(self, *error: object) -> None:
        self._leave()
        self.end(error[1])

    async def __aexit__(self, *error: object) -> None:
        self._leave()
        await self.aend(error[1])

    def end(self, error: object = None) -> None:
        """Record the end: of an exception when one is given, else with the result."""
        try:
            self.ended = self._ledger._record(*self._end(error))
        except Exception as failure:
            lost_end(f"{self._plan.form.what} {self.call_id}", failure, error)

    async def aend(self, error: object = None) -> None:
        """As :meth:`end`, without blocking the event loop."""
        try:
            self.ended = await self._ledger._arecord(*self._end(error))
        except Exception as failure:
            lost_end(f"{self._plan.form.what} {self.call_id}", failure, error)

    def _end(self, error: object) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
        form = self._plan.form
        payload: dict[str, Any] = {form.id_key: self.call_id, "name": self._plan.name, **self._more}
        event_type = form.completed
        if isinstance(error, BaseException):
            if form is _TASK and is_cancellation(type(error)):
                event_type = form.cancelled
                payload["reason"] = type(error).__name__
            else:
                event_type = form.failed
                payload["error"] = error_payload(error)
                if form is _TOOL:
                    payload["is_error"] = True
        elif self._plan.record_result and (form is _TOOL or self._result is not _NOTHING):
            payload[form.result_key] = None if self._result is _NOTHING else self._result
        redact = self._plan.options.get("redact")
        return self._frame, event_type, payload, {} if redact is None else {"redact": redact}

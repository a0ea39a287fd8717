"""A run: one execution with a start event and exactly one end event, also on error and cancellation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.clock import uuid7, uuid_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.fields import correlation_text
from chatsnapshot.scope import Frame, Scope, current_frame

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Run", "error_payload", "is_cancellation", "lost_end", "make_run"]

_log = logging.getLogger("chatsnapshot")

_CANCELLATIONS = {
    ("asyncio.exceptions", "CancelledError"),
    ("concurrent.futures._base", "CancelledError"),
    ("trio", "Cancelled"),
    ("builtins", "KeyboardInterrupt"),
    ("builtins", "GeneratorExit"),
}


def error_payload(error: BaseException) -> dict[str, str]:
    """An error as payload: ``type``, ``module`` and ``message``."""
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = "<unprintable>"
    return {"type": kind.__qualname__, "module": kind.__module__, "message": message}


def is_cancellation(kind: type[BaseException]) -> bool:
    """Whether an exception of this kind ends something from outside: asyncio, trio, futures, Ctrl-C."""
    return any(
        (base.__module__, base.__qualname__) in _CANCELLATIONS
        or (base.__module__.split(".")[0], base.__qualname__) in _CANCELLATIONS
        for base in kind.__mro__
    )


def lost_end(what: str, failure: Exception, error: object) -> None:
    """The end of ``what`` could not be recorded: the caller's own exception goes first, else this one is raised."""
    if error is None:
        raise failure
    _log.error("the end of %s could not be recorded: %s", what, failure)


class Run(Scope):
    """A scope that records ``execution.run_started`` on entry and one terminal event on exit.

    Events inside have the start event as cause unless they name another. End it early with :meth:`complete`,
    :meth:`fail`, :meth:`cancel` or :meth:`pause`; otherwise leaving the block completes it, an exception fails it, and
    cancellation (also Ctrl-C) cancels it. Exceptions always go on unchanged.
    """

    def __init__(
        self,
        ledger: Ledger,
        frame: Frame,
        run_id: str,
        payload: Mapping[str, Any],
        resumed: bool,
        options: dict[str, Any],
    ) -> None:
        super().__init__(ledger, frame)
        self.run_id = run_id
        self.started: LedgerEntry | None = None
        """The start event, once the block was entered."""
        self.ended: LedgerEntry | None = None
        """The terminal event, once there is one."""
        self._payload = payload
        self._start_type = "execution.run_resumed" if resumed else "execution.run_started"
        self._options = options

    # --- entering and leaving ---

    def __enter__(self) -> Run:
        self._begun(self._ledger._record(self._frame, self._start_type, self._payload, dict(self._options)))
        return self

    async def __aenter__(self) -> Run:
        self._begun(
            await self._ledger._arecord(self._frame, self._start_type, self._payload, dict(self._options))
        )
        return self

    def _begun(self, started: LedgerEntry) -> None:
        self.started = started
        self._frame = self._frame._replace(cause=started.event_key, run_id=self.run_id)
        self._enter()

    def __exit__(self, *error: object) -> None:
        self._leave()
        if self.ended is None:
            event_type, payload = _ending(error[1])
            try:
                self._end(event_type, payload)
            except Exception as failure:
                lost_end(f"run {self.run_id}", failure, error[1])

    async def __aexit__(self, *error: object) -> None:
        self._leave()
        if self.ended is None:
            event_type, payload = _ending(error[1])
            try:
                await self._aend(event_type, payload)
            except Exception as failure:
                lost_end(f"run {self.run_id}", failure, error[1])

    # --- ending early ---

    def complete(self, output: Any = None, **fields: Any) -> LedgerEntry:
        """Record ``execution.run_completed``."""
        return self._end("execution.run_completed", _fields(fields, output=output))

    def fail(self, error: BaseException | str, **fields: Any) -> LedgerEntry:
        """Record ``execution.run_failed`` with an error."""
        return self._end("execution.run_failed", _fields(fields, error=_error(error)))

    def cancel(self, reason: str | None = None, **fields: Any) -> LedgerEntry:
        """Record ``execution.run_cancelled``."""
        return self._end("execution.run_cancelled", _fields(fields, reason=reason))

    def pause(self, reason: str | None = None, **fields: Any) -> LedgerEntry:
        """Record ``execution.run_paused``; ``ledger.run(correlation_id, resume=True)`` goes on later."""
        return self._end("execution.run_paused", _fields(fields, reason=reason))

    async def acomplete(self, output: Any = None, **fields: Any) -> LedgerEntry:
        """As :meth:`complete`, without blocking the event loop."""
        return await self._aend("execution.run_completed", _fields(fields, output=output))

    async def afail(self, error: BaseException | str, **fields: Any) -> LedgerEntry:
        """As :meth:`fail`, without blocking the event loop."""
        return await self._aend("execution.run_failed", _fields(fields, error=_error(error)))

    async def acancel(self, reason: str | None = None, **fields: Any) -> LedgerEntry:
        """As :meth:`cancel`, without blocking the event loop."""
        return await self._aend("execution.run_cancelled", _fields(fields, reason=reason))

    async def apause(self, reason: str | None = None, **fields: Any) -> LedgerEntry:
        """As :meth:`pause`, without blocking the event loop."""
        return await self._aend("execution.run_paused", _fields(fields, reason=reason))

    def _end(self, event_type: str, payload: dict[str, Any]) -> LedgerEntry:
        self._check_running()
        self.ended = self._ledger._record(self._frame, event_type, self._named(payload), {})
        return self.ended

    async def _aend(self, event_type: str, payload: dict[str, Any]) -> LedgerEntry:
        self._check_running()
        self.ended = await self._ledger._arecord(self._frame, event_type, self._named(payload), {})
        return self.ended

    def _check_running(self) -> None:
        if self.started is None:
            raise InvalidEvent(f"run {self.run_id} has not begun; use it in a with block")
        if self.ended is not None:
            raise InvalidEvent(
                f"run {self.run_id} has ended with {self.ended.event_type} at position {self.ended.position}; "
                "a run has exactly one end"
            )

    def _named(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"run_id": self.run_id, **payload} if self.run_id != self.correlation_id else payload


def make_run(
    ledger: Ledger,
    correlation_id: object,
    name: str | None,
    run_id: object,
    resume: bool,
    facts: Mapping[str, Any],
    options: dict[str, Any],
    source: Any,
    cause: Any,
) -> Run:
    """The run that :meth:`chatsnapshot.Ledger.run` gives: its ids, and what its start event says."""
    outer = current_frame(ledger.scope_owner)
    if correlation_id is None:
        if resume:
            raise InvalidEvent("a run that resumes needs its correlation_id", path="correlation_id")
        correlation = uuid_text(uuid7()[0])
    else:
        correlation = correlation_text(correlation_id, ledger.limits)
    inside = outer is not None and outer.run_id is not None
    if run_id is not None:
        named = correlation_text(run_id, ledger.limits)
    elif inside and outer is not None and outer.correlation_id == correlation:
        named = uuid_text(uuid7()[0])
    else:
        named = correlation
    payload: dict[str, Any] = {}
    if name is not None:
        payload["name"] = name
    if named != correlation:
        payload["run_id"] = named
    if inside and outer is not None and "parent_run_id" not in facts:
        payload["parent_run_id"] = outer.run_id
    payload.update(facts)
    return Run(ledger, ledger._frame(correlation, source, cause, named), named, payload, resume, options)


def _ending(error: object) -> tuple[str, dict[str, Any]]:
    """Terminal event for what left the block."""
    if error is None:
        return "execution.run_completed", {}
    assert isinstance(error, BaseException)
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "execution.run_completed", {}
    if is_cancellation(type(error)):
        return "execution.run_cancelled", {"reason": type(error).__name__}
    return "execution.run_failed", {"error": error_payload(error)}


def _error(error: BaseException | str) -> dict[str, str]:
    return error_payload(error) if isinstance(error, BaseException) else {"message": str(error)}


def _fields(fields: dict[str, Any], **own: Any) -> dict[str, Any]:
    return {**{key: value for key, value in own.items() if value is not None}, **fields}

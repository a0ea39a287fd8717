"""Where code runs: inside which recorded tool call, of whichever runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from chatsnapshot.clock import uuid_bytes, uuid_text
from chatsnapshot.scope import Scope, Within, current_frame, new_frame

__all__ = [
    "Parent",
    "Token",
    "enter",
    "leave",
    "mark_process",
    "parent_here",
    "process_mark",
    "process_of",
    "set_process",
]


class Parent(NamedTuple):
    """What a run was started by: another run, the event in it, and the agent whose tool it was."""

    run_id: str | None
    cause: str | None
    agent: str | None = None
    correlation_id: str | None = None
    inside_tool: bool = False
    """Whether it is a recorded tool call, of whichever runtime, and not a scope that the user opened."""


_processes: dict[int, Parent] = {}
"""The run of this process, by the ledger that it is in."""


def process_of(ledger: Any) -> Parent | None:
    """The run of this process in a ledger, where the process itself is recorded."""
    return _processes.get(getattr(ledger, "scope_owner", -1))


def set_process(ledger: Any, parent: Parent | None) -> None:
    """Say that this process is a run in a ledger; ``None``: no more."""
    if parent is None:
        _processes.pop(ledger.scope_owner, None)
    else:
        _processes[ledger.scope_owner] = parent


_marked = False


def mark_process(marked: bool) -> None:
    """Say whether runs that begin in this process tell which process that is: somebody waits for its end."""
    global _marked
    _marked = marked


def process_mark() -> dict[str, int]:
    """The attributes that tell where a run was begun; none where nobody needs to know."""
    return {"pid": os.getpid()} if _marked else {}


class Token(NamedTuple):
    """What :func:`leave` needs."""

    scope: Scope
    tool: _Tool


class _Tool(NamedTuple):
    """A tool call that is being executed."""

    owner: int
    cause: str
    agent: str | None
    outer: _Tool | None


_innermost: ContextVar[_Tool | None] = ContextVar("chatsnapshot_tool", default=None)


def enter(
    ledger: Any,
    correlation_id: str,
    cause: str | None,
    run_id: str | None,
    agent: str | None,
    here: Callable[[], bool] | None = None,
) -> Token | None:
    """Be inside of a tool call from here on; ``None`` where the ledger knows no scopes or nothing caused it.

    With ``here`` only where that is true: for a hook whose context also others go on in.
    """
    owner = getattr(ledger, "scope_owner", None)
    if owner is None or cause is None:
        return None
    frame = new_frame(owner, correlation_id, None, uuid_bytes(cause), run_id)
    scope = Scope(ledger, frame, None if here is None else Within(here))
    tool = _Tool(owner, cause, agent, _innermost.get())
    scope.__enter__()
    _innermost.set(tool)
    return Token(scope, tool)


def leave(token: Token | None) -> None:
    """Be outside again; does nothing in a context that the tool call was not entered in."""
    if token is None:
        return
    token.scope.__exit__()
    _innermost.set(_without(_innermost.get(), token.tool))


def parent_here(ledger: Any) -> Parent | None:
    """The recorded tool call or the user's scope around, as far as it has a cause in this ledger."""
    owner = getattr(ledger, "scope_owner", -1)
    frame = current_frame(owner)
    if frame is None or frame.cause is None:
        return None
    cause = uuid_text(frame.cause)
    tool = _innermost.get()
    while tool is not None and (tool.owner != owner or tool.cause != cause):
        tool = tool.outer
    inside = tool is not None
    return Parent(frame.run_id, cause, tool.agent if tool and inside else None, frame.correlation_id, inside)


def _without(tool: _Tool | None, gone: _Tool) -> _Tool | None:
    if tool is None or tool is gone:
        return None if tool is None else tool.outer
    rest = _without(tool.outer, gone)
    return tool if rest is tool.outer else tool._replace(outer=rest)

"""``McpClientRecorder``: records the calls that MCP clients and sessions make."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.mcp_calls.link import Link
from chatsnapshot.adapters.requiring import need

__all__ = ["McpClientRecorder", "install"]

_METHODS = ("call_tool", "read_resource", "get_prompt")
_VERSIONS = "mcp>=1.20"

_links: weakref.WeakKeyDictionary[Any, dict[int, Link]] = weakref.WeakKeyDictionary()
"""Session to its links, one for each ledger: attaching a second time changes nothing."""


class McpClientRecorder(RuntimeRecorder):
    """Records what MCP clients call, with either line of the ``mcp`` package (``Client``, ``ClientSession``).

    >>> recorder = McpClientRecorder(ledger)
    >>> async with recorder.watch(Client("http://localhost:8000/mcp")) as client:
    ...     await client.call_tool("add", {"a": 2, "b": 3})

    A call inside a recorded tool call, or in a scope of the ledger, belongs there, as ``integration.call`` and
    ``integration.response``: the agent's own ``tool_call`` is recorded by whoever records the agent. Elsewhere a watched
    connection is a run of its own, and its calls are ``execution.tool_call`` and ``execution.tool_result``.
    Questions that the server asks a person in the middle of a call (elicitation) are recorded with their answers.

    ``name`` is what the client is called in its run. ``carry``: whether the context of a call goes along in ``_meta``, so
    that a server recorded into a ledger continues the history. For the other arguments see
    :class:`~chatsnapshot.adapters.custom.RuntimeRecorder`.
    """

    runtime = "mcp"

    def __init__(self, ledger: Any, *, name: str = "mcp client", carry: bool = True, **options: Any) -> None:
        super().__init__(ledger, **options)
        self.name = name
        self.carry = carry

    @asynccontextmanager
    async def watch(self, client: Any, *, name: str | None = None) -> AsyncIterator[Any]:
        """Enter a client or session that is not entered yet, and record it until it is left.

        Raises :class:`TypeError` for anything that is neither.
        """
        checked = _checked(client)
        async with client as entered:
            link = self._linked(getattr(entered, "session", entered) if checked == "client" else entered)
            opened = link is not None and link.open(name or self.name)
            try:
                yield entered
            except BaseException as error:
                if opened and link is not None:
                    await link.close(error)
                raise
            if opened and link is not None:
                await link.close(None)

    def attach(self, client: Any) -> Any:
        """Record a client or session that somebody else has entered; gives it back.

        Its calls belong to the scope they are made in, or each to a correlation of its own. Raises :class:`TypeError`
        for anything else, and for a client that is not entered yet.
        """
        kind = _checked(client)
        try:
            self._linked(client.session if kind == "client" else client)
        except RuntimeError:
            raise TypeError(
                "attach() takes a client that is entered; enter it with recorder.watch(client)"
            ) from None
        return client

    def _linked(self, session: Any) -> Link | None:
        link, new = _link_of(self, session)
        if link is None or link.recorder is not self:
            return None
        if new:
            for method in _METHODS:
                setattr(session, method, _recorded(link, method, getattr(session, method)))
        return link


def _link_of(recorder: McpClientRecorder, session: Any) -> tuple[Link | None, bool]:
    """The link of a session and a ledger, and whether it is a new one."""
    try:
        known = _links.setdefault(session, {})
        owner = getattr(recorder.ledger, "scope_owner", id(recorder.ledger))
        new = owner not in known
        if new:
            known[owner] = Link(recorder, session)
        return known[owner], new
    except Exception as error:
        recorder.note(error)
        return None, False


def _recorded(link: Link, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
    signature = _signature(getattr(call, "__func__", None)) or inspect.signature(call)

    @functools.wraps(call)
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        return await link.call(method, call, signature, args, kwargs)

    return recorded


@functools.lru_cache(64)
def _signature(function: Any) -> inspect.Signature | None:
    """How a method is called, of its function: reading that takes longer than a call, and every session has the same."""
    return None if function is None else inspect.signature(function.__get__(object()))


def install(recorder: McpClientRecorder) -> Callable[[], None]:
    """Record every MCP session of the process from here on; the result undoes it."""
    session = need("mcp", "ClientSession.call_tool", extra="mcp", versions=_VERSIONS).ClientSession
    before = {method: getattr(session, method) for method in _METHODS}
    for method, original in before.items():
        setattr(session, method, _recorded_everywhere(recorder, method, original))
    done: list[bool] = []

    def undo() -> None:
        if not done:
            done.append(True)
            for method, original in before.items():
                setattr(session, method, original)

    return undo


def _recorded_everywhere(recorder: McpClientRecorder, method: str, original: Any) -> Any:
    signature = _signature(original)
    assert signature is not None

    @functools.wraps(original)
    async def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        link, _ = _link_of(recorder, self)
        call = original.__get__(self)
        if link is None:
            return await call(*args, **kwargs)
        return await link.call(method, call, signature, args, kwargs)

    return recorded


def _checked(client: Any) -> str:
    """Whether it is a client or a session."""
    mcp = need("mcp", "ClientSession.call_tool", extra="mcp", versions=_VERSIONS)
    if isinstance(client, mcp.ClientSession):
        return "session"
    if isinstance(client, getattr(mcp, "Client", ())):
        return "client"
    raise TypeError(f"this takes a Client or a ClientSession of mcp, not {type(client).__name__}")

"""Functions around those of AgentChat while a run is recorded, so that it is told where it happens and in its order.

A stream alone does not do: what agents of a team say is queued while they go on, tools run before their call is read,
and which model was asked it does not tell. The functions are there while runs are recorded or recorders installed, and
gone with the last of them; where nobody records they pass everything through.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.autogen_agentchat.here import ASKING, in_thread, inside, speaking, voices_here
from chatsnapshot.adapters.requiring import need

if TYPE_CHECKING:
    from chatsnapshot.adapters.autogen_agentchat.voices import Voice

__all__ = ["agentchat", "hooks", "pulled"]

_VERSIONS = "autogen-agentchat>=0.7.5,<0.8"
_EXTRA = "autogen-agentchat"
_WALK_MAX = 1_000


class Classes:
    """The classes that recording needs; raises one clear error where something is missing."""

    def __init__(self) -> None:
        agents = need(
            "autogen_agentchat.agents",
            "BaseChatAgent.run",
            "BaseChatAgent.run_stream",
            "BaseChatAgent.on_messages_stream",
            "AssistantAgent._execute_tool_call",
            extra=_EXTRA,
            versions=_VERSIONS,
        )
        teams = need("autogen_agentchat.teams", "BaseGroupChat.run_stream", extra=_EXTRA, versions=_VERSIONS)
        core = need("autogen_core.models", "ChatCompletionClient.create", extra=_EXTRA, versions=_VERSIONS)
        tools = need("autogen_core.tools", "FunctionTool.run", extra=_EXTRA, versions=_VERSIONS)
        self.agent: Any = agents.BaseChatAgent
        self.assistant: Any = agents.AssistantAgent
        self.team: Any = teams.BaseGroupChat
        self.client: Any = core.ChatCompletionClient
        self.tool: Any = tools.FunctionTool


@functools.lru_cache(maxsize=1)
def agentchat() -> Classes:
    """The classes of the package, which is imported here."""
    return Classes()


class Hooks:
    """Who holds them, and what was there before."""

    def __init__(self) -> None:
        self.around_run: Callable[[Any], Any] = _same
        self.around_run_stream: Callable[[Any], Any] = _same
        self._lock = threading.RLock()  # the garbage collector may release in the middle of a holding
        self._held = 0
        self._put: dict[tuple[Any, str], tuple[Any, Any]] = {}

    def hold(self) -> None:
        """One more who needs them."""
        known = agentchat()
        with self._lock:
            self._held += 1
            if self._held == 1:
                self._around(known.agent, "run", self.around_run)
                self._around(known.agent, "run_stream", self.around_run_stream)
                self._around(known.team, "run_stream", self.around_run_stream)
                self._around(known.assistant, "_execute_tool_call", _around_tool)
                self._around(known.tool, "run", _around_function)

    def release(self) -> None:
        """One less; with the last one all is as before, but where somebody else went around it since."""
        with self._lock:
            self._held -= 1
            if self._held:
                return
            for (owner, name), (before, ours) in list(self._put.items()):
                if vars(owner).get(name) is ours:
                    setattr(owner, name, before)
                    del self._put[owner, name]

    def discover(self, runner: Any) -> None:
        """Go around the agents and the models that a runner has."""
        if runner is None:
            return
        known = agentchat()
        found: list[Any] = [runner]
        seen: set[int] = set()
        while found and len(seen) < _WALK_MAX:
            one = found.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, (list, tuple)):
                found += one
            elif isinstance(one, known.client):
                self._around(type(one), "create", _around_create)
                self._around(type(one), "create_stream", _around_create_stream)
            elif isinstance(one, (known.agent, known.team)):
                if isinstance(one, known.agent):
                    self._around(type(one), "on_messages_stream", _around_turn)
                    self._around(type(one), "run", self.around_run)
                self._around(type(one), "run_stream", self.around_run_stream)
                found += [member for member in vars(one).values() if _holds(member, known)]

    def _around(self, cls: Any, name: str, around: Callable[[Any], Any]) -> None:
        """Put a function around the one of this name, in the class that has it."""
        owner = next((one for one in cls.__mro__ if name in vars(one)), None)
        if owner is None or getattr(vars(owner)[name], "__isabstractmethod__", False):
            return
        with self._lock:
            if (owner, name) in self._put:
                return
            before = vars(owner)[name]
            ours = (
                staticmethod(around(before.__func__)) if isinstance(before, staticmethod) else around(before)
            )
            setattr(owner, name, ours)
            self._put[owner, name] = (before, ours)


def _holds(member: Any, known: Classes) -> bool:
    return isinstance(member, (list, tuple, known.client, known.agent, known.team))


def _same(function: Any) -> Any:
    return function


hooks = Hooks()


async def pulled(stream: Any, voices: dict[int, Voice | None]) -> AsyncIterator[Any]:
    """The items of a stream, each made while these speak; the stream is closed with this one."""
    items = stream.__aiter__()
    try:
        while True:
            with speaking(voices):
                try:
                    item = await items.__anext__()
                except StopAsyncIteration:
                    return
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            with speaking(voices):
                await close()


# --- turns ----------------------------------------------------------------------------------------------------


def _around_turn(function: Any) -> Any:
    @functools.wraps(function)
    def on_messages_stream(self: Any, *args: Any, **options: Any) -> Any:
        stream = function(self, *args, **options)
        voices = voices_here()
        heard = args[0] if args else options.get("messages")
        return _turn(stream, str(self.name), voices, heard) if voices else stream

    return on_messages_stream


async def _turn(stream: Any, name: str, voices: list[Voice], heard: Any) -> AsyncIterator[Any]:
    mine: dict[int, Voice | None] = {}
    for voice in voices:
        with voice.watch.recorder.guarded():
            mine[id(voice.watch.recorder)] = voice.watch.turn(name, heard)
    items = pulled(stream, mine)
    try:
        async for item in items:
            for speaker in mine.values():
                if speaker is not None:
                    await speaker.watch.saw(getattr(item, "chat_message", item))
            yield item
    finally:
        await items.aclose()  # type: ignore[attr-defined]


# --- tools ----------------------------------------------------------------------------------------------------


def _around_tool(function: Any) -> Any:
    signature = inspect.signature(function)

    @functools.wraps(function)
    async def _execute_tool_call(*args: Any, **options: Any) -> Any:
        voices = voices_here()
        if not voices:
            return await function(*args, **options)
        call_id = str(signature.bind(*args, **options).arguments["tool_call"].id)
        try:
            with inside(voices, call_id):
                done = await function(*args, **options)
        except (Exception, asyncio.CancelledError) as error:
            for voice in voices:
                await voice.tool_done(call_id, error=error)
            raise
        for voice in voices:
            await voice.tool_done(call_id, done[1])
        return done

    return _execute_tool_call


def _around_function(function: Any) -> Any:
    @functools.wraps(function)
    async def run(self: Any, *args: Any, **options: Any) -> Any:
        called = getattr(self, "_func", None)
        if called is not None and not inspect.iscoroutinefunction(called):
            threaded = in_thread(called)
            if threaded is not None:
                self = copy.copy(self)
                self._func = threaded
        return await function(self, *args, **options)

    return run


# --- models ---------------------------------------------------------------------------------------------------


def _asking() -> list[Voice]:
    return [] if ASKING.get() else voices_here()


def _around_create(function: Any) -> Any:
    @functools.wraps(function)
    async def create(self: Any, *args: Any, **options: Any) -> Any:
        voices = _asking()
        if not voices:
            return await function(self, *args, **options)
        began, token = time.time_ns(), ASKING.set(True)
        try:
            result = await function(self, *args, **options)
        except (Exception, asyncio.CancelledError) as error:
            for voice in voices:
                await voice.asked_model(self, began, error=error)
            raise
        finally:
            ASKING.reset(token)
        for voice in voices:
            await voice.asked_model(self, began, result)
        return result

    return create


def _around_create_stream(function: Any) -> Any:
    @functools.wraps(function)
    def create_stream(self: Any, *args: Any, **options: Any) -> Any:
        stream = function(self, *args, **options)
        voices = _asking()
        return _asked(self, stream, voices) if voices else stream

    return create_stream


async def _asked(client: Any, stream: Any, voices: list[Voice]) -> AsyncIterator[Any]:
    began, items = time.time_ns(), stream.__aiter__()
    try:
        while True:
            token = ASKING.set(True)
            try:
                item = await items.__anext__()
            except StopAsyncIteration:
                return
            except (Exception, asyncio.CancelledError) as error:
                for voice in voices:
                    await voice.asked_model(client, began, error=error)
                raise
            finally:
                ASKING.reset(token)
            if hasattr(item, "usage"):
                for voice in voices:
                    await voice.asked_model(client, began, item)
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()

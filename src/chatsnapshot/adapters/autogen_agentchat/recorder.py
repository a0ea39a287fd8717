"""``AgentChatRecorder``: records the runs of AutoGen AgentChat while their streams are read."""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from chatsnapshot.adapters.autogen_agentchat.given import Given
from chatsnapshot.adapters.autogen_agentchat.here import silent_here, speaking, voices_here
from chatsnapshot.adapters.autogen_agentchat.hooks import agentchat, hooks, pulled
from chatsnapshot.adapters.autogen_agentchat.voices import Voice
from chatsnapshot.adapters.autogen_agentchat.watching import Watch
from chatsnapshot.adapters.custom import RuntimeRecorder

__all__ = ["AgentChatRecorder", "install"]

T = TypeVar("T")


class AgentChatRecorder(RuntimeRecorder):
    """Records what agents and teams of AutoGen AgentChat do.

    >>> recorder = AgentChatRecorder(ledger)
    >>> async for item in recorder.tee(team.run_stream(task="Book a flight")):
    ...     print(item)
    >>> team = recorder.attach(team)            # or: every run and run_stream of this team from here on

    A call of ``run_stream`` or ``run`` is a run, its agents the ones who speak in it. Agents and teams keep what was
    said: the runs of one of them are one conversation, under ``correlation_id``, or under ``conversation``, or under a
    new one. A team inside of a team, ``AgentTool``, ``TeamTool`` and whatever runs in a tool are child runs with a
    correlation of their own.

    Raises where ``autogen-agentchat`` is missing or lacks what recording needs. For the other arguments see
    :class:`~chatsnapshot.adapters.custom.RuntimeRecorder`.
    """

    runtime = "autogen_agentchat"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        agentchat()
        self._conversations: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def tee(
        self, stream: AsyncIterable[T], *, conversation: object = None, agent: str | None = None
    ) -> AsyncIterator[T]:
        """The same items, recorded while they are read: one is recorded before it is handed on.

        ``stream`` is what ``run_stream`` gave. ``conversation`` is the correlation of the run, for an agent or a team
        whose state was loaded: the id that the conversation had before. ``agent`` names a stream that is no generator
        of ``run_stream`` itself. Raises :class:`TypeError` for anything that is no stream.
        """
        if not hasattr(stream, "__aiter__"):
            raise TypeError(f"tee() takes the stream that run_stream(...) gives, not {type(stream).__name__}")
        source, given = _sources.get(stream) or (stream, Given.of_stream(stream, agent))
        return _teed(self, stream, source, given, None if conversation is None else str(conversation))

    def attach(self, runner: T, *, conversation: object = None) -> T:
        """Record every ``run`` and ``run_stream`` of this agent or team from here on; gives it back.

        Raises :class:`TypeError` for anything else.
        """
        known = agentchat()
        if not isinstance(runner, (known.agent, known.team)):
            raise TypeError(f"attach() takes an agent or a team of AgentChat, not {type(runner).__name__}")
        if conversation is not None:
            self.remember(runner, str(conversation))
        recorders = _attached.setdefault(runner, [])
        if not any(one() is self for one in recorders):
            recorders.append(weakref.ref(self))
            hooks.hold()
            hooks.discover(runner)
            weakref.finalize(runner, hooks.release).atexit = False
        return runner

    # --- conversations ------------------------------------------------------------------------------------

    def conversation_of(self, runner: Any) -> str | None:
        """The correlation that an agent or a team has had in this recorder."""
        return None if runner is None else self._conversations.get(runner)

    def remember(self, runner: Any, correlation_id: str) -> None:
        """What an agent or a team does from here on belongs to this conversation."""
        if runner is not None:
            self._conversations[runner] = correlation_id

    def voice_here(self) -> Voice | None:
        """Who speaks here, in a run that this records."""
        return next((voice for voice in voices_here() if voice.watch.recorder is self), None)


_installed: list[AgentChatRecorder] = []
_attached: weakref.WeakKeyDictionary[Any, list[weakref.ref[AgentChatRecorder]]] = weakref.WeakKeyDictionary()
_sources: weakref.WeakKeyDictionary[Any, tuple[Any, Given]] = weakref.WeakKeyDictionary()
"""Our streams to the one of the runtime that they are of."""


def install(recorder: AgentChatRecorder) -> Callable[[], None]:
    """Record every agent and team of the process from here on; gives the function that undoes it.

    Raises :class:`TypeError` for another kind of recorder.
    """
    if not isinstance(recorder, AgentChatRecorder):
        raise TypeError(f"install() needs an AgentChatRecorder, not {type(recorder).__name__}")
    hooks.hold()
    _installed.append(recorder)
    done: list[bool] = []

    def undo() -> None:
        if not done:
            done.append(True)
            _installed.remove(recorder)
            hooks.release()

    return undo


def _recorders_of(runner: Any) -> list[AgentChatRecorder]:
    """Who records a call of ``run`` or ``run_stream`` that is made here."""
    around = voices_here()
    if any(voice.watch.given.runner is runner for voice in around):
        return []  # from within: a run that is made of its own stream
    attached = [one for known in _attached.get(runner, ()) if (one := known()) is not None]
    inherited = [voice.watch.recorder for voice in around]
    found = dict.fromkeys([*inherited, *attached, *_installed])
    return [one for one in found if not silent_here(one)]


def _teed(
    recorder: AgentChatRecorder, stream: Any, source: Any, given: Given, conversation: str | None = None
) -> AsyncIterator[Any]:
    made = _recorded(recorder, stream, f"{id(source):x}", given, conversation)
    _sources[made] = (source, given)
    return made


async def _recorded(
    recorder: AgentChatRecorder, stream: Any, key: str, given: Given, conversation: str | None
) -> AsyncIterator[Any]:
    watch: Watch | None = None
    with recorder.guarded():
        watch = await Watch.begin(recorder, given, key, conversation)
    items = pulled(stream, {id(recorder): None if watch is None else watch.main})
    try:
        async for item in items:
            if watch is not None:
                await watch.saw(item)
            yield item
    except BaseException as error:
        if watch is not None:
            await watch.over(error)
        raise
    finally:
        await items.aclose()  # type: ignore[attr-defined]
    if watch is not None:
        await watch.over(None)


def _around_run_stream(function: Any) -> Any:
    @functools.wraps(function)
    def run_stream(self: Any, *args: Any, **options: Any) -> Any:
        stream = source = function(self, *args, **options)
        recorders = _recorders_of(self)
        if recorders:
            given = Given(self, options.get("task"))
            for recorder in recorders:
                stream = _teed(recorder, stream, source, given)
        return stream

    return run_stream


def _around_run(function: Any) -> Any:
    @functools.wraps(function)
    async def run(self: Any, *args: Any, **options: Any) -> Any:
        recorders = _recorders_of(self)
        if not recorders:
            return await function(self, *args, **options)
        given, mark = Given(self, options.get("task"), streamed=False), object()
        watches: list[Watch] = []
        with ExitStack() as stack:
            for recorder in recorders:
                watch: Watch | None = None
                with recorder.guarded():
                    watch = await Watch.begin(recorder, given, f"{id(mark):x}")
                stack.enter_context(speaking({id(recorder): None if watch is None else watch.main}))
                watches += [] if watch is None else [watch]
            try:
                result = await function(self, *args, **options)
            except BaseException as error:
                for watch in watches:
                    await watch.over(error)
                raise
        for watch in watches:
            await watch.saw(result)
            await watch.over(None)
        return result

    return run


hooks.around_run = _around_run
hooks.around_run_stream = _around_run_stream

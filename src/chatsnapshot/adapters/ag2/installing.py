"""Records every AG2 run of the process: both lines, without a word in the program (auto mode)."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from chatsnapshot.adapters.ag2.recorder import AG2Recorder
from chatsnapshot.adapters.ag2.tapping import recording_on
from chatsnapshot.errors import LedgerError

__all__ = ["AG2Recorder", "install"]

_MARK = "__chatsnapshot_recorder__"
_GIVE_RUNS = ("run", "a_run", "run_iter", "a_run_iter", "sequential_run", "a_sequential_run")
_GIVE_RUNS_OF_GROUPS = ("run_group_chat", "a_run_group_chat", "run_group_chat_iter", "a_run_group_chat_iter")
_END_FIRST = ("initiate_chat", "a_initiate_chat", "initiate_chats", "a_initiate_chats")
_END_FIRST_OF_GROUPS = ("initiate_group_chat", "a_initiate_group_chat", "initiate_chats", "a_initiate_chats")

Undo = Callable[[], None]


def install(recorder: AG2Recorder) -> Undo:
    """Record every run of the line, or lines, that the program has imported; gives what ends that.

    Agents made before are recorded too. Raises :class:`LedgerError` where the AG2 there is has nothing to hold on to.
    """
    undo: list[Undo] = []
    for root in ("ag2", "autogen.beta"):
        agents = sys.modules.get(f"{root}.agent")
        if agents is not None and not hasattr(agents.Agent, _MARK):
            undo += _streamed(recorder, agents.Agent)
    classic = sys.modules.get("autogen.agentchat.conversable_agent")
    if classic is not None and not hasattr(classic.ConversableAgent, _MARK):
        undo += _classic(recorder, classic.ConversableAgent)

    def undone() -> None:
        for one in reversed(undo):
            one()

    return undone


# --- AG2 1.x ---------------------------------------------------------------------------------------------


def _streamed(recorder: AG2Recorder, agent_class: Any) -> list[Undo]:
    """Give every turn one middleware more, where AG2 gathers those of the call."""
    name = next((one for one in ("_drive_scope", "_execute") if hasattr(agent_class, one)), None)
    if name is None:
        raise LedgerError(
            "this AG2 cannot be recorded by itself; give its agents middleware=[recorder.middleware]"
        )
    gathers = getattr(agent_class, name)

    @functools.wraps(gathers)
    def gathering(self: Any, *args: Any, **options: Any) -> Any:
        named = recorder.named(str(getattr(self, "name", "agent")))
        options["additional_middleware"] = (*options.get("additional_middleware", ()), named)
        return gathers(self, *args, **options)

    setattr(agent_class, name, gathering)
    setattr(agent_class, _MARK, recorder)

    def undo() -> None:
        setattr(agent_class, name, gathers)
        delattr(agent_class, _MARK)

    return [undo]


# --- the classic line ------------------------------------------------------------------------------------


def _classic(recorder: AG2Recorder, agent_class: Any) -> list[Undo]:
    undo = [_replaced(agent_class, name, _watched(recorder)) for name in _GIVE_RUNS]
    undo += [_replaced(agent_class, name, _teed(recorder)) for name in _END_FIRST]
    setattr(agent_class, _MARK, recorder)
    undo.append(lambda: delattr(agent_class, _MARK))
    for wrapped, names in (
        (_watched(recorder), _GIVE_RUNS_OF_GROUPS),
        (_teed(recorder), _END_FIRST_OF_GROUPS),
    ):
        for name in names:
            undo += _replaced_everywhere(name, wrapped)
    return undo


Wrapping = Callable[[Any], Any]


def _replaced(holder: Any, name: str, wrapped: Wrapping) -> Undo:
    before = vars(holder).get(name)
    if before is None:
        return lambda: None
    setattr(holder, name, wrapped(before))
    return lambda: setattr(holder, name, before)


def _replaced_everywhere(name: str, wrapped: Wrapping) -> list[Undo]:
    """A function of AG2 under its name in each module of AG2 that has it."""
    holders = [
        module
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] == "autogen" and inspect.isfunction(vars(module).get(name))
    ]
    made: dict[Any, Any] = {}
    undo: list[Undo] = []
    for module in holders:
        before = vars(module)[name]
        replacement = made.setdefault(before, wrapped(before))
        setattr(module, name, replacement)
        undo.append(functools.partial(setattr, module, name, before))
    return undo


def _watched(recorder: AG2Recorder) -> Wrapping:
    """Around what gives a run back before it is over."""

    def wrapping(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            given = function(*args, **options)
            if _recorded_here(recorder):
                return given
            try:
                return recorder.watch(given)
            except Exception as error:
                recorder.safe.note(error)
                return given

        return call

    return wrapping


def _teed(recorder: AG2Recorder) -> Wrapping:
    """Around what gives nothing back before it is over."""

    def wrapping(function: Any) -> Any:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def acall(*args: Any, **options: Any) -> Any:
                if _recorded_here(recorder):
                    return await function(*args, **options)
                with recorder.tee() as chat:
                    return chat.returned(await function(*args, **options))

            return acall

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if _recorded_here(recorder):
                return function(*args, **options)
            with recorder.tee() as chat:
                return chat.returned(function(*args, **options))

        return call

    return wrapping


def _recorded_here(recorder: AG2Recorder) -> bool:
    """Whether this runs inside of a chat that is recorded, or will be: that of a run in a thread of its own."""
    try:
        stream = sys.modules["autogen.io"].IOStream.get_default()
    except Exception:
        return True
    return recording_on(stream, recorder.ledger) is not None or "Thread" in type(stream).__name__

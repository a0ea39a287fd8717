"""Where code of AgentChat runs: in which recorded run, spoken by whom, and inside of which tool call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatsnapshot.adapters.autogen_agentchat.voices import Voice
    from chatsnapshot.adapters.custom import RuntimeRecorder

__all__ = ["ASKING", "in_thread", "inside", "silent_here", "speaking", "voices_here"]

Voices = Mapping[int, "Voice | None"]

_voices: ContextVar[Voices | None] = ContextVar("chatsnapshot_agentchat_voices", default=None)
"""Who speaks, for each recorder (by identity); ``None`` where it keeps silent."""
_tool: ContextVar[tuple[Voices, str] | None] = ContextVar("chatsnapshot_agentchat_tool", default=None)
"""The tool call that is being executed, and who called."""
ASKING: ContextVar[bool] = ContextVar("chatsnapshot_agentchat_asking", default=False)
"""Whether a model is being asked: a client inside of a client is not told of."""


def voices_here() -> list[Voice]:
    """Who speaks here, in runs that are recorded and go on."""
    found = (_voices.get() or {}).values()
    return [voice for voice in found if voice is not None and voice.goes_on]


def silent_here(recorder: RuntimeRecorder) -> bool:
    """Whether a recorder leaves the run around to another one."""
    return (_voices.get() or {}).get(id(recorder), recorder) is None


@contextmanager
def speaking(voices: Voices) -> Iterator[None]:
    """Around code that these speak in."""
    token = _voices.set({**(_voices.get() or {}), **voices})
    try:
        yield
    finally:
        with suppress(ValueError):  # a stream that is closed in another context than it was read in
            _voices.reset(token)


@contextmanager
def inside(voices: list[Voice], call_id: str) -> Iterator[None]:
    """Around the execution of a tool."""
    mine = {id(voice.watch.recorder): voice for voice in voices}
    token = _tool.set((mine, call_id))
    try:
        with _entered(mine, call_id):
            yield
    finally:
        _tool.reset(token)


@contextmanager
def _entered(voices: Voices, call_id: str) -> Iterator[None]:
    with ExitStack() as stack:
        for voice in voices.values():
            if voice is not None:
                stack.enter_context(voice.run.inside(call_id))
        yield


def in_thread(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A tool's function for another thread, which has a context of its own; ``None`` outside of a recorded call."""
    here = _tool.get()
    if here is None:
        return None
    voices, call_id = here

    def called(*args: Any, **options: Any) -> Any:
        with speaking(voices), _entered(voices, call_id):
            return function(*args, **options)

    return called

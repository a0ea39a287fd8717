"""``tee()``: records the chats of the classic line that give nothing back before they are over.

``initiate_chat`` and its like tell their events to AG2's default stream; while a tee is open it is that stream
and hands everything on to the one before.
"""

from __future__ import annotations

import importlib
import inspect
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.nesting import Recording
from chatsnapshot.adapters.ag2.tapping import Passing, heard, mark
from chatsnapshot.adapters.ag2.watching import new_recording
from chatsnapshot.adapters.plain import plain

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["Tee"]


class Tee(AbstractContextManager["Tee"]):
    """Records what is said while it is open as one run; made by :meth:`AG2Recorder.tee`.

    The run ends with the block: completed, failed when it raises, cancelled when it is interrupted. Chats in
    sequence and chats inside chats are runs of their own below it. Works in ``async def`` as it is.
    """

    def __init__(
        self, recorder: AG2Recorder, options: Mapping[str, Any], holders: Sequence[Any] = ()
    ) -> None:
        self._recorder = recorder
        self._options = options
        self._holders = list(holders)
        self._recording: Recording | None = None
        self._default: AbstractContextManager[Any] | None = None
        self._results: dict[str, Any] = {}

    def __enter__(self) -> Tee:
        try:
            recorder = self._recorder
            io = importlib.import_module("autogen.io")
            recording = new_recording(
                recorder, str(uuid.uuid4()), agents=[], chats_first=True, **self._options
            )
            recording.holders = self._holders
            stream = _Stream(io.IOStream.get_default(), recording)
            self._default = io.IOStream.set_default(stream)
            self._default.__enter__()
            self._recording = recording
        except Exception as error:
            self._recorder.safe.note(error)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if self._recording is not None and self._default is not None:
                self._default.__exit__(None, None, None)
        except Exception as mistake:
            self._recorder.safe.note(mistake)
        if self._recording is not None:
            self._recording.finish(error, self._results)

    def returned(self, result: Any) -> Any:
        """Give it what the chat returned, for the summary, cost and last speaker of the run; returns the same."""
        try:
            self._results = _results(result)
        except Exception as error:
            self._recorder.safe.note(error)
        return result


class _Stream:
    """AG2's default stream while a tee is open."""

    def __init__(self, inner: Any, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording
        self._passing = recording.recorder.ledger
        mark(self, recording)
        asks = self._a_asks if inspect.iscoroutinefunction(inner.input) else self._asks
        self.input = heard(asks, recording)

    def send(self, message: Any) -> None:
        self._recording.take(message)
        with Passing(self._passing):
            self._inner.send(message)

    def print(self, *objects: Any, **options: Any) -> None:
        self._inner.print(*objects, **options)

    def _asks(self, prompt: str = "", *, password: bool = False) -> Any:
        self._ask(prompt, password)
        with Passing(self._passing):
            return self._inner.input(prompt, password=password)

    async def _a_asks(self, prompt: str = "", *, password: bool = False) -> Any:
        self._ask(prompt, password)
        with Passing(self._passing):
            return await self._inner.input(prompt, password=password)

    def _ask(self, prompt: str, password: bool) -> None:
        """The console asks without an event: the record has the one that other streams tell."""
        try:
            events = importlib.import_module("autogen.events.agent_events")
            event = events.InputRequestEvent(prompt=prompt, password=password)
        except Exception as error:
            self._recording.recorder.safe.note(error)
        else:
            self._recording.take(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _results(result: Any) -> dict[str, Any]:
    """The end of a run out of a chat's result, that of a group chat, or those of several chats."""
    if isinstance(result, tuple) and len(result) == 3:
        chat, variables, speaker = result
        told = {"variables": plain(variables.to_dict()), "last_speaker": getattr(speaker, "name", None)}
        return _results(chat) | {key: value for key, value in told.items() if value}
    if isinstance(result, Mapping):
        result = result.values()
    if isinstance(result, Iterable):
        return {"output": [one.summary for one in result]}
    history = result.chat_history
    return {
        "output": result.summary,
        "cost": plain(result.cost),
        "last_speaker": history[-1].get("name") if history else None,
    }

"""Watching what the classic line gives back for a run: ``run``, ``run_iter``, group chats, sequences, async too."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.classicrun import ClassicRun, derived_id
from chatsnapshot.adapters.ag2.nesting import Recording
from chatsnapshot.adapters.ag2.tapping import recording_on, tap
from chatsnapshot.adapters.ag2.watchdog import wake_lost_steps
from chatsnapshot.adapters.plain import header_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["autogen_version", "new_recording", "watch"]


def watch(
    recorder: AG2Recorder,
    call: Any,
    *,
    correlation_id: object = None,
    cause: str | None = None,
    name: str | None = None,
) -> Any:
    """Record a run; gives back the very object, an awaitable for an awaitable, an iterator for an iterator.

    Raises :class:`TypeError` for what is none of these; a mistake in recording is counted, never raised.
    """
    options: dict[str, Any] = {"correlation_id": correlation_id, "cause": cause, "name": name}
    if inspect.isawaitable(call):
        return _awaited(recorder, call, options)
    if isinstance(call, (list, tuple)) and call and all(hasattr(one, "iostream") for one in call):
        previous = None
        for one in call:
            previous = _response(recorder, one, options, previous)
        return call
    if hasattr(call, "iostream"):
        _response(recorder, call, options, None)
        return call
    if hasattr(call, "__aiter__"):
        return _a_capture(recorder, call, options)
    if hasattr(call, "__iter__") and not isinstance(call, (str, bytes, dict)):
        return _capture(recorder, call, options)
    raise TypeError(
        f"watch() takes what run(), run_iter(), run_group_chat() and their like give, not {type(call).__name__}; "
        "record initiate_chat() with tee()"
    )


def new_recording(
    recorder: AG2Recorder,
    own_id: str,
    *,
    agents: list[str],
    correlation_id: object,
    cause: str | None,
    name: str | None,
    live: bool = True,
    chats_first: bool = False,
    run: ClassicRun | None = None,
) -> Recording:
    """What records a call that begins here: inside a tool, a scope or a run of the ledger it is a child.

    ``run`` is one that goes on.
    """
    if run is not None:
        recording = Recording(recorder, run, cause=None, live=live, chats_first=chats_first)
        recording.version = autogen_version()
        return recording
    parent, inside = recorder.parent_here() if live else (None, False)
    given = recorder.correlation_id if correlation_id is None else header_text(correlation_id)
    correlation = own_id if inside or given is None else given
    run_id = None
    if live and (
        (parent is not None and parent.run_id == correlation)
        or (correlation != own_id and not recorder.first_run(correlation))
    ):
        run_id = own_id
    run = ClassicRun(
        ledger=recorder.ledger,
        correlation_id=correlation,
        run_id=run_id,
        agents=agents,
        name=header_text(name) if name else None,
        parent=parent,
        dated=live,
    )
    first_cause = cause or (recorder.cause if parent is None else None)
    recording = Recording(recorder, run, cause=first_cause, live=live, chats_first=chats_first)
    recording.version = autogen_version()
    return recording


def autogen_version() -> str | None:
    """The version of the runtime, where it can be imported."""
    try:
        return str(importlib.import_module("autogen").__version__)
    except Exception:
        return None


def _response(
    recorder: AG2Recorder, response: Any, options: dict[str, Any], previous: Recording | None
) -> Recording | None:
    try:
        stream = response.iostream
        known = recording_on(stream, recorder.ledger)
        if known is not None:
            return known
        agents = [str(getattr(agent, "name", agent)) for agent in response.agents]
        recording = new_recording(recorder, str(response.uuid), agents=agents, **options)
        recording.previous = previous
        recording.holders = list(response.agents)
        controller = getattr(stream, "_step_controller", None)
        if controller is not None:
            wake_lost_steps(stream.input_stream, controller)
        _notice_interrupts(response, recording)
        if isinstance(stream.input_stream, asyncio.Queue):
            recording.follows_task = True
        tap(stream, recording)
    except Exception as error:
        recorder.safe.note(error)
        return None
    return recording


def _notice_interrupts(response: Any, recording: Recording) -> None:
    """A reader that is cancelled or interrupted while it waits for an event ends the run in the record.

    A reader that only stops reading does not: AG2 goes on with the run, and so does the record.
    """
    for attribute in ("_generator", "_queue_generator"):
        original = getattr(response, attribute, None)
        if original is not None:
            observe = _a_observed if inspect.isasyncgenfunction(original) else _observed
            setattr(response, attribute, observe(original, recording))


def _observed(original: Any, recording: Recording) -> Any:
    def events(*args: Any) -> Iterator[Any]:
        try:
            yield from original(*args)
        except BaseException as error:
            recording.interrupted(error)
            raise

    return events


def _a_observed(original: Any, recording: Recording) -> Any:
    async def events(*args: Any) -> AsyncIterator[Any]:
        inner = original(*args)
        try:
            async for event in inner:
                yield event
        except BaseException as error:
            recording.interrupted(error)
            raise
        finally:
            await inner.aclose()

    return events


async def _awaited(recorder: AG2Recorder, call: Awaitable[Any], options: dict[str, Any]) -> Any:
    return watch(recorder, await call, **options)


# --- events that somebody else has taken --------------------------------------------------------------------


class _Capture:
    """Records a stream from its first event on; the recording is over with the stream, and when that fails."""

    def __init__(self, recorder: AG2Recorder, options: dict[str, Any]) -> None:
        self._recorder = recorder
        self._options = options
        self._recording: Recording | None = None

    def take(self, event: Any) -> None:
        self._recording = self._recording or _captured(self._recorder, event, self._options)
        if self._recording is not None:
            self._recording.take(event)

    @contextmanager
    def reading(self) -> Iterator[None]:
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:
            self._finish(error)
            raise
        self._finish(None)

    def _finish(self, error: BaseException | None) -> None:
        if self._recording is not None:
            self._recording.finish(error)


def _capture(recorder: AG2Recorder, events: Any, options: dict[str, Any]) -> Iterator[Any]:
    capture = _Capture(recorder, options)
    with capture.reading():
        for event in events:
            capture.take(event)
            yield event


async def _a_capture(recorder: AG2Recorder, events: Any, options: dict[str, Any]) -> AsyncIterator[Any]:
    capture = _Capture(recorder, options)
    with capture.reading():
        async for event in events:
            capture.take(event)
            yield event


def _captured(recorder: AG2Recorder, first: Any, options: dict[str, Any]) -> Recording | None:
    try:
        own_id = derived_id(first, "capture") or str(uuid.uuid4())
        return new_recording(recorder, own_id, agents=[], live=False, **options)
    except Exception as error:
        recorder.safe.note(error)
        return None

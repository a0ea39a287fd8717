"""Query engines, chat engines and models that call tools: each call is a run, which a stream ends when it was read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.llama_index.telling import (
    given_first,
    output_of,
    parts_of,
    query_text,
    role_of,
    words_of,
)
from chatsnapshot.adapters.llama_index.watched import SILENT, Place, Watched, begin
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["answered", "broke", "ended", "engine", "read", "stream_of"]


def engine(
    recorder: LlamaIndexRecorder, id_: str, method: str, bound: Any, instance: Any, above: Place | None
) -> Place:
    """An engine is asked, or a model that may call tools."""
    name = type(instance).__name__
    run = begin(recorder, id_, name, above, correlation_id=_session(instance))
    if run is None:
        return SILENT

    def start(run: ObservedRun) -> Event:
        return run.started(streaming=True if "stream" in method else None)

    watched = Watched(recorder, run, start)
    place = Place("engine", id_, watched, above, name)
    place.facts["instance"] = instance
    watched.tells_prompts = method.endswith("predict_and_call")
    with watched.at(place) as (run, events):
        if not watched.tells_prompts:
            for message in bound.arguments.get("chat_history") or ():
                events.append(run.message(role_of(message), parts_of(message)))
            asked = given_first(bound)
            said = words_of(asked) if hasattr(asked, "blocks") else query_text(asked)
            events.append(run.message("user", [text(said)]))
    return place


def _session(instance: Any) -> str | None:
    """The conversation of a chat engine that has a memory with an id."""
    session = getattr(getattr(instance, "_memory", None), "session_id", None)
    return session if isinstance(session, str) and session else None


def answered(place: Place, result: Any) -> bool:
    """The engine gave its answer; whether the run is over, and not a stream that is still read."""
    watched = place.watched
    with watched.lock:
        output = output_of(result)
        if output is None and (watched.streams or stream_of(result) is not None):
            watched.closing = True
            return False
    watched.end(lambda run: run.completed(output))
    return True


def stream_of(result: Any) -> Any:
    """The stream of an answer that is read later, and whose model may be asked only then."""
    stream = getattr(result, "response_gen", None)
    return stream if hasattr(stream, "gi_frame") or hasattr(stream, "ag_frame") else None


def read(place: Place, error: BaseException | None) -> bool:
    """An answer of a model was read to its end; whether its engine's run is over with it."""
    watched = place.watched
    with watched.lock:
        watched.streams -= 1
        if not watched.closing or watched.streams:
            return False
        watched.closing = False
    watched.end(lambda run: run.completed(watched.said) if error is None else ended(run, error))
    return True


def broke(place: Place, error: BaseException) -> None:
    """The engine raised."""
    place.watched.end(lambda run: ended(run, error))


def ended(run: ObservedRun, error: BaseException) -> Event | None:
    """The end of a run by an exception: cancelled, or failed."""
    if isinstance(error, GeneratorExit):
        return run.cancelled("the stream was closed before its end")
    if isinstance(error, asyncio.CancelledError):
        return run.cancelled("cancelled")
    return run.failed(error)

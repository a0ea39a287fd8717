"""Calls of models, tools and retrievers, inside of graphs and by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from chatsnapshot.adapters.langgraph.chains import ask, hand_over
from chatsnapshot.adapters.langgraph.place import Facts, Inside, Place
from chatsnapshot.adapters.langgraph.telling import (
    answer_of,
    commands_in,
    is_message,
    model_facts,
    result_of,
    said,
)
from chatsnapshot.adapters.langgraph.watch import Watch
from chatsnapshot.adapters.observed import Unanswered
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.clock import time_text

__all__ = [
    "model_end",
    "model_error",
    "model_start",
    "retriever_end",
    "retriever_start",
    "tool_end",
    "tool_error",
    "tool_start",
]


def _begin(watch: Watch, kind: str, facts: Facts, name: str) -> tuple[Place, bool] | None:
    """The place of a call; where it is in no run, or a model inside of a tool, a run of its own begins."""
    if watch.ignored(facts):
        return None
    above = watch.above(facts)
    if above is None or (above.kind == "tool" and kind == "model"):
        begun = watch.begin(kind, facts, name)
        return None if begun is None else (begun[0], True)
    return watch.put(Place(kind, facts, above, above.run, above.tree, above.heard)), False


# --- models -----------------------------------------------------------------------------------------------


def model_start(watch: Watch, facts: Facts, name: str, messages: Sequence[Any]) -> None:
    """A model is asked; ``messages`` are messages, or prompts of text."""
    begun = _begin(watch, "model", facts, name)
    if begun is None:
        return
    place, own = begun
    with Inside(place) as run:
        events: list[Event] = [watch.started(place, None)] if own else []
        prompts = [one for one in messages if isinstance(one, str)]
        asked = [one for one in messages if not isinstance(one, str)]
        if own or not place.root.is_graph:
            events += watch.given(place.root, [one for one in asked if is_message(one)])
        else:
            events += watch.prompted(place, asked)
        events += [run.message("user", [text(prompt)]) for prompt in prompts]
        watch.recorder.record(*events)


def model_end(watch: Watch, run_id: Any, response: Any) -> None:
    """A model answered: one event with tokens and time, one with what it said."""
    place = watch.leave(run_id)
    if place is None:
        return
    message, words = answer_of(response)
    with Inside(place) as run:
        call = run.model_call(**_asked(place), **model_facts(response, place.facts.metadata))
        answer: Event | None = None
        if message is not None:
            answer = watch.message(place, message)
        elif words is not None:
            answer = run.message("assistant", [text(words)])
        if place.is_run:
            output = said(message).text if message is not None else words
            watch.end(place, call, answer, run.completed(output))
        else:
            watch.recorder.record(call, answer)


def model_error(watch: Watch, run_id: Any, error: BaseException) -> None:
    """A model failed, or was cancelled."""
    place = watch.leave(run_id)
    if place is None:
        return
    stopped = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit))
    told: dict[str, Any] = {"status": "cancelled"} if stopped else {"error": error}
    facts = model_facts(getattr(error, "response", None), place.facts.metadata)
    with Inside(place) as run:
        call = run.model_call(**_asked(place), **facts, **told)
        if place.is_run:
            watch.end(place, call, run.cancelled(type(error).__name__) if stopped else run.failed(error))
        else:
            watch.recorder.record(call)


def _asked(place: Place) -> dict[str, Any]:
    """When a model was asked, and for how long; whatever it is in has had its answer by that."""
    level: Place | None = place
    while level is not None and level.run is place.run:
        level.asked = True
        if level is not place.context:
            level.unanswered = Unanswered()  # an inner graph answered in its place
        level = level.above
    return {"started_at": time_text(place.began_ns), "duration_ns": place.duration_ns}


# --- tools ------------------------------------------------------------------------------------------------


def tool_start(watch: Watch, facts: Facts, name: str, arguments: Any, call_id: str | None) -> None:
    """A tool is called; what runs inside of it is caused by the call."""
    begun = _begin(watch, "tool", facts, name)
    if begun is None:
        return
    place, own = begun
    place.name, place.call_id = name, call_id or str(facts.run_id)
    with Inside(place) as run:
        events: list[Event] = [watch.started(place, plain(arguments))] if own else []
        if run.resumed and place.call_id in run.calls:
            # It was interrupted, and is called again from its beginning: still the call that the run before made.
            run.last = run.calls[place.call_id]
        else:
            place.last = place.above.context.last if place.above else place.last
            run.last = place.last or run.last
            events.append(run.tool_call(place.call_id, name, arguments))
        place.last = run.last
        watch.recorder.record(*events)
        watch.enter(place)


def tool_end(watch: Watch, run_id: Any, output: Any) -> None:
    """A tool answered."""
    place = watch.leave(run_id)
    if place is None:
        return
    result, failed = result_of(output)
    _result(watch, place, {"result": result, "is_error": failed}, output)


def tool_error(watch: Watch, run_id: Any, error: BaseException) -> None:
    """A tool failed, or asks a person: then it has no result yet."""
    place = watch.leave(run_id)
    if place is None:
        return
    if any(kind.__name__ == "GraphInterrupt" for kind in type(error).__mro__):
        ask(watch, place, error)
        if place.is_run:
            watch.end(place, place.run.paused("interrupt"))
        elif place.above is not None and place.last is not None:
            place.above.context.last = place.last
        return
    _result(watch, place, {"error": error}, None, error)


def _result(
    watch: Watch, place: Place, facts: dict[str, Any], output: Any, error: BaseException | None = None
) -> None:
    around = place if place.is_run or place.above is None else place.above
    assert place.call_id is not None
    with Inside(around) as run:
        call = run.calls.get(place.call_id)
        events: list[Event] = [run.tool_result(place.call_id, place.name, **facts)]
        place.heard.results.add(place.call_id)
        for command in commands_in(output):
            events += hand_over(place, run, command.goto, cause=call)
        if place.is_run:
            ended = run.completed(facts.get("result")) if error is None else run.failed(error)
            watch.end(place, *events, ended)
        else:
            watch.recorder.record(*events)


# --- retrievers -------------------------------------------------------------------------------------------


def retriever_start(watch: Watch, facts: Facts, name: str, query: Any) -> None:
    """Documents are searched."""
    begun = _begin(watch, "retriever", facts, name)
    if begun is None:
        return
    place, own = begun
    place.name, place.query = name, str(query)
    if own:
        with Inside(place):
            watch.recorder.record(watch.started(place, str(query)))


def retriever_end(
    watch: Watch, run_id: Any, documents: Sequence[Any], error: BaseException | None = None
) -> None:
    """Documents were found, or could not be searched."""
    place = watch.leave(run_id)
    if place is None:
        return
    found = [_document(one) for one in documents]
    with Inside(place) as run:
        payload = {
            "query": place.query,
            "name": place.name,
            "documents": found,
            "count": len(found),
            "duration_ns": place.duration_ns,
            "error": None if error is None else plain(error),
        }
        retrieval = run.event("execution.retrieval", payload)
        if place.is_run:
            watch.end(place, retrieval, run.completed(found) if error is None else run.failed(error))
        else:
            watch.recorder.record(retrieval)


def _document(document: Any) -> dict[str, Any]:
    metadata = getattr(document, "metadata", None)
    facts = {
        "id": getattr(document, "id", None),
        "content": getattr(document, "page_content", None),
        "metadata": plain(metadata) if isinstance(metadata, Mapping) and metadata else None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}

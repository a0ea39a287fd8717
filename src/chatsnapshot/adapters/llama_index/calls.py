"""Calls of models, searches and calls of tools, in the run that is around, else in a run of their own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.llama_index.engines import ended
from chatsnapshot.adapters.llama_index.telling import (
    given_first,
    is_a,
    model_name,
    node_facts,
    parts_of,
    query_text,
    role_of,
    tool_answer,
    usage_of,
    words_of,
)
from chatsnapshot.adapters.llama_index.watched import SILENT, Place, Watched, begin
from chatsnapshot.adapters.observed import ObservedRun, error_facts
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.clock import time_text, uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["answered", "found", "model", "raised", "returned", "search", "streams", "tool"]


def _placed(recorder: LlamaIndexRecorder, kind: str, id_: str, name: str, above: Place | None) -> Place:
    """A place in the run around; in none, or in a tool, one of its own."""
    if above is not None and above.kind != "tool":
        return Place(kind, id_, above.watched, above, name)
    run = begin(recorder, id_, name, above)
    if run is None:
        return SILENT
    return Place(kind, id_, Watched(recorder, run, ObservedRun.started), above, name)


# --- models -----------------------------------------------------------------------------------------------


def model(recorder: LlamaIndexRecorder, id_: str, bound: Any, instance: Any, above: Place | None) -> Place:
    """A model is asked; what it is asked with is told where nobody else tells of it."""
    place = _placed(recorder, "model", id_, type(instance).__name__, above)
    if place is SILENT:
        return place
    place.facts = {
        "model": model_name(instance),
        "started_at": time_text(time.time_ns()),
        "began": time.perf_counter_ns(),
    }
    given = given_first(bound)
    with place.watched.at(place) as (run, events):
        if place.watched.tells_prompts:
            events += _prompts(place.watched, run, given)
    return place


def _prompts(watched: Watched, run: ObservedRun, given: Any) -> list[Any]:
    """The messages that nobody said in this run yet; those of models and tools are told by themselves."""
    if isinstance(given, str):
        asked: list[tuple[str, str, list[dict[str, Any]]]] = [("user", given, [text(given)])]
    elif isinstance(given, Sequence):
        asked = [(role_of(one), words_of(one), parts_of(one)) for one in given if is_a(one, "ChatMessage")]
    else:
        return []
    made = []
    for role, words, parts in asked:
        alone = watched.last_message is None and not watched.heard
        if (role in ("system", "user") or alone) and (role, words) not in watched.heard:
            made.append((role, words, parts))
    watched.heard.update((role, words) for role, words, _ in made)
    return [run.message(role, parts) for role, _, parts in made]


def streams(place: Place) -> None:
    """The model answers in pieces, which are read after this."""
    with place.watched.lock:
        place.watched.streams += 1


def answered(place: Place, response: Any, error: BaseException | None = None) -> None:
    """A model answered, or failed to: told once."""
    watched = place.watched
    with watched.lock:
        if place.done:
            return
        place.done = True
        with watched.at(place) as (run, events):
            events += _answer(place, run, response, error)
    if place.is_run:
        if error is not None:
            watched.end(lambda run: ended(run, error))
        else:
            watched.end(lambda run: run.completed(watched.said))


def _answer(place: Place, run: ObservedRun, response: Any, error: BaseException | None) -> list[Any]:
    watched = place.watched
    raw = getattr(response, "raw", None)
    named = raw.get("model") if isinstance(raw, dict) else getattr(raw, "model", None)
    cause, watched.next_cause = watched.next_cause, None
    made = [
        run.model_call(
            model=named if isinstance(named, str) else place.facts["model"],
            started_at=place.facts["started_at"],
            duration_ns=time.perf_counter_ns() - place.facts["began"],
            usage=usage_of(response),
            error=error,
            cause=cause,
        )
    ]
    message = getattr(response, "message", None)
    if message is not None:
        watched.said = words_of(message)
        made.append(run.message("assistant", parts_of(message)))
    elif response is not None and hasattr(response, "text"):
        watched.said = str(response.text)
        made.append(run.message("assistant", [text(response.text)]))
    if len(made) > 1:
        watched.last_message = run.last
        watched.heard.add(("assistant", watched.said or ""))
        watched.pending = [
            part
            for part in made[-1]["payload"]["parts"]
            if part.get("type") == "tool_call" and part.get("id")
        ]
    return made


# --- searches ---------------------------------------------------------------------------------------------


def search(recorder: LlamaIndexRecorder, id_: str, bound: Any, instance: Any, above: Place | None) -> Place:
    """A retriever is asked; in a tool it is part of the call."""
    name = type(instance).__name__
    inside = above is not None and above.kind == "tool"
    place = Place("search", id_, above.watched, above, name) if above is not None and inside else None
    place = place or _placed(recorder, "search", id_, name, above)
    if place is not SILENT:
        place.facts = {"query": query_text(given_first(bound)), "began": time.perf_counter_ns()}
        with place.watched.at(place):
            pass  # a run of its own has begun
    return place


def found(place: Place, nodes: Any, error: BaseException | None = None) -> None:
    """Nodes were found, or could not be searched."""
    documents = [node_facts(one) for one in nodes or ()]
    with place.watched.at(place) as (run, events):
        payload = {
            "query": place.facts["query"],
            "name": place.name,
            "documents": documents,
            "count": len(documents) if error is None else None,
            "duration_ns": time.perf_counter_ns() - place.facts["began"],
            "error": None if error is None else error_facts(error),
        }
        events.append(run.event("execution.retrieval", payload))
    if place.is_run:
        if error is not None:
            place.watched.end(lambda run: ended(run, error))
        else:
            place.watched.end(lambda run: run.completed(documents))


# --- tools ------------------------------------------------------------------------------------------------


def tool(id_: str, bound: Any, instance: Any, above: Place) -> Place:
    """A tool is called, not by an agent: an engine or the code of a workflow does it."""
    name = str(getattr(getattr(instance, "metadata", None), "name", None) or type(instance).__name__)
    arguments = _arguments(bound)
    place = Place("tool", id_, above.watched, above, name)
    with above.watched.at(place.above or place) as (run, events):
        place.call_id = _asked_for(above.watched, name, plain(arguments)) or uuid_text(uuid7()[0])
        events.append(run.tool_call(place.call_id, name, arguments))
        place.last = run.last
    place.within(above.watched.run, place.last)
    return place


def _arguments(bound: Any) -> Any:
    given = dict(bound.arguments)
    named, more = given.pop("kwargs", {}), given.pop("args", ())
    if isinstance(named, dict):
        given.update(named)
    if more:
        given["args"] = list(more)
    return {key: value for key, value in given.items() if not is_a(value, "Context")}


def _asked_for(watched: Watched, name: str, arguments: Any) -> str | None:
    """The id of the call that the model's last message asked for with these words."""
    for part in watched.pending:
        if part.get("name") == name and part.get("arguments") == arguments:
            watched.pending.remove(part)
            return str(part["id"])
    return None


def returned(place: Place, output: Any) -> None:
    """A tool answered."""
    _result(place, tool_answer(output))


def raised(place: Place, error: BaseException) -> None:
    """A tool failed; one that waits for somebody has no result yet."""
    if is_a(error, "WaitingForEvent"):
        return
    _result(place, {"error": error})


def _result(place: Place, facts: dict[str, Any]) -> None:
    with place.watched.at(place.above or place) as (run, events):
        events.append(run.tool_result(place.call_id, place.name, **facts))

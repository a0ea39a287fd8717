"""OCEL 2.0 JSON: events and the runs, agents, tools, tasks and models that they are about, for process mining.

Source: OCEL 2.0 specification (Berti et al.), JSON format: ``eventTypes``, ``objectTypes``, ``events``, ``objects``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import NotFound
from chatsnapshot.events.fields import failed
from chatsnapshot.events.normaliser import (
    actor_of,
    read_agent,
    read_call,
    read_handoff,
    read_model_call,
    read_result,
    read_task,
)
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.stored import facts_of
from chatsnapshot.projections.forest import owner_at
from chatsnapshot.projections.lines import line
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.runstate import RunsState, RunState
from chatsnapshot.projections.times import happened

__all__ = ["EVENT_ATTRIBUTES", "OBJECT_TYPES", "Ocel"]

EVENT_ATTRIBUTES = {
    "position": "integer",
    "sequence": "integer",
    "correlation": "string",
    "recorded_at": "time",
    "origin": "string",
    "runtime": "string",
    "summary": "string",
    "failed": "boolean",
    "erased": "boolean",
}
"""Attribute of every event to its type."""

OBJECT_TYPES: dict[str, dict[str, str]] = {
    "run": {"name": "string", "kind": "string", "status": "string", "correlation": "string"},
    "agent": {"name": "string"},
    "tool": {"name": "string"},
    "task": {"name": "string"},
    "model": {"name": "string", "provider": "string"},
}
"""Object type to its attributes and their types."""

UNKNOWN_TIME = "events whose time is unknown"


class Relation(NamedTuple):
    """An event or object is about an object; ``qualifier`` says how."""

    object_id: str
    qualifier: str


class Ocel:
    """One JSON object. Events are written as they come; objects are held in memory until the end."""

    format = "ocel"
    what = "an object-centric event log (OCEL 2.0 JSON)"
    unit = "events"
    runs_only = False
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """Events with a known time; the others are left out, because the format needs one."""
        log = _Log()
        before = b'{"events":[\n'
        types: dict[str, None] = {}
        for entry in choice.newest():
            relations = log.take(entry)
            at = happened(entry)
            if at is None:
                tally.left_out[UNKNOWN_TIME] += 1
                continue
            types[entry.event_type] = None
            out.write(before + msgspec.json.encode(_event(entry, at, relations)))
            before = b",\n"
            tally.written += 1
        out.write(b'\n],"objects":[\n' if tally.written else b'{"events":[],"objects":[\n')
        between = b""
        for made in log.objects(choice):
            out.write(between + msgspec.json.encode(made))
            between = b",\n"
        declared = {
            "eventTypes": [{"name": name, "attributes": _declared(EVENT_ATTRIBUTES)} for name in types],
            "objectTypes": [
                {"name": name, "attributes": _declared(attributes)}
                for name, attributes in OBJECT_TYPES.items()
            ],
        }
        out.write(b"\n]," + msgspec.json.encode(declared)[1:] + b"\n")


def _declared(attributes: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in attributes.items()]


def _event(entry: LedgerEntry, at: str, relations: list[Relation]) -> dict[str, Any]:
    payload = facts_of(entry)
    values = {
        "position": entry.position,
        "sequence": entry.sequence,
        "correlation": entry.correlation_id,
        "recorded_at": entry.recorded_at,
        "origin": entry.source.origin,
        "runtime": entry.source.runtime,
        "summary": line(entry, payload) if not entry.erased else "[erased]",
        "failed": entry.event_type.endswith("_failed") or failed(payload),
        "erased": entry.erased,
    }
    return {
        "id": entry.event_id,
        "type": entry.event_type,
        "time": at,
        "attributes": [{"name": name, "value": value} for name, value in values.items()],
        "relationships": _related(relations),
    }


def _related(relations: list[Relation]) -> list[dict[str, str]]:
    return [{"objectId": one.object_id, "qualifier": one.qualifier} for one in dict.fromkeys(relations)]


class _Known(msgspec.Struct):
    """An object as it was met first; ``at`` is the time of that event."""

    type: str
    at: str | None
    values: dict[str, str]
    relations: list[Relation] = []


class _Log:
    """The objects so far. Runs are followed as the view ``runs`` follows them."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._runs: dict[str, RunsState] = {}
        self._projection = RunsProjection()
        self._calls: dict[tuple[str, str], str] = {}

    def take(self, entry: LedgerEntry) -> list[Relation]:
        """The objects that an entry is about."""
        payload = facts_of(entry)
        at = happened(entry)
        found: list[Relation] = []
        run = self._run(entry)
        if run is not None:
            found.append(Relation(run, "in"))
        agents = {actor_of(entry.event_type, payload), read_agent(payload)}
        if entry.source.origin == "agent":
            agents.add(entry.source.name)
        if entry.event_type == "execution.handoff":
            given = read_handoff(payload)
            found += self._named("agent", given.source, "from", at) + self._named(
                "agent", given.target, "to", at
            )
            agents -= {given.target}
        elif entry.event_type == "execution.message" and entry.source.origin == "ui":
            agents = set()  # a person speaks
        for name in sorted(filter(None, agents)):
            found += self._named("agent", name, "by", at)
        if entry.event_type in ("execution.tool_call", "execution.tool_result"):
            found += self._named("tool", self._tool(entry, payload), "uses", at)
        elif entry.event_type == "execution.model_call":
            call = read_model_call(payload)
            found += self._named("model", call.model, "calls", at)
            if call.model and call.provider:
                self._known[_id("model", call.model)].values.setdefault("provider", call.provider)
        elif entry.event_type.startswith("system.task_"):
            found += self._task(entry, payload, at)
        return found

    def _run(self, entry: LedgerEntry) -> str | None:
        key = self._projection.key(entry)
        if key is None:
            return None
        state = self._runs.get(key)
        state = self._projection.apply(self._projection.initial() if state is None else state, entry)
        self._runs[key] = state
        return _run_id(key, state.owners[-1][1])

    def _named(self, type: str, name: str | None, qualifier: str, at: str | None) -> list[Relation]:
        if not name:
            return []
        known = self._known.setdefault(_id(type, name), _Known(type, at, {"name": name}))
        known.at = known.at or at
        return [Relation(_id(type, name), qualifier)]

    def _tool(self, entry: LedgerEntry, payload: Any) -> str | None:
        """The name of a tool; a result that does not say it has that of the call with its id."""
        if entry.event_type == "execution.tool_call":
            call = read_call(payload)
            if call.call_id and call.name:
                self._calls[entry.correlation_id, call.call_id] = call.name
            return call.name
        result = read_result(payload)
        waiting = self._calls.pop((entry.correlation_id, result.call_id or ""), None)
        return result.name or waiting

    def _task(self, entry: LedgerEntry, payload: Any, at: str | None) -> list[Relation]:
        task = read_task(payload)
        name = task.task_id or task.name
        if not name:
            return []
        own = self._made_task(entry, name, at)
        known = self._known[own]
        if task.name:
            known.values["name"] = task.name
        for other in task.depends_on:
            known.relations.append(Relation(self._made_task(entry, other, at), "depends on"))
        if task.parent_task_id:
            known.relations.append(Relation(self._made_task(entry, task.parent_task_id, at), "part of"))
        return [Relation(own, "of")]

    def _made_task(self, entry: LedgerEntry, name: str, at: str | None) -> str:
        made = _id("task", entry.correlation_id, name)
        known = self._known.setdefault(made, _Known("task", at, {"name": name}))
        known.at = known.at or at
        return made

    def objects(self, choice: Choice) -> Iterator[dict[str, Any]]:
        """Every object, with what is known of it now."""
        for correlation, state in self._runs.items():
            above = self._above(choice, correlation, state)
            for run in state.runs.values():
                yield self._shaped_run(correlation, state, run, above)
        for made, known in self._known.items():
            yield _object(made, known.type, known.at, known.values, known.relations)

    def _above(self, choice: Choice, correlation: str, state: RunsState) -> list[Relation]:
        """The run of another correlation that this one follows from, where that is in the log."""
        if state.cause is None:
            return []
        try:
            cause = choice.get(state.cause)
        except NotFound:
            return []
        parent = self._runs.get(cause.correlation_id)
        if parent is None or cause.correlation_id == correlation:
            return []
        key = owner_at(parent, cause.position)
        return (
            []
            if key is None
            else [Relation(_run_id(cause.correlation_id, parent.runs[key].number), "part of")]
        )

    def _shaped_run(
        self, correlation: str, state: RunsState, run: RunState, above: list[Relation]
    ) -> dict[str, Any]:
        values = {"kind": run.kind, "correlation": correlation}
        if run.name:
            values["name"] = run.name
        parent = state.runs.get(run.parent or "")
        relations = above if parent is None else [Relation(_run_id(correlation, parent.number), "part of")]
        made = _object(_run_id(correlation, run.number), "run", run.first_at, values, relations)
        if run.last_at is not None:
            status = run.executions[-1].status if run.executions else "unknown"
            made["attributes"].append({"name": "status", "time": run.last_at, "value": status})
        return made


def _object(
    made: str, type: str, at: str | None, values: dict[str, str], relations: list[Relation]
) -> dict[str, Any]:
    """An object; the values of its attributes hold from a time on, so without one there are none."""
    attributes = [{"name": name, "time": at, "value": value} for name, value in values.items() if at]
    return {"id": made, "type": type, "attributes": attributes, "relationships": _related(relations)}


def _id(type: str, *names: str) -> str:
    """The id of an object, one for each type and names: blanks and slashes inside a name are percent-encoded."""
    return f"{type}:" + "/".join(quote(name, safe="@:") for name in names)


def _run_id(correlation: str, number: int) -> str:
    return _id("run", correlation) if number == 0 else _id("run", correlation, str(number + 1))

"""The transcript of an Inspect sample: calls of models and tools with their times, and what else happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from chatsnapshot.clock import parse_time
from chatsnapshot.events.messages import Call, Result
from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.chatrun import ChatRun, moment, usage_of
from chatsnapshot.importers.inspect_ai.messages import Attachments, Heard
from chatsnapshot.importers.inspect_ai.scores import Scores

__all__ = ["Steps"]

_REPEATS = frozenset({"span_begin", "span_end", "step", "sample_init", "state"})
"""Steps that only frame others, or repeat what others tell."""

_DEPTH_MAX = 20


class Steps:
    """Reads the events of one sample in their order. ``last`` is the latest time seen, ``counted``: tokens were found."""

    def __init__(
        self,
        run: ChatRun,
        offset: int,
        attached: Attachments,
        heard: Heard,
        scores: Scores,
        pool: list[Any],
        task: str | None,
    ) -> None:
        self.run = run
        self.offset = offset
        self.attached = attached
        self.heard = heard
        self.scores = scores
        self.pool = pool
        self.task = task
        self.last: str | None = None
        self.counted = False
        self._number = -1
        self._spans: dict[str, Mapping[str, Any]] = {}
        self._called: frozenset[str] = frozenset()
        self._results: list[tuple[str, int, str | None, tuple[Any, ...]]] = []
        """Results that are there later: when, a number, the agent's span, and what to tell."""
        self._lane: str | None = None
        self._causes: dict[str | None, str | None] = {}
        """The last event of each agent that works beside others, by its span."""

    def take(self, events: list[Any], depth: int = 0) -> Iterator[Piece | Problem]:
        """Every event; those inside of a tool or subtask (older logs) in its place."""
        if not depth:
            self._called = frozenset(_calls_in(events))
        for event in events:
            self._number += 1
            if not isinstance(event, Mapping):
                yield Problem(self.offset, f"step {self._number} of {self.run.correlation_id} is no object")
                continue
            at = moment(event.get("timestamp"))
            if at is not None:
                yield from self._due(at)
                self.last = max(self.last or at, at)
            yield from self._step(event, at, depth)
        if not depth:
            yield from self._due(None)

    def _step(self, event: Mapping[str, Any], at: str | None, depth: int) -> Iterator[Piece | Problem]:
        kind = name_text(event.get("event"), 64) or "unknown"
        if kind == "span_begin" and isinstance(event.get("id"), str):
            self._spans[event["id"]] = event
        self._turn_to(self._agent_span(event))
        if kind == "model":
            yield from self._model(event, at)
        elif kind == "tool":
            yield from self._tool(event, at, depth)
        elif kind == "score":
            yield from self.scores.step(self.attached.resolved(event), self._span(event, "scorer"), at)
        elif kind not in _REPEATS:
            yield self._other(kind, event, at)
            nested = event.get("events")
            if isinstance(nested, list) and depth < _DEPTH_MAX:
                yield from self.take(nested, depth + 1)

    # --- models and tools ---

    def _model(self, event: Mapping[str, Any], at: str | None) -> Iterator[Piece]:
        agent = self._agent(event)
        key, native = f"step {self._number}", _native(event)
        for number, plain in self.heard.fresh(self._input(event), self.attached):
            yield from self.run.said(
                self.offset, f"{key} input {number}", plain, native=native, at=at, later=self._called,
                agent=agent if plain.get("role") == "assistant" else None,
            )  # fmt: skip
        output = event.get("output")
        output = output if isinstance(output, Mapping) else {}
        ended = moment(event.get("completed")) or at
        yield self._model_call(event, output, agent, at, ended)
        if ended is not None:
            self.last = max(self.last or ended, ended)
        choices = output.get("choices")
        choices = choices if isinstance(choices, list) else []
        answers = [one.get("message") for one in choices if isinstance(one, Mapping)]
        for number, plain in self.heard.fresh(answers, self.attached, answers=True):
            yield from self.run.said(
                self.offset, f"{key} output {number}", plain, name=agent, agent=agent, native=native, at=ended,
                later=self._called,
            )  # fmt: skip

    def _model_call(
        self,
        event: Mapping[str, Any],
        output: Mapping[str, Any],
        agent: str | None,
        at: str | None,
        ended: str | None,
    ) -> Piece:
        model = name_text(event.get("model"))
        choices = output.get("choices")
        choice = (
            choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        )
        native = {
            **_native(event),
            **{key: event[key] for key in ("role", "cache", "retries") if event.get(key)},
        }
        call: dict[str, Any] = {
            "model": name_text(output.get("model")) or model,
            "provider": model.partition("/")[0] if model and "/" in model else None,
            "started_at": at,
            "duration_ns": _between(at, ended, output.get("time")),
            "finish_reason": choice.get("stop_reason"),
            "parameters": event.get("config") or None,
            "error": event.get("error") or output.get("error") or None,
            "agent": agent,
            "native": native,
        }
        usage = usage_of(output.get("usage"))
        if usage is not None and event.get("cache") == "read":
            native["usage_in_cache"] = usage  # an answer that was kept costs no tokens again
        elif usage is not None:
            call["usage"] = usage
            self.counted = True
        return self.run.event(
            self.offset, "execution.model_call", f"step {self._number} model", call, name=agent, at=ended
        )

    def _tool(self, event: Mapping[str, Any], at: str | None, depth: int) -> Iterator[Piece | Problem]:
        agent = self._agent(event)
        call_id = event.get("id") if isinstance(event.get("id"), str) else None
        key, native = f"step {self._number}", _native(event)
        facts = self.attached.resolved(event, ("arguments", "result", "error"))
        call = Call(name_text(event.get("function")), call_id, facts.get("arguments"))
        yield self.run.call(self.offset, f"{key} call", call, name=agent, agent=agent, native=native, at=at)
        made = self.run.cause
        if (given := name_text(event.get("agent"))) is not None:
            handoff = {"from": agent, "to": given, "native": native}
            yield self.run.event(
                self.offset, "execution.handoff", f"{key} handoff", handoff, name=agent, at=at
            )
        if isinstance(inner := event.get("agent_span_id"), str):
            self._causes[inner] = made
        nested = event.get("events")
        if isinstance(nested, list) and depth < _DEPTH_MAX:
            yield from self.take(nested, depth + 1)
        if event.get("pending"):
            return
        self.heard.answered(call_id)
        ended = moment(event.get("completed")) or at
        result = Result(call.name, call_id, facts.get("result"), _error(facts))
        more = {"duration_ns": _between(at, ended, event.get("working_time"))}
        told_of = (f"{key} result", result, agent, native, ended, more)
        if ended is None:
            yield self._result(*told_of)
        else:
            self._results.append((ended, self._number, self._lane, told_of))

    def _due(self, now: str | None) -> Iterator[Piece]:
        """Results that were there by then; all, without a time."""
        ready = sorted(
            (one for one in self._results if now is None or one[0] <= now), key=lambda one: one[:2]
        )
        for one in ready:
            self._results.remove(one)
            self._turn_to(one[2])
            self.last = max(self.last or one[0], one[0])
            yield self._result(*one[3])

    def _result(
        self,
        key: str,
        result: Result,
        agent: str | None,
        native: Mapping[str, Any],
        at: str | None,
        more: Mapping[str, Any],
    ) -> Piece:
        return self.run.result(self.offset, key, result, agent=agent, native=native, at=at, more=more)

    # --- what else happened ---

    def _other(self, kind: str, event: Mapping[str, Any], at: str | None) -> Piece:
        facts = {key: value for key, value in self.attached.resolved(event).items() if key not in _FRAME}
        key, native = f"step {self._number}", {**_native(event), kind: facts}
        payload: dict[str, Any] = {"native": native}
        event_type = "execution.state_change"
        if kind == "sample_limit":
            event_type = "system.limit_reached"
            payload |= {
                "name": name_text(facts.get("type")) or kind,
                "limit": facts.get("limit"),
                "message": facts.get("message"),
            }
            payload |= {"scope": self.run.correlation_id}
        elif kind == "error":
            error = facts.get("error")
            event_type = "system.error"
            payload |= {
                "error": {"message": error.get("message") if isinstance(error, Mapping) else str(error)}
            }
        elif kind == "approval":
            event_type = "execution.guardrail"
            payload |= {
                "name": name_text(facts.get("approver")) or kind,
                "phase": "tool call",
                "outcome": facts.get("decision"),
            }
            payload |= {"message": facts.get("explanation"), "value": facts.get("call")}
        elif kind == "input":
            event_type = "execution.human_input_received"
            payload |= {
                "answer": facts.get("content") or facts.get("input") or "",
                "comment": facts.get("message"),
            }
        else:
            payload |= {"name": kind}
        origin = "system" if event_type.startswith("system.") else "agent"
        return self.run.event(
            self.offset, event_type, key, payload, origin=origin, name=self._agent(event), at=at
        )

    # --- who acts ---

    def _input(self, event: Mapping[str, Any]) -> list[Any]:
        """What the model was given; newer logs name ranges of the sample's pool."""
        given = event.get("input")
        refs = event.get("input_refs")
        if isinstance(given, list) and given:
            return given
        found: list[Any] = []
        for one in refs if isinstance(refs, list) else ():
            if (
                isinstance(one, list)
                and len(one) == 2
                and all(isinstance(place, int) and place >= 0 for place in one)
            ):
                found += self.pool[one[0] : one[1]]
        return found

    def _upwards(self, event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The spans around an event, the nearest first."""
        seen: set[str] = set()
        place = event.get("id") if event.get("event") == "span_begin" else event.get("span_id")
        while isinstance(place, str) and place in self._spans and place not in seen:
            seen.add(place)
            yield self._spans[place]
            place = self._spans[place].get("parent_id")

    def _span(self, event: Mapping[str, Any], kind: str) -> str | None:
        return next(
            (name_text(one.get("name")) for one in self._upwards(event) if one.get("type") == kind), None
        )

    def _agent(self, event: Mapping[str, Any]) -> str | None:
        """The agent around an event, else the solver."""
        return self._span(event, "agent") or self._span(event, "solver") or self.task

    def _agent_span(self, event: Mapping[str, Any]) -> str | None:
        return next((str(one["id"]) for one in self._upwards(event) if one.get("type") == "agent"), None)

    def _turn_to(self, lane: str | None) -> None:
        """Agents that work beside each other each follow from their own last event."""
        if lane == self._lane:
            return
        self._causes[self._lane] = self.run.cause
        self.run.cause = self._causes.get(lane, self.run.cause)
        self._lane = lane


_FRAME = frozenset(
    {"event", "timestamp", "span_id", "working_start", "uuid", "events", "pending", "input_ansi"}
)


def _native(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: event[key] for key in ("event", "uuid", "span_id", "working_start") if event.get(key) is not None
    }


def _calls_in(events: list[Any], depth: int = 0) -> Iterator[str]:
    """Ids of the calls that steps tell of."""
    for event in events:
        if isinstance(event, Mapping):
            if event.get("event") == "tool" and isinstance(event.get("id"), str):
                yield event["id"]
            if isinstance(event.get("events"), list) and depth < _DEPTH_MAX:
                yield from _calls_in(event["events"], depth + 1)


def _error(facts: Mapping[str, Any]) -> str | None:
    error = facts.get("error")
    if isinstance(error, Mapping):
        parts = [error[key] for key in ("type", "message") if isinstance(error.get(key), str) and error[key]]
        return ": ".join(parts) or "failed"
    return str(error)[:2_000] if error else "failed" if facts.get("failed") is True else None


def _between(start: str | None, end: str | None, seconds: object) -> int | None:
    """How long something took, in nanoseconds: between two times, else as it is told."""
    if start is not None and end is not None and end > start:
        return (parse_time(end) - parse_time(start)) // timedelta(microseconds=1) * 1_000
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e9:
        return round(seconds * 1e9)
    return None

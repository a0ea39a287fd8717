"""One event stream of AG-UI: puts its pieces together, and knows which run and which sub-agent they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag_ui.inputs import told_by_input
from chatsnapshot.adapters.ag_ui.pieces import Pieces
from chatsnapshot.adapters.ag_ui.threads import Thread
from chatsnapshot.adapters.ag_ui.wire import content_value, usage_of
from chatsnapshot.adapters.observed import Earlier, ObservedRun
from chatsnapshot.adapters.places import Parent
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag_ui.recorder import AgUiRecorder

__all__ = ["Stream"]

_SILENT = frozenset({"RAW", "REASONING_START", "REASONING_END", "REASONING_ENCRYPTED_VALUE"})


class Stream:
    """Turns the events of one stream into those of runs. Everything has an id made of the protocol's own ids."""

    def __init__(self, recorder: AgUiRecorder, agent: str, given: Mapping[str, Any] | None) -> None:
        self._recorder = recorder
        self._agent = agent
        self._input = given
        self._run: ObservedRun | None = None
        self._thread = ""
        self._known = Thread()
        self._silent = False
        """Another recorder of the ledger has this run."""
        self._subagents: dict[str, ObservedRun] = {}
        self._pieces = Pieces()
        self._before: dict[str, str | None] = {}
        """Run to its last event that is no tool call: the cause of the calls that follow it together."""
        self._told: dict[str, int] = {}
        self._begun: int | None = None
        """When the run began, in milliseconds, where it says so."""

    def saw(self, event: Mapping[str, Any]) -> list[Event]:
        """The events that one event of the protocol comes to."""
        kind = str(event.get("type") or "")
        if kind == "RUN_STARTED":
            return self._started(event)
        if self._run is None or self._silent:
            return []
        if Pieces.takes(kind):
            whole = self._pieces.take(kind, event)
            return self._whole(whole) if whole else []
        if kind in _SILENT or kind.startswith("THINKING_"):
            return []
        made = self._whole(self._pieces.before(kind, event))
        handler = getattr(self, f"_on_{kind.lower()}", None)
        if handler is not None:
            made += handler(event)
        elif kind:
            run = self._of(event)
            made.append(
                self._note(run, run.state(kind.lower(), value=_body(event), **self._ids(run, kind, event)))
            )
        return made

    def over(self, error: BaseException | None, *, left: bool) -> list[Event]:
        """The stream is at its end: a run that has not told its own is broken off."""
        if self._run is None or self._silent or self._run.ended is not None:
            return []
        if error is not None and not left:
            return self._finish(lambda run: run.failed(error, **self._at({}, "end")))
        reason = (
            "the stream was closed before the run's end" if left else "the stream ended before the run did"
        )
        return self._finish(lambda run: run.cancelled(reason, **self._at({}, "end")))

    # --- runs ---------------------------------------------------------------------------------------------

    def _started(self, event: Mapping[str, Any]) -> list[Event]:
        made = self.over(None, left=False)
        thread = header_text(event.get("threadId") or "") or "thread"
        run_id = header_text(event.get("runId") or "") or "run"
        given = event.get("input") if isinstance(event.get("input"), Mapping) else self._input
        self._input = None
        self._pieces, self._subagents, self._thread = Pieces(), {}, thread
        self._begun = _stamp(event)
        resume = (given or {}).get("resume") or []
        known = self._known = self._recorder.thread(thread)
        run = self._recorder.begin(
            self._agent,
            key=f"{thread}/{run_id}",
            correlation_id=thread,
            run_id=known.goes_on(resume) or run_id,
            native_run_id=run_id,
            resumed=bool(resume),
            earlier=known.earlier(),
        )
        self._silent = run is None
        if run is None:
            return made
        self._run = run
        opening = told_by_input(known, run, given, event, lambda what: self._at(event, what))
        self._before[run.run_id] = run.last
        return made + opening

    def _on_run_finished(self, event: Mapping[str, Any]) -> list[Event]:
        run = self._run
        assert run is not None
        outcome = _mapping(event.get("outcome"))
        made = [
            self._model_call(run, number, usage, event)
            for number, usage in enumerate(_mappings(event.get("usage")))
        ]
        end = self._at(event, "end")
        if outcome.get("type") == "cancelled":
            return made + self._finish(lambda run: run.cancelled(None, **end))
        if outcome.get("type") != "interrupt":
            return made + self._finish(lambda run: run.completed(event.get("result"), **end))
        for interrupt in _mappings(outcome.get("interrupts")):
            made.append(self._question(run, interrupt, event))
        return made + self._finish(lambda run: run.paused("waits for a person", **end))

    def _on_run_error(self, event: Mapping[str, Any]) -> list[Event]:
        run = self._run
        assert run is not None
        made = [
            self._model_call(run, number, usage, event)
            for number, usage in enumerate(_mappings(event.get("usage")))
        ]
        error = {"type": event.get("code") or "RUN_ERROR", "message": str(event.get("message") or "")}
        return made + self._finish(lambda run: run.failed(error, **self._at(event, "end")))

    def _finish(self, end: Any) -> list[Event]:
        """The run is over; sub-agents that have not told their end are over with it."""
        run = self._run
        assert run is not None
        made = self._whole(self._pieces.rest())
        for child in reversed(self._subagents.values()):
            if (event := child.cancelled("the run ended", **self._at({}, "end"))) is not None:
                made.append(event)
                self._recorder.end(child)
        made += [event for event in (end(run),) if event is not None]
        self._known.learn(run)
        self._recorder.end(run)
        return made

    def _model_call(
        self, run: ObservedRun, number: int, usage: Mapping[str, Any], event: Mapping[str, Any]
    ) -> Event:
        """What the run says of its tokens, for each model: not one call, but all of them."""
        facts = {key: value for key in ("model", "provider") if (value := usage.get(key))}
        ids = self._at(event, f"usage {number}")
        return run.model_call(usage=usage_of(usage), purpose="all calls of the run", **facts, **ids)

    def _question(self, run: ObservedRun, interrupt: Mapping[str, Any], event: Mapping[str, Any]) -> Event:
        call_id = interrupt.get("toolCallId")
        owner = self._subagents.get(str(interrupt.get("subagentRunId")))
        cause = (owner or run).calls.get(str(call_id)) if call_id else None
        known = str(interrupt.get("id") or "interrupt")
        return run.question(
            known,
            kind="approval" if call_id else "question",
            prompt=interrupt.get("message") or interrupt.get("reason") or "May it go on?",
            call_id=call_id,
            schema=interrupt.get("responseSchema"),
            reason=interrupt.get("reason"),
            cause=cause,
            **self._at(event, f"question {known}"),
        )

    # --- sub-agents ---------------------------------------------------------------------------------------

    def _on_subagent_started(self, event: Mapping[str, Any]) -> list[Event]:
        known = str(event.get("subagentRunId"))
        above = self._subagents.get(str(event.get("parentSubagentRunId"))) or self._run
        assert above is not None
        call_id = event.get("parentToolCallId")
        cause = above.calls.get(str(call_id)) if call_id else None
        goes_on = self._recorder.was_suspended(known)
        child = self._recorder.begin(
            event.get("name") or "subagent",
            key=f"{self._thread}/{above.run_id}/{known}",
            correlation_id=known if known != self._thread else f"{self._thread}/{known}",
            run_id=known,
            native_run_id=f"{known}:{self._run.native_run_id if self._run else ''}" if goes_on else known,
            parent=Parent(above.run_id, cause or above.last, above.agent, above.correlation_id),
            resumed=goes_on,
            earlier=Earlier(),
        )
        if child is None:
            return []
        self._subagents[known] = child
        facts = {"description": event.get("description"), **self._at(event, "start")}
        made = child.started(**{key: value for key, value in facts.items() if value is not None})
        return [self._note(child, made)]

    def _on_subagent_finished(self, event: Mapping[str, Any]) -> list[Event]:
        suspended = _mapping(event.get("outcome")).get("type") == "suspended"
        if suspended:
            self._recorder.suspended(str(event.get("subagentRunId")))
        end = self._at(event, "end")
        return self._child_over(
            event,
            lambda run: (
                run.paused("waits for a person", **end)
                if suspended
                else run.completed(event.get("result"), **end)
            ),
        )

    def _on_subagent_error(self, event: Mapping[str, Any]) -> list[Event]:
        error = {"type": event.get("code") or "SUBAGENT_ERROR", "message": str(event.get("message") or "")}
        return self._child_over(event, lambda run: run.failed(error, **self._at(event, "end")))

    def _child_over(self, event: Mapping[str, Any], end: Any) -> list[Event]:
        child = self._subagents.get(str(event.get("subagentRunId")))
        if child is None or (made := end(child)) is None:
            return []
        self._recorder.end(child)
        return [made]

    def _of(self, event: Mapping[str, Any]) -> ObservedRun:
        """The run that an event belongs to: that of its sub-agent, or that of the stream."""
        assert self._run is not None
        return self._subagents.get(str(event.get("subagentRunId"))) or self._run

    # --- what is told -------------------------------------------------------------------------------------

    def _whole(self, pieces: list[dict[str, Any]]) -> list[Event]:
        """Messages and tool calls that are whole now."""
        made = []
        for piece in pieces:
            run = self._of(piece)
            known = self._at(piece, f"{piece['what']} {piece['id']}")
            if piece["what"] == "message":
                if piece["parts"]:
                    facts = {"name": piece.get("name"), "message_id": piece["id"], **known}
                    event = run.message(piece["role"], piece["parts"], **facts)
                    self._known.messages.setdefault(piece["id"], event["event_id"])
                    made.append(self._note(run, event))
                    run.asked[f"message {piece['id']}"] = event["event_id"]
                continue
            cause = (
                run.asked.get(f"message {piece.get('parent')}") or self._before.get(run.run_id) or run.last
            )
            made.append(run.tool_call(piece["id"], piece["name"], piece["arguments"], cause=cause, **known))
        return made

    def _on_tool_call_result(self, event: Mapping[str, Any]) -> list[Event]:
        run, call_id = self._of(event), str(event.get("toolCallId"))
        message_id = event.get("messageId")
        facts = {"message_id": message_id, **self._at(event, f"message {message_id or call_id}")}
        made = run.tool_result(call_id, result=content_value(event.get("content")), **facts)
        self._known.messages.setdefault(str(message_id), made["event_id"])
        return [self._note(run, made)]

    def _on_step_started(self, event: Mapping[str, Any], to: str = "started") -> list[Event]:
        run, name = self._of(event), str(event.get("stepName") or "step")
        return [self._note(run, run.state(name, to=to, **self._ids(run, f"step {name} {to}", event)))]

    def _on_step_finished(self, event: Mapping[str, Any]) -> list[Event]:
        return self._on_step_started(event, "finished")

    def _on_state_snapshot(self, event: Mapping[str, Any]) -> list[Event]:
        run = self._of(event)
        return [
            self._note(run, run.state("state", to=event.get("snapshot"), **self._ids(run, "state", event)))
        ]

    def _on_state_delta(self, event: Mapping[str, Any]) -> list[Event]:
        run = self._of(event)
        return [
            self._note(run, run.state("state", patch=event.get("delta"), **self._ids(run, "patch", event)))
        ]

    def _on_messages_snapshot(self, event: Mapping[str, Any]) -> list[Event]:
        run, messages = self._of(event), event.get("messages") or ()
        ids = [message.get("id") for message in messages if isinstance(message, Mapping)]
        return [self._note(run, run.state("messages", to=ids, **self._ids(run, "messages", event)))]

    def _on_activity_snapshot(self, event: Mapping[str, Any]) -> list[Event]:
        run = self._of(event)
        facts = {"element": event.get("activityType"), "value": event.get("content", event.get("patch"))}
        facts["message_id"] = event.get("messageId")
        return [
            self._note(run, run.event("ui.output_displayed", {**facts, **self._ids(run, "activity", event)}))
        ]

    _on_activity_delta = _on_activity_snapshot

    def _on_custom(self, event: Mapping[str, Any]) -> list[Event]:
        run, name = self._of(event), str(event.get("name") or "custom")
        return [self._note(run, run.state(name, value=event.get("value"), **self._ids(run, "custom", event)))]

    # --- ids and times ------------------------------------------------------------------------------------

    def _note(self, run: ObservedRun, event: Event) -> Event:
        self._before[run.run_id] = event["event_id"]
        return event

    def _ids(self, run: ObservedRun, what: str, event: Mapping[str, Any]) -> dict[str, Any]:
        """An id out of the place in the run, for events that have none of their own."""
        number = self._told[run.run_id] = self._told.get(run.run_id, 0) + 1
        return self._at(event, f"{number} {what}")

    def _at(self, event: Mapping[str, Any], what: str) -> dict[str, Any]:
        """The id of an event, and its time; a run that is done again at another time has other ids."""
        stamp = _stamp(event)
        known: dict[str, Any] = {"native_id": f"{self._begun} {what}" if self._begun else what}
        return known if stamp is None else {**known, "at_ns": stamp * 1_000_000}


def _stamp(event: Mapping[str, Any]) -> int | None:
    stamp = event.get("timestamp")
    return int(stamp) if isinstance(stamp, (int, float)) else None


def _body(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key not in ("type", "timestamp", "rawEvent")}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []

"""A run of a workflow: its steps as tasks, and its questions to people; agents are such workflows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.llama_index import agents
from chatsnapshot.adapters.llama_index.engines import ended
from chatsnapshot.adapters.llama_index.questions import Questions
from chatsnapshot.adapters.llama_index.snapshots import Snapshots
from chatsnapshot.adapters.llama_index.telling import event_facts, is_a, output_of
from chatsnapshot.adapters.llama_index.watched import Place, Watched, begin
from chatsnapshot.adapters.observed import ObservedRun, Unanswered, error_facts
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import version_of

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["Flow"]

_RUN_ID = "llamaindex.run_id"
_EMITTED_MAX = 1_000


class _Emitted(NamedTuple):
    event: Any
    cause: str | None
    unanswered: Unanswered
    """What models that are asked because of it answer."""


_NOTHING = _Emitted(None, None, Unanswered())


class Flow(Watched):
    """One run of a workflow, from its start or from where a snapshot goes on."""

    def __init__(
        self,
        recorder: LlamaIndexRecorder,
        snapshots: Snapshots,
        run: ObservedRun,
        workflow: Any,
        native_id: str,
    ) -> None:
        super().__init__(recorder, run, self._started)
        self.workflow, self.native_id = workflow, native_id
        self.is_agent = is_a(workflow, "BaseWorkflowAgent", "AgentWorkflow")
        self.tells_prompts = not self.is_agent
        self.place: Place
        self.questions = Questions(self)
        self.handing: dict[str, str] = {}
        """Agents that a tool has handed over to, and the event of its call."""
        self.moved_at: float | None = None
        """When the loop last moved: what a snapshot is known by."""
        self._snapshots = snapshots
        self._start_event: Any = None
        self._counts: Counter[str] = Counter()
        self._emitted: dict[int, _Emitted] = {}
        """Events that steps gave, of which several steps may begin, and which may be tried again."""
        self._unfinished: list[tuple[Any, Place]] = []
        """Steps that gave nothing: they are done, or wait for something."""

    @classmethod
    def begin(
        cls,
        recorder: LlamaIndexRecorder,
        snapshots: Snapshots,
        id_: str,
        bound: Any,
        workflow: Any,
        above: Place | None,
    ) -> Flow | None:
        """A workflow begins, or goes on; ``None`` where another recorder tells of it."""
        state, start_event = bound.arguments.get("init_state"), bound.arguments.get("start_event")
        native_id = _native_id() or id_
        resumed = start_event is None
        known = snapshots.conversation(getattr(state, "last_alive_stamp", None), waiting=resumed)
        run = begin(
            recorder,
            id_,
            agents.name_of(workflow),
            above,
            correlation_id=known or _session(start_event) or native_id,
            resumed=resumed,
        )
        if run is None:
            return None
        flow = cls(recorder, snapshots, run, workflow, native_id)
        flow._start_event = start_event
        flow.place = Place("flow", id_, flow, above, run.agent)
        flow.questions.restore(state)
        if not run.questions:
            with flow.at(flow.place) as (run, events):
                if flow.is_agent and start_event is not None:
                    events += agents.asked(flow, run, start_event)
        return flow

    def _started(self, run: ObservedRun) -> Event:
        facts = {
            "native": {"run_id": self.native_id},
            "workflow": type(self.workflow).__name__,
            "runtime_version": version_of("llama-index-core", "llama-index-workflows"),
        }
        if self.is_agent:
            return run.started(**facts, **agents.described(self.workflow, run.agent))
        return run.started(None if self._start_event is None else event_facts(self._start_event), **facts)

    # --- steps --------------------------------------------------------------------------------------------

    def step(self, id_: str, name: str, bound: Any, above: Place) -> Place:
        """A step begins; those of agents are told by what happens in them."""
        events = [one for one in bound.arguments.values() if is_a(one, "Event")]
        given = events[0] if events else None
        if self.is_agent:
            return agents.step(self, id_, name, given, above)
        waiting = next((one for one in self._unfinished if one[0] is given and one[1].name == name), None)
        place = Place("step", id_, self, above, name)
        if waiting is not None:
            # It waited, and is called again from its beginning: still the task that it was.
            self._unfinished.remove(waiting)
            place.facts, place.last = waiting[1].facts, waiting[1].last
        else:
            with self.at(above) as (run, made):
                self._counts[name] += 1
                place.facts = {
                    "task_id": f"{name}-{self._counts[name]}",
                    "workflow_id": run.run_id,
                    "name": name,
                }
                place.facts["given"] = given
                emitted = self._emitted.get(id(given), _NOTHING)
                place.unanswered = emitted.unanswered
                made.append(
                    run.event(
                        "system.task_started",
                        {**_task(place), "event": type(given).__name__, "input": event_facts(given)},
                        cause=emitted.cause or run.started_event,
                    )
                )
                place.last = run.last
        place.within(self.run, place.last)
        return place

    def stepped(self, place: Place, result: Any) -> None:
        """A step is over; one that gave nothing may be waiting, which the loop tells."""
        if self.is_agent:
            agents.stepped(self, place, result)
            return
        if result is None:
            self._unfinished.append((place.facts.get("given"), place))
            return
        self._completed(place, result)

    def _completed(self, place: Place, result: Any) -> None:
        with self.at(place) as (run, events):
            facts = _task(place)
            output = None if result is None else {"event": type(result).__name__, **_mapping(_given(result))}
            events.append(run.event("system.task_completed", {**facts, "output": output}))
            for one in result if isinstance(result, list) else (result,):
                if one is not None:
                    self._emit(one, run.last, place)

    def failed(self, place: Place, error: BaseException) -> None:
        """A step raised."""
        if self.is_agent:
            agents.failed(self, place, error)
            return
        with self.at(place) as (run, events):
            events.append(run.event("system.task_failed", {**_task(place), "error": error_facts(error)}))

    # --- the loop -----------------------------------------------------------------------------------------

    def ticked(self, tick: Any) -> None:
        """The loop took a step: answers come in by it, and it tells which steps wait."""
        moved_at = getattr(tick, "stamped_at", None)
        if isinstance(moved_at, float):
            self.moved_at = max(moved_at, self.moved_at or 0.0)
        name = type(tick).__name__
        if name == "TickStepResult":
            self._settled(tick)
        elif name == "TickAddEvent":
            self.questions.received(tick.event)

    def _settled(self, tick: Any) -> None:
        waits = [one for one in tick.result if is_a(one, "AddWaiter")]
        for one in waits:
            self.questions.waits(one, tick.event, self._place_of(tick))
        if not waits and (place := self._place_of(tick)) is not None:
            self._unfinished = [one for one in self._unfinished if one[1] is not place]
            self._completed(place, None)
        for one in tick.result:
            given = getattr(one, "result", None)
            if is_a(given, "InputRequiredEvent"):
                self.questions.asked(given, self._emitted.get(id(given), _NOTHING).cause, None)

    def _place_of(self, tick: Any) -> Place | None:
        name = str(tick.step_id).rpartition("/")[2]
        return next(
            (one[1] for one in self._unfinished if one[0] is tick.event and one[1].name == name), None
        )

    def sent(self, event: Any, place: Place | None) -> None:
        """A step sent an event to others: what they do is caused by it."""
        if event is not None and place is not None and not self.is_agent:
            self._emit(event, place.context.last, place)

    def _emit(self, event: Any, cause: str | None, place: Place) -> None:
        self._emitted[id(event)] = _Emitted(event, cause, place.context.unanswered)
        while len(self._emitted) > _EMITTED_MAX:
            del self._emitted[next(iter(self._emitted))]

    def published(self, event: Any, place: Place | None) -> None:
        """The workflow wrote an event for whoever reads its stream, in that place."""
        if is_a(event, "InputRequiredEvent"):
            known = self._emitted.get(id(event), _NOTHING).cause
            self.questions.asked(event, known, None if place is None else place.context)
        elif is_a(event, "WorkflowIdleEvent") and self.run.questions:
            self._keep()
            self.pause("waits for a person", native={"run_id": self.native_id, "moved_at": self.moved_at})

    def _keep(self) -> None:
        self._snapshots.keep(self.moved_at, self.run.correlation_id)

    # --- the end ------------------------------------------------------------------------------------------

    def done(self, result: Any) -> None:
        """The workflow has ended: with a result, or because somebody cancelled it."""
        self._keep()
        if result is None or is_a(result, "WorkflowCancelledEvent", "IdleReleasedEvent"):
            if not (self.held or self.paused):
                self._stopped()
            self.end(lambda run: run.cancelled("cancelled"), left_waiting=True)
        else:
            for _, place in self._unfinished:
                self._completed(place, None)
            self.end(lambda run: run.completed(output_of(result)))

    def broke(self, error: BaseException) -> None:
        """The workflow raised, or its task was cancelled."""
        self._keep()
        stopped = is_a(error, "CancelledError", "GeneratorExit")
        if not (stopped and (self.held or self.paused)):
            self._stopped()
        self.end(lambda run: ended(run, error), left_waiting=stopped)

    def _stopped(self) -> None:
        """The steps that were waiting go no further."""
        for _, place in self._unfinished:
            with self.at(place) as (run, events):
                events.append(run.event("system.task_cancelled", _task(place)))


def _task(place: Place) -> dict[str, Any]:
    return {key: place.facts[key] for key in ("task_id", "workflow_id", "name")}


def _given(result: Any) -> Any:
    return {"result": output_of(result)} if type(result).__name__ == "StopEvent" else event_facts(result)


def _mapping(facts: Any) -> dict[str, Any]:
    return facts if isinstance(facts, dict) else {"value": facts}


def _session(start_event: Any) -> str | None:
    """The conversation of the memory that an agent is called with."""
    memory = start_event.get("memory", default=None) if hasattr(start_event, "get") else None
    session = getattr(memory, "session_id", None)
    return session if isinstance(session, str) and session else None


def _native_id() -> str | None:
    """LlamaIndex's id of the run that the code of here and now is in."""
    from llama_index_instrumentation.dispatcher import active_instrument_tags

    native_id = active_instrument_tags.get().get(_RUN_ID)
    return native_id if isinstance(native_id, str) else None

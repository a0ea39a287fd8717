"""What a workflow asks people, and which of their answers is for which question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.llama_index.telling import answered, event_facts, is_a
from chatsnapshot.adapters.llama_index.watched import Place
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.flows import Flow

__all__ = ["Questions"]

_ASKS = "InputRequiredEvent"
_ANSWERS = "HumanResponseEvent"


class _Wait(NamedTuple):
    """A step that waits: for an event of this type with these members."""

    event_type: Any
    requirements: Any

    def takes(self, event: Any) -> bool:
        """Whether that is what it waits for."""
        if self.event_type not in type(event).__mro__:
            return False
        return all(
            event.get(name, default=None) == value for name, value in (self.requirements or {}).items()
        )


class Questions:
    """The questions of one run of a workflow. A question's id is that of the step that waits, where one does."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._waits: dict[str, _Wait] = {}
        self._told: list[Any] = []
        """Events that are told as questions; kept, so that each is told once."""
        self._written: set[tuple[str, str]] = set()
        """What tools and steps wrote as questions: one that waits is called again, and writes it again."""

    def restore(self, state: Any) -> None:
        """The waiting steps of a snapshot."""
        for worker in getattr(state, "workers", {}).values():
            for waiter in getattr(worker, "collected_waiters", ()):
                waits = _Wait(waiter.waiting_for_event, getattr(waiter, "requirements", None))
                self._waits[str(waiter.waiter_id)] = waits

    def waits(self, waiter: Any, trigger: Any, place: Place | None) -> None:
        """A step waits: for a person, where it says so."""
        event_type, asking, known = waiter.event_type, waiter.waiter_event, str(waiter.waiter_id)
        of_people = isinstance(event_type, type) and any(
            one.__name__ == _ANSWERS for one in event_type.__mro__
        )
        if not of_people and not is_a(asking, _ASKS):
            return
        self._waits[known] = _Wait(event_type, waiter.requirements)
        if known in self._flow.run.questions:
            return  # it asked before it was called again
        if asking is None and any(one not in self._waits for one in self._flow.run.questions):
            return  # it wrote the question for the readers of the stream by itself
        call_id = str(trigger.tool_id) if is_a(trigger, "ToolCall") else None
        self._tell(known, asking, None if place is None else place.last, call_id)

    def asked(self, event: Any, cause: str | None, place: Place | None) -> None:
        """The workflow wrote a question for the readers of its stream, there, or a step gave one."""
        if any(one is event for one in self._told):
            return
        call_id = place.call_id if place is not None and place.kind == "tool" else None
        if place is not None and (by := call_id or place.facts.get("task_id")):
            written = (by, repr(event_facts(event)))
            if written in self._written:
                return
            self._written.add(written)
        cause = cause or (None if place is None else place.last)
        self._tell(uuid_text(uuid7()[0]), event, cause, call_id)

    def _tell(self, question_id: str, event: Any, cause: str | None, call_id: str | None) -> None:
        flow = self._flow
        if event is not None:
            self._told.append(event)
        with flow.at(flow.place) as (run, events):
            prompt = None if event is None else answered(event, "prefix")
            asked_by: dict[str, Any] = {} if cause is None or call_id is not None else {"cause": cause}
            events.append(run.question(question_id, prompt=prompt, call_id=call_id, **asked_by))

    def received(self, event: Any) -> None:
        """An event came in: the answer to the questions whose steps wait for it, or else to the oldest one."""
        flow = self._flow
        with flow.lock:
            open_ones = list(flow.run.questions)
            found = [one for one in open_ones if one in self._waits and self._waits[one].takes(event)]
            if not found and is_a(event, _ANSWERS):
                free = [one for one in open_ones if one not in self._waits]
                found = (free or open_ones)[:1]
            if not found:
                return
            flow.go_on()
            events: list[Any] = []
            for one in found:
                self._waits.pop(one, None)
                events.append(flow.run.answer(one, content=answered(event, "response")))
            flow.open(events)
            flow.recorder.record(*events)

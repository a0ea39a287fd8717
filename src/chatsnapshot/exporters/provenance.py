"""What each event of a run is in terms of provenance: an activity, its end, or an entity that was used or generated."""

from __future__ import annotations

from typing import Any

import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.events.fields import ident
from chatsnapshot.events.messages import read_messages
from chatsnapshot.events.normaliser import (
    actor_of,
    read_call,
    read_evaluation,
    read_model_call,
    read_run,
    read_task,
)
from chatsnapshot.exporters.provrecords import Records, name, qualified
from chatsnapshot.exporters.spans import begun, ended, name_of_span
from chatsnapshot.exporters.stored import facts_of, time_ns
from chatsnapshot.projections.graphmarks import TaskMark, mark
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.shapes import TimelineItem

__all__ = ["Provenance"]

_HOLDERS = ("run", "workflow")
_TYPES = {
    "run": "cs:Run", "workflow": "cs:Workflow", "task": "cs:Task", "tool": "cs:ToolCall", "model": "cs:ModelCall",
    "question": "cs:Question", "integration": "cs:ServiceCall",
}  # fmt: skip
_GIVEN = frozenset({"user", "system", "developer", "tool", "function"})
"""Roles of messages that a run is given, as against those that it says."""


class Stands(msgspec.Struct):
    """What an event is in the document; ``within`` is the activity around it."""

    kind: str
    name: str
    within: str | None
    what: str = ""
    generated: bool = False
    at: str | None = None


class Provenance:
    """Takes entries in order of position, the timeline's item with each; then :meth:`settle` adds what ties them."""

    def __init__(self, ledger_id: str) -> None:
        own = f"urn:chatsnapshot:{ledger_id}"
        prefixes = {"cs": "urn:chatsnapshot:terms:", "event": "urn:uuid:"}
        for prefix in ("activity", "agent", "person", "tool", "model", "artifact", "correlation"):
            prefixes[prefix] = f"{own}:{prefix}:"
        self.records = Records(prefixes)
        self._stands: dict[str, Stands] = {}
        self._activities: dict[str, Stands] = {}
        self._begun: dict[int, str] = {}
        self._open: dict[str, list[str]] = {}
        self._latest: dict[str, str] = {}
        self._waiting: dict[str, list[Stands]] = {}
        self._causes: list[tuple[str, str]] = []
        self._agents: dict[str, str] = {}
        self._tasks: dict[tuple[str, str], list[str]] = {}
        self._needs: dict[tuple[str, str], dict[str, None]] = {}
        self._judged: list[tuple[str, str]] = []
        self._versions: dict[str, str] = {}

    def take(self, item: TimelineItem, entry: LedgerEntry) -> None:
        """Add what one entry says."""
        tied = mark(Once(entry))
        if tied.task is not None:
            needs = self._needs.setdefault((entry.correlation_id, tied.task.key), {})
            needs.update(dict.fromkeys(tied.task.depends_on))
        causes = [*([entry.causation_id] if entry.causation_id else []), *tied.links]
        self._causes += [(entry.event_id, cause) for cause in causes]
        ended_here = self._begun.get(item.partner or 0) if item.edge == "end" else None
        if item.edge in ("start", "whole"):
            self._activity(item, entry, tied.task)
        elif ended_here is not None:
            self._end(ended_here, item, entry)
        else:
            generated = not _is_given(entry)
            holder = self._holder(item.correlation_id)
            if holder is None and generated:
                holder = self._without_run(item.correlation_id)
            stood = self._entity(item, entry, holder, generated=generated)
            if holder is None:
                # The run that it was given to begins later, if there is one.
                self._waiting.setdefault(item.correlation_id, []).append(stood)

    # --- activities ---

    def _activity(self, item: TimelineItem, entry: LedgerEntry, task: TaskMark | None) -> None:
        what, payload = item.span or "run", facts_of(entry)
        made = name("activity", entry.event_id)
        around = self._holder(item.correlation_id)
        whole = item.edge == "whole"
        self.records.element(
            "activity",
            made,
            prov__type=qualified(_TYPES.get(what, "cs:Activity")),
            prov__label=name_of_span(what, begun(what, entry), item.correlation_id),
            prov__startTime=_began_at(item) if whole else item.at,
            prov__endTime=item.at if whole else None,
            cs__in=None if around is None else qualified(around),
            **_facts(entry),
        )
        self._begun[item.position] = made
        self._stands[entry.event_id] = self._activities[made] = Stands("activity", made, around, what)
        agent = self._agent(entry)
        plan = None
        if what == "tool" and (tool := read_call(payload).name):
            plan = self.records.element(
                "entity", name("tool", tool), prov__type=qualified("prov:Plan"), prov__label=tool
            )
        if agent is not None or plan is not None:
            self.records.relate("wasAssociatedWith", made, agent, prov__plan=plan)
        if agent is not None:
            self._agents[made] = agent
        if what == "model" and (model := read_model_call(payload).model):
            used = self.records.element(
                "entity", name("model", model), prov__type=qualified("cs:Model"), prov__label=model
            )
            self.records.relate("used", made, used)
        elif what == "task" and task is not None:
            self._tasks.setdefault((entry.correlation_id, task.key), []).append(made)
        elif what in _HOLDERS:
            self._open.setdefault(item.correlation_id, []).append(made)
            for given in self._waiting.pop(item.correlation_id, ()):
                given.within = made
            self._latest[item.correlation_id] = made
        if whole and (error := ended(what, entry)[1]):
            self.records.element("activity", made, cs__error=error)

    def _end(self, activity: str, item: TimelineItem, entry: LedgerEntry) -> None:
        """The end of an activity; what it gave, where it gave something, is an entity."""
        stood = self._activities[activity]
        told, error = ended(stood.what, entry)
        self.records.element(
            "activity",
            activity,
            prov__endTime=item.at,
            cs__status=told.get("chatsnapshot.status"),
            cs__error=error,
        )
        still = self._open.get(item.correlation_id, [])
        if activity in still:
            still.remove(activity)
        payload = facts_of(entry)
        gave = (
            stood.what in ("tool", "question", "integration")
            or (read_task(payload) if stood.what == "task" else read_run(payload)).output is not None
        )
        if gave:
            self._entity(item, entry, activity, generated=True)
        else:
            self._stands[entry.event_id] = Stands("activity", activity, stood.within, stood.what)
        if stood.what == "question" and (person := self._agent(entry)):
            self.records.relate("wasAssociatedWith", activity, person)

    # --- entities ---

    def _entity(
        self, item: TimelineItem, entry: LedgerEntry, within: str | None, *, generated: bool
    ) -> Stands:
        payload = facts_of(entry)
        made = self.records.element(
            "entity",
            name("event", entry.event_id),
            prov__type=qualified(name("cs", entry.event_type)),
            prov__label="[erased]" if entry.erased else item.what,
            cs__leaf=entry.leaf.hex(),
            cs__failed=True if item.failed else None,
            **_facts(entry),
        )
        stood = self._stands[entry.event_id] = Stands("entity", made, within, "", generated, item.at)
        collection = self.records.element(
            "entity",
            name("correlation", entry.correlation_id),
            prov__type=qualified("prov:Collection"),
            prov__label=entry.correlation_id,
        )
        self.records.relate("hadMember", collection, made)
        agent = self._agent(entry)
        # Who is shown something has not made it.
        seen = entry.event_type == "ui.output_displayed"
        if agent is not None and not seen and (generated or entry.source.origin == "ui"):
            self.records.relate("wasAttributedTo", made, agent)
        if entry.event_type == "execution.artifact" and (known := ident(payload.get("artifact_id"))):
            self._version(made, name("artifact", entry.correlation_id, known), known)
        elif entry.event_type == "execution.evaluation":
            judged = read_evaluation(payload)
            self.records.element("entity", made, cs__score=judged.score, cs__value=judged.label)
            if judged.target_event_id:
                self._judged.append((made, judged.target_event_id))
            if judged.evaluator:
                self.records.relate(
                    "wasAttributedTo", made, self._named(judged.evaluator, judged.kind == "human")
                )
        return stood

    def _version(self, made: str, general: str, label: str) -> None:
        """A version of an artifact: a special case of it, and a revision of the version before."""
        self.records.element("entity", general, prov__type=qualified("cs:Artifact"), prov__label=label)
        self.records.relate("specializationOf", made, general)
        before = self._versions.get(general)
        if before is not None:
            self.records.relate("wasDerivedFrom", made, before, prov__type=qualified("prov:Revision"))
        self._versions[general] = made

    # --- where things stand, and who acts ---

    def _holder(self, correlation: str) -> str | None:
        """The run that is open in a correlation, else the one that was last."""
        still = self._open.get(correlation)
        return still[-1] if still else self._latest.get(correlation)

    def _without_run(self, correlation: str) -> str:
        """The activity of events that stand in no run."""
        self._latest[correlation] = self.records.element(
            "activity",
            name("activity", "events", correlation),
            prov__type=qualified("cs:Events"),
            prov__label=f"events {correlation}",
            cs__correlation=correlation,
        )
        return self._latest[correlation]

    def _agent(self, entry: LedgerEntry) -> str | None:
        """Who acted, as the payload or the source says; the principal of the attributes is who it was done for."""
        person = entry.source.origin == "ui"
        payload = facts_of(entry)
        called = actor_of(entry.event_type, payload)
        if called is None and not (
            entry.event_type == "execution.message" and _is_given(entry) and not person
        ):
            called = entry.source.name
        if not called:
            return None
        agent = self._named(called, person)
        principal = entry.attributes.get("principal") if entry.attributes_json else None
        if isinstance(principal, str) and principal and principal != called:
            within = self._holder(entry.correlation_id)
            self.records.relate("actedOnBehalfOf", agent, self._named(principal, None), prov__activity=within)
        return agent

    def _named(self, called: str, person: bool | None) -> str:
        """The agent of that name. A principal (``None``) is the person of that name where there is one."""
        if person is None:
            known = name("person", called)
            return (
                known
                if self.records.has("agent", known)
                else self.records.element("agent", name("agent", called), prov__label=called)
            )
        return self.records.element(
            "agent",
            name("person" if person else "agent", called),
            prov__type=qualified("prov:Person" if person else "prov:SoftwareAgent"),
            prov__label=called,
        )

    # --- what ties them ---

    def settle(self) -> int:
        """Add generation, use, causes, delegation; gives how many causes stand outside of the document."""
        for correlation, given in self._waiting.items():
            holder = self._latest.get(correlation) or self._without_run(correlation)
            for stood in given:
                stood.within = holder
        missing = 0
        for effect, cause in self._causes:
            if cause in self._stands:
                self._tie(self._stands[effect], self._stands[cause])
            else:
                missing += 1
        for stood in self._stands.values():
            if stood.kind == "entity" and stood.within is not None:
                kind, ends = (
                    ("wasGeneratedBy", (stood.name, stood.within))
                    if stood.generated
                    else ("used", (stood.within, stood.name))
                )
                self.records.relate(kind, *ends, prov__time=stood.at)
        for made, target in self._judged:
            if target in self._stands:
                self.records.relate("wasInfluencedBy", made, self._stands[target].name)
        for (correlation, key), needs in self._needs.items():
            befores = [one for other in needs for one in self._tasks.get((correlation, other), ())[-1:]]
            for made in self._tasks.get((correlation, key), ()):
                for before in befores:
                    self.records.relate("wasInformedBy", made, before)
        return missing

    def _tie(self, effect: Stands, cause: Stands) -> None:
        if effect.name == cause.name:
            return
        if effect.kind == "entity":
            if (
                cause.kind == "activity"
                and cause.what == "model"
                and effect.generated
                and cause.within == effect.within
            ):
                effect.within = cause.name  # what a model said
            elif effect.within != cause.name:
                self.records.relate("wasInfluencedBy", effect.name, cause.name)
        elif cause.kind == "entity":
            self.records.relate("used", effect.name, cause.name)
        else:
            self.records.relate("wasInformedBy", effect.name, cause.name)
        if effect.kind == "activity" and effect.what in _HOLDERS and effect.within is None:
            self._began(effect, cause)

    def _began(self, run: Stands, cause: Stands) -> None:
        """A run that another correlation's event began: who acts in it acts for who acts in the run above."""
        starter = cause.name if cause.kind == "activity" else cause.within
        if starter == run.name:
            starter = None  # what it was given before it began
        trigger = cause.name if cause.kind == "entity" else None
        self.records.relate("wasStartedBy", run.name, starter, prov__trigger=trigger)
        if starter is None:
            return
        above = self._agents.get(starter) or self._agents.get(cause.within or "")
        below = self._agents.get(run.name)
        if above is not None and below is not None and above != below:
            self.records.relate("actedOnBehalfOf", below, above, prov__activity=run.name)


def _facts(entry: LedgerEntry) -> dict[str, Any]:
    return {
        "cs__event": entry.event_id,
        "cs__event_type": entry.event_type,
        "cs__position": entry.position,
        "cs__correlation": entry.correlation_id,
        "cs__erased": True if entry.erased else None,
    }


def _began_at(item: TimelineItem) -> str | None:
    """When something began of which its end and its duration are recorded."""
    at, took = time_ns(item.at), item.duration_ns
    return time_text(at - took) if at is not None and took is not None and took <= at else None


def _is_given(entry: LedgerEntry) -> bool:
    """Whether an event is what a run was given, rather than what came of it."""
    if entry.event_type == "execution.message":
        roles = [said.role.lower() for said in read_messages(facts_of(entry)) if said.role]
        return entry.source.origin == "ui" or bool(roles and roles[0] in _GIVEN)
    return entry.event_type in ("ui.input_received", "ui.interaction")

"""One recorder's view of one run of an agent, a team or a workflow: what the pieces around its code tell, as events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.agno.following import STOPPED
from chatsnapshot.adapters.agno.parts import input_messages, message_parts
from chatsnapshot.adapters.agno.questions import answers, asked, said, steps_asked, steps_said
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.surroundings import parent_of
from chatsnapshot.clock import uuid7, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.agno.recorder import AgnoRecorder
    from chatsnapshot.adapters.observed import Earlier, ObservedRun

__all__ = ["CURRENT", "Watch"]

CURRENT: ContextVar[tuple[Watch, ...]] = ContextVar("chatsnapshot_agno", default=())
"""Who watches the run that the code of here and now belongs to."""


class Watch:
    """Builds the events of one run for one recorder; records nothing.

    Agno tells the ids of a run when it first does something in it, so the run begins in the ledger then.
    """

    def __init__(
        self,
        recorder: AgnoRecorder,
        owner: Any,
        given: Mapping[str, Any],
        *,
        goes_on: bool,
        kind: str,
    ) -> None:
        self.recorder = recorder
        self.owner = owner
        self.given = given
        """The arguments that the run was called with."""
        self.goes_on = goes_on
        self.kind = kind
        """``agent``, ``team`` or ``workflow``."""
        self.at_ns = time.time_ns()
        self.run: ObservedRun | None = None
        self.begun = False
        self.key: str | None = None
        """Agno's id of the run, once it is known."""
        self.response: Any = None
        """Agno's output of the run: it grows while the run goes on."""
        self.earlier: Earlier | None = None
        self.error: BaseException | None = None
        """What a model raised last: Agno keeps its text only."""
        self.wanted: dict[str, tuple[str | None, Any]] = {}
        """Tools that the model asked for last: name and arguments by call id."""
        self.executed: set[str] = set()
        """Tool calls whose results are on record."""
        self.executing: dict[int, tuple[str | None, str | None, str]] = {}
        """Tools that are executed now: call id, name, and the event of the call."""
        self.steps: Counter[str] = Counter()
        """How often each step of the workflow began."""
        self.last_step: str | None = None
        """The end of the step that ended last, once it is on record."""
        self._shown: set[str] = set()
        """What the model was shown in this run: a run that is tried again shows it once more."""
        self._streamed: list[str] = []
        """What a stream said of a run whose output is not known."""
        self._item: Any = None
        """What a stream yielded last of this run."""
        self._told: Any = None
        """The event of a stream that says how the run ended."""
        self._said = self._answers(given.get("workflow_run_response")) if goes_on else []
        here = recorder.parent_here()
        self._here, self.around = here, here.cause if here is not None else None
        self._outer = next((one for one in CURRENT.get() if one.recorder.ledger is recorder.ledger), None)

    # --- the life of the run ------------------------------------------------------------------------------

    @property
    def agent(self) -> str:
        """What it is called: an id is made by Agno before it does anything, where there is none."""
        return str(getattr(self.owner, "name", None) or getattr(self.owner, "id", None) or self.kind)

    @property
    def is_workflow(self) -> bool:
        """Whether it is a run of a workflow: it has steps, and no model of its own."""
        return self.kind == "workflow"

    @property
    def session(self) -> str | None:
        """The session of the run, as far as it is known by now."""
        given = (self.given.get(name) for name in ("run_response", "workflow_run_response"))
        known = self.given.get("session_id") or next(
            (one.session_id for one in given if one is not None), None
        )
        return known or getattr(self.owner, "session_id", None)

    @property
    def conversation(self) -> str | None:
        """Where a run that goes on belongs, as far as it is known before it does."""
        before = self.given.get("run_response") or self.given.get("workflow_run_response")
        run_id = getattr(before, "run_id", None) or self.given.get("run_id")
        if (known := self.recorder.waiting.get(str(run_id))) is not None:
            return known
        return None if self._outer is not None else self.recorder.correlation_id or self.session

    def begin(
        self, response: Any = None, run_id: Any = None, session_id: Any = None, messages: Iterable[Any] = ()
    ) -> list[Event]:
        """The run does something for the first time: its start, and what it was given."""
        self.response = response if response is not None else self.response
        if self.begun:
            return []
        self.begun = True
        before = self.given.get("run_response")
        native = getattr(response, "run_id", None) or self.given.get("run_id")
        native = native or getattr(before, "run_id", None) or run_id
        self.key = str(native or uuid_text(uuid7()[0]))
        session = getattr(response, "session_id", None) or session_id or self.session
        forked = getattr(response, "forked_from_run_id", None)
        resumed = self.goes_on and (forked is None or forked == getattr(before, "forked_from_run_id", None))
        made = [] if self._outer is None else self._outer.begin_early()
        parent = self._parent()
        known = self.recorder.waiting.get(self.key) if resumed else None
        run = self.recorder.begin(
            self.agent,
            key=self.key,
            correlation_id=known or session,
            resumed=resumed,
            earlier=self.earlier,
            **({} if parent is None else {"parent": parent}),
        )
        self.run = run
        if run is None:
            return made
        if resumed:
            made += answers(run, self._said or self._answers(response), self.at_ns)
        facts = {
            "run_id": self.key,
            "session_id": session,
            "kind": self.kind,
            "forked_from": forked if not resumed else None,
        }
        made.append(
            run.started(
                plain(getattr(response, "input", None)) if self.is_workflow else None,
                user=getattr(response, "user_id", None) or self.given.get("user_id"),
                session=session,
                version=self.recorder.version,
                native={key: value for key, value in facts.items() if value is not None},
                at_ns=self.at_ns,
            )
        )
        if not self.is_workflow:
            made += self._history(run, messages)
            made += self._heard(run, getattr(response, "input", None))
        return made

    def begin_early(self) -> list[Event]:
        """Something else begins inside of the run before Agno told of it: as far as its ids are known."""
        before = self.given.get("run_response")
        if self.begun or (before is None and not self.given.get("run_id")) or not self.session:
            return []
        return self.begin()

    def _parent(self) -> Any:
        outer = self._outer
        run, around = (outer.run, outer.around) if outer is not None else (None, None)
        return parent_of(self._here, run, around)

    def _history(self, run: ObservedRun, messages: Iterable[Any]) -> list[Event]:
        """Messages of earlier runs that Agno shows the model, where the ledger does not know the conversation."""
        old = [one for one in messages if one.from_history and one.role != "system"]
        if not old or self.goes_on or self.recorder.left_open(run.correlation_id).cause is not None:
            return []
        return [run.message(one.role, message_parts(one), at_ns=self.at_ns) for one in old]

    def _heard(self, run: ObservedRun, given: Any) -> list[Event]:
        """The messages that the run was given."""
        heard: list[tuple[str, list[dict[str, Any]]]] = []
        if not self.goes_on:
            beside = given or SimpleNamespace(**{**self.given, "input": None})
            heard = input_messages(getattr(given, "input_content", self.given.get("input")), beside)
        elif isinstance(more := self.given.get("input"), str):
            heard = [("user", [text(more)])]
        return [run.message(role, parts, at_ns=self.at_ns) for role, parts in heard]

    def _answers(self, response: Any) -> list[tuple[str, dict[str, Any]]]:
        """What people said, as far as it is known by now."""
        if self.is_workflow:
            return steps_said(list(getattr(response, "step_requirements", None) or ())[-1:])
        before = self.given.get("run_response")
        given = self.given.get("requirements") or getattr(before, "requirements", None)
        run_id = getattr(before or response, "run_id", None) or self.given.get("run_id")
        return said(given or getattr(response, "requirements", None) or (), run_id)

    # --- what the model sees ------------------------------------------------------------------------------

    def heard(self, messages: list[Any]) -> list[Event]:
        """A request goes to the model: what in it is not on record yet."""
        run = self.run
        if run is None:
            return []
        made: list[Event] = []
        last = max((at for at, one in enumerate(messages) if one.role == "assistant"), default=-1)
        for one in messages:
            told = one.content if one.role in ("system", "developer") else None
            if isinstance(told, str) and self.recorder.prompts.is_new(run.correlation_id, self.agent, told):
                made.append(run.message("system", [text(told)], cause=run.started_event))
        for one in messages[last + 1 :]:
            if one.from_history:
                continue
            if one.role == "user":
                said = str(one.content)
                if self._shown and said not in self._shown and (parts := message_parts(one)):
                    made.append(run.message("user", parts, native={"added": True}))
            elif one.role not in ("user", "assistant", "system", "developer"):
                made += self._not_executed(run, one)
        self._shown.update(str(one.content) for one in messages)
        return made

    def _not_executed(self, run: ObservedRun, message: Any) -> list[Event]:
        """The model is told of a call that no tool was executed for: refused, answered by a person, unknown."""
        call_id = message.tool_call_id
        if call_id is None or call_id in self.executed or not (call_id in run.calls or call_id in run.asked):
            return []
        self.executed.add(call_id)
        if call_id in run.calls and not message.tool_call_error:  # a person gave it, or ran it elsewhere
            return [run.tool_result(call_id, message.tool_name, result=plain(message.content))]
        made: list[Event] = []
        if call_id not in run.calls:
            name, arguments = self.wanted.get(call_id, (message.tool_name, message.tool_args))
            made.append(run.tool_call(call_id, name, arguments))
        error = {"message": str(message.content)}
        return [*made, run.tool_result(call_id, message.tool_name, error=error)]

    # --- its end ------------------------------------------------------------------------------------------

    def saw(self, item: Any) -> None:
        """A stream yielded this."""
        kind = getattr(item, "event", None)
        if getattr(item, "run_id", None) not in (self.key, self.given.get("run_id")):
            return  # of a run inside of this one
        self._item = item
        if self.response is None and kind in ("RunContent", "TeamRunContent"):
            self._streamed.append(str(item.content or ""))
        if kind is None and hasattr(item, "status"):
            self.response = item
        elif kind in _TELLING:
            self._told = item

    def over(self, result: Any, error: BaseException | None) -> list[Event | None]:
        """The run gave its output, or raised, or was stopped."""
        output = result if hasattr(result, "status") and hasattr(result, "run_id") else None
        made: list[Event | None] = []
        if not self.begun:
            told = output or self._told or self._item
            if told is None and (error is None or self.goes_on):
                return []  # a stream that nobody read; a run that cannot go on
            made += self.begin(output, getattr(told, "run_id", None), getattr(told, "session_id", None))
        run = self.run
        if run is None:
            return made
        output = self.response = output or self.response
        made += self._stopped_tools(run)
        made += self._from_cache(run, output)
        if _status(output) == "paused":
            self.recorder.remember(str(self.key), run.correlation_id)
            return [*made, *self._questions(run, output)]
        return [*made, self._end(run, output, error)]

    def _content(self, output: Any) -> Any:
        return "".join(self._streamed) or None if output is None else getattr(output, "content", None)

    def _from_cache(self, run: ObservedRun, output: Any) -> list[Event]:
        """What Agno answers from its cache no model is asked for."""
        cached = not self._shown and getattr(getattr(self.owner, "model", None), "cache_response", False)
        content = self._content(output)
        if cached and content and isinstance(content, str) and _status(output) in ("completed", ""):
            return [run.message("assistant", [text(content)], native={"cached": True})]
        return []

    def _end(self, run: ObservedRun, output: Any, error: BaseException | None) -> Event | None:
        status, told = _status(output), str(getattr(self._told, "event", ""))
        if status == "cancelled" or told.endswith("Cancelled"):
            return run.cancelled(_reason(output, self._told))
        if status == "error" or told.endswith("Error"):
            return run.failed(self._error(output, error))
        if error is None or status == "completed":
            return run.completed(plain(self._content(output)))
        if isinstance(error, STOPPED):
            return run.cancelled(_why(error))
        return run.failed(error)

    def _questions(self, run: ObservedRun, output: Any) -> list[Event | None]:
        """What the run waits for, and that it pauses."""
        if self.is_workflow:
            waiting = list((output.step_requirements or ())[-1:])
            made = steps_asked(run, waiting)
            names = {str(one.executor_name or one.step_name) for one in waiting}
        else:
            waiting = [one for one in output.requirements or () if not one.is_resolved()]
            made = asked(run, waiting, self.key)
            names = {str(one.member_agent_name or one.tool_execution.tool_name) for one in waiting}
        return [*made, run.paused(f"waits for: {', '.join(sorted(names))}")]

    def _stopped_tools(self, run: ObservedRun) -> list[Event]:
        stopped = {"message": "cancelled with its run"}
        left = list(self.executing.values())
        self.executing.clear()
        return [run.tool_result(call_id, name, error=stopped, cause=cause) for call_id, name, cause in left]

    def _error(self, output: Any, error: BaseException | None) -> Any:
        told = getattr(output, "content", None) or getattr(self._told, "content", None)
        for one in (error, self.error):
            if one is not None and not isinstance(one, STOPPED) and (told is None or str(one) in str(told)):
                return one
        kind = getattr(self._told, "error_type", None)
        return {"message": str(told or "the run failed"), **({"type": kind} if kind else {})}


_TELLING = frozenset(
    f"{prefix}{name}"
    for prefix in ("Run", "TeamRun", "Workflow")
    for name in ("Error", "Cancelled", "Completed", "Paused")
)


def _status(output: Any) -> str:
    return str(getattr(getattr(output, "status", None), "name", "")).lower()


def _why(error: BaseException) -> str:
    return (
        "the stream was closed before its end" if isinstance(error, GeneratorExit) else type(error).__name__
    )


def _reason(output: Any, told: Any) -> str:
    return str(getattr(told, "reason", None) or getattr(output, "content", None) or "cancelled")

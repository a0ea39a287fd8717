"""One run of an agent: its beginning, its models, its steps and its end, as the way in and the steps tell them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.observed import error_facts
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.smolagents.everybody import Everybody, harmless
from chatsnapshot.adapters.smolagents.items import as_value, content_parts, finish_reason, is_own, usage_of
from chatsnapshot.adapters.smolagents.tools import Tools
from chatsnapshot.adapters.smolagents.watching import Given
from chatsnapshot.clock import time_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import ObservedRun
    from chatsnapshot.adapters.smolagents.recorder import SmolagentsRecorder

__all__ = ["PLACE", "Call", "Place"]

_STOPPED = (KeyboardInterrupt, SystemExit, GeneratorExit)
_STREAM_CLOSED = "the caller stopped the stream"


class Place(NamedTuple):
    """Whose code runs here and now."""

    call: Call
    in_code: bool = False
    """Whether it is code that a model wrote."""
    busy: bool = False
    """Whether it is a tool or a model: what they do is not the agent's doing."""


PLACE: ContextVar[Place | None] = ContextVar("chatsnapshot_smolagents", default=None)


class Call:
    """One call of ``agent.run`` and everybody who records it. No method raises by itself."""

    def __init__(self, recorders: Sequence[SmolagentsRecorder], given: Given) -> None:
        self.given = given
        self.agent = given.agent
        self.model: Any = getattr(given.agent, "model", None)
        outer = PLACE.get()
        around: Everybody | None = None if outer is None else outer.call.everybody
        self.everybody: Everybody = Everybody(recorders, given, around)
        self.tools = Tools(self.everybody, given.agent)
        self.over = False
        self._began = False
        self._said: list[dict[str, Any]] = []
        """What the model answered last, in parts, while it is not told: the agent may change its text afterwards."""
        self._answered = False
        """Whether a message holds the final answer."""
        self._executed = False
        """Whether the step came to a result."""
        self._spoke = False
        """Whether what the model said in this step is told."""
        self._models = 0
        """How often the model was asked in this step."""
        self._limited = False
        self._step: Any = None

    # --- where code runs ----------------------------------------------------------------------------------

    @contextmanager
    def here(self) -> Iterator[None]:
        """Around what the agent does by itself, and around the code that it executes."""
        code = self.tools.code
        with (
            _at(Place(self, in_code=code is not None)),
            self.everybody.inside(code.call_id if code else None),
        ):
            yield

    @contextmanager
    def inside(self, call_id: str) -> Iterator[None]:
        """Around a tool."""
        with _at(Place(self, busy=True)), self.everybody.inside(call_id):
            yield

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around a model."""
        with _at(Place(self, busy=True)):
            yield

    # --- the beginning and the end ------------------------------------------------------------------------

    @harmless
    def begin(self) -> None:
        """The run begins; twice does nothing."""
        if not self._began:
            self._began = True
            self.everybody.begin(uuid.uuid4().hex)

    @harmless
    def broke(self, error: BaseException) -> None:
        """The run raised, or was stopped."""
        if self.over:
            return
        self._say()
        stopped = isinstance(error, _STOPPED)
        wrong = {"message": "stopped with its run"} if stopped else error
        self.tools.executed(None, wrong)
        self.tools.leave(wrong)
        reason = None
        if stopped:
            reason = _STREAM_CLOSED if isinstance(error, GeneratorExit) else type(error).__name__
        elif getattr(self.agent, "interrupt_switch", False) is True and is_own(error, "AgentError"):
            reason = str(error)
        self._end(lambda run: [run.failed(error) if reason is None else run.cancelled(reason)])

    @harmless
    def finished(self, output: Any) -> None:
        """The run gave its answer; twice does nothing."""
        if self.over:
            return
        self._say()
        value = as_value(output)
        parts = (
            [] if self._answered else content_parts(output if isinstance(output, (str, list)) else [value])
        )

        def end(run: ObservedRun) -> Iterable[Event | None]:
            if parts:
                yield run.message("assistant", parts)
            yield run.completed(value)

        self._end(end)

    def _end(self, events: Any) -> None:
        self.over = True
        self.everybody.record(events)
        self.everybody.end()

    # --- models -------------------------------------------------------------------------------------------

    @harmless
    def asks(self) -> None:
        """The model is being asked from now on."""
        self._say()
        limit = self.given.steps_max
        if not self._limited and isinstance(limit, int) and self.agent.step_number > limit:
            self._limited = True
            facts = {"name": "max_steps", "limit": limit, "unit": "steps", "scope": "run"}
            self.everybody.hold(lambda run: [run.event("system.limit_reached", facts)])

    @harmless
    def answers(self, since: tuple[int, int] | None, answer: Any) -> None:
        """The model answered; the message is told when it is known what it asks for."""
        self._said = content_parts(getattr(answer, "content", None))
        self._model_call(since, {"usage": usage_of(answer), "finish_reason": finish_reason(answer)})

    @harmless
    def fails(self, since: tuple[int, int], error: BaseException) -> None:
        """The model failed, or the run was stopped while it answered."""
        stopped = isinstance(error, _STOPPED)
        self._model_call(since, {"status": "cancelled"} if stopped else {"error": error})

    def _model_call(self, since: tuple[int, int] | None, facts: Mapping[str, Any]) -> None:
        self._models += 1
        known = {
            "model": getattr(self.model, "model_id", None),
            "provider": type(self.model).__name__,
            "step": getattr(self.agent, "step_number", None),
        }
        if since is not None:
            known.update(started_at=time_text(since[0]), duration_ns=time.monotonic_ns() - since[1])
        self.everybody.hold(lambda run: [run.model_call(**known, **facts)])

    @harmless
    def asks_tools(self, answer: Any) -> None:
        """The model's answer asks for tools, or gives the final answer."""
        self._said, self._spoke = [], True
        self._answered = self.tools.ask(answer)

    def _say(self) -> None:
        """Tell what the model said, where it asked for nothing."""
        parts, self._said = self._said, []
        if parts:
            self._answered = True
            self.everybody.record(lambda run: [run.message("assistant", parts)])

    # --- steps --------------------------------------------------------------------------------------------

    @harmless
    def saw(self, item: Any) -> None:
        """The run yielded this."""
        kind = type(item).__name__
        if kind == "ToolCall" and not self.tools.knows(item.id):
            parts, self._said, self._answered, self._spoke = self._said, [], False, True
            has_code = getattr(self.agent, "python_executor", None) is not None
            (self.tools.execute if has_code else self.tools.also)(item, parts)
        elif kind == "ToolOutput":
            self.tools.gave(item.id, item.output)
        elif kind == "ActionOutput":
            self._executed = True
        elif kind == "PlanningStep":
            self._told_by(item)
            self._answered = False
        elif kind == "ActionStep" and item is not self._step:
            self._step = item
            self._stepped(item)
        elif kind == "FinalAnswerStep":
            self.finished(item.output)

    def _told_by(self, step: Any) -> None:
        """What a model said; with its call, where the model could not be listened to."""
        if not self._models and step.model_output_message is not None:
            self.answers(None, step.model_output_message)
            self._said = [] if self._spoke else self._said
        self._say()
        self._models, self._spoke = 0, False

    def _stepped(self, step: Any) -> None:
        error, executed, self._executed = step.error, self._executed, False
        told = self.tools.failed or (self.tools.code is not None and not executed)
        self.tools.failed = False
        self.tools.executed(step.observations, None if executed else error or {"message": "stopped"})
        self._told_by(step)
        self.tools.leave(error or {"message": "not executed"})
        if executed and (step.is_final_answer or error is not None):
            told = self._checked(error) or told
        if error is None:
            self._answered = self._answered and step.is_final_answer
            return
        self._answered = False
        if not told:
            facts = {"error": error_facts(error), "component": "step", "step": step.step_number}
            self.everybody.record(lambda run: [run.event("system.error", facts)])

    def _checked(self, error: BaseException | None) -> bool:
        """Tell what the checks of a final answer said: whether one of them is what failed."""
        said = "" if error is None else str(error)
        if error is not None and not said.startswith("Check "):
            return False
        judged: list[dict[str, Any]] = []
        for check in getattr(self.agent, "final_answer_checks", None) or ():
            name = str(getattr(check, "__name__", None) or type(check).__name__)
            wrong = said.startswith(f"Check {name} failed")
            verdict = {"outcome": "blocked", "message": said} if wrong else {"outcome": "passed"}
            judged.append({"name": name, "phase": "output", "triggered": wrong, **verdict})
            if wrong:
                break
        self.everybody.record(lambda run: [run.event("execution.guardrail", one) for one in judged])
        return bool(judged and judged[-1]["triggered"])


@contextmanager
def _at(place: Place) -> Iterator[None]:
    token = PLACE.set(place)
    try:
        yield
    finally:
        PLACE.reset(token)

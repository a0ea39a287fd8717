"""What is recorded around the steps of a workflow, one after the other and beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from chatsnapshot.adapters.agno.following import STOPPED, Told
from chatsnapshot.adapters.agno.pieces import Around, recorded_in
from chatsnapshot.adapters.agno.watching import Watch
from chatsnapshot.adapters.plain import describe_error, plain
from chatsnapshot.adapters.policy import Event

__all__ = ["ParallelPiece", "StepPiece"]


@dataclass(frozen=True)
class _Branch:
    """One of the lines of steps that go on beside each other: each has a context of its own."""

    last: dict[int, str]
    """The end of the step that ended last in this line, for each watch; before it, where all the lines begin."""
    ends: dict[int, str]
    """The step that ended last in any of the lines: what comes after them is caused by it."""


_BRANCH: ContextVar[_Branch | None] = ContextVar("chatsnapshot_agno_branch", default=None)


def _last_of(watch: Watch) -> str | None:
    branch = _BRANCH.get()
    return (branch.last.get(id(watch)) if branch is not None else None) or watch.last_step


def _went_on(watch: Watch, event_id: str) -> None:
    branch = _BRANCH.get()
    if branch is None or id(watch) not in branch.last:
        watch.last_step = event_id
        return
    branch.ends[id(watch)] = event_id
    _BRANCH.set(_Branch({**branch.last, id(watch): event_id}, branch.ends))


class ParallelPiece(Around):
    """Steps beside each other: each is caused by what ended before all of them, whichever begins first."""

    def __init__(self, watches: tuple[Watch, ...]) -> None:
        super().__init__(tuple(watch for watch in watches if watch.is_workflow and watch.run is not None))
        begun: dict[int, str] = {}
        for watch in self.watches:
            before = _last_of(watch) or (watch.run.started_event if watch.run is not None else None)
            if before is not None:
                begun[id(watch)] = before
        self._branch = _Branch(begun, {})

    @contextmanager
    def inside(self) -> Iterator[None]:
        token = _BRANCH.set(self._branch)
        try:
            yield
        finally:
            with suppress(ValueError):  # what is left behind may be closed in another context
                _BRANCH.reset(token)

    def recorded(self) -> None:
        for watch in self.watches:
            if (event_id := self._branch.ends.get(id(watch))) is not None:
                _went_on(watch, event_id)


class StepPiece(Around):
    """A step of a workflow; the agent, team or function in it is caused by its start."""

    def __init__(self, watches: tuple[Watch, ...], step: Any, given: dict[str, Any]) -> None:
        super().__init__(tuple(watch for watch in watches if watch.is_workflow))
        self.name = str(step.name or "step")
        self.input = given.get("step_input")
        self._output: Any = None
        self._begun: dict[int, dict[str, Any]] = {}
        self._ends: list[tuple[Watch, str]] = []

    def begin(self) -> Told:
        return self._told(self._started)

    def _started(self, watch: Watch) -> list[Event | None]:
        run = watch.run
        if run is None:
            return []
        watch.steps[self.name] += 1
        task = {
            "task_id": f"{self.name}-{watch.steps[self.name]}",
            "name": self.name,
            "workflow_id": run.run_id,
        }
        content = getattr(self.input, "previous_step_content", None) or getattr(self.input, "input", None)
        cause = _last_of(watch) or run.started_event
        made = run.event("system.task_started", {**task, "input": plain(content), "cause": cause})
        self._begun[id(watch)] = {**task, "cause": made["event_id"]}
        return [made]

    @contextmanager
    def inside(self) -> Iterator[None]:
        with ExitStack() as stack:
            for watch in self.watches:
                task = self._begun.get(id(watch))
                if watch.run is not None and task is not None:
                    stack.enter_context(recorded_in(watch.run, task["cause"]))
            yield

    def saw(self, item: Any) -> None:
        if hasattr(item, "success") and hasattr(item, "content"):
            self._output = item

    def over(self, result: Any, error: BaseException | None) -> Told:
        return self._told(lambda watch: self._ended(watch, result or self._output, error))

    def recorded(self) -> None:
        for watch, event_id in self._ends:
            _went_on(watch, event_id)  # only what is on record is a cause

    def _ended(self, watch: Watch, output: Any, error: BaseException | None) -> list[Event | None]:
        run, task = watch.run, self._begun.pop(id(watch), None)
        if run is None or task is None:
            return []
        if isinstance(error, STOPPED):
            made = run.event("system.task_cancelled", task)
        elif error is not None or getattr(output, "success", True) is False:
            facts = describe_error(error) if error is not None else {"message": str(output.error)}
            made = run.event("system.task_failed", {**task, "error": facts})
        elif getattr(output, "is_paused", False):
            made = run.state("step", value="paused", step=self.name, cause=task["cause"])
        else:
            content = plain(getattr(output, "content", None))
            made = run.event("system.task_completed", {**task, "output": content})
        self._ends.append((watch, made["event_id"]))
        return [made]

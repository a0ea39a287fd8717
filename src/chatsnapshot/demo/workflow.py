"""A workflow that lives in the ledger: what is completed is read from there, so any process can go on with it.

Nothing else is kept anywhere. A task counts as completed when its ``system.task_completed`` is durable; its
output is the output of that event, also for the tasks that come after it in another process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chatsnapshot.adapters.plain import describe_error
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.ledger import Ledger

__all__ = ["Task", "Workflow"]


class Work(NamedTuple):
    """What a task's function is given: where it stands, what began it, and what the tasks before it gave."""

    ledger: Ledger
    workflow_id: str
    started: LedgerEntry
    outputs: Mapping[str, Any]


class Task(NamedTuple):
    """One step of a workflow; ``depends_on`` are names of tasks before it."""

    name: str
    do: Callable[[Work], Awaitable[Any]]
    depends_on: tuple[str, ...] = ()


class Workflow:
    """Runs tasks one after the other, or goes on after the last one that is completed in the ledger."""

    def __init__(self, ledger: Ledger, workflow_id: str, name: str, tasks: Sequence[Task]) -> None:
        self.ledger = ledger
        self.workflow_id = workflow_id
        self.name = name
        self.tasks = tasks

    def completed(self) -> dict[str, Any]:
        """The tasks that are completed, with their outputs, as the ledger tells."""
        done = self.ledger.read(correlation_id=self.workflow_id, event_type="system.task_completed")
        return {entry.payload["task_id"]: entry.payload.get("output") for entry in done}

    async def run(
        self, *, cause: LedgerEntry | None = None, after_each: Callable[[str], None] = lambda name: None
    ) -> dict[str, Any]:
        """Run what is left to run; gives the outputs of all tasks.

        ``after_each`` is called when a task is completed, durably. A task that raises fails the workflow,
        and the exception goes on.
        """
        outputs = self.completed()
        last = await self._begin(outputs, cause)
        for task in self.tasks:
            if task.name not in outputs:
                last, outputs[task.name] = await self._do(task, outputs, last)
                after_each(task.name)
        await self._record("system.workflow_completed", {"output": outputs.get(self.tasks[-1].name)}, last)
        return outputs

    async def _begin(self, outputs: Mapping[str, Any], cause: LedgerEntry | None) -> LedgerEntry:
        known = self.ledger.read(correlation_id=self.workflow_id, event_type="system.task_scheduled", limit=1)
        if not list(known):
            started = await self._record("system.workflow_started", {"name": self.name}, cause)
            for task in self.tasks:
                facts = {"task_id": task.name, "name": task.name, "depends_on": list(task.depends_on)}
                await self._record("system.task_scheduled", facts, started)
            return started
        (last,) = self.ledger.read(correlation_id=self.workflow_id, reverse=True, limit=1)
        left = [task.name for task in self.tasks if task.name not in outputs]
        facts = {"name": self.name, "completed": list(outputs), "remaining": left}
        return await self._record("system.workflow_resumed", facts, last)

    async def _do(self, task: Task, outputs: Mapping[str, Any], last: LedgerEntry) -> tuple[LedgerEntry, Any]:
        facts = {"task_id": task.name, "name": task.name}
        started = await self._record("system.task_started", facts, last)
        try:
            with self.ledger.scope(self.workflow_id, cause=started):
                output = await task.do(Work(self.ledger, self.workflow_id, started, outputs))
        except Exception as error:
            failed = await self._record(
                "system.task_failed", {**facts, "error": describe_error(error)}, started
            )
            await self._record("system.workflow_failed", {"error": describe_error(error)}, failed)
            raise
        # The key makes it impossible for two processes to complete the same task twice.
        done = await self._record(
            "system.task_completed", {**facts, "output": output}, started, key=task.name
        )
        return done, output

    async def _record(
        self, event_type: str, facts: Mapping[str, Any], cause: LedgerEntry | None, key: str | None = None
    ) -> LedgerEntry:
        return await self.ledger.arecord(
            event_type,
            {"workflow_id": self.workflow_id, **facts},
            correlation_id=self.workflow_id,
            causation_id=cause,
            idempotency_key=None if key is None else f"{event_type} {key}",
        )

"""The state of the ``runs`` projection: what is known of each run and workflow of one correlation."""

from __future__ import annotations

import msgspec

from chatsnapshot.projections.pairing import Pairs
from chatsnapshot.projections.shapes import Evaluation

__all__ = ["ExecutionState", "RunState", "RunsState"]


class ExecutionState(msgspec.Struct, omit_defaults=True, gc=False):
    """One stretch of a run, as far as it was seen; ``begun``: its start was."""

    first_position: int
    last_position: int
    started_at: str | None
    ended_at: str | None
    status: str
    resumed: bool
    begun: bool = True


class RunState(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What is known of one run."""

    number: int
    run_id: str
    kind: str
    first_at: str | None
    last_at: str | None
    first_position: int
    last_position: int
    name: str | None = None
    parent: str | None = None
    started: bool = False
    ended_at: str | None = None
    events: int = 0
    messages: int = 0
    tool_calls: int = 0
    model_calls: int = 0
    tool_errors: int = 0
    model_errors: int = 0
    task_errors: int = 0
    integration_errors: int = 0
    other_errors: int = 0
    error: str | None = None
    reason: str | None = None
    agents: dict[str, None] = {}
    participants: dict[str, None] = {}
    runtimes: dict[str, None] = {}
    tags: dict[str, None] = {}
    executions: list[ExecutionState] = []
    evaluations: list[Evaluation] = []

    @property
    def open(self) -> bool:
        """Whether the last that was seen of it is a start."""
        return bool(self.executions) and self.executions[-1].status == "unfinished"


class RunsState(msgspec.Struct, omit_defaults=True, gc=False):
    """The runs of one correlation: ``runs`` by kind and id in the order in which they were first seen.

    ``owners`` tells which run (its number) the entries from a position on belong to; ``cause`` is the cause of the
    correlation's first event, where that was seen; ``current`` is the run of steps that name none; ``open`` holds the
    keys of open runs, ``workflows`` those of open workflows among them, in the order in which they were opened.
    ``judged_elsewhere`` are evaluations, recorded here, of runs of other correlations, by run id.
    """

    correlation_id: str = ""
    first_position: int = 0
    last_position: int = 0
    cause: str | None = None
    late: str | None = None
    runs: dict[str, RunState] = {}
    owners: list[tuple[int, int]] = []
    current: str | None = None
    open: dict[str, None] = {}
    workflows: dict[str, None] = {}
    questions: Pairs | None = None
    asked_in: dict[int, str] = {}
    asked: int = 0
    judged_elsewhere: dict[str, list[Evaluation]] = {}

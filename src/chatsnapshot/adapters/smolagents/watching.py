"""One recorder's view of one run: where it belongs, and its beginning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.smolagents.items import image_part
from chatsnapshot.adapters.surroundings import parent_of

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import ObservedRun
    from chatsnapshot.adapters.smolagents.recorder import SmolagentsRecorder

__all__ = ["Given", "Watch"]


class Given(NamedTuple):
    """What a run was asked for."""

    agent: Any
    name: str
    arguments: Mapping[str, Any]
    """What ``run`` was called with."""
    conversation: str
    at_ns: int

    @classmethod
    def of(cls, agent: Any, arguments: Mapping[str, Any], conversation: str) -> Given:
        """What ``agent.run`` was called with just now."""
        name = str(getattr(agent, "name", None) or type(agent).__name__)
        return cls(agent, name, arguments, conversation, time.time_ns())

    @property
    def steps_max(self) -> Any:
        """How many steps the run may take."""
        return self.arguments.get("max_steps") or getattr(self.agent, "max_steps", None)

    def task_parts(self) -> list[dict[str, Any]]:
        """What the user says: the task, and pictures beside it."""
        parts = [text(self.arguments.get("task"))]
        parts += [part for one in self.arguments.get("images") or () if (part := image_part(one)) is not None]
        return parts


class Watch:
    """Holds the run of one recorder; records nothing."""

    def __init__(self, recorder: SmolagentsRecorder, given: Given, above: Watch | None) -> None:
        self.recorder = recorder
        self.given = given
        self.run: ObservedRun | None = None
        self.held: list[Event] = []
        """Events that are recorded with the next ones."""
        here = recorder.parent_here()
        self.around = here.cause if here is not None else None
        """What caused the code around this run, so that a tool inside it is told from one outside."""
        self.child_of = parent_of(here, above.run if above else None, above.around if above else None)

    def begin(self, key: str) -> list[Event]:
        """The run begins with its task; nothing where another recorder of the ledger has it."""
        given, recorder = self.given, self.recorder
        options: dict[str, Any] = {} if self.child_of is None else {"parent": self.child_of}
        run = recorder.begin(given.name, key=key, correlation_id=given.conversation, **options)
        self.run = run
        if run is None:
            return []
        facts = {"version": recorder.version, "native": {"agent": type(given.agent).__name__}}
        more = given.arguments.get("additional_args")
        made = [run.started(more or None, at_ns=given.at_ns, **facts)]
        prompt = getattr(given.agent, "instructions", None)
        if prompt and recorder.prompts.is_new(run.correlation_id, given.name, str(prompt)):
            made.append(run.message("system", [text(prompt)], at_ns=given.at_ns))
        made.append(run.message("user", given.task_parts(), cause=run.started_event, at_ns=given.at_ns))
        return made

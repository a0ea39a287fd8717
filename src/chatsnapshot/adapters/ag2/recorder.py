"""``AG2Recorder``: records every turn of the AG2 1.x agents that carry its middleware."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from chatsnapshot.adapters.ag2.run import CURRENT, Run, root_of
from chatsnapshot.adapters.ag2.turn import Turn
from chatsnapshot.adapters.plain import plain
from chatsnapshot.adapters.policy import Event, SafeRecorder

__all__ = ["AG2Recorder"]

_AGENT_KEY = "__ag2_agent__"
_ENDED_RUNS_MAX = 1_000
_classes: dict[type, type] = {}


class AG2Recorder:
    """Records AG2 agents into a ledger.

    >>> recorder = AG2Recorder(ledger)
    >>> agent = Agent("triage", config=..., middleware=[recorder.middleware])

    Every turn becomes a run in the correlation ``correlation_id``, or of its stream's id. An agent that is
    asked inside a tool of another recorded agent is a child run with a correlation of its own, caused by
    the tool call. ``cause`` is the event (id, entry or envelope) that leads to the first event of a run
    that is no child.

    The agents never notice: a ledger that fails, hangs or is closed changes nothing for them. :attr:`safe`
    counts what could not be recorded; ``safe.flush()`` waits for what is kept for a second try.
    """

    def __init__(
        self,
        ledger: Any,
        *,
        correlation_id: str | None = None,
        cause: Any = None,
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.ledger = ledger
        self.correlation_id = correlation_id
        self.cause: str | None = None if cause is None else str(getattr(cause, "event_id", cause))
        self.safe = SafeRecorder(ledger, adapter="ag2", wait_seconds_max=wait_seconds_max)
        self._ended: OrderedDict[str, str] = OrderedDict()

    def middleware(self, event: Any, context: Any) -> Any:
        """Make the middleware of one turn; given to AG2 as it is: ``middleware=[recorder.middleware]``."""
        base = _base(type(context))
        try:
            turn = _class(base)(event, context)
            turn.begin(self)
        except Exception as error:
            self.safe.note(error)
            return base(event, context)
        return turn

    def new_run(self, context: Any) -> Run:
        """The run of a turn that begins: a child when that is inside a recorded tool call of this ledger."""
        parent = CURRENT.get()
        if parent is not None and parent.run.ledger is not self.ledger:
            parent = None
        stream_id = str(context.stream.id)
        return Run(
            ledger=self.ledger,
            correlation_id=stream_id if parent or self.correlation_id is None else self.correlation_id,
            agent=_agent_name(context),
            parent=parent,
        )

    def opening(self, run: Run, context: Any, *, resumed: bool) -> Event:
        """The first event of a run; ``run_resumed`` when the stream has a history already."""
        parent = run.parent
        if parent is not None:
            cause = parent.cause
        else:
            cause = self._ended.get(run.correlation_id) if resumed else None
            cause = cause or self.cause
        payload = {
            "name": run.agent,
            "parent_run_id": parent.run.run_id if parent else None,
            "stream_id": str(context.stream.id),
            "instructions": [str(prompt) for prompt in context.prompt],
            "variables": plain(context.variables),
            "runtime_version": _version(type(context)),
        }
        return run.event(
            "execution.run_resumed" if resumed else "execution.run_started",
            {key: value for key, value in payload.items() if value},
            cause=cause,
        )

    def ended(self, run: Run, event: Event) -> None:
        """Remember the end of a run: it is the cause when the conversation goes on."""
        self._ended[run.correlation_id] = event["event_id"]
        while len(self._ended) > _ENDED_RUNS_MAX:
            self._ended.popitem(last=False)

    def scope(self, run: Run, cause: str | None) -> AbstractContextManager[Any]:
        """What the user's own code records while a tool runs belongs to the run and is caused by the call."""
        return nullcontext()


def _base(context_type: type) -> Any:
    return importlib.import_module(f"{root_of(context_type)}.middleware").BaseMiddleware


def _class(base: type) -> Any:
    """The middleware class for this AG2; made once for each."""
    if base not in _classes:
        _classes[base] = type("RecordedTurn", (Turn, base), {})
    return _classes[base]


def _agent_name(context: Any) -> str:
    return str(getattr(context.dependencies.get(_AGENT_KEY), "name", None) or "agent")


def _version(context_type: type) -> str | None:
    version = getattr(importlib.import_module(root_of(context_type).partition(".")[0]), "__version__", None)
    return str(version) if version else None

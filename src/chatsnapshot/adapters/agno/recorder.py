"""``AgnoRecorder``: records runs of Agno agents, teams and workflows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from chatsnapshot.adapters.agno.entering import attach, needed, put
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.prompts import KnownPrompts
from chatsnapshot.adapters.requiring import version_of

__all__ = ["AgnoRecorder", "install"]

_WAITING_MAX = 10_000

Owner = TypeVar("Owner")


class AgnoRecorder(RuntimeRecorder):
    """Records runs of Agno agents, teams and workflows (``pip install chatsnapshot[agno]``).

    >>> recorder = AgnoRecorder(ledger)
    >>> agent = recorder.attach(Agent(model, name="desk"))

    All ways of running are recorded: ``run``, ``arun``, ``continue_run``, ``acontinue_run``, streamed or not, in the
    background too. A run's conversation is the recorder's ``correlation_id``, else Agno's session. Members of a team,
    the steps of a workflow and agents that a tool runs are child runs. A run that waits for a person is paused, and
    ``continue_run`` goes on with it. ``docs/agno.md`` says what is recorded and what is not.

    Raises :class:`MissingExtra` without Agno, :class:`LedgerError` where the installed version lacks what is needed.
    """

    runtime = "agno"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        needed()
        self.version = version_of("agno")
        """The installed version of Agno."""
        self.prompts = KnownPrompts()
        """Instructions that are on record."""
        self.waiting: OrderedDict[str, str] = OrderedDict()
        """Runs that wait, by Agno's id of the run: the correlation that they go on in."""

    def attach(self, owner: Owner) -> Owner:
        """Record the runs of an agent, a team or a workflow from here on, with all runs inside; gives it back.

        Raises :class:`TypeError` for anything else.
        """
        attach(self, owner)
        return owner

    def remember(self, run_id: str, correlation_id: str) -> None:
        """A run waits for somebody: where it goes on."""
        self.waiting[run_id] = correlation_id
        self.waiting.move_to_end(run_id)
        if len(self.waiting) > _WAITING_MAX:
            self.waiting.popitem(last=False)


def install(recorder: AgnoRecorder) -> Callable[[], None]:
    """Record every run of every agent, team and workflow of this process; gives what undoes it."""
    if not isinstance(recorder, AgnoRecorder):
        raise TypeError(f"install takes an AgnoRecorder, not {type(recorder).__name__}")
    return put(recorder)

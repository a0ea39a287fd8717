"""``resume_run`` and ``aresume_run``: from a ledger and fresh agents to a run that can go on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.recorder import AG2Recorder
from chatsnapshot.adapters.ag2.resuming import talks
from chatsnapshot.adapters.ag2.resuming.deciding import OpenCalls
from chatsnapshot.adapters.ag2.resuming.reading import Recorded, Step, read_run
from chatsnapshot.adapters.ag2.resuming.resumedchat import ResumedChat
from chatsnapshot.adapters.ag2.resuming.resumedgroup import ResumedGroup
from chatsnapshot.adapters.ag2.resuming.resumedrun import ResumedRun
from chatsnapshot.adapters.ag2.resuming.streams import rebuild
from chatsnapshot.adapters.ag2.saving.classic import groups_of, named
from chatsnapshot.adapters.ag2.saving.groups import is_pattern
from chatsnapshot.adapters.ag2.saving.lines import CLASSIC, STREAMED, as_list, line_of
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["aresume_run", "resume_run"]


async def aresume_run(
    ledger: Ledger | AG2Recorder,
    correlation_id: object,
    agent: Any,
    *,
    run_id: object = None,
    open_calls: OpenCalls = "execute",
    answers: Mapping[str, Any] | None = None,
    before: Sequence[Any] = (),
    trusted: Sequence[str] = (),
    stream: Any = None,
) -> ResumedRun:
    """Build a recorded run of an AG2 1.x agent again, to go on with it: ``await resumed.go_on()``.

    ``agent`` is made anew as always. ``run_id`` names the run; without it it is the last one of this agent under the
    correlation. ``open_calls`` says what becomes of tool calls without a result: ``"execute"`` runs them once more (a
    tool that was killed at work may have done its work), ``"close"`` tells the model that nobody knows, a mapping from
    call id to result, or a function, answers them. ``answers`` are those of people, by question id. ``before`` is the
    history that an agent had before its first recorded run, ``trusted`` the modules that classes of your own may be
    loaded from, ``stream`` a stream of yours to fill.

    Raises :class:`NotFound` for what is not recorded or was erased, :class:`Corrupt` for an entry that was changed,
    :class:`InvalidEvent` for what cannot be gone on with.
    """
    recorder = ledger if isinstance(ledger, AG2Recorder) else AG2Recorder(ledger)
    if line_of([agent]) != STREAMED:
        raise InvalidEvent("agents of the classic line are gone on with by resume_run", path="agent")
    wanted = partial(_is_of, str(agent.name))
    recorded = await asyncio.to_thread(read_run, recorder.ledger, correlation_id, run_id, _stream_of, wanted)
    _has_its_beginning(recorded, before)
    resumed = ResumedRun(recorder, agent, recorded, rebuild(recorded, agent, trusted, before), stream)
    await resumed.prepare(open_calls, answers or {})
    return resumed


def resume_run(
    ledger: Ledger | AG2Recorder,
    correlation_id: object,
    agents: Any,
    *,
    run_id: object = None,
    open_calls: OpenCalls = "execute",
    answers: Mapping[str, Any] | None = None,
) -> ResumedChat | ResumedGroup:
    """Build a recorded run of the classic line again, to go on with it: ``resumed.go_on()``.

    ``agents`` are the two agents of a chat, or the ``GroupChatManager`` or pattern of a group, made anew as always, with
    the same names. The rest is as in :func:`aresume_run`; a run without ``run_id`` is the last one under the correlation.
    """
    recorder = ledger if isinstance(ledger, AG2Recorder) else AG2Recorder(ledger)
    given = as_list(agents)
    recorded = read_run(recorder.ledger, correlation_id, run_id, _own_id, _is_classic)
    if len(given) == 1 and (is_pattern(given[0]) or groups_of(given)):
        talk = talks.rebuild(recorded, group=True)
        return ResumedGroup(recorder, given[0], recorded, talk, open_calls, answers or {})
    if line_of(given) != CLASSIC:
        raise InvalidEvent("agents of AG2 1.x are gone on with by aresume_run", path="agents")
    talk = talks.rebuild(recorded)
    return ResumedChat(recorder, named(given), recorded, talk, open_calls, answers or {})


def _own_id(step: Step) -> object:
    return step.run_id


def _is_classic(step: Step) -> bool:
    return step.payload.get("stream_id") is None


def _stream_of(step: Step) -> object:
    return step.payload.get("stream_id")


def _is_of(agent: str, step: Step) -> bool:
    return step.payload.get("stream_id") is not None and step.payload.get("name") in (agent, "agent")


def _has_its_beginning(recorded: Recorded, before: Sequence[Any]) -> None:
    """Refuse a conversation whose first turns are on no record, for the model would not know of them."""
    first = next(step for step in recorded.steps if step.starts)
    if first.entry.event_type == "execution.run_resumed" and not before:
        raise InvalidEvent(
            f"the conversation of run {recorded.run_id!r} began before its first recorded run (position "
            f"{first.entry.position}); give that history as before=[events]",
            path="before",
        )

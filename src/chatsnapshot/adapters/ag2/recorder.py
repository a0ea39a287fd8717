"""``AG2Recorder``: records every turn of the AG2 1.x agents that carry its middleware."""

from __future__ import annotations

import importlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.ag2.continuing import adopted, take
from chatsnapshot.adapters.ag2.earlier import Earlier, left_by, left_in
from chatsnapshot.adapters.ag2.hub import HubTap, import_channel, listener_class
from chatsnapshot.adapters.ag2.run import CURRENT, Parent, Run, root_of
from chatsnapshot.adapters.ag2.storage import RecordingStorage
from chatsnapshot.adapters.ag2.streamed import text_of
from chatsnapshot.adapters.ag2.turn import Turn
from chatsnapshot.adapters.custom import first_run
from chatsnapshot.adapters.places import Parent as Above
from chatsnapshot.adapters.places import enter, leave, parent_here, process_mark, process_of
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event, SafeRecorder
from chatsnapshot.clock import uuid_bytes, uuid_text

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.hooking import Attached
    from chatsnapshot.adapters.ag2.resuming import ResumedChat, ResumedGroup, ResumedRun
    from chatsnapshot.adapters.ag2.tee import Tee

__all__ = ["AG2Recorder"]

_HERE = "chatsnapshot.adapters.ag2"
_AGENT_KEY = "__ag2_agent__"
_CHANNEL_KEY = "ag2.network.channel"
_CLIENT_KEY = "ag2.network.agent_client"
_ENDED_RUNS_MAX = 1_000
_classes: dict[type, type] = {}


class Ended(NamedTuple):
    """A run that is over, and its last event."""

    run: Run
    event_id: str


class AG2Recorder:
    """Records AG2 agents into a ledger.

    >>> recorder = AG2Recorder(ledger)
    >>> agent = Agent("triage", config=..., middleware=[recorder.middleware])

    Every turn becomes a run under ``correlation_id``, or else under the id of its stream. An agent that is
    asked inside a tool of another recorded agent is a child run with a correlation of its own, caused by
    the tool call. ``cause`` is the event (id, entry or envelope) that leads to the first event of a run
    that is no child.

    ``redact`` is what every event passes first: the built-in patterns unless something else is given
    (``None``: nothing).

    The agents never notice: a ledger that fails, hangs or is closed changes nothing for them. :attr:`safe`
    counts what could not be recorded; ``safe.flush()`` waits for what is kept for a second try.
    """

    def __init__(
        self,
        ledger: Any,
        *,
        correlation_id: object = None,
        cause: Any = None,
        wait_seconds_max: float = 5.0,
        redact: Any = "secrets",
    ) -> None:
        self.ledger = ledger
        self.correlation_id = None if correlation_id is None else header_text(correlation_id)
        self.cause = _event_id(cause)
        self.above: Above | None = None
        """What the whole process runs in, for runs that nothing else is around."""
        self.safe = SafeRecorder(ledger, adapter="ag2", wait_seconds_max=wait_seconds_max, redact=redact)
        self._ended: OrderedDict[str, Ended] = OrderedDict()
        self._hubs: weakref.WeakSet[HubTap] = weakref.WeakSet()

    def middleware(self, event: Any, context: Any) -> Any:
        """Make the middleware of one turn; given to AG2 as it is: ``middleware=[recorder.middleware]``."""
        return self._turn(None, event, context)

    def named(self, agent: str) -> Callable[[Any, Any], Any]:
        """As :attr:`middleware`, for ``autogen.beta``, where an agent does not tell its name."""
        return partial(self._turn, agent)

    # --- the classic line (module autogen) ----------------------------------------------------------------

    def watch(
        self, call: Any, *, correlation_id: object = None, cause: Any = None, name: str | None = None
    ) -> Any:
        """Record what ``run``, ``run_iter``, ``run_group_chat``, ``sequential_run`` or one of their kin gives.

        >>> for event in recorder.watch(user.run(assistant, message="Hello")).events: ...

        Gives the very object back (an awaitable for an awaitable), which works as it did. The run is whole in
        the record whether or not its events are read. Raises :class:`TypeError` for anything else.
        """
        return importlib.import_module(f"{_HERE}.watching").watch(
            self, call, correlation_id=correlation_id, cause=_event_id(cause), name=name
        )

    def tee(self, *, correlation_id: object = None, cause: Any = None, name: str | None = None) -> Tee:
        """Record ``initiate_chat``, ``initiate_chats``, ``initiate_group_chat`` and their like in a block.

        >>> with recorder.tee() as chat:
        ...     result = chat.returned(user.initiate_chat(assistant, message="Hello"))
        """
        made: Tee = importlib.import_module(f"{_HERE}.tee").Tee(
            self, {"correlation_id": correlation_id, "cause": _event_id(cause), "name": name}
        )
        return made

    def attach(
        self, *agents: Any, correlation_id: object = None, cause: Any = None, name: str | None = None
    ) -> Attached:
        """Record what these agents send silently (``silent=True``), of which AG2 tells nothing.

        Messages that a watched call or a tee records are not recorded twice. Ends with ``close()``, also as a
        ``with`` block.
        """
        options = {"correlation_id": correlation_id, "cause": _event_id(cause), "name": name}
        made: Attached = importlib.import_module(f"{_HERE}.hooking").Attached(self, agents, options)
        return made

    def resume(self, correlation_id: object, agents: Any, **options: Any) -> ResumedChat | ResumedGroup:
        """Go on with a run of the classic line that a kill stopped; see :func:`resume_run`."""
        resume_run: Any = importlib.import_module(f"{_HERE}.resuming").resume_run
        made: ResumedChat | ResumedGroup = resume_run(self, correlation_id, agents, **options)
        return made

    # --- AG2 1.x ------------------------------------------------------------------------------------------

    async def aresume(self, correlation_id: object, agent: Any, **options: Any) -> ResumedRun:
        """Go on with a run of an AG2 1.x agent that a kill stopped; see :func:`aresume_run`."""
        aresume_run: Any = importlib.import_module(f"{_HERE}.resuming").aresume_run
        made: ResumedRun = await aresume_run(self, correlation_id, agent, **options)
        return made

    def storage(self, inner: Any = None) -> RecordingStorage:
        """A storage for ``MemoryStream(storage=...)``: sub-agents without the middleware become child runs.

        It keeps events where ``inner`` does (any AG2 storage), or else in memory. What the middleware records is not
        recorded twice; on a stream without it the storage alone records what AG2 stores.
        """
        return RecordingStorage(self, inner)

    def hub_listener(self, hub: Any) -> Any:
        """A listener for ``hub.register_listener(recorder.hub_listener(hub))``: each channel is a run.

        The hub is needed for the logs of its channels, whose order is the truth, and for the names of its agents. Turns
        of recorded agents in a channel become child runs, caused by the packet that they answer.
        """
        tap = listener_class(hub)()
        tap.begin(self, hub)
        self._hubs.add(tap)
        return tap

    async def import_channel(self, hub: Any, channel_id: str) -> int:
        """Record from the log of a channel what the ledger does not hold; gives how many events that were.

        Raises what the ledger raises, and AG2's ``NotFoundError`` for a channel that the hub does not know.
        """
        return await import_channel(self, hub, channel_id)

    def _turn(self, agent: str | None, event: Any, context: Any) -> Any:
        base = _base(type(context))
        try:
            turn = _class(base)(event, context)
            turn.begin(self, agent)
        except Exception as error:
            self.safe.note(error)
            return base(event, context)
        return turn

    def new_run(
        self, context: Any, *, resumed: bool, agent: str | None = None, channel: Parent | None = None
    ) -> Run:
        """The run of a turn that begins: a child when that is inside a recorded tool call, a channel or a scope."""
        continued = take(str(context.stream.id), self.ledger)
        if continued is not None:
            return continued
        parent, inside = self.parent_here()
        if channel is not None and not inside:
            parent = channel
        child = inside or channel is not None
        stream_id = str(context.stream.id)
        given = adopted(stream_id, self.ledger) or self.correlation_id
        correlation_id = stream_id if child or given is None else given
        named = not resumed and (parent is None or parent.run_id != correlation_id)
        if named and correlation_id != stream_id:
            named = self.first_run(correlation_id)
        return Run(
            ledger=self.ledger,
            correlation_id=correlation_id,
            agent=self.agent_name(context, agent),
            parent=parent,
            run_id=correlation_id if named else None,
            inside=inside,
        )

    def agent_name(self, context: Any, given: str | None = None) -> str:
        """The name of the agent whose turn this is."""
        return _agent_name(context, given)

    async def channel_of(self, event: Any, context: Any) -> Parent | None:
        """The packet that a turn answers, when it happens in a channel of a hub that is listened to."""
        channel = context.dependencies.get(_CHANNEL_KEY)
        client = context.dependencies.get(_CLIENT_KEY)
        if channel is None or client is None or self.parent_here()[1]:
            return None
        for tap in list(self._hubs):
            try:
                return await tap.answered_by(channel.channel_id, client.agent_id, text_of(event))
            except Exception as error:
                if type(error).__name__ != "NotFoundError":  # of AG2: a channel of another hub
                    self.safe.note(error)
        return None

    async def earlier(self, run: Run) -> Earlier:
        """What the run before this one left open, from memory, and where that does not do from the ledger."""
        ended = self._ended.get(run.correlation_id)
        known = left_by(ended.run, ended.event_id) if ended else None
        if known is not None and known.question is None and not known.calls:
            return known
        found = None
        if not self.safe.kept:
            found = await left_in(self.ledger, run.correlation_id, self.safe.wait_seconds_max)
        return found or known or Earlier()

    def opening(self, run: Run, context: Any, *, resumed: bool, earlier: Earlier | None = None) -> Event:
        """The first event of a run; ``run_resumed`` when the stream has a history already."""
        cause = run.continues or (run.parent.cause if run.parent else None)
        run.variables = plain(context.variables)
        if cause is None and earlier is not None:
            cause = earlier.cause
        payload = {
            "name": run.agent,
            "parent_run_id": run.parent.run_id if run.parent else None,
            "stream_id": str(context.stream.id),
            "instructions": [str(prompt) for prompt in context.prompt],
            "variables": run.variables,
            "runtime_version": _version(type(context)),
        }
        return run.event(
            "execution.run_resumed" if resumed else "execution.run_started",
            {key: value for key, value in payload.items() if value},
            cause=cause or self.cause,
            attributes=process_mark(),
        )

    def ended(self, run: Run, event: Event) -> None:
        """Remember the end of a run: it is the cause when the conversation goes on."""
        self._ended[run.correlation_id] = Ended(run, event["event_id"])
        self._ended.move_to_end(run.correlation_id)
        while len(self._ended) > _ENDED_RUNS_MAX:
            self._ended.popitem(last=False)

    def last_run(self, correlation_id: str) -> Run | None:
        """The run of this conversation that ended last."""
        ended = self._ended.get(correlation_id)
        return ended.run if ended else None

    @contextmanager
    def scope(self, run: Run, cause: str | None) -> Iterator[None]:
        """What runs while a tool runs is caused by the call: the user's own events, and agents of any other runtime."""
        token = None
        try:
            token = enter(self.ledger, run.correlation_id, cause, run.run_id, run.agent)
        except Exception as error:
            self.safe.note(error)
        try:
            yield
        finally:
            leave(token)

    def parent_here(self) -> tuple[Parent | None, bool]:
        """What a run that begins here is started by, and whether that is a recorded tool call."""
        place, above = CURRENT.get(), parent_here(self.ledger) or self.above
        if above is None and self.cause is None:
            above = process_of(self.ledger)
        around = above.cause if above else None
        if place is not None and place.run.ledger is self.ledger and around in (None, place.cause):
            return Parent(place.run.run_id, place.cause, place.run.agent), True
        if above is None:
            return None, False
        return Parent(above.run_id, above.cause, above.agent), above.inside_tool

    def first_run(self, correlation_id: str) -> bool:
        """Whether this process has begun no run under this correlation yet: then the run may carry its name."""
        return first_run(self.ledger, correlation_id)


def _event_id(cause: Any) -> str | None:
    return None if cause is None else uuid_text(uuid_bytes(getattr(cause, "event_id", cause), "cause"))


def _base(context_type: type) -> Any:
    return importlib.import_module(f"{root_of(context_type)}.middleware").BaseMiddleware


def _class(base: type) -> Any:
    """The middleware class for this AG2; made once for each."""
    if base not in _classes:
        _classes[base] = type("RecordedTurn", (Turn, base), {})
    return _classes[base]


def _agent_name(context: Any, given: str | None) -> str:
    name = given or getattr(context.dependencies.get(_AGENT_KEY), "name", None)
    return header_text(name or "agent") or "agent"


def _version(context_type: type) -> str | None:
    version = getattr(importlib.import_module(root_of(context_type).partition(".")[0]), "__version__", None)
    return str(version) if version else None

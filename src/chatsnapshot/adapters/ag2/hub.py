"""What an AG2 hub tells its listeners, recorded in the order of the channels' logs."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.adapters.ag2.network import ChannelRun
from chatsnapshot.adapters.ag2.run import Parent
from chatsnapshot.adapters.plain import describe_error, header_text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.errors import NotFound

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["HubTap", "import_channel", "listener_class"]

_CHANNELS_KEPT = 1_000
_classes: dict[str, type] = {}

Told = Callable[..., Awaitable[None]]


class _Followed(NamedTuple):
    run: ChannelRun
    lock: asyncio.Lock
    offset: list[int]
    """Bytes of the log that have been read."""


def _harmless(told: Told) -> Told:
    """AG2 logs what a listener raises and goes on; here it is counted too, and a turn waits for no listener."""

    @wraps(told)
    async def tell(self: HubTap, *what: Any) -> None:
        try:
            await told(self, *what)
        except Exception as error:
            self.recorder.safe.note(error)

    return tell


class HubTap:
    """Records the channels of one hub; mixed with AG2's ``BaseHubListener``.

    A hub tells its listeners of envelopes out of order, and of some never. What is recorded is therefore the log of the
    channel: each call only says that there is something new in it.
    """

    recorder: AG2Recorder
    hub: Any

    def begin(self, recorder: AG2Recorder, hub: Any) -> None:
        """Follow the channels of this hub for this recorder."""
        self.recorder = recorder
        self.hub = hub
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self._parents: dict[str, Parent] = {}

    # --- what a hub tells -------------------------------------------------------------------------------------

    @_harmless
    async def on_envelope_posted(self, envelope: Any, metadata: Any) -> None:
        await self.catch_up(envelope.channel_id)

    @_harmless
    async def on_channel_event(self, channel_id: str, kind: str, payload: dict[str, Any]) -> None:
        if kind == "created":
            parent, _ = self.recorder.parent_here()
            if parent is not None:
                self._parents[channel_id] = parent
            return
        await self.catch_up(channel_id)

    @_harmless
    async def on_turn_failed(
        self, channel_id: str, agent_id: str, envelope_id: str, exc: BaseException
    ) -> None:
        await self.catch_up(channel_id)
        await self._beside(
            channel_id,
            "system.error",
            {"name": "turn_failed", "error": describe_error(exc), "envelope_id": envelope_id},
            by=agent_id,
            answering=True,
        )

    @_harmless
    async def on_envelope_rejected(self, envelope: Any, reason: BaseException) -> None:
        told = {"name": "envelope_rejected", "error": describe_error(reason), "native": _native(envelope)}
        await self._beside(envelope.channel_id, "execution.state_change", told, by=envelope.sender_id)

    @_harmless
    async def on_dispatch_failed(self, envelope: Any, recipient_id: str, reason: BaseException) -> None:
        await self.catch_up(envelope.channel_id)
        told = {
            "name": "dispatch_failed",
            "error": describe_error(reason),
            "recipient": self._name(recipient_id),
        }
        await self._beside(envelope.channel_id, "system.error", told, by=envelope.sender_id)

    @_harmless
    async def on_expectation_fired(self, channel_id: str, expectation: Any, violation: Any) -> None:
        told = {"name": "expectation_fired", "expectation": expectation, "violation": violation}
        await self._beside(channel_id, "execution.state_change", told, by=None)

    @_harmless
    async def on_task_event(self, task_id: str, kind: str, payload: dict[str, Any]) -> None:
        """A task of a channel. Its start and end stand as ``system.task_*`` in the run of its agent."""
        channel_id = payload.get("channel_id")
        if channel_id and kind != "progress":
            told = {"name": f"task_{kind}", "task_id": task_id, "reason": payload.get("reason")}
            await self._beside(str(channel_id), "execution.state_change", told, by=payload.get("owner_id"))

    # --- for turns inside a channel ---------------------------------------------------------------------------

    async def answered_by(self, channel_id: str, agent_id: str, asked: str) -> Parent | None:
        """The packet that a turn of this agent answers."""
        await self.catch_up(channel_id)
        followed = self._followed.get(channel_id)
        if followed is None:
            return None
        packet = followed.run.answered_by(agent_id, asked)
        if packet is None:
            return Parent(channel_id, followed.run.last)
        return Parent(channel_id, packet.event_id, packet.sender)

    # --- the log ----------------------------------------------------------------------------------------------

    async def catch_up(self, channel_id: str) -> None:
        """Record what is new in the log of a channel."""
        followed = self._followed.get(channel_id)
        if followed is None:
            metadata = await self.hub.get_channel(channel_id)
            parent = self._parents.get(channel_id) or Parent(None, self.recorder.cause)
            run = await channel_run(self.hub, metadata, parent)
            followed = self._followed.setdefault(channel_id, _Followed(run, asyncio.Lock(), [0]))
            self._make_room()
        async with followed.lock:
            first = followed.run.lines == 0
            events = [made for line in await self._new(followed) for made in self._read(followed.run, line)]
            if first and events:
                events = await self._unknown(followed.run, events)
            if events:
                await self.recorder.safe.arecord(*events)

    def _read(self, run: ChannelRun, line: Any) -> list[Event]:
        try:
            return run.read(line)
        except Exception as error:
            self.recorder.safe.note(error)  # a line of another shape: the others count all the same
            return []

    def _make_room(self) -> None:
        """Forget channels that are over, and the oldest when none is."""
        while len(self._followed) > _CHANNELS_KEPT:
            over = next((known for known, one in self._followed.items() if one.run.closed), None)
            channel_id = over or next(iter(self._followed))
            del self._followed[channel_id]
            self._parents.pop(channel_id, None)

    async def _new(self, followed: _Followed) -> list[Any]:
        """The lines that were appended since; from the store where the hub has one, so that long logs stay cheap."""
        run = followed.run
        store = getattr(self.hub, "_store", None)
        if store is None or not hasattr(store, "read_range"):
            return list(await self.hub.read_wal(run.channel_id, since=run.lines))
        root = _root(self.hub)
        path = importlib.import_module(f"{root}.hub.layout").wal_path(run.channel_id)
        envelope = importlib.import_module(f"{root}.envelope").Envelope
        text: str = await store.read_range(path, followed.offset[0])
        whole = text[: text.rfind("\n") + 1]
        followed.offset[0] += len(whole.encode())
        return [envelope.from_dict(json.loads(line)) for line in whole.splitlines() if line.strip()]

    async def _unknown(self, run: ChannelRun, events: list[Event]) -> list[Event]:
        """What the ledger does not hold yet; a channel that it knows and that goes on is a resumed run."""
        try:
            known = await asyncio.wait_for(
                _known(self.recorder.ledger, events), self.recorder.safe.wait_seconds_max
            )
        except Exception:
            return events  # recorded again they are the same events
        left = [event for event in events if event["event_id"] not in known]
        if run.start_id in known and not (run.closed and not left):
            last = [event["event_id"] for event in events if event["event_id"] in known][-1]
            resumed = run.beside("execution.run_resumed", {"name": "channel"}, cause=last, by=None)
            return [resumed, *left]
        return left

    async def _beside(
        self,
        channel_id: str,
        event_type: str,
        payload: dict[str, Any],
        *,
        by: str | None,
        answering: bool = False,
    ) -> None:
        followed = self._followed.get(channel_id)
        if followed is None:
            return
        answered = followed.run.answered_by(by) if by and answering else None
        event = followed.run.beside(
            event_type,
            payload,
            cause=answered.event_id if answered else None,
            by=self._name(by) if by else None,
        )
        await self.recorder.safe.arecord(event)

    def _name(self, agent_id: str) -> str:
        return name_of(self.hub, agent_id)


def listener_class(hub: Any) -> type:
    """``HubTap`` as a listener of this hub's AG2."""
    root = _root(hub)
    if root not in _classes:
        base = importlib.import_module(f"{root}.hub.listener").BaseHubListener
        _classes[root] = type("RecordingHubListener", (HubTap, base), {})
    return _classes[root]


async def channel_run(hub: Any, metadata: Any, parent: Parent) -> ChannelRun:
    """The run of a channel of this hub, before the first line of its log."""
    humans = set()
    for one in metadata.participants:
        try:
            passport = await hub.get_agent(one.agent_id)
        except Exception:
            continue  # it has left the hub
        if getattr(passport, "kind", None) == "human":
            humans.add(one.agent_id)
    try:
        adapter = hub.adapter_for(metadata.channel_id)
    except Exception:
        adapter = None  # its kind is not registered in this process
    return ChannelRun(
        metadata,
        name_of=lambda agent_id: name_of(hub, agent_id),
        humans=frozenset(humans),
        adapter=adapter,
        cause=parent.cause,
        parent_run_id=parent.run_id,
    )


def name_of(hub: Any, agent_id: str) -> str:
    """An agent's name; its id when it has left the hub."""
    return header_text(hub.name_for(agent_id, default=agent_id)) or "agent"


async def import_channel(recorder: AG2Recorder, hub: Any, channel_id: str) -> int:
    """Record what the log of a channel holds and the ledger does not; gives the number of events."""
    run = await channel_run(hub, await hub.get_channel(channel_id), Parent(None, recorder.cause))
    events = [made for line in await hub.read_wal(channel_id) for made in run.read(line)]
    known = await _known(recorder.ledger, events)
    left = recorder.safe.prepared(event for event in events if event["event_id"] not in known)
    if left:
        await recorder.ledger.arecord_many(left)
    return len(left)


async def _known(ledger: Any, events: list[Event]) -> set[str]:
    known = set()
    for event in events:
        try:
            await ledger.aget(event["event_id"])
        except NotFound:
            continue
        known.add(event["event_id"])
    return known


def _native(envelope: Any) -> dict[str, Any]:
    return {"type": "Envelope", "data": envelope.to_dict()}


def _root(hub: Any) -> str:
    for kind in type(hub).__mro__:
        if kind.__name__ == "Hub":
            return kind.__module__.partition(".hub")[0]
    raise TypeError(
        f"{type(hub).__qualname__} is no hub of AG2 1.x; give hub_listener the Hub that it listens to"
    )

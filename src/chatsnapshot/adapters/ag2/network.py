"""A channel of the AG2 network as a run: what its log says, as events with causes in the order of the log."""

from __future__ import annotations

import datetime
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chatsnapshot.adapters import payloads
from chatsnapshot.adapters.plain import header_text, plain
from chatsnapshot.adapters.policy import Event, new_event
from chatsnapshot.clock import idempotent_uuid, uuid_text

__all__ = ["ChannelRun", "Packet"]

_PACKETS_KEPT = 64
_UNSAFE = re.compile(r"[^a-z0-9_.]+")
_UNSEEN = frozenset({"ag2.channel.invite", "ag2.channel.invite.ack"})
"""The handshake before a channel opens: the start of the run tells who takes part."""


class Packet(NamedTuple):
    """Something said in a channel, as one may answer it."""

    event_id: str
    """Of what was said, or of the handoff in it."""
    sender_id: str
    sender: str
    audience: list[str] | None
    text: str


class ChannelRun:
    """The run of one channel.

    Its events are a function of the channel's log alone, ids and times as well: whoever reads the log again from its
    beginning gets the same events. Each is caused by the one before it in the log; AG2's own causation, which names the
    envelope that opened the round, stands in ``native``.
    """

    def __init__(
        self,
        metadata: Any,
        *,
        name_of: Callable[[str], str],
        humans: frozenset[str] = frozenset(),
        adapter: Any = None,
        cause: str | None = None,
        parent_run_id: str | None = None,
    ) -> None:
        self.channel_id = str(metadata.channel_id)
        self.closed = False
        """Whether the log has come to the end of the channel."""
        self.lines = 0
        """Lines of the log that have been read."""
        self.last: str | None = None
        """The event of the last line."""
        self.packets: deque[Packet] = deque(maxlen=_PACKETS_KEPT)
        """What was said last, oldest first."""
        self._metadata = metadata
        self._name_of = name_of
        self._humans = humans
        self._adapter = adapter
        self._state: Any = None
        self._started = False
        self._cause = cause
        self._parent_run_id = parent_run_id
        if adapter is not None:
            try:
                self._state = adapter.initial_state(metadata)
            except Exception:
                self._adapter = None

    @property
    def start_id(self) -> str:
        """The id of the first event."""
        return self._id("started")

    def read(self, envelope: Any) -> list[Event]:
        """The events of the next line of the log."""
        self.lines += 1
        if self._adapter is not None:
            try:
                self._state = self._adapter.fold(envelope, self._state)
            except Exception:
                self._adapter = None
        kind = str(envelope.event_type)
        if kind in _UNSEEN:
            return []
        if kind == "ag2.channel.opened":
            return [self._start(envelope)]
        made = [] if self._started else [self._start(envelope)]
        return made + _KINDS.get(kind, ChannelRun._other)(self, envelope)

    def answered_by(self, agent_id: str, asked: str = "") -> Packet | None:
        """The packet after which an agent speaks: the newest that reached it.

        Where agents need not wait for their turn, it is the newest whose text it was asked, for others may have come
        since. (In a workflow AG2 asks with the text that opened the round, however many have spoken.)
        """
        heard = [
            packet
            for packet in self.packets
            if packet.sender_id != agent_id and (packet.audience is None or agent_id in packet.audience)
        ]
        if getattr(self._state, "expected_next_speaker", None) is None:
            heard = [packet for packet in heard if packet.text and packet.text in asked] or heard
        return heard[-1] if heard else None

    def beside(
        self, event_type: str, payload: Mapping[str, Any], *, cause: str | None, by: str | None
    ) -> Event:
        """An event that happened now and stands in no log; it is the cause of nothing in it."""
        return new_event(
            event_type,
            {"run_id": self.channel_id, "agent": by, **payload},
            correlation_id=self.channel_id,
            causation_id=cause or self.last,
            source=_source(event_type, by),
        )

    # --- lines of the log -------------------------------------------------------------------------------------

    def _start(self, envelope: Any) -> Event:
        self._started = True
        meta = self._metadata
        labels = dict(meta.labels or {})
        payload = {
            "name": labels.get("intent") or meta.manifest.type,
            "parent_run_id": self._parent_run_id,
            "channel_type": meta.manifest.type,
            "participants": [
                {"name": self._name_of(one.agent_id), "agent_id": one.agent_id, "role": one.role}
                for one in meta.participants
            ],
            "creator": self._name_of(meta.creator_id),
            "knobs": dict(meta.knobs or {}),
            "labels": labels,
            "parent_channel_id": meta.parent_channel_id,
        }
        return self._made("started", "execution.run_started", payload, envelope, cause=self._cause)

    def _text(self, envelope: Any) -> list[Event]:
        data = envelope.event_data
        return [self._said(envelope, str(data.get("text", "")), {})]

    def _packet(self, envelope: Any) -> list[Event]:
        """One round of an agent: what it said, whom it handed on to, what it changed."""
        data = envelope.event_data
        routing = dict(data.get("routing") or {})
        body = data.get("body")
        made = [self._said(envelope, body if isinstance(body, str) else "", routing)]
        key = envelope.envelope_id
        if routing.get("kind") == "handoff":
            target = routing.get("target") or getattr(self._state, "expected_next_speaker", None)
            handoff = {
                "from": self._name_of(envelope.sender_id),
                "to": self._name_of(str(target)) if target else None,
                "kind": "tool",
                "tool": routing.get("tool"),
                "reason": routing.get("reason"),
            }
            made.append(self._made(f"{key}/handoff", "execution.handoff", handoff, envelope, native=False))
            self.packets.append(self.packets.pop()._replace(event_id=made[-1]["event_id"]))
        changed = {name: value for name, value in dict(data.get("context_updates") or {}).items() if value}
        if changed:
            made.append(self._changed(f"{key}/context", "context", changed, envelope, native=False))
        return made

    def _context(self, envelope: Any) -> list[Event]:
        data = envelope.event_data
        changed = {"set": data.get("set") or {}, "delete": data.get("delete") or []}
        return [self._changed(envelope.envelope_id, "context", changed, envelope)]

    def _rejected(self, envelope: Any) -> list[Event]:
        return [self._changed(envelope.envelope_id, "invite_rejected", {}, envelope)]

    def _violated(self, envelope: Any) -> list[Event]:
        return [
            self._changed(envelope.envelope_id, "expectation_violated", dict(envelope.event_data), envelope)
        ]

    def _task(self, envelope: Any) -> list[Event]:
        name = envelope.event_type.removeprefix("ag2.").replace(".", "_")
        return [self._changed(envelope.envelope_id, name, dict(envelope.event_data), envelope)]

    def _closed(self, envelope: Any) -> list[Event]:
        self.closed = True
        reason = str(envelope.event_data.get("reason") or "")
        if envelope.event_type == "ag2.channel.expired" or reason.startswith("invite_"):
            cancelled = {"reason": reason or "expired"}
            return [self._made(envelope.envelope_id, "execution.run_cancelled", cancelled, envelope)]
        payload = {
            "status": "ok",
            "reason": reason or None,
            "variables": getattr(self._state, "context_vars", None),
        }
        return [self._made(envelope.envelope_id, "execution.run_completed", payload, envelope)]

    def _other(self, envelope: Any) -> list[Event]:
        """A type of the application's own."""
        name = _UNSAFE.sub("_", str(envelope.event_type).lower()).strip("._") or "envelope"
        event_type = name if name.startswith("ag2.") else f"ag2.{name}"
        payload = {"name": name, "data": envelope.event_data}
        return [self._made(envelope.envelope_id, event_type, payload, envelope)]

    # --- making -----------------------------------------------------------------------------------------------

    def _said(self, envelope: Any, text: str, routing: dict[str, Any]) -> Event:
        sender, audience = self._name_of(envelope.sender_id), envelope.audience
        role = "user" if envelope.sender_id in self._humans else "assistant"
        payload = payloads.message(
            role,
            [payloads.text(text)] if text else [],
            name=sender,
            recipients=None if audience is None else [self._name_of(one) for one in audience],
            routing=routing or None,
        )
        made = self._made(envelope.envelope_id, "execution.message", payload, envelope)
        self.packets.append(
            Packet(
                made["event_id"],
                envelope.sender_id,
                sender,
                audience,
                text or str(routing.get("reason") or ""),
            )
        )
        return made

    def _changed(
        self, key: str, name: str, payload: Mapping[str, Any], envelope: Any, *, native: bool = True
    ) -> Event:
        told = {**payload, "name": name}
        return self._made(key, "execution.state_change", told, envelope, native=native)

    def _made(
        self,
        key: str,
        event_type: str,
        payload: Mapping[str, Any],
        envelope: Any,
        *,
        cause: str | None = None,
        native: bool = True,
    ) -> Event:
        by = self._name_of(envelope.sender_id)
        told = {name: value for name, value in plain(dict(payload)).items() if value is not None}
        if native:
            told["native"] = {"type": "Envelope", "data": plain(envelope.to_dict())}
        event: Event = {
            "event_id": self._id(key),
            "event_type": event_type,
            "timestamp": _moment(envelope.created_at),
            "source": _source(event_type, by),
            "correlation_id": self.channel_id,
            "causation_id": cause or self.last,
            "payload": {"run_id": self.channel_id, "agent": by, **told},
            "attributes": None,
        }
        self.last = event["event_id"]
        return event

    def _id(self, key: str) -> str:
        return uuid_text(idempotent_uuid(self.channel_id, key))


_KINDS: dict[str, Callable[[ChannelRun, Any], list[Event]]] = {
    "ag2.msg.text": ChannelRun._text,
    "ag2.packet": ChannelRun._packet,
    "ag2.context.set": ChannelRun._context,
    "ag2.channel.invite.reject": ChannelRun._rejected,
    "ag2.channel.closed": ChannelRun._closed,
    "ag2.channel.expired": ChannelRun._closed,
    "ag2.expectation.violated": ChannelRun._violated,
    "ag2.task.cancel_request": ChannelRun._task,
    "ag2.task.cancelled": ChannelRun._task,
}


def _source(event_type: str, name: str | None) -> dict[str, Any]:
    origin = "system" if event_type.startswith("system.") else "agent"
    return {"origin": origin, "runtime": "ag2", "name": header_text(name) if name else None}


def _moment(created_at: str) -> str:
    moment = datetime.datetime.fromisoformat(created_at.replace("Z", "+00:00"))
    return moment.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

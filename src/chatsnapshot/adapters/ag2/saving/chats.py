"""Chats in a ledger: append a save, read one back, list them, take one back."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatsnapshot import jsonvalue
from chatsnapshot.adapters.ag2.saving.backend import Place
from chatsnapshot.adapters.ag2.saving.record import DELETED, SAVED, Chat, Content, digest_of
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, InvalidEvent, LedgerError, NotFound, SequenceConflict
from chatsnapshot.fields import correlation_text
from chatsnapshot.ledger import Ledger
from chatsnapshot.redaction import redactor_of
from chatsnapshot.redaction.base import WITHHELD
from chatsnapshot.stores.open import locate

__all__ = ["Chats", "Conversation"]

_SOURCE = {"origin": "system", "runtime": "ag2", "name": "AG2ChatPersistence"}
_SOURCE_JSON = '{"name":"AG2ChatPersistence","origin":"system","runtime":"ag2"}'
_ATTEMPTS_MAX = 50
_CHATS_KEPT = 32


@dataclass(frozen=True)
class Conversation:
    """A saved chat in a list: its last save, and how many there are."""

    chat_id: str
    line: str
    agents: tuple[str, ...]
    metadata: dict[str, Any]
    messages: int
    saves: int
    first_saved_at: str
    saved_at: str
    position: int


@dataclass
class _Kept:
    """What is known of a chat up to a position."""

    chat: Chat
    position: int = 0
    broken: Exception | None = None


@dataclass
class _Index:
    """What is known of all chats up to a position."""

    position: int = 0
    found: dict[str, Conversation] = field(default_factory=dict)


class Chats:
    """The saved chats of one ledger. Safe to use from any thread; other processes may save beside it."""

    def __init__(self, place: Place, redact: object = None) -> None:
        self.place = place
        self._redact = redact
        self._redactor = redactor_of(redact)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._index = _Index()
        self._lock = threading.RLock()

    def save(self, chat_id: object, content: Content, *, always: bool = True) -> LedgerEntry | None:
        """Append a save; without ``always`` only when there is something new, else ``None``.

        It names the save that it stands on, and lands only when nobody saved in between; else it is made anew.
        """
        ledger = self.place.writable()
        name = correlation_text(chat_id, ledger.limits)
        with self._lock:
            for attempt in range(_ATTEMPTS_MAX):
                sequence, kept = self._current(ledger, name)
                before = Chat(name) if kept.broken else kept.chat
                payload, changed = before.delta(content, lambda body: self._digest(ledger, name, body))
                if not changed and not always:
                    return None
                try:
                    entry = ledger.record(
                        SAVED,
                        payload,
                        correlation_id=name,
                        causation_id=before.entry,
                        source=_SOURCE,
                        expected_sequence=sequence,
                        redact=self._redact,
                    )
                except SequenceConflict:
                    if attempt == _ATTEMPTS_MAX - 1:
                        raise
                    continue
                self._take(kept, entry)
                if entry.payload_json == WITHHELD:
                    raise InvalidEvent(
                        f"redaction failed, so nothing of chat {name!r} was saved at position {entry.position}; mend the "
                        "redactor and save again",
                        path="redact",
                    )
                return entry
        return None

    def chat(self, chat_id: object, position: int | None = None) -> Chat | None:
        """The chat as it was last saved, or as of the save at ``position`` or before; ``None`` when there is none.

        Every entry that it is made of is checked. Raises :class:`Corrupt` with the position, :class:`NotFound` when a
        payload that it needs was erased.
        """
        ledger = self.place.readable()
        if ledger is None:
            return None
        name = correlation_text(chat_id, ledger.limits)
        kept = _Kept(Chat(name))
        deleted = 0
        for entry in ledger.read(correlation_id=name, event_type=[SAVED, DELETED]):
            if entry.event_type == DELETED:
                deleted = entry.position
            if position is None or entry.position <= position:
                self._take(kept, entry)
        if _is_lines(ledger):
            # Whose a damaged line was is unknown, so one behind the last save may have been a save of this chat.
            for _ in ledger.read(event_type=[SAVED, DELETED], after=kept.position, until=position):
                pass
        if position is not None and position < deleted:
            return None
        if kept.broken is not None:
            raise kept.broken
        return kept.chat if kept.chat.entry is not None else None

    def list(self) -> list[Conversation]:
        """All chats that were saved and not deleted, the one saved last first."""
        ledger = self.place.readable()
        if ledger is None:
            return []
        with self._lock:
            index = self._index
            head = ledger.head
            for entry in ledger.read(event_type=[SAVED, DELETED], after=index.position, until=head):
                _note(index.found, entry)
            index.position = head
            return sorted(index.found.values(), key=lambda one: -one.position)

    def delete(self, chat_id: object, *, erase: bool, reason: str) -> bool:
        """Record that a chat is taken back, and erase its payloads if asked to; ``False`` when there is none.

        With ``erase`` payloads that an earlier deletion left are erased too.
        """
        ledger = self.place.readable()
        if ledger is None:
            return False
        name = correlation_text(chat_id, ledger.limits)
        with self._lock:
            saves: list[int] = []
            there = False
            for entry in ledger.read(correlation_id=name, event_type=[SAVED, DELETED]):
                there = entry.event_type == SAVED
                if there and not entry.erased:
                    saves.append(entry.position)
            if there:
                ledger.record(
                    DELETED,
                    {"reason": reason, "erased": erase, "saves": len(saves)},
                    correlation_id=name,
                    source=_SOURCE,
                )
            if erase and saves:
                ledger.erase(saves, reason=f"chat {name} was deleted: {reason}")
            self._kept.pop(name, None)
            return there or (erase and bool(saves))

    def _current(self, ledger: Ledger, name: str) -> tuple[int, _Kept]:
        """The last sequence of the correlation, and the chat as of then."""
        last = next(iter(ledger.read(correlation_id=name, reverse=True, limit=1)), None)
        kept = self._kept.pop(name, None) or _Kept(Chat(name))
        self._kept[name] = kept
        while len(self._kept) > _CHATS_KEPT:
            self._kept.popitem(last=False)
        if last is None:
            return 0, kept
        for entry in ledger.read(
            correlation_id=name, event_type=[SAVED, DELETED], after=kept.position, until=last.position
        ):
            self._take(kept, entry)
        kept.position = last.position
        return last.sequence, kept

    def _take(self, kept: _Kept, entry: LedgerEntry) -> None:
        """Fold one entry in; a chat that cannot be read any more is whole again with the next save that stands alone."""
        kept.position = entry.position
        try:
            kept.chat.apply(entry)
            kept.broken = None
        except (Corrupt, NotFound) as error:
            kept.broken = kept.broken or error
            kept.chat = Chat(kept.chat.chat_id)

    def _digest(self, ledger: Ledger, name: str, body: Mapping[str, Any]) -> bytes:
        """The digest of a message as it will stand in the ledger, after redaction."""
        encoded = jsonvalue.encode(dict(body), limits=ledger.limits)
        stored = encoded.json
        for redactor in (self._redactor, ledger.redactor):
            if redactor is not None:
                stored = redactor.apply(
                    SAVED, name, stored, encoded.blobs, None, _SOURCE_JSON, ledger.limits
                ).payload_json
        return digest_of(stored)


def _is_lines(ledger: Ledger) -> bool:
    try:
        return locate(ledger.url).kind == "jsonl"
    except LedgerError:  # a store of the caller's own
        return False


def _note(found: dict[str, Conversation], entry: LedgerEntry) -> None:
    """Fold one entry into the list of chats."""
    name = entry.correlation_id
    if entry.event_type == DELETED:
        found.pop(name, None)
        return
    if entry.erased:
        return
    payload = entry.value()
    before = found.get(name)
    try:
        agents = payload.get("agents")
        metadata = payload.get("metadata")
        found[name] = Conversation(
            chat_id=name,
            line=str(payload["line"]),
            agents=tuple(str(one["name"]) for one in agents)
            if agents is not None
            else (before.agents if before else ()),
            metadata=metadata if metadata is not None else (before.metadata if before else {}),
            messages=int(payload["messages"]),
            saves=before.saves + 1 if before else 1,
            first_saved_at=before.first_saved_at if before else entry.recorded_at,
            saved_at=entry.recorded_at,
            position=entry.position,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return  # somebody else's event of this type

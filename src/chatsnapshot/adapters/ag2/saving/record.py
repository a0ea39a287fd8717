"""The shape of a save: what is new since the save before; and the fold that gives a chat back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from chatsnapshot.adapters.ag2.saving.checking import checked_payload
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, FormatTooNew

__all__ = ["DELETED", "FORMAT", "SAVED", "Chat", "Content", "Key", "Listed", "digest_of", "main_key"]

SAVED = "ag2.chat_saved"
DELETED = "ag2.chat_deleted"
FORMAT = 1

_sorted = msgspec.json.Encoder(order="sorted").encode


class Key(NamedTuple):
    """Names one list of messages.

    ``kind`` is ``chat`` (what ``of`` holds of its talk with ``peer``), ``group`` (a group chat's own list), ``talk`` (the
    list that the caller gave) or ``stream`` (the events of agent ``of``). ``nth`` tells peers of one name apart.
    """

    kind: str
    of: str = ""
    peer: str = ""
    nth: int = 0


class Listed(NamedTuple):
    """One place in a list: which message it is, and the role it has there."""

    message: int
    role: str | None


@dataclass(frozen=True)
class Content:
    """What the agents hold at the moment of a save; nothing of it is kept."""

    line: str
    runtime: str
    agents: list[dict[str, Any]]
    lists: dict[Key, Sequence[Mapping[str, Any]]]
    facts: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None


@dataclass
class Chat:
    """A chat as of one save; ``apply`` takes the next save in."""

    chat_id: str
    entry: LedgerEntry | None = None
    saves: int = 0
    line: str = ""
    runtime: str = ""
    agents: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    known: dict[bytes, int] = field(default_factory=dict)
    lists: dict[Key, list[Listed]] = field(default_factory=dict)

    def apply(self, entry: LedgerEntry) -> None:
        """Take in the next entry of this chat.

        Raises :class:`Corrupt` with the position, :class:`NotFound` for an erased one, :class:`FormatTooNew`.
        """
        if entry.event_type == DELETED:
            self._clear()
            return
        raw, value = checked_payload(entry)
        if isinstance(raw.get("format"), int) and raw["format"] > FORMAT:
            raise FormatTooNew(
                f"the chat at position {entry.position} was saved in format {raw['format']} and this version reads "
                f"format {FORMAT}; upgrade chatsnapshot"
            )
        try:
            self._follow(entry, raw.get("base"))
            for stored, message in zip(raw["new"], value["new"], strict=True):
                self.known.setdefault(sha256(_sorted(stored)).digest(), len(self.messages))
                self.messages.append(message)
            for one in raw["lists"]:
                key = Key(*one["of"])
                places = self.lists.get(key, [])[: one["keep"]]
                places += [
                    Listed(*place) if len(place) > 1 else Listed(place[0], None) for place in one["add"]
                ]
                if len(places) != one["length"] or any(
                    not 0 <= place.message < len(self.messages) for place in places
                ):
                    raise ValueError(f"list {key}")
                self.lists[key] = places
            for of in raw.get("gone", ()):
                self.lists.pop(Key(*of), None)
            for name in ("agents", "metadata"):
                if name in value:
                    setattr(self, name, value[name])
            for name, fact in value.get("facts", {}).items():
                self.facts[name] = fact
                if fact is None:
                    del self.facts[name]
            self.line, self.runtime = raw["line"], raw["runtime"]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Corrupt(
                f"the entry at position {entry.position} is no chat that was saved ({type(error).__name__}: {error}), "
                "so nothing was restored from it",
                position=entry.position,
            ) from None
        self.entry = entry
        self.saves += 1

    def _follow(self, entry: LedgerEntry, base: Mapping[str, Any] | None) -> None:
        """Make sure that a save stands on the save before it, byte for byte."""
        if base is None:
            self._clear()
            return
        if self.entry is None or self.entry.event_id != base["event_id"]:
            raise Corrupt(
                f"the save at position {entry.position} stands on the one that was at position {base['position']}, which "
                "is damaged or not there, so nothing was restored; run: chatsnapshot verify",
                position=base["position"],
            )
        if self.entry.leaf.hex() != base["leaf"]:
            raise Corrupt(
                f"the save at position {self.entry.position} is not the one that position {entry.position} stands on, "
                "so nothing was restored from it; run: chatsnapshot verify",
                position=self.entry.position,
            )

    def _clear(self) -> None:
        fresh = Chat(self.chat_id)
        self.__dict__.update(fresh.__dict__)

    def delta(
        self, content: Content, digest: Callable[[Mapping[str, Any]], bytes]
    ) -> tuple[dict[str, Any], bool]:
        """The payload of the next save, and whether it says anything new; nothing here is changed.

        ``digest`` gives the digest of a message as it will be stored.
        """
        before = self if self.entry is not None and self.line == content.line else Chat(self.chat_id)
        known, first = dict(before.known), len(before.messages)
        new: list[dict[str, Any]] = []
        lists: list[dict[str, Any]] = []
        for key, messages in content.lists.items():
            places = []
            for message in messages:
                body = {name: part for name, part in message.items() if name != "role"}
                name = digest(body)
                if name not in known:
                    known[name] = first + len(new)
                    new.append(body)
                places.append(Listed(known[name], message.get("role")))
            old = before.lists.get(key)
            keep = _same(old or [], places)
            if old is None or keep < len(old) or keep < len(places):
                added = [[place.message] if place.role is None else list(place) for place in places[keep:]]
                lists.append({"of": _short(key), "keep": keep, "add": added, "length": len(places)})
        gone = [_short(key) for key in before.lists if key not in content.lists]
        agents = None if content.agents == before.agents and before.entry else content.agents
        metadata = content.metadata
        if metadata is None and before.entry is None and self.entry is not None:
            metadata = self.metadata  # the line changed; what was said about the chat still holds
        if before.entry is not None and _alike(metadata, before.metadata):
            metadata = None
        facts = {
            name: fact
            for name, fact in content.facts.items()
            if name not in before.facts or not _alike(fact, before.facts[name])
        }
        facts.update({name: None for name in before.facts if name not in content.facts})
        payload: dict[str, Any] = {
            "format": FORMAT,
            "line": content.line,
            "runtime": content.runtime,
            "base": None
            if before.entry is None
            else {
                "event_id": before.entry.event_id,
                "position": before.entry.position,
                "leaf": before.entry.leaf.hex(),
            },
            "messages": _count(content.lists),
            "new": new,
            "lists": lists,
        }
        if gone:
            payload["gone"] = gone
        if agents is not None:
            payload["agents"] = agents
        if metadata is not None:
            payload["metadata"] = metadata
        if facts:
            payload["facts"] = facts
        changed = bool(new or lists or gone or facts or agents is not None or metadata is not None)
        return payload, changed or before.entry is None

    def held(self, key: Key) -> list[dict[str, Any]]:
        """The messages of one list, each with the role that it has there; shared, so copy before you hand them on."""
        return [
            self.messages[place.message]
            if place.role is None
            else {**self.messages[place.message], "role": place.role}
            for place in self.lists[key]
        ]


def digest_of(stored_json: bytes) -> bytes:
    """The digest of a message in its stored form, whatever the order of its keys."""
    return sha256(_sorted(msgspec.json.decode(stored_json))).digest()


def main_key(lists: Mapping[Key, Sequence[Any]]) -> Key | None:
    """The list that tells the talk: the caller's, else the group's, else the longest."""
    order = {"talk": 0, "group": 1, "stream": 2, "chat": 2}
    filled = [key for key in lists if len(lists[key])]
    return min(filled, key=lambda key: (order.get(key.kind, 3), -len(lists[key])), default=None)


def _count(lists: Mapping[Key, Sequence[Any]]) -> int:
    key = main_key(lists)
    return 0 if key is None else len(lists[key])


def _same(old: Sequence[Listed], places: Sequence[Listed]) -> int:
    """How many places at the beginning are the same."""
    for index, (one, other) in enumerate(zip(old, places, strict=False)):
        if one != other:
            return index
    return min(len(old), len(places))


def _alike(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # values of the caller's own kind, such as arrays
        return False


def _short(key: Key) -> list[Any]:
    parts: list[Any] = list(key)
    while len(parts) > 1 and parts[-1] in ("", 0):
        parts.pop()
    return parts

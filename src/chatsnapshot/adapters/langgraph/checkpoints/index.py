"""Where the checkpoints, writes and channel values of one thread are: a fold over the thread's entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from chatsnapshot.adapters.langgraph.checkpoints.shapes import FORMAT, OPENED, REWRITTEN, SAVED, WRITES
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import FormatTooNew

__all__ = ["Index", "Place", "SavedAt", "StoredAt"]

Version = str | int | float


_KNOWN = frozenset({SAVED, WRITES, REWRITTEN, OPENED})


class Place(NamedTuple):
    """Which entry it is."""

    position: int
    event_id: str


class SavedAt(NamedTuple):
    """A checkpoint."""

    place: Place
    parent: str | None
    run_id: str | None
    at: str
    unstored: tuple[str, ...]
    """Channels whose value follows from the writes of earlier checkpoints (``DeltaChannel``)."""


class StoredAt(NamedTuple):
    """A channel's value of one version: which entry holds it, or what leads to it from ``base``."""

    place: Place
    base: Version | None
    deltas: int
    empty: bool


class Index:
    """What of a thread is where; :meth:`apply` takes the thread's entries in their order."""

    def __init__(self) -> None:
        self.thread_id: str | None = None
        self.position = 0
        self.sequence = 0
        """Position and sequence of the last entry that was taken in."""
        self.rewrites = 0
        self.superseded_to = 0
        """Everything up to this position counts no more."""
        self.checkpoints: dict[str, dict[str, SavedAt]] = {}
        """By namespace, then by id."""
        self.writes: dict[tuple[str, str], list[Place]] = {}
        self.values: dict[tuple[str, str, Version], StoredAt] = {}
        """By namespace, channel and version."""
        self.latest: dict[tuple[str, str], Version] = {}
        """The version of a channel's value that was stored last."""

    def apply(self, entry: LedgerEntry) -> None:
        """Take in the next entry; one whose payload was erased counts no more."""
        if entry.position is None or entry.position <= self.position:
            return
        if not entry.erased and entry.event_type in _KNOWN:
            self._take(entry, Place(entry.position, entry.event_id), _payload(entry))
        self.position, self.sequence = entry.position, entry.sequence or 0

    def _take(self, entry: LedgerEntry, place: Place, payload: Any) -> None:
        if payload["format"] > FORMAT:
            raise FormatTooNew(
                f"the checkpoint data at position {entry.position} is of format {payload['format']} and this version "
                f"reads format {FORMAT}; upgrade chatsnapshot"
            )
        if entry.event_type == SAVED:
            self._saved(place, payload, entry.recorded_at or "")
        elif entry.event_type == WRITES:
            self.writes.setdefault((payload["ns"], payload["id"]), []).append(place)
        elif entry.event_type == REWRITTEN:
            self.rewrites += 1
            self.superseded_to = payload["superseded_to"]
            self._forget(self.superseded_to)
        else:
            self.thread_id = payload["thread_id"]

    def _saved(self, place: Place, payload: Any, at: str) -> None:
        ns = payload["ns"]
        self.checkpoints.setdefault(ns, {})[payload["id"]] = SavedAt(
            place, payload.get("parent"), payload.get("run_id"), at, tuple(payload.get("unstored", ()))
        )
        for stored in payload["values"]:
            channel, version, base = stored["channel"], stored["version"], stored.get("base")
            below = None if base is None else self.values.get((ns, channel, base))
            deltas = 0 if base is None else 1 + (below.deltas if below else 0)
            self.values[ns, channel, version] = StoredAt(place, base, deltas, stored["kind"] == "empty")
            self.latest[ns, channel] = version

    def _forget(self, superseded_to: int) -> None:
        for ns in list(self.checkpoints):
            kept = {
                name: one for name, one in self.checkpoints[ns].items() if one.place.position > superseded_to
            }
            if kept:
                self.checkpoints[ns] = kept
            else:
                del self.checkpoints[ns]
        self.writes = {
            key: left
            for key, places in self.writes.items()
            if (left := [place for place in places if place.position > superseded_to])
        }
        self.values = {key: one for key, one in self.values.items() if one.place.position > superseded_to}
        self.latest = {
            (ns, channel): version
            for (ns, channel), version in self.latest.items()
            if (ns, channel, version) in self.values
        }

    def newest(self, ns: str) -> str | None:
        """The id of the newest checkpoint of a namespace: ids of checkpoints grow."""
        return max(self.checkpoints.get(ns, ()), default=None)

    def chain(self, key: tuple[str, str, Version]) -> Iterator[tuple[tuple[str, str, Version], StoredAt]]:
        """What a value is made of, from itself down to one that is stored whole; ``KeyError`` when one is missing."""
        while True:
            one = self.values[key]
            yield key, one
            if one.base is None:
                return
            key = (key[0], key[1], one.base)


def _payload(entry: LedgerEntry) -> Any:
    """The payload as it is stored, without the blobs that it names; one that is a blob itself is fetched."""
    payload = entry.payload
    return entry.value() if "$blob" in payload else payload

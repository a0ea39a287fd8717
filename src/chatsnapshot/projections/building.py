"""Takes a projection's states forward, entry by entry: each entry once, saved with the checkpoint by compare-and-set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import LedgerError
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.digest import EMPTY, digest_bytes, digest_number, part
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.replaying import ERASED, correlated, entries_of_key, erased_positions, touched
from chatsnapshot.projections.storing import FACTS, KEY, PARKED, Held, Parked, Slot
from chatsnapshot.stores.base import Checkpoint

__all__ = ["CACHE_BYTES_MAX", "CACHE_KEYS_MAX", "NO_KEY", "Build", "Outdated", "ProjectionStopped"]

_log = logging.getLogger("chatsnapshot.projections")

NO_KEY = "\n"
"""In front of the position of a parked entry whose key could not be told."""

CACHE_KEYS_MAX = 10_000
"""States that a build keeps in memory between two saves."""
CACHE_BYTES_MAX = 64 * 1024 * 1024
"""Stored bytes of these states."""


class ProjectionStopped(LedgerError):
    """A projection could not take an entry; ``name``, ``version``, ``position``, ``reason``: which, where and why."""

    def __init__(self, name: str, version: int, why: Parked) -> None:
        super().__init__(
            f"projection {name!r} (version {version}) stops at position {why.position}: {why.reason}; mend it and run "
            f"`chatsnapshot projections run {name} --retry`, or go on without that key by --on-error park"
        )
        self.name = name
        self.version = version
        self.position = why.position
        self.reason = why.reason
        self.why = why


class Outdated(Exception):
    """What was folded so far cannot be taken forward: an erased payload may have been in any of its states."""


class Build:
    """One slot being taken forward. Not safe for use by several threads; any number of builds may share a slot."""

    def __init__(self, ledger: Any, slot: Slot, on_error: str) -> None:
        self.ledger = ledger
        self.slot = slot
        self.projection: Projection[Any] = slot.projection
        self.on_error = on_error
        self.alone = correlated(self.projection)
        self.sharing = hasattr(self.projection, "take_once")
        """Whether it reads entries through :class:`~chatsnapshot.projections.once.Once`."""
        self._key = self.projection.key
        self._apply = self.projection.apply
        self._share: Any = getattr(self.projection, "take_once", None)
        self.cache: dict[str, Held] = {}
        self.taken = 0
        self.reload()

    def reload(self) -> None:
        """Begin again from what is stored."""
        self.cache.clear()
        self.cached_bytes = 0
        self.dirty: dict[str, Held] = {}
        self.removed: dict[str, Held] = {}
        while True:
            self.before = self.slot.checkpoint()
            self.facts = self.slot.facts()
            self.parked = self.slot.all_parked() if self.facts.parked else {}
            if self.slot.checkpoint() == self.before:
                break
        self.facts.ledger_id = self.facts.ledger_id or self.slot.store.ledger_id
        self.position, self.leaf, digest = self.before or Checkpoint(0, bytes(32), EMPTY)
        self.base = self.start = self.position
        self.fresh: set[str] = set()
        self.total = digest_number(digest)
        self.parked_now: dict[str, Parked | None] = {}
        self.facts.stopped = None

    @property
    def pending(self) -> int:
        """How many entries were taken since the last save."""
        return self.position - self.base

    # --- forward ---

    def take(self, entries: Sequence[LedgerEntry], shared: Sequence[Once] | None = None) -> None:
        """Take the next entries. Raises :class:`ProjectionStopped` at one that cannot be taken and is not to be parked.

        ``shared``: the same entries, where they are read once for several builds; only those that are ``sharing`` look.
        """
        key_of, dirty, parked = self._key, self.dirty, self.parked
        apply: Any = self._apply if shared is None else self._share
        before: LedgerEntry | None = None
        for entry, given in zip(entries, entries if shared is None else shared, strict=True):
            key: str | None = None
            try:
                key = key_of(entry)
                if key is not None and not isinstance(key, str):
                    raise TypeError(f"key() gave {type(key).__name__}, not text")
            except Exception as error:
                self._stand(before)
                self._fail(None, entry, error)
                key = None
            if key is not None and key not in parked:
                held = dirty.get(key)
                if held is None:
                    held = dirty[key] = self._held(key, entry)
                try:
                    held.state = apply(held.state, given)
                    held.position, held.sequence = entry.position, entry.sequence
                except Exception as error:
                    self._stand(before)
                    self._fail(key, entry, error)
            if entry.event_type == ERASED:
                self._erase(entry)
            before = entry
        self._stand(before)

    def _stand(self, entry: LedgerEntry | None) -> None:
        """Everything up to this entry is taken."""
        if entry is not None:
            self.position, self.leaf = entry.position, entry.leaf

    def _held(self, key: str, entry: LedgerEntry) -> Held:
        """The state of a key as it is stored; in front of the first entry of a correlation there is none."""
        if self.alone and entry.sequence == 1:
            return Held(self.projection.initial())
        held = self._cached(key) or self._load(key)
        return held if held is not None else Held(self.projection.initial())

    def _cached(self, key: str) -> Held | None:
        held = self.cache.pop(key, None)
        if held is not None:
            self.cached_bytes -= held.size
        return held

    def _load(self, key: str) -> Held | None:
        try:
            return self.slot.load(key)
        except msgspec.DecodeError as error:
            _log.warning("the state of %r in projection %r cannot be read: %s", key, self.slot.name, error)
            raise Outdated from None

    def _fail(self, key: str | None, entry: LedgerEntry, error: Exception) -> None:
        """Stop in front of the entry, or park its key there."""
        why = Parked(entry.position, entry.event_id, _reason(error), key)
        if key is not None:
            # What the failed call has done to the state is not known: it is made again.
            self._again(key, entry.position - 1)
        if self.on_error != "park":
            self.facts.stopped = why
            self.save()
            raise ProjectionStopped(self.projection.name, self.projection.version, why) from error
        # Without a key the entry itself is parked, under its position.
        self.park(f"{NO_KEY}{entry.position}" if key is None else key, why)

    def park(self, key: str, why: Parked) -> None:
        """From now on pass over the entries of a key."""
        self.parked[key] = self.parked_now[key] = why

    def unpark(self, key: str) -> None:
        """Take its entries again; the caller has brought its state up to the checkpoint."""
        del self.parked[key]
        self.parked_now[key] = None

    def _again(self, key: str, until: int) -> None:
        """The state of a key as of ``until``, made again after a failed call."""
        held = self.dirty.pop(key, None)
        if key in self.fresh:
            self.anew(key, until, held)
            return
        stored = self._load(key)
        if stored is not None:
            self._fold(key, stored, until, stored.position, stored.sequence)
        else:
            self._fold(key, Held(self.projection.initial()), until, self.base, 0)

    def anew(self, key: str, until: int, held: Held | None = None) -> None:
        """The state of a key as of ``until``, folded from its first entry."""
        stored = held or self.dirty.pop(key, None) or self._cached(key) or self._load(key)
        made = Held(self.projection.initial())
        if stored is not None:
            made.size, made.part = stored.size, stored.part
        self.fresh.add(key)
        self._fold(key, made, until, 0, 0)

    def _fold(self, key: str, held: Held, until: int, after: int, sequence: int) -> None:
        for entry in entries_of_key(self.ledger, self.projection, key, after, until, sequence):
            held.state = self.projection.apply(held.state, entry)
            held.position, held.sequence = entry.position, entry.sequence
        if held.position:
            self.dirty[key] = held
        elif held.size:
            self.removed[key] = held

    def _erase(self, record: LedgerEntry) -> None:
        """Fold those keys anew whose states hold a payload that is gone."""
        # What this build has read itself it has read without the payload: the record was there before it began.
        positions = [one for one in erased_positions(record) if one <= self.start]
        self.refold(touched(self.ledger, self.projection, positions), record.position)

    def refold(self, keys: Iterable[str] | None, until: int) -> None:
        """Fold keys anew as of ``until``, as far as they are not parked before. Raises :class:`Outdated` for ``None``."""
        if keys is None:
            raise Outdated
        for key in keys:
            why = self.parked.get(key)
            try:
                self.anew(key, until if why is None else min(until, why.position - 1))
            except LedgerError:
                raise
            except Exception as error:
                self.park(key, Parked(until, "", _reason(error), key))

    # --- saving ---

    def save(self) -> bool:
        """Store what was taken, with the checkpoint; ``False`` when another runner was faster: begin again then."""
        changes: dict[str, bytes | None] = {}
        facts, total = self.facts, self.total
        for key, held in self.removed.items():
            changes[KEY + key] = None
            total -= held.part
            facts.keys -= 1
            facts.state_bytes -= held.size
        for key, held in self.dirty.items():
            record = held.record()
            changes[KEY + key] = record
            made = part(key, record)
            total += made - held.part
            facts.keys += not held.size
            facts.state_bytes += len(record) - held.size
            held.size, held.part = len(record), made
        for key, why in self.parked_now.items():
            changes[PARKED + key] = None if why is None else msgspec.json.encode(why)
        facts.parked = len(self.parked)
        changes[FACTS] = msgspec.json.encode(facts)
        after = Checkpoint(self.position, self.leaf, digest_bytes(total))
        if not self.slot.save(self.before, after, changes):
            self.reload()
            return False
        self.taken += self.position - self.base
        self.before, self.total, self.base = after, digest_number(after.digest), self.position
        self._keep()
        self.dirty, self.removed, self.parked_now, self.fresh = {}, {}, {}, set()
        return True

    def _keep(self) -> None:
        """Keep the latest states in memory, within bounds."""
        for key, held in self.dirty.items():
            self._cached(key)
            self.cache[key] = held
            self.cached_bytes += held.size
        while len(self.cache) > CACHE_KEYS_MAX or self.cached_bytes > CACHE_BYTES_MAX:
            self._cached(next(iter(self.cache)))


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]

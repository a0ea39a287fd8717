"""Runs projections over a ledger: catch up, rebuild beside, let go of what is to be erased."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.projections import base, slots
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.building import Build, Outdated
from chatsnapshot.projections.digest import digest_bytes, digest_number
from chatsnapshot.projections.replaying import touched
from chatsnapshot.projections.running import advance
from chatsnapshot.projections.running import retry as retry_parked
from chatsnapshot.projections.slots import Entry
from chatsnapshot.projections.storing import FACTS, KEY, Named, Parked, Slot
from chatsnapshot.stores.base import Store

__all__ = ["Outcome", "find_slot", "forget", "known", "rebuild", "resolve", "run"]

_log = logging.getLogger("chatsnapshot.projections")

ON_ERROR = ("stop", "park")

Given = str | type[Projection[Any]] | Projection[Any]
Progress = Callable[[int, int], None]


class Outcome(msgspec.Struct, frozen=True):
    """How far a projection came: ``stopped`` says where and why it went no further, ``mended`` how many keys go on."""

    name: str
    version: int
    position: int
    taken: int
    parked: int
    mended: int = 0
    stopped: Parked | None = None
    error: str | None = None


def resolve(given: Given) -> Projection[Any]:
    """A projection by its name, class or instance; a class that is not known yet is made known."""
    if isinstance(given, str):
        _load_standard()
        return base.get(given)()
    if isinstance(given, type):
        return base.register(given)()
    base.register(type(given))
    return given


def known() -> list[str]:
    """The names of all projections: the standard ones, those registered, those of entry points."""
    _load_standard()
    base.load_entry_points()
    return base.names()


def _load_standard() -> None:
    """Importing them registers them."""
    from chatsnapshot.projections import listing, views, volume

    assert views.STANDARD and listing.INDEXES and volume.VolumeProjection.name


# --- slots ---


def find_slot(store: Store, projection: Projection[Any]) -> Slot | None:
    """The slot that readers use; ``None`` when nothing is stored."""
    entry = slots.read(store).projections.get(projection.name)
    number = None if entry is None else entry.slots.get(projection.version)
    return None if number is None else Slot(store, projection, number)


def _own_slot(store: Store, projection: Projection[Any]) -> Slot:
    """The slot to write to, made when there is none; states of another history are set aside."""
    name, version = projection.name, projection.version

    def claim(entry: Entry) -> int:
        if entry.current > version:
            raise LedgerError(
                f"projection {name!r} is stored in version {entry.current}, and this program has version {version}: "
                "its views are folded on read; upgrade it to store them"
            )
        if version not in entry.slots:
            entry.slots[version] = _new_number(entry)
        return entry.slots[version]

    slot = Slot(store, projection, slots.change(store, name, claim))
    at = slot.checkpoint()
    why = None if at is None else slot.fault(at, slot.facts())
    if why is None:
        return slot
    _log.warning("the states of projection %r in %s are set aside and made anew: %s", name, store.url, why)
    return _set_aside(slot)


def _new_number(entry: Entry) -> int:
    if not entry.slots and entry.next == 1:
        return 0
    entry.next += 1
    return entry.next - 1


def _set_aside(slot: Slot) -> Slot:
    """Another slot in the place of one whose states are of no use; these are removed once the new ones are whole."""

    def aside(entry: Entry) -> int:
        if entry.slots.get(slot.version) == slot.number:
            entry.leaving.append((slot.version, slot.number))
            entry.slots[slot.version] = _new_number(entry)
        return entry.slots[slot.version]

    return Slot(slot.store, slot.projection, slots.change(slot.store, slot.projection.name, aside))


def _finish(slot: Slot) -> None:
    """Its states are whole: it becomes the current one, and what it replaces is removed."""

    def switch(entry: Entry) -> list[tuple[int, int]]:
        if entry.current < slot.version:
            entry.current = slot.version
            for version in [one for one in entry.slots if one < slot.version]:
                entry.leaving.append((version, entry.slots.pop(version)))
        return list(entry.leaving)

    _sweep(slot.store, slot.projection.name, slots.change(slot.store, slot.projection.name, switch))


def _sweep(store: Store, name: str, leaving: list[tuple[int, int]]) -> None:
    for version, number in leaving:
        slots.clear(store, name, version, number)
    if leaving:

        def gone(entry: Entry) -> None:
            entry.leaving = [one for one in entry.leaving if tuple(one) not in map(tuple, leaving)]

        slots.change(store, name, gone)


# --- running ---


def run(
    ledger: Any,
    projections: Iterable[Given] | None = None,
    *,
    until: int | None = None,
    on_error: str | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Bring stored states up to the head (or ``until``) in one pass over what is new; all known ones by default.

    Each entry is taken once, whoever else runs at the same time and whenever the process dies: states and checkpoint are
    stored together, by compare-and-set. ``on_error``: ``stop`` in front of an entry that a projection raises at, or
    ``park`` its key and go on; by default what the projection says (its attribute ``on_error``), else ``stop``.
    ``retry`` tries parked keys again. Nothing is raised for a projection that stops: its outcome says so. Raises
    ``ValueError`` for another ``on_error``, and what the store raises.
    """
    if on_error is not None and on_error not in ON_ERROR:
        raise ValueError(f"on_error is stop or park, not {on_error!r}")
    chosen = [resolve(one) for one in (known() if projections is None else projections)]
    outcomes: dict[str, Outcome] = {}
    while chosen:
        # First the head, then the states, then the entries: what is erased up to the head is read as erased.
        head = ledger.head if until is None else min(until, ledger.head)
        builds: list[Build] = []
        for one in chosen:
            try:
                slot = _own_slot(ledger._store, one)
                builds.append(Build(ledger, slot, on_error or _choice(one)))
            except LedgerError as error:
                if projections is not None:
                    raise
                outcomes[one.name] = Outcome(one.name, one.version, 0, 0, 0, error=str(error))
        mended = {id(build): retry_parked(ledger, build) if retry else 0 for build in builds}
        halts = advance(ledger, builds, head, progress)
        chosen = [build.projection for build in halts.outdated]
        for build in builds:
            if build in halts.outdated:
                _set_aside(build.slot)
                continue
            name = build.projection.name
            error_there = halts.stopped.get(id(build))
            why = None if error_there is None else error_there.why
            outcomes[name] = Outcome(
                name, build.slot.version, build.position, build.taken, len(build.parked), mended[id(build)], why,
                None if error_there is None else str(error_there),
            )  # fmt: skip
            if why is None and until is None:
                _finish(build.slot)
    return list(outcomes.values())


def _choice(projection: Projection[Any]) -> str:
    """What a projection itself says about entries that it raises at."""
    return str(getattr(projection, "on_error", "stop"))


def rebuild(
    ledger: Any, given: Given, *, on_error: str | None = None, progress: Progress | None = None
) -> Outcome:
    """Fold a projection anew beside the states in use, then switch to the new ones at once.

    The old states serve until then, and stay when this ends early, by an error, Ctrl-C or a kill. Raises
    :class:`ProjectionStopped`, and what the store raises.
    """
    projection = resolve(given)
    store: Store = ledger._store
    name, version = projection.name, projection.version
    _own_slot(store, projection)

    def begin(entry: Entry) -> int:
        number = entry.next
        entry.next += 1
        entry.building[number] = version
        return number

    slot = Slot(store, projection, slots.change(store, name, begin))
    try:
        build = Build(ledger, slot, on_error or _choice(projection))
        while build.position < ledger.head:
            build.reload()
            halts = advance(ledger, [build], ledger.head, progress)
            for error in halts.stopped.values():
                raise error
            if halts.outdated:
                raise Outdated
    except BaseException as error:
        _abandon(slot)
        if isinstance(error, Outdated):
            return rebuild(ledger, projection, on_error=on_error, progress=progress)
        raise

    def switch(entry: Entry) -> None:
        if slot.number not in entry.building:
            raise LedgerError(
                f"another rebuild of projection {name!r} began later and was faster; its states are in use"
            )
        entry.leaving.append((version, entry.slots[version]))
        entry.slots[version] = slot.number
        # Those that began before and did not end are left behind by processes that died.
        for number in [one for one in entry.building if one <= slot.number]:
            left = entry.building.pop(number)
            if number != slot.number:
                entry.leaving.append((left, number))

    slots.change(store, name, switch)
    _finish(slot)
    return Outcome(name, version, build.position, build.position, len(build.parked))


def _abandon(slot: Slot) -> None:
    """Remove a rebuild that did not end; where that fails, the next one does it."""
    try:
        slots.clear(slot.store, slot.projection.name, slot.version, slot.number)
        slots.change(slot.store, slot.projection.name, lambda entry: entry.building.pop(slot.number, None))
    except LedgerError as error:
        _log.warning("a rebuild of projection %r was left behind: %s", slot.projection.name, error)


# --- erasing ---


def forget(ledger: Any, positions: Sequence[int]) -> None:
    """Remove the states that hold payloads which are about to be erased; the next run folds these keys anew.

    States of a projection that this program does not know, or whose keys come out of payloads, are removed altogether.
    """
    store: Store = ledger._store
    directory = slots.read(store).projections
    if directory:
        known()
    for name, entry in directory.items():
        numbers = [*entry.slots.items(), *((of, number) for number, of in entry.building.items())]
        numbers += [(of, number) for of, number in entry.leaving]
        for version, number in numbers:
            _forget(ledger, store, name, version, number, positions)


def _forget(
    ledger: Any, store: Store, name: str, version: int, number: int, positions: Sequence[int]
) -> None:
    try:
        projection: Projection[Any] = base.get(name)()
    except NotFound:
        projection = Named(name, version)
    keys = touched(ledger, projection, positions) if projection.version == version else None
    slot = Slot(store, projection, number)
    while True:
        at, facts = slot.checkpoint(), slot.facts()
        if at is None or keys == set():
            return
        if keys is None:
            store.drop_states(slots.slot_name(name, number), version)
            return
        changes: dict[str, bytes | None] = {}
        total = digest_number(at.digest)
        for key in sorted(keys):
            held = slot.load(key)
            if held is not None:
                changes[KEY + key] = None
                total -= held.part
                facts.keys -= 1
                facts.state_bytes -= held.size
                facts.lacking.append(key)
        if not changes:
            return
        changes[FACTS] = msgspec.json.encode(facts)
        if slot.save(at, at._replace(digest=digest_bytes(total)), changes):
            return

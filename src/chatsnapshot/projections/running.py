"""Brings stored states up to a position: one pass over what is new for several projections, in batches, and retries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.projections.building import NO_KEY, Build, Outdated, ProjectionStopped
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.replaying import correlated, entries_after, entries_of_key
from chatsnapshot.projections.storing import Held
from chatsnapshot.stores.base import Query

__all__ = ["BATCH_MAX", "BATCH_MIN", "Halts", "advance", "retry"]

BATCH_MIN = 1_000
"""Entries between two saves; more while much is to be done, so that long states are not written over and over."""
BATCH_MAX = 10_000

Progress = Callable[[int, int], None]


class Halts(NamedTuple):
    """Builds that did not come to the end: those that stopped at an entry, and those that must be folded anew."""

    stopped: dict[int, ProjectionStopped]
    outdated: list[Build]


def advance(ledger: Any, builds: Sequence[Build], until: int, progress: Progress | None = None) -> Halts:
    """Take every build to ``until`` in one pass; one that halts is given back, the others go on."""
    halts = Halts({}, [])
    live = list(builds)
    while live:
        for build in list(live):
            _try(live, build, halts, lambda build=build: _restore(build))  # type: ignore[misc]
        after = min((build.position for build in live), default=until)
        if after >= until:
            break
        _pass(ledger, live, after, until, halts, progress)
    return halts


def _try(live: list[Build], build: Build, halts: Halts, work: Callable[[], object]) -> None:
    try:
        work()
    except ProjectionStopped as error:
        halts.stopped[id(build)] = error
        live.remove(build)
    except Outdated:
        halts.outdated.append(build)
        live.remove(build)


def _pass(
    ledger: Any, live: list[Build], after: int, until: int, halts: Halts, progress: Progress | None
) -> None:
    """One pass; it ends early when another runner was faster, so that the caller begins again where that one is."""
    for page in entries_after(ledger, Query(), after, until):
        shared = [Once(entry) for entry in page] if any(build.sharing for build in live) else None
        builds = list(live)
        for build in builds:
            known = build.position + 1 - page[0].position
            if 0 <= known < len(page):
                _take(build, page, shared if build.sharing else None, known, live, halts)
        builds = list(live)
        saved = True
        for build in builds:
            batch = min(max((until - build.base) // 8, BATCH_MIN), BATCH_MAX)
            if build.pending >= batch or (build.pending and build.position >= until):
                saved &= build.save()
        if progress is not None:
            progress(page[-1].position, until)
        if not saved or not live:
            return


def _take(
    build: Build,
    page: Sequence[LedgerEntry],
    shared: Sequence[Once] | None,
    known: int,
    live: list[Build],
    halts: Halts,
) -> None:
    """Let a build take a page but the first ``known`` entries. The page is gone through once for each build: a fold that
    is not interrupted by others runs faster.
    """
    if known:
        page, shared = page[known:], None if shared is None else shared[known:]
    _try(live, build, halts, partial(build.take, page, shared))


def _restore(build: Build) -> None:
    """Fold anew what was removed before an erasure."""
    while build.facts.lacking:
        build.refold(build.facts.lacking, build.position)
        build.facts.lacking = []
        if build.save():
            break


def retry(ledger: Any, build: Build) -> int:
    """Try parked keys again, from the entry on at which each was parked; gives how many are parked no more."""
    mended = 0
    for key in list(build.parked):
        if key.startswith(NO_KEY):
            continue  # its key is not known; the projection must be rebuilt
        held = build.slot.load(key) or Held(build.projection.initial())
        place = held.sequence if correlated(build.projection) else 0
        try:
            for entry in entries_of_key(ledger, build.projection, key, held.position, build.position, place):
                held.state = build.projection.apply(held.state, entry)
                held.position, held.sequence = entry.position, entry.sequence
        except Exception:
            continue
        if held.position:
            build.dirty[key] = held
        build.unpark(key)
        mended += 1
    if mended and not build.save():
        return retry(ledger, build)
    return mended

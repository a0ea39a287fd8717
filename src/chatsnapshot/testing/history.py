"""One history on a ledger and on the model at once: each step is done on both, and they must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from chatsnapshot.clock import uuid_bytes
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.pending import Pending
from chatsnapshot.stores.base import POSITION, SEQUENCE, Row
from chatsnapshot.testing.bench import Bench, store_of
from chatsnapshot.testing.expecting import Failed, expect, expect_equal, expecting
from chatsnapshot.testing.model import Known, Model, Refusal, Said
from chatsnapshot.testing.samples import Ticking

__all__ = ["History"]

SMALL = msgspec.structs.replace(DEFAULTS, page_entries_max=4, scan_entries_max=7)
"""Pages so small that short histories have several."""

HANDLES_MAX = 3
TAILS_MAX = 3
UNKNOWN_ID = "ffffffff-ffff-4fff-bfff-ffffffffffff"


class _Following:
    """A tail that is kept over steps, and what it has given so far."""

    def __init__(self, after: int, filters: Mapping[str, Any]) -> None:
        self.after = after
        self.filters = filters
        self.given: list[int] = []
        self.position = after

    def attach(self, ledger: Ledger) -> None:
        self.tail = ledger.tail(after=self.position, timeout=0, **self.filters)

    def catch_up(self) -> list[LedgerEntry]:
        entries = list(self.tail)
        self.given += [entry.position for entry in entries]
        self.position = self.tail.position
        return entries


class History:
    """A fresh ledger and a fresh model; each method is a step and raises :class:`Failed` where they differ.

    ``story`` tells the steps so far, a line each.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.model = Model()
        self.story: list[str] = []
        self._clock = Ticking()
        self._latest = 0
        self._place = bench.place()
        self._handles = [self._open()]
        self._current = 0
        self._abandoned: list[Ledger] = []
        self._tails: list[_Following] = []
        self._durable = bench.traits.durable

    def _open(self, place: str | None = None) -> Ledger:
        return self.bench.open(place or self._place, clock=self._clock, limits=SMALL)

    @property
    def ledger(self) -> Ledger:
        """The handle in use."""
        return self._handles[self._current]

    def close(self) -> None:
        """Close every handle, also those that were abandoned."""
        for ledger in (*self._handles, *self._abandoned):
            ledger.close()

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{len(self.story) + 1}. {text}")

    # --- recording ---

    def record(
        self, batch: Sequence[Said], expected: int | None, way: str, scope: Mapping[str, Any] | None = None
    ) -> None:
        """Record events: ``one`` by one, ``many`` at once, or ``accepted`` one by one and then flushed.

        ``scope`` (source, causation_id) is around them.
        """
        if scope is None:
            self._record(batch, expected, way, None)
            return
        self.tell(f"in scope({', '.join(f'{name}={value!r}' for name, value in scope.items())})")
        with self.ledger.scope(source=scope.get("source"), cause=scope.get("causation_id")):
            self._record(batch, expected, way, scope)

    def _record(
        self, batch: Sequence[Said], expected: int | None, way: str, scope: Mapping[str, Any] | None
    ) -> None:
        if way == "many":
            self.tell(f"record_many({_told(batch)}, expected_sequence={expected})")
            wanted = self.model.record(batch, expected, scope)
            given = [said.arguments() for said in batch]
            self._agree(wanted, lambda: self.ledger.record_many(given, expected_sequence=expected))
        elif way == "one":
            for said in batch:
                self.tell(f"record({_told([said])}, expected_sequence={expected})")
                wanted = self.model.record([said], expected, scope)
                arguments = {**said.arguments(), "expected_sequence": expected}
                self._agree(wanted, partial(self._one, arguments))
        else:
            self.tell(f"record({_told(batch)}, wait=False) each, and flush()")
            answers = [self.model.record([said], scope=scope) for said in batch]
            pending = [self.ledger.record(**said.arguments(), wait=False) for said in batch]
            self.ledger.flush()
            for wanted, one in zip(answers, pending, strict=True):
                self._agree(wanted, partial(_result, one))

    def _one(self, arguments: Mapping[str, Any]) -> list[LedgerEntry]:
        return [self.ledger.record(**arguments)]

    def again(self, position: int, many: bool) -> None:
        """Record the envelope of a known entry once more, with its payload or, when that was erased, without."""
        known = self.model.entries[position - 1]
        self.tell(f"record{'_many' if many else ''}(the envelope of position {position})")
        event = self.ledger.get(known.event_id).event
        ledger = self.ledger
        self._agree(
            [known], lambda: ledger.record_many([event, event])[1:] if many else [ledger.record(event)]
        )

    def _agree(self, wanted: list[Known] | Refusal, call: Callable[[], Sequence[LedgerEntry]]) -> None:
        """The store gives what the model gives: entries, or the error with its facts."""
        try:
            entries = call()
        except LedgerError as error:
            if not isinstance(wanted, Refusal):
                positions = [known.position for known in wanted]
                raise Failed(
                    f"wanted positions {positions}, found {type(error).__name__}: {error}"
                ) from error
            expect_equal(type(error).__name__, wanted.error, f"error ({error})")
            for fact, value in wanted.facts.items():
                found = getattr(error, fact)
                expect_equal(
                    tuple(sorted(found)) if fact == "fields" else found, value, f"{fact} of {wanted.error}"
                )
            return
        if isinstance(wanted, Refusal):
            raise Failed(f"wanted {wanted.error} {dict(wanted.facts)}, found {list(entries)!r}")
        expect_equal(
            [entry.position for entry in entries], [known.position for known in wanted], "positions answered"
        )
        fresh = [entry for entry, known in zip(entries, wanted, strict=True) if known.row is None]
        self._see(entries)
        moments = {entry.recorded_at for entry in fresh}
        expect(len(moments) < 2, f"one call has several times of recording: {sorted(moments)}")

    def _see(self, entries: Sequence[LedgerEntry]) -> None:
        for entry in entries:
            before = self.model.entries[entry.position - 2].row if entry.position > 1 else None
            self.model.entries[entry.position - 1].see(_row(entry), before[2] if before else "")

    # --- erasing, time ---

    def erase(self, positions: Sequence[int]) -> None:
        """Erase payloads, or be refused."""
        self.tell(f"erase({list(positions)})")
        wanted = self.model.erase(positions, "asked to")
        self._agree(
            wanted if isinstance(wanted, Refusal) else [wanted],
            lambda: [self.ledger.erase(positions, reason="asked to")],
        )

    def pass_time(self, seconds: int) -> None:
        """The clock goes on, or back by less than what the ledger would make a note of."""
        self.tell(f"the clock goes by {seconds} s")
        self._latest = max(self._latest, self._clock.nanoseconds)
        self._clock.nanoseconds = max(
            self._clock.nanoseconds + seconds * 1_000_000_000, self._latest - 4_000_000_000
        )

    # --- handles ---

    def crash(self) -> None:
        """Drop the handle in use without closing it, and go on with another; nothing where nothing is durable."""
        self.tell(
            "crash: go on with a new handle, the old one is not closed" if self._durable else "no crash"
        )
        if self._durable:
            self._abandoned.append(self._handles[self._current])
            self._handles[self._current] = self._open()
            self._attach()

    def reopen(self) -> None:
        """Close all handles and open the ledger again; nothing where nothing is durable."""
        self.tell("close and open again" if self._durable else "no reopening")
        if self._durable:
            for ledger in self._handles:
                ledger.close()
            self._handles, self._current = [self._open()], 0
            self._attach()

    def change_handle(self) -> None:
        """Go on with another handle on the same ledger; nothing where nothing is durable."""
        self.tell("go on with another handle" if self._durable else "no other handle")
        if self._durable:
            if len(self._handles) < HANDLES_MAX:
                self._handles.append(self._open())
            self._current = (self._current + 1) % len(self._handles)

    def _attach(self) -> None:
        for following in self._tails:
            following.attach(self.ledger)

    # --- import ---

    def copy(self, step: int, stay: bool) -> None:
        """Import everything into a fresh ledger, ``step`` entries at a time; ``stay`` goes on with the copy."""
        self.tell(f"import all {len(self.model.entries)} entries into a fresh ledger, {step} at a time")
        rows = [_row(entry) for entry in self.ledger.read()]
        store = store_of(self.ledger)
        blobs = {digest: b"".join(store.blob(digest) or ()) for digest, _, _ in store.blobs()}
        place = self.bench.place()
        copy = self._open(place)
        for first in range(0, len(rows), step):
            store_of(copy).import_rows(rows[first : first + step], blobs)
        self._look(copy)
        if not stay:
            copy.close()
            return
        self.tell("go on with the copy")
        for ledger in self._handles:
            ledger.close()
        self._place, self._handles, self._current = place, [copy], 0
        self._attach()

    def import_wrongly(self, kind: str) -> None:
        """Import what does not follow the head: an entry ``known`` already, one after a ``gap``, one
        ``changed``, one whose id is known (``twice``).
        """
        if not self.model.entries:
            return
        self.tell(f"import an entry that does not follow: {kind}")
        row: list[Any] = list(self.model.entries[-1].sight() or ())
        head = len(self.model.entries)
        row[POSITION] = {"known": head, "gap": head + 2}.get(kind, head + 1)
        row[SEQUENCE] += 1
        if kind == "changed":
            row[4] = "custom.forged"
        error: type[LedgerError] = Corrupt if kind in ("changed", "twice") else StoreUnavailable
        with expecting(error, f"import of an entry that does not follow ({kind})"):
            store_of(self.ledger).import_rows([tuple(row)], {})

    # --- reading ---

    def read(self, filters: Mapping[str, Any], bounds: Mapping[str, Any]) -> None:
        """Read with filters, bounds, limit and direction; page by page too."""
        self.tell(f"read({', '.join(f'{key}={value!r}' for key, value in {**filters, **bounds}.items())})")
        wanted = [known.position for known in self.model.select(filters, **bounds)]
        entries = list(self.ledger.read(**filters, **bounds))
        expect_equal([entry.position for entry in entries], wanted, "positions read")
        self._see(entries)
        reading, paged = self.ledger.read(**filters, **bounds), 0
        while not reading.exhausted:
            page = reading.page()
            expect(len(page) <= SMALL.page_entries_max, f"a page of {len(page)} entries")
            paged += len(page)
        expect_equal(paged, len(wanted), "entries read page by page")

    def follow(self, after: int, filters: Mapping[str, Any]) -> None:
        """Begin a tail that is kept; at most three are."""
        if len(self._tails) < TAILS_MAX:
            self.tell(f"tail(after={after}, {dict(filters)})")
            following = _Following(after, filters)
            following.attach(self.ledger)
            self._tails.append(following)

    def catch_up(self) -> None:
        """Each tail has given exactly what is committed and matches, in order."""
        self.tell("let the tails catch up")
        for following in self._tails:
            self._see(following.catch_up())
            wanted = [known.position for known in self.model.select(following.filters, after=following.after)]
            expect_equal(following.given, wanted, f"what tail(after={following.after}, …) has given")

    def verify(self) -> None:
        """``verify`` proves all, with the root of the model; child runs, and blobs that unerased payloads name."""
        self.tell("verify()")
        report = self.ledger.verify()
        expect(report.ok, f"verify: {report.summary}")
        expect_equal(report.root, self.model.root().hex(), "root")
        expect_equal(report.erased, sum(known.erased for known in self.model.entries), "erased payloads")
        for correlation in {known.said.correlation_id for known in self.model.entries}:
            expect_equal(
                store_of(self.ledger).children(correlation),
                self.model.children(correlation),
                f"child runs of {correlation!r}",
            )
        users: dict[bytes, int] = {}
        for known in self.model.entries:
            for digest, data in {} if known.erased else known.blobs().items():
                users[digest] = users.get(digest, 0) + 1
                stored = b"".join(store_of(self.ledger).blob(digest) or ())
                expect(stored == data, f"bytes of the blob {digest.hex()}")
        found = {digest: used for digest, _, used in store_of(self.ledger).blobs() if used}
        expect_equal(found, users, "blobs with the number of entries that name them")

    def look(self) -> None:
        """What holds after every step: head, all entries, each by its id, last sequences."""
        self._look(self.ledger)

    def _look(self, ledger: Ledger) -> None:
        model = self.model
        expect_equal(ledger.head, len(model.entries), "head")
        entries = list(ledger.read())
        expect_equal([entry.position for entry in entries], [*range(1, len(model.entries) + 1)], "positions")
        self._see(entries)
        keys = {uuid_bytes(entry.event_id): _row(entry) for entry in entries}
        expect_equal(store_of(ledger).get([*keys, uuid_bytes(UNKNOWN_ID)]), keys, "entries by their ids")
        for correlation in ("never", *{known.said.correlation_id for known in model.entries}):
            expect_equal(
                store_of(ledger).last_sequence(correlation),
                model.sequence(correlation),
                f"last sequence of {correlation!r}",
            )
        with expecting(NotFound, "get() of an unknown id"):
            ledger.get(UNKNOWN_ID)


def _result(pending: Pending) -> list[LedgerEntry]:
    return [pending.result(0)]


def _row(entry: LedgerEntry) -> Row:
    row: Row = entry._identity()
    return row


def _told(batch: Sequence[Said]) -> str:
    """Events in few words."""
    return "; ".join(
        " ".join(
            [
                "no id" if said.event_id is None else f"#{int(said.event_id[-12:], 16)}",
                *[f"{name}={value!r:.60}" for name, value in said.arguments().items() if name != "event_id"],
            ]
        )
        for said in batch
    )

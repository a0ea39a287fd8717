"""Promise 6: nothing that was recorded is ever changed or removed, and who does it all the same is found."""

from __future__ import annotations

from typing import Any

from chatsnapshot.errors import Corrupt, LedgerError, ReadOnly
from chatsnapshot.ledger import Ledger
from chatsnapshot.testing.attacks import ATTACKS, TAMPERINGS
from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.expecting import Failed, Skipped, expect, expect_equal, expect_sound, expecting
from chatsnapshot.testing.samples import event, events


def _six(bench: Bench, place: str) -> Ledger:
    ledger = bench.open(place)
    for one in events(6):
        ledger.record(**one)
    return ledger


@check(6)
def what_was_read_cannot_be_changed(bench: Bench) -> None:
    with bench.open() as ledger:
        given: dict[str, Any] = {"list": [1, 2], "deep": {"a": 1}}
        first = ledger.record(**event(0, payload=given, attributes={"subjects": ["ann"]}))
        given["list"].append(3)
        given["deep"].clear()
        entry = ledger.get(first.event_id)
        expect_equal(
            entry.payload, {"list": [1, 2], "deep": {"a": 1}}, "payload after the caller changed its own"
        )
        entry.payload["deep"]["a"] = 2
        entry.attributes["subjects"].append("bob")
        expect_equal(entry.payload["deep"], {"a": 1}, "payload after a reader changed what it got")
        expect_equal(entry.attributes, {"subjects": ["ann"]}, "attributes after a reader changed them")
        for changed in (entry, entry.event, entry.source):
            with expecting(AttributeError, f"a field of a {type(changed).__name__} is set"):
                changed.event_type = "execution.forged"  # type: ignore[misc, union-attr]
        expect_equal(ledger.get(first.event_id), first, "the entry, read again")


@check(6)
def entries_stay_the_same_while_others_are_added(bench: Bench) -> None:
    with bench.open() as ledger:
        seen: list[Any] = []
        for number in range(12):
            seen += ledger.record_many(events(30, f"run-{number % 3}", 30 * number))
            expect_equal(list(ledger.read(until=len(seen))), seen, f"the first {len(seen)} entries")


@check(6, "guarded")
def the_store_itself_refuses_every_attempt_to_change_or_remove(bench: Bench) -> None:
    attacks = ATTACKS.get(bench.traits.name)
    if attacks is None:
        raise Skipped(
            f"no attacks on {bench.traits.name} are known; add them to chatsnapshot.testing.attacks"
        )
    place = bench.place()
    with _six(bench, place) as ledger:
        before = list(ledger.read())
    for name, attack in attacks.items():
        try:
            attack(bench, place)
        except Exception:
            continue  # a driver's own error: refused
        raise Failed(f"the store let somebody {name}")
    with bench.open(place) as ledger:
        expect_equal(list(ledger.read()), before, "entries after the attempts")
        ledger.record(**event(7))
        expect_sound(ledger, 7)


@check(6)
def verify_finds_every_change_made_behind_the_back_of_the_store(bench: Bench) -> None:
    tamperings = TAMPERINGS.get(bench.traits.name)
    if tamperings is None:
        raise Skipped(
            f"no tamperings with {bench.traits.name} are known; add them to chatsnapshot.testing.attacks"
        )
    for name, tamper in tamperings.items():
        place = bench.place()
        try:
            with tamper(bench, place, _six(bench, place)) as ledger:
                report = ledger.verify()
        except Corrupt as error:
            expect(error.position in (3, 4), f"{name}: refused at opening, naming position {error.position}")
            continue
        expect(not report.ok, f"verify finds nothing though {name}")
        named = {problem.position for problem in report.problems}
        expect(named & {3, 4}, f"{name}: wanted position 3 named, found {sorted(map(str, named))}")


@check(6, "durable")
def a_ledger_that_was_opened_read_only_changes_nothing(bench: Bench) -> None:
    place = bench.place()
    with _six(bench, place) as writer:
        before = list(writer.read())
        with bench.open(place, read_only=True) as ledger:
            attempts: dict[str, Any] = {
                "record": lambda: ledger.record(**event(9)),
                "record(wait=False)": lambda: ledger.record(**event(9), wait=False),
                "record_many": lambda: ledger.record_many(events(2)),
                "erase": lambda: ledger.erase(1, reason="no"),
            }
            for name, attempt in attempts.items():
                with expecting(ReadOnly, name):
                    attempt()
            expect_equal(list(ledger.read()), before, "entries read")
            writer.record(**event(7))
            expect_equal(ledger.head, 7, "head that a read-only ledger sees after another event")
            expect(ledger.verify().ok, "verify of a read-only ledger")
        expect_sound(writer, 7)


@check(6)
def a_refused_change_through_the_store_stores_nothing(bench: Bench) -> None:
    with bench.open() as ledger:
        for one in events(3):
            ledger.record(**one)
        rows = [entry._identity() for entry in ledger.read()]
        for again in (rows[:1], rows[2:], rows):
            with expecting(LedgerError, "recorded entries are imported over themselves"):
                ledger._store.import_rows(again, {})
        expect_sound(ledger, 3)

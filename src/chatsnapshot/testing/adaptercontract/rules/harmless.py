"""Rules of harmlessness: whatever becomes of the ledger, the caller of the runtime sees what it saw unrecorded."""

from __future__ import annotations

from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.playing import Played
from chatsnapshot.testing.adaptercontract.rules.once import expect_same
from chatsnapshot.testing.expecting import expect, expect_equal

SLOWER_SECONDS_MAX = 5.0
"""How much longer than unrecorded a run may take while the ledger hangs; a recorder waits for 0.2 s a time."""


def expect_unharmed(case: Case, setting: str) -> Played:
    """The outcome is that of the run that nobody records."""
    played = case.played(setting)
    expect_equal(played.outcome, case.played("unrecorded").outcome, "what the caller of the runtime saw")
    return played


@check()
def a_recorder_changes_nothing_for_the_caller(case: Case) -> None:
    expect_unharmed(case, "recorded")


@check()
def a_ledger_that_raises_changes_nothing_for_the_caller(case: Case) -> None:
    expect_unharmed(case, "raises")


@check()
def a_ledger_that_hangs_changes_nothing_for_the_caller(case: Case) -> None:
    played = expect_unharmed(case, "hangs")
    expect(not played.gave_up, "the run waited for a ledger that hangs until that let go")
    longer = played.seconds - case.played("unrecorded").seconds
    expect(longer < SLOWER_SECONDS_MAX, f"the run took {longer:.1f} s longer with a ledger that hangs")


@check()
def what_a_ledger_that_hung_missed_is_recorded_when_it_is_back(case: Case) -> None:
    played = case.played("hangs")
    expect(played.flushed and not played.kept and not played.dropped, f"events were lost: {played.said()}")
    expect_same(played.history, case.history, "the history after a ledger that hung")


@check()
def a_ledger_that_is_slow_changes_nothing_for_the_caller(case: Case) -> None:
    played = expect_unharmed(case, "is slow")
    expect(played.flushed, "a slow ledger was never done")
    expect_same(played.history, case.history, "the history in a slow ledger")


@check()
def a_ledger_closed_before_the_run_changes_nothing_for_the_caller(case: Case) -> None:
    expect_unharmed(case, "is closed before")


@check()
def a_ledger_closed_in_the_middle_changes_nothing_for_the_caller(case: Case) -> None:
    expect_unharmed(case, "is closed in the middle")

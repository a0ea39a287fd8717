"""Rules of once: every event recorded whole, once, however often it is tried and by however many recorders."""

from __future__ import annotations

from collections import Counter

from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import History
from chatsnapshot.testing.adaptercontract.playing import FLUSH_SECONDS, Played
from chatsnapshot.testing.expecting import expect, expect_equal


@check()
def everything_is_recorded_and_fits_the_schemas(case: Case) -> None:
    expect_whole(case.recorded)
    expect(case.history.entries, "nothing was recorded")
    expect(case.recorded.sound, "the ledger does not verify")


def expect_whole(played: Played) -> None:
    """Nothing failed, nothing was given up, nothing is still kept."""
    expect(played.flushed, f"flush() was not over after {FLUSH_SECONDS:g} s")
    found = {"failures": played.failures, "dropped": played.dropped, "kept": played.kept}
    wanted = dict.fromkeys(found, 0)
    expect(found == wanted, f"recorder.safe counts {found}: {played.said()}")


@check()
def recording_the_same_capture_twice_adds_nothing(case: Case) -> None:
    expect(case.recorded.given, "the ledger was given nothing")
    expect_equal(case.recorded.added_again, 0, "entries that the second time added")


@check()
def what_a_lost_answer_makes_it_try_again_is_recorded_once(case: Case) -> None:
    played = case.played("loses answers")
    expect(played.flushed and not played.kept and not played.dropped, f"events were lost: {played.said()}")
    expect_same(played.history, case.history, "the history after lost answers")


@check(needs="two_recorders")
def two_recorders_record_a_run_once(case: Case) -> None:
    played = case.played("two recorders")
    expect(
        played.attached,
        "play() attaches no second recorder: it must attach each of self.attached(recorder), or say in "
        'lacks["two_recorders"] why there can be no two',
    )
    expect_whole(played)
    expect_same(played.history, case.history, "the history by two recorders")


def expect_same(found: History, wanted: History, what: str) -> None:
    """Both histories have the same events in number and kind."""
    expect_equal(_shape(found), _shape(wanted), what)


def _shape(history: History) -> dict[str, int]:
    return dict(sorted(Counter(entry.event_type for entry in history.entries).items()))


@check("plain", "parallel_tools")
def nothing_is_recorded_when_nobody_records(case: Case) -> None:
    expect_equal(
        case.played("afterwards").late, 0, "entries that an unrecorded run added after a recorded one"
    )

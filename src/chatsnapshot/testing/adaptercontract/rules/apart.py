"""Rules of context: runs at once keep apart, and what a tool does by itself belongs to its call."""

from __future__ import annotations

from collections import Counter

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import STARTS, History
from chatsnapshot.testing.adaptercontract.playing import NOTE
from chatsnapshot.testing.adaptercontract.rules.once import expect_whole
from chatsnapshot.testing.expecting import expect, expect_equal


@check("parallel_tools", needs="own_code")
def what_a_tool_records_by_itself_is_caused_by_its_call(case: Case) -> None:
    played = case.played("own code")
    expect_equal(
        played.notes, 2, "calls of in_tool(), which the tool add must call, in two calls of the tool"
    )
    expect(not played.refused, "; ".join(played.refused))
    causes = [played.history.cause(note) for note in played.history.of(NOTE)]
    kinds = [cause.event_type if cause is not None else None for cause in causes]
    expect_equal(
        kinds, ["execution.tool_call"] * 2, "the causes of what the two calls recorded by themselves"
    )
    expect_equal(
        len({cause.event_id for cause in causes if cause is not None}), 2, "calls that caused something"
    )
    for note, cause in zip(played.history.of(NOTE), causes, strict=True):
        expect(
            cause is not None and note.correlation_id == cause.correlation_id, "a note in another correlation"
        )


@check("parallel_tools", "sub_agent", needs="at_once")
def two_runs_at_once_keep_apart(case: Case) -> None:
    played = case.played("at once")
    alone = case.played("unrecorded").outcome
    for outcome in (played.outcome, *played.others):
        expect_equal(outcome, alone, "what the callers of two runs at once saw")
    expect_whole(played)
    history, usual = played.history, case.history
    sizes = Counter(_root(history, entry).event_id for entry in history.entries)
    expect_equal(sorted(sizes.values()), [len(usual.entries)] * 2, "entries that each of the two runs led to")
    for entry in history.entries:
        cause = history.cause(entry)
        if cause is not None and entry.event_type not in STARTS:
            expect_equal(
                cause.correlation_id,
                entry.correlation_id,
                f"the correlation of the cause of {entry.position}",
            )


def _root(history: History, entry: LedgerEntry) -> LedgerEntry:
    """The entry that a chain of causes begins with."""
    seen = {entry.event_id}
    while (cause := history.cause(entry)) is not None and cause.event_id not in seen:
        seen.add(cause.event_id)
        entry = cause
    return entry

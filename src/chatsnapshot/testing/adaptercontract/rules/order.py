"""Rules of order: starts first, ends last, exactly one of each, causes before effects."""

from __future__ import annotations

from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import ENDS, STARTS, RunSeen, facts
from chatsnapshot.testing.expecting import expect, expect_equal

_ANSWER = "execution.human_input_received"
"""May stand between the end of the run that asked and the start of the one that goes on."""


@check()
def every_run_has_one_start_and_one_end(case: Case) -> None:
    case.history.root()
    for run in case.history.runs:
        starts, ends = run.of(*STARTS), run.of(*ENDS)
        expect_equal(len(starts), 1, f"starts of the run {run.run_id}")
        expect_equal(len(ends), 1, f"ends of the run {run.run_id}")


@check()
def a_run_begins_with_its_start_and_ends_with_its_end(case: Case) -> None:
    for run in case.history.runs:
        inner = [entry for entry in run.entries if entry.event_type != _ANSWER]
        expect(inner and inner[0].event_type in STARTS, f"the run {run.run_id} does not begin with its start")
        expect(inner[-1].event_type in ENDS, f"something of the run {run.run_id} comes after its end")


@check()
def causes_are_in_the_ledger_before_their_effects(case: Case) -> None:
    root = case.history.root().entries[0]
    for entry in case.history.entries:
        if entry.causation_id is None:
            expect(entry is root, f"position {entry.position} ({entry.event_type}) has no cause")
            continue
        cause = case.history.cause(entry)
        expect(
            cause is not None, f"position {entry.position} ({entry.event_type}) has a cause that is nowhere"
        )
        expect(
            cause is not None and cause.position < entry.position,
            f"position {entry.position} ({entry.event_type}) stands before its cause",
        )


@check("parallel_tools", "sub_agent", "tool_error", "streaming")
def a_message_comes_before_its_calls_and_a_call_before_its_result(case: Case) -> None:
    for run in case.history.runs:
        called = {facts(one).get("call_id"): one.position for one in run.of("execution.tool_call")}
        for result in run.of("execution.tool_result"):
            at = called.get(facts(result).get("call_id"))
            expect(
                at is not None and at < result.position, f"the result at {result.position} before its call"
            )
        for call_id, message in asking(run).items():
            at = called.get(call_id)
            expect(at is None or message < at, f"the call {call_id} before the message that asks for it")


def asking(run: RunSeen) -> dict[str, int]:
    """Call ids and the positions of the messages of the assistant that ask for them."""
    return {
        str(part.get("id")): message.position
        for message in reversed(run.of("execution.message"))
        if facts(message).get("role") == "assistant"
        for part in facts(message).get("parts") or ()
        if part.get("type") == "tool_call" and part.get("id")
    }


@check()
def the_end_says_what_the_caller_saw(case: Case) -> None:
    outcome = case.recorded.outcome
    last = case.history.conversation()[-1].entries[-1]
    if outcome.error is not None:
        expect_equal(last.event_type, "execution.run_failed", "the end of a run that raised")
    elif case.scenario not in ("tool_error", "model_error"):
        expect_equal(last.event_type, "execution.run_completed", "the end of a run that gave a result")

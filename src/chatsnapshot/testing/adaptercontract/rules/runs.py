"""Rules of runs: what an event says of its run, child runs, handoffs, failures."""

from __future__ import annotations

from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import RunSeen, facts, text_of
from chatsnapshot.testing.expecting import expect, expect_equal


@check()
def every_event_says_its_run_its_agent_and_its_runtime(case: Case) -> None:
    case.history.root()
    for entry in case.history.entries:
        what = f"position {entry.position} ({entry.event_type})"
        payload = facts(entry)
        expect(payload.get("run_id"), f"{what} has no run_id")
        expect(payload.get("agent") or payload.get("recipient"), f"{what} has neither agent nor recipient")
        expect_equal(entry.source.runtime, case.bench.runtime, f"source.runtime of {what}")


@check("sub_agent")
def a_child_run_is_caused_by_the_tool_call_of_its_parent(case: Case) -> None:
    parent = case.history.root()
    child = only_child(case)
    first = child.entries[0]
    expect_equal(first.event_type, "execution.run_started", "the first event of the child run")
    cause = case.history.cause(first)
    expect(cause is not None, "the first event of the child run has no cause in the ledger")
    assert cause is not None
    expect_equal(cause.event_type, "execution.tool_call", "the cause of the child run")
    expect(cause in parent.entries, "the child run is not caused by its parent's event")
    expect_equal(facts(first).get("parent_run_id"), parent.run_id, "parent_run_id of the child run")
    expect_equal(child.agent, "beta", "the agent of the child run")
    result = [one for one in parent.of("execution.tool_result") if one.causation_id == cause.event_id]
    expect(result, "the tool call that the child run is inside of has no result")
    expect(
        result[0].position > child.entries[-1].position, "the child run ends after the tool that waits for it"
    )


@check("sub_agent")
def a_child_run_has_a_correlation_of_its_own(case: Case) -> None:
    expect(
        only_child(case).correlation_id != case.history.root().correlation_id,
        "the child run has the correlation of its parent",
    )


def only_child(case: Case) -> RunSeen:
    """The one child run of the story."""
    children = case.history.runs[1:]
    expect_equal(len(children), 1, "runs besides the first")
    return children[0]


@check("handoff")
def a_handoff_names_who_gets_the_word_and_who_has_it_then(case: Case) -> None:
    history = case.history
    handoffs = [one for one in history.of("execution.handoff") if _name(facts(one).get("to")) == "beta"]
    expect_equal(len(handoffs), 1, "handoffs to beta")
    expect_equal(_name(facts(handoffs[0]).get("from")), "alpha", "who hands over")
    said = [one for one in history.messages("assistant") if "beta here" in text_of(one)]
    expect(said, 'no message says "beta here"')
    expect(said[0].position > handoffs[0].position, "beta speaks before the handoff")
    speakers = {facts(said[0]).get("agent"), facts(said[0]).get("name")}
    expect("beta" in speakers, f'"beta here" is said by {sorted(map(str, speakers))}')


def _name(value: object) -> object:
    return value.get("name") if isinstance(value, dict) else value


@check("model_error")
def a_model_that_fails_fails_the_run(case: Case) -> None:
    last = case.history.root().entries[-1]
    expect_equal(last.event_type, "execution.run_failed", "the end of the run")
    expect("model is down" in str(facts(last).get("error")), "the end of the run does not say why")


@check("model_error", needs="model_calls")
def a_model_call_that_fails_is_told_with_its_error(case: Case) -> None:
    calls = case.history.of("execution.model_call")
    expect(calls, "no model call was recorded")
    expect(
        all("model is down" in str(facts(one).get("error")) for one in calls),
        "a model call without its error",
    )

"""Rules of tools: calls, their messages, their results, their failures."""

from __future__ import annotations

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import facts
from chatsnapshot.testing.adaptercontract.rules.order import asking
from chatsnapshot.testing.expecting import expect, expect_equal

_CALLS = "execution.tool_call"
_RESULTS = "execution.tool_result"


@check("parallel_tools", "sub_agent", "interruption", "tool_error", "streaming")
def every_result_is_caused_by_its_call(case: Case) -> None:
    history = case.history
    for result in history.of(_RESULTS):
        cause = history.cause(result)
        call_id = facts(result).get("call_id")
        expect(
            cause is not None and cause.event_type == _CALLS,
            f"the result of {call_id} is not caused by a call",
        )
        assert cause is not None
        expect_equal(facts(cause).get("call_id"), call_id, "the call id of the cause")
        expect_equal(cause.correlation_id, result.correlation_id, "the correlation of the cause")


@check("parallel_tools", "sub_agent", "tool_error", "streaming")
def every_call_has_one_result(case: Case) -> None:
    history = case.history
    calls = history.of(_CALLS)
    expect(calls, "no tool call was recorded")
    for call in calls:
        results = [one for one in history.of(_RESULTS) if one.causation_id == call.event_id]
        expect_equal(len(results), 1, f"results of the call {facts(call).get('call_id')}")


@check("parallel_tools", "sub_agent", "tool_error", "streaming")
def a_call_is_caused_by_the_message_that_asks_for_it(case: Case) -> None:
    for run in case.history.runs:
        asked = asking(run)
        for call in run.of(_CALLS):
            cause = case.history.cause(call)
            expect(
                cause in run.entries, f"the call {facts(call).get('call_id')} is not caused inside its run"
            )
            assert cause is not None
            wanted = asked.get(str(facts(call).get("call_id")))
            expect(
                wanted is None or cause.position == wanted,
                f"the call {facts(call).get('call_id')} is not caused by the message that asks for it",
            )


@check("parallel_tools", "streaming")
def two_calls_of_one_answer_are_told_with_arguments_and_results(case: Case) -> None:
    calls, results = case.history.of(_CALLS), case.history.of(_RESULTS)
    for call in calls:
        expect_equal(facts(call).get("name"), "add", "the name of the tool")
    found = sorted(tuple(_numbers(facts(call).get("arguments"))) for call in calls)
    expect_equal(found, [(2, 3), (4, 5)], "the arguments of the calls")
    expect_equal(len({facts(call).get("call_id") for call in calls}), 2, "call ids")
    expect_equal(len({call.causation_id for call in calls}), 1, "causes of the two calls")
    expect_equal(sorted(_digits(one) for one in results), ["5", "9"], "the results")
    expect(
        not any(facts(one).get("is_error") for one in results), "a result that is no error is marked as one"
    )


def _numbers(arguments: object) -> list[int]:
    given = arguments if isinstance(arguments, dict) else {}
    return [given.get("a", -1), given.get("b", -1)]


def _digits(entry: LedgerEntry) -> str:
    return "".join(one for one in str(facts(entry).get("result")) if one.isdigit())


@check("parallel_tools", "sub_agent", "tool_error", "streaming")
def calls_and_results_have_the_shared_keys(case: Case) -> None:
    for call in case.history.of(_CALLS):
        missing = {"name", "call_id", "arguments"} - facts(call).keys()
        expect(not missing, f"a tool call without {', '.join(sorted(missing))}")
    for result in case.history.of(_RESULTS):
        missing = {"name", "call_id", "is_error"} - facts(result).keys()
        expect(not missing, f"a tool result without {', '.join(sorted(missing))}")


@check("tool_error")
def a_tool_that_fails_is_a_result_with_its_error(case: Case) -> None:
    results = [one for one in case.history.of(_RESULTS) if facts(one).get("name") == "fail"]
    expect(results, "the failed call has no result")
    for result in results:
        expect_equal(facts(result).get("is_error"), True, "is_error of the failed call")
        told = str(facts(result).get("error")) + str(facts(result).get("result"))
        expect("no such city" in told, "the result does not say what went wrong")

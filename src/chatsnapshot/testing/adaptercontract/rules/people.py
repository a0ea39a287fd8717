"""Rules of people: a question, its answer, and the run that goes on."""

from __future__ import annotations

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.adaptercontract.checking import RESUMING, Case, check
from chatsnapshot.testing.adaptercontract.history import ENDS, facts
from chatsnapshot.testing.expecting import expect, expect_equal

_ASKED = "execution.human_input_requested"
_ANSWERED = "execution.human_input_received"


@check("interruption")
def a_person_is_asked_once_and_answers_once(case: Case) -> None:
    question, answer = _both(case)
    expect_equal(answer.causation_id, question.event_id, "the cause of the answer")
    expect_equal(answer.correlation_id, question.correlation_id, "the correlation of the answer")
    expect(facts(question).get("question_id"), "the question has no question_id")
    expect_equal(facts(answer).get("answers"), facts(question).get("question_id"), "what the answer answers")
    kind = facts(question).get("kind")
    expect(kind in ("question", "approval", "edit"), f"the kind of the question is {kind!r}")
    if kind == "approval":
        expect_equal(facts(answer).get("decision"), "approved", "the decision")
    else:
        expect(facts(answer).get("answer") is not None, "the answer says nothing")


@check("interruption")
def a_run_ends_as_it_was_approved(case: Case) -> None:
    runs = case.history.conversation()
    last = runs[-1].entries[-1]
    expect_equal(last.event_type, "execution.run_completed", "the end of the conversation")
    said = str(facts(last).get("output")) + "".join(
        str(facts(one).get("parts")) for one in case.history.messages("assistant")
    )
    if case.lacks("plain"):  # a protocol of tools: nobody speaks but they
        said += "".join(str(facts(one).get("result")) for one in case.history.of("execution.tool_result"))
    expect("approved" in said, 'nothing says "approved"')


def a_resumed_run(case: Case) -> None:
    question, answer = _both(case)
    runs = case.history.conversation()
    expect_equal(len(runs), 2, "stretches of the run: until it paused, and from where it goes on")
    paused, resumed = runs
    ends = [entry.event_type for entry in paused.of(*ENDS)]
    expect_equal(ends, ["execution.run_paused"], "the end of the run that waits")
    first = next((one for one in resumed.entries if one.event_type != _ANSWERED), resumed.entries[0])
    expect_equal(first.event_type, "execution.run_resumed", "the start of the run that goes on")
    expect_equal(first.causation_id, answer.event_id, "the cause of the run that goes on (the answer)")
    expect(
        question.position < answer.position < first.position,
        "question, answer and start are not in this order",
    )
    expect(question in paused.entries, "the question does not belong to the run that paused")
    expect_equal(resumed.run_id, paused.run_id, "the run id of what goes on (it is the run that paused)")


a_resumed_run.__name__ = RESUMING
check("interruption", needs="resume")(a_resumed_run)


@check("interruption", needs="resume")
def a_call_that_waits_for_approval_has_its_result_after_it(case: Case) -> None:
    _, answer = _both(case)
    call_id = facts(_both(case)[0]).get("call_id")
    if call_id is None:
        return
    results = [
        one for one in case.history.of("execution.tool_result") if facts(one).get("call_id") == call_id
    ]
    expect_equal(len(results), 1, f"results of the call {call_id} that a person was asked about")
    expect(results[0].position > answer.position, "the result stands before the answer")


def _both(case: Case) -> tuple[LedgerEntry, LedgerEntry]:
    questions, answers = case.history.of(_ASKED), case.history.of(_ANSWERED)
    expect_equal(len(questions), 1, "questions to a person")
    expect_equal(len(answers), 1, "answers of a person")
    return questions[0], answers[0]

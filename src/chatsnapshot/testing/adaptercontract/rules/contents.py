"""Rules of content: what was said is there, once; tokens are counted once; a stream is recorded as what it comes to."""

from __future__ import annotations

from collections import Counter

from chatsnapshot.testing.adaptercontract.bench import ANSWERS
from chatsnapshot.testing.adaptercontract.checking import Case, check
from chatsnapshot.testing.adaptercontract.history import History, facts, text_of
from chatsnapshot.testing.expecting import Skipped, expect, expect_equal

SAID: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "plain": ("Hello", ("Hi there",)),
    "parallel_tools": ("What is 2+3 and 4+5?", ("5 and 9",)),
    "sub_agent": (None, ("child says hi", "done")),
    "handoff": (None, ("beta here",)),
    "streaming": ("What is 2+3 and 4+5?", ("5 and 9",)),
}
"""What the user (where the story says so) and the assistants say in the stories."""


@check(*SAID)
def what_was_said_is_there_once_in_a_run(case: Case) -> None:
    asked, answers = SAID[case.scenario]
    history = case.history
    if why := case.lacks("plain"):
        raise Skipped(f"nothing is said: {why}")
    if asked is not None:
        expect_equal([text_of(one) for one in history.messages("user")], [asked], "messages of the user")
    for text in answers:
        said = history.saying("assistant", text)
        expect(said, f"no message of an assistant says {text!r}")
        most = max(Counter(history.run_of(one).run_id for one in said).values())
        expect_equal(most, 1, f"messages of an assistant that say {text!r} in one run")


@check()
def every_message_has_a_role_and_parts(case: Case) -> None:
    for entry in case.history.of("execution.message"):
        parts = facts(entry).get("parts")
        expect(isinstance(parts, list) and parts, f"the message at {entry.position} has no parts")
        expect(all(isinstance(one, dict) and one.get("type") for one in parts or ()), "a part without a type")
        expect(
            facts(entry).get("role") in ("system", "user", "assistant", "tool"),
            f"the message at {entry.position} has the role {facts(entry).get('role')!r}",
        )


@check(*ANSWERS, needs="model_calls")
def every_call_of_the_model_is_told_once(case: Case) -> None:
    wanted = case.bench.answers.get(case.scenario, ANSWERS[case.scenario])
    expect_equal(len(case.history.of("execution.model_call")), wanted, "model calls")


@check(*ANSWERS, needs="model_calls")
def tokens_are_counted_once(case: Case) -> None:
    usage = case.bench.usage
    if usage is None:
        raise Skipped("the test model of this runtime reports no tokens")
    wanted = case.bench.answers.get(case.scenario, ANSWERS[case.scenario])
    found = case.recorded.tokens
    expect_equal(
        found, (usage[0] * wanted, usage[1] * wanted), "tokens in and out, by the ledger's own count"
    )


@check("streaming")
def a_stream_is_recorded_as_the_run_without_it(case: Case) -> None:
    if case.lacks("parallel_tools"):
        raise Skipped("there is no story without a stream to compare it with")
    streamed, whole = case.history, case.stage.play("parallel_tools", "recorded").history
    expect_equal(_types(streamed), _types(whole), "event types of the stream")
    expect_equal(_texts(streamed), _texts(whole), "messages of the stream")


def _types(history: History) -> dict[str, int]:
    return dict(sorted(Counter(entry.event_type for entry in history.entries).items()))


def _texts(history: History) -> list[str]:
    return sorted(text_of(entry) for entry in history.of("execution.message"))


ENDS_WITH: dict[str, str] = {
    "plain": "Hi there",
    "parallel_tools": "5 and 9",
    "sub_agent": "done",
    "handoff": "beta here",
    "interruption": "approved",
    "streaming": "5 and 9",
}
"""What the caller gets in the end, somewhere in the outcome's result."""


@check(*ENDS_WITH)
def the_bench_plays_the_story_to_its_end(case: Case) -> None:
    outcome = case.played("unrecorded").outcome
    expect(outcome.error is None, f"unrecorded, the story ends with {outcome.error}")
    expect(
        ENDS_WITH[case.scenario] in str(outcome.result), f"unrecorded, the result is {outcome.result!r:.200}"
    )

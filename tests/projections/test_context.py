"""What a context holds: the closest items whole, in order, each cited; what was left out is said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.projections.context.making import context


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


def say(ledger: Any, text: str, run: str = "r1", **more: Any) -> Any:
    role = more.pop("role", "user")
    return ledger.record("execution.message", {"role": role, "content": text}, correlation_id=run, **more)


def test_a_short_run_is_given_whole_in_order_with_a_citation_for_each_record(ledger: Any) -> None:
    say(ledger, "What is the policy?")
    ledger.record(
        "execution.tool_call", {"name": "look", "call_id": "1", "arguments": {"q": 1}}, correlation_id="r1"
    )
    ledger.record("execution.tool_result", {"call_id": "1", "result": "30 days"}, correlation_id="r1")
    say(ledger, "Thirty days.", role="assistant")
    made = ledger.context("r1", budget_tokens=1_000, format="markdown")
    assert re.findall(r"^\[.*\]$", made.text, re.MULTILINE) == [
        "[position 1, run r1, user]",
        "[position 2, run r1, tool_call look]",
        "[position 3, run r1, tool_result look]",
        "[position 4, run r1, assistant]",
    ]
    assert (made.positions, made.left_out, made.elisions) == ((1, 2, 3, 4), 0, ())
    assert made.counter == "estimate_tokens"


def test_causes_come_before_siblings_and_siblings_before_what_is_merely_recent(ledger: Any) -> None:
    asked = say(ledger, "the question")  # 1
    for number in range(3):
        say(ledger, f"chatter {number} " * 5)  # 2, 3, 4
    brother = say(ledger, "another answer", causation_id=asked)  # 5
    say(ledger, "chatter at last " * 3)  # 6
    answer = say(ledger, "the answer", causation_id=asked)  # 7
    say(ledger, "newest but unrelated")  # 8
    made = ledger.context("r1", budget_tokens=10_000, near=answer)
    assert [(item.position, item.why) for item in made.items if item.why != "recent"] == [
        (1, "cause"),
        (5, "sibling"),
        (7, "cause"),
    ]
    for budget, wanted in ((215, [1, 5, 7]), (160, [1, 7])):
        few = ledger.context("r1", budget_tokens=budget, near=answer.event_id)
        assert [item.position for item in few.items] == wanted, few.tokens
    assert brother.position == 5


def test_links_count_as_causes(ledger: Any) -> None:
    linked = say(ledger, "linked")
    say(ledger, "between")
    last = say(ledger, "last", attributes={"links": [linked.event_id]})
    made = ledger.context("r1", near=last)
    assert [item.why for item in made.items] == ["cause", "recent", "cause"]


def test_what_is_left_out_between_is_said_with_its_positions(ledger: Any) -> None:
    first = say(ledger, "the beginning")
    for number in range(20):
        say(ledger, f"number {number} " * 8)
    say(ledger, "the end", causation_id=first)
    made = ledger.context("r1", budget_tokens=130, format="markdown")
    assert made.positions == (1, 22)
    assert "\n\n[20 items left out, positions 2-21]\n\n" in made.text
    assert [(one.items, one.first, one.last) for one in made.elisions] == [(20, 2, 21)]
    assert made.left_out == 20


def test_a_question_goes_with_its_answer(ledger: Any) -> None:
    ledger.record(
        "execution.human_input_requested",
        {"question_id": "q", "question": "Pay?", "kind": "approval"},
        correlation_id="r1",
    )
    say(ledger, "meanwhile")
    ledger.record(
        "execution.human_input_received",
        {"answers": "q", "decision": "approved", "answer": "yes"},
        correlation_id="r1",
        source={"origin": "agent", "name": "Ann"},
    )
    (question,) = [item for item in ledger.context("r1").items if item.kind == "question"]
    assert question.positions == (1, 3)
    assert [record.what for record in question.records] == ["question for approval", "answer"]
    assert question.records[1].text == "approved: yes"


def test_a_long_text_is_shortened_and_says_by_how_much(ledger: Any) -> None:
    say(ledger, "a" * 5_000 + "THE END")
    made = ledger.context("r1", format="markdown", item_bytes_max=400)
    (record,) = made.items[0].records
    assert record.chars_left_out == 4_607
    assert record.text.startswith("a" * 300 + "[…]") and record.text.endswith("THE END")
    assert "[position 1, run r1, user, 4,607 characters left out]" in made.text


def test_the_closest_item_is_rather_shortened_than_left_out(ledger: Any) -> None:
    say(ledger, "short")
    ledger.record(
        "execution.tool_call",
        {"name": "f", "call_id": "1", "arguments": {"a": "b " * 400}},
        correlation_id="r1",
    )
    ledger.record("execution.tool_result", {"call_id": "1", "result": "c, " * 400}, correlation_id="r1")
    made = ledger.context("r1", budget_tokens=380, format="markdown")
    assert 2 in made.positions
    assert all(len(record.text) < 210 for item in made.items for record in item.records)


def test_texts_of_many_bytes_are_cut_between_characters(ledger: Any) -> None:
    say(ledger, "退款政策" * 200)
    (record,) = ledger.context("r1", item_bytes_max=301).items[0].records
    assert set(record.text) == set("退款政策[…]")
    assert len(record.text) - 3 + record.chars_left_out == 800


def test_until_bounds_what_is_known(ledger: Any) -> None:
    ledger.record("execution.tool_call", {"name": "look", "call_id": "1"}, correlation_id="r1")
    ledger.record("execution.tool_result", {"call_id": "1", "result": "later"}, correlation_id="r1")
    made = ledger.context("r1", until=1, format="markdown")
    assert made.positions == (1,)
    assert "later" not in made.text
    assert "[position 1, run r1, tool_call look, no result recorded]" in made.text
    with pytest.raises(chatsnapshot.NotFound, match="up to 0"):
        ledger.context("r1", until=0)


def test_several_runs_and_their_children_stand_in_one_order(ledger: Any) -> None:
    parent = say(ledger, "one", "a")
    say(ledger, "two", "b")
    say(ledger, "three", "child", causation_id=parent)
    say(ledger, "other", "c")
    assert [item.correlation_id for item in ledger.context(["a", "b"]).items] == ["a", "b", "child"]
    assert ledger.context(["a", "b"], children=False).positions == (1, 2)
    assert ledger.context(["child", "a"]).positions == (1, 3)


def test_filters_take_whole_items_of_every_run_that_matches(ledger: Any) -> None:
    ledger.record("execution.tool_call", {"name": "look", "call_id": "1"}, correlation_id="a")
    ledger.record("execution.tool_result", {"call_id": "1", "result": 7}, correlation_id="a")
    say(ledger, "no match", "a")
    ledger.record("execution.tool_result", {"call_id": "1", "result": 8}, correlation_id="b")
    made = ledger.context({"event_type": "execution.tool_result"})
    assert made.positions == (1, 2, 4)
    assert ledger.context({"event_type": "execution.tool_result", "until": 2}).positions == (1, 2)
    assert ledger.context({"event_type": "execution.tool_call", "until": 1}).positions == (1,)
    assert ledger.context({"correlation_id": "a", "until": 1}, search="look").positions == (1,)
    assert ledger.context({"event_type": "other.type"}).items == ()
    with pytest.raises(chatsnapshot.InvalidEvent, match="there is no filter 'event_typ'"):
        ledger.context({"event_typ": "execution.tool_result"})


def test_a_search_is_a_source_within_all_or_some_runs(ledger: Any) -> None:
    say(ledger, "the refund policy is generous", "a")
    say(ledger, "nothing of that", "a")
    say(ledger, "refund refund refund policy", "b")
    assert ledger.context(search="refund policy").positions == (1, 3)
    assert ledger.context("a", search="refund").positions == (1,)
    assert ledger.context({"correlation_id": "b"}, search="refund").positions == (3,)
    assert {item.why for item in ledger.context(search="refund").items} == {"search"}
    assert ledger.context(search="elephant").text == ""
    with pytest.raises(chatsnapshot.NotFound, match="nobody"):
        ledger.context("nobody", search="refund")
    with pytest.raises(chatsnapshot.InvalidEvent, match="near or search"):
        ledger.context("a", search="refund", near=ledger.get(next(ledger.read()).event_id))


def test_what_people_gave_and_saw_says_who(ledger: Any) -> None:
    ledger.record("ui.input_received", {"value": "in", "user": "Ann"}, correlation_id="r1")
    ledger.record("ui.output_displayed", {"content": "out", "user": "Ann"}, correlation_id="r1")
    text = ledger.context("r1", format="markdown").text
    assert "[position 1, run r1, input by Ann]" in text
    assert "[position 2, run r1, shown to Ann]" in text


def test_erased_texts_are_erased_here_too(ledger: Any) -> None:
    entry = say(ledger, "secret")
    ledger.record("execution.tool_call", {"name": "look", "call_id": "1"}, correlation_id="r1")
    result = ledger.record("execution.tool_result", {"call_id": "1", "result": "secret"}, correlation_id="r1")
    ledger.erase([entry.position, result.position], reason="asked for")
    made = ledger.context("r1", format="markdown")
    assert "secret" not in made.text
    assert made.text.count("[erased]") == 2


def test_a_budget_below_any_item_says_the_smallest_that_works(ledger: Any) -> None:
    for number in range(5):
        say(ledger, f"number {number}: " + "words and words " * 40)
    for options in ({}, {"format": "anthropic"}, {"item_bytes_max": 1_000}):
        with pytest.raises(
            chatsnapshot.LimitExceeded, match="the smallest budget that holds one item"
        ) as raised:
            ledger.context("r1", budget_tokens=7, **options)
        enough = raised.value.found
        made = ledger.context("r1", budget_tokens=enough, **options)
        assert (len(made.items), made.tokens) == (1, enough)


def test_what_cannot_be_meant_is_refused_with_what_can(ledger: Any) -> None:
    say(ledger, "hello")
    other = say(ledger, "elsewhere", "r2")
    with pytest.raises(chatsnapshot.NotFound, match="did you mean markdown"):
        ledger.context("r1", format="markdwon")
    with pytest.raises(chatsnapshot.NotFound, match="nobody"):
        ledger.context("nobody")
    with pytest.raises(chatsnapshot.NotFound, match="is not among what was asked for"):
        ledger.context("r1", near=other)
    for wrong in (0, -1, True, 1.5, "many", None):
        with pytest.raises(chatsnapshot.InvalidEvent, match="budget_tokens is a whole number"):
            ledger.context("r1", budget_tokens=wrong)
    with pytest.raises(chatsnapshot.InvalidEvent, match="item_bytes_max"):
        ledger.context("r1", item_bytes_max=0)
    with pytest.raises(chatsnapshot.InvalidEvent, match="the counter gave 'three'"):
        ledger.context("r1", counter=lambda text: "three")
    with pytest.raises(chatsnapshot.InvalidEvent, match="name a run"):
        ledger.context()
    with pytest.raises(chatsnapshot.InvalidEvent, match="at least one run"):
        ledger.context([])


def test_the_asyncio_form_gives_the_same(ledger: Any) -> None:
    say(ledger, "hello")
    assert asyncio.run(ledger.acontext("r1")) == ledger.context("r1")
    assert asyncio.run(ledger.asearch("hello")) == ledger.search("hello")


def test_a_counter_of_ones_own_is_used_and_named(history: Any) -> None:
    history.add("execution.message", {"role": "user", "content": "hello"})

    def letters(text: str) -> int:
        return len(text)

    made = context(history, "run-1", counter=letters, budget_tokens=5_000)
    assert (made.tokens, made.counter) == (len(made.text), "letters")

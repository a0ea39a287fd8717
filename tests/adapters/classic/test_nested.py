"""Chats inside chats and inside tools are child runs, whoever starts them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from classic_chats import agent, calls, one, pair, said, types

from chatsnapshot import InvalidEvent, Ledger, LedgerEntry
from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.adapters.ag2.run import CURRENT


def children(ledger: Ledger) -> list[list[LedgerEntry]]:
    """The runs that are not ``run-1``, in the order in which they began."""
    starts = [
        entry for entry in ledger.read(event_type="execution.run_started") if entry.correlation_id != "run-1"
    ]
    return [list(ledger.read(correlation_id=entry.correlation_id)) for entry in starts]


def kinds(entries: list[LedgerEntry]) -> list[str]:
    return [entry.event_type.removeprefix("execution.") for entry in entries]


NESTED = ["run_started", "state_change", "message", "message", "state_change", "run_completed"]


def nesting() -> tuple[Any, Any]:
    user, writer = agent("user"), agent("writer")
    queue = [
        {
            "recipient": agent("critic", "good"),
            "message": "review",
            "max_turns": 1,
            "summary_method": "last_msg",
        },
        {
            "recipient": agent("checker", "fine"),
            "message": "check",
            "max_turns": 1,
            "summary_method": "last_msg",
        },
    ]
    writer.register_nested_chats(queue, trigger=user)
    return user, writer


def check_nested(ledger: Ledger) -> None:
    asked, replied = ledger.read(correlation_id="run-1", event_type="execution.message")
    first, second = children(ledger)
    assert [kinds(first), kinds(second)] == [NESTED, NESTED]
    for run, output in ((first, "good"), (second, "fine")):
        assert run[0].causation_id == asked.event_id
        assert run[0].payload["parent_run_id"] == "run-1"
        assert run[-1].payload["output"] == output
    assert replied.causation_id == second[-1].event_id, (
        "what is said after it follows from the end of the chat"
    )
    assert replied.payload["parts"][0]["content"] == "fine"
    names = [child.name for child in ledger.view("runs", "run-1").runs[0].children]
    assert names == ["writer, critic", "writer, checker"]


def test_nested_chats_are_children_of_the_message_they_answer(ledger: Ledger, recorder: AG2Recorder) -> None:
    user, writer = nesting()
    list(recorder.watch(user.run(writer, message="write", max_turns=1)).events)
    check_nested(ledger)
    assert types(ledger)[-1] == "run_completed"


def test_nested_chats_in_a_tee_are_children_too(ledger: Ledger, recorder: AG2Recorder) -> None:
    user, writer = nesting()
    with recorder.tee() as chat:
        chat.returned(user.initiate_chat(writer, message="write", max_turns=1))
    check_nested(ledger)


def test_a_nested_chat_that_fails_fails_its_run_and_the_outer_one(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    user, writer = agent("user"), agent("writer")
    writer.register_nested_chats(
        [{"recipient": agent("critic", ValueError("no")), "message": "review", "max_turns": 1}], trigger=user
    )
    with pytest.raises(ValueError, match="no"):
        list(recorder.watch(user.run(writer, message="write", max_turns=1)).events)
    assert kinds(children(ledger)[0])[-1] == "run_failed"
    assert types(ledger)[-1] == "run_failed"


def test_several_chats_in_a_tee_are_children_in_their_order(ledger: Ledger, recorder: AG2Recorder) -> None:
    queue = [
        {"recipient": agent(f"helper{number}", text), "message": text, "max_turns": 1}
        for number, text in enumerate(["one", "two"], 1)
    ]
    with recorder.tee(name="both") as chat:
        chat.returned(agent("user").initiate_chats(queue))
    assert types(ledger) == ["run_started", "run_completed"]
    assert [kinds(run) for run in children(ledger)] == [NESTED, NESTED]
    end = list(ledger.read(correlation_id="run-1"))[-1].payload
    assert end["output"] == ["one", "two"]


def test_async_chats_in_a_tee_are_children_too(ledger: Ledger, recorder: AG2Recorder) -> None:
    queue = [
        {"chat_id": number, "recipient": agent(f"helper{number}", text), "message": text, "max_turns": 1}
        | ({"prerequisites": [1]} if number > 1 else {})
        for number, text in enumerate(["one", "two"], 1)
    ]

    async def main() -> None:
        with recorder.tee() as chat:
            chat.returned(await agent("user").a_initiate_chats(queue))

    asyncio.run(main())
    assert [kinds(run) for run in children(ledger)] == [NESTED, NESTED]
    assert recorder.safe.failures == 0


def in_a_tool(recorder: AG2Recorder, tool: Any) -> None:
    tool.__name__ = "consult"
    assistant, user = pair(calls(("consult", {"x": 1})), "TERMINATE", tools=[tool])
    list(recorder.watch(user.run_iter(assistant, message="go")))


def check_child_of_the_tool(ledger: Ledger) -> None:
    call = one(ledger, "execution.tool_call")
    (child,) = children(ledger)
    assert child[0].causation_id == call.event_id
    assert child[0].payload["parent_run_id"] == "run-1"
    assert kinds(child) == ["run_started", "message", "message", "state_change", "run_completed"]
    assert [name for name, _ in said(ledger, correlation_id=child[0].correlation_id)] == ["expert", "novice"]
    result = one(ledger, "execution.tool_result")
    assert (result.causation_id, result.payload["result"]) == (call.event_id, "done")
    assert [name for name, _ in said(ledger, correlation_id="run-1")] == ["user", "assistant"]


def test_a_chat_that_a_tool_holds_is_a_child_of_its_call(ledger: Ledger, recorder: AG2Recorder) -> None:
    def consult(x: int) -> str:
        agent("expert").initiate_chat(agent("novice", "hm"), message="?", max_turns=1)
        return "done"

    in_a_tool(recorder, consult)
    check_child_of_the_tool(ledger)


def test_a_chat_that_a_tool_held_before_the_run_was_watched_is_a_child_too(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    reached, release = threading.Event(), threading.Event()

    def consult(x: int) -> str:
        agent("expert").initiate_chat(agent("novice", "hm"), message="?", max_turns=1)
        reached.set()
        release.wait(20)
        return "done"

    assistant, user = pair(calls(("consult", {"x": 1})), "TERMINATE", tools=[consult])
    response = user.run(assistant, message="go")
    assert reached.wait(20)
    recorder.watch(response)
    assert CURRENT.get() is None, "the tool runs elsewhere"
    release.set()
    list(response.events)
    check_child_of_the_tool(ledger)


def test_a_tee_inside_a_tool_records_its_chat_once(ledger: Ledger, recorder: AG2Recorder) -> None:
    def consult(x: int) -> str:
        with recorder.tee():
            agent("expert").initiate_chat(agent("novice", "hm"), message="?", max_turns=1)
        return "done"

    in_a_tool(recorder, consult)
    check_child_of_the_tool(ledger)


def test_a_watched_run_inside_a_tool_is_a_child_of_its_call(ledger: Ledger, recorder: AG2Recorder) -> None:
    def consult(x: int) -> str:
        inner = agent("expert").run(agent("novice", "hm"), message="?", max_turns=1)
        list(recorder.watch(inner).events)
        return "done"

    in_a_tool(recorder, consult)
    check_child_of_the_tool(ledger)


def test_what_users_record_in_a_tool_belongs_to_the_run_and_its_call(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    def consult(x: int) -> str:
        ledger.record("integration.call", {"service": "bank"})
        return "done"

    in_a_tool(recorder, consult)
    recorded = one(ledger, "integration.call")
    assert (recorded.correlation_id, recorded.causation_id) == (
        "run-1",
        one(ledger, "execution.tool_call").event_id,
    )


def test_a_chat_of_a_tool_that_fails_is_a_failed_child(ledger: Ledger, recorder: AG2Recorder) -> None:
    def consult(x: int) -> str:
        agent("expert").initiate_chat(agent("novice", ValueError("no")), message="?", max_turns=1)
        return "done"

    in_a_tool(recorder, consult)
    (child,) = children(ledger)
    assert kinds(child)[-1] == "run_failed"
    assert types(ledger)[-1] == "run_completed"


def test_a_tee_that_is_interrupted_in_a_tool_leaves_nothing_behind(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    def stop(x: int) -> str:
        raise KeyboardInterrupt

    assistant, user = pair(calls(("stop", {"x": 1})), "TERMINATE", tools=[stop])
    with pytest.raises(KeyboardInterrupt), recorder.tee():
        user.initiate_chat(assistant, message="go")
    assert types(ledger)[-2:] == ["tool_call", "run_cancelled"]
    assert CURRENT.get() is None
    with pytest.raises(InvalidEvent):
        ledger.record("integration.call", {"service": "bank"})

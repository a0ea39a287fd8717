"""Group chats: every transition is a handoff, and so is a change of speaker that no transition tells of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from autogen import GroupChat, GroupChatManager
from autogen.agentchat import (
    a_initiate_group_chat,
    a_run_group_chat,
    a_run_group_chat_iter,
    initiate_group_chat,
    run_group_chat,
    run_group_chat_iter,
)
from classic_chats import agent, causes, one, said, types
from classic_groups import team

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder, map_event, normalize

Models = Callable[..., Any]
Say = Callable[..., Any]


def handoffs(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [
        (entry.payload["from"], entry.payload["to"], entry.payload["kind"])
        for entry in ledger.read(event_type="execution.handoff")
    ]


def run(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    list(recorder.watch(run_group_chat(pattern=pattern, messages=messages)).events)


def run_iter(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    list(recorder.watch(run_group_chat_iter(pattern=pattern, messages=messages)))


def a_run(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    async def main() -> None:
        response = await recorder.watch(a_run_group_chat(pattern=pattern, messages=messages))
        async for _ in response.events:
            pass

    asyncio.run(main())


def a_run_iter(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    async def main() -> None:
        async for _ in recorder.watch(a_run_group_chat_iter(pattern=pattern, messages=messages)):
            pass

    asyncio.run(main())


def initiate(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    with recorder.tee() as chat:
        chat.returned(initiate_group_chat(pattern=pattern, messages=messages))


def a_initiate(recorder: AG2Recorder, pattern: Any, messages: Any) -> None:
    async def main() -> None:
        with recorder.tee() as chat:
            chat.returned(await a_initiate_group_chat(pattern=pattern, messages=messages))

    asyncio.run(main())


EVERY_WAY = pytest.mark.parametrize("way", [run, run_iter, a_run, a_run_iter, initiate, a_initiate])


@EVERY_WAY
def test_every_kind_of_transition_is_a_handoff(
    ledger: Ledger, recorder: AG2Recorder, models: Models, say: Say, way: Callable[..., None]
) -> None:
    way(recorder, team(models, say), "help me")
    assert handoffs(ledger) == [
        ("triage", "specialist", "reply_result"),
        ("specialist", "closer", "on_condition_llm"),
        ("closer", "auditor", "on_context_condition"),
        ("auditor", "Terminate", "after_work"),
    ]
    made_by = [(what, why) for what, why in causes(ledger) if what.startswith("handoff")]
    assert made_by == [
        ("handoff specialist", "tool_call call_1_0"),
        ("handoff closer", "tool_call call_2_0"),
        ("handoff auditor", "tool _Group_Tool_Executor"),
        ("handoff Terminate", "assistant auditor"),
    ]
    end = one(ledger, "execution.run_completed").payload
    assert (end["status"], end["last_speaker"], end["variables"]) == ("ok", "auditor", {"routed": True})
    assert end["cost"]
    assert types(ledger).count("run_started") == 1
    assert recorder.safe.failures == 0


def test_the_loop_and_the_watched_group_chat_give_the_same_types_and_payloads(
    ledger: Ledger, recorder: AG2Recorder, models: Models, say: Say
) -> None:
    response = recorder.watch(run_group_chat(pattern=team(models, say), messages="help me"))
    events = list(response.events)
    ids = {str(event.content.uuid) for event in events}
    watched = [(entry.event_type, entry.payload) for entry in ledger.read() if entry.event_id in ids]
    added = [entry.event_type for entry in ledger.read() if entry.event_id not in ids]
    with chatsnapshot.open("memory:") as other:
        for event in events:
            other.record(event_type=map_event(event), correlation_id="run-1", payload=normalize(event))
        assert watched == [(entry.event_type, entry.payload) for entry in other.read()]
    assert set(added) == {"execution.run_started", "execution.state_change"}, "the start; context variables"


def test_a_change_of_speaker_without_a_transition_is_a_handoff_made_by_the_last_message(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    alice, bob, carol = agent("alice", "a2"), agent("bob", "b1", "b2"), agent("carol", "c1")
    group = GroupChat([alice, bob, carol], messages=[], max_round=5, speaker_selection_method="round_robin")
    list(recorder.watch(alice.run(GroupChatManager(group, llm_config=False), message="hi")).events)
    assert handoffs(ledger) == [
        ("bob", "carol", "next_speaker"),
        ("carol", "alice", "next_speaker"),
        ("alice", "bob", "next_speaker"),
    ]
    assert [why for what, why in causes(ledger) if what.startswith("handoff")] == [
        "assistant bob",
        "assistant carol",
        "assistant alice",
    ]
    assert one(ledger, "execution.run_completed").payload["last_speaker"] == "bob"


@pytest.mark.parametrize("way", [run, run_iter, a_run, a_run_iter, initiate, a_initiate])
def test_a_group_chat_that_goes_on_from_messages_is_a_resumed_run(
    ledger: Ledger, recorder: AG2Recorder, models: Models, say: Say, way: Callable[..., None]
) -> None:
    before = [
        {"role": "user", "name": "customer", "content": "hello"},
        {"role": "assistant", "name": "triage", "content": "how can I help?"},
        {"role": "user", "name": "customer", "content": "refund me"},
    ]
    way(recorder, team(models, say), before)
    recorded = types(ledger)
    assert recorded[0] == "run_resumed"
    assert "run_started" not in recorded
    assert recorded[-1] == "run_completed"
    start = one(ledger, "execution.run_resumed").payload
    assert (start["last_speaker"], start["messages_restored"]) == ("customer", 3)
    assert len(handoffs(ledger)) == 4
    assert said(ledger)[0] == ("customer", "refund me")


@pytest.mark.parametrize("way", [run, a_run])
def test_a_group_chat_whose_model_fails_is_a_failed_run_and_raises(
    ledger: Ledger, recorder: AG2Recorder, models: Models, say: Say, way: Callable[..., None]
) -> None:
    with pytest.raises(Exception, match="scripted status 400"):
        way(recorder, team(models, say, first=400), "help me")
    assert types(ledger)[-1] == "run_failed"
    error = one(ledger, "execution.run_failed").payload["error"]
    assert (error["type"], error["module"].partition(".")[0]) == ("BadRequestError", "openai")


def test_a_guarded_group_chat_that_goes_on_is_a_resumed_run_too(
    ledger: Ledger, recorder: AG2Recorder, models: Models, say: Say
) -> None:
    rule = {"message_source": "triage", "message_destination": "specialist", "check_method": "regex"}
    rule |= {"pattern": "never", "violation_response": "block"}
    policy = {"inter_agent_safeguards": {"agent_transitions": [rule]}}
    before = [{"role": "user", "name": "customer", "content": text} for text in ("hello", "refund me")]
    response = run_group_chat_iter(pattern=team(models, say), messages=before, safeguard_policy=policy)
    list(recorder.watch(response))
    assert types(ledger)[:2] == ["run_resumed", "guardrail"]
    assert types(ledger)[-1] == "run_completed"

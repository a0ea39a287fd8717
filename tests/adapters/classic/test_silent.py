"""Silent chats: a hook of the agents tells what AG2 does not, and nothing is recorded twice."""

from __future__ import annotations

from typing import Any

import pytest
from autogen import GroupChat, GroupChatManager
from classic_chats import agent, calls, pair, said, types

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

TALK = [("user", "hi"), ("assistant", "a"), ("user", "b"), ("assistant", "c")]


def two() -> tuple[Any, Any]:
    return agent("user", "b"), agent("assistant", "a", "c")


@pytest.mark.parametrize("silent", [True, False])
def test_attached_agents_are_recorded_without_anything_else(
    ledger: Ledger, recorder: AG2Recorder, silent: bool
) -> None:
    user, assistant = two()
    with recorder.attach(user, assistant):
        result = user.initiate_chat(assistant, message="hi", max_turns=2, silent=silent)
    assert result.summary == "c"
    assert said(ledger) == TALK
    assert types(ledger) == ["run_started", *["message"] * 4, "run_completed"]


@pytest.mark.parametrize("silent", [True, False])
def test_a_message_that_tee_and_hook_both_see_is_recorded_once(
    ledger: Ledger, recorder: AG2Recorder, silent: bool
) -> None:
    user, assistant = two()
    recorder.attach(user, assistant)
    with recorder.tee():
        user.initiate_chat(assistant, message="hi", max_turns=2, silent=silent)
    assert said(ledger) == TALK
    assert types(ledger)[-2:] == ["state_change", "run_completed"]


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("way", ["run", "run_iter"])
def test_a_message_that_a_watched_run_and_the_hook_both_see_is_recorded_once(
    ledger: Ledger, recorder: AG2Recorder, way: str, silent: bool
) -> None:
    user, assistant = two()
    recorder.attach(user, assistant)
    response = recorder.watch(getattr(user, way)(assistant, message="hi", max_turns=2, silent=silent))
    list(response.events if way == "run" else response)
    texts = said(ledger)
    if way == "run" and silent:  # what was said before the run was watched is told by the hook alone
        texts = [text for text in TALK if text in texts]
    assert texts == TALK


def test_the_tools_of_a_silent_chat_are_linked_as_ever(ledger: Ledger, recorder: AG2Recorder) -> None:
    assistant, user = pair(calls(("add", {"a": 1, "b": 2})), "3 TERMINATE")
    recorder.attach(user, assistant)
    with recorder.tee():
        user.initiate_chat(assistant, message="hi", silent=True)
    kinds = [entry.payload["role"] for entry in ledger.read(event_type="execution.message")]
    assert kinds == ["user", "assistant", "tool", "assistant"]
    call = next(iter(ledger.read(event_type="execution.tool_call")))
    assert ledger.get(call.causation_id).payload["role"] == "assistant"


def test_a_group_chat_with_attached_members_has_every_message_once(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    alice, bob, carol = agent("alice", "a2"), agent("bob", "b1"), agent("carol", "c1")
    group = GroupChat([alice, bob, carol], messages=[], max_round=3, speaker_selection_method="round_robin")
    manager = GroupChatManager(group, llm_config=False)
    recorder.attach(alice, bob, carol, manager)
    with recorder.tee():
        alice.initiate_chat(manager, message="hi")
    assert said(ledger) == [("alice", "hi"), ("bob", "b1"), ("carol", "c1")]


def test_attaching_twice_records_once_and_closing_ends_it(ledger: Ledger, recorder: AG2Recorder) -> None:
    user, assistant = two()
    attached = recorder.attach(user, assistant, user)
    recorder.attach(user, assistant)
    user.initiate_chat(assistant, message="hi", max_turns=2, silent=True)
    attached.close()
    assert said(ledger) == TALK
    head = ledger.head
    user.initiate_chat(assistant, message="again", max_turns=1, silent=True)
    assert ledger.head == head


def test_an_agent_gets_the_message_as_it_was(recorder: AG2Recorder) -> None:
    user, assistant = two()
    attached = recorder.attach(user)
    message = {"content": "hi", "extra": object()}
    assert attached.sent(user, message, assistant, True) is message

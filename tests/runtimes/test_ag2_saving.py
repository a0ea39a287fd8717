"""Saving and restoring classic agents, at whatever version of that line is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import autogen
import pytest

from chatsnapshot import AG2ChatPersistence, PersistentChatMixin

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning")
]  # of the runtime, which is not ours to change


@pytest.fixture(params=["json", "sqlite"])
def persistence(request: Any, tmp_path: Path) -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence(request.param, {"path": tmp_path / "chats"}) as opened:
        yield opened


def agent(name: str, says: str, kind: Any = autogen.ConversableAgent, **options: Any) -> Any:
    return kind(name, llm_config=False, human_input_mode="NEVER", default_auto_reply=says, **options)


def held(one: Any, other: Any) -> list[Any]:
    return list(one._oai_messages[other])


def test_two_agents_go_on_with_their_talk(persistence: AG2ChatPersistence) -> None:
    asking, telling = agent("asking", "Really?"), agent("telling", "Really.")
    asking.initiate_chat(telling, message="Is it so?", max_turns=2, silent=True)
    persistence.save_conversation("case-7", [asking, telling])
    fresh = [agent("asking", "Really?"), agent("telling", "Yes.")]
    persistence.restore_conversation("case-7", fresh)
    assert (held(*fresh), held(*reversed(fresh))) == (held(asking, telling), held(telling, asking))
    fresh[0].initiate_chat(fresh[1], message="Still?", max_turns=1, clear_history=False, silent=True)
    assert [one["content"] for one in held(*fresh)][-2:] == ["Still?", "Yes."]
    assert len(held(*fresh)) == 6


def test_an_open_tool_call_is_answered_from_the_record(persistence: AG2ChatPersistence) -> None:
    call = {"id": "call-9", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asking, telling = agent("asking", "Thanks."), agent("telling", "It is done.")
    for one, other, role in ((asking, telling, "assistant"), (telling, asking, "user")):
        one._oai_messages[other] = [
            {"content": "Add.", "name": "asking", "role": role},
            {"content": None, "role": "assistant", "tool_calls": [call]},
        ]
    persistence.save_conversation("case-7", [asking, telling])
    fresh = [agent("asking", "", max_consecutive_auto_reply=0), agent("telling", "It is done.")]
    fresh[0].register_function({"add": lambda: pytest.fail("the tool was run again")})
    restored = persistence.restore_conversation("case-7", fresh, results={"call-9": 3})
    assert restored.open_calls == []
    talk = restored.resume()
    assert talk[2]["tool_responses"] == [{"tool_call_id": "call-9", "role": "tool", "content": "3"}]
    assert talk[3]["content"] == "It is done."


def test_a_group_goes_on_from_where_it_stopped(persistence: AG2ChatPersistence) -> None:
    def group(rounds: int) -> Any:
        members = [agent(name, f"I am {name}.") for name in ("ann", "bob", "eve")]
        chat = autogen.GroupChat(
            members, messages=[], max_round=rounds, speaker_selection_method="round_robin"
        )
        return autogen.GroupChatManager(chat, llm_config=False)

    first = group(2)
    first.groupchat.agents[0].initiate_chat(first, message="hi", silent=True)
    persistence.save_groupchat("round-1", first)
    fresh = group(2)
    persistence.restore_groupchat("round-1", fresh).resume(silent=True)
    said = [(one["name"], one["content"]) for one in fresh.groupchat.messages]
    assert said == [("ann", "hi"), ("bob", "I am bob."), ("eve", "I am eve.")]


def test_an_agent_saves_its_chats_by_itself(persistence: AG2ChatPersistence) -> None:
    class Saving(PersistentChatMixin, autogen.ConversableAgent):
        pass

    options = {"kind": Saving, "persistence": persistence, "chat_id": "case-7"}
    telling, asking = agent("telling", "Really.", **options), agent("asking", "Really?")
    asking.initiate_chat(telling, message="Is it so?", max_turns=2, silent=True)
    assert telling.autosave_error is None
    fresh = agent("telling", "Yes.", **options)
    assert [one["content"] for one in fresh.load_chat(agent("asking", "")).messages] == [
        "Is it so?",
        "Really.",
        "Really?",
        "Really.",
    ]

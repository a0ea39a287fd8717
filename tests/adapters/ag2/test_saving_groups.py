"""Group chats of the classic line that go on with a saved talk: managers, and patterns with context variables."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from autogen import ConversableAgent, GroupChat, GroupChatManager, register_function
from autogen.agentchat import initiate_group_chat, run_group_chat
from autogen.agentchat.group import AgentNameTarget, ContextVariables, ReplyResult
from autogen.agentchat.group.patterns import DefaultPattern

from chatsnapshot import AG2ChatPersistence, InvalidEvent, StorageBackend

Models = Callable[..., Any]
Say = Callable[..., Any]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of the runtime


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def persistence(tmp_path: Path) -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence(StorageBackend.JSON, {"path": tmp_path / "chats.jsonl"}) as opened:
        yield opened


class Round:
    """Alice, Bob and Carol in turn, each with a model of its own."""

    def __init__(self, server: Any, max_round: int = 3) -> None:
        self.server = server
        self.agents = [
            ConversableAgent(name, llm_config=server.classic(name), human_input_mode="NEVER")
            for name in ("alice", "bob", "carol")
        ]
        self.chat = GroupChat(
            self.agents, messages=[], max_round=max_round, speaker_selection_method="round_robin"
        )
        self.manager = GroupChatManager(self.chat, llm_config=False)

    def said(self) -> list[tuple[str, str]]:
        return [(one["name"], one["content"]) for one in self.chat.messages]

    def held(self) -> dict[str, dict[str, list[Any]]]:
        return {
            agent.name: {peer.name: list(held) for peer, held in agent._oai_messages.items()}
            for agent in [*self.agents, self.manager]
        }


def seen(server: Any, request: int = -1) -> list[tuple[Any, ...]]:
    return [
        (one["role"], one.get("name"), one.get("content"))
        for one in server.requests[request]["messages"]
        if one["role"] != "system"
    ]


def test_a_group_chat_is_restored_exactly_and_a_new_message_goes_on(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    first = Round(models({"bob": ["b1"], "carol": ["c1"]}))
    first.agents[0].initiate_chat(first.manager, message="hi", silent=True)
    persistence.save_groupchat("round-1", first.manager, metadata={"topic": "x"})

    fresh = Round(models({"bob": ["b2"], "carol": ["c2"]}))
    restored = persistence.restore_groupchat("round-1", fresh.manager)
    assert fresh.held() == first.held()
    assert (fresh.said(), restored.metadata) == (first.said(), {"topic": "x"})
    assert restored.last_agent is fresh.agents[2]
    fresh.agents[0].initiate_chat(fresh.manager, message="more?", clear_history=False, silent=True)
    assert fresh.said() == [*first.said(), ("alice", "more?"), ("bob", "b2"), ("carol", "c2")]
    assert [content for _, _, content in seen(fresh.server, 0)] == ["hi", "b1", "c1", "more?"]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_group_goes_on_from_where_it_stopped(
    models: Models, persistence: AG2ChatPersistence, way: str
) -> None:
    first = Round(models({"bob": ["b1"]}), max_round=2)
    first.agents[0].initiate_chat(first.manager, message="hi", silent=True)
    persistence.save_conversation("round-1", [first.manager])
    fresh = Round(models({"carol": ["c1"], "alice": ["a2"]}))
    restored = persistence.restore_conversation("round-1", [fresh.manager])
    if way == "async":
        asyncio.run(restored.aresume(silent=True))
    else:
        restored.resume(silent=True)
    assert fresh.said() == [("alice", "hi"), ("bob", "b1"), ("carol", "c1"), ("alice", "a2")]
    assert [content for _, _, content in seen(fresh.server, 0)] == ["hi", "b1"]


def test_the_messages_of_a_group_are_stored_once(models: Models, persistence: AG2ChatPersistence) -> None:
    first = Round(models({"bob": ["a reply of its own"], "carol": ["c1"]}))
    first.agents[0].initiate_chat(first.manager, message="a question of its own", silent=True)
    entry = persistence.save_groupchat("round-1", first.chat, first.manager)
    for words in (b"a reply of its own", b"a question of its own"):
        assert (entry.payload_json or b"").count(words) == 1


def test_a_groupchat_without_its_manager_keeps_its_own_list(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    first = Round(models({"bob": ["b1"], "carol": ["c1"]}))
    first.agents[0].initiate_chat(first.manager, message="hi", silent=True)
    persistence.save_groupchat("round-1", first.chat)
    fresh = Round(models({}))
    restored = persistence.restore_groupchat("round-1", fresh.chat)
    assert fresh.said() == first.said()
    with pytest.raises(InvalidEvent, match="its manager"):
        restored.resume()
    last_agent, message = fresh.manager.resume(restored.messages, silent=True)  # AG2's own way takes them too
    assert (last_agent, message["content"]) == (fresh.agents[2], "c1")


def test_an_open_call_in_a_group_is_answered_from_the_record(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    added: list[int] = []

    def group(server: Any) -> Round:
        made = Round(server)

        def add(a: int) -> int:
            added.append(a)
            return a

        register_function(add, caller=made.agents[0], executor=made.agents[1], description="Add.")
        return made

    first = group(models({}))
    call = {
        "id": "call-9",
        "type": "function",
        "function": {"name": "add", "arguments": json.dumps({"a": 1})},
    }
    first.chat.messages[:] = [
        {"content": "add 1", "role": "user", "name": "carol"},
        {"content": "None", "role": "assistant", "name": "alice", "tool_calls": [call]},
    ]
    persistence.save_groupchat("round-1", first.manager)
    for results, executed in (({"call-9": 41}, []), (None, [1])):
        fresh = group(models({"alice": ["done"], "carol": ["done"]}))
        fresh.chat.max_round = 2 if results else 3
        restored = persistence.restore_groupchat("round-1", fresh.manager, results=results)
        assert [one.call_id for one in restored.open_calls] == ([] if results else ["call-9"])
        restored.resume(silent=True)
        assert added == executed
        messages = [one for one in fresh.server.requests[0]["messages"] if one["role"] != "system"]
        # AG2 makes the text "None" of an empty content; what is restored is empty, what it sends anew is its own.
        assert [one.get("content") for one in messages] == [
            "add 1",
            *([None, "41"] if results else ["None", "1"]),
        ]
        assert messages[-1]["tool_call_id"] == "call-9"


@pytest.mark.parametrize("way", ["sync", "async"])
def test_of_several_open_calls_in_a_group_only_those_without_a_record_are_executed(
    models: Models, persistence: AG2ChatPersistence, way: str
) -> None:
    added: list[int] = []

    def group(server: Any) -> Round:
        made = Round(server, max_round=2)

        def add(a: int) -> int:
            added.append(a)
            return a

        register_function(add, caller=made.agents[0], executor=made.agents[1], description="Add.")
        return made

    calls = [
        {
            "id": f"call-{n}",
            "type": "function",
            "function": {"name": "add", "arguments": json.dumps({"a": n})},
        }
        for n in (1, 2)
    ]
    first = group(models({}))
    first.chat.messages[:] = [
        {"content": "add", "role": "user", "name": "carol"},
        {"content": "None", "role": "assistant", "name": "alice", "tool_calls": calls},
    ]
    persistence.save_groupchat("round-1", first.manager)
    fresh = group(models({"alice": ["done"], "carol": ["done"]}))
    restored = persistence.restore_groupchat("round-1", fresh.manager, results={"call-1": "recorded"})
    assert [call.call_id for call in restored.open_calls] == ["call-2"]
    if way == "async":
        asyncio.run(restored.aresume(silent=True))
    else:
        restored.resume(silent=True)
    assert added == [2]
    answers = [one for one in fresh.server.requests[0]["messages"] if one["role"] == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in answers] == [
        ("call-1", "recorded"),
        ("call-2", "2"),
    ]


class Desk:
    """A pattern: triage hands over to a specialist by a tool, and counts in the context variables."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.variables = ContextVariables(data={"routed": 0})
        self.routed: list[str] = []

        def route(topic: str, context_variables: ContextVariables) -> ReplyResult:
            """Hand over."""
            self.routed.append(topic)
            context_variables["routed"] += 1
            return ReplyResult(
                message="routing", target=AgentNameTarget("specialist"), context_variables=context_variables
            )

        self.triage = ConversableAgent("triage", llm_config=server.classic("triage"), functions=[route])
        self.specialist = ConversableAgent("specialist", llm_config=server.classic("specialist"))
        self.customer = ConversableAgent("customer", human_input_mode="NEVER", llm_config=False)
        self.pattern = DefaultPattern(
            initial_agent=self.triage,
            agents=[self.triage, self.specialist],
            user_agent=self.customer,
            context_variables=self.variables,
        )


def test_a_pattern_goes_on_with_its_last_speaker_and_its_variables(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    first = Desk(models({"triage": [say("route", topic="x")], "specialist": ["all done"]}))
    result, variables, speaker = initiate_group_chat(first.pattern, messages="help me", max_rounds=6)
    persistence.save_groupchat(
        "desk-1", first.pattern, messages=result, context_variables=variables, last_speaker=speaker
    )

    fresh = Desk(models({"specialist": ["yes, still here"]}))
    restored = persistence.restore_groupchat("desk-1", fresh.pattern)
    assert fresh.pattern.initial_agent is fresh.specialist
    assert fresh.variables.to_dict() == {"routed": 1} == restored.context_variables
    more = [{"role": "user", "name": "customer", "content": "are you there?"}]
    response = run_group_chat(fresh.pattern, messages=restored.messages + more, max_rounds=6)
    list(response.events)
    assert fresh.routed == []
    assert [body["model"] for body in fresh.server.requests] == ["specialist"]
    contents = [content for _, _, content in seen(fresh.server)]
    assert contents.count("help me") == contents.count("all done") == contents.count("are you there?") == 1
    assert contents[-1] == "are you there?"
    (answer,) = [one for one in fresh.server.requests[-1]["messages"] if one["role"] == "tool"]
    assert (answer["tool_call_id"], answer["content"]) == ("call_1_0", "routing")


def test_a_pattern_tells_by_itself_what_its_run_held(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    first = Desk(models({"triage": [say("route", topic="x")], "specialist": ["all done"]}))
    initiate_group_chat(first.pattern, messages="help me", max_rounds=6)
    persistence.save_groupchat("desk-1", first.pattern)
    fresh = Desk(models({}))
    restored = persistence.restore_groupchat("desk-1", fresh.pattern)
    assert fresh.pattern.initial_agent is fresh.specialist
    assert fresh.variables.to_dict() == {"routed": 1}
    assert [one["name"] for one in restored.messages][-1] == "specialist"


def test_an_open_call_in_a_pattern_is_answered_from_the_record(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    call = {"id": "call-9", "type": "function", "function": {"name": "route", "arguments": '{"topic": "x"}'}}
    first = Desk(models({}))
    messages = [
        {"content": "help me", "role": "user", "name": "customer"},
        {"content": "None", "role": "assistant", "name": "triage", "tool_calls": [call]},
    ]
    persistence.save_groupchat("desk-1", first.pattern, messages=messages)
    fresh = Desk(models({"triage": ["it was routed"]}))
    restored = persistence.restore_groupchat("desk-1", fresh.pattern, results={"call-9": "routed"})
    response = run_group_chat(fresh.pattern, messages=restored.messages, max_rounds=3)
    list(response.events)
    assert fresh.routed == []
    (answer,) = [one for one in fresh.server.requests[0]["messages"] if one["role"] == "tool"]
    assert (answer["tool_call_id"], answer["content"]) == ("call-9", "routed")


def test_a_tool_call_that_an_agents_own_list_does_not_name_gets_its_author_back(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    first = Desk(models({"triage": [say("route", topic="x")], "specialist": ["all done"]}))
    initiate_group_chat(first.pattern, messages="help me", max_rounds=6)
    own = first.triage._oai_messages[first.triage._group_manager]
    assert [one.get("name") for one in own if one.get("tool_calls")] == [None]
    persistence.save_groupchat("desk-1", first.pattern, messages=own)
    restored = persistence.restore_groupchat("desk-1", Desk(models({})).pattern)
    assert [one["name"] for one in restored.messages if one.get("tool_calls")] == ["triage"]


def test_a_group_of_other_names_is_refused_and_can_be_mapped(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    first = Round(models({"bob": ["b1"], "carol": ["c1"]}))
    first.agents[0].initiate_chat(first.manager, message="hi", silent=True)
    persistence.save_groupchat("round-1", first.manager)
    server = models({})
    agents = [ConversableAgent(name, llm_config=server.classic(name)) for name in ("alice", "bob", "dora")]
    manager = GroupChatManager(GroupChat(agents, messages=[]), llm_config=False)
    with pytest.raises(InvalidEvent, match=r"carol, .*alice, bob, dora"):
        persistence.restore_groupchat("round-1", manager)
    assert manager.groupchat.messages == []
    restored = persistence.restore_groupchat("round-1", manager, rename={"carol": "dora"})
    assert [one["name"] for one in restored.messages] == ["alice", "bob", "dora"]
    assert restored.last_agent is agents[2]


def test_a_talk_of_two_is_no_group(models: Models, persistence: AG2ChatPersistence) -> None:
    group = Round(models({}))
    persistence.save_conversation("pair-1", group.agents[:2])
    with pytest.raises(InvalidEvent):
        persistence.restore_groupchat("pair-1", group.manager)


PROCESS = """
import json, logging, sys
logging.disable(logging.WARNING)
from autogen import ConversableAgent, GroupChat, GroupChatManager
from chatsnapshot import AG2ChatPersistence

step, path = sys.argv[1:3]
configs = json.loads(sys.argv[3])
agents = [ConversableAgent(name, llm_config=configs[name], human_input_mode="NEVER") for name in configs]
chat = GroupChat(agents, messages=[], max_round=2, speaker_selection_method="round_robin")
manager = GroupChatManager(chat, llm_config=False)
with AG2ChatPersistence("sqlite", {"path": path}) as persistence:
    if step == "save":
        agents[0].initiate_chat(manager, message="hi", silent=True)
        persistence.save_groupchat("round-1", manager)
    else:
        persistence.restore_groupchat("round-1", manager).resume(silent=True)
        print(json.dumps([[one["name"], one["content"]] for one in chat.messages]))
"""


def test_a_group_goes_on_in_another_process(models: Models, tmp_path: Path) -> None:
    server = models({"bob": ["b1"], "carol": ["c1"]})
    configs = json.dumps({name: server.classic(name) for name in ("alice", "bob", "carol")})
    for step in ("save", "restore"):
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PROCESS,
            step,
            str(tmp_path / "chats"),
            configs,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [["alice", "hi"], ["bob", "b1"], ["carol", "c1"]]

"""Two agents of the classic line that go on with a saved talk: what the model sees after a restore."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from autogen import ConversableAgent, register_function

import chatsnapshot
from chatsnapshot import AG2ChatPersistence, Corrupt, InvalidEvent, NotFound, StorageBackend

Models = Callable[..., Any]
Say = Callable[..., Any]
KEY = "sk-" + "a" * 48

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of the runtime


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def persistence(tmp_path: Path) -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence(StorageBackend.SQLITE, {"path": tmp_path / "chats.db"}) as opened:
        yield opened


class Pair:
    """An assistant of a scripted model, and a user that executes its tools and stops at TERMINATE."""

    def __init__(self, server: Any, names: tuple[str, str] = ("assistant", "user"), **user: Any) -> None:
        self.server = server
        self.added: list[tuple[int, int]] = []
        self.assistant = ConversableAgent(
            names[0], llm_config=server.classic("m"), human_input_mode="NEVER", description="It helps."
        )
        options = {"human_input_mode": "NEVER", "is_termination_msg": _ends, **user}
        self.user = ConversableAgent(names[1], llm_config=False, **options)

        def add(a: int, b: int) -> int:
            self.added.append((a, b))
            return a + b

        register_function(add, caller=self.assistant, executor=self.user, description="Add.")

    @property
    def both(self) -> list[ConversableAgent]:
        return [self.assistant, self.user]

    def chat(self, message: str, **options: Any) -> Any:
        return self.user.initiate_chat(self.assistant, message=message, silent=True, **options)

    def seen(self, request: int = -1) -> list[tuple[Any, ...]]:
        """What the model saw: role, content, ids of calls or of the call that is answered."""
        return [
            (
                one["role"],
                one.get("content"),
                *[call["id"] for call in one.get("tool_calls") or ()],
                *([one["tool_call_id"]] if "tool_call_id" in one else []),
            )
            for one in self.server.requests[request]["messages"]
            if one["role"] != "system"
        ]


def _ends(message: dict[str, Any]) -> bool:
    return "TERMINATE" in (message.get("content") or "")


def tool_call(*ids: str) -> dict[str, Any]:
    calls = [
        {
            "id": one,
            "type": "function",
            "function": {"name": "add", "arguments": json.dumps({"a": 1, "b": 2})},
        }
        for one in ids
    ]
    return {"content": None, "role": "assistant", "tool_calls": calls}


def stop_in_call(pair: Pair, *ids: str) -> None:
    """What the agents hold when the process dies between a tool call and its result."""
    asked = {"content": "1+2?", "name": "user"}
    pair.user._oai_messages[pair.assistant] = [{**asked, "role": "assistant"}, tool_call(*ids)]
    pair.assistant._oai_messages[pair.user] = [{**asked, "role": "user"}, tool_call(*ids)]


def test_the_model_sees_the_whole_old_talk_once(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": [say("add", a=1, b=2), "3 TERMINATE"]}))
    result = pair.chat("1+2?")
    persistence.save_conversation(result.chat_id, pair.both, result, {"customer": "Ann"})

    fresh = Pair(models({"m": ["you asked 1+2 TERMINATE"]}))
    restored = persistence.restore_conversation(result.chat_id, fresh.both)
    assert restored.metadata == {"customer": "Ann"}
    assert (restored.last_agent, restored.open_calls) == (fresh.assistant, [])
    fresh.chat("What did I ask?", clear_history=False)
    assert fresh.seen() == [
        ("user", "1+2?"),
        ("assistant", None, "call_1_0"),
        ("tool", "3", "call_1_0"),
        ("assistant", "3 TERMINATE"),
        ("user", "What did I ask?"),
    ]
    assert fresh.added == []


def test_what_agents_hold_alike_is_stored_once(models: Models, persistence: AG2ChatPersistence) -> None:
    pair = Pair(models({"m": ["a reply of its own TERMINATE"]}))
    result = pair.chat("a question of its own")
    entry = persistence.save_conversation("case-7", pair.both, result.chat_history)
    assert (entry.payload_json or b"").count(b"a question of its own") == 1
    assert (entry.payload_json or b"").count(b"a reply of its own") == 1


def test_nothing_of_the_configuration_is_stored(models: Models, tmp_path: Path) -> None:
    server = models({"m": ["hello TERMINATE"]})
    pair = Pair(server)
    config = server.classic("m")
    config["config_list"][0]["base_url"] = server.url.replace("127.0.0.1", "ann:pass-word@127.0.0.1")
    config["config_list"][0]["default_headers"] = {"X-Secret": "header-value"}
    pair.assistant.llm_config = config
    pair.user.initiate_chat(pair.assistant, message="hi", max_turns=1, silent=True)
    for backend in (StorageBackend.JSON, StorageBackend.SQLITE):
        with AG2ChatPersistence(backend, {"path": tmp_path / backend.value}) as persistence:
            persistence.save_conversation("case-7", pair.both)
            loaded = persistence.load_conversation("case-7")
            assert loaded is not None
            assert loaded.agents == [
                {
                    "name": "assistant",
                    "class": "autogen.agentchat.conversable_agent.ConversableAgent",
                    "description": "It helps.",
                    "models": ["m"],
                },
                {
                    "name": "user",
                    "class": "autogen.agentchat.conversable_agent.ConversableAgent",
                    "description": None,
                    "models": [],
                },
            ]
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"case-7" in stored
    for secret in (KEY, "sk-", "pass-word", "header-value", "X-Secret", "api_key", server.url):
        assert secret.encode() not in stored, secret


def test_a_restored_talk_is_a_copy_of_its_own(models: Models, persistence: AG2ChatPersistence) -> None:
    pair = Pair(models({"m": ["hello TERMINATE"]}))
    pair.chat("hi")
    persistence.save_conversation("case-7", pair.both)
    pair.user._oai_messages[pair.assistant].append(tool_call("call-9"))
    persistence.save_conversation("case-7", pair.both)
    pair.user._oai_messages[pair.assistant][0]["content"] = "changed after the save"
    one, other = Pair(models({"m": []})), Pair(models({"m": []}))
    loaded = persistence.load_conversation("case-7")
    persistence.restore_conversation(loaded, one.both)
    one.user._oai_messages[one.assistant][0]["content"] = "changed after the restore"
    one.user._oai_messages[one.assistant][-1]["tool_calls"][0]["id"] = "changed"
    persistence.restore_conversation(loaded, other.both)
    assert other.user._oai_messages[other.assistant][0]["content"] == "hi"
    assert other.assistant._oai_messages[other.user][0]["content"] == "hi"
    assert other.user._oai_messages[other.assistant][-1] == tool_call("call-9")


def test_agents_that_held_nothing_get_the_list_that_the_caller_kept(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": [say("add", a=1, b=2), "3 TERMINATE"]}))
    history = pair.chat("1+2?").chat_history
    persistence.save_conversation("case-7", Pair(models({})).both, history)
    fresh = Pair(models({"m": ["yes TERMINATE"]}))
    assert persistence.restore_conversation("case-7", fresh.both).last_agent is fresh.assistant
    assert fresh.user._oai_messages[fresh.assistant] == pair.user._oai_messages[pair.assistant]
    assert fresh.assistant._oai_messages[fresh.user] == pair.assistant._oai_messages[pair.user]

    persistence.save_conversation("case-8", Pair(models({})).both, [{"role": "user", "content": "who?"}])
    fresh = Pair(models({}))
    with pytest.raises(InvalidEvent, match="message 0 of its list does not say which of assistant, user"):
        persistence.restore_conversation("case-8", fresh.both)
    assert not fresh.user._oai_messages


def test_a_new_peer_can_still_be_talked_to_after_a_restore(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": ["hello TERMINATE"]}))
    pair.chat("hi")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["good day TERMINATE"]}))
    persistence.restore_conversation("case-7", fresh.both)
    stranger = ConversableAgent(
        "stranger", llm_config=False, human_input_mode="NEVER", is_termination_msg=_ends
    )
    stranger.initiate_chat(fresh.assistant, message="who are you?", silent=True)
    assert fresh.seen() == [("user", "who are you?")]


def test_an_open_tool_call_is_answered_from_what_the_caller_knows(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": []}))
    stop_in_call(pair, "call-9")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["it is 33 TERMINATE"]}))
    restored = persistence.restore_conversation("case-7", fresh.both, results={"call-9": 33})
    assert (restored.last_agent, restored.open_calls) == (fresh.user, [])
    talk = restored.resume()
    assert fresh.added == []
    assert fresh.seen() == [("user", "1+2?"), ("assistant", None, "call-9"), ("tool", "33", "call-9")]
    assert talk[-1]["content"] == "it is 33 TERMINATE"


def test_an_open_tool_call_is_answered_from_a_ledger_and_never_from_another_run(
    models: Models, tmp_path: Path
) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        for run, result in (("case-7", "from the record"), ("case-8", "of another run")):
            call = ledger.record(
                "execution.tool_call", {"name": "add", "call_id": "call-9"}, correlation_id=run
            )
            ledger.record(
                "execution.tool_result",
                {"name": "add", "call_id": "call-9", "result": result},
                correlation_id=run,
                causation_id=call,
            )
        persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
        for chat, seen in (("case-7", "from the record"), ("case-9", None)):
            pair = Pair(models({"m": []}))
            stop_in_call(pair, "call-9")
            persistence.save_conversation(chat, pair.both)
            fresh = Pair(models({"m": ["done TERMINATE"]}))
            persistence.restore_conversation(chat, fresh.both).resume()
            assert fresh.added == ([] if seen else [(1, 2)])
            assert fresh.seen()[-1] == ("tool", seen or "3", "call-9")
        fresh = Pair(models({"m": ["done TERMINATE"]}))
        persistence.restore_conversation("case-9", fresh.both, results=(ledger, "case-8")).resume()
        assert (fresh.added, fresh.seen()[-1]) == ([], ("tool", "of another run", "call-9"))


def test_of_several_open_calls_only_those_without_a_record_are_executed(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": []}))
    stop_in_call(pair, "call-1", "call-2")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["done TERMINATE"]}))
    restored = persistence.restore_conversation("case-7", fresh.both, results={"call-1": "recorded"})
    assert [call.call_id for call in restored.open_calls] == ["call-2"]
    restored.resume()
    assert fresh.added == [(1, 2)]
    assert fresh.seen()[-2:] == [("tool", "recorded", "call-1"), ("tool", "3", "call-2")]


def test_agents_with_async_tools_go_on_too(models: Models, persistence: AG2ChatPersistence) -> None:
    async def slowly(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a * 10 + b

    pair = Pair(models({"m": []}))
    stop_in_call(pair, "call-1", "call-2")
    persistence.save_conversation("case-7", pair.both)
    for results, seen in (({"call-1": "recorded"}, ["recorded", "12"]), (None, ["12", "12"])):
        fresh = Pair(models({"m": ["done TERMINATE"]}))
        fresh.user._function_map["add"] = slowly
        restored = persistence.restore_conversation("case-7", fresh.both, results=results)
        talk = asyncio.run(restored.aresume())
        assert talk[-1]["content"] == "done TERMINATE"
        assert [one[1] for one in fresh.seen()[-2:]] == seen


def test_open_calls_can_be_closed_without_running_the_tools(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": []}))
    stop_in_call(pair, "call-9")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["a pity TERMINATE"]}))
    persistence.restore_conversation("case-7", fresh.both).close_open_calls("The process died.")
    fresh.chat("Leave it.", clear_history=False)
    assert fresh.added == []
    assert fresh.seen()[1:] == [
        ("assistant", None, "call-9"),
        ("tool", "The process died.", "call-9"),
        ("user", "Leave it."),
    ]


def test_a_person_whose_turn_it_is_is_asked_after_the_restart(
    models: Models, persistence: AG2ChatPersistence, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = Pair(models({"m": ["Which colour?"]}), human_input_mode="ALWAYS")

    def gone(*args: Any, **options: Any) -> str:
        persistence.save_conversation("case-7", pair.both)
        raise EOFError("the terminal is gone")

    monkeypatch.setattr(pair.user, "get_human_input", gone)
    with pytest.raises(EOFError):
        pair.chat("Paint it.")
    fresh = Pair(models({"m": ["Blue it is. TERMINATE"]}), human_input_mode="ALWAYS")
    answers = iter(["blue", "exit"])
    monkeypatch.setattr(fresh.user, "get_human_input", lambda *args, **options: next(answers))
    persistence.restore_conversation("case-7", fresh.both).resume()
    assert fresh.seen() == [("user", "Paint it."), ("assistant", "Which colour?"), ("user", "blue")]


def test_a_message_that_was_sent_and_not_received_yet_is_received(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": []}))
    pair.user._oai_messages[pair.assistant] = [{"content": "hi", "role": "assistant", "name": "user"}]
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["hello TERMINATE"]}))
    restored = persistence.restore_conversation("case-7", fresh.both)
    assert fresh.assistant._oai_messages[fresh.user] == [{"content": "hi", "name": "user", "role": "user"}]
    restored.resume()
    assert fresh.seen() == [("user", "hi")]


def test_a_talk_that_had_ended_stays_ended(models: Models, persistence: AG2ChatPersistence) -> None:
    pair = Pair(models({"m": ["bye TERMINATE"]}))
    pair.chat("hi")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": []}))
    assert len(persistence.restore_conversation("case-7", fresh.both).resume()) == 2
    assert fresh.server.requests == []


def test_names_that_do_not_match_are_told_and_can_be_mapped(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    pair = Pair(models({"m": ["hello TERMINATE"]}))
    pair.chat("hi")
    persistence.save_conversation("case-7", pair.both)
    fresh = Pair(models({"m": ["again TERMINATE"]}), ("helper", "ann"))
    for rename in (None, {"assistant": "helper"}, {"assistant": "helper", "user": "ann", "bob": "ann"}):
        with pytest.raises(InvalidEvent, match="assistant, user, and it is to be restored into helper, ann"):
            persistence.restore_conversation("case-7", fresh.both, rename=rename)
    assert not fresh.user._oai_messages
    persistence.restore_conversation("case-7", fresh.both, rename={"assistant": "helper", "user": "ann"})
    fresh.chat("still there?", clear_history=False)
    assert fresh.seen() == [("user", "hi"), ("assistant", "hello TERMINATE"), ("user", "still there?")]
    assert [one["name"] for one in fresh.user._oai_messages[fresh.assistant]][:3] == ["ann", "helper", "ann"]


def test_two_agents_of_one_name_are_refused(models: Models, persistence: AG2ChatPersistence) -> None:
    pair = Pair(models({"m": []}), ("twin", "twin"))
    with pytest.raises(InvalidEvent, match="called 'twin'"):
        persistence.save_conversation("case-7", pair.both)


def test_an_unknown_chat_is_none_to_load_and_an_error_to_restore(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    assert persistence.load_conversation("nothing") is None
    with pytest.raises(NotFound, match="no saved chat 'nothing'"):
        persistence.restore_conversation("nothing", Pair(models({"m": []})).both)


@pytest.mark.parametrize(("word", "position"), [(b"hi there", 1), (b"a note", 2)])
def test_a_changed_entry_leaves_the_agents_untouched(
    models: Models, tmp_path: Path, word: bytes, position: int
) -> None:
    pair = Pair(models({"m": ["hello TERMINATE"]}))
    pair.chat("hi there")
    path = tmp_path / "chats.jsonl"
    with AG2ChatPersistence("json", {"path": path}) as persistence:
        persistence.save_conversation("case-7", pair.both)
        persistence.save_conversation("case-7", pair.both, metadata={"a": "a note"})
    lines = path.read_bytes()
    path.write_bytes(lines.replace(word, word.upper(), 1))
    fresh = Pair(models({"m": []}))
    with AG2ChatPersistence("json", {"path": path}) as persistence:
        with pytest.raises(Corrupt, match=f"position {position}") as caught:
            persistence.restore_conversation("case-7", fresh.both)
        assert caught.value.position == position
    assert not fresh.user._oai_messages and not fresh.assistant._oai_messages


PROCESS = """
import json, logging, sys
logging.disable(logging.WARNING)
from autogen import ConversableAgent, register_function
from chatsnapshot import AG2ChatPersistence, StorageBackend

step, config = sys.argv[1], json.loads(sys.argv[2])

def agents():
    assistant = ConversableAgent("assistant", llm_config=config, human_input_mode="NEVER")
    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER",
                            is_termination_msg=lambda m: "TERMINATE" in (m.get("content") or ""))

    def add(a: int, b: int) -> int:
        return a + b

    register_function(add, caller=assistant, executor=user, description="Add.")
    return [assistant, user]

if step == "save":
    assistant, user = agents()
    user.initiate_chat(assistant, message="1+2?", silent=True)
for backend in (StorageBackend.JSON, StorageBackend.SQLITE):
    with AG2ChatPersistence(backend) as persistence:
        if step == "save":
            persistence.save_conversation("case-7", [assistant, user])
        else:
            assistant, user = agents()
            persistence.restore_conversation("case-7", [assistant, user])
            user.initiate_chat(assistant, message="And now?", clear_history=False, silent=True)
"""


def test_one_process_saves_in_either_place_and_another_one_goes_on(
    models: Models, say: Say, tmp_path: Path
) -> None:
    server = models({"m": [say("add", a=1, b=2), "3 TERMINATE", "bye TERMINATE", "bye TERMINATE"]})
    for step in ("save", "restore"):
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, step, json.dumps(server.classic("m"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    for request in server.requests[-2:]:
        seen = [(one["role"], one.get("content")) for one in request["messages"] if one["role"] != "system"]
        assert seen == [
            ("user", "1+2?"),
            ("assistant", None),
            ("tool", "3"),
            ("assistant", "3 TERMINATE"),
            ("user", "And now?"),
        ]

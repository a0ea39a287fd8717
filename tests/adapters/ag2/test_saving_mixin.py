"""``PersistentChatMixin``: classic agents that save every message by themselves, and load their chats again."""

from __future__ import annotations

import copy
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag2 import Agent
from autogen import ConversableAgent, GroupChat, GroupChatManager

from chatsnapshot import AG2ChatPersistence, InvalidEvent, PersistentChatMixin

Models = Callable[..., Any]
Say = Callable[..., Any]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of the runtime


class Desk(PersistentChatMixin, ConversableAgent):
    """An agent that saves its chats."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def persistence(tmp_path: Path) -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence("sqlite", {"path": tmp_path / "chats.db"}) as opened:
        yield opened


def pair(server: Any, persistence: AG2ChatPersistence, **options: Any) -> tuple[Any, Any]:
    desk = Desk(
        "desk",
        llm_config=server.classic("m"),
        human_input_mode="NEVER",
        persistence=persistence,
        **{"chat_id": "case-7", **options},
    )
    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER", is_termination_msg=_ends)
    return desk, user


def _ends(message: dict[str, Any]) -> bool:
    return "TERMINATE" in (message.get("content") or "")


def contents(server: Any) -> list[Any]:
    return [one.get("content") for one in server.requests[-1]["messages"] if one["role"] != "system"]


def lengths(persistence: AG2ChatPersistence) -> list[int]:
    saved = []
    for position in range(1, persistence._place.writable().head + 1):
        chat = persistence.load_conversation("case-7", position)
        saved.append(len(chat.messages) if chat is not None else -1)
    return saved


def test_every_message_is_saved_when_it_is_sent_or_received(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    desk, user = pair(models({"m": ["one", "two TERMINATE"]}), persistence)
    user.initiate_chat(desk, message="hi", silent=True)
    assert lengths(persistence) == [1, 2, 3, 4]
    assert desk.autosave_error is None


def test_the_message_is_saved_before_the_model_is_asked(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    found: list[Any] = []

    def look(body: dict[str, Any]) -> str:
        chat = persistence.load_conversation("case-7")
        found.append(None if chat is None else [one["content"] for one in chat.messages])
        return "bye TERMINATE"

    desk, user = pair(models({"m": [look]}), persistence)
    user.initiate_chat(desk, message="hi", silent=True)
    assert found == [["hi"]]


def test_two_that_save_one_chat_do_not_save_it_twice(models: Models, persistence: AG2ChatPersistence) -> None:
    server = models({"m": ["one TERMINATE"]})
    desk, _ = pair(server, persistence)
    user = Desk("user", llm_config=False, human_input_mode="NEVER", persistence=persistence, chat_id="case-7")
    user._is_termination_msg = _ends
    user.initiate_chat(desk, message="hi", silent=True)
    saves = list(persistence._place.writable().read())
    assert b"".join(entry.payload_json or b"" for entry in saves).count(b"one TERMINATE") == 1
    assert len(saves) <= 4


def test_a_fresh_agent_loads_the_chat_and_goes_on(models: Models, persistence: AG2ChatPersistence) -> None:
    desk, user = pair(models({"m": ["hello TERMINATE"]}), persistence)
    user.initiate_chat(desk, message="hi", silent=True)

    server = models({"m": ["again TERMINATE", "and again TERMINATE"]})
    desk, user = pair(server, persistence)
    restored = desk.load_chat(user)
    assert [one["content"] for one in restored.messages] == ["hi", "hello TERMINATE"]
    user.initiate_chat(desk, message="still there?", clear_history=False, silent=True)
    assert contents(server) == ["hi", "hello TERMINATE", "still there?"]

    server = models({"m": ["sure"]})
    desk, user = pair(server, persistence)
    desk.load_chat(user)
    user.initiate_chat(desk, message="x", clear_history=False, max_turns=1, silent=True)
    assert len(contents(server)) == 5


def test_what_was_loaded_is_not_thrown_away_by_its_own_next_chat(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    desk, user = pair(models({"m": ["hello TERMINATE"]}), persistence)
    user.initiate_chat(desk, message="hi", silent=True)
    for clear, kept in ((None, 3), (True, 1)):
        desk, user = pair(models({"m": []}), persistence, autosave=False)
        desk.load_chat(user)
        options = {} if clear is None else {"clear_history": clear}
        desk.initiate_chat(user, message="TERMINATE", silent=True, **options)
        assert len(desk._oai_messages[user]) == kept


def test_resuming_answers_what_is_owed_or_says_something_new(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    desk, user = pair(models({"m": [500] * 3}), persistence)
    with pytest.raises(Exception, match="scripted status 500"):
        user.initiate_chat(desk, message="hi", silent=True)

    server = models({"m": ["hello TERMINATE"]})
    desk, user = pair(server, persistence)
    talk = desk.resume_chat(user)
    assert [one["content"] for one in talk] == ["hi", "hello TERMINATE"]

    desk, user = pair(models({"m": []}), persistence)
    result = desk.resume_chat(user, message="One more thing. TERMINATE", silent=True)
    assert [one["content"] for one in result.chat_history][-1] == "One more thing. TERMINATE"
    assert len(result.chat_history) == 3


def test_without_a_saved_chat_loading_gives_none_and_resuming_wants_a_message(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    desk, user = pair(models({"m": []}), persistence)
    assert desk.load_chat(user) is None
    with pytest.raises(InvalidEvent, match="no chat 'case-7' was saved"):
        desk.resume_chat(user)
    desk.resume_chat(user, message="hi TERMINATE", silent=True)
    assert lengths(persistence) == [1]


def test_a_save_that_fails_never_disturbs_the_talk_and_is_made_good(
    models: Models, persistence: AG2ChatPersistence, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, user = pair(models({"m": ["one", "two TERMINATE"]}), persistence)
    broken = AG2ChatPersistence("memory")
    broken.close()
    desk.persistence = broken
    user.initiate_chat(desk, message="hi", silent=True)
    assert "was closed" in str(desk.autosave_error)
    assert desk.autosave_failures > 1
    desk.persistence = persistence
    desk.send("by the way", user, request_reply=False, silent=True)
    assert (desk.autosave_error, lengths(persistence)) == (None, [5])


def test_saving_by_hand_with_metadata(models: Models, persistence: AG2ChatPersistence) -> None:
    desk, user = pair(models({"m": ["hello TERMINATE"]}), persistence, autosave=False)
    user.initiate_chat(desk, message="hi", silent=True)
    assert persistence.list_conversations() == []
    desk.save_chat({"customer": "Ann"})
    (one,) = persistence.list_conversations()
    assert (one.agents, one.metadata, one.messages) == (("desk", "user"), {"customer": "Ann"}, 2)


def test_without_a_chat_id_and_a_place_it_makes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (Desk("desk", llm_config=False, human_input_mode="NEVER") for _ in range(2))
    assert first.chat_id.startswith("desk-")
    assert first.chat_id != second.chat_id
    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER")
    user.initiate_chat(first, message="hi", max_turns=1, silent=True)
    assert (tmp_path / "chat_snapshots" / "chats.jsonl").is_file()
    first.persistence.close()


def test_a_member_of_a_group_saves_the_whole_group(models: Models, persistence: AG2ChatPersistence) -> None:
    server = models({"m": ["d1"], "bob": ["b1"]})
    desk, _ = pair(server, persistence)
    bob = ConversableAgent("bob", llm_config=server.classic("bob"), human_input_mode="NEVER")
    chat = GroupChat([desk, bob], messages=[], max_round=2, speaker_selection_method="round_robin")
    manager = GroupChatManager(chat, llm_config=False)
    desk.initiate_chat(manager, message="hi", silent=True)
    chat_as_saved = persistence.load_conversation("case-7")
    assert chat_as_saved is not None
    assert {one["name"] for one in chat_as_saved.agents} == {"desk", "bob", "chat_manager"}
    assert [one["content"] for one in chat_as_saved.messages] == ["hi", "b1"]


def test_a_copy_of_the_agent_saves_in_the_same_place(models: Models, persistence: AG2ChatPersistence) -> None:
    assert copy.deepcopy(persistence) is persistence
    assert copy.copy(persistence) is persistence


def test_the_wrong_order_and_the_wrong_line_are_told_where_the_class_is_made() -> None:
    with pytest.raises(InvalidEvent, match="goes first"):

        class Wrong(ConversableAgent, PersistentChatMixin):
            pass

    with pytest.raises(InvalidEvent, match="asave_conversation"):

        class Streamed(PersistentChatMixin, Agent):
            pass

    with pytest.raises(InvalidEvent, match="needs a classic agent"):
        PersistentChatMixin()


PROCESS = """
import json, logging, os, signal, sys
logging.disable(logging.WARNING)
from autogen import ConversableAgent, register_function
from chatsnapshot import AG2ChatPersistence, PersistentChatMixin

class Desk(PersistentChatMixin, ConversableAgent):
    pass

step, path = sys.argv[1:3]
persistence = AG2ChatPersistence("sqlite", {"path": path})
desk = Desk("desk", llm_config=json.loads(sys.argv[3]), human_input_mode="NEVER",
            persistence=persistence, chat_id="case-7")
user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER",
                        is_termination_msg=lambda m: "TERMINATE" in (m.get("content") or ""))

def add(a: int, b: int) -> int:
    if step == "begin":
        os.kill(os.getpid(), signal.SIGKILL)
    return a + b

register_function(add, caller=desk, executor=user, description="Add.")
if step == "begin":
    user.initiate_chat(desk, message="1+2?", silent=True)
else:
    print(desk.resume_chat(user)[-1]["content"])
"""


def test_a_killed_process_is_gone_on_with_from_its_last_message(
    models: Models, say: Say, tmp_path: Path
) -> None:
    server = models({"m": [say("add", a=1, b=2), "3 TERMINATE"]})
    codes, told = [], ""
    for step in ("begin", "go on"):
        arguments = [step, str(tmp_path / "chats.db"), json.dumps(server.classic("m"))]
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        codes.append(done.returncode)
        told = done.stdout + done.stderr
    assert codes == [-signal.SIGKILL, 0], told
    assert told.splitlines()[-1] == "3 TERMINATE"
    assert contents(server) == ["1+2?", None, "3"]

"""Every row of the page's table for the classic line comes out of the real runtime, as far as that can be made to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from autogen import ConversableAgent, GroupChat, GroupChatManager
from autogen.agentchat import run_group_chat
from autogen.agentchat.group.patterns import DefaultPattern
from autogen.coding import LocalCommandLineCodeExecutor
from classic_chats import agent, calls, pair
from classic_groups import team

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder, watchdog

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ag2.md"

NEVER_SENT = {
    "async_input_request": "AG2 defines it and sends it nowhere: async runs send input_request",
    "input_response": "AG2 defines it and sends it nowhere",
}

Models = Callable[..., Any]
Say = Callable[..., Any]


def rows() -> list[str]:
    table = PAGE.read_text(encoding="utf-8").split("| classic event | event type |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


def watch(recorder: AG2Recorder, response: Any, answers: Any = ()) -> None:
    left = list(answers)
    for event in recorder.watch(response).events:
        if event.type == "input_request":
            event.content.respond(left.pop(0))


def talk(recorder: AG2Recorder) -> None:
    assistant, user = pair(calls(("add", {"a": 1, "b": 2})), "3 TERMINATE")
    watch(recorder, user.run(assistant, message="1+2?"))


def legacy_call(recorder: AG2Recorder) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    asked = {"name": "greet", "arguments": '{"name": "you"}'}
    call = {"role": "assistant", "content": None, "function_call": asked}
    assistant, user = pair(call, "3 TERMINATE", tools=[greet])
    watch(recorder, user.run(assistant, message="1+2?"))


def failure(recorder: AG2Recorder) -> None:
    with pytest.raises(ValueError, match="no"):
        watch(recorder, agent("user").run(agent("assistant", ValueError("no")), message="hi"))


def person(recorder: AG2Recorder) -> None:
    user = agent("user", human_input_mode="ALWAYS")
    watch(recorder, user.run(agent("assistant", "what?", "and?"), message="hi"), ["", "exit"])
    asked = agent("user", human_input_mode="TERMINATE", is_termination_msg=lambda message: True)
    watch(recorder, asked.run(agent("assistant", "what?"), message="hi"), [""])


def sequence(recorder: AG2Recorder) -> None:
    for response in recorder.watch(
        agent("user").sequential_run([{"recipient": agent("helper"), "message": "go", "max_turns": 1}])
    ):
        list(response.events)


def code(recorder: AG2Recorder) -> None:
    user = ConversableAgent(
        "user",
        llm_config=False,
        human_input_mode="NEVER",
        code_execution_config={"use_docker": False, "last_n_messages": 1, "work_dir": "code"},
        max_consecutive_auto_reply=1,
    )
    watch(recorder, user.run(agent("assistant", "```sh\ntrue\n```"), message="code", max_turns=2))
    runner = ConversableAgent(
        "user",
        llm_config=False,
        human_input_mode="NEVER",
        code_execution_config={"executor": LocalCommandLineCodeExecutor(work_dir="code")},
        max_consecutive_auto_reply=1,
    )
    watch(recorder, runner.run(agent("assistant", "```sh\ntrue\n```"), message="code", max_turns=2))


def history(recorder: AG2Recorder) -> None:
    with recorder.tee():
        user, assistant = pair("a TERMINATE")
        user.initiate_chat(assistant, message="hi", max_turns=1)
        user.clear_history(assistant)
        user.initiate_chat(assistant, message="hi", max_turns=1)
        user.clear_history(nr_messages_to_preserve=1)
        user.clear_history(assistant, nr_messages_to_preserve=1)
        user.print_usage_summary()


def members(*names: str, **options: Any) -> GroupChatManager:
    group = GroupChat([agent(name) for name in names], messages=[], max_round=3, **options)
    return GroupChatManager(group, llm_config=options.pop("llm_config", False))


def choosing_by_hand(recorder: AG2Recorder) -> None:
    manager = members("alice", "bob", speaker_selection_method="manual")
    alice = manager.groupchat.agents[0]
    watch(recorder, alice.run(manager, message="hi"), ["2", "nobody", "7", "7", "1", "1"])


def clearing(recorder: AG2Recorder) -> None:
    alice, admin = agent("alice"), agent("admin", {"role": "user", "content": "CLEAR HISTORY alice"})
    group = GroupChat(
        [alice, admin],
        messages=[],
        max_round=3,
        enable_clear_history=True,
        admin_name="admin",
        speaker_selection_method="round_robin",
    )
    watch(recorder, alice.run(GroupChatManager(group, llm_config=False), message="hi"))


def transitions(recorder: AG2Recorder, models: Models, say: Say) -> None:
    watch(recorder, run_group_chat(pattern=team(models, say), messages="help me"))
    before = [{"role": "user", "name": "customer", "content": text} for text in ("hello", "refund me")]
    watch(recorder, run_group_chat(pattern=team(models, say), messages=before))


def choosing_by_model(recorder: AG2Recorder, models: Models) -> None:
    server = models({"m": ["bob", "alice and bob", "nobody", "bob"]})
    alice, bob = agent("alice", "1", "2", "3"), agent("bob", "1", "2", "3")
    group = GroupChat(
        [alice, bob],
        messages=[],
        max_round=3,
        select_speaker_auto_verbose=True,
        allow_repeat_speaker=True,
        max_retries_for_selecting_speaker=2,
    )
    watch(recorder, alice.run(GroupChatManager(group, llm_config=server.classic("m")), message="hi"))


def usage(recorder: AG2Recorder, models: Models) -> None:
    assistant = ConversableAgent("assistant", llm_config=models({"m": ["hi"]}).classic("m"))
    with recorder.tee():
        agent("user").initiate_chat(assistant, message="hi", max_turns=1)
        assistant.print_usage_summary()
        assistant.client.print_usage_summary()


def guarded(recorder: AG2Recorder, models: Models) -> None:
    server = models({"m": ["call 555-1234"]})
    speaker = ConversableAgent("speaker", llm_config=server.classic("m"))
    pattern = DefaultPattern(
        initial_agent=speaker,
        agents=[speaker],
        user_agent=ConversableAgent("customer", human_input_mode="NEVER", llm_config=False),
    )
    policy = {
        "inter_agent_safeguards": {
            "agent_transitions": [
                {
                    "message_source": "speaker",
                    "message_destination": "customer",
                    "check_method": "regex",
                    "pattern": r"555-\d+",
                    "violation_response": "block",
                    "activation_message": "no numbers",
                }
            ]
        },
    }
    watch(recorder, run_group_chat(pattern=pattern, messages="hi", max_rounds=3, safeguard_policy=policy))


def test_every_row_is_produced_by_the_runtime(
    models: Models, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: set[str] = set()
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = AG2Recorder(ledger)
        for chat in (
            talk,
            legacy_call,
            failure,
            person,
            sequence,
            code,
            history,
            choosing_by_hand,
            clearing,
        ):
            chat(recorder)
        transitions(recorder, models, say)
        choosing_by_model(recorder, models)
        usage(recorder, models)
        guarded(recorder, models)
        for entry in ledger.read():
            native = entry.payload.get("native")
            if native:
                seen.add(native["type"])
        assert recorder.safe.failures == 0
    assert set(rows()) - seen == set(NEVER_SENT)


def test_the_page_says_how_often_a_step_is_repeated() -> None:
    assert f"every {watchdog.WAKE_SECONDS:g} s" in PAGE.read_text(encoding="utf-8")

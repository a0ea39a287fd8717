"""Chat for fine-tuning: runs as messages, tool pairs whole, and what is left out said with its reason."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from chatsnapshot.exporters import export

Lines = Callable[..., list[Any]]


def left_out(ledger: Any, **options: Any) -> dict[str, int]:
    return export(ledger, io.BytesIO(), "chat", **options).left_out


def say(tell: Any, role: str, text: str, correlation: str = "run-1", **more: Any) -> Any:
    return tell("execution.message", {"role": role, "content": text, **more}, correlation)


def test_a_run_is_a_line_of_messages_and_tools(story: Any, lines: Lines) -> None:
    run, child = lines(story, "chat")
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert [message["role"] for message in run["messages"]] == roles
    assert run["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "error: no answer"}
    assert run["messages"][4]["content"] == "04:12"
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}}
    assert run["tools"] == [{"type": "function", "function": {"name": "search", "parameters": parameters}}]
    assert child == {"messages": [{"role": "assistant", "content": "04:12", "name": "reader"}]}


def test_only_runs_that_were_evaluated_so_and_the_others_are_counted(story: Any, lines: Lines) -> None:
    assert len(lines(story, "chat", evaluation="correctness>=0.8")) == 1
    assert left_out(story, evaluation="correctness>=0.8") == {"runs that were not evaluated so": 1}
    assert left_out(story, evaluation=["correctness>=0.8", "tone=kind"]) == {
        "runs that were not evaluated so": 2
    }
    assert left_out(story, runs=["run-1"], evaluation="correctness<0.8") == {
        "runs that were not evaluated so": 2
    }


def test_calls_of_one_message_are_answered_in_their_order_directly_behind_it(
    ledger: Any, tell: Any, lines: Lines
) -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": "dig", "arguments": json.dumps({"n": name})}}
        for name in ("a", "b")
    ]
    say(tell, "assistant", "I dig twice.", tool_calls=calls)
    tell("execution.tool_call", {"call_id": "a", "name": "dig", "arguments": {"n": "a"}})
    tell("execution.tool_call", {"call_id": "b", "name": "dig", "arguments": {"n": "b"}})
    tell("execution.tool_result", {"call_id": "b", "result": {"gold": 2}})
    say(tell, "user", "Quick!")
    tell("execution.tool_result", {"call_id": "a", "result": "sand"})
    say(tell, "assistant", "Done.")
    (line,) = lines(ledger, "chat")
    first, answer_a, answer_b, user, last = line["messages"]
    assert first["content"] == "I dig twice."
    assert [call["id"] for call in first["tool_calls"]] == ["a", "b"]
    assert (answer_a["tool_call_id"], answer_a["content"]) == ("a", "sand")
    assert (answer_b["tool_call_id"], answer_b["content"]) == ("b", '{"gold": 2}')
    assert (user["role"], last["content"]) == ("user", "Done.")


def test_calls_that_were_open_at_once_are_one_message_and_later_ones_another(
    ledger: Any, tell: Any, lines: Lines
) -> None:
    for name in ("a", "b"):
        tell("execution.tool_call", {"call_id": name, "name": "dig", "arguments": {}})
    for name in ("a", "b"):
        tell("execution.tool_result", {"call_id": name, "result": 1})
    tell("execution.tool_call", {"call_id": "c", "name": "dig", "arguments": {}})
    tell("execution.tool_result", {"call_id": "c", "result": 1})
    (line,) = lines(ledger, "chat")
    assert [len(message.get("tool_calls", ())) for message in line["messages"]] == [2, 0, 0, 1, 0]


def test_ids_that_a_provider_uses_again_are_made_unique(ledger: Any, tell: Any, lines: Lines) -> None:
    for _ in range(2):
        tell("execution.tool_call", {"call_id": "call_1", "name": "dig", "arguments": {}})
        tell("execution.tool_result", {"call_id": "call_1", "result": 1})
    (line,) = lines(ledger, "chat")
    ids = [call["id"] for message in line["messages"] for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 2
    assert [message["tool_call_id"] for message in line["messages"] if message["role"] == "tool"] == ids


def test_names_are_made_to_fit_the_form(ledger: Any, tell: Any, lines: Lines) -> None:
    say(tell, "assistant", "hi", name="Dr. Who <b>")
    tell("execution.tool_call", {"call_id": "a", "name": "sea.rch/it", "arguments": [1]})
    tell("execution.tool_result", {"call_id": "a", "result": 1})
    (line,) = lines(ledger, "chat")
    assert line["messages"][0]["name"] == "Dr_Who_b_"
    (call,) = line["messages"][1]["tool_calls"]
    assert call["function"] == {"name": "sea_rch_it", "arguments": '{"value": [1]}'}


def test_runs_of_one_conversation_are_lines_of_their_own(ledger: Any, tell: Any, lines: Lines) -> None:
    for number in (1, 2):
        tell("execution.run_started", {"run_id": f"turn-{number}"}, "talk")
        say(tell, "user", f"question {number}", "talk")
        say(tell, "assistant", f"answer {number}", "talk")
        tell("execution.run_completed", {"run_id": f"turn-{number}"}, "talk")
    tell("execution.evaluation", {"name": "good", "label": "yes", "run_id": "turn-2"}, "talk")
    made = lines(ledger, "chat")
    assert [[message["content"] for message in line["messages"]] for line in made] == [
        ["question 1", "answer 1"],
        ["question 2", "answer 2"],
    ]
    assert lines(ledger, "chat", evaluation="good=yes") == made[1:]


def test_each_reason_to_leave_a_run_out_is_counted(ledger: Any, tell: Any, lines: Lines) -> None:
    say(tell, "assistant", "fine", "whole")
    erased = say(tell, "assistant", "gone", "erased")
    ledger.erase([erased.position], reason="asked for")
    say(tell, "assistant", "x" * 300_000, "blob")
    tell("execution.tool_call", {"call_id": "a", "name": "dig"}, "open")
    tell("execution.tool_result", {"call_id": "a", "result": 1}, "unmatched")
    say(tell, "wizard", "abracadabra", "role")
    say(tell, "user", "anyone?", "silent")
    image = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    say(tell, "user", image, "media")  # type: ignore[arg-type]
    assert len(lines(ledger, "chat")) == 1
    assert left_out(ledger) == {
        "runs with a message whose role is unknown": 1,
        "runs with a tool answer without its call": 1,
        "runs with a tool call without an answer": 1,
        "runs with an erased payload": 1,
        "runs with content that was withheld or moved to a blob": 1,
        "runs with images, files or other parts that are no text": 1,
        "runs without a message of an assistant": 1,
    }

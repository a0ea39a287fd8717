"""A transcript as text and Markdown shows everything, and what agents said stays text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.events.text import visible
from chatsnapshot.projections.render import render_markdown, render_text
from chatsnapshot.projections.views import view


def text(history: Any, run: str = "run-1", **options: Any) -> str:
    return render_text(view(history, "transcript", run), **options)


def markdown(history: Any, run: str = "run-1", **options: Any) -> str:
    return render_markdown(view(history, "transcript", run), **options)


@pytest.fixture
def story(history: Any) -> Any:
    history.add("execution.run_started", {"name": "triage"}, at=0)
    history.add("execution.message", {"role": "user", "content": "Refund 42\nplease", "name": "Ann"}, at=1)
    call = history.add("execution.tool_call", {"name": "ask", "call_id": "1", "arguments": {"q": "x"}}, at=2)
    child = history.add("execution.run_started", {"name": "policy"}, run="child", cause=call, at=3)
    history.add(
        "execution.message", {"role": "assistant", "content": "30 days"}, run="child", cause=child, at=4
    )
    history.add("execution.tool_result", {"call_id": "1", "result": {"days": 30}}, at=4.5)
    history.add("execution.tool_call", {"name": "pay", "call_id": "2"}, at=5)
    asked = history.add("execution.human_input_requested", {"question": "Go?", "kind": "approval"}, at=6)
    history.add("execution.human_input_received", {"answers": asked.event_id, "decision": "approved"}, at=8)
    history.add("execution.run_completed", at=9)
    return history


def test_the_text_reads_from_top_to_bottom(story: Any) -> None:
    assert text(story) == (
        "     1  -- run triage started\n"
        "     2  user Ann:\n"
        "          Refund 42\n"
        "          please\n"
        '     3  * ask(q="x")  [2.50 s]\n'
        '            = {"days": 30}\n'
        "     4  + child child (policy)\n"
        "     4  | -- run policy started\n"
        "     5  | assistant:\n"
        "        |   30 days\n"
        "     7  ~ pay()\n"
        "            (called, no result recorded)\n"
        "     8  ? asks for approval: Go?\n"
        "          > answer: approved  [after 2.00 s]\n"
        "    10  -- run triage completed\n"
    )


def test_the_markdown_reads_from_top_to_bottom(story: Any) -> None:
    assert markdown(story) == (
        "# triage\n\nCorrelation `run-1`\n\n*run triage started* · 1\n\n"
        "**user Ann** · 2\n\n> Refund 42\\\n> please\n\n"
        '**Tool `ask`** (ok, 2.50 s) · 3\n\n```json\n{\n "q": "x"\n}\n```\n\n'
        '*Result:*\n\n```json\n{\n "days": 30\n}\n```\n\n'
        "## Child run policy `child` · 4\n\n*run policy started* · 4\n\n**assistant** · 5\n\n> 30 days\n\n"
        "*End of the child run.*\n\n"
        "**Tool `pay`** (no result recorded) · 7\n\n"
        "**Someone asks for approval** · 8\n\n> Go?\n\n**Answer** after 2.00 s: approved · 9\n\n"
        "*run triage completed* · 10\n"
    )


def test_children_can_be_linked_only(story: Any) -> None:
    assert "30 days" not in text(story, children="link")
    assert "+ child child (policy), from position 4" in text(story, children="link")
    assert "30 days" not in markdown(story, children="link")
    for render in (text, markdown):
        with pytest.raises(ValueError, match="'inline' or 'link'"):
            render(story, children="all")


def test_lines_are_wrapped_and_keep_their_indent(history: Any) -> None:
    history.add("execution.message", {"role": "user", "content": "    " + "word " * 60 + "y" * 200})
    lines = text(history, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(" " * 10) for line in lines[1:])


def test_long_values_are_cut_with_what_is_left_out(history: Any) -> None:
    history.add("execution.tool_result", {"name": "f", "result": "z" * 5_000})
    assert "… (3,000 more characters)" in text(history)
    assert "(4,990 more characters)" in markdown(history, value_chars_max=10)


def test_what_is_missing_is_said(history: Any) -> None:
    history.add("execution.tool_result", {"name": "f", "result": 1})
    history.add("execution.human_input_received", {"value": "yes"})
    history.add("execution.human_input_requested", {"question": "Go?"})
    history.add("execution.message", {"role": "assistant"})
    history.add("execution.message", {"role": "assistant"}, erased=True)
    shown = text(history)
    for words in (
        "its call is not recorded",
        "its question is not recorded",
        "(not answered)",
        "(empty)",
        "[erased]",
    ):
        assert words in shown
    assert "its call is not recorded" in markdown(history)


def test_a_thousand_children_deep_is_rendered(history: Any) -> None:
    cause = None
    for number in range(1100):
        cause = history.add("execution.run_started", run=f"r{number}", cause=cause)
    assert "run r1099 started" in re.sub(r"[\s|]+", " ", text(history, "r0"))
    assert "r1099" in markdown(history, "r0")


HOSTILE = "\x1b[2J\x1b]0;title\x07 a\rb \u202egnp.exe \x9b31m <script>alert(1)</script> ![x](http://e.vil/?q) `` ``` > # "
SPOTS = [
    ("execution.message", lambda s: {"role": s, "name": s, "content": s, "recipient": s, "reasoning": s}),
    ("execution.message", lambda s: {"role": "user", "parts": [{"type": s, "uri": s}]}),
    ("execution.tool_call", lambda s: {"name": s, "call_id": s, "arguments": {s: s}}),
    ("execution.tool_result", lambda s: {"name": s, "call_id": s + "x", "result": [s], "error": s}),
    ("execution.tool_result", lambda s: {"name": s, "call_id": s + "y", "result": s}),
    ("execution.human_input_requested", lambda s: {"question": s, "kind": s}),
    ("execution.human_input_received", lambda s: {"value": s, "decision": s}),
    ("execution.run_started", lambda s: {"name": s, "run_id": s}),
    ("execution.run_failed", lambda s: {"run_id": s, "error": s}),
    ("execution.handoff", lambda s: {"from": s, "to": s, "reason": s}),
    ("execution.output", lambda s: {"output": s}),
    ("system.error", lambda s: {"message": s}),
]


@given(st.just(HOSTILE) | st.text(max_size=30).map(lambda t: t.encode("utf-8", "ignore").decode()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_text_from_agents_reaches_no_control_of_a_terminal_and_no_markup(history: Any, said: str) -> None:
    history.entries.clear()
    history.sequences.clear()
    for event_type, payload in SPOTS:
        history.add(event_type, payload(said), name=visible(said) or None)
    shown, marked = text(history), markdown(history)
    assert visible(shown, newlines=True) == shown
    assert visible(marked, newlines=True) == marked
    prose = re.sub(r"(?ms)^(`{3,})\w+\n.*?\n\1$", "", marked)
    prose = re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", prose)
    assert not re.search(r"(?<!\\)<", prose)
    assert not re.search(r"(?<!\\)\[", prose)
    assert not re.search(r"(?i)://|www\.", prose)


def test_a_quote_cannot_be_left_and_a_fence_cannot_be_closed(history: Any) -> None:
    history.add("execution.message", {"role": "user", "content": "# no\n\n- no\n1. no\n===\n    code\n> no"})
    history.add("execution.tool_result", {"name": "f", "result": "````\n# out"})
    assert markdown(history).split("\n\n", 3)[3] == (
        "> \\# no\n>\n> \\- no\\\n> 1\\. no\\\n> \\===\\\n> &nbsp;&nbsp;&nbsp;&nbsp;code\\\n> \\> no\n\n"
        "**Tool `f`** (its call is not recorded) · 2\n\n*Result:*\n\n`````text\n````\n# out\n`````\n"
    )

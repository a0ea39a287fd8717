"""How the recorder of Strands Agents comes to the agents, and what it makes of their contents."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.strands import StrandsRecorder, install
from chatsnapshot.adapters.strands.contents import as_value, parts_of, usage_of
from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.runtimes.strands import call, scripted

PROGRAM = """
from strands import Agent
from chatsnapshot.testing.runtimes.strands import scripted

print(str(Agent(name="desk", model=scripted("Good morning!"), callback_handler=None)("Hello")).strip())
"""


@pytest.fixture
def ledger() -> Iterator[chatsnapshot.Ledger]:
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


def agent(name: str, *answers: Any, **options: Any) -> Any:
    from strands import Agent

    return Agent(name=name, model=scripted(*answers), callback_handler=None, **options)


def names(ledger: chatsnapshot.Ledger, kind: str = "run_started") -> list[str]:
    return [one.payload["name"] for one in ledger.read(event_type=f"execution.{kind}")]


def test_everything_is_recorded_once_from_install_to_undo(ledger: chatsnapshot.Ledger) -> None:
    from strands.hooks import HookRegistry
    from strands.multiagent import Swarm

    before = HookRegistry.get_callbacks_for
    recorder = StrandsRecorder(ledger)
    known, bare = agent("known", "one", "two", hooks=[recorder]), agent("bare", "one", "two")
    undo = install(recorder)
    try:
        known("Hello")
        bare("Hello")
        Swarm([agent("node", "one")])("Hello")
    finally:
        undo()
    assert HookRegistry.get_callbacks_for is before
    bare("Again")
    assert recorder.flush(5)
    assert names(ledger) == ["known", "bare", "default_swarm", "node"]
    known("Again")
    assert names(ledger)[4:] == ["known"]
    with pytest.raises(TypeError, match="needs a StrandsRecorder, not str"):
        install("recorder")  # type: ignore[arg-type]


def test_agents_that_exist_are_attached_once(ledger: chatsnapshot.Ledger) -> None:
    recorder = StrandsRecorder(ledger)
    alpha, beta = agent("alpha", "one"), agent("beta", "one", hooks=[recorder])
    assert recorder.attach(alpha) is alpha
    assert recorder.attach(alpha, beta) == (alpha, beta)
    alpha("Hello")
    beta("Hello")
    assert names(ledger) == ["alpha", "beta"]
    assert len(list(ledger.read())) == 10
    with pytest.raises(TypeError, match=r"takes agents, swarms and graphs of strands, not str"):
        recorder.attach("alpha")


def test_an_agent_is_recorded_in_each_of_two_ledgers(ledger: chatsnapshot.Ledger) -> None:
    with chatsnapshot.open("memory:") as other:
        agent("alpha", "one", hooks=[StrandsRecorder(ledger), StrandsRecorder(other)])("Hello")
        assert [one.event_type for one in ledger.read()] == [one.event_type for one in other.read()]
        assert len(list(other.read())) == 5


def test_an_agent_that_a_tool_runs_is_a_child_of_the_call(ledger: chatsnapshot.Ledger) -> None:
    from strands import tool

    recorder = StrandsRecorder(ledger)

    @tool
    def delegate() -> str:
        """Let another agent do it."""
        ledger.record("custom.note", {"text": "mine"})
        return str(agent("beta", "child", hooks=[recorder])("do it"))

    agent("alpha", [call("delegate", "call_1")], "done", hooks=[recorder], tools=[delegate])("Hello")
    (asked,) = ledger.read(event_type="execution.tool_call")
    (note,) = ledger.read(event_type="custom.note")
    _, child = ledger.read(event_type="execution.run_started")
    assert note.causation_id == child.causation_id == asked.event_id
    assert child.correlation_id != asked.correlation_id == note.correlation_id


def test_an_agent_that_runs_several_times_at_once_keeps_its_runs_apart(ledger: chatsnapshot.Ledger) -> None:
    from strands.types.agent import ConcurrentInvocationMode

    gate = threading.Barrier(3)
    recorder = StrandsRecorder(ledger)
    mode = ConcurrentInvocationMode.UNSAFE_REENTRANT
    alpha = agent("alpha", *["yes"] * 3, hooks=[recorder], concurrent_invocation_mode=mode)

    def together(event: Any) -> None:
        gate.wait(20)

    from strands.hooks import BeforeModelCallEvent

    alpha.add_hook(together, BeforeModelCallEvent)
    threads = [threading.Thread(target=alpha, args=(f"question {at}",)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert recorder.flush(5)
    runs: dict[str, list[str]] = {}
    for entry in ledger.read():
        runs.setdefault(entry.payload["run_id"], []).append(entry.event_type.partition(".")[2])
    told = ["run_started", "message", "model_call", "message", "run_completed"]
    assert list(runs.values()) == [told] * 3


def test_a_version_that_lacks_a_hook_is_one_sentence(
    ledger: chatsnapshot.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    import strands.hooks

    monkeypatch.delattr(strands.hooks, "AfterToolsEvent")
    with pytest.raises(
        LedgerError, match=r"has no strands\.hooks\.AfterToolsEvent; recording needs"
    ) as caught:
        agent("alpha", "one", hooks=[StrandsRecorder(ledger)])
    assert "\n" not in str(caught.value)


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    inner = [sys.executable, "-W", "ignore", "program.py"]
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", "runs.db", "--", *inner]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "Good morning!\n"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, desk = ledger.read(event_type="execution.run_started")
        assert (desk.payload["name"], desk.causation_id) == ("desk", process.event_id)


def test_an_agent_in_the_background_is_a_child_of_its_call(ledger: chatsnapshot.Ledger) -> None:
    recorder = StrandsRecorder(ledger)
    asking = [call("beta", "call_1", input="go")]
    child, background = agent("beta", "child says hi"), {"always": ["beta"]}
    agent("alpha", asking, "wait", "done", hooks=[recorder], tools=[child], background_tasks=background)(
        "Hello"
    )
    calls = list(ledger.read(event_type="execution.tool_call"))
    assert [one.payload["name"] for one in calls] == ["beta", "strands_manage_background_task"]
    started = {one.payload["name"]: one for one in ledger.read(event_type="execution.run_started")}
    assert started["beta"].causation_id == calls[0].event_id
    given = list(ledger.read(event_type="execution.tool_result"))
    assert "child says hi" in str(given[1].payload["result"])
    assert recorder.safe.runs_open == 0


def test_a_structured_output_is_the_output(ledger: chatsnapshot.Ledger) -> None:
    from pydantic import BaseModel

    class Booking(BaseModel):
        city: str

    booked = [call("Booking", "call_1", city="Bruges")]
    agent("alpha", booked, hooks=[StrandsRecorder(ledger)])("Book", structured_output_model=Booking)
    (ended,) = ledger.read(event_type="execution.run_completed")
    assert ended.payload["output"] == {"city": "Bruges"}


def test_a_model_call_tells_what_the_model_is(ledger: chatsnapshot.Ledger) -> None:
    agent("alpha", "one", hooks=[StrandsRecorder(ledger)])("Hello")
    (asked,) = ledger.read(event_type="execution.model_call")
    facts = {name: asked.payload[name] for name in ("model", "usage", "finish_reason")}
    usage = {"input_tokens": 5, "output_tokens": 2}
    assert facts == {"model": "scripted", "usage": usage, "finish_reason": "end_turn"}
    assert asked.payload["duration_ns"] > 0


def test_contents_become_parts_of_the_shared_kinds() -> None:
    content = [
        {"text": "see"},
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"toolUse": {"toolUseId": "c", "name": "add", "input": {"a": 1}}},
        {"image": {"format": "png", "source": {"bytes": b"abc"}}},
        {"document": {"format": "pdf", "name": "d", "source": {"location": {"type": "s3", "uri": "s3://x"}}}},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": []}},
        {"cachePoint": {"type": "default"}},
        {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": "3"}]}},
        {"guardContent": {"text": {"text": "guarded"}}},
    ]
    assert parts_of({"role": "assistant", "content": content}) == [
        {"type": "text", "content": "see"},
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1}},
        {"type": "blob", "content": b"abc", "modality": "image", "format": "png"},
        {"type": "uri", "uri": "s3://x", "modality": "document", "format": "pdf", "name": "d"},
        {"type": "text", "content": "cited"},
        {"type": "guardContent", "content": {"text": {"text": "guarded"}}},
    ]


def test_what_a_tool_gives_is_a_value_where_it_can_be() -> None:
    assert as_value({"content": [{"text": "a"}, {"text": "b"}]}) == "ab"
    assert as_value({"content": [{"json": {"a": 1}}]}) == {"a": 1}
    mixed = as_value({"content": [{"text": "a"}, {"json": [1]}]})
    assert mixed == [{"type": "text", "content": "a"}, {"type": "json", "content": [1]}]


@pytest.mark.parametrize(("given", "total", "counted"), [(10, 12, 10), (4, 12, 10)])
def test_tokens_of_caches_count_as_input_however_the_provider_tells_them(
    given: int, total: int, counted: int
) -> None:
    usage = {"inputTokens": given, "outputTokens": 2, "totalTokens": total}
    cached = {"cacheReadInputTokens": 5, "cacheWriteInputTokens": 1}
    assert usage_of({"metadata": {"usage": {**usage, **cached}}}) == {
        "input_tokens": counted,
        "output_tokens": 2,
        "cache_read": 5,
        "cache_write": 1,
    }
    assert usage_of({}) is None


def test_a_run_in_an_event_loop_is_recorded_from_within_it(ledger: chatsnapshot.Ledger) -> None:
    recorder = StrandsRecorder(ledger)
    asyncio.run(agent("alpha", "one", hooks=[recorder]).invoke_async("Hello"))
    assert len(list(ledger.read())) == 5
    assert (recorder.safe.failures, recorder.safe.runs_open) == (0, 0)

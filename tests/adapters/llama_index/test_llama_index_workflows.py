"""Workflows, engines, retrievers and models of LlamaIndex, and snapshots that other processes go on with."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.testing.runtimes.llama_index import call, scripted

core = pytest.importorskip("llama_index.core")

from llama_desk import (  # noqa: E402
    Sharing,
    Sleeping,
    Thinking,
    Waiting,
    answering,
    index,
    kinds,
    model,
    of,
    recorded,
    said,
    session,
)
from llama_index.core.chat_engine import SimpleChatEngine  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402

HERE = Path(__file__).parent


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def _run(workflow: Any, answer: str = "yes", **options: Any) -> Any:
    return await answering(workflow.run(**options), answer)


async def _waits_too_long() -> None:
    await Waiting(timeout=0.5).run()


# --- workflows --------------------------------------------------------------------------------------------


def test_the_steps_of_a_workflow_are_tasks_each_caused_by_the_step_before() -> None:
    with recorded() as (ledger, _):
        assert asyncio.run(_run(Thinking(), topic="lamps")) == "it is yes"
        tasks = of(ledger, "system.task_started")
        assert [one.payload["task_id"] for one in tasks] == ["think-1", "ask-1", "say-1"]
        think, ask = of(ledger, "system.task_completed")[:2]
        assert tasks[1].causation_id == think.event_id
        assert think.payload["output"] == {"event": "Thought", "text": "a thought"}
        (asked,) = of(ledger, "execution.model_call")
        assert ledger.get(asked.causation_id).causation_id == tasks[0].event_id
        assert said(ledger) == [("user", "think of lamps"), ("assistant", "a thought")]
        (question,) = of(ledger, "execution.human_input_requested")
        assert question.causation_id == ask.event_id
        assert question.payload["question"] == "Is a thought right?"
        started, ended = of(ledger, "execution.run_started")[0], of(ledger, "execution.run_completed")[0]
        assert started.payload["input"] == {"topic": "lamps"}
        assert ended.payload["output"] == "it is yes"


def test_a_step_that_waits_is_one_task() -> None:
    with recorded() as (ledger, _):
        assert asyncio.run(_run(Waiting())) == "yes"
        (started,), (completed,) = of(ledger, "system.task_started"), of(ledger, "system.task_completed")
        (question,) = of(ledger, "execution.human_input_requested")
        assert question.causation_id == started.event_id
        assert completed.payload["task_id"] == started.payload["task_id"]
        assert question.payload["question"] == {"prefix": "Who?", "user": "odile"}


def test_what_steps_send_is_caused_by_them() -> None:
    with recorded() as (ledger, _):
        assert asyncio.run(_run(Sharing())) == 3
        share, *others = of(ledger, "system.task_started")
        works = [one for one in others if one.payload["name"] == "work"]
        collects = [one for one in others if one.payload["name"] == "collect"]
        done = of(ledger, "system.task_completed")
        shared = next(one for one in done if one.payload["name"] == "share")
        for work in works:
            assert work.causation_id in (share.event_id, shared.event_id)
        worked = {one.event_id for one in done if one.payload["name"] == "work"}
        assert {one.causation_id for one in collects} == worked
        assert len(done) == 5


def test_a_workflow_that_is_cancelled_cancels_its_task() -> None:
    async def run() -> None:
        handler = Sleeping().run()
        async for _ in handler.stream_events():
            break
        await handler.cancel_run()

    with recorded() as (ledger, _):
        asyncio.run(run())
        assert kinds(ledger) == ["run_started", "task_started", "task_cancelled", "run_cancelled"]


def test_a_workflow_that_waits_for_too_long_goes_on_only_to_fail() -> None:
    with recorded() as (ledger, _):
        with pytest.raises(Exception, match="timed out"):
            asyncio.run(_waits_too_long())
        assert kinds(ledger)[2:] == [
            *("human_input_requested", "run_paused", "run_resumed", "task_cancelled", "run_failed"),
        ]


def test_a_step_that_fails_fails_its_task_and_the_run() -> None:
    with recorded() as (ledger, _):
        with pytest.raises(ValueError, match="no such city"):
            asyncio.run(_run(Thinking(), "fail", topic="lamps"))
        (task,), (failed,) = of(ledger, "system.task_failed"), of(ledger, "execution.run_failed")
        assert task.payload["error"]["message"] == failed.payload["error"]["message"] == "no such city"
        assert kinds(ledger)[-1] == "run_failed"


def test_snapshots_go_on_in_their_conversations_in_another_process(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.db")
    for part in ("first", "again"):
        program = [sys.executable, str(HERE / "resumed_program.py"), url, str(tmp_path), part]
        done = subprocess.run(program, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    with chatsnapshot.open(url, read_only=True) as ledger:
        conversations = dict.fromkeys(entry.correlation_id for entry in ledger.read())
        assert len(conversations) == 2
        for conversation in conversations:
            told = {
                entry.event_type.partition(".")[2]: entry
                for entry in ledger.read(correlation_id=conversation)
            }
            asked, answer = told["human_input_requested"], told["human_input_received"]
            assert answer.causation_id == asked.event_id
            assert told["run_resumed"].causation_id == answer.event_id
            runs = [kind for kind in told if kind.startswith("run_")]
            assert runs == ["run_started", "run_paused", "run_resumed", "run_completed"]
            assert len({entry.payload["run_id"] for entry in told.values()}) == 1


# --- engines, retrievers, models ----------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_query_is_a_run_with_its_search_and_its_model(streaming: bool) -> None:
    engine = index().as_query_engine(llm=model(), streaming=streaming)
    with recorded() as (ledger, _):
        answer = engine.query("which?")
        if streaming:
            "".join(answer.response_gen)
        assert kinds(ledger) == [
            *("run_started", "message", "retrieval", "model_call", "message", "run_completed"),
        ]
        assert len({entry.correlation_id for entry in ledger.read()}) == 1
        ended = of(ledger, "execution.run_completed")[0]
        assert ended.payload["output"].startswith("text")


def test_a_stream_that_is_made_of_another_one_is_one_call_of_the_model() -> None:
    async def run() -> str:
        answer = await index().as_query_engine(llm=model(), streaming=True).aquery("which?")
        return "".join([piece async for piece in answer.response_gen])

    with recorded() as (ledger, _):
        assert asyncio.run(run()) == "text text"
        assert kinds(ledger) == [
            *("run_started", "message", "retrieval", "model_call", "message", "run_completed"),
        ]


def test_an_engine_whose_model_fails_fails_the_run() -> None:
    engine = index().as_query_engine(llm=scripted([RuntimeError("model is down")]))
    with recorded() as (ledger, _):
        with pytest.raises(RuntimeError, match="model is down"):
            asyncio.run(engine.aquery("which?"))
        assert kinds(ledger)[-2:] == ["model_call", "run_failed"]
        assert of(ledger, "execution.model_call")[0].payload["error"]["message"] == "model is down"


def test_the_messages_of_a_chat_engine_are_one_conversation() -> None:
    with recorded() as (ledger, _):
        engine = SimpleChatEngine.from_defaults(llm=scripted([["one"], ["two"]]), memory=session())
        engine.chat("Hello")
        engine.chat("Again")
        assert {entry.correlation_id for entry in ledger.read()} == {"session-7"}
        assert said(ledger) == [
            ("user", "Hello"),
            ("assistant", "one"),
            ("user", "Again"),
            ("assistant", "two"),
        ]


def test_a_chat_engine_that_streams_ends_when_its_answer_was_read() -> None:
    with recorded() as (ledger, _):
        answer = SimpleChatEngine.from_defaults(llm=model(), memory=session()).stream_chat("Hello")
        assert list(answer.response_gen)
        for thread in [getattr(answer, "write_thread", None)]:
            if thread is not None:
                thread.join(10)
        assert kinds(ledger) == ["run_started", "message", "model_call", "message", "run_completed"]


def test_a_search_and_a_model_by_themselves_are_runs() -> None:
    with recorded() as (ledger, _):
        index().as_retriever().retrieve("which?")
        scripted([["a haiku"]]).chat([ChatMessage("Be brief.", role="system"), ChatMessage("Write.")])
        names = [one.payload["name"] for one in of(ledger, "execution.run_started")]
        assert names == ["VectorIndexRetriever", "ScriptedLLM"]
        assert said(ledger) == [("system", "Be brief."), ("user", "Write."), ("assistant", "a haiku")]
        assert of(ledger, "execution.model_call")[0].payload["usage"] == {
            "input_tokens": 5,
            "output_tokens": 2,
        }


def test_a_model_that_calls_tools_by_itself_is_one_run_with_its_calls() -> None:
    with recorded() as (ledger, _):
        llm = scripted([[call("add", {"a": 2, "b": 3}, "call_1")]])
        llm.predict_and_call([FunctionTool.from_defaults(add)], user_msg="2+3?")
        (made,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert (made.payload["call_id"], made.payload["arguments"]) == ("call_1", {"a": 2, "b": 3})
        assert (result.causation_id, result.payload["result"]) == (made.event_id, 5)
        assert kinds(ledger).count("run_started") == 1

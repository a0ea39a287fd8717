"""Swarms and graphs of Strands Agents: nodes, handoffs, questions, failures."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.strands import StrandsRecorder
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.testing.runtimes.strands import call, scripted


@pytest.fixture
def ledger() -> Iterator[chatsnapshot.Ledger]:
    logging.getLogger("strands").setLevel(logging.CRITICAL)  # it logs what these tests raise
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: chatsnapshot.Ledger) -> Iterator[StrandsRecorder]:
    made = StrandsRecorder(ledger)
    yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped, made.safe.runs_open) == (0, 0, 0)


def agent(name: str, *answers: Any, **options: Any) -> Any:
    from strands import Agent

    return Agent(name=name, model=scripted(*answers), callback_handler=None, **options)


def swarm(recorder: StrandsRecorder, *nodes: Any, **options: Any) -> Any:
    from strands.multiagent import Swarm

    return Swarm(list(nodes), hooks=[recorder], **options)


def graph(recorder: StrandsRecorder, nodes: dict[str, Any], *edges: tuple[str, str]) -> Any:
    from strands.multiagent import GraphBuilder

    builder = GraphBuilder()
    for name, node in nodes.items():
        builder.add_node(node, name)
    for edge in edges:
        builder.add_edge(*edge)
    builder.set_entry_point(next(iter(nodes)))
    builder.set_execution_timeout(60)
    return builder.set_hook_providers([recorder]).build()


def asking(name: str, *answers: Any) -> Any:
    from strands import tool

    @tool(context=True)
    def who(tool_context: Any) -> str:
        """Ask for a name."""
        return f"hello {tool_context.interrupt('who', reason='your name?')}"

    return agent(name, [call("who", "call_1")], *answers, tools=[who])


def told(ledger: chatsnapshot.Ledger, kind: str) -> list[LedgerEntry]:
    kind = kind if "." in kind else f"execution.{kind}"
    return list(ledger.read(event_type=kind))


def named(entries: list[LedgerEntry]) -> dict[str, LedgerEntry]:
    return {entry.payload["name"]: entry for entry in entries}


def answers_to(asked: Any) -> list[Any]:
    return [{"interruptResponse": {"interruptId": one.id, "response": "yes"}} for one in asked.interrupts]


def test_a_node_of_a_graph_follows_from_those_that_lead_to_it(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    nodes = {name: agent(name, f"{name} says") for name in "abcd"}
    graph(recorder, nodes, ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))("Go")
    begun, ended = named(told(ledger, "system.task_started")), named(told(ledger, "system.task_completed"))
    runs = named(told(ledger, "run_started"))
    whole = runs.pop("default_graph")
    assert (whole.payload["input"], whole.payload["workflow"]) == ("Go", "Graph")
    assert begun["a"].causation_id == whole.event_id
    assert begun["b"].causation_id == begun["c"].causation_id == ended["a"].event_id
    leading = {begun["d"].causation_id, *begun["d"].attributes["links"]}
    assert leading == {ended["b"].event_id, ended["c"].event_id}
    for name, run in runs.items():
        assert run.causation_id == begun[name].event_id
        assert run.payload["parent_run_id"] == whole.payload["run_id"]
    assert len({run.correlation_id for run in [whole, *runs.values()]}) == 5
    assert told(ledger, "run_completed")[-1].payload["output"] == "d says"


def test_a_handoff_follows_from_its_tool_call_and_leads_to_the_agent(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    over = call("handoff_to_agent", "call_1", agent_name="beta", message="yours")
    swarm(recorder, agent("alpha", [over], "handed over"), agent("beta", "done"))("Go")
    (asked,), (handoff,) = told(ledger, "tool_call"), told(ledger, "handoff")
    assert handoff.causation_id == asked.event_id
    facts = {name: handoff.payload[name] for name in ("from", "to", "message")}
    assert facts == {"from": "alpha", "to": "beta", "message": "yours"}
    task = named(told(ledger, "system.task_started"))["beta"]
    assert task.causation_id == handoff.event_id
    assert named(told(ledger, "run_started"))["beta"].causation_id == task.event_id
    assert told(ledger, "run_completed")[-1].payload["output"] == "done"


@pytest.mark.parametrize("kind", ["swarm", "graph"])
def test_a_question_in_a_node_pauses_both_runs_and_the_task_goes_on(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder, kind: str
) -> None:
    node = asking("alpha", "bye")
    flow = swarm(recorder, node) if kind == "swarm" else graph(recorder, {"alpha": node})
    asked = flow("Go")
    assert flow(answers_to(asked)).status.value == "completed"
    assert len(told(ledger, "run_paused")) == len(told(ledger, "run_resumed")) == 2
    outer, inner = told(ledger, "run_resumed")
    received = {one.event_id: one for one in told(ledger, "human_input_received")}
    questions = {one.event_id: one for one in told(ledger, "human_input_requested")}
    for resumed in (outer, inner):
        question = questions[str(received[str(resumed.causation_id)].causation_id)]
        assert question.correlation_id == resumed.correlation_id
    before, after = told(ledger, "system.task_started")
    assert before.payload["task_id"] == after.payload["task_id"]
    assert after.causation_id == outer.event_id
    assert len(told(ledger, "tool_call")) == len(told(ledger, "tool_result")) == 1


@pytest.mark.parametrize("kind", ["swarm", "graph"])
def test_a_flow_that_waits_goes_on_in_another_process_with_its_session(tmp_path: Path, kind: str) -> None:
    from strands.multiagent import GraphBuilder, Swarm
    from strands.session import FileSessionManager

    def process(task: Any) -> Any:
        with chatsnapshot.open(tmp_path / "runs.db", validation="strict") as ledger:
            recorder = StrandsRecorder(ledger)
            kept = FileSessionManager(session_id="case-7", storage_dir=str(tmp_path))
            node = asking("alpha", "bye")
            if kind == "swarm":
                flow: Any = Swarm([node], hooks=[recorder], session_manager=kept)
            else:
                builder = GraphBuilder().set_session_manager(kept).set_execution_timeout(60)
                builder.add_node(node, "first")
                flow = builder.set_hook_providers([recorder]).build()
            if task is not None:
                node.model.answers.pop(0)  # it was asked before the restart
            given = flow(answers_to(task) if task is not None else "Go")
            assert recorder.flush(5)
            return given

    asked = process(None)
    assert asked.status.value == "interrupted"
    assert process(asked).status.value == "completed"
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        assert "case-7" in {entry.correlation_id for entry in ledger.read()}
        assert len({entry.correlation_id for entry in ledger.read()}) == 2
        answers = {one.event_id: one.causation_id for one in told(ledger, "human_input_received")}
        assert set(answers.values()) == {one.event_id for one in told(ledger, "human_input_requested")}
        assert {one.causation_id for one in told(ledger, "run_resumed")} == set(answers)
        before, after = told(ledger, "system.task_started")
        assert before.payload["task_id"] == after.payload["task_id"]


def test_a_question_before_a_node_begins_no_task(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import BeforeNodeCallEvent

    flow = swarm(recorder, agent("alpha", "bye"))
    flow.add_hook(lambda event: event.interrupt("go", reason="shall it?"), BeforeNodeCallEvent)
    asked = flow("Go")
    assert told(ledger, "system.task_started") == []
    flow(answers_to(asked))
    (question,) = told(ledger, "human_input_requested")
    assert (question.payload["name"], question.payload["question"]) == ("go", "shall it?")
    assert len(told(ledger, "system.task_started")) == 1


def test_what_fails_in_a_node_is_told_of_the_task_and_of_the_run(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    def broken() -> Any:
        return agent("alpha", RuntimeError("model is down"))

    assert swarm(recorder, broken())("Go").status.value == "failed"
    with pytest.raises(RuntimeError, match="model is down"):
        graph(recorder, {"alpha": broken()})("Go")
    failures = [*told(ledger, "system.task_failed"), *told(ledger, "run_failed")]
    assert {one.payload["error"]["message"] for one in failures} == {"model is down"}
    assert len(failures) == 6


def test_a_node_that_a_hook_cancels_and_a_limit_fail_the_run(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    from strands.hooks import BeforeNodeCallEvent

    def cancel(event: Any) -> None:
        event.cancel_node = "not today"

    flow = swarm(recorder, agent("alpha", "bye"))
    flow.add_hook(cancel, BeforeNodeCallEvent)
    flow("Go")
    over = call("handoff_to_agent", "call_1", agent_name="beta", message="yours")
    swarm(recorder, agent("alpha", [over], "x"), agent("beta", "done"), max_iterations=1)("Go")
    assert len(told(ledger, "system.task_failed")) == 1
    assert ["limit" in one.payload["error"]["message"] for one in told(ledger, "run_failed")] == [True, True]


def test_a_swarm_in_a_graph_is_a_child_of_it(ledger: chatsnapshot.Ledger, recorder: StrandsRecorder) -> None:
    from strands.multiagent import Swarm

    inner = Swarm([agent("x", "in x")], id="inner")
    graph(recorder, {"first": inner, "y": agent("y", "in y")}, ("first", "y"))("Go")
    runs = named(told(ledger, "run_started"))
    ids = {name: run.payload["run_id"] for name, run in runs.items()}
    above = {name: run.payload.get("parent_run_id") for name, run in runs.items()}
    assert above == {
        "default_graph": None,
        "inner": ids["default_graph"],
        "x": ids["inner"],
        "y": ids["default_graph"],
    }
    assert named(told(ledger, "system.task_completed"))["first"].payload["output"] == {"x": "in x"}


def test_a_stream_that_is_closed_early_cancels_the_swarm(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    async def read_a_little() -> None:
        stream = swarm(recorder, agent("alpha", "one two three")).stream_async("Go")
        async for _ in stream:
            break
        await stream.aclose()
        await asyncio.sleep(0)

    asyncio.run(read_a_little())
    gc.collect()
    assert recorder.flush(5)
    assert [one.payload["agent"] for one in told(ledger, "run_cancelled")] == ["default_swarm"]


def test_a_flow_is_recorded_by_one_of_two_recorders(
    ledger: chatsnapshot.Ledger, recorder: StrandsRecorder
) -> None:
    flow = swarm(recorder, agent("alpha", "bye"))
    assert StrandsRecorder(ledger).attach(flow) is flow
    flow("Go")
    assert sorted(one.payload["name"] for one in told(ledger, "run_started")) == ["alpha", "default_swarm"]

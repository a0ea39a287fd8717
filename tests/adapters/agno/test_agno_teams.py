"""Runs inside of runs: members of teams, steps of workflows, agents in tools."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

WAYS = ["run", "run stream", "arun", "arun stream"]


def go(owner: Any, way: str, asked: Any = "Go") -> Any:
    async def run() -> Any:
        if "stream" not in way:
            return await owner.arun(asked)
        found = owner.arun(asked, stream=True, stream_events=True)
        return [one async for one in (await found if asyncio.iscoroutine(found) else found)]

    if way.startswith("arun"):
        return asyncio.run(run())
    if "stream" in way:
        return list(owner.run(asked, stream=True, stream_events=True))
    return owner.run(asked)


def team(members: list[Any], *answers: Any, name: str = "alpha", **options: Any) -> Any:
    from agno.team import Team

    from chatsnapshot.testing.runtimes.agno import scripted

    return Team(members=members, model=scripted(*answers), name=name, telemetry=False, **options)


def flow(*steps: Any, **options: Any) -> Any:
    from agno.workflow import Workflow

    return Workflow(name="flow", steps=list(steps), telemetry=False, **options)


def to_beta(task: str = "Help") -> list[Any]:
    return [("delegate_task_to_member", {"member_id": "beta", "task": task})]


@pytest.mark.parametrize("way", WAYS)
def test_a_member_of_a_team_is_a_child_run_of_the_call_that_it_answers(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    go(recorder.attach(team([agent("beta", "beta says")], to_beta(), "done")), way)
    assert told("beta")[0] == "run_started beta <- tool_call call_1"
    outer, inner = ledger.read(event_type="execution.run_started")
    assert inner.payload["parent_run_id"] == outer.payload["run_id"]
    assert inner.correlation_id != outer.correlation_id
    (result,) = ledger.read(event_type="execution.tool_result")
    assert result.payload["result"] == "beta says"
    assert not list(ledger.read(event_type="execution.handoff"))


@pytest.mark.parametrize("way", ["run", "arun"])
def test_members_that_work_beside_each_other_are_children_of_one_call(
    recorder: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.team import TeamMode

    asked = [("delegate_task_to_members", {"task": "Help"})]
    members = [agent("beta", "b"), agent("gamma", "c")]
    go(recorder.attach(team(members, asked, "done", mode=TeamMode.broadcast)), way)
    for name in ("beta", "gamma"):
        assert told(name)[0] == f"run_started {name} <- tool_call call_1"
        assert told(name)[-1] == f"run_completed {name} <- message assistant"


@pytest.mark.parametrize("way", WAYS)
def test_a_team_whose_members_answer_hands_over(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.team import TeamMode

    go(recorder.attach(team([agent("beta", "beta here")], to_beta(), mode=TeamMode.route)), way)
    (handoff,) = ledger.read(event_type="execution.handoff")
    assert (handoff.payload["from"], handoff.payload["to"]) == ("alpha", "beta")
    assert "handoff <- tool_call call_1" in told("alpha")
    assert told("beta")[0] == "run_started beta <- tool_call call_1"


def test_a_handoff_names_the_member_and_not_its_id(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.team import TeamMode

    over = [("delegate_task_to_member", {"member_id": "beta-desk", "task": "Help"})]
    recorder.attach(team([agent("Beta Desk", "here")], over, mode=TeamMode.route)).run("Go")
    (handoff,) = ledger.read(event_type="execution.handoff")
    assert handoff.payload["to"] == "Beta Desk"


def test_a_team_in_a_team_is_a_child_with_children(recorder: Any, ledger: Any, agent: Any, told: Any) -> None:
    inner = team(
        [agent("gamma", "deep")], [("delegate_task_to_member", {"member_id": "gamma", "task": "Dig"})], "up"
    )
    inner.name = "beta"
    recorder.attach(team([inner], to_beta(), "done")).run("Go")
    starts = {one.payload["agent"]: one.payload for one in ledger.read(event_type="execution.run_started")}
    assert starts["gamma"]["parent_run_id"] == starts["beta"]["run_id"]
    assert starts["beta"]["parent_run_id"] == starts["alpha"]["run_id"]


def test_an_agent_in_a_tool_is_a_child_though_only_the_outer_is_attached(
    recorder: Any, agent: Any, told: Any
) -> None:
    beta = agent("beta", "child says hi")

    async def ask_child(question: str) -> str:
        """Ask the child."""
        return str((await beta.arun(question)).content)

    asked = [("ask_child", {"question": "hi"}), ("ask_child", {"question": "ho"})]
    beta.model = agent("", "one", "two").model
    asyncio.run(recorder.attach(agent("alpha", asked, "done", tools=[ask_child])).arun("Go"))
    starts = [line for line in told("beta") if line.startswith("run_started")]
    assert sorted(starts) == ["run_started beta <- tool_call call_1", "run_started beta <- tool_call call_2"]


def test_what_a_tool_records_is_caused_by_its_call(recorder: Any, ledger: Any, agent: Any, told: Any) -> None:
    def note() -> Any:
        """Note something."""
        ledger.record("execution.artifact", {"name": "before"})
        yield "half"
        ledger.record("execution.artifact", {"name": "after"})
        yield " done"

    recorder.attach(agent("alpha", [("note", {})], "done", tools=[note])).run("Go")
    assert told().count("artifact <- tool_call call_1") == 2


@pytest.mark.parametrize("way", WAYS)
def test_steps_of_a_workflow_follow_each_other_and_their_agents_are_their_children(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.workflow import Step, StepOutput

    def shout(step_input: Any) -> Any:
        return StepOutput(content=str(step_input.previous_step_content).upper())

    go(
        recorder.attach(
            flow(Step(name="one", agent=agent("alpha", "quiet")), Step(name="two", executor=shout))
        ),
        way,
    )
    assert told("flow") == [
        "run_started flow",
        "task_started one-1 <- run_started flow",
        "task_completed one-1 <- task_started one-1",
        "task_started two-1 <- task_completed one-1",
        "task_completed two-1 <- task_started two-1",
        "run_completed flow <- task_completed two-1",
    ]
    assert told("alpha")[0] == "run_started alpha <- task_started one-1"
    (ended,) = (
        one for one in ledger.read(event_type="execution.run_completed") if one.payload["agent"] == "flow"
    )
    assert ended.payload["output"] == "QUIET"


@pytest.mark.parametrize("way", WAYS)
def test_tools_and_members_in_a_step_are_recorded(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.workflow import Step

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    alpha = agent("alpha", [("add", {"a": 2, "b": 3})], "5", tools=[add])
    crew = team([agent("beta", "beta says")], to_beta(), "done", name="crew")
    go(recorder.attach(flow(Step(name="one", agent=alpha), Step(name="two", team=crew))), way)
    assert told("alpha")[0] == "run_started alpha <- task_started one-1"
    assert "tool_result call_1 <- tool_call call_1" in told("alpha")
    first = next(iter(ledger.read(event_type="execution.tool_result"))).payload
    assert (first["result"], first["is_error"]) == (5, False)
    assert told("crew")[0] == "run_started crew <- task_started two-1"
    assert told("beta")[0] == "run_started beta <- tool_call call_1"


def test_agents_that_a_hook_or_the_thinking_before_runs_are_children(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    beta = agent("beta", "fine")

    def check(run_input: Any) -> None:
        beta.run(f"Is this fine? {run_input.input_content}")

    recorder.attach(agent("alpha", "Hi there", pre_hooks=[check])).run("Hello", session_id="s1")
    assert told("beta")[0] == "run_started beta <- run_started alpha"
    assert told("alpha")[:2] == ["run_started alpha", "message user <- run_started alpha"]
    assert next(iter(ledger.read())).correlation_id == "s1"
    assert len(told("alpha")) == 5


@pytest.mark.parametrize("way", WAYS)
def test_steps_beside_each_other_keep_their_agents_apart(
    recorder: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.workflow import Parallel, Step

    both = Parallel(
        Step(name="p1", agent=agent("beta", "b")), Step(name="p2", agent=agent("gamma", "c")), name="both"
    )
    go(recorder.attach(flow(Step(name="one", agent=agent("alpha", "a")), both)), way)
    assert told("beta")[0] == "run_started beta <- task_started p1-1"
    assert told("gamma")[0] == "run_started gamma <- task_started p2-1"
    assert "task_started p1-1 <- task_completed one-1" in told("flow")
    assert "task_started p2-1 <- task_completed one-1" in told("flow")


@pytest.mark.parametrize("way", ["run", "run stream"])
def test_steps_beside_each_other_have_one_cause_though_one_ends_before_the_other_begins(
    recorder: Any, agent: Any, told: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agno.workflow import Parallel, Step, parallel

    def single(max_workers: int) -> Any:
        return ThreadPoolExecutor(max_workers=1)

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", single)
    both = Parallel(Step(name="p1", agent=agent("beta", "b")), Step(name="p2", agent=agent("gamma", "c")))
    go(recorder.attach(flow(both, Step(name="end", agent=agent("delta", "d")))), way)
    assert [line for line in told("flow") if "started" in line.split(" <- ")[0]] == [
        "run_started flow",
        "task_started p1-1 <- run_started flow",
        "task_started p2-1 <- run_started flow",
        "task_started end-1 <- task_completed p2-1",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_lines_of_steps_beside_each_other_each_have_their_own_causes(
    recorder: Any, told: Any, way: str
) -> None:
    from agno.workflow import Parallel, Step, StepOutput, Steps

    def step(name: str, after: threading.Event | None = None, then: threading.Event | None = None) -> Any:
        async def wait() -> None:
            while after is not None and not after.is_set():
                await asyncio.sleep(0.001)

        async def alate(step_input: Any) -> Any:
            await wait()
            if then is not None:
                then.set()
            return StepOutput(content=name)

        def late(step_input: Any) -> Any:
            return asyncio.run(alate(step_input))

        return Step(name=name, executor=alate if way.startswith("arun") else late)

    first, second, third = threading.Event(), threading.Event(), threading.Event()
    inner = Parallel(step("x", second, third), step("y", third), name="inner")
    left = Steps(name="left", steps=[step("a", None, first), step("b", second), inner, step("z")])
    right = Steps(name="right", steps=[step("c", first), step("d", None, second), step("e", third)])
    go(recorder.attach(flow(step("one"), Parallel(left, right, name="both"), step("end"))), way)
    started = dict(line.split(" <- ") for line in told("flow") if line.startswith("task_started"))
    end = started.pop("task_started end-1")
    assert end in ("task_completed z-1", "task_completed e-1")
    after_inner = started.pop("task_started z-1")
    assert after_inner in ("task_completed x-1", "task_completed y-1")
    assert started == {
        "task_started one-1": "run_started flow",
        "task_started a-1": "task_completed one-1",
        "task_started b-1": "task_completed a-1",
        "task_started x-1": "task_completed b-1",
        "task_started y-1": "task_completed b-1",
        "task_started c-1": "task_completed one-1",
        "task_started d-1": "task_completed c-1",
        "task_started e-1": "task_completed d-1",
    }


def test_a_step_that_fails_says_why(recorder: Any, ledger: Any, told: Any) -> None:
    from agno.workflow import HumanReview, OnError, Step

    def fail(step_input: Any) -> Any:
        raise ValueError("no such city")

    workflow = recorder.attach(
        flow(Step(name="one", executor=fail, human_review=HumanReview(on_error=OnError.fail)))
    )
    with pytest.raises(Exception, match="no such city"):
        workflow.run("Go")
    tasks = list(ledger.read(event_type="system.task_failed"))
    assert "no such city" in tasks[0].payload["error"]["message"]
    (ended,) = ledger.read(event_type="execution.run_failed")
    assert "no such city" in ended.payload["error"]["message"]


def test_a_workflow_of_a_function_is_a_run_with_its_agents(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    from agno.workflow import Workflow

    alpha = agent("alpha", "one says")

    def whole(workflow: Any, execution_input: Any) -> Any:
        return alpha.run(execution_input.input).content

    recorder.attach(Workflow(name="flow", steps=whole, telemetry=False)).run("Go", session_id="s1")
    assert told("flow") == ["run_started flow", "run_completed flow <- run_started flow"]
    assert told("alpha")[0] == "run_started alpha <- run_started flow"
    assert next(iter(ledger.read())).correlation_id == "s1"


def test_a_workflow_in_a_workflow_is_a_child_of_its_step(recorder: Any, agent: Any, told: Any) -> None:
    from agno.workflow import Step

    inner = flow(Step(name="deep", agent=agent("alpha", "one says")))
    inner.name = "inner"
    recorder.attach(flow(Step(name="one", workflow=inner))).run("Go")
    assert told("inner")[0] == "run_started inner <- task_started one-1"
    assert told("alpha")[0] == "run_started alpha <- task_started deep-1"


def test_a_workflow_in_the_background_ends_when_it_does(recorder: Any, agent: Any, told: Any) -> None:
    from agno.db.in_memory import InMemoryDb
    from agno.workflow import Step

    async def run() -> None:
        step = Step(name="one", agent=agent("alpha", "one says"))
        output = await recorder.attach(flow(step, db=InMemoryDb())).arun("Go", background=True)
        assert output.status.value == "PENDING"
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=10)

    asyncio.run(run())
    assert told("flow")[-1] == "run_completed flow <- task_completed one-1"

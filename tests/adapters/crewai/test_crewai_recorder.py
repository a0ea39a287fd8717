"""What the recorder of CrewAI tells of crews and flows, beyond the contract of adapters."""

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
from chatsnapshot.adapters.crewai import CrewAIRecorder, install
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.runtimes.crewai import agent, call, crew, scripted

pytest.importorskip("crewai", reason="crewai is not installed")


@pytest.fixture
def ledger() -> Iterator[chatsnapshot.Ledger]:
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: chatsnapshot.Ledger) -> Iterator[CrewAIRecorder]:
    with CrewAIRecorder(ledger) as made:
        yield made
    assert made.flush(5)
    assert (made.safe.failures, made.safe.dropped, made.safe.runs_open) == (0, 0, 0)


def told(ledger: chatsnapshot.Ledger, *kinds: str, **filters: Any) -> list[LedgerEntry]:
    return list(ledger.read(event_type=list(kinds), **filters))


def team(*tasks: Any, **options: Any) -> Any:
    from crewai import Crew

    return Crew(agents=[task.agent for task in tasks if task.agent], tasks=list(tasks), **options)


def job(worker: Any, description: str, **options: Any) -> Any:
    from crewai import Task

    return Task(description=description, expected_output="an answer", agent=worker, **options)


def as_tool(function: Any) -> Any:
    from crewai.tools import tool

    return tool(function.__name__)(function)


# --- where it stands ------------------------------------------------------------------------------------------


def test_the_bus_is_as_it_was_after_the_last_recorder(ledger: chatsnapshot.Ledger) -> None:
    from crewai.events import crewai_event_bus as bus

    recorder, other = CrewAIRecorder(ledger), CrewAIRecorder(ledger)
    undo = install(recorder)
    assert recorder.attach() == undo
    other.attach()
    other.detach()
    assert "emit" in vars(bus)
    undo()
    undo()
    assert "emit" not in vars(bus)
    crew(agent("alpha", "Hi there")).kickoff(inputs={"asked": "Hello"})
    assert ledger.head == 0
    with pytest.raises(TypeError, match="needs a CrewAIRecorder, not str"):
        install("recorder")  # type: ignore[arg-type]


def test_what_the_bus_gives_and_raises_is_left_as_it_is(recorder: CrewAIRecorder) -> None:
    from crewai.events import crewai_event_bus as bus
    from crewai.events.types.flow_events import FlowCreatedEvent

    heard = threading.Event()

    def handler(source: Any, event: Any) -> None:
        heard.set()

    bus.register_handler(FlowCreatedEvent, handler)
    try:
        future = bus.emit(None, FlowCreatedEvent(flow_name="f"))
        assert future is not None
        future.result(10)
        assert heard.is_set()
    finally:
        bus.off(FlowCreatedEvent, handler)
    with pytest.raises(AttributeError):
        bus.emit(None, "no event")  # type: ignore[arg-type]


def test_a_version_without_what_is_needed_is_told_in_one_sentence(
    ledger: chatsnapshot.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    import crewai.events

    class Old:
        pass

    monkeypatch.setattr(crewai.events, "crewai_event_bus", Old())
    with pytest.raises(
        LedgerError, match=r"^crewai \S+ has no crewai.events.crewai_event_bus.emit; recording needs crewai>="
    ):
        CrewAIRecorder(ledger).attach()


# --- crews ----------------------------------------------------------------------------------------------------


def test_tasks_beside_each_other_keep_their_own_causes(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    one = job(agent("A", "from a"), "first", async_execution=True)
    two = job(agent("B", "from b"), "second", async_execution=True)
    last = job(agent("C", "from c"), "third", context=[one, two])
    team(one, two, last).kickoff()
    entries = {entry.event_id: entry for entry in ledger.read()}

    def begun_by(entry: LedgerEntry) -> tuple[str, set[str]]:
        """The task that an event goes back to, and the agents on the way."""
        agents = set()
        while entry.event_type != "system.task_started":
            entry = entries[entry.causation_id or ""]
            agents |= {entry.payload["agent"]} if entry.event_type == "execution.model_call" else set()
        return entry.payload["task_id"], agents

    ends = told(ledger, "system.task_completed")
    assert {entry.payload["name"]: begun_by(entry) for entry in ends} == {
        "first": (str(one.id), {"A"}),
        "second": (str(two.id), {"B"}),
        "third": (str(last.id), {"C"}),
    }
    scheduled = {entry.payload["name"]: entry for entry in told(ledger, "system.task_scheduled")}
    started = {entry.payload["name"]: entry for entry in told(ledger, "system.task_started")}
    assert started["first"].causation_id == scheduled["first"].event_id
    assert started["second"].causation_id == scheduled["second"].event_id
    assert scheduled["third"].payload["depends_on"] == [str(one.id), str(two.id)]
    waited_for = {entry.event_id for entry in ends if entry.payload["name"] != "third"}
    assert {started["third"].causation_id, *started["third"].attributes["links"]} == waited_for


def test_a_manager_hands_over_and_the_coworker_is_a_child_run(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    from crewai import Crew, Process

    over = call("delegate_work_to_coworker", "call_1", task="sub", context="why", coworker="worker")
    boss = agent("boss", [over], "done")
    worker = agent("worker", "worked")
    Crew(
        agents=[worker], tasks=[job(None, "all")], manager_agent=boss, process=Process.hierarchical
    ).kickoff()
    (asked,) = told(ledger, "execution.tool_call")
    (handoff,) = told(ledger, "execution.handoff")
    assert (handoff.payload["from"], handoff.payload["to"], handoff.causation_id) == (
        "boss",
        "worker",
        asked.event_id,
    )
    child = told(ledger, "execution.run_started")[1]
    assert (child.payload["name"], child.causation_id) == ("worker", asked.event_id)
    assert child.correlation_id != asked.correlation_id


def test_a_tool_is_tried_again_and_what_is_recorded_in_it_is_caused_by_its_call(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    tries = []

    def flaky(x: int) -> str:
        """Fail at first."""
        tries.append(ledger.record("app.tried", {"x": x}))
        if len(tries) < 3:
            raise ValueError("not yet")
        return "ok"

    model = scripted(
        'Thought: try\nAction: flaky\nAction Input: {"x": 1}',
        "Thought: I know\nFinal Answer: done",
        telling=False,
    )
    team(job(agent("alpha", llm=model, tools=[as_tool(flaky)]), "try")).kickoff()
    calls = told(ledger, "execution.tool_call")
    assert [entry.payload["attempt"] for entry in calls] == list(range(1, len(calls) + 1))
    assert len(calls) > 1
    results = told(ledger, "execution.tool_result")
    assert [entry.payload["is_error"] for entry in results] == [True] * (len(calls) - 1) + [False]
    assert [entry.causation_id for entry in results] == [entry.event_id for entry in calls]
    assert {entry.causation_id for entry in tries} <= {entry.event_id for entry in calls}
    with pytest.raises(chatsnapshot.InvalidEvent):
        ledger.record("app.tried", {"x": 2})  # outside of the tool there is no scope
    # A model that tells nothing: what it said is known from what CrewAI read in it.
    said = [
        entry.payload["parts"][0]["content"]
        for entry in told(ledger, "execution.message")
        if entry.payload["role"] == "assistant"
    ]
    assert said == [
        'Thought: try\nAction: flaky\nAction Input: {"x": 1}',
        "Thought: I know\nFinal Answer: done",
    ]
    assert told(ledger, "execution.model_call") == []


def test_a_guardrail_sends_the_agent_back(ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder) -> None:
    def good(output):  # type: ignore[no-untyped-def]  # CrewAI reads the annotations
        return output.raw == "good", output.raw if output.raw == "good" else "not good"

    team(job(agent("alpha", "bad", "good"), "be good", guardrail=good)).kickoff()
    judged = told(ledger, "execution.guardrail")
    assert [(entry.payload["name"], entry.payload["outcome"]) for entry in judged] == [
        ("good", "blocked"),
        ("good", "passed"),
    ]
    again = told(ledger, "execution.message")[2]
    assert (again.payload["role"], again.causation_id) == ("user", judged[0].event_id)
    assert told(ledger, "system.task_completed")[0].causation_id == judged[1].event_id


def test_a_crew_in_a_tool_of_another_runtime_is_a_child_run(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    mine = RuntimeRecorder(ledger, runtime="mine")
    run = mine.begin("outer", key="1", correlation_id="case-7")
    assert run is not None
    mine.record(run.started("go"), asked := run.tool_call("call_1", "ask_crew", {}))
    with run.inside("call_1"):
        crew(agent("alpha", "Hi there")).kickoff(inputs={"asked": "Hello"})
    mine.record(run.tool_result("call_1", result="Hi there"), run.completed("Hi there"))
    mine.end(run)
    started = told(ledger, "execution.run_started")[1]
    assert (started.causation_id, started.payload["parent_run_id"]) == (asked["event_id"], "case-7")
    assert started.correlation_id != "case-7"


def test_a_cancelled_flow_has_its_end(ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder) -> None:
    from crewai.flow.flow import Flow, start

    async def cancelled() -> None:
        began = asyncio.Event()

        class Waiting(Flow):  # type: ignore[type-arg]
            @start()
            async def wait(self) -> None:
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(Waiting().kickoff_async())
        await asyncio.wait_for(began.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert recorder.flush(5)
    ends = [entry.event_type for entry in ledger.read() if entry.event_type.startswith("execution.run_")]
    assert ends == ["execution.run_started", "execution.run_cancelled"]


def test_secrets_and_configurations_of_agents_are_not_recorded(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    key = "sk-proj-" + "a1B2" * 12

    def sign_in(api_key: str) -> str:
        """Sign in."""
        return "in"

    alpha = agent(
        "alpha",
        [call("sign_in", "call_1", api_key=key)],
        "in",
        tools=[as_tool(sign_in)],
        backstory=f"knows {key}",
    )
    alpha.llm.api_key = key
    crew(alpha).kickoff(inputs={"asked": "Sign in"})
    stored = [entry.payload_json or b"" for entry in ledger.read()]
    assert not any(key.encode() in payload or b"backstory" in payload for payload in stored)
    assert max(len(payload) for payload in stored) < 2_000


# --- flows ----------------------------------------------------------------------------------------------------


def flow_class() -> Any:
    from crewai.flow.flow import Flow, listen, start

    class Case(Flow):  # type: ignore[type-arg]
        @start()
        def first(self) -> str:
            self.state["n"] = 1
            return str(crew(agent("alpha", "Hi there")).kickoff(inputs={"asked": "Hello"}).raw)

        @listen(first)
        def second(self, said: str) -> str:
            return str(agent("beta", f"{said} too").kickoff("And you?").raw)

    return Case


def test_methods_of_a_flow_follow_from_each_other_and_what_runs_in_them_is_a_child(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    flow = flow_class()()
    assert flow.kickoff() == "Hi there too"
    started, crew_run, agent_run = told(ledger, "execution.run_started")
    assert (started.correlation_id, started.payload["name"]) == (flow.flow_id, "Case")
    steps = {
        (entry.payload["name"], entry.payload["to"]): entry
        for entry in told(ledger, "execution.state_change")
    }
    assert steps["first", "started"].causation_id == started.event_id
    assert steps["second", "started"].causation_id == steps["first", "finished"].event_id
    assert steps["second", "finished"].payload["variables"]["n"] == 1
    assert (crew_run.causation_id, agent_run.causation_id) == (
        steps["first", "started"].event_id,
        steps["second", "started"].event_id,
    )
    assert agent_run.payload["name"] == "beta"
    assert len({one.correlation_id for one in (started, crew_run, agent_run)}) == 3


def test_a_person_at_hand_is_asked_without_a_pause(
    ledger: chatsnapshot.Ledger, recorder: CrewAIRecorder
) -> None:
    from crewai.flow.flow import Flow, start
    from crewai.flow.human_feedback import human_feedback

    class Here:
        def request_feedback(self, context: Any, flow: Any) -> str:
            return "fine"

        def request_input(self, message: str, flow: Any, metadata: Any = None) -> str:
            return "blue"

    class Asking(Flow):  # type: ignore[type-arg]
        input_provider: Any = Here()

        @start()
        @human_feedback(message="Good?", provider=Here())
        def draft(self) -> str:
            return str(self.ask("Which colour?"))

    Asking().kickoff()
    asked = told(ledger, "execution.human_input_requested")
    assert [entry.payload["question"] for entry in asked][:1] == ["Which colour?"]
    answered = told(ledger, "execution.human_input_received")
    assert [entry.payload["answer"] for entry in answered][:1] == ["blue"]
    assert [entry.causation_id for entry in answered] == [entry.event_id for entry in asked]
    assert len(told(ledger, "execution.run_completed")) == 1


def test_a_flow_that_waits_for_a_person_goes_on_in_another_process(tmp_path: Path) -> None:
    ledger, flows = tmp_path / "runs.db", tmp_path / "flows.db"

    def step(what: str) -> str:
        command = [
            sys.executable,
            "-W",
            "ignore",
            str(Path(__file__).with_name("waiting.py")),
            str(ledger),
            str(flows),
            what,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return next(
            line.split(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith(("flow ", "said "))
        )

    flow_id = step("ask")
    assert step(flow_id) == "send it"
    with chatsnapshot.open(ledger, create=False) as opened:
        story = [
            entry
            for entry in opened.read(correlation_id=flow_id)
            if entry.event_type != "execution.state_change"
        ]
        assert opened.verify().ok
    kinds = [entry.event_type.removeprefix("execution.") for entry in story]
    assert kinds == [
        "run_started",
        "human_input_requested",
        "run_paused",
        "human_input_received",
        "run_resumed",
        "run_completed",
    ]
    _, question, _, answer, resumed, end = story
    assert (answer.causation_id, resumed.causation_id) == (question.event_id, answer.event_id)
    assert (answer.payload["answer"], end.payload["output"]) == ("send it", "send it")

"""Who is recorded: what is attached, and with ``install`` everything; Agno's code is what it was without them."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.agno import AgnoRecorder, install

PROGRAM = """
from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

class Greeting(Model):
    def invoke(self, *args, **options):
        return ModelResponse(role="assistant", content="Good morning!")

    ainvoke = invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke

print(Agent(name="desk", model=Greeting(id="m"), telemetry=False).run("Greet the customer").content)
"""


def starts(ledger: Any) -> list[str]:
    return [one.payload["agent"] for one in ledger.read(event_type="execution.run_started")]


@pytest.mark.parametrize("wrong", ["an agent", None, "the class"])
def test_what_is_no_agent_team_or_workflow_is_refused_in_one_sentence(recorder: Any, wrong: Any) -> None:
    from agno.agent import Agent

    given = Agent if wrong == "the class" else wrong
    with pytest.raises(TypeError, match=r"^attach\(\) takes an Agent, Team or Workflow of agno") as caught:
        recorder.attach(given)
    assert "\n" not in str(caught.value)


def test_install_takes_a_recorder_of_agno(ledger: Any) -> None:
    with pytest.raises(TypeError, match="install takes an AgnoRecorder, not str"):
        install("runs.db")  # type: ignore[arg-type]


def test_only_what_is_attached_is_recorded(recorder: Any, ledger: Any, agent: Any) -> None:
    recorder.attach(agent("alpha", "one")).run("Hello")
    agent("beta", "two").run("Hello")
    assert starts(ledger) == ["alpha"]


def test_attached_twice_and_by_two_recorders_of_a_ledger_it_is_recorded_once(
    recorder: Any, ledger: Any, agent: Any
) -> None:
    alpha = recorder.attach(recorder.attach(agent("alpha", "one")))
    AgnoRecorder(ledger).attach(alpha).run("Hello")
    assert len(list(ledger.read())) == 5


def test_what_has_no_name_is_called_by_its_id(recorder: Any, ledger: Any) -> None:
    from agno.agent import Agent

    from chatsnapshot.testing.runtimes.agno import scripted

    nameless = recorder.attach(Agent(model=scripted("one", "two"), telemetry=False))
    nameless.run("Hello")
    nameless.run("Hello")
    recorder.attach(Agent(id="desk-7", model=scripted("three"), telemetry=False)).run("Hello")
    assert starts(ledger) == [nameless.id, nameless.id, "desk-7"]


def test_two_ledgers_have_a_run_each(recorder: Any, ledger: Any, agent: Any) -> None:
    with chatsnapshot.open("memory:") as second:
        beta = agent("beta", "child says hi")

        def ask_child() -> str:
            """Ask the child."""
            return str(beta.run("hi").content)

        alpha = recorder.attach(agent("alpha", [("ask_child", {})], "done", tools=[ask_child]))
        AgnoRecorder(second).attach(alpha).run("Hello")
        assert starts(ledger) == starts(second) == ["alpha", "beta"]
        kinds = [[one.event_type for one in opened.read()] for opened in (ledger, second)]
        assert kinds[0] == kinds[1]


def test_install_records_every_run_until_it_is_undone(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.workflow import Step, Workflow

    undo = install(recorder)
    try:
        agent("alpha", "one").run("Hello")
        asyncio.run(agent("beta", "two").arun("Hello"))
        recorder.attach(agent("gamma", "three")).run("Hello")
        Workflow(name="flow", steps=[Step(name="one", agent=agent("delta", "x"))], telemetry=False).run("Go")
    finally:
        undo()
    agent("epsilon", "four").run("Hello")
    undo()
    assert starts(ledger) == ["alpha", "beta", "gamma", "flow", "delta"]


def test_undone_nothing_of_agno_is_changed(recorder: Any) -> None:
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.tools.function import FunctionCall
    from agno.workflow import Workflow

    gc.collect()  # what other tests attached
    install(recorder)()
    before = [
        Agent.run,
        Agent.arun,
        Workflow._aexecute_stream,
        Model.process_response_stream,
        FunctionCall.execute,
    ]
    assert not [one for one in before if hasattr(one, "__wrapped__")]
    undo = install(recorder)
    now = [
        Agent.run,
        Agent.arun,
        Workflow._aexecute_stream,
        Model.process_response_stream,
        FunctionCall.execute,
    ]
    try:
        assert all(one is not two for one, two in zip(before, now, strict=True))
        for kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
            assert list(map(kind, now)) == list(map(kind, before))
        assert list(map(inspect.signature, now)) == list(map(inspect.signature, before))
    finally:
        undo()
    assert before[0] is Agent.run


def test_a_mistake_of_the_adapter_is_counted_and_harms_no_run(
    ledger: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.adapters.agno.watching import Watch

    def broken(*args: Any, **options: Any) -> Any:
        raise ZeroDivisionError("a mistake")

    for name in ("begin", "heard", "saw", "over"):
        monkeypatch.setattr(Watch, name, broken)
    recorder = AgnoRecorder(ledger)
    alpha = recorder.attach(agent("alpha", [("gone", {})], "one", [("gone", {})], "two"))
    assert alpha.run("Hello").content == "one"
    assert [one.event for one in alpha.run("Hello", stream=True, stream_events=True)][-1] == "RunCompleted"
    assert recorder.safe.failures > 0


def test_a_program_that_knows_nothing_of_it_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    inner = [sys.executable, "program.py"]
    command = [sys.executable, "-m", "chatsnapshot", "run", "--ledger", "runs.db", "--", *inner]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "Good morning!\n"), done.stderr
    with chatsnapshot.open(tmp_path / "runs.db", create=False) as ledger:
        process, desk = ledger.read(event_type="execution.run_started")
        assert (desk.payload["name"], desk.causation_id) == ("desk", process.event_id)
        assert len(list(ledger.read(event_type="execution.run_completed"))) == 2

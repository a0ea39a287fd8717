"""Agents of one runtime inside tools of the other: one connected graph, every recorder with its own runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")
pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

import agents as openai_agents
from agents.testing import ScriptedModel, assistant_message, function_call

from chatsnapshot.adapters.openai_agents import OpenAIAgentsRecorder


@pytest.fixture(autouse=True)
def nothing_is_uploaded() -> None:
    openai_agents.set_trace_processors([])


def test_each_is_a_child_of_the_tool_call_of_the_other(ledger: Any, agent: Any, call: Any, told: Any) -> None:
    recorder = OpenAIAgentsRecorder(ledger)
    inmost = agent("deep", name="inmost")

    @openai_agents.function_tool
    async def ask_inmost() -> str:
        """Ask."""
        return str((await inmost.run("?")).output)

    script = ScriptedModel([[function_call("ask_inmost", {}, call_id="o1")], [assistant_message("deeper")]])
    middle = openai_agents.Agent(name="middle", tools=[ask_inmost], model=script)

    async def ask_middle() -> str:
        """Ask."""
        return str((await recorder.run(middle, "?")).final_output)

    assert agent([call("ask_middle", "p1")], "done", tools=[ask_middle]).run_sync("Go").output == "done"
    assert {"run_started middle <- tool_call p1", "run_started inmost <- tool_call o1"} <= set(told())
    known = {entry.event_id for entry in ledger.read()}
    assert [entry.position for entry in ledger.read() if entry.causation_id not in known] == [1]
    runs = {e.payload["agent"]: e for e in ledger.read(event_type="execution.run_started")}
    assert [runs[name].source.runtime for name in ("alpha", "middle", "inmost")] == [
        "pydantic_ai",
        "openai_agents",
        "pydantic_ai",
    ]
    assert runs["inmost"].payload["parent_run_id"] == runs["middle"].payload["run_id"]
    assert len({entry.correlation_id for entry in ledger.read()}) == 3

"""Runs of smolagents agents: conversations, children, streams, and how runs end."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.smolagents import SmolagentsRecorder, install
from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.runtimes.smolagents import agent, call, scripted, tool

Told = Callable[..., list[str]]


def outcome(work: Callable[[], Any]) -> str:
    try:
        return f"gave {work()}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def events(ledger: Any, event_type: str) -> list[Any]:
    return list(ledger.read(event_type=event_type))


# --- conversations --------------------------------------------------------------------------------------------


def test_a_run_without_reset_goes_on_in_the_conversation(ledger: Any, recorder: SmolagentsRecorder) -> None:
    desk = recorder.attach(agent("desk", "Good morning", "Bruges it is", "Another day"))
    desk.run("Hello")
    desk.run("Book Bruges", reset=False)
    desk.run("Hello again")
    first, second, third = events(ledger, "execution.run_started")
    assert first.correlation_id == second.correlation_id != third.correlation_id
    assert len({one.payload["run_id"] for one in (first, second, third)}) == 3


def test_the_recorders_own_correlation_holds_all_runs(ledger: Any) -> None:
    recorder = SmolagentsRecorder(ledger, correlation_id="case-7")
    desk = recorder.attach(agent("desk", "one", "two"))
    desk.run("Hello")
    desk.run("Hello")
    assert {entry.correlation_id for entry in ledger.read()} == {"case-7"}


def test_instructions_are_told_when_a_conversation_begins(ledger: Any, recorder: SmolagentsRecorder) -> None:
    desk = recorder.attach(agent("desk", "one", "two", instructions="Be short"))
    desk.run("Hello")
    desk.run("And now?", reset=False)
    roles = [one.payload["role"] for one in events(ledger, "execution.message")]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_what_a_run_is_given_besides_its_task_is_told(ledger: Any, recorder: SmolagentsRecorder) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (2, 2))
    desk = recorder.attach(agent("desk", "a square"))
    desk.run("What is it?", images=[image], additional_args={"size": 2})
    (started,) = events(ledger, "execution.run_started")
    asked = events(ledger, "execution.message")[0].payload["parts"]
    assert started.payload["input"] == {"size": 2}
    assert (asked[0]["content"], asked[1]["mime_type"]) == ("What is it?", "image/png")


def test_the_full_result_is_what_it_is_unrecorded(ledger: Any, recorder: SmolagentsRecorder) -> None:
    found = recorder.attach(agent("desk", "one")).run("Hello", return_full_result=True)
    alone = agent("desk", "one").run("Hello", return_full_result=True)
    assert (found.output, found.state, found.token_usage) == (alone.output, alone.state, alone.token_usage)
    (ended,) = events(ledger, "execution.run_completed")
    assert ended.payload["output"] == "one"


# --- agents in agents -----------------------------------------------------------------------------------------


def test_a_managed_agent_is_a_child_run(ledger: Any, recorder: SmolagentsRecorder, told: Told) -> None:
    beta = agent("beta", "child says hi")
    alpha = recorder.attach(agent("alpha", [call("beta", task="hi")], "done", managed_agents=[beta]))
    assert alpha.run("Ask beta") == "done"
    assert told() == [
        "run_started alpha",
        "message user <- run_started alpha",
        "message assistant <- message user",
        "tool_call call_1 <- message assistant",
        "run_started beta <- tool_call call_1",
        "message user <- run_started beta",
        "message assistant <- message user",
        "run_completed beta <- message assistant",
        "tool_result call_1 <- tool_call call_1",
        "message assistant <- tool_result call_1",
        "run_completed alpha <- message assistant",
    ]


def test_agents_that_are_called_at_once_are_children_of_their_own_calls(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    managed = [agent("beta", "beta here"), agent("gamma", "gamma here")]
    both = [call("beta", task="hi"), call("gamma", task="hi")]
    recorder.attach(agent("alpha", both, "done", managed_agents=managed)).run("Ask both")
    calls = {one.event_id: one.payload["name"] for one in events(ledger, "execution.tool_call")}
    children = events(ledger, "execution.run_started")[1:]
    assert {one.payload["name"]: calls[one.causation_id] for one in children} == {
        "beta": "beta",
        "gamma": "gamma",
    }


def test_an_agent_that_fails_in_an_agent_is_the_error_of_the_call(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    beta = agent("beta", RuntimeError("model is down"))
    alpha = recorder.attach(agent("alpha", [call("beta", task="hi")], "done", managed_agents=[beta]))
    alpha.run("Ask beta")
    lines = told()
    assert lines[6:8] == ["run_failed beta <- message user", "tool_result! call_1 <- tool_call call_1"]


def test_another_runtime_in_a_tool_is_a_child(ledger: Any, recorder: SmolagentsRecorder) -> None:
    other = RuntimeRecorder(ledger, runtime="mine")

    def look() -> str:
        run = other.begin("inner", key="1")
        assert run is not None
        other.record(run.started(), run.completed("seen"))
        other.end(run)
        return "seen"

    recorder.attach(agent("alpha", [call("look")], "done", tools=[tool(look)])).run("Look")
    (asked,) = events(ledger, "execution.tool_call")
    inner = events(ledger, "execution.run_started")[1]
    assert (inner.source.runtime, inner.causation_id) == ("mine", asked.event_id)


def test_a_run_in_another_runtimes_tool_is_its_child(ledger: Any, recorder: SmolagentsRecorder) -> None:
    other = RuntimeRecorder(ledger, runtime="mine")
    run = other.begin("outer", key="1")
    assert run is not None
    other.record(run.started(), run.tool_call("c1", "ask", {}))
    with run.inside("c1"):
        recorder.attach(agent("alpha", "hi")).run("Hello")
    started = events(ledger, "execution.run_started")[1]
    assert (started.payload["parent_run_id"], started.causation_id) == (run.run_id, run.calls["c1"])
    other.record(run.completed())
    other.end(run)


def test_a_run_in_a_callback_of_a_step_is_a_child_of_the_run(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    from smolagents import ActionStep

    beta = agent("beta", "looks good")
    alpha = agent("alpha", "done", step_callbacks={ActionStep: lambda step, agent: beta.run("Look")})
    recorder.attach(alpha).run("Hello")
    first, second = events(ledger, "execution.run_started")
    assert (second.payload["parent_run_id"], second.causation_id) == (first.payload["run_id"], first.event_id)


# --- streams --------------------------------------------------------------------------------------------------


def test_a_stream_begins_with_its_first_step(ledger: Any, recorder: SmolagentsRecorder) -> None:
    stream = recorder.attach(agent("desk", "one")).run("Hello", stream=True)
    assert ledger.head == 0
    next(stream)
    assert ledger.head > 0
    list(stream)
    assert len(events(ledger, "execution.run_completed")) == 1


def test_a_stream_leaves_nothing_in_the_context_of_its_consumer(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    for _ in recorder.attach(agent("desk", [call("add", a=1, b=2)], "3", tools=[tool(add)])).run(
        "1+2?", stream=True
    ):
        ledger.record("execution.artifact", {"name": "mine"}, correlation_id="mine")
        agent("apart", "unrecorded").run("Hello")
    assert all(one.causation_id is None for one in events(ledger, "execution.artifact"))
    assert len(events(ledger, "execution.run_started")) == 1


def test_a_stream_may_be_consumed_by_several_threads(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    desk = recorder.attach(agent("desk", [call("add", a=1, b=2)], "3", tools=[tool(add)]))
    stream, seen = desk.run("1+2?", stream=True), []
    while True:
        thread = threading.Thread(target=lambda: seen.append(next(stream, None)))
        thread.start()
        thread.join()
        if seen[-1] is None:
            break
    assert told()[-1] == "run_completed desk <- message assistant"
    assert "tool_result call_1 <- tool_call call_1" in told()


@pytest.mark.parametrize("recorded", [False, True])
def test_a_stream_that_is_closed_ends_as_the_runtime_ends_it(
    ledger: Any, recorder: SmolagentsRecorder, recorded: bool
) -> None:
    desk = agent("desk", [call("add", a=1, b=2)], "3", tools=[tool(add)])
    stream = (recorder.attach(desk) if recorded else desk).run("1+2?", stream=True)
    next(stream)
    # smolagents yields its step in a finally
    assert outcome(stream.close) == "RuntimeError: generator ignored GeneratorExit"
    if recorded:
        (ended,) = events(ledger, "execution.run_cancelled")
        assert ended.payload["reason"] == "the caller stopped the stream"
        (result,) = events(ledger, "execution.tool_result")
        assert result.payload["error"] == {"message": "stopped with its run"}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# --- ends -----------------------------------------------------------------------------------------------------


def test_an_interrupted_run_is_cancelled_and_the_conversation_goes_on(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    desk = agent("desk", [call("stop")], "done")
    desk.tools["stop"] = tool(named("stop", desk.interrupt))
    recorder.attach(desk)
    assert outcome(lambda: desk.run("Hello")) == "AgentError: Agent interrupted."
    assert desk.run("Go on", reset=False) == "done"
    (ended,) = events(ledger, "execution.run_cancelled")
    assert ended.payload["reason"] == "Agent interrupted."
    assert len({entry.correlation_id for entry in ledger.read()}) == 1


def named(name: str, work: Callable[[], Any]) -> Callable[[], Any]:
    def function() -> Any:
        return work()

    function.__name__ = name
    return function


def test_a_run_that_is_out_of_steps_says_so_and_answers(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    desk = agent("desk", [call("add", a=1, b=2)], ("text", "three, I think"), tools=[tool(add)], max_steps=1)
    assert recorder.attach(desk).run("1+2?") == "three, I think"
    assert told()[-3:] == [
        "limit_reached <- tool_result call_1",
        "message assistant <- tool_result call_1",
        "run_completed desk <- message assistant",
    ]
    (limit,) = events(ledger, "system.limit_reached")
    assert (limit.payload["name"], limit.payload["limit"]) == ("max_steps", 1)
    assert len(events(ledger, "execution.model_call")) == 2


def test_ctrl_c_in_a_tool_reaches_the_caller_and_cancels_the_run(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    def press() -> None:
        raise KeyboardInterrupt

    desk = recorder.attach(agent("desk", [call("press")], tools=[tool(press)]))
    assert outcome(lambda: desk.run("Hello")).startswith("KeyboardInterrupt")
    assert told()[-1].startswith("run_cancelled desk")


def test_what_goes_wrong_before_the_first_step_fails_the_run(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    desk = recorder.attach(agent("desk", "one"))
    desk.prompt_templates["system_prompt"] = "{{ nothing_of_the_kind }}"
    alone = outcome(lambda: agent("x", prompt_templates=desk.prompt_templates))
    for stream in (False, True):
        assert outcome(lambda stream=stream: desk.run("Hello", stream=stream)) == alone
    assert len(events(ledger, "execution.run_failed")) == 2


# --- who records ----------------------------------------------------------------------------------------------


def test_nothing_of_the_runtime_is_changed_when_the_last_recorder_is_gone(ledger: Any) -> None:
    import smolagents
    from smolagents import local_python_executor

    model = type(scripted())

    def now() -> list[Any]:
        kinds = (
            model,
            smolagents.MultiStepAgent,
            smolagents.ToolCallingAgent,
            smolagents.Tool,
            local_python_executor,
        )
        return [dict(vars(kind)) for kind in kinds]

    gc.collect()  # recorders of other tests
    before = now()
    assert "chatsnapshot" not in smolagents.MultiStepAgent.run.__code__.co_filename
    undo = install(SmolagentsRecorder(ledger))
    assert now() != before
    desk = agent("desk", "one")
    desk.run("Hello")
    undo()
    undo()
    del undo
    gc.collect()
    assert now() == before
    assert len(events(ledger, "execution.run_completed")) == 1


def test_agents_that_were_there_before_are_recorded_by_an_installed_recorder(ledger: Any) -> None:
    desk = agent("desk", "one", "two", "three")
    desk.run("Hello")
    undo = install(SmolagentsRecorder(ledger))
    desk.run("Hello")
    undo()
    desk.run("Hello")
    assert len(events(ledger, "execution.run_started")) == 1


def test_a_detached_agent_is_recorded_no_more(ledger: Any, recorder: SmolagentsRecorder) -> None:
    desk = agent("desk", "one", "two")
    recorder.attach(recorder.attach(desk)).run("Hello")
    recorder.detach(desk).run("Hello")
    assert len(events(ledger, "execution.run_started")) == 1


def test_two_ledgers_each_have_the_whole_run(ledger: Any, recorder: SmolagentsRecorder) -> None:
    with chatsnapshot.open("memory:") as other:
        beta = agent("beta", "child says hi")
        alpha = agent("alpha", [call("beta", task="hi")], "done", managed_agents=[beta])
        SmolagentsRecorder(other).attach(recorder.attach(alpha)).run("Ask beta")
        first, second = ([one.event_type for one in each.read()] for each in (ledger, other))
        assert first == second and first[-1] == "execution.run_completed"


def test_a_model_of_two_agents_tells_each_of_its_own_calls(ledger: Any, recorder: SmolagentsRecorder) -> None:
    model = scripted("one", "two")
    unrecorded, desk = agent("apart"), recorder.attach(agent("desk"))
    unrecorded.model = desk.model = model
    unrecorded.run("Hello")
    desk.run("Hello")
    (asked,) = events(ledger, "execution.model_call")
    assert (asked.payload["model"], asked.payload["usage"]) == (
        "scripted",
        {"input_tokens": 9, "output_tokens": 4},
    )


def test_of_a_model_that_cannot_be_listened_to_the_steps_tell(
    ledger: Any, recorder: SmolagentsRecorder, told: Told
) -> None:
    desk = agent("desk", [call("add", a=1, b=2)], "3", tools=[tool(add)])
    answers, desk.model = desk.model, lambda: None
    desk.model.generate = lambda *args, **options: answers.generate(*args, **options)
    assert recorder.attach(desk).run("1+2?") == "3"
    assert [one.payload["usage"]["input_tokens"] for one in events(ledger, "execution.model_call")] == [9, 9]
    assert [one for one in told() if one.startswith("message assistant")] == [
        "message assistant <- message user",
        "message assistant <- tool_result call_1",
    ]


def test_a_model_that_is_made_of_models_is_asked_once(ledger: Any, recorder: SmolagentsRecorder) -> None:
    class Retrying(type(scripted())):  # type: ignore[misc]
        def generate(self, *args: Any, **options: Any) -> Any:
            return super().generate(*args, **options)

    desk = recorder.attach(agent("desk", "plain"))
    desk.run("Hello")
    desk.model = Retrying(["one", "two"])
    desk.run("Hello")
    desk.run("Hello")
    assert len(events(ledger, "execution.model_call")) == 3


def test_a_copy_of_a_model_made_in_a_run_answers_for_itself(
    ledger: Any, recorder: SmolagentsRecorder
) -> None:
    copies: list[Any] = []

    def clone() -> str:
        copies.append(copy.deepcopy(desk.model))
        return "ok"

    desk = recorder.attach(agent("desk", [call("clone")], "one", tools=[tool(clone)]))
    desk.run("Copy")
    apart = agent("apart")
    apart.model = copies[0]
    assert (apart.run("Hello"), vars(desk.model).keys()) == ("one", vars(copies[0]).keys())
    assert len(events(ledger, "execution.model_call")) == 2


def test_what_is_no_agent_is_refused_in_one_sentence(recorder: SmolagentsRecorder) -> None:
    with pytest.raises(TypeError, match=r"records a smolagents\.MultiStepAgent, not builtins\.str"):
        recorder.attach("agent")
    with pytest.raises(TypeError, match="install takes a SmolagentsRecorder, not str"):
        install("recorder")  # type: ignore[arg-type]


def test_a_version_that_lacks_something_is_told_in_one_sentence(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import smolagents

    monkeypatch.delattr(smolagents, "ToolCallingAgent")
    with pytest.raises(
        LedgerError, match=r"^smolagents .* has no smolagents\.ToolCallingAgent\.process_tool_calls;"
    ):
        SmolagentsRecorder(ledger)


def test_importing_the_adapter_imports_no_runtime() -> None:
    code = "import sys, chatsnapshot.adapters.smolagents.recorder; print('smolagents' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"

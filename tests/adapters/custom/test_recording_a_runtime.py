"""A runtime of one's own, recorded through the base: causes, children, resumption, two recorders, a ledger that fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.payloads import text, tool_call_part
from chatsnapshot.errors import StoreUnavailable


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


def recorder_of(ledger: Any, **options: Any) -> RuntimeRecorder:
    return RuntimeRecorder(ledger, runtime="mine", **options)


def by_type(ledger: Any, correlation_id: str | None = None) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in ledger.read(correlation_id=correlation_id):
        found.setdefault(entry.event_type.partition(".")[2], []).append(entry)
    return found


def begun(recorder: RuntimeRecorder, name: str = "alpha", **options: Any) -> Any:
    run = recorder.begin(name, **{"key": "k", "correlation_id": "chat", **options})
    assert run is not None
    return run


def test_results_are_caused_by_their_calls_calls_by_their_message_and_the_answer_by_the_results(
    ledger: Any,
) -> None:
    recorder = recorder_of(ledger)
    run = begun(recorder)
    calls = [tool_call_part("c1", "add", {"a": 2}), tool_call_part("c2", "add", '{"a": 4}')]
    recorder.record(run.started("sum"), run.message("user", [text("sum")]))
    recorder.record(run.model_call(model="m", usage={"input_tokens": 1}), run.message("assistant", calls))
    recorder.record(run.tool_call("c1", "add", {"a": 2}), run.tool_call("c2", "add", '{"a": 4}'))
    recorder.record(run.tool_result("c2", result=9), run.tool_result("c1", error=ValueError("no")))
    recorder.record(run.message("assistant", [text("done")]), run.completed("done"))
    found = by_type(ledger, "chat")
    message = found["message"][1]
    assert [one.causation_id for one in found["tool_call"]] == [message.event_id] * 2
    call_of = {one.payload["call_id"]: one.event_id for one in found["tool_call"]}
    assert [one.causation_id for one in found["tool_result"]] == [call_of["c2"], call_of["c1"]]
    last = found["message"][2]
    assert last.causation_id == found["tool_result"][1].event_id
    assert last.event.attributes["links"] == [found["tool_result"][0].event_id]
    assert message.causation_id == found["model_call"][0].event_id
    assert found["tool_call"][1].payload["arguments"] == {"a": 4}
    assert found["tool_result"][1].payload["is_error"] is True
    assert found["tool_result"][1].payload["name"] == "add"
    assert {one.event.source.runtime for group in found.values() for one in group} == {"mine"}
    said = [
        (one.event.source.name, one.payload.get("agent"), one.payload["role"]) for one in found["message"]
    ]
    assert said == [(None, None, "user"), *[("alpha", "alpha", "assistant")] * 2]
    assert {one.payload["run_id"] for group in found.values() for one in group} == {"chat"}


def test_a_run_inside_a_tool_of_another_runtime_is_a_child_with_a_correlation_of_its_own(ledger: Any) -> None:
    first, second = recorder_of(ledger), RuntimeRecorder(ledger, runtime="other", correlation_id="chat")
    run = begun(first)
    call = run.tool_call("c1", "ask", {})
    first.record(run.started(), call)
    with run.inside("c1"):
        child = second.begin("beta", key="k", correlation_id="chat")
        assert child is not None
        second.record(child.started(), child.completed())
        own = ledger.record("execution.artifact", {"name": "note"})
    outside = second.begin("gamma", key="k2")
    assert outside is not None and outside.correlation_id == "chat" and outside.parent is None
    assert child.correlation_id != "chat"
    started = next(iter(ledger.read(correlation_id=child.correlation_id)))
    assert started.causation_id == call["event_id"]
    assert started.payload["parent_run_id"] == "chat"
    assert (own.event.correlation_id, own.causation_id) == ("chat", call["event_id"])


def test_tools_that_run_at_once_in_threads_each_have_their_own_children(ledger: Any) -> None:
    recorder = recorder_of(ledger)
    run = begun(recorder)
    calls = [run.tool_call(f"c{n}", "ask", {}) for n in range(4)]
    recorder.record(run.started(), *calls)
    children: dict[int, Any] = {}
    barrier = threading.Barrier(4)

    def tool(number: int) -> None:
        token = run.enter(f"c{number}")
        barrier.wait()
        children[number] = recorder.begin(f"child{number}", key=f"child{number}")
        barrier.wait()
        run.leave(token)
        assert recorder.parent_here() is None

    threads = [threading.Thread(target=tool, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [children[n].parent.cause for n in range(4)] == [one["event_id"] for one in calls]


def test_a_resumed_run_follows_from_the_answer_and_a_new_process_finds_the_question(ledger: Any) -> None:
    recorder = recorder_of(ledger)
    run = begun(recorder)
    recorder.record(run.started(), run.tool_call("c1", "pay", {}))
    recorder.record(run.question("q1", kind="approval", prompt="Pay?", call_id="c1"), run.paused("waits"))
    recorder.end(run)
    anew = recorder_of(ledger)  # knows nothing from memory
    going_on = begun(anew, key="k2", resumed=True)
    anew.record(going_on.answer("q1", decision="approved"), going_on.started())
    anew.record(going_on.tool_result("c1", result="paid"), going_on.completed())
    found = by_type(ledger, "chat")
    (question,), (answer,), (resumed,) = (
        found["human_input_requested"],
        found["human_input_received"],
        found["run_resumed"],
    )
    assert (answer.causation_id, resumed.causation_id) == (question.event_id, answer.event_id)
    assert question.causation_id == found["tool_call"][0].event_id
    assert found["tool_result"][0].causation_id == found["tool_call"][0].event_id
    assert found["tool_result"][0].payload["name"] == "pay"
    assert resumed.payload["run_id"] == answer.payload["run_id"] == "chat"
    (shown,) = ledger.view("runs", "chat").runs
    assert (shown.status, shown.partial, len(shown.executions)) == ("completed", False, 2)


def test_a_later_run_of_a_conversation_is_a_run_of_its_own(ledger: Any) -> None:
    recorder = recorder_of(ledger)
    for key in ("k1", "k2"):
        run = begun(recorder, key=key)
        recorder.record(run.started(), run.completed())
        recorder.end(run)
    shown = ledger.view("runs", "chat").runs
    assert [(one.name, one.status, one.partial) for one in shown] == [("alpha", "completed", False)] * 2
    assert len({one.run_id for one in shown}) == 2


def test_only_the_first_end_counts(ledger: Any) -> None:
    recorder = recorder_of(ledger)
    run = begun(recorder)
    recorder.record(run.started(), run.failed(RuntimeError("down")), run.completed("no"), run.cancelled())
    assert "run_completed" not in by_type(ledger) and len(by_type(ledger)["run_failed"]) == 1


def test_a_second_recorder_of_the_same_ledger_stays_silent_until_the_run_is_over(ledger: Any) -> None:
    first, second = recorder_of(ledger), recorder_of(ledger)
    run = begun(first)
    assert second.begin("alpha", key="k") is None
    with chatsnapshot.open("memory:") as elsewhere:
        assert recorder_of(elsewhere).begin("alpha", key="k") is not None
    first.end(run)
    assert second.begin("alpha", key="k") is not None


def test_a_recorder_that_is_gone_holds_nothing_back(ledger: Any) -> None:
    begun(recorder_of(ledger))
    assert recorder_of(ledger).begin("alpha", key="k") is not None


def test_an_id_of_the_runtime_makes_the_same_event_again(ledger: Any) -> None:
    def capture(recorder: RuntimeRecorder) -> None:
        run = begun(recorder, run_id="r1")
        recorder.record(
            run.started(native_id="1", at_ns=10**18), run.completed(native_id="2", at_ns=10**18 + 1)
        )
        recorder.end(run)

    capture(recorder_of(ledger))
    capture(recorder_of(ledger))
    assert [entry.event_type for entry in ledger.read()] == [
        "execution.run_started",
        "execution.run_completed",
    ]
    assert next(iter(ledger.read())).event.timestamp == "2001-09-09T01:46:40.000000Z"


class Failing:
    """A ledger that takes nothing."""

    def record_many(self, events: Any) -> Any:
        raise StoreUnavailable("away")

    async def arecord_many(self, events: Any) -> Any:
        raise StoreUnavailable("away")

    def read(self, **options: Any) -> Any:
        raise StoreUnavailable("away")


def test_a_ledger_that_takes_nothing_harms_nothing() -> None:
    recorder = recorder_of(Failing())
    run = begun(recorder, resumed=True)
    recorder.record(run.started(), run.tool_call("c", "t", {}))
    with run.inside("c"):
        asyncio.run(recorder.arecord(run.completed()))
    assert recorder.safe.kept == 3


def test_a_recording_on_an_event_loop_holds_it_up_for_a_moment_only() -> None:
    hold = threading.Event()

    class Hanging(Failing):
        def record_many(self, events: Any) -> Any:
            hold.wait(20)

    async def main() -> float:
        recorder = recorder_of(Hanging())
        run = begun(recorder)
        loop = asyncio.get_running_loop()
        began = loop.time()
        recorder.record(run.started())
        recorder.record(run.completed())
        return loop.time() - began

    try:
        assert asyncio.run(main()) < 4  # wait_seconds_max is 5
    finally:
        hold.set()

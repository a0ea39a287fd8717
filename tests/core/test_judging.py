from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger, NotFound


@pytest.fixture
def snapshot() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as ledger:
        yield ledger


def test_a_run_is_evaluated_long_after_as_an_event_of_its_own(snapshot: Ledger) -> None:
    with snapshot.run("run-1", name="triage") as run:
        pass
    entry = snapshot.evaluate("run-1", name="correctness", score=0.5, evaluator="judge", kind="model")
    assert (entry.event_type, entry.correlation_id) == ("execution.evaluation", "run-1")
    assert entry.causation_id == run.started.event_id  # type: ignore[union-attr]
    assert entry.payload == {
        "run_id": "run-1", "name": "correctness", "score": 0.5, "evaluator": "judge", "kind": "model",
    }  # fmt: skip
    again = snapshot.evaluate(run, name="correctness", score=0.9, evaluator="judge")
    (seen,) = snapshot.view("runs", "run-1").runs
    assert seen.status == "completed"
    assert [(one.position, one.score) for one in seen.evaluations] == [
        (entry.position, 0.5),
        (again.position, 0.9),
    ]


def test_an_event_is_evaluated_by_entry_or_id_and_counts_for_its_run(snapshot: Ledger) -> None:
    with snapshot.run("corr", run_id="first"):
        message = snapshot.record("execution.message", {"role": "assistant", "content": "42"})
    with snapshot.run("corr", run_id="second"):
        pass
    for target in (message, message.event_id, message.event):
        entry = snapshot.evaluate(target, name="helpful", label="yes", comment="quick")
        assert entry.payload["target_event_id"] == message.event_id == entry.causation_id
        assert entry.payload["run_id"] == "first"
    first, second = snapshot.view("runs", "corr").runs
    assert len(first.evaluations) == 3 and second.evaluations == ()


def test_a_run_inside_of_another_correlation_is_named_with_it(snapshot: Ledger) -> None:
    with snapshot.run("corr", run_id="inner"):
        pass
    with pytest.raises(NotFound, match="correlation_id"):
        snapshot.evaluate("inner", name="x", score=1)
    entry = snapshot.evaluate("inner", correlation_id="corr", name="x", score=1)
    assert (entry.correlation_id, entry.payload["run_id"]) == ("corr", "inner")


@pytest.mark.parametrize(
    ("judgement", "says"),
    [
        ({"name": "x"}, "a score or a label"),
        ({"name": "", "score": 1}, "has a name"),
        ({"name": "x", "score": float("nan")}, "finite"),
        ({"name": "x", "score": "good"}, "a word is a label"),
        ({"name": "x", "label": 3}, "a number is a score"),
        ({"name": "x", "score": 1, "kind": "robot"}, "human, model, code"),
    ],
)
def test_a_judgement_that_says_nothing_is_refused(
    snapshot: Ledger, judgement: dict[str, Any], says: str
) -> None:
    snapshot.record("a.b", correlation_id="run-1")
    with pytest.raises(InvalidEvent, match=says):
        snapshot.evaluate("run-1", **judgement)
    assert snapshot.head == 1


def test_the_same_judgement_with_a_key_is_recorded_once(snapshot: Ledger) -> None:
    snapshot.record("a.b", correlation_id="run-1")
    first = snapshot.evaluate("run-1", name="x", score=1, idempotency_key="k")
    assert snapshot.evaluate("run-1", name="x", score=1, idempotency_key="k") == first
    assert asyncio.run(snapshot.aevaluate("run-1", name="y", score=2)).payload["name"] == "y"


def test_a_judgement_recorded_elsewhere_counts_for_the_run_that_it_names(snapshot: Ledger) -> None:
    from chatsnapshot.projections.views import list_runs

    with snapshot.run("run-1"):
        pass
    payload = {"run_id": "run-1", "name": "correctness", "score": 0.9}
    snapshot.record("execution.evaluation", payload, correlation_id="nightly")
    judged = {run.run_id: [one.name for one in run.evaluations] for run in list_runs(snapshot)}
    assert judged == {"run-1": ["correctness"], "nightly": []}
    assert [run.run_id for run in list_runs(snapshot, evaluation="correctness>=0.9")] == ["run-1"]


def test_a_run_whose_process_died_is_closed_once(snapshot: Ledger) -> None:
    start = snapshot.record("execution.run_started", {"name": "lost"}, correlation_id="run-1")
    snapshot.record("execution.message", {"role": "user", "content": "x"}, correlation_id="run-1")
    entry = snapshot.end("run-1", reason="killed by the operator")
    assert entry.event_type == "execution.run_cancelled"
    assert (entry.causation_id, entry.source.origin) == (start.event_id, "system")
    assert entry.payload == {"reason": "killed by the operator"}
    (run,) = snapshot.view("runs", "run-1").runs
    assert (run.status, run.reason) == ("cancelled", "killed by the operator")
    with pytest.raises(InvalidEvent, match=r"has ended with execution.run_cancelled at position 3"):
        snapshot.end("run-1")
    assert snapshot.head == 3


def test_a_paused_run_can_be_closed_and_a_resumed_one_too(snapshot: Ledger) -> None:
    for step in ("run_started", "run_paused"):
        snapshot.record(f"execution.{step}", correlation_id="run-1")
    assert snapshot.end("run-1", status="failed", reason="gone").payload["error"] == {"message": "gone"}
    snapshot.record("execution.run_resumed", correlation_id="run-1")
    assert snapshot.end("run-1", status="completed").event_type == "execution.run_completed"


def test_workflows_and_named_runs_are_closed_by_their_own_types(snapshot: Ledger) -> None:
    snapshot.record("system.workflow_started", {"workflow_id": "w"}, correlation_id="c")
    snapshot.record("execution.run_started", {"run_id": "r"}, correlation_id="c")
    ended = snapshot.end("r", correlation_id="c")
    assert (ended.event_type, ended.payload) == ("execution.run_cancelled", {"run_id": "r"})
    ended = snapshot.end("w", correlation_id="c", status="failed")
    assert (ended.event_type, ended.payload["workflow_id"]) == ("system.workflow_failed", "w")


@pytest.mark.parametrize(
    ("run", "options", "error", "says"),
    [
        ("nobody", {}, NotFound, "no run 'nobody' was begun"),
        ("plain", {}, NotFound, "no run 'plain' was begun"),
        ("plain", {"status": "stopped"}, InvalidEvent, "one of cancelled, failed, completed, paused"),
    ],
)
def test_what_never_began_is_not_closed(
    snapshot: Ledger, run: str, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    snapshot.record("execution.message", {"role": "user", "content": "x"}, correlation_id="plain")
    with pytest.raises(error, match=says):
        snapshot.end(run, **options)


def test_a_run_that_goes_on_is_not_closed(snapshot: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.record("execution.run_started", correlation_id="run-1")
    before = snapshot._store.last_sequence

    def meanwhile(correlation: str) -> int:
        found = before(correlation)
        thread = threading.Thread(target=snapshot.record, args=("a.b",), kwargs={"correlation_id": "run-1"})
        thread.start()
        thread.join()
        return found

    monkeypatch.setattr(snapshot._store, "last_sequence", meanwhile)
    with pytest.raises(InvalidEvent, match="goes on"):
        snapshot.end("run-1")
    assert snapshot.head == 2

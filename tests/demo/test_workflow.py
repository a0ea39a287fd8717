"""A workflow whose only memory is the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.demo.workflow import Task, Workflow


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


class Stopped(BaseException):
    """Ends the process's work as a kill does: nothing of the workflow sees it."""


def counting(done: list[str], *names: str) -> list[Task]:
    def task(name: str) -> Task:
        async def do(work: Any) -> Any:
            done.append(name)
            return {"name": name, "knows": sorted(work.outputs)}

        return Task(name, do, tuple(names[: names.index(name)][-1:]))

    return [task(name) for name in names]


def stop_after(name: str) -> Any:
    def hook(completed: str) -> None:
        if completed == name:
            raise Stopped

    return hook


def types(ledger: Ledger) -> list[str]:
    return [entry.event_type.removeprefix("system.") for entry in ledger.read()]


def test_tasks_run_in_order_and_know_what_those_before_them_gave(ledger: Ledger) -> None:
    done: list[str] = []
    outputs = asyncio.run(Workflow(ledger, "w", "work", counting(done, "a", "b")).run())
    assert done == ["a", "b"]
    assert outputs["b"] == {"name": "b", "knows": ["a"]}
    assert types(ledger) == [
        "workflow_started",
        "task_scheduled",
        "task_scheduled",
        "task_started",
        "task_completed",
        "task_started",
        "task_completed",
        "workflow_completed",
    ]


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_another_process_runs_only_what_is_not_completed(ledger: Ledger, last: str) -> None:
    done: list[str] = []
    with pytest.raises(Stopped):
        asyncio.run(
            Workflow(ledger, "w", "work", counting(done, "a", "b", "c")).run(after_each=stop_after(last))
        )
    outputs = asyncio.run(Workflow(ledger, "w", "work", counting(done, "a", "b", "c")).run())
    assert done == ["a", "b", "c"]
    assert outputs["c"]["knows"] == ["a", "b"]
    resumed = next(ledger.read(event_type="system.workflow_resumed"))
    assert resumed.payload["completed"] == ["a", "b", "c"][: "abc".index(last) + 1]
    assert resumed.payload["remaining"] == ["a", "b", "c"]["abc".index(last) + 1 :]
    assert types(ledger)[-1] == "workflow_completed"
    assert types(ledger).count("workflow_started") == 1


def test_a_task_that_was_started_only_runs_again(ledger: Ledger) -> None:
    done: list[str] = []

    async def stop(work: Any) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        asyncio.run(Workflow(ledger, "w", "work", [*counting(done, "a"), Task("b", stop)]).run())
    asyncio.run(Workflow(ledger, "w", "work", counting(done, "a", "b")).run())
    assert done == ["a", "b"]


def test_a_failing_task_fails_the_workflow_and_is_tried_again_later(ledger: Ledger) -> None:
    done: list[str] = []

    async def fail(work: Any) -> None:
        raise ValueError("no glass in stock")

    with pytest.raises(ValueError, match="no glass"):
        asyncio.run(Workflow(ledger, "w", "work", [*counting(done, "a"), Task("b", fail)]).run())
    assert types(ledger)[-2:] == ["task_failed", "workflow_failed"]
    asyncio.run(Workflow(ledger, "w", "work", counting(done, "a", "b")).run())
    assert done == ["a", "b"]
    assert types(ledger)[-1] == "workflow_completed"


def test_a_completed_task_cannot_be_completed_again(ledger: Ledger) -> None:
    done: list[str] = []
    flow = Workflow(ledger, "w", "work", counting(done, "a"))
    asyncio.run(flow.run())
    with pytest.raises(chatsnapshot.EventConflict):
        ledger.record(
            "system.task_completed",
            {"task_id": "a", "output": "another"},
            correlation_id="w",
            idempotency_key="system.task_completed a",
        )

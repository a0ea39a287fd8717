"""A run has one start and exactly one end, whatever leaves the block, and exceptions go on unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot import InvalidEvent, Ledger, StoreFull


def kinds(ledger: Ledger, correlation: str = "r") -> list[str]:
    return [entry.event_type.removeprefix("execution.") for entry in ledger.read(correlation_id=correlation)]


def test_a_run_starts_and_completes(ledger: Ledger) -> None:
    with ledger.run("r", name="triage", tags=["a"]) as run:
        inside = run.record("execution.message", {"role": "user", "content": "Hello"})
        outside = ledger.record("execution.message", {"role": "user", "content": "Hello"})
    entries = list(ledger.read())
    assert kinds(ledger) == ["run_started", "message", "message", "run_completed"]
    assert entries[0].payload == {"name": "triage", "tags": ["a"]}
    assert inside.causation_id == outside.causation_id == entries[0].event_id == entries[3].causation_id
    assert run.started == entries[0]
    assert run.ended == entries[3]


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "kind", "payload"),
    [
        (ValueError("no"), "run_failed", {"error": {"type": "ValueError", "module": "builtins", "message": "no"}}),
        (Odd(), "run_failed", {"error": {"type": "Odd", "module": __name__, "message": "<unprintable>"}}),
        (KeyboardInterrupt(), "run_cancelled", {"reason": "KeyboardInterrupt"}),
        (asyncio.CancelledError(), "run_cancelled", {"reason": "CancelledError"}),
        (GeneratorExit(), "run_cancelled", {"reason": "GeneratorExit"}),
        (SystemExit(0), "run_completed", {}),
        (SystemExit(), "run_completed", {}),
        (SystemExit(3), "run_failed", {"error": {"type": "SystemExit", "module": "builtins", "message": "3"}}),
    ],
)  # fmt: skip
def test_what_leaves_the_block_is_recorded_and_goes_on_unchanged(
    ledger: Ledger, error: BaseException, kind: str, payload: dict[str, Any]
) -> None:
    with pytest.raises(BaseException) as caught, ledger.run("r"):
        raise error
    assert caught.value is error
    assert kinds(ledger) == ["run_started", kind]
    assert list(ledger.read())[1].payload == payload


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "pause"])
def test_a_run_that_was_ended_early_has_no_second_end(ledger: Ledger, end: str) -> None:
    with ledger.run("r") as run:
        getattr(run, end)("because")
        with pytest.raises(InvalidEvent, match="exactly one end"):
            run.complete()
    assert len(kinds(ledger)) == 2
    assert (
        kinds(ledger)[1]
        == {
            "complete": "run_completed",
            "fail": "run_failed",
            "cancel": "run_cancelled",
            "pause": "run_paused",
        }[end]
    )


def test_a_run_cannot_end_before_it_began(ledger: Ledger) -> None:
    with pytest.raises(InvalidEvent, match="has not begun"):
        ledger.run("r").complete()
    assert ledger.head == 0


def test_a_paused_run_goes_on_in_another_block(ledger: Ledger) -> None:
    with ledger.run("r") as run:
        run.pause("waiting for Ada")
    with ledger.run("r", resume=True):
        pass
    assert kinds(ledger) == ["run_started", "run_paused", "run_resumed", "run_completed"]
    with pytest.raises(InvalidEvent, match="needs its correlation_id"):
        ledger.run(resume=True)


def test_a_run_inside_a_run_is_its_child(ledger: Ledger) -> None:
    with ledger.run("parent") as parent:
        call = parent.record("execution.tool_call", {"name": "ask"})
        with ledger.run(name="child") as child:
            child.record("execution.message", {"role": "user", "content": "?"})
        with ledger.run("named", cause=call):
            pass
    first = next(iter(ledger.read(correlation_id=child.correlation_id)))
    assert child.correlation_id not in (None, "parent")
    assert first.causation_id == parent.started.event_id
    assert first.payload == {"name": "child", "parent_run_id": "parent"}
    assert next(iter(ledger.read(correlation_id="named"))).causation_id == call.event_id


def test_a_second_run_in_the_same_correlation_has_an_id_of_its_own(ledger: Ledger) -> None:
    with ledger.run("r"), ledger.run("r") as inner:
        pass
    entries = list(ledger.read(correlation_id="r"))
    assert [entry.payload.get("run_id") for entry in entries] == [None, inner.run_id, inner.run_id, None]
    assert inner.run_id != "r"


def test_an_async_run_and_a_cancelled_task(ledger: Ledger) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def work() -> None:
            async with ledger.run("r") as run:
                await run.arecord("execution.message", {"role": "user", "content": "Hello"})
                started.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with ledger.run("s") as run:
            await run.acomplete({"answer": 42}, usage={"tokens": 3})

    asyncio.run(main())
    assert kinds(ledger) == ["run_started", "message", "run_cancelled"]
    assert list(ledger.read(correlation_id="s"))[1].payload == {
        "output": {"answer": 42},
        "usage": {"tokens": 3},
    }


def test_parallel_tasks_have_runs_of_their_own(ledger: Ledger) -> None:
    async def work(name: str) -> None:
        async with ledger.run(name):
            await asyncio.sleep(0)
            await ledger.arecord("execution.message", {"content": name})

    async def main() -> None:
        async with ledger.run("parent"):
            await asyncio.gather(*[work(f"child-{number}") for number in range(10)])

    asyncio.run(main())
    for number in range(10):
        start, message, end = ledger.read(correlation_id=f"child-{number}")
        assert message.causation_id == end.causation_id == start.event_id
        assert message.payload == {"content": f"child-{number}"}


def test_an_end_that_cannot_be_recorded_never_hides_the_callers_error(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    before = gate(ledger)
    with pytest.raises(ValueError, match="the caller's"), ledger.run("r"):
        before.failure = StoreFull("no space")
        raise ValueError("the caller's")
    before.failure = None
    with pytest.raises(StoreFull), ledger.run("s"):
        before.failure = StoreFull("no space")


def test_a_start_that_cannot_be_recorded_enters_nothing(
    ledger: Ledger, gate: Callable[[Ledger], Any]
) -> None:
    gate(ledger).failure = StoreFull("no space")
    with pytest.raises(StoreFull), ledger.run("r"):
        pytest.fail("the block must not run")
    with pytest.raises(InvalidEvent):
        ledger.record("a.b")

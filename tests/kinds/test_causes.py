"""Wrong or missing causes: pools, executors, generators in generators, ends that come before their starts."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chatsnapshot import Ledger, LedgerEntry


def test_a_cause_that_is_given_is_kept_in_a_pool_and_in_an_executor(ledger: Ledger) -> None:
    step = ledger.record("a.step", correlation_id="c")
    other = ledger.record("a.step", correlation_id="c")

    def tool(number: int) -> LedgerEntry:
        return ledger.record("a.tool", {"n": number}, correlation_id="c", causation_id=step)

    async def main() -> list[LedgerEntry]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, tool, number) for number in range(4)))

    with ledger.scope("elsewhere", cause=other):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(ledger.wrap(tool), range(4)))
        found += asyncio.run(main())
    assert {entry.causation_id for entry in found} == {step.event_id}
    assert len(list(ledger.read(causation_id=step.event_id))) == 8


def test_a_thread_without_the_scope_has_no_cause_and_never_a_wrong_one(ledger: Ledger) -> None:
    cause = ledger.record("a.step", correlation_id="c")
    with ThreadPoolExecutor(2) as pool:
        pool.submit(ledger.record, "a.tool", correlation_id="before").result()  # a thread that is used again
        with ledger.scope("c", cause=cause):
            bare = pool.submit(ledger.record, "a.tool", correlation_id="c").result()

            async def main() -> LedgerEntry:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(pool, lambda: ledger.record("a.tool", correlation_id="c"))

            executed = asyncio.run(main())
    assert (bare.causation_id, executed.causation_id) == (None, None)


def test_streams_in_streams_nest_and_last_from_their_first_step_to_their_end(
    ledger: Ledger,
) -> None:
    async def inner() -> AsyncIterator[int]:
        async with ledger.run(name="inner"):
            for number in range(2):
                await ledger.arecord("execution.message", {"role": "assistant", "content": str(number)})
                yield number

    async def outer() -> AsyncIterator[int]:
        async with ledger.run(name="outer"):
            async for number in ledger.wrap(inner)():
                yield number

    async def main() -> None:
        stream: Any = ledger.wrap(outer)()
        assert ledger.head == 0  # nothing has begun before the first step
        async for _ in stream:
            pass

    asyncio.run(main())
    (top,) = ledger.view("runs")
    assert (top.name, top.status, [child.name for child in top.children]) == ("outer", "completed", ["inner"])
    (child,) = top.children
    assert child.messages == 2
    assert child.duration_ns and top.duration_ns
    assert child.duration_ns < top.duration_ns


def test_a_stream_that_is_left_early_logs_no_error_and_keeps_what_came(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    async def stream() -> AsyncIterator[int]:
        async with ledger.run("streamed"):
            for number in range(9):
                await ledger.arecord("a.part", {"n": number})
                yield number

    async def main() -> None:
        async for number in ledger.wrap(stream)():
            if number == 2:
                break
        gc.collect()
        for _ in range(20):  # the loop closes the generator in a task of its own
            await asyncio.sleep(0)
        await ledger.aflush()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.records == []
    assert [entry.payload["n"] for entry in ledger.read(event_type="a.part")] == [0, 1, 2]
    (run,) = ledger.view("runs")
    assert run.status == "cancelled"


def test_an_end_before_its_start_is_taken_and_joined_once_both_are_there(ledger: Ledger) -> None:
    late = "01900000-0000-7000-8000-000000000001"
    result = ledger.record(
        "execution.tool_result", {"call_id": "1", "result": 4}, correlation_id="c", causation_id=late
    )
    assert ledger.verify().dangling_causes == (result.position,)
    ledger.record("execution.tool_call", {"call_id": "1", "name": "add"}, correlation_id="c", event_id=late)
    report = ledger.verify()
    assert (report.ok, report.dangling_causes, report.open_tool_calls) == (True, (), ())
    (tool,) = ledger.view("transcript", "c").items
    assert (tool.name, tool.status) == ("add", "ok")


def test_a_call_is_open_only_as_long_as_neither_its_id_nor_its_cause_was_answered(ledger: Ledger) -> None:
    def call(call_id: str | None) -> LedgerEntry:
        payload = {"name": "add"} | ({"call_id": call_id} if call_id else {})
        return ledger.record("execution.tool_call", payload, correlation_id="c")

    def answer(call_id: str | None, cause: LedgerEntry | None = None) -> None:
        payload = {"result": 4} | ({"call_id": call_id} if call_id else {})
        ledger.record("execution.tool_result", payload, correlation_id="c", causation_id=cause)

    answer("1", call("1"))
    answer(None, call("2"))  # the answer says only what caused it
    answer("3")
    call("3")
    other = call("4")
    answer("5", other)  # another call, which this one led to
    again = call("1")  # an id that is used again is another call
    bare = call(None)
    assert ledger.verify().open_tool_calls == (other.position, again.position, bare.position)
    answer("1")
    answer("4")
    answer(None, bare)
    assert ledger.verify().open_tool_calls == ()

"""One scope object in several hands, and wrapped generators: no scope stays where it does not belong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger


def where(ledger: Ledger) -> str:
    """The correlation that a plain record would get here."""
    try:
        return ledger.record("a.b").correlation_id
    except InvalidEvent:
        return "none"


def test_a_scope_entered_twice_is_left_twice(ledger: Ledger) -> None:
    scope = ledger.scope("x")
    with scope:
        with scope:
            assert where(ledger) == "x"
        assert where(ledger) == "x"
    assert where(ledger) == "none"
    with scope:
        assert where(ledger) == "x"
    assert where(ledger) == "none"


def test_a_scope_that_several_tasks_enter_is_left_by_each(ledger: Ledger) -> None:
    scope = ledger.scope("shared")

    async def work(inside: asyncio.Event, leave: asyncio.Event) -> str:
        with scope:
            inside.set()
            await leave.wait()
            assert where(ledger) == "shared"
        return where(ledger)

    async def main() -> list[str]:
        events = [(asyncio.Event(), asyncio.Event()) for _ in range(3)]
        tasks = [asyncio.create_task(work(*pair)) for pair in events]
        for inside, _ in events:
            await inside.wait()
        for _, leave in events:  # the first to enter leaves first
            leave.set()
            await asyncio.sleep(0)
        return [*(await asyncio.gather(*tasks)), where(ledger)]

    assert asyncio.run(main()) == ["none"] * 4


def test_a_scope_that_several_threads_enter_is_left_by_each(
    ledger: Ledger, together: Callable[..., list[Any]]
) -> None:
    import threading

    scope, barrier = ledger.scope("shared"), threading.Barrier(4)

    def work(_: int) -> list[str]:
        found = []
        for _ in range(20):
            with scope:
                barrier.wait(30)
                found.append(where(ledger))
            found.append(where(ledger))
        return found

    assert together(work, 4) == [["shared", "none"] * 20] * 4


def test_scopes_left_out_of_order_leave_nothing_behind(ledger: Ledger) -> None:
    outer, inner = ledger.scope("outer"), ledger.scope("inner")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    assert where(ledger) == "none"


def test_a_scope_works_wherever_its_object_goes(ledger: Ledger) -> None:
    with ledger.run("r") as run, ThreadPoolExecutor(1) as pool:
        entry = pool.submit(run.record, "a.b", {"x": 1}).result()
    assert run.started is not None
    assert (entry.correlation_id, entry.causation_id) == ("r", run.started.event_id)


def test_the_scope_of_a_ledger_that_is_gone_is_not_taken_for_that_of_a_new_one(
    opened: Callable[..., Ledger],
) -> None:
    async def main() -> list[str]:
        found = []
        for _ in range(50):
            old = chatsnapshot.open("memory:")
            old.scope("old").__enter__()
            old.close()
            del old
            gc.collect(0)
            new = chatsnapshot.open("memory:")
            found.append(where(new))
            new.close()
        return found

    assert set(asyncio.run(main())) == {"none"}


# --- wrap ---


def test_a_wrapped_generator_takes_values_and_errors_and_gives_its_result(ledger: Ledger) -> None:
    heard: list[Any] = []

    def talk() -> Iterator[Any]:
        heard.append((yield where(ledger)))
        try:
            yield "second"
        except ValueError as error:
            heard.append(str(error))
            yield where(ledger)
        return "done"

    with ledger.scope("bound"):
        bound = ledger.wrap(talk)
    with ledger.scope("other"):
        steps = bound()
        assert next(steps) == "bound"
        assert steps.send("hello") == "second"
        assert steps.throw(ValueError("thrown")) == "bound"
        with pytest.raises(StopIteration) as stopped:
            next(steps)
        assert where(ledger) == "other"
    assert stopped.value.value == "done"
    assert heard == ["hello", "thrown"]


def test_a_wrapped_generator_that_is_closed_runs_its_end_in_its_scope(ledger: Ledger) -> None:
    ends: list[str] = []

    def talk() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ends.append(where(ledger))

    with ledger.scope("bound"):
        bound = ledger.wrap(talk)
    for _ in bound():
        break
    gc.collect()
    closed = bound()
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    bound().close()  # type: ignore[attr-defined]
    assert ends == ["bound", "bound"]


def test_a_wrapped_generator_makes_a_context_manager(ledger: Ledger) -> None:
    seen: list[str] = []

    def manage() -> Iterator[str]:
        try:
            yield where(ledger)
        except KeyError:
            seen.append("handled")

    with ledger.scope("bound"):
        manager = contextlib.contextmanager(ledger.wrap(manage))
    with manager() as inside:
        raise KeyError
    assert inside == "bound"
    assert seen == ["handled"]


def test_a_wrapped_async_generator_takes_values_and_errors(ledger: Ledger) -> None:
    heard: list[Any] = []

    async def talk() -> AsyncIterator[Any]:
        heard.append((yield where(ledger)))
        try:
            await asyncio.sleep(0)
            yield "second"
        except ValueError as error:
            heard.append(str(error))
            yield where(ledger)
        finally:
            heard.append(where(ledger))

    async def main() -> None:
        with ledger.scope("bound"):
            bound = ledger.wrap(talk)
        steps: Any = bound()
        assert await steps.__anext__() == "bound"
        assert await steps.asend("hello") == "second"
        assert await steps.athrow(ValueError("thrown")) == "bound"
        with pytest.raises(StopAsyncIteration):
            await steps.__anext__()
        early: Any = bound()
        assert await early.__anext__() == "bound"
        await early.aclose()
        assert where(ledger) == "none"

    asyncio.run(main())
    assert heard == ["hello", "thrown", "bound"]


def test_a_wrapped_async_generator_makes_an_async_context_manager(ledger: Ledger) -> None:
    seen: list[str] = []

    async def manage() -> AsyncIterator[str]:
        try:
            yield where(ledger)
        except KeyError:
            seen.append(where(ledger))

    async def main() -> None:
        with ledger.scope("bound"):
            manager = contextlib.asynccontextmanager(ledger.wrap(manage))
        async with manager() as inside:
            assert inside == "bound"
            raise KeyError

    asyncio.run(main())
    assert seen == ["bound"]


def test_a_run_inside_a_generator_left_by_break_has_one_end(ledger: Ledger) -> None:
    async def stream() -> AsyncIterator[int]:
        async with ledger.run("streamed"):
            for number in range(10):
                yield number

    async def main() -> str:
        generator: Any = ledger.wrap(stream)()
        async for number in generator:
            if number == 2:
                break
        await asyncio.create_task(generator.aclose())  # in another context
        return where(ledger)

    assert asyncio.run(main()) == "none"
    assert [entry.event_type for entry in ledger.read()] == [
        "execution.run_started",
        "execution.run_cancelled",
    ]


def test_a_bare_generator_closed_by_the_loop_has_one_end_and_breaks_no_scope(ledger: Ledger) -> None:
    async def stream() -> AsyncIterator[int]:
        async with ledger.run("streamed"):
            yield 1
            yield 2

    async def main() -> None:
        async for _ in stream():
            break
        gc.collect()
        for _ in range(20):  # the loop closes the generator in a task of its own
            await asyncio.sleep(0)
        await ledger.aflush()

    asyncio.run(main())
    assert [entry.event_type for entry in ledger.read()] == [
        "execution.run_started",
        "execution.run_cancelled",
    ]

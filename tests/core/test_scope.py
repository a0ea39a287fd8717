"""Scopes fill in correlation, source and cause: across tasks, threads and generators, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger, Source
from chatsnapshot.clock import uuid_bytes
from chatsnapshot.scope import Scope, Within, innermost_frame, new_frame


def test_a_scope_fills_in_and_records_nothing(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="other")
    with ledger.scope("c", source=Source("ui", "none", "ada"), cause=cause) as scope:
        assert ledger.head == 1
        entry = ledger.record("a.c", {"x": 1})
        own = scope.record("a.d")
    for made in (entry, own):
        assert (made.correlation_id, made.causation_id) == ("c", cause.event_id)
        assert made.source == Source("ui", "none", "ada")
    with pytest.raises(InvalidEvent, match="correlation_id is missing"):
        ledger.record("a.b")


def test_what_is_given_wins_over_the_scope(ledger: Ledger) -> None:
    first = ledger.record("a.b", correlation_id="c")
    second = ledger.record("a.b", correlation_id="c")
    with ledger.scope("c", source=Source("ui"), cause=first):
        entry = ledger.record("a.c", correlation_id="d", causation_id=second, source={"origin": "agent"})
    assert (entry.correlation_id, entry.causation_id, entry.source.origin) == ("d", second.event_id, "agent")


def test_an_inner_scope_inherits_what_it_leaves_out(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="c")
    with ledger.scope("c", source=Source("ui"), cause=cause):
        with ledger.scope("d"):
            entry = ledger.record("a.c")
        after = ledger.record("a.c")
    assert (entry.correlation_id, entry.causation_id, entry.source) == ("d", cause.event_id, Source("ui"))
    assert after.correlation_id == "c"


def test_the_cause_of_a_scope_is_fixed_and_not_the_event_before(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="c")
    with ledger.scope("c", cause=cause):
        entries = [ledger.record("a.c") for _ in range(3)]
    assert {entry.causation_id for entry in entries} == {cause.event_id}


def test_scopes_of_two_ledgers_do_not_mix(ledger: Ledger) -> None:
    with chatsnapshot.open("memory:") as other, ledger.scope("mine"), other.scope("theirs"):
        assert ledger.record("a.b").correlation_id == "mine"
        assert other.record("a.b").correlation_id == "theirs"


def test_a_ledger_that_is_opened_twice_has_one_scope(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path) as one, chatsnapshot.open(path) as same, one.scope("mine"):
        assert same.record("a.b").correlation_id == "mine"


def test_a_batch_takes_the_scope_too(ledger: Ledger) -> None:
    with ledger.scope("c"):
        entries = ledger.record_many([{"event_type": "a.b"}, {"event_type": "a.b", "correlation_id": "d"}])
    assert [entry.correlation_id for entry in entries] == ["c", "d"]


def test_tasks_inherit_the_scope_and_keep_their_own(ledger: Ledger) -> None:
    async def work(name: str) -> tuple[str, str]:
        outer = await ledger.arecord("a.b")
        async with ledger.scope(name):
            await asyncio.sleep(0)
            inner = await ledger.arecord("a.b")
        return outer.correlation_id, inner.correlation_id

    async def main() -> list[tuple[str, str]]:
        with ledger.scope("outer"):
            return await asyncio.gather(*[work(str(number)) for number in range(5)])

    assert asyncio.run(main()) == [("outer", str(number)) for number in range(5)]


def test_a_thread_pool_sees_the_scope_only_through_wrap(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="c")

    def work(number: int) -> str | None:
        return ledger.record("a.c", {"n": number}).causation_id

    with ThreadPoolExecutor(4) as pool:
        with ledger.scope("c", cause=cause):
            found = list(pool.map(ledger.wrap(work), range(8)))
            bare = pool.submit(work, 9)
        with pytest.raises(InvalidEvent):
            bare.result()
    assert found == [cause.event_id] * 8


def test_wrap_carries_coroutines_and_both_kinds_of_generators(ledger: Ledger) -> None:
    async def coroutine() -> str:
        await asyncio.sleep(0)
        return ledger.record("a.b").correlation_id

    def generator() -> Iterator[str]:
        yield ledger.record("a.b").correlation_id
        with ledger.scope("inner"):
            yield ledger.record("a.b").correlation_id

    async def agenerator() -> AsyncIterator[str]:
        yield (await ledger.arecord("a.b")).correlation_id
        with ledger.scope("inner"):
            await asyncio.sleep(0)
            yield (await ledger.arecord("a.b")).correlation_id

    with ledger.scope("c"):
        carried: tuple[Callable[..., object], ...] = tuple(
            ledger.wrap(function) for function in (coroutine, generator, agenerator)
        )

    async def main() -> list[str]:
        found = [await carried[0]()]  # type: ignore[misc]
        for text in carried[1]():  # type: ignore[attr-defined]
            found.append(text)
            with pytest.raises(InvalidEvent):  # nothing leaks to the consumer
                ledger.record("a.b")
        async for text in carried[2]():  # type: ignore[attr-defined]
            found.append(text)
            with pytest.raises(InvalidEvent):
                ledger.record("a.b")
        return found

    assert asyncio.run(main()) == ["c", "c", "inner", "c", "inner"]


def test_wrap_passes_errors_and_values_into_a_coroutine_unchanged(ledger: Ledger) -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        failing = loop.create_future()
        loop.call_soon(failing.set_exception, ValueError("from outside"))

        async def work() -> str:
            with pytest.raises(ValueError, match="from outside"):
                await failing
            return "caught"

        return await ledger.wrap(work)()

    assert asyncio.run(main()) == "caught"


def test_an_async_generator_that_is_left_early_breaks_no_scope(ledger: Ledger) -> None:
    async def stream() -> AsyncIterator[int]:
        async with ledger.scope("inner"):
            for number in range(3):
                await ledger.arecord("a.b", {"n": number})
                yield number

    async def main() -> None:
        async for _ in stream():
            break  # closed later by the loop, in another context

    asyncio.run(main())
    assert [entry.payload["n"] for entry in ledger.read()] == [0]
    with pytest.raises(InvalidEvent):
        ledger.record("a.b")


def test_causes_can_be_given_in_every_form(ledger: Ledger) -> None:
    cause = ledger.record("a.b", correlation_id="c")
    import uuid

    forms = [cause, cause.event, cause.event_id, uuid.UUID(cause.event_id)]
    forms.append(ledger.record("a.b", correlation_id="c", wait=False))
    entries = [ledger.record("a.c", correlation_id="c", causation_id=form) for form in forms]
    assert [entry.causation_id for entry in entries[:4]] == [cause.event_id] * 4
    assert entries[4].causation_id == forms[4].event_id


def test_a_scope_that_holds_only_somewhere_is_passed_over_elsewhere(ledger: Ledger) -> None:
    here = True
    cause = ledger.record("a.b", correlation_id="c")
    outer = ledger.scope("outer")
    frame = new_frame(ledger.scope_owner, "inner", None, uuid_bytes(cause.event_id), None)
    with outer, Scope(ledger, frame, Within(lambda: here)):
        inside = ledger.record("a.c")
        here = False
        outside = ledger.record("a.c")
        assert innermost_frame() is not None
    assert (inside.correlation_id, inside.causation_id) == ("inner", cause.event_id)
    assert (outside.correlation_id, outside.causation_id) == ("outer", None)
    assert innermost_frame() is None

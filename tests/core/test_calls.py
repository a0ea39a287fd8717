from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger, NotFound
from chatsnapshot.playback import RecordedFailure


@pytest.fixture
def snapshot() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as ledger:
        yield ledger


def told(ledger: Ledger, correlation: str = "run-1") -> list[tuple[str, Any]]:
    return [
        (entry.event_type.partition(".")[2], entry.payload)
        for entry in ledger.read(correlation_id=correlation)
    ]


def test_a_decorated_function_records_call_and_result_and_behaves_as_before(snapshot: Ledger) -> None:
    @snapshot.tool
    def add(a: int, b: int = 2, *rest: int, **more: int) -> int:
        "Adds."
        return a + b + sum(rest) + sum(more.values())

    with snapshot.scope("run-1"):
        assert add(1) == 3
        assert add(1, 2, 3, x=4) == 10
    (call, asked), (result, answer), (_, second), _ = told(snapshot)
    assert (call, asked["name"], asked["arguments"]) == ("tool_call", "add", {"a": 1})
    assert (result, answer["result"], answer["call_id"]) == ("tool_result", 3, asked["call_id"])
    assert second["arguments"] == {"a": 1, "b": 2, "rest": [3], "x": 4}
    assert second["call_id"] != asked["call_id"]
    assert add.__name__ == "add" and add.__doc__ == "Adds."
    entries = list(snapshot.read(correlation_id="run-1"))
    assert entries[1].causation_id == entries[0].event_id


def test_an_error_is_recorded_and_raised_unchanged(snapshot: Ledger) -> None:
    failure = ValueError("no such order")

    @snapshot.tool
    def find(order: int) -> None:
        raise failure

    with snapshot.scope("run-1"), pytest.raises(ValueError) as raised:
        find(7)
    assert raised.value is failure
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    payload = told(snapshot)[1][1]
    assert payload["is_error"] is True
    assert payload["error"] == {"type": "ValueError", "module": "builtins", "message": "no such order"}
    assert "result" not in payload


def test_what_is_recorded_inside_has_the_call_as_its_cause(snapshot: Ledger) -> None:
    @snapshot.tool("outer")
    def outer() -> None:
        snapshot.record("execution.message", {"role": "tool", "content": "x"})
        inner()

    @snapshot.tool("inner")
    def inner() -> None: ...

    with snapshot.run("run-1"):
        outer()
    started, call, message, within, inner_result, outer_result, _ = snapshot.read(correlation_id="run-1")
    assert call.causation_id == started.event_id
    assert message.causation_id == within.causation_id == outer_result.causation_id == call.event_id
    assert inner_result.causation_id == within.event_id


def test_methods_leave_self_out_and_static_and_class_methods_work(snapshot: Ledger) -> None:
    class Shop:
        @snapshot.tool
        def find(self, order: int) -> int:
            return order

        @snapshot.tool
        @staticmethod
        def price(of: str) -> str:
            return of

        @snapshot.tool
        @classmethod
        def name(cls, prefix: str) -> str:
            return prefix + cls.__name__

    with snapshot.scope("run-1"):
        assert Shop().find(7) == 7
        assert Shop.price("lamp") == "lamp" and Shop().price(of="lamp") == "lamp"
        assert Shop.name("the ") == "the Shop"
    given = [payload["arguments"] for kind, payload in told(snapshot) if kind == "tool_call"]
    assert given == [{"order": 7}, {"of": "lamp"}, {"of": "lamp"}, {"prefix": "the "}]


def test_wrong_arguments_raise_what_the_function_raises(snapshot: Ledger) -> None:
    @snapshot.tool
    def find(order: int) -> None: ...

    with snapshot.scope("run-1"), pytest.raises(TypeError, match="wrong"):
        find(1, 2, wrong=3)  # type: ignore[call-arg]
    assert told(snapshot)[0][1]["arguments"] == {"args": [1, 2], "wrong": 3}
    assert told(snapshot)[1][1]["error"]["type"] == "TypeError"


def test_arguments_are_those_of_the_moment_of_the_call(snapshot: Ledger) -> None:
    @snapshot.tool
    def change(items: list[int]) -> list[int]:
        items.append(2)
        return items

    given = [1]
    with snapshot.scope("run-1"):
        result = change(given)
    result.append(3)
    assert told(snapshot)[0][1]["arguments"] == {"items": [1]}
    assert told(snapshot)[1][1]["result"] == [1, 2]


def test_tasks_say_what_they_stand_in_and_depend_on(snapshot: Ledger) -> None:
    @snapshot.task(depends_on=["t-0"], task_id="t-1")
    def outer() -> str:
        inner("x")
        return "done"

    @snapshot.task
    def inner(what: str) -> None: ...

    with snapshot.scope("run-1"):
        outer()
    (_, first), (_, second), (ended, inner_end), (kind, outer_end) = told(snapshot)
    assert first == {"task_id": "t-1", "name": "outer", "depends_on": ["t-0"], "input": {}}
    assert (second["parent_task_id"], second["input"]) == ("t-1", {"what": "x"})
    assert (ended, inner_end["output"]) == ("task_completed", None)
    assert (kind, outer_end) == ("task_completed", {"task_id": "t-1", "name": "outer", "output": "done"})


def test_a_task_that_fails_or_is_cancelled_says_so(snapshot: Ledger) -> None:
    @snapshot.task
    def work(error: BaseException) -> None:
        raise error

    with snapshot.scope("run-1"):
        with pytest.raises(OSError):
            work(OSError("disk"))
        with pytest.raises(KeyboardInterrupt):
            work(KeyboardInterrupt())
    ends = [
        (kind, payload.get("reason"), payload.get("error", {}).get("type"))
        for kind, payload in told(snapshot)
    ]
    assert ends[1] == ("task_failed", None, "OSError")
    assert ends[3] == ("task_cancelled", "KeyboardInterrupt", None)


def test_a_call_as_a_block_records_what_it_returns(snapshot: Ledger) -> None:
    with snapshot.tool("search", arguments={"q": "tides"}, call_id="c-1", correlation_id="run-1") as call:
        assert call.returns(["a"], cached=True) == ["a"]
    assert call.call_id == "c-1" and call.ended is not None
    assert told(snapshot) == [
        ("tool_call", {"call_id": "c-1", "name": "search", "arguments": {"q": "tides"}}),
        ("tool_result", {"call_id": "c-1", "name": "search", "cached": True, "result": ["a"]}),
    ]
    with pytest.raises(InvalidEvent, match="begun already"), call:
        pass
    with pytest.raises(InvalidEvent, match="no name"), snapshot.tool():
        pass


def test_outside_of_a_scope_each_outermost_call_has_a_correlation_of_its_own(snapshot: Ledger) -> None:
    @snapshot.tool
    def inner() -> None: ...

    @snapshot.task
    def outer() -> None:
        inner()

    outer()
    outer()
    correlations = [entry.correlation_id for entry in snapshot.read()]
    assert len(set(correlations)) == 2 and correlations[:4] == [correlations[0]] * 4


def test_what_must_not_be_recorded_is_left_out(snapshot: Ledger) -> None:
    @snapshot.tool(record_arguments=False, record_result=False)
    def login(password: str) -> str:
        return password

    with snapshot.scope("run-1"):
        assert login("hunter2") == "hunter2"
    assert b"hunter2" not in b"".join(entry.payload_json or b"" for entry in snapshot.read())


def test_a_coroutine_function_is_recorded_without_blocking_the_loop(snapshot: Ledger) -> None:
    @snapshot.tool
    async def look(what: str) -> str:
        await asyncio.sleep(0)
        return what.upper()

    async def main() -> list[str]:
        async with snapshot.run("run-1"):
            return await asyncio.gather(*[look(name) for name in "abc"])

    assert asyncio.run(main()) == ["A", "B", "C"]
    entries = list(snapshot.read(correlation_id="run-1"))
    calls = {entry.event_id: entry.payload for entry in entries if entry.event_type == "execution.tool_call"}
    for entry in entries:
        if entry.event_type == "execution.tool_result":
            asked = calls[entry.causation_id or ""]
            assert entry.payload["result"] == asked["arguments"]["what"].upper()
    assert len(calls) == 3


def test_a_cancelled_coroutine_tells_its_cancellation(snapshot: Ledger) -> None:
    @snapshot.task
    async def wait() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        waiting = asyncio.ensure_future(wait())
        while snapshot.head == 0:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with snapshot.scope("run-1"):
        asyncio.run(main())
    assert [kind for kind, _ in told(snapshot)] == ["task_started", "task_cancelled"]


def test_a_generator_is_one_call_with_what_it_yielded(snapshot: Ledger) -> None:
    @snapshot.tool
    def count(to: int) -> Iterator[dict[str, int]]:
        for number in range(to):
            sent = yield {"n": number}
            snapshot.record("execution.state_change", {"sent": sent})
        return "end"  # type: ignore[return-value]

    with snapshot.scope("run-1"):
        steps = count(2)
        assert snapshot.head == 0, "nothing happened yet"
        first = next(steps)
        first["n"] = 99
        snapshot.record("execution.message", {"role": "user", "content": "between"})
        assert steps.send("x") == {"n": 1}  # type: ignore[attr-defined]
        with pytest.raises(StopIteration) as stop:
            next(steps)
        assert stop.value.value == "end"
    entries = list(snapshot.read(correlation_id="run-1"))
    call, between, inside, *_, result = entries
    assert between.causation_id is None, "the consumer is outside of the call"
    assert inside.causation_id == call.event_id and inside.payload == {"sent": "x"}
    assert result.payload["result"] == [{"n": 0}, {"n": 1}]
    assert (result.payload["yielded"], result.payload["returned"]) == (2, "end")


def test_a_generator_that_is_left_early_or_fails_has_one_end(snapshot: Ledger) -> None:
    closed: list[str] = []

    @snapshot.tool
    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        except RuntimeError:
            yield 3
            raise
        finally:
            closed.append("closed")

    with snapshot.scope("run-1"):
        for _ in numbers():
            break
        steps = numbers()
        next(steps)
        assert steps.throw(RuntimeError("x")) == 3  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError):
            next(steps)
    assert len(closed) == 2
    ends = [payload for kind, payload in told(snapshot) if kind == "tool_result"]
    assert (ends[0]["closed"], ends[0]["result"]) == (True, [1])
    assert ends[1]["error"]["type"] == "RuntimeError" and len(ends) == 2


def test_an_async_generator_is_one_call(snapshot: Ledger) -> None:
    @snapshot.tool
    async def numbers(to: int) -> AsyncIterator[int]:
        for number in range(to):
            await asyncio.sleep(0)
            snapshot.record("execution.state_change", {"n": number})
            yield number

    async def main() -> None:
        async with snapshot.scope("run-1"):
            assert [number async for number in numbers(3)] == [0, 1, 2]
            early = numbers(3)
            async for _ in early:
                break
            await early.aclose()  # type: ignore[attr-defined]
            await snapshot.arecord("execution.message", {"role": "user", "content": "after"})

    asyncio.run(main())
    entries = list(snapshot.read(correlation_id="run-1"))
    assert [entry.causation_id for entry in entries[1:5]] == [entries[0].event_id] * 4
    assert entries[4].payload["result"] == [0, 1, 2]
    assert entries[-2].payload["closed"] is True
    assert entries[-1].causation_id is None


def test_a_long_generator_keeps_the_first_items_and_says_so(snapshot: Ledger) -> None:
    @snapshot.tool
    def many() -> Iterator[int]:
        yield from range(1500)

    with snapshot.scope("run-1"):
        assert sum(1 for _ in many()) == 1500
    payload = told(snapshot)[1][1]
    assert (len(payload["result"]), payload["yielded"], payload["lossy"]) == (1000, 1500, True)


def test_calls_in_threads_find_their_scope_through_wrap(snapshot: Ledger) -> None:
    @snapshot.tool
    def work(number: int) -> int:
        return number

    with snapshot.scope("run-1"):
        threads = [threading.Thread(target=snapshot.wrap(work), args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(told(snapshot)) == 8


def test_a_result_that_cannot_be_recorded_does_not_hide_the_error(snapshot: Ledger) -> None:
    @snapshot.tool
    def close(fail: bool) -> None:
        snapshot.close()
        if fail:
            raise ValueError("mine")

    with snapshot.scope("run-1"), pytest.raises(ValueError, match="mine"):
        close(True)


def test_a_recorded_result_is_given_back_as_a_python_value(snapshot: Ledger) -> None:
    from decimal import Decimal

    @snapshot.tool(call_id=iter(["c-1", "c-2"]).__next__)
    def price(of: str) -> Decimal:
        if of == "?":
            raise LookupError("unknown")
        return Decimal("1.10")

    with snapshot.scope("run-1"):
        price("lamp")
        with pytest.raises(LookupError):
            price("?")
        assert snapshot.recorded("c-1") == Decimal("1.10")
    assert snapshot.recorded("c-1", correlation_id="run-1") == Decimal("1.10")
    with pytest.raises(RecordedFailure, match="LookupError: unknown") as raised:
        snapshot.recorded("c-2")
    assert (raised.value.type, raised.value.message) == ("LookupError", "unknown")
    with pytest.raises(NotFound, match="no tool call 'c-3'"):
        snapshot.recorded("c-3")


def test_a_call_without_an_answer_is_not_answered_by_an_older_one(snapshot: Ledger) -> None:
    for position, kind in enumerate(["tool_call", "tool_result", "tool_call"]):
        snapshot.record(
            f"execution.{kind}", {"call_id": "c", "name": "t", "result": position}, correlation_id="run-1"
        )
    with pytest.raises(NotFound, match="never answered"):
        snapshot.recorded("c")


def test_a_wrong_argument_is_named(snapshot: Ledger) -> None:
    with pytest.raises(TypeError, match="retries"):
        snapshot.task("x", retries=3)
    with pytest.raises(TypeError, match="takes a function or a name"):
        snapshot.tool(3)  # type: ignore[call-overload]
    with pytest.raises(InvalidEvent, match="list of task ids"):
        snapshot.task("x", depends_on="t-1")

"""Ends: every run has exactly one, whatever became of its reader; errors reach the user as they were."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from classic_chats import agent, calls, one, pair, said, types

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

ENDS = {"run_completed", "run_failed", "run_cancelled"}


def ends(ledger: Ledger) -> list[str]:
    return [kind for kind in types(ledger) if kind in ENDS]


def wait_for_the_end(ledger: Ledger) -> None:
    for entry in ledger.tail(after=0, timeout=30):
        if entry.event_type.removeprefix("execution.") in ENDS:
            return


class Broken(Exception):
    pass


def by_run(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    for event in recorder.watch(user.run(assistant, message="go")).events:
        seen.append(event.type)


def by_run_iter(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    for event in recorder.watch(user.run_iter(assistant, message="go")):
        seen.append(event.type)


def by_a_run(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    async def main() -> None:
        response = await recorder.watch(user.a_run(assistant, message="go"))
        async for event in response.events:
            seen.append(event.type)

    asyncio.run(main())


def by_a_run_iter(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    async def main() -> None:
        async for event in recorder.watch(user.a_run_iter(assistant, message="go")):
            seen.append(event.type)

    asyncio.run(main())


def by_tee(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    with recorder.tee():
        user.initiate_chat(assistant, message="go")


def by_a_tee(recorder: AG2Recorder, user: Any, assistant: Any, seen: list[str]) -> None:
    async def main() -> None:
        with recorder.tee():
            await user.a_initiate_chat(assistant, message="go")

    asyncio.run(main())


@pytest.mark.parametrize("way", [by_run, by_run_iter, by_a_run, by_a_run_iter, by_tee, by_a_tee])
def test_an_error_is_recorded_and_then_raised_as_it_was(
    ledger: Ledger, recorder: AG2Recorder, way: Callable[..., None]
) -> None:
    error = Broken("the model is away")
    seen: list[str] = []
    with pytest.raises(Broken) as raised:
        way(recorder, agent("user"), agent("assistant", error), seen)
    assert raised.value is error
    assert ends(ledger) == ["run_failed"]
    assert types(ledger)[-1] == "run_failed"
    told = one(ledger, "execution.run_failed").payload["error"]
    assert (told["type"], told["message"]) == ("Broken", "the model is away")
    if way in (by_run, by_a_run):
        assert seen[-1] == "error", "it is shown before it is raised, as without us"


def test_a_failure_is_in_the_ledger_when_the_user_gets_it(ledger: Ledger, recorder: AG2Recorder) -> None:
    found: list[str] = []
    with pytest.raises(Broken):
        for event in recorder.watch(agent("user").run(agent("assistant", Broken()), message="go")).events:
            if event.type == "error":
                found = types(ledger)
    assert found[-1] == "run_failed"


@pytest.mark.parametrize("way", ["run", "run_iter"])
def test_a_loop_that_is_left_early_leaves_a_whole_record_of_a_run_that_goes_on(
    ledger: Ledger, recorder: AG2Recorder, way: str
) -> None:
    assistant, user = pair(calls(("add", {"a": 1, "b": 2})), "3 TERMINATE")
    if way == "run":
        for _ in recorder.watch(user.run(assistant, message="go")).events:
            break
    else:
        for _ in recorder.watch(user.run_iter(assistant, message="go")):
            break
    wait_for_the_end(ledger)
    assert types(ledger)[3:5] == ["tool_call", "tool_result"]
    assert types(ledger)[-1] == "run_completed"
    assert ends(ledger) == ["run_completed"]


def test_an_async_loop_that_is_left_early_leaves_a_whole_record(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    async def main() -> None:
        assistant, user = pair(calls(("add", {"a": 1, "b": 2})), "3 TERMINATE")
        async for _ in recorder.watch(user.a_run_iter(assistant, message="go")):
            break
        await asyncio.to_thread(wait_for_the_end, ledger)

    asyncio.run(main())
    assert ends(ledger) == ["run_completed"]


def held() -> tuple[Any, Any, threading.Event]:
    """A pair whose assistant's turn waits, in the async case without holding up the loop."""
    release = threading.Event()

    def turn() -> str:
        release.wait(20)
        return "late"

    return agent("user"), agent("assistant", turn), release


class Waiting:
    """An assistant whose async turn never ends by itself."""

    def __init__(self) -> None:
        self.reached, self.never = asyncio.Event(), asyncio.Event()
        self.agent = agent("assistant")

        async def reply(recipient: Any, messages: Any = None, sender: Any = None, config: Any = None) -> Any:
            self.reached.set()
            await self.never.wait()

        self.agent.register_reply(type(self.agent), reply, position=0, ignore_async_in_sync_chat=True)


def test_a_run_whose_task_is_cancelled_is_cancelled_once(ledger: Ledger, recorder: AG2Recorder) -> None:
    async def main() -> None:
        waiting = Waiting()

        async def user_code() -> None:
            response = await recorder.watch(agent("user").a_run(waiting.agent, message="go"))
            async for _ in response.events:
                pass

        task = asyncio.create_task(user_code())
        await waiting.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ends(ledger) == ["run_cancelled"]
    assert one(ledger, "execution.run_cancelled").payload["reason"] == "CancelledError"


def test_a_run_that_nobody_reads_is_cancelled_with_the_loop(ledger: Ledger, recorder: AG2Recorder) -> None:
    async def main() -> None:
        waiting = Waiting()
        await recorder.watch(agent("user").a_run(waiting.agent, message="go"))
        await waiting.reached.wait()

    asyncio.run(main())
    assert ends(ledger) == ["run_cancelled"]


def test_a_chat_in_a_tee_that_is_cancelled_is_a_cancelled_run(ledger: Ledger, recorder: AG2Recorder) -> None:
    async def main() -> None:
        waiting = Waiting()

        async def user_code() -> None:
            with recorder.tee():
                await agent("user").a_initiate_chat(waiting.agent, message="go")

        task = asyncio.create_task(user_code())
        await waiting.reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ends(ledger) == ["run_cancelled"]


@pytest.mark.parametrize("way", ["run", "run_iter"])
def test_a_reader_that_is_interrupted_cancels_and_what_ag2_does_all_the_same_goes_on_in_the_record(
    ledger: Ledger, recorder: AG2Recorder, way: str
) -> None:
    user, assistant, release = held()
    response = getattr(user, way)(assistant, message="go", max_turns=1)
    recorder.watch(response)
    events = iter(response.events if way == "run" else response)
    assert next(events).type == "text"
    queue = response.iostream.input_stream
    original = queue.get

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    queue.get = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(events)
    queue.get = original
    assert types(ledger)[-1] == "run_cancelled"
    assert one(ledger, "execution.run_cancelled").payload["reason"] == "KeyboardInterrupt"
    release.set()
    for entry in ledger.tail(after=0, timeout=30):
        if entry.event_type == "execution.run_completed":
            break
    assert types(ledger)[3:5] == ["run_resumed", "message"]
    assert ends(ledger) == ["run_cancelled", "run_completed"]


def test_an_async_reader_that_is_cancelled_leaves_a_record_of_what_goes_on(
    ledger: Ledger, recorder: AG2Recorder
) -> None:
    async def main() -> None:
        user, assistant, release = held()
        response = recorder.watch(user.a_run_iter(assistant, message="go", max_turns=1))
        first = asyncio.Event()

        async def reader() -> None:
            async for _ in response:
                first.set()

        task = asyncio.create_task(reader())
        await first.wait()
        await asyncio.sleep(0)  # it waits for the next event now
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert types(ledger)[-1] == "run_cancelled"
        release.set()

    asyncio.run(main())
    for entry in ledger.tail(after=0, timeout=30):
        if entry.event_type == "execution.run_completed":
            break
    assert ends(ledger) == ["run_cancelled", "run_completed"]


def test_a_tee_that_is_interrupted_is_a_cancelled_run(ledger: Ledger, recorder: AG2Recorder) -> None:
    with pytest.raises(KeyboardInterrupt), recorder.tee():
        agent("user").initiate_chat(agent("assistant", KeyboardInterrupt()), message="go")
    assert ends(ledger) == ["run_cancelled"]
    assert said(ledger) == [("user", "go")]


def test_a_tee_without_any_event_is_a_run_of_its_own(ledger: Ledger, recorder: AG2Recorder) -> None:
    with recorder.tee():
        pass
    assert types(ledger) == ["run_started", "run_completed"]

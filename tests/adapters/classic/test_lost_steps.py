"""The lost wake-up of ``run_iter``: a watched run goes on where an unwatched one hangs.

The gap between AG2's putting an event and its clearing the flag is widened until the reader has stepped, so that
every step is lost.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from autogen.io.step_controller import StepController
from classic_chats import agent, types

from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder, watchdog


@pytest.fixture
def every_step_is_lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    step = StepController.step
    made: dict[int, threading.Semaphore] = {}
    started: set[int] = set()

    def steps_of(controller: StepController) -> threading.Semaphore:
        return made.setdefault(id(controller), threading.Semaphore(0))

    def counted(self: StepController) -> None:
        step(self)
        steps_of(self).release()

    def wait_for_step(self: StepController, event: Any) -> None:
        if not self.should_block(event):
            return
        if id(self) not in started:
            started.add(id(self))
            steps_of(self).acquire(timeout=20)  # the step before the first event
        steps_of(self).acquire(timeout=20)  # the reader has taken this event and stepped
        self._step_event.clear()
        self._step_event.wait()

    monkeypatch.setattr(StepController, "step", counted)
    monkeypatch.setattr(StepController, "wait_for_step", wait_for_step)
    monkeypatch.setattr(watchdog, "WAKE_SECONDS", 0.02)
    yield


def read(response: Any, seen: list[str]) -> threading.Event:
    """Read a run in a thread; the event says that it ended."""
    done = threading.Event()

    def work() -> None:
        for event in response:
            seen.append(event.type)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    return done


def chat() -> Any:
    return agent("user", "b").run_iter(agent("assistant", "a", "c"), message="x", max_turns=2)


@pytest.mark.usefixtures("every_step_is_lost")
def test_without_us_both_sides_wait_for_ever() -> None:
    seen: list[str] = []
    response = chat()
    done = read(response, seen)
    end = time.monotonic() + 60
    while not seen and time.monotonic() < end:
        time.sleep(0.005)
    assert not done.wait(0.7)
    assert seen == ["text"]
    response._step_controller.terminate()
    assert done.wait(20)


@pytest.mark.usefixtures("every_step_is_lost")
def test_a_watched_run_goes_on_and_the_reader_sees_everything(ledger: Ledger, recorder: AG2Recorder) -> None:
    seen: list[str] = []
    assert read(recorder.watch(chat()), seen).wait(20)
    assert seen == ["text", "text", "text", "text", "termination"]
    assert types(ledger)[-1] == "run_completed"


@pytest.mark.usefixtures("every_step_is_lost")
def test_an_async_watched_run_goes_on_too(ledger: Ledger, recorder: AG2Recorder) -> None:
    async def main() -> list[str]:
        response = agent("user", "b").a_run_iter(agent("assistant", "a", "c"), message="x", max_turns=2)
        return [event.type async for event in recorder.watch(response)]

    assert asyncio.run(main())[-1] == "termination"
    assert types(ledger)[-1] == "run_completed"


def test_the_agents_never_get_ahead_of_a_reader_that_takes_its_time(
    recorder: AG2Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "WAKE_SECONDS", 0.001)
    reading = threading.Event()

    def first_message(sender: Any, recipient: Any, context: Any) -> str:
        # AG2 starts its thread before the reader's first step, which else might count for the first event.
        assert reading.wait(20)
        return "x"

    response = agent("user", "b").run_iter(agent("assistant", "a", "c"), message=first_message, max_turns=2)
    waiting = response.iostream.input_stream
    get = waiting.get

    def noticed(*args: Any, **kwargs: Any) -> Any:
        reading.set()
        return get(*args, **kwargs)

    waiting.get = noticed
    most = 0
    for _ in recorder.watch(response):
        for _ in range(20):
            threading.Event().wait(0.001)
            most = max(most, waiting.qsize())
    assert most == 0


def test_a_step_is_not_repeated_when_an_event_has_come_meanwhile() -> None:
    """It would let the agents go on before the reader has seen that event."""
    steps: list[str] = []
    events: queue.Queue[str] = queue.Queue()
    get = events.get

    def come_at_the_last_moment(block: bool = True, timeout: float | None = None) -> str:
        if not events.qsize():
            events.put("event")
            raise queue.Empty
        return get(block, timeout)

    events.get = come_at_the_last_moment  # type: ignore[method-assign]
    watchdog.wake_lost_steps(events, SimpleNamespace(step=lambda: steps.append("step")))
    assert events.get() == "event"
    assert steps == []

"""Whatever the ledger does, chats of the classic line end as they do without us."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from classic_chats import agent, calls, pair

import chatsnapshot
from chatsnapshot import Ledger, StoreFull
from chatsnapshot.adapters.ag2 import AG2Recorder, nesting


def chat() -> tuple[Any, Any]:
    assistant, user = pair(calls(("add", {"a": 1, "b": 2})), "3 TERMINATE")
    return assistant, user


Seen = list[Any]
Watch = Callable[[Any], Any]


def run(recorder: AG2Recorder | None) -> Seen:
    assistant, user = chat()
    response = user.run(assistant, message="1+2?")
    if recorder:
        response = recorder.watch(response)
    return [*(event.type for event in response.events), response.summary]


def run_iter(recorder: AG2Recorder | None) -> Seen:
    assistant, user = chat()
    response = user.run_iter(assistant, message="1+2?")
    if recorder:
        response = recorder.watch(response)
    return [*(event.type for event in response), response.summary]


def a_run(recorder: AG2Recorder | None) -> Seen:
    async def main() -> Seen:
        assistant, user = chat()
        call = user.a_run(assistant, message="1+2?")
        response = await (recorder.watch(call) if recorder else call)
        return [*[event.type async for event in response.events], await response.summary]

    return asyncio.run(main())


def a_run_iter(recorder: AG2Recorder | None) -> Seen:
    async def main() -> Seen:
        assistant, user = chat()
        response = user.a_run_iter(assistant, message="1+2?")
        if recorder:
            response = recorder.watch(response)
        return [*[event.type async for event in response], response.summary]

    return asyncio.run(main())


def sequence(recorder: AG2Recorder | None) -> Seen:
    queue = [{"recipient": agent(f"helper{n}", str(n)), "message": "go", "max_turns": 1} for n in (1, 2)]
    responses = agent("user").sequential_run(queue)
    if recorder:
        responses = recorder.watch(responses)
    return [[event.type for event in response.events] for response in responses]


def tee(recorder: AG2Recorder | None) -> Seen:
    assistant, user = chat()
    if recorder is None:
        return [user.initiate_chat(assistant, message="1+2?").chat_history]
    with recorder.tee() as block:
        return [block.returned(user.initiate_chat(assistant, message="1+2?")).chat_history]


def a_tee(recorder: AG2Recorder | None) -> Seen:
    async def main() -> Seen:
        assistant, user = chat()
        if recorder is None:
            return [(await user.a_initiate_chat(assistant, message="1+2?")).chat_history]
        with recorder.tee() as block:
            return [block.returned(await user.a_initiate_chat(assistant, message="1+2?")).chat_history]

    return asyncio.run(main())


def attach(recorder: AG2Recorder | None) -> Seen:
    assistant, user = chat()
    if recorder is None:
        return [user.initiate_chat(assistant, message="1+2?", silent=True).chat_history]
    with recorder.attach(user, assistant):
        return [user.initiate_chat(assistant, message="1+2?", silent=True).chat_history]


def human(recorder: AG2Recorder | None) -> Seen:
    response = agent("user", human_input_mode="ALWAYS").run(agent("assistant", "what?"), message="hi")
    if recorder:
        response = recorder.watch(response)
    seen = []
    for event in response.events:
        seen.append(event.type)
        if event.type == "input_request":
            event.content.respond("exit")
    return seen


def capture(recorder: AG2Recorder | None) -> Seen:
    events = list(EVENTS)
    return list(recorder.watch(events)) if recorder else events


_assistant, _user = chat()
EVENTS = list(_user.run(_assistant, message="1+2?").events)

EVERY_ENTRY = pytest.mark.parametrize(
    "entry", [run, run_iter, a_run, a_run_iter, sequence, tee, a_tee, attach, human, capture]
)
Entry = Callable[[AG2Recorder | None], Seen]


class Raising:
    """A ledger that takes nothing."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def record_many(self, events: Sequence[Any]) -> Any:
        raise self.error

    async def arecord_many(self, events: Sequence[Any]) -> Any:
        raise self.error


class Hanging:
    """A ledger that answers only once it is released."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.released = threading.Event()

    def record_many(self, events: Sequence[Any]) -> Any:
        assert self.released.wait(60)
        return self.ledger.record_many(events)


@EVERY_ENTRY
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), StoreFull("full"), MemoryError()])
def test_a_ledger_that_raises_or_is_full_changes_nothing(entry: Entry, error: BaseException) -> None:
    recorder = AG2Recorder(Raising(error))
    assert entry(recorder) == entry(None)
    assert recorder.safe.failures >= 1
    recorder.safe.ledger = closed()
    recorder.safe.flush(timeout=10)


@EVERY_ENTRY
def test_a_ledger_that_hangs_changes_nothing_and_gets_all_later(ledger: Ledger, entry: Entry) -> None:
    hanging = Hanging(ledger)
    recorder = AG2Recorder(hanging, wait_seconds_max=0.02)
    assert entry(recorder) == entry(None)
    hanging.released.set()
    assert recorder.safe.flush(timeout=20)
    runs = [entry.event_type for entry in ledger.read() if entry.event_type.startswith("execution.run_")]
    assert runs.count("execution.run_started") == runs.count("execution.run_completed") >= 1


@EVERY_ENTRY
def test_a_closed_ledger_changes_nothing(entry: Entry) -> None:
    assert entry(AG2Recorder(closed())) == entry(None)


@EVERY_ENTRY
def test_something_that_is_no_ledger_changes_nothing(entry: Entry) -> None:
    recorder = AG2Recorder(closed())
    recorder.safe.ledger = None
    assert entry(recorder) == entry(None)
    recorder.safe.ledger = closed()
    recorder.safe.flush(timeout=10)


@EVERY_ENTRY
def test_a_mistake_of_ours_changes_nothing(
    ledger: Ledger, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = entry(None)

    def mistaken(*args: Any, **kwargs: Any) -> Any:
        raise KeyError("a new kind of event")

    monkeypatch.setattr(nesting.ClassicRun, "seen", mistaken)
    recorder = AG2Recorder(ledger)
    assert entry(recorder) == expected
    assert recorder.safe.failures > 0


@EVERY_ENTRY
def test_a_mistake_of_ours_at_the_beginning_changes_nothing(
    ledger: Ledger, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = entry(None)
    recorder = AG2Recorder(ledger)
    monkeypatch.setattr(recorder, "parent_here", None)
    monkeypatch.setattr(recorder, "first_run", None)
    assert entry(recorder) == expected


def closed() -> Ledger:
    ledger = chatsnapshot.open("memory:")
    ledger.close()
    return ledger

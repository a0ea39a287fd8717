"""Two agents wait for somebody in one conversation: each answer goes to the question that it answers."""

from __future__ import annotations

from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.custom import RuntimeRecorder


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_each_goes_on_with_what_it_asked_itself(order: str, anew: bool) -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder = RuntimeRecorder(ledger, runtime="mine")

        def begun(agent: str, key: str, *, resumed: bool = False) -> Any:
            return recorder.begin(agent, key=key, correlation_id="chat", resumed=resumed)

        asked = {}
        for agent in "ab":
            run = begun(agent, agent)
            recorder.record(run.started(), made := run.question(f"q-{agent}", prompt="?"), run.paused())
            recorder.end(run)
            asked[agent] = (made["event_id"], run.run_id)
        for agent in order:
            recorder = RuntimeRecorder(ledger, runtime="mine") if anew else recorder  # as in a new process
            run = begun(agent, f"{agent} again", resumed=True)
            assert list(run.questions) == [f"q-{agent}"]
            recorder.record(answer := run.answer(f"q-{agent}", content="yes"), run.started(), run.completed())
            recorder.end(run)
            assert (answer["causation_id"], run.run_id) == asked[agent]

"""A conversation that is gone on with a second time from the same question."""

from __future__ import annotations

import chatsnapshot
from chatsnapshot.adapters.custom import RuntimeRecorder


def test_an_answer_that_is_given_once_more_follows_from_where_the_conversation_stood() -> None:
    with chatsnapshot.open("memory:") as ledger:
        recorder = RuntimeRecorder(ledger, runtime="mine")
        run = recorder.begin("alpha", key="k1", correlation_id="chat")
        assert run is not None
        recorder.record(run.started(), asked := run.question("q1", prompt="Pay?"), run.paused())
        recorder.end(run)
        causes = [asked["event_id"]]
        for key in ("k2", "k3"):
            again = recorder.begin("alpha", key=key, correlation_id="chat", resumed=True)
            assert again is not None
            recorder.record(again.answer("q1", content="yes"), again.started(), end := again.completed())
            recorder.end(again)
            assert end is not None
            causes.append(end["event_id"])
        answers = ledger.read(event_type="execution.human_input_received")
        assert [entry.causation_id for entry in answers] == causes[:2]

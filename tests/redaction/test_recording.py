"""Redaction on every way into a ledger; the same event twice is still one event."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.adapters.policy import SafeRecorder, new_event
from chatsnapshot.errors import CommitUncertain
from chatsnapshot.redaction import Redactor

MASK = "[redacted:password]"
SAID = {"text": "password=hunter2", "password": "hunter2"}
SAFE = {"text": f"password={MASK}", "password": MASK}


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request, tmp_path):
    url = "memory:" if request.param == "memory" else tmp_path / "runs.db"
    with chatsnapshot.open(url, redact="secrets") as opened:
        yield opened


def test_every_way_of_recording_is_redacted(ledger):
    ledger.record("a.b", SAID, correlation_id="c")
    ledger.record("a.b", SAID, correlation_id="c", wait=False).result(10)
    ledger.record_many([{"event_type": "a.b", "payload": SAID, "correlation_id": "c"}])
    asyncio.run(ledger.arecord("a.b", SAID, correlation_id="c"))
    asyncio.run(ledger.arecord_many([{"event_type": "a.b", "payload": SAID, "correlation_id": "c"}]))
    with chatsnapshot.open("memory:") as open_ledger:
        envelope = open_ledger.record("a.b", SAID, correlation_id="c").event
        assert open_ledger.get(envelope).payload == SAID
    ledger.record(envelope)
    with ledger.scope("c", source={"origin": "agent", "runtime": "r", "name": "password=hunter2"}):
        ledger.record("a.b", SAID)
    entries = list(ledger.read())
    assert len(entries) == 7
    assert [entry.payload for entry in entries] == [SAFE] * 7
    assert entries[-1].source.name == f"password={MASK}"
    assert ledger.verify().ok


def test_redaction_for_one_event_comes_before_that_of_the_ledger():
    with chatsnapshot.open("memory:") as plain:
        assert plain.record("a.b", SAID, correlation_id="c", redact="secrets").payload == SAFE
        assert plain.record("a.b", SAID, correlation_id="c").payload == SAID


def test_the_same_event_again_is_the_same_entry(ledger):
    first = ledger.record("a.b", SAID, correlation_id="c", idempotency_key="k")
    assert ledger.record("a.b", SAID, correlation_id="c", idempotency_key="k") == first
    assert ledger.record(first.event) == first
    assert ledger.record("a.b", SAFE, correlation_id="c", idempotency_key="k") == first
    assert ledger.head == 1


@pytest.mark.parametrize(
    "redact",
    ["secrets", Redactor(rules={"payload.password": "hash", "payload.text": "mask"}, hash_key=b"k" * 16)],
    ids=["secrets", "rules"],
)
def test_an_uncertain_event_is_recorded_again_as_it_was_redacted(redact, tmp_path):
    class FailingCommit:
        def __init__(self, real: Any) -> None:
            self._real = real

        def execute(self, sql: str, *bound: Any) -> Any:
            if sql == "COMMIT":
                raise apsw.IOError("disk I/O error")
            return self._real.execute(sql, *bound)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    payload = {**SAID, "blob": "x" * 300_000 + " password=hunter2 "}
    with chatsnapshot.open(tmp_path / "runs.db", redact=redact) as ledger:
        ledger.record("a.b", {"n": 0}, correlation_id="c")
        store: Any = ledger._store
        store._db = FailingCommit(store._db)
        with pytest.raises(CommitUncertain) as caught:
            ledger.record(
                "a.b", payload, correlation_id="c", idempotency_key="k", attributes={"actor": "pwd=hunter2;"}
            )
        (entry,) = ledger.record_many(caught.value.events)
        assert ledger.record_many(caught.value.events) == [entry]
        assert (
            ledger.record(
                "a.b", payload, correlation_id="c", idempotency_key="k", attributes={"actor": "pwd=hunter2;"}
            )
            == entry
        )
        assert "hunter2" not in str(entry.value()) + str(entry.attributes)
        assert ledger.verify().ok
    assert b"hunter2" not in (tmp_path / "runs.db").read_bytes()


def test_a_ledger_pickles_with_its_redactor(tmp_path):
    redactor = Redactor(rules={"payload.x": "mask"})
    with (
        chatsnapshot.open(tmp_path / "runs.db", redact=redactor) as ledger,
        pickle.loads(pickle.dumps(ledger)) as again,
    ):
        entry = again.record("a.b", {"x": "y", **SAID}, correlation_id="c")
        assert entry.payload == {"x": "[redacted:rule]", **SAFE}


def test_what_an_adapter_records_is_redacted_also_when_it_is_tried_again(tmp_path):
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        safe = SafeRecorder(ledger, adapter="test", redact="secrets")
        event = new_event("a.b", SAID, correlation_id="c")
        safe.record(event)
        safe.hand_over(event, new_event("a.b", SAID, correlation_id="c"))
        assert safe.flush(30)
        asyncio.run(safe.arecord(new_event("a.b", SAID, correlation_id="c")))
        assert [entry.payload for entry in ledger.read()] == [SAFE] * 3
        assert safe.dropped == 0 and event["payload"] is SAID


def test_the_ag2_recorder_takes_secrets_out_unless_told_otherwise():
    from chatsnapshot.adapters.ag2 import AG2Recorder

    with chatsnapshot.open("memory:") as ledger:
        event = new_event("a.b", SAID, correlation_id="c")
        AG2Recorder(ledger).safe.record(event)
        AG2Recorder(ledger, redact=None).safe.record(new_event("a.b", SAID, correlation_id="c"))
        assert [entry.payload for entry in ledger.read()] == [SAFE, SAID]

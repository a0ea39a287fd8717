"""A stream of NATS JetStream into a ledger: each message once, in order, over kills; what is no event set aside."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.clock import foreign_uuid, idempotent_uuid, uuid_text
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.ingest.brokers.nats import follow
from chatsnapshot.ingest.brokers.natsaddress import read_stream
from chatsnapshot.ingest.brokers.taking import Taker


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"event_type": "a.b", "correlation_id": "run-1", "payload": {"n": number}, **more}


def cloud_event(number: int) -> dict[str, Any]:
    return {
        "specversion": "1.0", "id": str(number), "source": "/s", "type": "a.b", "subject": "run-1", "data": {"n": number}
    }  # fmt: skip


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def test_each_message_is_stored_once_in_order_and_acknowledged(stream: Any, ingest: Any) -> None:
    stream.publish(*[event(number) for number in range(700)])
    code, report, err = ingest(f"{stream.url}?consumer=one")
    assert (code, report["stored"], report["known"]) == (0, 700, 0), err
    assert ingest.numbers() == list(range(700))
    consumer = stream.consumer("one")
    assert (consumer.num_pending, consumer.num_ack_pending) == (0, 0)
    stream.publish(event(700))
    assert ingest(f"{stream.url}?consumer=one")[1]["stored"] == 1
    # Another consumer gives everything again: all of it is known.
    assert ingest(f"{stream.url}?consumer=two")[1]["known"] == 701
    assert len(ingest.events()) == 701


def test_every_form_of_message_becomes_its_event(stream: Any, ingest: Any) -> None:
    with chatsnapshot.open("memory:") as other:
        envelope = other.record("a.b", {"n": 1, "$odd": 1}, correlation_id="run-1").event
    stream.publish(envelope.to_json())
    stream.publish(event(2, idempotency_key="k"))
    stream.publish(cloud_event(3))
    stream.publish(cloud_event(4), headers={"content-type": "application/cloudevents+json; charset=UTF-8"})
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "5",
        "ce-source": "/s",
        "ce-type": "a.b",
        "ce-subject": "run-%C3%A4",
    }
    stream.publish({"n": 5}, headers={**headers, "content-type": "application/json"})
    stream.publish({"n": 6, "event": "plain"})
    stream.publish([7, 8])
    code, report, err = ingest(stream.url, "--type", "order.placed", "--correlation", "orders")
    assert (code, report["stored"]) == (0, 7), (report, err)
    found = ingest.events()
    assert found[0] == envelope
    assert [one.event_type for one in found] == ["a.b"] * 5 + ["order.placed"] * 2
    assert [one.correlation_id for one in found] == ["run-1"] * 4 + ["run-ä", "orders", "orders"]
    assert found[3].event_id == uuid_text(foreign_uuid("/s", "4"))
    assert found[5].payload == {"n": 6, "event": "plain"} and found[6].payload == {"value": [7, 8]}


def test_a_message_id_of_the_producer_makes_the_id_of_the_event(stream: Any, ingest: Any) -> None:
    stream.publish(event(1), headers={"Nats-Msg-Id": "order-1"})
    stream.publish(event(1))
    stream.publish(event(1))
    assert ingest(stream.url)[1]["stored"] == 3  # equal messages are events of their own
    key = idempotent_uuid("run-1", f"nats {stream.name} id order-1")
    assert ingest.events()[0].event_id == uuid_text(key)


@pytest.mark.parametrize("round_", [0, *(pytest.param(more, marks=pytest.mark.faults) for more in (1, 2))])
def test_kill_9_anywhere_loses_nothing_doubles_nothing_and_keeps_the_order(
    stream: Any, ingest: Any, round_: int, seeded: Any
) -> None:
    count = 1_500
    stream.publish(*[event(number) for number in range(count)])
    url = f"{stream.url}?consumer=one&batch=50&ack_wait=1"
    for _ in range(3):
        before, process = ingest.stored(), ingest.start(url)
        more = seeded.randrange(1, 400)
        until(lambda before=before, more=more: ingest.stored() >= min(before + more, count))
        process.kill()
        process.wait()
    code, _, err = ingest(url)
    assert code == 0, err
    assert ingest.numbers() == list(range(count))


def test_a_broker_that_is_killed_and_comes_back_is_waited_for(stream: Any, ingest: Any) -> None:
    stream.publish(*[event(number) for number in range(100)])
    process = ingest.start(f"{stream.url}?consumer=one")
    until(lambda: ingest.stored() == 100)
    stream.server.kill()
    stream.server.start()
    stream.publish(*[event(number) for number in range(100, 200)])
    until(lambda: ingest.stored() == 200)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert ingest.numbers() == list(range(200))


def test_what_is_no_event_is_set_aside_with_its_content_and_stops_nothing(
    stream: Any, ingest: Any, tmp_path: Path
) -> None:
    secret = "sk-proj-" + "Ab1" * 14
    poison = [
        b"\xff\xfe",
        b"not json " + secret.encode(),
        b'{"a":1}',
        json.dumps({"event_type": "A B"}).encode(),
    ]
    for number, bad in enumerate(poison):
        stream.publish(event(number), bad)
    stream.publish(event(4, event_id="0199c3a0-0000-7000-8000-000000000001"))
    stream.publish(event(5, event_id="0199c3a0-0000-7000-8000-000000000001"))  # another content
    url = f"{stream.url}?consumer=one&batch=3"
    code, report, err = ingest(url, "--bad-lines", str(tmp_path / "bad"))
    assert (code, report["stored"], report["refused_count"]) == (10, 5, 5), (report, err)
    assert "message 2 of" in report["refused"][0]["message"] and "UTF-8" in report["refused"][0]["reason"]
    assert len((tmp_path / "bad").read_text().splitlines()) == 5
    rejected = [one for one in ingest.events() if one.event_type == "ledger.rejected"]
    assert [one.payload["native"]["message"] for one in rejected] == [
        one["message"] for one in report["refused"]
    ]
    assert rejected[2].payload["native"]["data"] == '{"a":1}'
    assert secret.encode() not in ingest.path.read_bytes()
    consumer = stream.consumer("one")
    assert (consumer.num_pending, consumer.num_ack_pending) == (0, 0)
    # Given again to another consumer, nothing is set aside a second time.
    ingest(f"{stream.url}?consumer=two")
    assert len([one for one in ingest.events() if one.event_type == "ledger.rejected"]) == 5


def test_ctrl_c_ends_with_everything_fetched_stored_and_acknowledged(stream: Any, ingest: Any) -> None:
    stream.publish(*[event(number) for number in range(300)])
    process = ingest.start(f"{stream.url}?consumer=one&batch=20")
    until(lambda: ingest.stored() > 0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "interrupted; " in err and "Traceback" not in err
    assert "stored" in out
    assert stream.consumer("one").num_ack_pending == 0
    assert ingest(f"{stream.url}?consumer=one")[0] == 0
    assert ingest.numbers() == list(range(300))


def test_no_more_than_a_batch_is_in_flight(stream: Any, ingest: Any) -> None:
    stream.publish(*[event(number) for number in range(100)])
    ingest(f"{stream.url}?consumer=one&batch=7&subject={stream.name}.a")
    config = stream.consumer("one").config
    assert (config.max_ack_pending, config.filter_subject) == (7, f"{stream.name}.a")


def test_a_ledger_has_a_consumer_of_its_own_and_takes_no_others(
    stream: Any, ingest: Any, tmp_path: Path
) -> None:
    stream.publish(event(1))
    ingest(stream.url)
    ingest.path = tmp_path / "second.db"
    assert ingest(stream.url)[1]["stored"] == 1
    with chatsnapshot.open(tmp_path / "runs.db", read_only=True) as ledger:
        first = f"chatsnapshot-{ledger.ledger_id}"
    assert first in [one.name for one in stream.consumers()]
    code, _, err = ingest(f"{stream.url}?consumer={first}")
    assert code == 1 and "feeds another ledger" in err


@pytest.mark.parametrize(
    ("tail", "arguments", "said"),
    [
        ("", (), "names no stream"),
        ("/no such", (), "names no stream"),
        ("/nothere", (), "there is no stream 'nothere'"),
        ("/s?ledger=x", (), "--ledger"),
        ("/s?batch=0", (), "batch"),
        ("/s?ack_wait=x", (), "ack_wait"),
        ("/s?consumer=a.b", (), "consumer"),
        ("/s?colour=red", (), "no option"),
        ("/s", ("--type", "a.b"), "--type needs --correlation"),
        ("/s", ("--skip-bad",), "only input"),
    ],
)
def test_what_is_wrong_with_the_address_is_said_in_one_sentence(
    stream: Any, ingest: Any, tail: str, arguments: tuple[str, ...], said: str
) -> None:
    process = ingest.start(stream.server.url + tail, "--until-idle", *arguments)
    _, err = process.communicate(timeout=30)
    assert process.returncode in (1, 2) and said in err and "Traceback" not in err, err


def test_a_broker_that_is_not_there_is_an_error_that_shows_no_password(ingest: Any) -> None:
    process = ingest.start("nats://me:hunter2@127.0.0.1:1/s", "--until-idle")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "cannot be reached" in err and "hunter2" not in err


def test_a_ledger_that_takes_nothing_for_a_moment_is_tried_again_and_nothing_is_acknowledged_before(
    stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.publish(*[event(number) for number in range(10)])
    pending: list[int] = []
    notes: list[str] = []
    with chatsnapshot.open("memory:") as ledger:
        taker = Taker(ledger)
        take = taker.take

        def away(messages: Any) -> Any:
            if len(pending) < 2:
                pending.append(stream.consumer("one").num_ack_pending)
                raise StoreUnavailable("the disk is away")
            return take(messages)

        monkeypatch.setattr(taker, "take", away)
        source = read_stream(f"{stream.url}?consumer=one")
        report = asyncio.run(follow(source, taker, asyncio.Event(), until_idle=True, note=notes.append))
        assert (report.stored, report.refused_count) == (10, 0)
        assert pending == [10, 10]
        assert [note for note in notes if "trying again" in note] == notes and len(notes) == 1
        assert [entry.payload["n"] for entry in ledger.read()] == list(range(10))

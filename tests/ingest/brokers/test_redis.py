"""A stream of Redis into a ledger: each entry once, in order, over kills; what is no event set aside."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.cli.main import cli
from chatsnapshot.clock import foreign_uuid, idempotent_uuid, uuid_text
from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.ingest.brokers.redis import follow
from chatsnapshot.ingest.brokers.redisaddress import read_stream
from chatsnapshot.ingest.brokers.redislink import Link, Lost
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker
from chatsnapshot.testing.faults import Proxy
from chatsnapshot.testing.servers.redis import RedisServer


def event(number: int, **more: Any) -> dict[str, Any]:
    return {"event_type": "a.b", "correlation_id": "run-1", "payload": {"n": number}, **more}


def until(condition: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


Followed = Callable[..., tuple[BrokerReport, list[str]]]


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@pytest.fixture
def followed(ledger: Any) -> Followed:
    """Follow a URL until idle in this process; gives the report and what was noted."""

    def run(url: str, **options: Any) -> tuple[BrokerReport, list[str]]:
        notes: list[str] = []
        work = follow(
            read_stream(url), Taker(ledger, **options), asyncio.Event(), until_idle=True, note=notes.append
        )
        return asyncio.run(work), notes

    return run


def followed_until(url: str, ledger: Any, done: Callable[[list[str]], bool]) -> list[str]:
    """Follow a URL in this process while ``done`` is asked from another thread; gives what was noted."""
    notes: list[str] = []

    async def run() -> None:
        stop = asyncio.Event()
        work = asyncio.ensure_future(follow(read_stream(url), Taker(ledger), stop, note=notes.append))
        watch = asyncio.ensure_future(asyncio.to_thread(until, lambda: done(notes)))
        await asyncio.wait([work, watch], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await work
        await watch

    asyncio.run(run())
    return notes


def numbers(ledger: Any) -> list[int]:
    return [entry.payload["n"] for entry in ledger.read()]


# --- each once, in order ---


def test_each_entry_is_stored_once_in_order_and_acknowledged(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(*[event(number) for number in range(700)])
    report, notes = followed(f"{entries.url}&group=one")
    assert (report.stored, report.known, report.refused_count, notes) == (700, 0, 0, [])
    assert numbers(ledger) == list(range(700))
    assert entries.left() == 0
    entries.add(event(700))
    assert followed(f"{entries.url}&group=one")[0].stored == 1
    # Another group gives everything again: all of it is known.
    assert followed(f"{entries.url}&group=two")[0].known == 701
    assert ledger.head == 701


def test_kill_9_in_the_middle_of_a_batch_loses_nothing_doubles_nothing_and_keeps_the_order(
    entries: Any, ingest: Any, seeded: Any
) -> None:
    count = 1_500
    entries.add(*[event(number) for number in range(count)])
    url = f"{entries.url}&group=one&batch=50"
    for _ in range(3):
        before, process = ingest.stored(), ingest.start(url)
        more = seeded.randrange(1, 400)
        until(lambda before=before, more=more: ingest.stored() >= min(before + more, count))
        process.kill()
        process.wait()
    code, _, err = ingest(url)
    assert code == 0, err
    assert ingest.numbers() == list(range(count))
    assert entries.left() == 0


def test_a_server_that_is_killed_in_the_middle_of_a_batch_and_comes_back_is_waited_for_with_one_line_each(
    entries: Any, ingest: Any
) -> None:
    entries.add(*[event(number) for number in range(1_000)])
    process = ingest.start(f"{entries.url}&group=one&batch=20")
    until(lambda: ingest.stored() > 0)
    for start in (1_000, 1_050):
        entries.server.kill()
        entries.server.start()
        entries.add(*[event(number) for number in range(start, start + 50)])
        until(lambda start=start: ingest.stored() == start + 50)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0 and err.count("waiting for it") == 2, err
    assert "Traceback" not in err
    assert ingest.numbers() == list(range(1_100))
    assert entries.left() == 0


def test_a_replica_that_takes_over_goes_on_with_what_it_knows(entries_of: Any, ledger: Any) -> None:
    """A real fail-over: the first server is killed, and its replica is promoted and moves to its address."""
    quick = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
    with RedisServer(*quick) as first, RedisServer(*quick) as second:
        entries = entries_of(first)
        copy = entries_of(second, entries.name)
        entries.add(*[event(number) for number in range(50)])
        copy.do(("REPLICAOF", "127.0.0.1", first.port))
        until(lambda: copy.do(("XLEN", entries.name)) == [50])
        # A replica takes nothing: it is waited for.
        assert "READONLY" in followed_until(f"{copy.url}&group=one", ledger, bool)[0]

        def fail_over(notes: list[str]) -> bool:
            if first.pid and ledger.head == 50:
                first.kill()
                copy.do(("REPLICAOF", "NO", "ONE"), ("CONFIG", "SET", "port", first.port))
                second.port = first.port
                copy.add(*[event(number) for number in range(50, 100)])
            return ledger.head == 100

        notes = followed_until(f"{entries.url}&group=one", ledger, fail_over)
        assert len(notes) == 1 and "waiting for it" in notes[0]
        assert copy.left() == 0
    assert numbers(ledger) == list(range(100))


def test_answers_that_a_network_loses_change_nothing(
    entries: Any, followed: Followed, ledger: Any, seeded: Any
) -> None:
    with Proxy(("127.0.0.1", entries.server.port)) as proxy:
        url = f"redis://127.0.0.1:{proxy.address[1]}?stream={entries.name}&group=one&batch=5"
        for start in (0, 20, 40):
            entries.add(*[event(number) for number in range(start, start + 20)])
            proxy.lose_answer(after=seeded.randrange(4, 14))
            report, notes = followed(url)
            assert report.refused_count == 0 and len(notes) <= 1
    assert proxy.counts.lost == 3
    assert numbers(ledger) == list(range(60))
    assert entries.left() == 0


def test_a_server_that_says_nothing_is_given_up_and_asked_anew(
    entries: Any, followed: Followed, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.ingest.brokers.redislink._ANSWER_SECONDS", 0.5)
    monkeypatch.setattr("chatsnapshot.ingest.brokers.redis._BLOCK_MS", 50)
    entries.add(event(0))
    with Proxy(("127.0.0.1", entries.server.port)) as proxy:
        notes: list[str] = []

        def mend(said: list[str]) -> bool:
            if said and not notes:
                notes.extend(said)
                proxy.heal()
                entries.add(event(1))
            elif not said and ledger.head == 1:
                proxy.stall()
            return ledger.head == 2

        url = f"redis://127.0.0.1:{proxy.address[1]}?stream={entries.name}&group=one"
        assert len(followed_until(url, ledger, mend)) == 1
    assert "Timeout" in notes[0] and numbers(ledger) == [0, 1]


@pytest.mark.parametrize("at", ["XREADGROUP", "XACK"])
def test_a_lost_answer_changes_nothing(
    entries: Any, followed: Followed, ledger: Any, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The server has done what was asked, and the connection ends before it can say so."""
    entries.add(*[event(number) for number in range(20)])
    lost: list[str] = []
    call = Link.call

    async def cut(self: Link, *words: Any) -> Any:
        answer = await call(self, *words)
        if words[0] == at and answer and len(lost) < 3:
            lost.append(at)
            await self.close()
            raise Lost("the connection ended")
        return answer

    monkeypatch.setattr(Link, "call", cut)
    report, notes = followed(f"{entries.url}&group=one&batch=7")
    assert len(lost) == 3 and report.stored == 20 and notes
    assert numbers(ledger) == list(range(20))
    assert entries.left() == 0


def test_two_consumers_of_a_group_store_each_entry_once_between_them(entries: Any, ingest: Any) -> None:
    entries.add(*[event(number) for number in range(800)])
    url = f"{entries.url}&group=one&batch=20"
    running = [ingest.start(f"{url}&consumer={name}", "--until-idle", "--json") for name in ("a", "b")]
    reports = []
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    assert sum(one["stored"] for one in reports) == 800
    assert sorted(ingest.numbers()) == list(range(800))
    assert entries.left() == 0


def test_what_a_dead_consumer_held_is_taken_over_after_a_while_before_anything_new(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(*[event(number) for number in range(5)])
    entries.do(
        ("XGROUP", "CREATE", entries.name, "one", "0"),
        ("XREADGROUP", "GROUP", "one", "dead", "COUNT", "3", "STREAMS", entries.name, ">"),
    )
    report, notes = followed(f"{entries.url}&group=one&consumer=me&ack_wait=1")
    assert report.stored == 5 and numbers(ledger) == list(range(5))
    assert len(notes) == 1 and "waiting 1 s for 3 entries that other consumers" in notes[0]
    assert entries.left() == 0


def test_what_a_consumer_that_dies_meanwhile_held_is_taken_over(entries: Any, ledger: Any) -> None:
    entries.add(event(0))
    (((_, [[entry_id, _]]),),) = entries.do(("XREAD", "STREAMS", entries.name, "0"))
    gone: list[bool] = []

    def taken_over(_: list[str]) -> bool:
        if ledger.head == 1 and not gone:
            gone.append(True)
            entries.do(("XCLAIM", entries.name, "one", "dead", "0", entry_id, "FORCE", "JUSTID"))
        return bool(gone) and entries.pending() == 0

    assert followed_until(f"{entries.url}&group=one&ack_wait=1", ledger, taken_over) == []
    assert numbers(ledger) == [0]


def test_what_this_consumer_held_comes_first_and_at_once(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(*[event(number) for number in range(5)])
    entries.do(
        ("XGROUP", "CREATE", entries.name, "one", "0"),
        ("XREADGROUP", "GROUP", "one", "me", "COUNT", "3", "STREAMS", entries.name, ">"),
    )
    report, notes = followed(f"{entries.url}&group=one&consumer=me&ack_wait=3600")
    assert report.stored == 5 and notes == [] and numbers(ledger) == list(range(5))


def test_a_batch_that_takes_long_is_not_taken_over_by_others(
    entries: Any, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries.add(event(1))
    idle: list[int] = []
    taker = Taker(ledger)
    take = taker.take

    def slow(messages: Any) -> Any:
        held = ("XPENDING", entries.name, "one", "-", "+", "10")
        until(lambda: idle.append(entries.do(held)[0][0][2]) or (len(idle) > 1 and idle[-1] < idle[-2]))
        return take(messages)

    monkeypatch.setattr(taker, "take", slow)
    source = read_stream(f"{entries.url}&group=one&ack_wait=1")
    report = asyncio.run(follow(source, taker, asyncio.Event(), until_idle=True))
    assert report.stored == 1 and max(idle) < 1_000


def test_ctrl_c_and_sigterm_end_with_everything_fetched_stored_and_acknowledged(
    entries: Any, ingest: Any
) -> None:
    entries.add(*[event(number) for number in range(300)])
    for ending, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        before, process = ingest.stored(), ingest.start(f"{entries.url}&group=one&batch=20")
        until(lambda before=before: ingest.stored() > before)
        process.send_signal(ending)
        out, err = process.communicate(timeout=20)
        assert process.returncode == code and "Traceback" not in err, err
        assert "stored" in out and ("interrupted; " in err) == (code == 130)
        assert entries.pending() == 0
        entries.add(event(300) if code == 130 else event(301))
    assert ingest(f"{entries.url}&group=one")[0] == 0
    assert ingest.numbers() == list(range(302))


# --- what an entry says ---


def test_every_form_of_entry_becomes_its_event(entries: Any, followed: Followed, ledger: Any) -> None:
    with chatsnapshot.open("memory:") as other:
        envelope = other.record("a.b", {"n": 1, "$odd": 1}, correlation_id="run-1").event
    cloud = {"specversion": "1.0", "source": "/s", "type": "a.b", "subject": "run-1", "data": {"n": 3}}
    entries.add(
        {"data": envelope.to_json()},
        event(2, idempotency_key="k"),
        {"data": {**cloud, "id": "3"}},
        {"any": {**cloud, "id": "4"}},  # the only field
        {"content-type": "application/cloudevents+json", "data": {**cloud, "id": "5"}},
        {"ce-specversion": "1.0", "ce-id": "6", "ce-source": "/s", "ce-type": "a.b", "ce-subject": "run-%C3%A4",
         "content-type": "application/json", "data": {"n": 6}},
    )  # fmt: skip
    plain = ("event_type", "a.b", "correlation_id", "run-1", "payload", '{"n":7}', "attributes", '{"k":1}')
    entries.do(("XADD", entries.name, "*", *plain))
    entries.add({"data": {"n": 8, "event": "plain"}}, {"data": [9]}, {"temperature": "10", "unit": "°C"})
    report, _ = followed(f"{entries.url}&group=one", event_type="order.placed", correlation_id="orders")
    assert (report.stored, report.refused_count) == (10, 0), report
    found = [entry.event for entry in ledger.read()]
    assert found[0] == envelope
    assert [one.event_type for one in found] == ["a.b"] * 7 + ["order.placed"] * 3
    assert [one.correlation_id for one in found] == ["run-1"] * 5 + ["run-ä", "run-1"] + ["orders"] * 3
    assert found[4].event_id == uuid_text(foreign_uuid("/s", "5"))
    assert found[6].payload == {"n": 7} and found[7].payload == {"n": 8, "event": "plain"}
    assert found[8].payload == {"value": [9]} and found[9].payload == {"temperature": "10", "unit": "°C"}


def test_a_field_named_in_the_url_holds_the_document(entries: Any, followed: Followed, ledger: Any) -> None:
    entries.add({"data": "no", "body": event(1)}, {"data": event(2)})
    report, _ = followed(f"{entries.url}&group=one&field=body")
    assert (report.stored, report.refused_count) == (1, 1)
    assert "no field 'body'" in report.refused[0].reason


def test_an_entry_without_an_id_has_one_of_stream_id_and_content_or_of_the_producers_key(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(event(1), event(1), {"data": event(2), "idempotency_key": "order-1"})
    assert followed(f"{entries.url}&group=one")[0].stored == 3  # equal entries are events of their own
    assert len({entry.event.event_id for entry in ledger.read()}) == 3
    key = idempotent_uuid("run-1", f"redis {entries.name} id order-1")
    assert [entry.event.event_id for entry in ledger.read()][2] == uuid_text(key)
    when = [entry.event.timestamp for entry in ledger.read()]
    assert when == sorted(when) and when[0].startswith("20")


def test_ids_that_a_producer_gave_and_a_stream_made_anew_with_the_same_ids_are_no_trouble(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    for number in (1, 2):
        data = json.dumps(event(number))
        entries.do(("DEL", entries.name), ("XADD", entries.name, "1-1", "data", data))
        assert followed(f"{entries.url}&group=one")[0].stored == 1
        assert followed(f"{entries.url}&group=two{number}")[0].known == 1
    assert numbers(ledger) == [1, 2]
    assert all(entry.event.timestamp > "2020" for entry in ledger.read())  # 1-1 is not one ms after 1970


def test_what_is_no_event_is_set_aside_with_its_content_and_stops_nothing(
    entries: Any, ingest: Any, tmp_path: Path
) -> None:
    secret = "sk-proj-" + "Ab1" * 14
    poison: list[dict[Any, Any]] = [
        {"data": b"\xff\xfe"},
        {"data": b"not json " + secret.encode()},
        {"a": "1", "b": "2"},
        {"data": {"event_type": "A B"}},
        {"event_type ": "a.b", "x": b"\xff"},
    ]
    for number, bad in enumerate(poison):
        entries.add(event(number), bad)
    flat = ("event_type", "a.b", "correlation_id", "run-1", "payload")
    entries.do(("XADD", entries.name, "*", *flat, "1,2"), ("XADD", entries.name, "*", *flat, '1,"x":2'))
    entries.add(event(5, event_id="0199c3a0-0000-7000-8000-000000000001"))
    entries.add(event(6, event_id="0199c3a0-0000-7000-8000-000000000001"))  # another content
    code, report, err = ingest(f"{entries.url}&group=one&batch=3", "--bad-lines", str(tmp_path / "bad"))
    assert (code, report["stored"], report["refused_count"]) == (10, 6, 8), (report, err)
    reasons = [one["reason"] for one in report["refused"]]
    assert f"of {entries.name}" in report["refused"][0]["message"] and "UTF-8" in reasons[0]
    assert "not UTF-8" in reasons[4] and "payload is not JSON" in reasons[5] and "more than one" in reasons[6]
    assert len((tmp_path / "bad").read_text().splitlines()) == 8
    rejected = [one for one in ingest.events() if one.event_type == "ledger.rejected"]
    assert [one.payload["native"]["message"] for one in rejected] == [
        one["message"] for one in report["refused"]
    ]
    assert rejected[2].payload["native"]["data"] == '{"a":"1","b":"2"}'
    assert secret.encode() not in ingest.path.read_bytes()
    assert entries.left() == 0
    # Given again to another group, nothing is set aside a second time.
    ingest(f"{entries.url}&group=two")
    assert len([one for one in ingest.events() if one.event_type == "ledger.rejected"]) == 8


def test_of_fields_beside_a_document_that_is_set_aside_no_more_than_a_little_is_kept(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add({"kind": "x", "picture": b"x" * 1_000_000, "data": b"{"})
    assert followed(f"{entries.url}&group=one")[0].refused_count == 1
    (rejected,) = ledger.read()
    assert rejected.payload["native"]["headers"] == {"kind": "x"} and entries.left() == 0


def test_an_entry_that_was_deleted_before_it_was_acknowledged_is_told(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(event(1), event(2), event(3), event(4))
    entries.do(("XGROUP", "CREATE", entries.name, "one", "0"))
    for consumer in ("me", "dead"):
        read = ("XREADGROUP", "GROUP", "one", consumer, "COUNT", "2", "STREAMS", entries.name, ">")
        given = entries.do(read)[0][0][1]
        entries.do(("XDEL", entries.name, given[0][0]))
    report, _ = followed(f"{entries.url}&group=one&consumer=me&ack_wait=1")
    assert (report.stored, report.refused_count) == (2, 2), report
    assert all("was deleted from the stream" in one.reason for one in report.refused)
    assert entries.left() == 0


# --- bounds ---


def test_few_are_fetched_at_once_when_they_are_large(
    entries: Any, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.ingest.brokers.following._FLIGHT_BYTES", 500_000)
    entries.add(*[event(number, payload={"n": number, "text": "x" * 99_000}) for number in range(40)])
    most = 0
    call = Link.call

    async def seen(self: Link, *words: Any) -> Any:
        nonlocal most
        answer = await call(self, *words)
        if words[0] == "XREADGROUP" and answer:
            most = max(most, len(answer[0][1]))
        return answer

    monkeypatch.setattr(Link, "call", seen)
    assert followed(f"{entries.url}&group=one")[0].stored == 40
    assert most == 5


def test_a_ledger_that_takes_nothing_for_a_moment_is_tried_again_and_nothing_is_acknowledged_before(
    entries: Any, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries.add(event(0))
    pending: list[int] = []
    notes: list[str] = []
    taker = Taker(ledger)
    take = taker.take

    def away(messages: Any) -> Any:
        if len(pending) < 2:
            pending.append(entries.pending())
            raise StoreUnavailable("the disk is away")
        return take(messages)

    monkeypatch.setattr(taker, "take", away)
    source = read_stream(f"{entries.url}&group=one")
    report = asyncio.run(follow(source, taker, asyncio.Event(), until_idle=True, note=notes.append))
    assert report.stored == 1 and pending == [1, 1]
    assert [note for note in notes if "trying again" in note] == notes and len(notes) == 1


# --- streams, groups and servers that are not as they should be ---


def test_a_ledger_has_a_group_of_its_own_and_takes_no_others(
    entries: Any, followed: Followed, ledger: Any
) -> None:
    entries.add(event(1))
    assert followed(entries.url)[0].stored == 1
    assert entries.pending(f"chatsnapshot-{ledger.ledger_id}") == 0
    with pytest.raises(LedgerError, match="feeds another ledger"):
        followed(f"{entries.url}&group=chatsnapshot-0199c3a0-0000-7000-8000-000000000001")


def test_a_stream_that_is_not_there_yet_is_waited_for_or_told_until_idle(
    entries: Any, ingest: Any, followed: Followed
) -> None:
    with pytest.raises(
        LedgerError, match=f"there is no stream '{entries.name}' in database 0 .*XADD makes it"
    ):
        followed(entries.url)
    process = ingest.start(f"{entries.url}&group=one")
    until(lambda: entries.do(("EXISTS", entries.name)) == [1])
    entries.add(event(0))
    until(lambda: ingest.stored() == 1)
    # Deleted with its group, it is made anew, and what comes then is taken.
    entries.do(("DEL", entries.name))
    until(lambda: entries.do(("EXISTS", entries.name)) == [1])
    entries.add(event(1))
    until(lambda: ingest.stored() == 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0 and "waited for" in err, err
    assert ingest.numbers() == [0, 1]


def test_a_server_that_kept_nothing_has_its_group_made_anew(entries_of: Any, ledger: Any) -> None:
    with RedisServer(durable=False) as server:
        entries = entries_of(server)
        entries.add(event(1))

        def restart(notes: list[str]) -> bool:
            if ledger.head == 1 and not notes:
                server.kill()
                server.start()
                entries.add(event(2))
            return ledger.head == 2

        notes = followed_until(entries.url, ledger, restart)
    assert numbers(ledger) == [1, 2]
    assert len(notes) == 2 and "waiting for it" in notes[0] and "made anew" in notes[1]


def test_a_key_that_is_no_stream_is_told(entries: Any, followed: Followed) -> None:
    entries.do(("SET", entries.name, "x"))
    with pytest.raises(LedgerError, match="holds no stream; name another with stream=KEY"):
        followed(entries.url)


def test_passwords_users_and_what_they_may_not_do(entries_of: Any, followed: Followed, ledger: Any) -> None:
    user = "--user reader on >pw% ~s +xreadgroup +xack +xclaim +xautoclaim +xpending"
    with RedisServer("--requirepass", "hun:ter2", *user.split()) as server:
        place = f"127.0.0.1:{server.port}/0?stream=s&group=one"
        for credentials in ("", ":wrong@", "nobody:hunter2@"):
            with pytest.raises(LedgerError, match="refuses the user or the password") as caught:
                followed(f"redis://{credentials}{place}")
            assert "hunter2" not in str(caught.value) and "wrong@" not in str(caught.value)
        with pytest.raises(LedgerError, match=r"there is no group 'one' .*may not make it; do XGROUP CREATE"):
            followed(f"redis://reader:pw%25@{place}")

        entries = entries_of(server, "s", "hun:ter2")
        entries.add(event(1))
        entries.do(("XGROUP", "CREATE", "s", "one", "0"))
        assert followed(f"redis://reader:pw%25@{place}")[0].stored == 1
        with pytest.raises(LedgerError, match="does not allow this user"):
            followed(f"redis://reader:pw%25@127.0.0.1:{server.port}/0?stream=other")
        unix = f"unix://:hun%3Ater2@{server.socket}?stream=s&group=two"
        assert followed(unix)[0].known == 1
        with pytest.raises(LedgerError, match="refuses the user or the password"):
            followed(unix.replace("hun%3Ater2", "wrong"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--type", "a.b"), "--type needs --correlation"),
        (("--skip-bad",), "only input"),
        ((), "there is no stream"),
    ],
)
def test_the_command_says_in_one_sentence_what_is_wrong(
    entries: Any, arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    words = ["ingest", entries.url, "--until-idle", *arguments, "--ledger", str(tmp_path / "l.db")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code in (1, 2) and said in done.output and "Traceback" not in done.output, done.output


def test_a_database_that_the_server_does_not_have_is_told(entries: Any, followed: Followed) -> None:
    with pytest.raises(LedgerError, match="DB index is out of range"):
        followed(entries.url.replace("/0?", "/99?"))


def test_what_answers_in_another_protocol_is_told(followed: Followed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while client.recv(1000):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(LedgerError, match="does not speak Redis' protocol"):
            followed(f"redis://127.0.0.1:{listening.getsockname()[1]}/1?stream=s")
        thread.join()


@pytest.mark.parametrize(
    "url", ["redis://me:hunter2@127.0.0.1:1/0?stream=s", "unix:///no/such/socket?stream=s"]
)
def test_a_server_that_is_not_there_is_an_error_that_shows_no_password(url: str, followed: Followed) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
        followed(url)
    assert "hunter2" not in str(caught.value)

"""A topic of Kafka into a ledger: each record once, in order in its partition, over kills and rebalances."""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot.cli.main import cli
from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.ingest.brokers.kafka import follow
from chatsnapshot.ingest.brokers.kafkaaddress import read_topic
from chatsnapshot.ingest.brokers.kafkalink import Link
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker
from chatsnapshot.testing.faults import Proxy
from chatsnapshot.testing.servers.kafka import KafkaServer


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
            read_topic(url), Taker(ledger, **options), asyncio.Event(), until_idle=True, note=notes.append
        )
        return asyncio.run(work), notes

    return run


def followed_until(url: str, taker: Taker, done: Callable[[list[str]], bool], *others: Taker) -> list[str]:
    """Follow a URL, once for each taker, while ``done`` is asked from another thread; gives what was noted."""
    notes: list[str] = []

    async def run() -> None:
        stop = asyncio.Event()
        works = [
            asyncio.ensure_future(follow(read_topic(url), one, stop, note=notes.append))
            for one in (taker, *others)
        ]
        watch = asyncio.ensure_future(asyncio.to_thread(until, lambda: done(notes)))
        await asyncio.wait([*works, watch], return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        await asyncio.gather(*works, watch)

    asyncio.run(run())
    return notes


def numbers(ledger: Any) -> list[int]:
    return [entry.payload["n"] for entry in ledger.read()]


def in_order(ledger: Any, partitions: int) -> bool:
    """Whether the events of each partition, which are those of its remainder, stand in their order."""
    found = numbers(ledger)
    parts = [[one for one in found if one % partitions == part] for part in range(partitions)]
    return all(part == sorted(part) for part in parts)


# --- each once, in order ---


def test_each_record_is_stored_once_in_order_and_its_offset_committed(
    kafka_servers: Any, topic_of: Any, followed: Followed, ledger: Any
) -> None:
    topic = topic_of(kafka_servers[0], 3)
    for part in range(3):
        topic.add(*[event(number) for number in range(part, 700, 3)], partition=part)
    report, notes = followed(topic.of())
    assert (report.stored, report.known, report.refused_count, notes) == (700, 0, 0, [])
    assert sorted(numbers(ledger)) == list(range(700)) and in_order(ledger, 3)
    assert topic.left() == 0
    topic.add(event(702))
    assert followed(topic.of())[0].stored == 1
    # Another group gives everything again: all of it is known.
    assert followed(topic.of("two"))[0].known == 701
    assert ledger.head == 701


def test_kill_9_in_the_middle_of_a_batch_loses_nothing_doubles_nothing_and_keeps_the_order(
    topic: Any, ingest: Any, seeded: Any
) -> None:
    count = 1_200
    topic.add(*[event(number) for number in range(count)])
    url = f"{topic.of()}&batch=50"
    for _ in range(2):
        before, process = ingest.stored(), ingest.start(url)
        more = seeded.randrange(1, 400)
        until(lambda before=before, more=more: ingest.stored() >= min(before + more, count))
        process.kill()
        process.wait()
    code, _, err = ingest(url)
    assert code == 0, err
    assert ingest.numbers() == list(range(count))
    assert topic.left() == 0


def test_a_crash_between_the_commits_of_ledger_and_offsets_brings_what_is_known(
    topic: Any, followed: Followed, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.add(event(0), event(1))

    async def crash(self: Link, settled: Any) -> None:
        raise RuntimeError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(Link, "commit", crash)
        with pytest.raises(RuntimeError, match="power"):
            followed(f"{topic.of()}&batch=1")
    assert ledger.head == 1 and topic.left() == 2
    report, _ = followed(topic.of())
    assert (report.stored, report.known) == (1, 1)
    assert numbers(ledger) == [0, 1] and topic.left() == 0


def test_answers_that_a_network_loses_change_nothing(topic_of: Any, ledger: Any, seeded: Any) -> None:
    server = KafkaServer()
    with Proxy(("127.0.0.1", server.port)) as proxy:
        server.advertised = proxy.address[1]
        with server:
            topic = topic_of(server)

            def lose(notes: list[str]) -> bool:
                step, rest = divmod(ledger.head, 10)
                if step < 3 and not rest and len(lost) == step:
                    lost.append(step)
                    topic.add(*[event(number) for number in range(10 * step, 10 * step + 10)])
                    proxy.lose_answer(after=seeded.randrange(3))
                return ledger.head == 30 and topic.left() == 0

            lost: list[int] = []
            notes = followed_until(f"{topic.of()}&batch=3", Taker(ledger), lose)
            assert proxy.counts.lost == 3 and len(notes) <= 3
    assert numbers(ledger) == list(range(30))


def test_a_broker_that_is_gone_and_comes_back_with_nothing_is_waited_for_and_its_new_topic_taken(
    topic_of: Any, ingest: Any
) -> None:
    with KafkaServer() as server:
        topic = topic_of(server)
        topic.add(event(0), event(1))
        process = ingest.start(f"{topic.of()}&topic.metadata.refresh.interval.ms=300")
        until(lambda: ingest.stored() == 2)
        server.kill()
        line = next(one for one in process.stderr if one.strip())
        assert f"{server.url}" in line and "does not answer" in line and "waiting for it" in line
        server.start()
        topic.make()
        # The offsets are given again: the records are others nevertheless, for their time.
        topic.add(event(0), event(1), event(2))
        until(lambda: ingest.stored() == 5)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "waiting for it" not in err and "rdkafka" not in err and "Traceback" not in err, err
        assert topic.left() == 0
    assert ingest.numbers() == [0, 1, 0, 1, 2]


def test_a_broker_that_stays_away_is_given_up_until_idle(
    topic_of: Any, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.ingest.brokers.following._BROKER_SECONDS_MAX", 0.5)
    with KafkaServer() as server:
        topic = topic_of(server)
        topic.add(event(0))
        taker, notes = Taker(ledger), []
        take = taker.take

        def last(messages: Any) -> Any:
            server.kill()
            return take(messages)

        monkeypatch.setattr(taker, "take", last)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            source = read_topic(topic.of())
            asyncio.run(follow(source, taker, asyncio.Event(), until_idle=True, note=notes.append))
    assert numbers(ledger) == [0]
    assert len(notes) == 1 and "waiting for it" in notes[0]


# --- a group of several ---


def test_partitions_that_are_taken_away_go_on_elsewhere_with_what_is_not_stored(
    kafka_servers: Any, topic_of: Any, ledger: Any
) -> None:
    topic = topic_of(kafka_servers[0], 2)

    def fill(start: int) -> None:
        for part in range(2):
            topic.add(*[event(number) for number in range(start + part, start + 200, 2)], partition=part)

    fill(0)
    first, second = Taker(ledger), Taker(ledger)
    take, joining = first.take, threading.Event()

    def slow(messages: Any) -> Any:
        """In the middle of its second batch another member comes, and the group waits for this one."""
        if first.report.stored and not joining.is_set():
            joining.set()
            assert joined.wait(20)
        return take(messages)

    joined = threading.Event()
    first.take = slow  # type: ignore[method-assign]

    async def run() -> None:
        stop = asyncio.Event()
        source = read_topic(f"{topic.of()}&batch=20")
        works = [asyncio.ensure_future(follow(source, first, stop))]
        await asyncio.to_thread(joining.wait, 20)
        works.append(asyncio.ensure_future(follow(source, second, stop)))
        # Its request to join is with the broker, which gives no partitions until the first comes too.
        await asyncio.sleep(0.3)
        joined.set()
        await asyncio.to_thread(until, lambda: ledger.head == 200)
        start = 200
        while not (first.report.last_position > 200 and second.report.last_position):
            await asyncio.to_thread(fill, start)
            start += 200
            await asyncio.to_thread(until, lambda start=start: ledger.head == start)
        stop.set()
        await asyncio.gather(*works)

    asyncio.run(run())
    assert sorted(numbers(ledger)) == list(range(ledger.head))
    assert in_order(ledger, 2)
    assert first.report.stored + second.report.stored == ledger.head and topic.left() == 0


def test_a_member_that_was_given_up_meanwhile_commits_nothing_and_what_comes_again_is_known(
    topic: Any, ledger: Any
) -> None:
    topic.add(*[event(number) for number in range(6)])
    taker = Taker(ledger)
    take = taker.take

    def slow(messages: Any) -> Any:
        refused = take(messages)
        if len(messages) == 2:
            time.sleep(1.5)  # longer than the client may be silent
        return refused

    taker.take = slow  # type: ignore[method-assign]
    url = f"{topic.of()}&max.poll.interval.ms=1000"
    followed_until(url, taker, lambda _: topic.left() == 0)
    assert numbers(ledger) == list(range(6)) and taker.report.known >= 2


def test_a_member_that_is_given_nothing_says_so(topic: Any, ledger: Any) -> None:
    topic.add(event(0))
    spare = Taker(ledger)

    def done(notes: list[str]) -> bool:
        return ledger.head == 1 and len(notes) == 1

    notes = followed_until(topic.of(), Taker(ledger), done, spare)
    assert f"no partition of '{topic.name}' is given to this member" in notes[0]


# --- what a record says ---


def test_every_form_of_record_becomes_its_event(topic: Any, followed: Followed, ledger: Any) -> None:
    with chatsnapshot.open("memory:") as other:
        envelope = other.record("a.b", {"n": 1, "$odd": 1}, correlation_id="run-1").event
    cloud = {"specversion": "1.0", "source": "/s", "type": "a.b", "subject": "run-1", "data": {"n": 3}}
    binary = {
        "ce_specversion": "1.0",
        "ce_source": "/s",
        "ce_type": "a.b",
        "ce_subject": "run ä%20",
        "ce_id": "6",
    }
    topic.add(envelope.to_json(), event(2, idempotency_key="k"), {**cloud, "id": "3"}, key="order-1")
    topic.add({**cloud, "id": "5"}, headers={"content-type": "application/cloudevents+json; charset=UTF-8"})
    topic.add({"n": 6}, headers={**binary, "content-type": "application/json"})
    topic.add(None, headers={**binary, "ce_id": "7"})  # without data
    topic.add({"n": 8, "event": "plain"}, [9])
    report, _ = followed(topic.of(), event_type="order.placed", correlation_id="orders")
    assert (report.stored, report.refused_count) == (8, 0), report
    found = [entry.event for entry in ledger.read()]
    assert found[0] == envelope
    assert [one.event_type for one in found] == ["a.b"] * 6 + ["order.placed"] * 2
    assert [one.correlation_id for one in found] == ["run-1"] * 4 + ["run ä%20"] * 2 + ["orders"] * 2
    assert found[6].payload == {"n": 8, "event": "plain"} and found[7].payload == {"value": [9]}
    assert found[6].timestamp > "2020"


def test_a_record_without_an_id_has_one_of_its_place_and_content_or_of_the_producers_key(
    topic: Any, followed: Followed, ledger: Any
) -> None:
    topic.add(event(1), event(1))  # equal records are events of their own
    for _ in range(2):
        topic.add(event(2), headers={"idempotency_key": "order-1"})
    assert followed(topic.of())[0].stored == 3
    assert len({entry.event.event_id for entry in ledger.read()}) == 3


def test_what_is_no_event_is_set_aside_with_topic_partition_and_offset_and_passed_over(
    kafka_servers: Any, topic_of: Any, followed: Followed, ledger: Any
) -> None:
    topic = topic_of(kafka_servers[0], 2)
    secret = "sk-proj-" + "Ab1" * 14
    topic.add(b"\xff\xfe", event(0), b"not json " + secret.encode(), partition=1)
    topic.add(event(1, event_id="0199c3a0-0000-7000-8000-000000000001"), partition=1)
    topic.add(event(2, event_id="0199c3a0-0000-7000-8000-000000000001"), partition=1)  # another content
    topic.add(None, key="order-7", headers={"why": b"\xff"}, partition=1)
    topic.add(b"", event(3), headers={"ce_id": b"\xff", "ce_type": "a.b"}, partition=1)
    report, _ = followed(f"{topic.of()}&batch=3")
    assert (report.stored, report.refused_count) == (2, 6), report
    places = [f"offset {offset} of partition 1 of {topic.name}" for offset in (0, 2, 4, 5, 6, 7)]
    assert [one.message for one in report.refused] == places
    assert "UTF-8" in report.refused[0].reason and "a tombstone" in report.refused[3].reason
    rejected = [one.event for one in ledger.read() if one.event.event_type == "ledger.rejected"]
    assert [one.payload["native"]["message"] for one in rejected] == places
    assert rejected[3].payload["native"]["headers"]["kafka_key"] == "order-7"
    assert secret not in rejected[1].to_json().decode() and topic.left() == 0
    # Given again to another group, nothing is set aside a second time.
    followed(topic.of("two"))
    assert ledger.head == 8


# --- bounds ---


def test_few_are_taken_at_once_when_they_are_large_and_the_client_keeps_little(
    topic: Any, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatsnapshot.ingest.brokers.following._FLIGHT_BYTES", 500_000)
    topic.add(*[event(number, payload={"n": number, "text": "x" * 99_000}) for number in range(20)])
    most, fetch = 0, Link.fetch

    async def seen(self: Link, count: int, seconds: float) -> Any:
        nonlocal most
        records = await fetch(self, count, seconds)
        most = max(most, len(records))
        return records

    monkeypatch.setattr(Link, "fetch", seen)
    assert followed(topic.of())[0].stored == 20
    assert most == 5


def test_a_ledger_that_takes_nothing_for_a_moment_is_tried_again_and_nothing_is_committed_before(
    topic: Any, ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.add(event(0))
    left: list[int] = []
    notes: list[str] = []
    taker = Taker(ledger)
    take = taker.take

    def away(messages: Any) -> Any:
        if len(left) < 2:
            left.append(topic.left())
            raise StoreUnavailable("the disk is away")
        return take(messages)

    monkeypatch.setattr(taker, "take", away)
    source = read_topic(topic.of())
    report = asyncio.run(follow(source, taker, asyncio.Event(), until_idle=True, note=notes.append))
    assert report.stored == 1 and left == [1, 1] and topic.left() == 0
    assert len(notes) == 1 and "trying again" in notes[0]


def test_ctrl_c_and_sigterm_end_with_everything_fetched_stored_and_committed(topic: Any, ingest: Any) -> None:
    topic.add(*[event(number) for number in range(300)])
    for ending, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        before, process = ingest.stored(), ingest.start(f"{topic.of()}&batch=20")
        until(lambda before=before: ingest.stored() > before)
        process.send_signal(ending)
        out, err = process.communicate(timeout=20)
        assert process.returncode == code and "Traceback" not in err, err
        assert "stored" in out and ("interrupted; " in err) == (code == 130)
        assert topic.left() == (300 if code == 130 else 301) - ingest.stored()
        topic.add(event(300) if code == 130 else event(301))


# --- topics, groups and brokers that are not as they should be ---


def test_a_ledger_has_a_group_of_its_own_and_takes_no_others(
    topic: Any, followed: Followed, ledger: Any
) -> None:
    topic.add(event(1))
    assert followed(topic.url)[0].stored == 1
    assert topic.left(f"chatsnapshot-{ledger.ledger_id}") == 0
    with pytest.raises(LedgerError, match="feeds another ledger"):
        followed(f"{topic.url}&group=chatsnapshot-0199c3a0-0000-7000-8000-000000000001")


def test_a_topic_that_is_not_there_yet_is_waited_for_or_told_until_idle(
    kafka_servers: Any, topic_of: Any, followed: Followed, ledger: Any
) -> None:
    topic = topic_of(kafka_servers[0], 0)
    with pytest.raises(LedgerError, match=f"there is no topic '{topic.name}' at kafka://"):
        followed(topic.url)

    def make(notes: list[str]) -> bool:
        if notes and not made:
            made.append(1)
            topic.make()
            topic.add(event(0))
        return ledger.head == 1

    made: list[int] = []
    url = f"{topic.of()}&topic.metadata.refresh.interval.ms=200"
    assert "it is waited for" in followed_until(url, Taker(ledger), make)[0]


def test_an_offset_that_is_gone_is_told_where_that_is_wished(topic: Any, followed: Followed) -> None:
    topic.add(event(0))
    with pytest.raises(
        LedgerError, match=r"no longer has what the group .* would take next, or has no offset"
    ):
        followed(f"{topic.of()}&auto.offset.reset=error")


def test_members_that_share_partitions_in_another_way_are_told(topic: Any, followed: Followed) -> None:
    topic.add(event(0))
    followed(topic.of())
    with pytest.raises(LedgerError, match=r"share partitions in another way; give partition\.assignment"):
        followed(f"{topic.of()}&partition.assignment.strategy=cooperative-sticky")
    assert followed(f"{topic.of('two')}&partition.assignment.strategy=cooperative-sticky")[0].known == 1


def test_a_certificate_is_verified_and_one_of_ones_own_is_named(
    topic_of: Any, ledger: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker of the tests knows no TLS: it is spoken in front of it."""
    cert, private = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, private)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = KafkaServer()

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            theirs = await asyncio.open_connection("127.0.0.1", server.port)
            await asyncio.gather(pump(reader, theirs[1]), pump(theirs[0], writer))

        async def ends(url: str) -> None:
            await follow(read_topic(url), Taker(ledger), asyncio.Event(), until_idle=True)

        async with await asyncio.start_server(speak, "127.0.0.1", 0, ssl=context) as front:
            server.advertised = front.sockets[0].getsockname()[1]
            with server:
                url = f"{server.url}?topic=t&security.protocol=SSL"
                with pytest.raises(StoreUnavailable, match=r"(?i)certificate.verify.failed"):
                    await ends(url)
                with pytest.raises(LedgerError, match="there is no topic 't'"):  # a broker says so
                    await ends(f"{url}&ssl.ca.location={cert}")

    monkeypatch.setattr("chatsnapshot.ingest.brokers.kafkalink._CONNECT_SECONDS", 0.5)
    asyncio.run(run())


def test_a_user_that_is_refused_is_told_without_the_password(topic: Any, followed: Followed) -> None:
    """The broker of the tests can hold no users: it refuses the mechanism."""
    url = f"{topic.url.replace('//', '//me:hunter2@')}&security.protocol=SASL_PLAINTEXT"
    with pytest.raises(LedgerError, match="refuses the user, the password or the mechanism") as caught:
        followed(f"{url}&sasl.mechanism=SCRAM-SHA-256")
    assert "hunter2" not in str(caught.value)


def test_a_broker_that_is_not_there_is_an_error_that_shows_no_password(
    followed: Followed,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("chatsnapshot.ingest.brokers.kafkalink._CONNECT_SECONDS", 0.5)
    with (
        caplog.at_level(logging.INFO, "chatsnapshot.kafka"),
        pytest.raises(StoreUnavailable, match=r"cannot be reached .*refused") as caught,
    ):
        followed("kafka://me:hunter2@127.0.0.1:1/?topic=t&security.protocol=SASL_PLAINTEXT")
    assert "hunter2" not in str(caught.value)
    # The client would fill the screen.
    assert capfd.readouterr().err == ""
    assert "refused" in caplog.text and "hunter2" not in caplog.text
    assert max(one.levelno for one in caplog.records) == logging.INFO


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("&session.timeout.ms=x", "does not take an option"),
        ("&sasl.colour=red", "does not take an option"),
        ("&ssl.ca.location=/no/such/file", "ssl.ca.location .* cannot be read"),
    ],
)
def test_an_option_that_the_client_does_not_take_is_told(followed: Followed, more: str, said: str) -> None:
    with pytest.raises(LedgerError, match=said):
        followed(f"kafka://127.0.0.1:1/?topic=t{more}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--type", "a.b"), "--type needs --correlation"),
        (("--skip-bad",), "only input"),
        ((), "there is no topic"),
    ],
)
def test_the_command_says_in_one_sentence_what_is_wrong(
    kafka_servers: Any, topic_of: Any, arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    url = topic_of(kafka_servers[0], 0).url
    words = ["ingest", url, "--until-idle", *arguments, "--ledger", str(tmp_path / "l.db")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code in (1, 2) and said in done.output and "Traceback" not in done.output, done.output

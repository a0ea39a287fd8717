"""A member of a group: what it was given, what was taken from it, and how far it has said that it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.errors import MissingExtra
from chatsnapshot.ingest.brokers.kafkaaddress import read_topic
from chatsnapshot.ingest.brokers.kafkafailure import Refusal
from chatsnapshot.ingest.brokers.kafkalink import Link


class Given:
    """A record as the client gives it."""

    def __init__(self, partition: int, offset: int) -> None:
        self._place = (partition, offset)

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def error(self) -> Any:
        return None

    def headers(self) -> Any:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 0, -1

    def key(self) -> Any:
        return None

    def value(self) -> bytes:
        return b"{}"


class Client:
    """The client, with a group that does as the test says."""

    def __init__(self, options: Any, logger: Any) -> None:
        self.options = options
        self.callbacks: dict[str, Any] = {"error_cb": options["error_cb"]}
        self.committed: list[dict[int, int]] = []
        self.answer: Callable[[list[Any]], list[Any]] = list
        self.rest: Callable[[], list[Given]] = list

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.callbacks |= callbacks

    def poll(self, seconds: float) -> Given:
        return Given(0, 5)

    def consume(self, count: int, seconds: float) -> list[Given]:
        return self.rest()

    def commit(self, offsets: list[Any], asynchronous: bool) -> list[Any]:
        assert not asynchronous
        answers = self.answer(offsets)
        self.committed.append({one.partition: one.offset for one in offsets})
        return answers

    def close(self) -> None:
        pass


def error(name: str, said: str = "said") -> Any:
    from confluent_kafka import KafkaError

    return KafkaError(getattr(KafkaError, name), said)


def failing(name: str) -> Any:
    from confluent_kafka import KafkaException

    raise KafkaException(error(name))


def places(*partitions: int) -> list[Any]:
    from confluent_kafka import TopicPartition

    return [TopicPartition("t", one) for one in partitions]


def with_client(monkeypatch: pytest.MonkeyPatch, work: Callable[[Link, Client], Any], more: str = "") -> None:
    made: list[Client] = []

    def make(options: Any, logger: Any) -> Client:
        made.append(Client(options, logger))
        return made[0]

    async def run() -> None:
        link = Link(read_topic(f"kafka://h/?topic=t{more}"), "g")
        try:
            await link._call(link._make)
            await link.subscribe()
            made[0].callbacks["on_assign"](made[0], places(0, 1))
            await work(link, made[0])
        finally:
            await link.close()

    monkeypatch.setattr("confluent_kafka.Consumer", make)
    asyncio.run(run())
    return made[0]


def test_the_client_commits_nothing_by_itself_and_fetches_little_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(link: Link, client: Client) -> None:
        said = client.options
        assert (said["enable.auto.commit"], said["enable.auto.offset.store"]) == (False, False)
        assert (said["auto.offset.reset"], said["group.id"]) == ("latest", "g")
        assert said["queued.max.messages.kbytes"] == 16 * 1024 and said["fetch.max.bytes"] == 16 * 1024 * 1024

    with_client(monkeypatch, work, "&auto.offset.reset=latest")


def test_what_is_taken_away_in_the_middle_of_a_fetch_is_left_to_its_new_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(link: Link, client: Client) -> None:
        def rest() -> list[Given]:
            client.callbacks["on_revoke"](client, places(0))
            return [Given(0, 6), Given(1, 8)]

        client.rest = rest
        assert [(one.partition, one.offset) for one in await link.fetch(3, 0)] == [(1, 8)]
        assert link.assigned == {1} and not link.joined

    with_client(monkeypatch, work)


def test_offsets_that_could_not_be_committed_are_before_a_partition_goes_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(link: Link, client: Client) -> None:
        client.answer = lambda _: failing("_TRANSPORT")
        await link.commit({0: 5, 1: 7})
        await link.commit({0: 6})
        assert link.due == {0: 6, 1: 7} and client.committed == []
        client.answer = list
        client.callbacks["on_revoke"](client, places(0))
        assert link.due == {} and client.committed == [{0: 6, 1: 7}]
        client.answer = lambda _: failing("_WAIT_COORD")
        await link.commit({1: 8})
        client.answer = list

    assert with_client(monkeypatch, work).committed[1:] == [{1: 8}]


@pytest.mark.parametrize("code", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
def test_offsets_of_a_partition_that_is_anothers_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    async def work(link: Link, client: Client) -> None:
        client.answer = lambda _: failing(code)
        await link.commit({0: 5})
        assert link.due == {}
        client.answer = lambda _: failing("_TRANSPORT")
        await link.commit({0: 6})
        client.callbacks["on_lost"](client, places(0, 1))
        assert link.due == {} and link.assigned == set()

    with_client(monkeypatch, work)


def test_a_user_who_may_not_commit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(link: Link, client: Client) -> None:
        client.answer = lambda _: failing("GROUP_AUTHORIZATION_FAILED")
        with pytest.raises(Refusal, match="said"):
            await link.commit({0: 5})

    with_client(monkeypatch, work)


def test_who_was_let_in_before_is_not_refused_for_a_handshake_that_a_dying_broker_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(link: Link, client: Client) -> None:
        for name in ("_AUTHENTICATION", "_ALL_BROKERS_DOWN"):
            client.callbacks["error_cb"](error(name, name))
        assert len(await link.fetch(1, 0)) == 1 and link.down == "_AUTHENTICATION"
        client.callbacks["error_cb"](error("TOPIC_AUTHORIZATION_FAILED"))
        with pytest.raises(Refusal, match="said"):
            await link.fetch(1, 0)

    with_client(monkeypatch, work)


def test_what_has_to_be_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        link = Link(read_topic("kafka://h/?topic=t"), "g")
        try:
            await link.open()
        finally:
            await link.close()

    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingExtra, match=r"chatsnapshot\[kafka\]"):
        asyncio.run(run())

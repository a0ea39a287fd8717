"""The Kafka client as a member of a group, on a thread of its own: what it was given, and how far that is settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.ingest.brokers.kafkaaddress import KafkaTopic
from chatsnapshot.ingest.brokers.kafkafailure import MOVED, NO_TOPIC, Lost, Refusal, told
from chatsnapshot.ingest.brokers.kafkarecord import Record
from chatsnapshot.limits import MIB

__all__ = ["Link"]

_log = logging.getLogger("chatsnapshot.kafka")
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 1.0
QUEUE_BYTES = 16 * MIB
"""So much the client fetches ahead, give or take the largest batch of a producer."""

_WHY = ("_TRANSPORT", "_RESOLVE", "_SSL")
"""What the client says of a connection, before or after it says that all are down."""

T = TypeVar("T")


class Link:
    """One member of the group. Its methods run one after the other on its thread, and so do the client's callbacks.

    Raises :class:`Lost` and :class:`Refusal`. ``joined``: the group has said which partitions are ours; ``assigned`` are
    these, ``ended`` those of them of which everything there was has been given. ``due`` are offsets that are settled and
    not yet committed. ``down`` says why no broker can be reached; empty when none said so.
    """

    def __init__(self, source: KafkaTopic, group: str) -> None:
        self._source = source
        self._group = group
        self._consumer: Any = None
        self._thread = ThreadPoolExecutor(1, "chatsnapshot-kafka")
        self._failures: list[Any] = []
        self._trouble = ""
        self._subscribed = False
        self.joined = False
        self.assigned: set[int] = set()
        self.ended: set[int] = set()
        self.due: dict[int, int] = {}
        self.down = ""

    async def _call(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # --- coming and going ---

    async def open(self) -> bool:
        """Connect; gives whether there is the topic. Raises :class:`LedgerError` for options that cannot be."""
        await self._call(self._make)
        deadline = asyncio.get_running_loop().time() + _CONNECT_SECONDS
        while True:
            try:
                return await self.has_topic()
            except Lost:
                if asyncio.get_running_loop().time() > deadline:
                    raise Lost(self._trouble or "no answer") from None

    def _make(self) -> None:
        try:
            from confluent_kafka import Consumer, KafkaException
        except ImportError:
            raise MissingExtra("ingesting from Kafka", "kafka") from None
        options = {
            "client.id": "chatsnapshot-ingest",
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 2_000,
            "topic.metadata.refresh.interval.ms": 10_000,
            "queued.max.messages.kbytes": QUEUE_BYTES // 1024,
            "fetch.max.bytes": QUEUE_BYTES,
            **self._source.connect_options(),
            "group.id": self._group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "error_cb": self._on_error,
        }
        try:
            self._consumer = Consumer(options, logger=_Lines())
        except (KafkaException, TypeError, ValueError) as refused:
            raise _meaning(refused) from None

    async def has_topic(self) -> bool:
        """Whether a broker answers that there is the topic."""
        return await self._call(self._has_topic)

    def _has_topic(self) -> bool:
        from confluent_kafka import KafkaException

        topic = self._source.topic
        try:
            found = self._consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics.get(topic)
        except KafkaException as lost:
            if not self._subscribed:  # later it would take a record
                self._consumer.poll(0)  # brings what the callback of errors is told
                self._raise_refusals()
            raise _meaning(lost) from None
        if found is None or (found.error is not None and str(found.error.name()) in NO_TOPIC):
            return False
        if found.error is not None:
            meaning = told(found.error)
            if isinstance(meaning, Refusal):
                raise meaning
            if meaning is None or not found.partitions:
                raise Lost(str(found.error.str()))
        self._trouble = ""
        return True

    async def subscribe(self) -> None:
        """Join the group."""

        def work() -> None:
            self._subscribed = True
            self._consumer.subscribe(
                [self._source.topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )

        await self._call(work)

    async def close(self) -> None:
        """Commit what is settled, if that can be, and leave the group; never raises."""

        def work() -> None:
            consumer, self._consumer = self._consumer, None
            if consumer is None:
                return
            try:
                if self.due and not self.down:
                    self._commit(consumer)
            except Exception as error:
                _log.info("the last offsets were not committed: %s", error)
            try:
                consumer.close()
            except Exception as error:
                _log.info("the group was not left: %s", error)

        await self._call(work)
        self._thread.shutdown(wait=False)

    # --- records ---

    async def fetch(self, count: int, seconds: float) -> list[Record]:
        """What there is, ``count`` records at most, in order in each partition; waits for the first.

        Raises :class:`Refusal`; of a broker that is away it tells with ``down``, and of the rest with :meth:`odd`.
        """
        return await self._call(self._fetch, count, seconds)

    def _fetch(self, count: int, seconds: float) -> list[Record]:
        from confluent_kafka import KafkaError, KafkaException

        try:
            first = self._consumer.poll(seconds)
            given = [] if first is None else [first]
            if given and count > 1:
                given += self._consumer.consume(count - 1, 0)
        except KafkaException as refused:
            raise _meaning(refused) from None
        records = []
        for one in given:
            error = one.error()
            if error is None:
                self.ended.discard(one.partition())
                records.append(_record(one))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ended.add(one.partition())
            else:
                self._on_error(error)
        self._raise_refusals()
        # What was taken away in the middle of it comes to the member that has it now.
        return [one for one in records if one.partition in self.assigned]

    def odd(self) -> list[str]:
        """What the client has said that is neither passing nor final, since it was asked last."""
        found, self._failures = [str(one.str()) for one in self._failures], []
        return found

    # --- offsets ---

    async def commit(self, settled: Mapping[int, int]) -> None:
        """Tell the broker how far each partition is settled; what it does not take stays ``due``."""
        self.due.update(settled)
        if self.due:
            await self._call(self._commit, self._consumer)

    def _commit(self, consumer: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        due = dict(self.due)
        offsets = [TopicPartition(self._source.topic, partition, offset) for partition, offset in due.items()]
        try:
            answers = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as refused:
            if str(refused.args[0].name()) in MOVED:
                self._forget(due)
                return
            meaning = _meaning(refused)
            if isinstance(meaning, Lost):
                _log.info("offsets are not committed yet: %s", meaning)
                return
            raise meaning from None
        for one in answers:
            verdict = None if one.error is None or one.error.name() in MOVED else told(one.error)
            if isinstance(verdict, Refusal):
                raise verdict
            if verdict is None:
                self._forget({one.partition: due[one.partition]})

    def _forget(self, settled: Mapping[int, int]) -> None:
        for partition, offset in settled.items():
            if self.due.get(partition) == offset:
                del self.due[partition]

    # --- what the client tells, on its thread ---

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        given = {one.partition for one in partitions}
        self.assigned |= given
        self.ended -= given
        self.joined = True

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        taken = {one.partition for one in partitions}
        if not taken.isdisjoint(self.due):
            try:
                self._commit(consumer)
            except Exception as error:
                _log.info("offsets were not committed: %s", error)
        self._drop(taken)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._drop({one.partition for one in partitions})

    def _drop(self, taken: set[int]) -> None:
        self.joined = False
        self.assigned -= taken
        self.ended -= taken
        for partition in taken:
            self.due.pop(partition, None)

    def _on_error(self, error: Any) -> None:
        meaning, name = told(error), str(error.name())
        if name == "_ALL_BROKERS_DOWN":
            self.down = self._trouble or str(error.str())
        elif name in _WHY or (name == "_AUTHENTICATION" and self._subscribed):
            # A broker that ends may do so in the middle of a handshake: that is no refusal of who was let in before.
            self._trouble = str(error.str())
        elif not isinstance(meaning, Lost):
            self._failures.append(error)

    def _raise_refusals(self) -> None:
        for error in self._failures:
            meaning = told(error)
            if isinstance(meaning, Refusal):
                raise meaning


class _Lines:
    """The client's lines in the log; never above INFO, since what a user must know is told to the user."""

    def log(self, level: int, text: str, *arguments: object) -> None:
        _log.log(min(level, logging.INFO), text, *arguments)


def _record(one: Any) -> Record:
    try:
        headers = tuple((str(name), value) for name, value in one.headers() or ())
    except Exception:  # names that are not UTF-8
        headers = None
    kind, milliseconds = one.timestamp()
    return Record(
        one.partition(), one.offset(), milliseconds if kind else -1, one.key(), headers, one.value()
    )


def _meaning(error: Exception) -> Exception:
    """What an exception of the client means, in our words."""
    inner: Any = error.args[0] if error.args else None
    if not hasattr(inner, "fatal"):
        return LedgerError(f"the Kafka client refuses: {error}")
    return told(inner) or Refusal(str(inner.name()), str(inner.str()))

"""Follows a stream of NATS JetStream: a durable pull consumer, acknowledged after the commit, in the stream's order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chatsnapshot.clock import timestamp_text
from chatsnapshot.errors import LedgerError, MissingExtra, StoreUnavailable
from chatsnapshot.ingest.brokers.following import Following, Job, Note
from chatsnapshot.ingest.brokers.message import Message, message_key
from chatsnapshot.ingest.brokers.natsaddress import NatsStream
from chatsnapshot.ingest.brokers.settling import pause
from chatsnapshot.ingest.brokers.taking import BrokerReport, Taker
from chatsnapshot.stores.nats.dialing import dialed, hang_up

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js.api import ConsumerInfo
    from nats.js.client import JetStreamContext

__all__ = ["follow"]

_CONNECT_SECONDS = 5.0
_FETCH_SECONDS = 1.0
_OWNER = "chatsnapshot_ledger"


async def follow(
    source: NatsStream,
    taker: Taker,
    stop: asyncio.Event,
    *,
    until_idle: bool = False,
    progress: Callable[[BrokerReport], None] | None = None,
    note: Note | None = None,
) -> BrokerReport:
    """Take messages until ``stop`` is set, or with ``until_idle`` until there are no more; gives the report.

    What was fetched is committed and acknowledged before it ends. ``note`` is told in words what it waits for. Raises
    :class:`StoreUnavailable` for a broker that cannot be reached and for a ledger that takes nothing for a minute.
    """
    work = _Following(Job(source, taker, stop, until_idle, progress, note))
    try:
        await work.connect()
        await work.run()
    finally:
        await work.close()
    return taker.report


class _Following(Following[NatsStream]):
    def __init__(self, job: Job[NatsStream]) -> None:
        super().__init__(job)
        self._client: Client | None = None
        self._trouble = ""
        self._message_bytes = 1

    # --- coming and going ---

    async def connect(self) -> None:
        try:
            import nats.aio.client  # noqa: F401 - told apart from nkeys, which is missing below
        except ImportError:
            raise MissingExtra("ingesting from NATS", "nats") from None
        options = self._source.address.connect_options()
        options.update(name="chatsnapshot ingest", reconnect_time_wait=0.2, ping_interval=5)
        try:
            self._client = await dialed(_CONNECT_SECONDS, **options, error_cb=self._on_error)
        except Exception as error:
            raise self._unreachable(str(error) or type(error).__name__) from None
        if self._client is None:
            raise self._unreachable(self._trouble or "no answer")

    def _unreachable(self, why: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._source.url} cannot be reached ({why:.200}); check that nats-server runs there, and the credentials"
        )

    async def _on_error(self, error: Exception) -> None:
        self._trouble = str(error) or type(error).__name__

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await hang_up(client)

    # --- the consumer ---

    async def _consumer(self, stream: JetStreamContext) -> ConsumerInfo:
        """The durable consumer, made where there is none; it keeps how far this ledger is."""
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import NotFoundError

        source, ledger_id = self._source, self._taker.ledger.ledger_id
        name = source.consumer or f"chatsnapshot-{ledger_id}"
        try:
            state = (await stream.stream_info(source.stream)).state
        except NotFoundError:
            raise LedgerError(
                f"there is no stream {source.stream!r} at {source.url}; make it first"
            ) from None
        self._message_bytes = max(1, state.bytes // max(1, state.messages))
        try:
            found: ConsumerInfo = await stream.consumer_info(source.stream, name)
        except NotFoundError:
            return await stream.add_consumer(
                source.stream,
                ConsumerConfig(
                    durable_name=name,
                    description="chatsnapshot ingest",
                    ack_policy=AckPolicy.EXPLICIT,
                    ack_wait=source.ack_wait,
                    max_ack_pending=source.batch,
                    max_deliver=-1,
                    filter_subject=source.subject,
                    metadata={_OWNER: ledger_id},
                ),
            )
        config = found.config
        if config.deliver_subject or config.ack_policy != AckPolicy.EXPLICIT:
            raise LedgerError(
                f"the consumer {name!r} of {source.stream} is no pull consumer with explicit acknowledgement; give "
                "consumer=NAME of another one, or of none, which is made then"
            )
        if source.subject is not None and config.filter_subject != source.subject:
            raise LedgerError(
                f"the consumer {name!r} of {source.stream} takes the subject {config.filter_subject or '>'!r}, not "
                f"{source.subject!r}; give consumer=NAME of another one"
            )
        owner = (config.metadata or {}).get(_OWNER)
        if owner not in (None, ledger_id):
            raise LedgerError(
                f"the consumer {name!r} of {source.stream} feeds another ledger ({owner}), and what it was given "
                "does not come again; give consumer=NAME of another one"
            )
        return found

    # --- messages ---

    async def run(self) -> None:
        from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

        assert self._client is not None
        domain = self._source.address.options.get("domain")
        stream = self._client.jetstream(timeout=5, **({"domain": domain} if domain else {}))
        try:
            consumer = await self._consumer(stream)
            sub = await stream.pull_subscribe_bind(consumer.name, self._source.stream)
        except (ServiceUnavailableError, NoStreamResponseError, asyncio.TimeoutError):
            raise StoreUnavailable(
                f"{self._source.url} does not answer for JetStream; is it enabled there?"
            ) from None
        except APIError as error:
            raise LedgerError(f"{self._source.url} refuses: {error.description or error}") from None
        ack_wait = consumer.config.ack_wait or self._source.ack_wait
        if consumer.num_ack_pending:
            # They come again before anything new: the order of the stream stays, also after a crash.
            self._note(
                f"waiting {ack_wait:g} s for {consumer.num_ack_pending:,} messages that were not acknowledged"
            )
            await pause(ack_wait + 0.1, self._stop)
        while not self._stop.is_set():
            try:
                fetched = await sub.fetch(self._next_count(consumer.config.max_ack_pending), _FETCH_SECONDS)
                if fetched:
                    await self._settle(fetched, ack_wait)
                self._silent_since = None
                continue
            except asyncio.TimeoutError:
                pass
            except APIError as error:
                raise LedgerError(
                    f"the consumer {consumer.name!r} of {self._source.stream} is gone ({error.description or error}); "
                    "the same command again makes it anew, and what is known is not stored twice"
                ) from None
            try:
                state = await stream.consumer_info(self._source.stream, consumer.name)
            except (APIError, asyncio.TimeoutError, OSError) as error:
                if self._too_silent():
                    raise self._unreachable(str(error) or type(error).__name__) from None
                await pause(0.2, self._stop)
                continue
            self._silent_since = None
            if self._until_idle and not state.num_pending and not state.num_ack_pending:
                return

    def _next_count(self, pending_max: int | None) -> int:
        """How many messages to fetch: the larger they were, the fewer."""
        limit = pending_max if pending_max is not None and pending_max > 0 else self._source.batch
        return min(self._source.batch, limit, self._fitting(self._message_bytes))

    async def _settle(self, fetched: list[Msg], ack_wait: float) -> None:
        """Commit, then acknowledge: a crash between the two brings the messages again, and they are known then."""
        self._message_bytes = max(1, *(len(one.data) for one in fetched))
        messages = [self._message(one) for one in fetched]
        refused = await self._stored(
            messages, every=ack_wait / 3, in_hand=lambda: self._tell(fetched, "in_progress")
        )
        await self._tell([one for index, one in enumerate(fetched) if index not in refused], "ack")
        await self._tell([one for index, one in enumerate(fetched) if index in refused], "term")
        try:
            assert self._client is not None
            await self._client.flush(2)
        except Exception:
            pass  # they come again, and are known
        self._progress(self._taker.report)

    async def _tell(self, fetched: list[Msg], what: str) -> None:
        for one in fetched:
            try:
                await getattr(one, what)()
            except Exception:
                return  # without a connection; they come again, and are known

    def _message(self, one: Msg) -> Message:
        about = one.metadata
        at = timestamp_text(about.timestamp)
        headers: dict[str, Any] = one.headers or {}
        given = headers.get("Nats-Msg-Id")
        number = about.sequence.stream
        key = message_key("nats", f"{self._source.name} {f'id {given}' if given else f'{number} {at}'}")
        place = f"message {number} of {self._source.stream} ({one.subject})"
        return Message(
            key, place, at, tuple((str(name), str(value)) for name, value in headers.items()), one.data
        )

"""Reads the URL of a stream on NATS JetStream that events come from: ``nats://host:port/STREAM?consumer=NAME``."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.numbers import ack_seconds, batch_size
from chatsnapshot.stores.nats.address import Address, read_address
from chatsnapshot.stores.open import locate
from chatsnapshot.stores.serverurls import without_secrets

__all__ = ["NatsStream", "read_stream"]

_OURS = ("consumer", "subject", "batch", "ack_wait", "name")
_NAME = re.compile(r"[^\s.*>/\\\x00-\x1f\x7f]{1,255}")


class NatsStream(NamedTuple):
    """Where messages come from. ``consumer`` is ``None`` for one of the ledger's own; ``url`` shows no secrets."""

    url: str
    address: Address
    stream: str
    consumer: str | None
    subject: str | None
    batch: int
    ack_wait: float
    """Seconds after which the broker gives a message again that was not acknowledged."""
    name: str
    """Stands for the stream in the ids of events that bring none."""

    def __repr__(self) -> str:
        return f"NatsStream({self.url!r})"


def read_stream(url: str) -> NatsStream:
    """Take the URL apart; raises :class:`LedgerError` for what it lacks or has too much."""
    shown = without_secrets(url)
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True)
    except ValueError:
        raise LedgerError("the URL of the stream cannot be read; write nats://host:4222/STREAM") from None
    stream = unquote(parts.path.strip("/"))
    if not _NAME.fullmatch(stream):
        raise LedgerError(
            f"{shown} names no stream to ingest from; write nats://host:4222/STREAM?consumer=NAME"
        )
    given = dict(pairs)
    if len(given) < len(pairs):
        raise LedgerError(f"{shown} has an option twice; give it once")
    if "ledger" in given:
        raise LedgerError(f"{shown} is where messages come from; name the ledger with --ledger")
    ours = {name: given.pop(name) for name in _OURS if name in given}
    address = read_address(locate(parts._replace(path="", query=urlencode(given)).geturl()))
    consumer = ours.get("consumer")
    if consumer is not None and not _NAME.fullmatch(consumer):
        raise LedgerError(
            f"{consumer!r:.80} cannot be the name of a consumer: no blanks, dots, slashes, * or >"
        )
    return NatsStream(
        shown,
        address,
        stream,
        consumer,
        ours.get("subject"),
        batch_size(ours.get("batch"), shown),
        ack_seconds(ours.get("ack_wait"), shown),
        ours.get("name") or stream,
    )

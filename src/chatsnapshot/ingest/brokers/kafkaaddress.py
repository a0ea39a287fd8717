"""Reads the URL of a topic on Kafka that events come from: ``kafka://host:port,host:port/?topic=NAME&group=NAME``."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.numbers import batch_size
from chatsnapshot.stores.serverurls import without_secrets

__all__ = ["SCHEMES", "KafkaTopic", "read_topic"]

SCHEMES = ("kafka",)
_PORT = 9092
_OURS = ("topic", "group", "batch", "name")
_CLIENT = (
    "auto.offset.reset",
    "client.id",
    "client.rack",
    "group.instance.id",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "security.protocol",
    "session.timeout.ms",
    "topic.metadata.refresh.interval.ms",
)
_SECURITY = ("sasl.", "ssl.")
"""All options of the client that begin so are taken as well."""
_SESSION_MS = "10000"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_GROUP_MAX = 255
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]+)(?::([0-9]{1,5}))?")


class KafkaTopic(NamedTuple):
    """Where messages come from; may hold a password, and shows none (``url`` has none).

    ``group`` is ``None`` for one of the ledger's own; ``options`` are those of librdkafka, by its names.
    """

    url: str
    servers: str
    topic: str
    group: str | None
    options: dict[str, str]
    batch: int
    name: str
    """Stands for the topic in the ids of events that bring none."""

    def __repr__(self) -> str:
        return f"KafkaTopic({self.url!r})"

    def connect_options(self) -> dict[str, Any]:
        """Options for a client; raises :class:`LedgerError` for files that cannot be read."""
        for name, path in self.options.items():
            if name.endswith(".location") and path != "probe" and not os.access(path, os.R_OK):
                raise LedgerError(
                    f"{name} of {self.url} cannot be read: there is no such file, or it is closed"
                )
        return {"bootstrap.servers": self.servers, **self.options}


def read_topic(url: str) -> KafkaTopic:
    """Take the URL apart; raises :class:`LedgerError` for what it lacks or has too much."""
    shown = without_secrets(url)
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True)
    except ValueError:
        raise LedgerError(
            "the URL of the topic cannot be read; write kafka://host:9092/?topic=NAME, with what is special in a "
            "name or password as %XX"
        ) from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise LedgerError(f"{shown} has an option twice; give it once")
    if "ledger" in given:
        raise LedgerError(f"{shown} is where messages come from; name the ledger with --ledger")
    for name in given:
        if name not in _OURS and name not in _CLIENT and not name.startswith(_SECURITY):
            raise LedgerError(
                f"{name!r:.80} is no option of a kafka:// URL; known are {', '.join((*_OURS, *_CLIENT))}, and those of "
                "the client that begin with sasl. and ssl."
            )
        if name.endswith(".pem"):
            raise LedgerError(f"{name} would show what it holds to everybody here; give the path of a file")
    if parts.fragment:
        raise LedgerError("a kafka:// URL has no part after #; write # as %23")
    if parts.path.strip("/"):
        raise LedgerError(f"{shown} has a path; name the topic with ?topic=NAME")
    topic = given.get("topic", "")
    if not topic:
        raise LedgerError(
            f"{shown} names no topic to ingest from; write kafka://host:9092/?topic=NAME&group=NAME"
        )
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise LedgerError(
            f"topic in {shown} is the name of one topic (letters, digits, dots, - and _), not {topic!r:.80}"
        )
    group = given.get("group")
    if group is not None and not (0 < len(group) <= _GROUP_MAX and group.isprintable()):
        raise LedgerError(f"group in {shown} is a name of up to {_GROUP_MAX} characters, not {group!r:.80}")
    user, at, hosts = parts.netloc.rpartition("@")
    return KafkaTopic(
        url=shown,
        servers=_servers(hosts, shown),
        topic=topic,
        group=group,
        options=_options(
            user if at else None, {name: given[name] for name in given if name not in _OURS}, shown
        ),
        batch=batch_size(given.get("batch"), shown),
        name=given.get("name") or topic,
    )


def _servers(hosts: str, shown: str) -> str:
    found = []
    for one in (hosts or "localhost").split(","):
        match = _HOST.fullmatch(one)
        if match is None or not 0 < int(match[2] or _PORT) < 65_536:
            raise LedgerError(
                f"{shown} names no servers that can be read; write kafka://host:9092,host:9092/"
            )
        found.append(f"{match[1]}:{match[2] or _PORT}")
    return ",".join(found)


def _options(credentials: str | None, given: dict[str, str], shown: str) -> dict[str, str]:
    """Those of the client. A password goes over TLS, as PLAIN, unless it is said otherwise."""
    options = {"session.timeout.ms": _SESSION_MS, **given}
    if credentials is not None:
        user, colon, password = credentials.partition(":")
        if not (user and colon):  # a name alone may well be a password: not shown
            raise LedgerError(
                "the kafka:// URL has a user without a password; write kafka://USER:PASSWORD@host"
            )
        if "sasl.username" in given or "sasl.password" in given:
            raise LedgerError(f"{shown} names user or password twice; give them once")
        options.update({"sasl.username": unquote(user), "sasl.password": unquote(password)})
    sasl = any(name.startswith("sasl.") for name in options)
    if sasl and "sasl.mechanisms" not in options:
        options.setdefault("sasl.mechanism", "PLAIN")
    if sasl or any(name.startswith("ssl.") for name in options):
        options.setdefault("security.protocol", "SASL_SSL" if sasl else "SSL")
    return options

"""Reads the URL of a stream on Redis that events come from: ``redis://host:port/0?stream=NAME&group=NAME``."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.numbers import ack_seconds, batch_size, whole
from chatsnapshot.stores.serverurls import without_secrets

__all__ = ["SCHEMES", "RedisStream", "read_stream"]

SCHEMES = ("redis", "rediss", "unix")
_PORT = 6379
_TLS = ("tls_ca", "tls_cert", "tls_key")
_OPTIONS = ("stream", "group", "consumer", "field", "batch", "ack_wait", "name", "db", *_TLS)
_NAME_MAX = 255


class RedisStream(NamedTuple):
    """Where messages come from; holds a password, and shows none (``url`` has none).

    ``group`` is ``None`` for one of the ledger's own, ``field`` for the usual places of a document.
    """

    url: str
    host: str
    port: int
    socket: str
    """Path of a unix socket; empty for host and port."""
    database: int
    user: str | None
    password: str | None
    tls: bool
    tls_files: dict[str, str]
    stream: str
    group: str | None
    consumer: str
    field: str | None
    batch: int
    ack_wait: float
    """Seconds after which an entry that a consumer did not acknowledge is taken over from it."""
    name: str
    """Stands for the stream in the ids of events that bring none."""

    def __repr__(self) -> str:
        return f"RedisStream({self.url!r})"

    def connect_options(self) -> dict[str, Any]:
        """Arguments for a connection of redis-py; raises :class:`LedgerError` for files that cannot be read."""
        options: dict[str, Any] = {"db": self.database, "username": self.user, "password": self.password}
        if self.socket:
            return {**options, "path": self.socket}
        options.update(host=self.host, port=self.port)
        if self.tls:
            self._check_files()
            # Said, because it was not the default of redis-py until version 6.
            options.update(ssl_cert_reqs="required", ssl_check_hostname=True)
            named = {"tls_ca": "ssl_ca_certs", "tls_cert": "ssl_certfile", "tls_key": "ssl_keyfile"}
            options.update({named[name]: path for name, path in self.tls_files.items()})
        return options

    def _check_files(self) -> None:
        try:
            context = ssl.create_default_context(cafile=self.tls_files.get("tls_ca"))
            if "tls_cert" in self.tls_files:
                context.load_cert_chain(self.tls_files["tls_cert"], self.tls_files.get("tls_key"))
        except (OSError, ssl.SSLError) as error:
            raise LedgerError(
                f"tls_ca, tls_cert or tls_key of {self.url} cannot be read ({type(error).__name__}); give PEM files"
            ) from None


def read_stream(url: str) -> RedisStream:
    """Take the URL apart; raises :class:`LedgerError` for what it lacks or has too much."""
    shown = without_secrets(url)
    try:
        parts = urlsplit(url)
        port = parts.port
        pairs = parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True)
    except ValueError:
        raise LedgerError(
            "the URL of the stream cannot be read; write redis://host:6379/0?stream=NAME, with what is special in a "
            "name or password as %XX"
        ) from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise LedgerError(f"{shown} has an option twice; give it once")
    if "ledger" in given:
        raise LedgerError(f"{shown} is where messages come from; name the ledger with --ledger")
    for name in given:
        if name not in _OPTIONS:
            raise LedgerError(
                f"{name!r:.80} is no option of a {parts.scheme}:// URL; known are {', '.join(_OPTIONS)}"
            )
    if parts.fragment:
        raise LedgerError(f"a {parts.scheme}:// URL has no part after #; write # as %23")
    if not given.get("stream"):
        raise LedgerError(
            f"{shown} names no stream to ingest from; write redis://host:6379/0?stream=NAME&group=NAME"
        )
    if parts.username and parts.password is None:  # it may well be a password: not shown
        raise LedgerError(
            f"the {parts.scheme}:// URL has a user without a password; write {parts.scheme}://USER:PASSWORD@host, or "
            f"{parts.scheme}://:PASSWORD@host"
        )
    if len(parts.netloc.rpartition("@")[2].split(",")) > 1:
        raise LedgerError(f"{shown} names more than one server; give the address that a fail-over moves")
    names = {
        name: _name(name, given[name], shown) for name in ("stream", "group", "consumer") if name in given
    }
    unix = parts.scheme == "unix"
    if unix and not unquote(parts.path).strip("/"):
        raise LedgerError(f"{shown} names no socket; write unix:///run/redis/redis.sock?stream=NAME")
    if parts.scheme != "rediss" and any(name in given for name in _TLS):
        raise LedgerError(f"{shown} has options of TLS; write rediss:// for it")
    if not unix and "db" in given and parts.path.strip("/"):
        raise LedgerError(f"{shown} names the database twice; give it once")
    return RedisStream(
        url=shown,
        host=parts.hostname or "localhost",
        port=_PORT if port is None else port,
        socket=unquote(parts.path) if unix else "",
        database=whole(
            "db", given.get("db") or ("" if unix else parts.path.strip("/")) or "0", shown, 0, 9_999
        ),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls=parts.scheme == "rediss",
        tls_files={name: given[name] for name in _TLS if name in given},
        stream=names["stream"],
        group=names.get("group"),
        consumer=names.get("consumer", "chatsnapshot"),
        field=given.get("field") or None,
        batch=batch_size(given.get("batch"), shown),
        ack_wait=ack_seconds(given.get("ack_wait"), shown),
        name=given.get("name") or names["stream"],
    )


def _name(what: str, text: str, shown: str) -> str:
    if not (0 < len(text) <= _NAME_MAX and text.isprintable()):
        raise LedgerError(f"{what} in {shown} is a name of up to {_NAME_MAX} characters, not {text!r:.80}")
    return text

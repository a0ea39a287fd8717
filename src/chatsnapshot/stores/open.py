"""Chooses the store for a URL or path; the one place that knows which backends there are."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import InvalidEvent, LedgerError, NotFound
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Store
from chatsnapshot.stores.serverurls import SCHEMES, locate_server

__all__ = ["DEFAULT_PATH", "Location", "locate", "open_store"]

DEFAULT_PATH = "./chatsnapshot.db"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.ASCII | re.IGNORECASE)
_LEDGER = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)


class Location(NamedTuple):
    """Where a ledger is.

    ``kind`` of store, ``path`` (files only), name of the ledger, and the ``url`` as it is shown, without secrets. Of a
    server: ``address`` is the whole URL as it was given, ``target`` what its driver takes, ``options`` are our own.
    ``identity`` is what a ledger that is made there is to be made with, where that is decided (a copy);
    :func:`chatsnapshot.stores.identity.new_identity` gives a new one otherwise.
    """

    kind: str
    path: str
    ledger: str
    url: str
    address: str = ""
    target: str = ""
    options: tuple[tuple[str, str], ...] = ()
    identity: str = ""

    def __repr__(self) -> str:
        return f"Location({self.url!r})"


def locate(url: str | os.PathLike[str] | None = None) -> Location:
    """Read a URL or path; without one ``CHATSNAPSHOT_LEDGER``, else ``./chatsnapshot.db``.

    ``memory:``, ``runs.db``, ``runs.jsonl``, ``sqlite:///abs/runs.db``, ``runs.db?ledger=tenant-a``,
    ``postgresql://user@host/database?ledger=tenant-a``, ``mongodb://…``, ``nats://…``,
    ``http://host:8420?ledger=tenant-a``. Raises :class:`LedgerError` for
    what is none of these.
    """
    if url is None:
        url = os.environ.get("CHATSNAPSHOT_LEDGER") or DEFAULT_PATH
    text = os.fspath(url)
    if not isinstance(text, str) or not text or "\x00" in text:
        raise LedgerError("a ledger is named by a path or URL, such as runs.db or memory:")
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme.group(1).lower() in SCHEMES:
        server = locate_server(text, _ledger_name)
        return Location(server.kind, "", server.ledger, server.url, text, server.target, server.options)
    kind = scheme.group(1).lower() if scheme is not None and len(scheme.group(1)) > 1 else ""
    if kind not in ("", "memory", "sqlite", "jsonl", "file"):
        raise LedgerError(f"there is no store for {kind}: URLs; use a path such as runs.db, or memory:")
    rest = text[len(kind) + 1 :] if kind else text
    if kind and kind != "memory":
        rest = unquote(urlsplit(rest)._replace(query="").geturl()).replace("//", "", 1) + _query_of(rest)
    path, ledger = _split_query(rest)
    if kind == "memory":
        return Location("memory", "", ledger, "memory:")
    if not path:
        raise LedgerError(f"{text!r} names no file; give a path such as runs.db")
    if not kind or kind == "file":
        kind = "jsonl" if path.endswith((".jsonl", ".ndjson")) else "sqlite"
    path = os.path.abspath(path)
    return Location(kind, path, ledger, path if ledger == "main" else f"{path}?ledger={ledger}")


def _query_of(rest: str) -> str:
    query = urlsplit(rest).query
    return f"?{query}" if query else ""


def _split_query(rest: str) -> tuple[str, str]:
    """Path and ledger name; a question mark in a path that is no ``?ledger=`` stays in the path."""
    path, mark, query = rest.rpartition("?")
    if not mark or not query.startswith("ledger="):
        return rest, "main"
    options = dict(parse_qsl(query, keep_blank_values=True))
    ledger = options.pop("ledger")
    if options:
        raise LedgerError(f"unknown option {sorted(options)[0]!r} in a ledger URL; ledger=NAME is known")
    return path, _ledger_name(ledger)


def _ledger_name(text: str) -> str:
    if not _LEDGER.fullmatch(text):
        raise LedgerError(f"a ledger's name is 1 to 63 of a-z, 0-9 and -, not {text!r}")
    return text


def open_store(
    location: Location,
    *,
    create: bool,
    read_only: bool,
    durability: str,
    clock: Clock,
    entropy: Entropy,
    limits: Limits,
) -> Store:
    """Open the store of a location; drivers are imported here, when they are needed.

    Raises :class:`NotFound` when there is no ledger and none may be made.
    """
    if durability not in ("full", "os"):
        raise InvalidEvent(f"durability is 'full' or 'os', not {durability!r}", path="durability")
    if location.kind == "memory":
        if read_only:
            raise NotFound("a memory: ledger is always new, so there is nothing to open read-only")
        from chatsnapshot.stores.memory import MemoryStore

        return MemoryStore(
            location.url, clock=clock, entropy=entropy, limits=limits, identity=location.identity
        )
    if location.target:
        return _open_on_server(
            location,
            create=create,
            read_only=read_only,
            clock=clock,
            entropy=entropy,
            limits=limits,
        )
    folder = os.path.dirname(location.path)
    if create and not read_only and not os.path.isdir(folder):
        raise NotFound(f"the folder {folder} does not exist; create it first")
    if os.path.isdir(location.path):
        raise NotFound(f"{location.path} is a folder, not a ledger; name a file in it, such as runs.db")
    if location.kind == "jsonl":
        if location.ledger != "main":
            raise LedgerError(
                f"a JSONL file keeps one ledger, so {location.url} names none; give each ledger a path of its own"
            )
        from chatsnapshot.stores.jsonl import JsonlStore

        return JsonlStore(
            location.url,
            location.path,
            create=create,
            read_only=read_only,
            durability=durability,
            clock=clock,
            entropy=entropy,
            limits=limits,
            identity=location.identity,
        )
    from chatsnapshot.stores.sqlite import SqliteStore

    return SqliteStore(
        location.url,
        location.path,
        location.ledger,
        create=create,
        read_only=read_only,
        durability=durability,
        clock=clock,
        entropy=entropy,
        limits=limits,
        identity=location.identity,
    )


def _open_on_server(
    location: Location,
    *,
    create: bool,
    read_only: bool,
    clock: Clock,
    entropy: Entropy,
    limits: Limits,
) -> Store:
    """A ledger on a server. It is durable whatever was asked for: ``durability="os"`` is a choice for files."""
    if location.kind == "postgresql":
        from chatsnapshot.stores.postgresql.store import PostgresqlStore

        return PostgresqlStore(
            location, create=create, read_only=read_only, clock=clock, entropy=entropy, limits=limits
        )
    if location.kind == "mongodb":
        from chatsnapshot.stores.mongodb.store import MongodbStore

        return MongodbStore(
            location, create=create, read_only=read_only, clock=clock, entropy=entropy, limits=limits
        )
    if location.kind == "http":
        from chatsnapshot.stores.http.opening import open_http

        return open_http(
            location, create=create, read_only=read_only, clock=clock, entropy=entropy, limits=limits
        )
    from chatsnapshot.stores.nats.store import NatsStore

    return NatsStore(
        location, create=create, read_only=read_only, clock=clock, entropy=entropy, limits=limits
    )

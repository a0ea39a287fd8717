"""The doctor's look at NATS: version, copies, when the servers sync, limits of account and streams, and the index."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import msgspec

from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning
from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.stores.nats.address import Address, read_address
from chatsnapshot.stores.nats.answers import ApiError, Denied, Unanswered, Unsent, mapped
from chatsnapshot.stores.nats.connection import Connection
from chatsnapshot.stores.nats.index import index_path
from chatsnapshot.stores.nats.streams import FORMAT, check_server, find_streams
from chatsnapshot.stores.open import Location

__all__ = ["judge_copies", "judge_space", "judge_sync", "look_at_server"]

ANSWER_SECONDS = 3.0
FULL_SHARE = 0.9
_MEMORY_BYTES = 600
"""Memory of a server for each entry: it keeps every subject of a stream there."""

_SYNC_HINT = "set jetstream { sync_interval: always } on every server, and see docs/nats.md"


def look_at_server(location: Location) -> list[Finding]:
    """Findings for one ledger; changes nothing. Raises :class:`NotFound`; what cannot be reached is a finding."""
    address = read_address(location)
    return asyncio.run(_look(address))


async def _look(address: Address) -> list[Finding]:
    connection = Connection(address)
    try:
        await connection.open()
        check_server(connection, address)
        identity = await find_streams(connection, address)
        stream = await connection.api(f"STREAM.INFO.{address.stream}")
        vault = await connection.api(f"STREAM.INFO.{address.vault}")
        account = await connection.api("INFO")
        server = connection.server()
    except NotFound:
        raise
    except LedgerError as error:
        return [problem("server", str(error), "see what the message says, then ask the doctor again")]
    except (Unsent, Unanswered, Denied, ApiError) as error:
        return [problem("server", str(mapped(error, address.url)), "see docs/nats.md, then ask again")]
    finally:
        await connection.close()
    said = _monitored(address.options.get("monitoring", ""))
    return [
        ok("server", f"nats-server {server.get('version')} takes atomic batches"),
        ok("format", f"ledger format {FORMAT}, id {identity}"),
        *judge_sync(said, bool(address.options.get("monitoring"))),
        judge_copies(stream, bool(server.get("cluster"))),
        judge_copies(vault, bool(server.get("cluster"))),
        *judge_space(stream, vault, account),
        _index(address, identity),
    ]


def _monitored(urls: str) -> list[dict[str, Any] | None]:
    """``/varz`` of each server that ``monitoring=`` names; ``None`` for one that does not answer."""
    found: list[dict[str, Any] | None] = []
    for url in urls.split(","):
        if not url.startswith(("http://", "https://")):
            continue
        try:
            with urlopen(f"{url.rstrip('/')}/varz", timeout=ANSWER_SECONDS) as answer:
                found.append(msgspec.json.decode(answer.read()))
        except (OSError, ValueError):
            found.append(None)
    return found


def judge_sync(said: list[dict[str, Any] | None], asked: bool) -> Iterator[Finding]:
    """Whether an acknowledged entry is on the disks: what the monitoring of each server says of ``sync_interval``."""
    if not asked:
        yield warning(
            "sync",
            "whether the servers sync before they acknowledge cannot be seen from here: by default they do it every two "
            "minutes, and a loss of power takes what was acknowledged since",
            f"{_SYNC_HINT}; the doctor can look when the URL names the monitoring: &monitoring=http://host:8222",
        )
        return
    for number, server in enumerate(said, 1):
        if server is None:
            yield warning(
                "sync",
                f"the monitoring of server {number} does not answer",
                "check monitoring= in the URL, and the option http of the server",
            )
            continue
        name = server.get("server_name", number)
        config = (server.get("jetstream") or {}).get("config") or {}
        if config.get("sync_always"):
            yield ok("sync", f"server {name} syncs every commit before it acknowledges it")
        else:
            seconds = int(config.get("sync_interval") or 0) / 1e9
            every = f"every {seconds:g} s" if seconds else "now and then"
            yield problem(
                "sync",
                f"server {name} syncs {every}: a loss of power takes what it acknowledged since",
                _SYNC_HINT,
            )


def judge_copies(info: dict[str, Any], clustered: bool) -> Finding:
    """Copies of a stream, and whether all are up to date."""
    name, copies = info["config"]["name"], int(info["config"].get("num_replicas", 1))
    behind = [
        str(one.get("name"))
        for one in (info.get("cluster") or {}).get("replicas") or ()
        if not one.get("current") or one.get("offline")
    ]
    if behind:
        return warning(
            "copies",
            f"{len(behind)} of {copies} copies of {name} are not up to date ({', '.join(behind)})",
            "start these servers, or wait until they have caught up",
        )
    if copies >= 3:
        return ok(
            "copies", f"{name} has {copies} copies, all up to date: {(copies - 1) // 2} server may be lost"
        )
    to_do = f"nats stream edit {name} --replicas 3" if clustered else "use three servers, see docs/nats.md"
    return note("copies", f"{name} has one copy: when its disk is lost, so is the ledger", to_do)


def judge_space(stream: dict[str, Any], vault: dict[str, Any], account: dict[str, Any]) -> Iterator[Finding]:
    """Sizes, and how near they are to limits of the account and of the streams."""
    used = int(account.get("storage", 0))
    most = int((account.get("limits") or {}).get("max_storage", -1))
    if most > 0 and used > FULL_SHARE * most:
        yield warning(
            "space",
            f"the account uses {used:,} of {most:,} bytes",
            "raise max_file of the account: a full one refuses every entry",
        )
    for info in (stream, vault):
        limit, size = int(info["config"].get("max_bytes", -1)), int(info["state"]["bytes"])
        if limit > 0 and size > FULL_SHARE * limit:
            yield warning(
                "space",
                f"{info['config']['name']} has {size:,} of {limit:,} bytes",
                "raise its max_bytes: a full one refuses every entry",
            )
    entries = int(stream["state"]["messages"])
    size = int(stream["state"]["bytes"]) + int(vault["state"]["bytes"])
    yield ok(
        "space",
        f"{entries:,} entries in {size:,} bytes on each server that has a copy, and about "
        f"{entries * _MEMORY_BYTES // 1024 // 1024:,} MiB of its memory",
    )


def _index(address: Address, identity: str) -> Finding:
    path = index_path(address.options.get("index"), identity)
    if path is None:
        return note("index", "the index is kept in memory, and read from the stream at every open")
    if not os.path.exists(path):
        return note("index", f"there is no index at {path} yet; it is made at the next open")
    return ok("index", f"{path} has {os.path.getsize(path):,} bytes; it can be deleted at any time")

"""The two streams of a ledger: how they are made, what must hold of them, and what is said when it does not.

The stream of the ledger holds entries and nothing else: its metadata holds the format and the ledger's id. The vault
beside it holds what can be erased: keys, and parts of what does not fit into one message.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

from chatsnapshot.clock import time_text
from chatsnapshot.errors import Corrupt, FormatTooNew, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.nats.address import Address
from chatsnapshot.stores.nats.answers import ApiError
from chatsnapshot.stores.nats.connection import Connection

__all__ = ["FORMAT", "PAYLOAD_BYTES_MIN", "altered", "check_server", "find_streams", "make_streams"]

FORMAT = 1
PAYLOAD_BYTES_MIN = 64 * 1024
"""Smallest ``max_payload`` of a server: the largest header of an event has to fit into one message."""

_REPLICAS = 3
_PAUSE_SECONDS = 0.05
_MAKING_SECONDS = 5.0
_OLDEST = (2, 12)
_MARK = "chatsnapshot."

_LEDGER: dict[str, Any] = {
    "storage": "file",
    "retention": "limits",
    "discard": "new",
    "discard_new_per_subject": True,
    "max_msgs_per_subject": 1,
    "max_msgs": -1,
    "max_age": 0,
    "allow_atomic": True,
    "allow_direct": True,
    "deny_delete": True,
    "deny_purge": True,
}
_VAULT: dict[str, Any] = {
    "storage": "file",
    "retention": "limits",
    "discard": "new",
    "max_msgs_per_subject": -1,
    "max_msgs": -1,
    "max_age": 0,
    "allow_atomic": True,
    "allow_direct": True,
}


def check_server(connection: Connection, address: Address) -> None:
    """Refuse a server that cannot keep the promises, before anything is written."""
    server = connection.server()
    version = tuple(int(part) for part in re.findall(r"\d+", str(server.get("version", "0")))[:3])
    if version < _OLDEST:
        raise StoreUnavailable(
            f"nats-server at {address.url} is version {server.get('version')}, and atomic batches need 2.12 or newer; "
            "upgrade the server"
        )
    if not server.get("headers", False):
        raise StoreUnavailable(f"the server at {address.url} takes no headers; switch them on there")
    if connection.max_payload < PAYLOAD_BYTES_MIN:
        raise StoreUnavailable(
            f"max_payload of the server at {address.url} is {connection.max_payload:,} bytes, and a ledger needs at "
            f"least {PAYLOAD_BYTES_MIN:,}; raise it in the server's configuration"
        )


async def find_streams(connection: Connection, address: Address) -> str:
    """The id of an existing ledger; raises :class:`NotFound`, and what :func:`altered` tells as :class:`LedgerError`."""
    try:
        found = await connection.api(f"STREAM.INFO.{address.stream}")
        vault = await connection.api(f"STREAM.INFO.{address.vault}")
    except ApiError as error:
        if error.err_code != 10059:
            raise
        if "found" in locals():
            raise Corrupt(
                f"the stream {address.vault} is gone, and with it the keys of all payloads; restore it from a backup"
            ) from None
        raise NotFound(
            f"no ledger {address.ledger!r} at {address.url}; record something there first, or check the name"
        ) from None
    return checked(found["config"], vault["config"], address)


def checked(config: dict[str, Any], vault: dict[str, Any], address: Address) -> str:
    """The ledger's id, once both configurations are as they must be."""
    metadata = config.get("metadata") or {}
    identity = metadata.get(_MARK + "ledger_id")
    number = str(metadata.get(_MARK + "format", ""))
    if not identity or not number.isdigit():
        raise LedgerError(
            f"the stream {address.stream} at {address.url} was not made by ChatSnapshot; name another ledger"
        )
    if int(number) > FORMAT:
        raise FormatTooNew(
            f"{address.url} has ledger format {number}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )
    for name, found, wanted in (
        (address.stream, config, _wanted(_LEDGER, [f"{address.subjects}.ev.>"])),
        (address.vault, vault, _wanted(_VAULT, [f"{address.subjects}.vault.>"])),
    ):
        faults = altered(found, wanted)
        if faults:
            raise StoreUnavailable(
                f"the stream {name} at {address.url} was configured anew and cannot keep a ledger like this "
                f"({faults[0]}); nothing was written, set it back with: nats stream edit {name}"
            )
    return str(identity)


def _wanted(config: dict[str, Any], subjects: list[str]) -> dict[str, Any]:
    return {**config, "subjects": subjects}


def altered(found: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """In what a configuration differs from what a ledger needs; limits of space may be set."""
    faults = [
        f"{key} is {found.get(key)!r}, not {value!r}"
        for key, value in wanted.items()
        if (found.get(key) or None) != (value or None)
    ]
    for key in ("mirror", "sources", "subject_transform", "allow_msg_ttl", "allow_rollup_hdrs", "no_ack"):
        if found.get(key):
            faults.append(f"{key} is set")
    return faults


async def make_streams(connection: Connection, address: Address, now_ns: int, identity: str) -> str:
    """Make what is missing and give the ledger's id; many processes may do it at once, and all get the same."""
    try:
        return await find_streams(connection, address)
    except NotFound:
        await _make_both(connection, address, now_ns, identity)
    except Corrupt:
        pass  # the vault is gone, or another process has just made it and not every server knows
    deadline = time.monotonic() + min(address.timeout, _MAKING_SECONDS)
    while True:
        try:
            return await find_streams(connection, address)
        except (NotFound, Corrupt):
            # In a cluster, a stream that another process is just making is refused as known before it is found.
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


async def _make_both(connection: Connection, address: Address, now_ns: int, identity: str) -> None:
    """The vault first: a ledger that is there has one."""
    replicas = address.replicas or (_REPLICAS if connection.server().get("cluster") else 1)
    vault = _wanted(_VAULT, [f"{address.subjects}.vault.>"])
    await _make(connection, address, address.vault, vault, replicas, {})
    metadata = {
        _MARK + "format": str(FORMAT),
        _MARK + "ledger_id": new_identity(identity),
        _MARK + "created_at": time_text(now_ns),
    }
    ledger = _wanted(_LEDGER, [f"{address.subjects}.ev.>"])
    await _make(connection, address, address.stream, ledger, replicas, metadata)


async def _make(
    connection: Connection,
    address: Address,
    name: str,
    config: dict[str, Any],
    replicas: int,
    metadata: dict[str, str],
) -> None:
    whole = {**config, "name": name, "num_replicas": replicas, "metadata": metadata, "max_bytes": -1}
    try:
        await connection.api(f"STREAM.CREATE.{name}", whole)
    except ApiError as error:
        if error.err_code == 10058:
            return  # another process was faster
        if error.err_code == 10065:
            raise StoreUnavailable(
                f"another stream at {address.url} has subjects under {address.subjects}; remove it, or take "
                "another name"
            ) from None
        if "replicas" in error.description or "peers" in error.description:
            raise StoreUnavailable(
                f"{address.url} cannot keep {replicas} copies ({error.description}); wait until the cluster has that "
                "many servers, or choose with ?replicas="
            ) from None
        if "max bytes" in error.description:
            raise StoreUnavailable(
                f"this account at {address.url} asks every stream for a limit of bytes; lift max_bytes_required there"
            ) from None
        raise

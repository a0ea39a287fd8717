"""Attempts to change a ledger on NATS with the means of its API, and changes made to it that ``verify`` must find."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.open import locate

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger
    from chatsnapshot.testing.bench import Bench

__all__ = ["NATS_ATTACKS", "NATS_TAMPERINGS", "stream_api"]

Api = Callable[..., Awaitable[dict[str, Any]]]


async def _connected(place: str, work: Callable[[Any, Api, str], Awaitable[None]]) -> None:
    import nats

    from chatsnapshot.stores.nats.address import read_address

    location = locate(place)
    client = await nats.connect(**read_address(location).connect_options())

    async def api(call: str, body: object = None) -> dict[str, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{call}", data, timeout=5)).data)
        if "error" in answer:
            raise LedgerError(f"{call}: {answer['error']['description']}")
        return answer

    try:
        await work(client, api, location.ledger)
    finally:
        await client.close()


def stream_api(place: str, work: Callable[[Any, Api, str], Awaitable[None]]) -> None:
    """``work(client, api, ledger)`` with a connection of its own to the server of a place."""
    asyncio.run(_connected(place, work))


def _call(call: str, body: object = None) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        async def work(_: Any, api: Api, ledger: str) -> None:
            await api(call.format(f"chatsnapshot_{ledger}"), body)

        stream_api(place, work)

    return attack


def _configured(**changes: object) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        async def work(_: Any, api: Api, ledger: str) -> None:
            name = f"chatsnapshot_{ledger}"
            config = (await api(f"STREAM.INFO.{name}"))["config"]
            await api(f"STREAM.UPDATE.{name}", {**config, **changes})

        stream_api(place, work)

    return attack


def _published(headers: dict[str, str]) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        async def work(client: Any, api: Api, ledger: str) -> None:
            found = await api(f"STREAM.MSG.GET.chatsnapshot_{ledger}", {"seq": 3})
            answer = await client.request(found["message"]["subject"], b"forged", headers=headers, timeout=5)
            if "error" in json.loads(answer.data):
                raise LedgerError("refused")

        stream_api(place, work)

    return attack


NATS_ATTACKS = {
    "remove an entry": _call("STREAM.MSG.DELETE.{}", {"seq": 3}),
    "remove the last entry": _call("STREAM.MSG.DELETE.{}", {"seq": 6, "no_erase": True}),
    "remove all": _call("STREAM.PURGE.{}"),
    "remove those in front": _call("STREAM.PURGE.{}", {"seq": 4}),
    "allow removal": _configured(deny_delete=False),
    "allow removal of all": _configured(deny_purge=False),
    "store a known id again": _published({}),
    "store behind an old head": _published({"Nats-Expected-Last-Sequence": "2"}),
    "replace an entry": _published({"Nats-Rollup": "sub"}),
}


def _in_index(sql: str) -> Callable[[Bench, str, Ledger], Ledger]:
    """Change the local index, which readers trust: ``verify`` compares it with the stream and with the tree."""

    def tamper(bench: Bench, place: str, ledger: Ledger) -> Ledger:
        import apsw

        store: Any = ledger._store
        path = store._core.engine.index.path
        ledger.close()
        connection = apsw.Connection(path)
        try:
            connection.execute(sql)
        finally:
            connection.close()
        return bench.open(place)

    return tamper


def _without_its_key(bench: Bench, place: str, ledger: Ledger) -> Ledger:
    """Erase the key of an entry, with no record of it."""
    ledger.close()

    async def work(client: Any, api: Api, name: str) -> None:
        found = await api(f"STREAM.MSG.GET.chatsnapshot_{name}", {"seq": 3})
        facts = json.loads(base64.b64decode(found["message"]["data"]).partition(b"\n")[0])
        page, _, slot = facts["key"].partition("-")
        subject = f"chatsnapshot.{name}.vault.k.{page}"
        kept = await api(f"STREAM.MSG.GET.chatsnapshot_{name}_vault", {"last_by_subj": subject})
        keys = bytearray(base64.b64decode(kept["message"]["data"]))
        keys[32 * int(slot) : 32 * int(slot) + 32] = bytes(32)
        await client.request(subject, bytes(keys), timeout=5)

    stream_api(place, work)
    return bench.open(place)


NATS_TAMPERINGS = {
    "a type was changed": _in_index("UPDATE entry SET event_type = 'execution.forged' WHERE position = 3"),
    "a sealed payload was changed": _in_index(
        "UPDATE entry SET payload = zeroblob(length(payload)) WHERE position = 3"
    ),
    "a payload was removed": _in_index("UPDATE entry SET payload = NULL, salt = NULL WHERE position = 3"),
    "a key was removed": _without_its_key,
}

"""Where projections stand (``cs_projection``) and what they hold (``cs_state``, parted below the size of a document)."""

from __future__ import annotations

from collections.abc import Mapping

from chatsnapshot.stores.base import Checkpoint
from chatsnapshot.stores.mongodb.connecting import Collections, Document
from chatsnapshot.stores.mongodb.driver import ClientSession
from chatsnapshot.stores.statekeys import beyond

__all__ = ["checkpoint", "drop_states", "load_state", "save_states", "state_keys"]

_PART_BYTES = 8 * 2**20
_KEYS_AT_ONCE = 1_000
_BYTES_AT_ONCE = 16 * 2**20


def _of(ledger: str, name: str, version: int) -> Document:
    return {"ledger": ledger, "name": name, "version": version}


def _checkpoint_id(ledger: str, name: str, version: int) -> str:
    return f"{ledger}/{version}/{name}"


def checkpoint(
    on: Collections, ledger: str, name: str, version: int, session: ClientSession | None = None
) -> Checkpoint | None:
    """Where a projection stands."""
    found = on.projection.find_one({"_id": _checkpoint_id(ledger, name, version)}, session=session)
    if found is None:
        return None
    return Checkpoint(int(found["position"]), bytes(found["leaf"]), bytes(found["digest"]))


def load_state(on: Collections, ledger: str, name: str, version: int, key: str) -> bytes | None:
    """The state for one key."""
    wanted = {**_of(ledger, name, version), "key": key}
    parts = [bytes(document["state"]) for document in on.state.find(wanted, sort=[("part", 1)])]
    return b"".join(parts) if parts else None


def state_keys(
    on: Collections, ledger: str, name: str, version: int, prefix: str, after: str, limit: int, reverse: bool
) -> list[str]:
    """Keys in the order of their code points, see ``Store.keys``: that of UTF-8, in which the server compares."""
    if limit < 1:
        return []
    bounds: Document = {}
    if prefix:
        bounds["$gte"] = prefix
    if after and reverse:
        bounds["$lt"] = after
    elif after:
        bounds["$gt"] = after
    wanted: Document = {**_of(ledger, name, version), "part": 0}
    every = [{"key": bounds}] if bounds else []
    if prefix and beyond(prefix):
        every.append({"key": {"$lt": beyond(prefix)}})
    if every:
        wanted["$and"] = every
    found = on.state.find(wanted, {"key": 1}, sort=[("key", -1 if reverse else 1)], limit=limit)
    return [str(document["key"]) for document in found]


def save_states(
    on: Collections,
    ledger: str,
    name: str,
    version: int,
    before: Checkpoint | None,
    after: Checkpoint,
    states: Mapping[str, bytes | None],
    session: ClientSession,
) -> bool:
    """Set the checkpoint if it is ``before``, and the states with it; the checkpoint is what two of them collide on."""
    key = _checkpoint_id(ledger, name, version)
    fields = {"position": after.position, "leaf": after.leaf, "digest": after.digest}
    if before is None:
        if on.projection.find_one({"_id": key}, {"_id": 1}, session=session) is not None:
            return False
        on.projection.insert_one({"_id": key, **_of(ledger, name, version), **fields}, session=session)
    else:
        done = on.projection.update_one(
            {"_id": key, "position": before.position, "leaf": before.leaf, "digest": before.digest},
            {"$set": fields},
            session=session,
        )
        if not done.matched_count:
            return False
    keys = list(states)
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        wanted = {**_of(ledger, name, version), "key": {"$in": keys[first : first + _KEYS_AT_ONCE]}}
        on.state.delete_many(wanted, session=session)
    waiting: list[Document] = []
    size = 0
    for text, state in states.items():
        if state is None:
            continue
        for part in range(max(-(-len(state) // _PART_BYTES), 1)):
            data = state[part * _PART_BYTES : (part + 1) * _PART_BYTES]
            waiting.append({**_of(ledger, name, version), "key": text, "part": part, "state": data})
            size += len(data)
            if size >= _BYTES_AT_ONCE or len(waiting) >= _KEYS_AT_ONCE:
                on.state.insert_many(waiting, session=session)
                waiting, size = [], 0
    if waiting:
        on.state.insert_many(waiting, session=session)
    return True


def drop_states(on: Collections, ledger: str, name: str, version: int, session: ClientSession) -> None:
    """Forget a projection's states and checkpoint."""
    on.state.delete_many(_of(ledger, name, version), session=session)
    on.projection.delete_one({"_id": _checkpoint_id(ledger, name, version)}, session=session)

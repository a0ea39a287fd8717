"""Proofs over HTTP, checked by a reader of RFC 9162 that knows nothing of the package."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

import chatsnapshot

COUNT = 700
"""Two full tiles and a part of a third."""


@pytest.fixture(scope="module")
def filled(module_served: Any) -> Any:
    """The tests of this file only read."""
    with chatsnapshot.open(module_served.path) as ledger:
        ledger.record_many(
            [
                {"event_type": "execution.message", "payload": {"n": n}, "correlation_id": f"run-{n % 3}"}
                for n in range(COUNT)
            ]
        )
    return module_served


def entries(client: Any, after: int, limit: int) -> Any:
    return client.get("/v1/events", params={"after": after, "limit": limit}).json()["entries"]


def joined(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_by_path(leaf: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """RFC 9162 §2.1.3.2."""
    fn, sn, found = index, size - 1, leaf
    for hash_ in path:
        assert sn != 0
        if fn & 1 or fn == sn:
            found = joined(hash_, found)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            found = joined(found, hash_)
        fn, sn = fn >> 1, sn >> 1
    assert sn == 0
    return found


def roots_by_path(first: int, first_root: bytes, second: int, path: list[bytes]) -> tuple[bytes, bytes]:
    """RFC 9162 §2.1.4.2."""
    path = [first_root, *path] if first & (first - 1) == 0 else path
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    for hash_ in path[1:]:
        assert sn != 0
        if fn & 1 or fn == sn:
            old, new = joined(hash_, old), joined(hash_, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = joined(new, hash_)
        fn, sn = fn >> 1, sn >> 1
    assert sn == 0
    return old, new


def test_entries_are_proven_under_the_root_of_the_head(filled: Any) -> None:
    for position in (1, 2, 256, 257, 512, 513, 699, 700):
        for size in (None, 700, 699):
            proven(filled, position, size)


def proven(filled: Any, position: int, size: int | None) -> None:
    (entry,) = entries(filled.client, position - 1, 1)
    answer = filled.client.get(
        f"/v1/events/{entry['event']['event_id']}/proof", params={} if size is None else {"size": size}
    )
    if size is not None and size < position:
        assert answer.status_code == 404
        return
    assert answer.status_code == 200, answer.text
    proof = answer.json()
    header = proof["header"].encode()
    leaf = hashlib.sha256(b"\x00" + header).digest()
    assert proof["leaf"] == leaf.hex()
    found = root_by_path(leaf, position - 1, proof["size"], [bytes.fromhex(one) for one in proof["hashes"]])
    assert found.hex() == proof["root"]
    if size != 699:
        assert proof["root"] == filled.client.get("/v1/head").json()["root"]
    told = json.loads(header)
    assert told["event_id"] == entry["event"]["event_id"]
    assert base64.b64decode(told["payload"]["commit"])


def test_another_header_leads_to_another_root(filled: Any) -> None:
    (entry,) = entries(filled.client, 299, 1)
    proof = filled.client.get(f"/v1/events/{entry['event']['event_id']}/proof").json()
    forged = hashlib.sha256(b"\x00" + proof["header"].replace("run-", "ruin-").encode()).digest()
    path = [bytes.fromhex(one) for one in proof["hashes"]]
    assert root_by_path(forged, 299, proof["size"], path).hex() != proof["root"]


@pytest.mark.parametrize(
    ("first", "second"), [(1, 700), (3, 700), (256, 700), (300, 512), (699, 700), (700, 700)]
)
def test_the_ledger_of_now_is_proven_to_begin_with_that_of_then(filled: Any, first: int, second: int) -> None:
    answer = filled.client.get("/v1/consistency", params={"from": first, "to": second})
    assert answer.status_code == 200, answer.text
    proof = answer.json()
    old, new = bytes.fromhex(proof["from_root"]), bytes.fromhex(proof["to_root"])
    if first == second:
        assert old == new and proof["hashes"] == []
        return
    path = [bytes.fromhex(one) for one in proof["hashes"]]
    assert roots_by_path(first, old, second, path) == (old, new)
    if second == COUNT:
        assert proof["to_root"] == filled.client.get("/v1/head").json()["root"]


def test_what_cannot_be_proven_is_said(filled: Any) -> None:
    for path, status in (
        ("/v1/consistency", 400),
        ("/v1/consistency?from=0", 400),
        ("/v1/consistency?from=701", 404),
        ("/v1/consistency?from=5&to=4", 404),
        ("/v1/consistency?from=1&to=701", 404),
        ("/v1/events/01a22d4b-2238-7443-9474-0b71f6532210/proof", 404),
        ("/v1/events/no-id/proof", 400),
    ):
        answer = filled.client.get(path)
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"

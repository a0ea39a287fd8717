"""Whole entries can be checked without the ledger: leaf, commitment, proof and blobs follow from the lines alone."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from chatsnapshot.integrity.commitment import commit
from chatsnapshot.integrity.header import canonical_json, stored_leaf_input
from chatsnapshot.integrity.proofs import verify_inclusion

Lines = Callable[..., list[Any]]


def proven(head: dict[str, Any], line: dict[str, Any]) -> bool:
    """What a reader of the file does with one line, by the page on the format."""
    event = line["event"]
    cause, attributes = event["causation_id"], event.get("attributes")
    leaf = hashlib.sha256(
        stored_leaf_input(
            uuid.UUID(event["event_id"]).bytes,
            event["event_type"],
            event["timestamp"],
            canonical_json(event["source"]).decode(),
            event["correlation_id"],
            None if cause is None else uuid.UUID(cause).bytes,
            event.get("schema_version"),
            None if attributes is None else canonical_json(attributes).decode(),
            bytes.fromhex(line["commitment"]),
            line["payload_bytes"],
            line["recorded_at"],
        )
    ).digest()
    if not line["erased"]:
        payload = msgspec.json.encode(event["payload"])
        if commit(bytes.fromhex(line["salt"]), payload).hex() != line["commitment"]:
            return False
    proof = [bytes.fromhex(one) for one in line["proof"]]
    root = bytes.fromhex(head["root"])
    return leaf.hex() == line["leaf"] and verify_inclusion(
        leaf, line["position"] - 1, head["size"], proof, root
    )


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 700])
def test_every_entry_is_proven_under_the_root_of_the_first_line(
    count: int, ledger: Any, lines: Lines
) -> None:
    ledger.record_many(
        [
            {"event_type": "execution.message", "payload": {"n": n}, "correlation_id": f"run-{n % 3}"}
            for n in range(count)
        ]
    )
    head, *entries = lines(ledger, "jsonl", entries=True)
    assert head == {
        "chatsnapshot": "entries",
        "format": 1,
        "ledger_id": ledger.ledger_id,
        "size": count,
        "root": ledger.verify().root,
    }
    assert len(entries) == count
    assert all(proven(head, line) for line in entries)
    assert not proven(
        head, {**entries[0], "event": {**entries[0]["event"], "event_type": "execution.output"}}
    )
    assert not proven({**head, "root": "00" * 32}, entries[0])


def test_causes_attributes_and_erased_payloads_are_proven_too(story: Any, lines: Lines) -> None:
    story.erase([2], reason="asked for")
    head, *entries = lines(story, "jsonl", entries=True)
    assert [line["position"] for line in entries if line["erased"]] == [2]
    assert entries[1]["salt"] is None
    assert all(proven(head, line) for line in entries)


def test_entries_of_one_run_are_proven_under_the_whole_tree(story: Any, lines: Lines) -> None:
    head, *entries = lines(story, "jsonl", entries=True, runs=["child-1"], until=8)
    assert head["size"] == 13
    assert [line["position"] for line in entries] == [6, 7, 8]
    assert all(proven(head, line) for line in entries)


def test_blobs_stand_before_the_first_entry_that_names_them_once(
    ledger: Any, tell: Any, lines: Lines
) -> None:
    data = bytes(range(256)) * 3000
    tell("execution.artifact", {"file": data})
    tell("execution.artifact", {"file": data})
    _, *rest = lines(ledger, "jsonl", entries=True)
    parts = [line for line in rest if "blob" in line]
    assert rest == [*parts, *(line for line in rest if "event" in line)]
    assert [part["offset"] for part in parts] == [0, 512 * 1024]
    whole = b"".join(base64.b64decode(part["data"]) for part in parts)
    assert whole == data
    assert {part["blob"] for part in parts} == {"sha256:" + hashlib.sha256(data).hexdigest()}
    assert rest[-1]["event"]["payload"]["file"]["$blob"] == parts[0]["blob"]

"""Whole entries as JSON lines: envelope, salt, commitment and inclusion proof, and the blobs that they name."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, InvalidEvent, NotFound
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.choosing import Choice
from chatsnapshot.exporters.stored import envelope_json
from chatsnapshot.integrity.proofs import inclusion_proof, node_reader
from chatsnapshot.integrity.tree import TILE_HASHES, decode_frontier, root_of_frontier
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores.base import Query, Store

__all__ = ["ProvenEntries"]

PART_BYTES = 512 * 1024
"""Blobs are written in lines of this many bytes of content."""

BLOBS_KEPT = 100_000
"""Digests that are remembered, so that a blob is written once."""


class ProvenEntries:
    """Everything that is needed to check each entry against the root in the first line, without the ledger."""

    format = "jsonl"
    what = "whole entries with their proofs, one a line"
    unit = "events"
    runs_only = False
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """The head of the tree, then each entry, after the blobs that it is the first to name."""
        if choice.redactor is not None:
            raise InvalidEvent(
                "redacted payloads do not fit their commitments; export entries as they are, or envelopes redacted"
            )
        store = choice.ledger._store
        head = store.head()
        root = root_of_frontier(decode_frontier(head.size, head.frontier))
        out.write(
            msgspec.json.encode(
                {
                    "chatsnapshot": "entries",
                    "format": 1,
                    "ledger_id": choice.ledger.ledger_id,
                    "size": head.size,
                    "root": root.hex(),
                }
            )
            + b"\n"
        )
        prove = _prover(store, head.size)
        known: OrderedDict[bytes, None] = OrderedDict()
        for entry in choice.entries():
            for line in _blob_lines(choice, entry, known):
                out.write(line + b"\n")
            out.write(_line(entry, prove(entry.position)) + b"\n")
            tally.written += 1


def _line(entry: LedgerEntry, proof: Sequence[bytes]) -> bytes:
    head = {
        "position": entry.position,
        "sequence": entry.sequence,
        "recorded_at": entry.recorded_at,
        "leaf": entry.leaf.hex(),
        "commitment": entry.commitment.hex(),
        "payload_bytes": entry.payload_bytes,
        "salt": None if entry.salt is None else entry.salt.hex(),
        "erased": entry.erased,
        "proof": [one.hex() for one in proof],
        "event": msgspec.Raw(envelope_json(entry)),
    }
    return msgspec.json.encode(head)


def _prover(store: Store, size: int) -> Callable[[int], list[bytes]]:
    """Gives the proof of a position in the tree of ``size`` leaves; what was read last is kept."""

    @lru_cache(8)
    def leaves(first: int) -> list[bytes]:
        end = min(first + TILE_HASHES, size)
        found: list[bytes] = []
        while len(found) < end - first:
            after = first + len(found)
            rows = store.read(
                Query(), after=after, until=end, limit=end - after, reverse=False, hint=None
            ).rows
            if not rows:
                raise Corrupt(f"position {after + 1} is missing; run chatsnapshot verify", position=after + 1)
            found.extend(row[12] for row in rows)
        return found

    def read_leaves(first: int, end: int) -> Sequence[bytes]:
        tile = first - first % TILE_HASHES
        return leaves(tile)[first - tile : end - tile]

    @lru_cache(64)
    def read_tile(level: int, index: int) -> bytes:
        found = store.tile(level, index)
        if found is None:
            raise Corrupt(f"tile {index} of level {level} is missing; run chatsnapshot verify")
        return found

    get_node = lru_cache(4096)(node_reader(size, read_tile, read_leaves))
    return lambda position: inclusion_proof(position - 1, size, get_node)


def _blob_lines(choice: Choice, entry: LedgerEntry, known: OrderedDict[bytes, None]) -> Iterator[bytes]:
    """The blobs that an entry names and that were not written before, in parts."""
    for digest in blob_digests(entry.payload_json or b""):
        if digest in known:
            known.move_to_end(digest)
            continue
        known[digest] = None
        if len(known) > BLOBS_KEPT:
            known.popitem(last=False)
        name = f"sha256:{digest.hex()}"
        try:
            data = choice.ledger.blob(name)
        except NotFound:
            continue
        for offset in range(0, len(data) or 1, PART_BYTES):
            part = base64.b64encode(data[offset : offset + PART_BYTES]).decode()
            yield msgspec.json.encode({"blob": name, "bytes": len(data), "offset": offset, "data": part})

"""Proofs out of a ledger: that an entry is in it, and that it only grew; to be checked by others with hashes alone."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import Corrupt, InvalidEvent, NotFound
from chatsnapshot.integrity import consistency_proof, inclusion_proof, leaf_hash, node_reader
from chatsnapshot.integrity.tree import EMPTY_ROOT, node_hash
from chatsnapshot.stores.base import Query, Store
from chatsnapshot.stores.imports import row_header

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["Consistency", "Inclusion", "prove_consistency", "prove_inclusion"]

_EVERYTHING = Query()


class Inclusion(msgspec.Struct, frozen=True, kw_only=True):
    """That the entry at ``position`` is in the tree of the first ``size`` entries. Hashes are hexadecimal.

    ``leaf`` is SHA-256(0x00 ‖ ``header``), its index ``position`` - 1; ``hashes`` are its path, lowest first, to ``root``
    (RFC 9162 §2.1.3.2).
    """

    position: int
    size: int
    header: str
    leaf: str
    hashes: tuple[str, ...]
    root: str


class Consistency(msgspec.Struct, frozen=True, kw_only=True):
    """That the tree of ``to_size`` entries begins with that of ``from_size`` entries (RFC 9162 §2.1.4.2)."""

    from_size: int
    from_root: str
    to_size: int
    to_root: str
    hashes: tuple[str, ...]


def prove_inclusion(ledger: Ledger, event_id: object, size: int | None = None) -> Inclusion:
    """Prove that an event is among the first ``size`` entries (default: all there are).

    Raises :class:`NotFound` for an event that is not there, or a ``size`` before it or after the head, and
    :class:`Corrupt` where the stored columns do not lead to the stored leaf.
    """
    entry = ledger.get(event_id)
    if entry is None:
        raise NotFound(f"there is no event {event_id}")
    store = ledger._store
    size = _size(store, size, entry.position)
    (row,) = store.get([uuid.UUID(entry.event_id).bytes]).values()
    header = row_header(row)
    leaf = leaf_hash(header)
    if leaf != row[12]:
        raise Corrupt(
            f"the entry of {uuid_text(row[3])} does not lead to its leaf; see 'chatsnapshot verify'"
        )
    tree = _Nodes(store, size)
    hashes = inclusion_proof(entry.position - 1, size, tree.node)
    return Inclusion(
        position=entry.position,
        size=size,
        header=header.decode(),
        leaf=leaf.hex(),
        hashes=_hex(hashes),
        root=tree.root(size).hex(),
    )


def prove_consistency(ledger: Ledger, from_size: int, to_size: int | None = None) -> Consistency:
    """Prove that the ledger of ``to_size`` entries (default: all) begins with the ``from_size`` entries of then.

    Raises :class:`NotFound` unless from_size <= to_size <= head, :class:`InvalidEvent` for a ``from_size`` below 1.
    """
    store = ledger._store
    to_size = _size(store, to_size, from_size)
    if from_size < 1:
        raise InvalidEvent("a proof begins with at least one entry: from is 1 or more", path="from")
    tree = _Nodes(store, to_size)
    return Consistency(
        from_size=from_size,
        from_root=tree.root(from_size).hex(),
        to_size=to_size,
        to_root=tree.root(to_size).hex(),
        hashes=_hex(consistency_proof(from_size, to_size, tree.node)),
    )


def _size(store: Store, size: int | None, low: int) -> int:
    head = store.head().size
    if size is None:
        size = head
    if not low <= size <= head:
        raise NotFound(f"there is no such proof over {size:,} entries; here it is over {low:,} to {head:,}")
    return size


def _hex(hashes: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(one.hex() for one in hashes)


class _Nodes:
    """The nodes of the tree of the first ``size`` entries."""

    def __init__(self, store: Store, size: int) -> None:
        self._store = store
        self._leaves: dict[tuple[int, int], list[bytes]] = {}
        self.node = node_reader(size, self._tile, self._some)

    def _tile(self, level: int, index: int) -> bytes:
        found = self._store.tile(level, index)
        if found is None:
            raise Corrupt(f"tile {index} of level {level} is missing; see 'chatsnapshot verify'")
        return found

    def _some(self, first: int, end: int) -> list[bytes]:
        known = self._leaves.get((first, end))
        if known is not None:
            return known
        leaves: list[bytes] = []
        while first + len(leaves) < end:
            after = first + len(leaves)
            page = self._store.read(
                _EVERYTHING, after=after, until=end, limit=end - after, reverse=False, hint=None
            )
            if not page.rows:
                raise Corrupt(f"the entries {after + 1:,} to {end:,} are missing; see 'chatsnapshot verify'")
            leaves += [row[12] for row in page.rows]
        self._leaves[first, end] = leaves
        return leaves

    def root(self, size: int) -> bytes:
        """The root over the first ``size`` leaves: its complete subtrees, joined from the smallest."""
        found: bytes | None = None
        height, rest = 0, size
        while rest:
            if rest & 1:
                node = self.node(height, rest - 1)
                found = node if found is None else node_hash(node, found)
            rest >>= 1
            height += 1
        return EMPTY_ROOT if found is None else found

"""Proofs over the tree: that a leaf is in it, and that a larger tree only appended to a smaller one.

Definitions: RFC 6962 §2.1; verification as the loops of RFC 9162 §2.1.3.2 and §2.1.4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity.tree import (
    EMPTY_ROOT,
    HASH_BYTES,
    TILE_BYTES,
    TILE_HASHES,
    TILE_HEIGHT,
    ReadTile,
    node_hash,
    root_of_frontier,
    subtree_root,
)

__all__ = [
    "GetNode",
    "consistency_proof",
    "inclusion_proof",
    "node_reader",
    "root",
    "verify_consistency",
    "verify_inclusion",
]

GetNode = Callable[[int, int], bytes]
"""Gives the complete node (height, index): the root over the leaves from index·2^height, 2^height of them."""

ReadLeaves = Callable[[int, int], Sequence[bytes]]
"""Gives the leaf hashes from index ``first`` to before ``end``."""

_SIZE_MAX = 2**63 - 1


def root(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes by the recursive definition of RFC 6962 §2.1: slow, the reference."""
    if not leaves:
        return EMPTY_ROOT
    if len(leaves) == 1:
        return leaves[0]
    split = _split_point(len(leaves))
    return node_hash(root(leaves[:split]), root(leaves[split:]))


def node_reader(size: int, read_tile: ReadTile, read_leaves: ReadLeaves) -> GetNode:
    """Read nodes of a tree of ``size`` leaves from full tiles, and from leaf hashes where no tile is full.

    Raises (from the function it returns) :class:`Corrupt` for a tile of a wrong length.
    """

    def hashes(level: int, first: int, end: int) -> Sequence[bytes]:
        """Nodes of height 8·level; all of one tile."""
        tile = first // TILE_HASHES
        if (tile + 1) * TILE_HASHES <= size >> (TILE_HEIGHT * level):
            data = read_tile(level, tile)
            if len(data) != TILE_BYTES:
                raise Corrupt(f"tile {tile} of level {level} has {len(data)} bytes, not {TILE_BYTES}")
            start = first % TILE_HASHES
            stop = start + end - first
            return [data[i * HASH_BYTES : (i + 1) * HASH_BYTES] for i in range(start, stop)]
        if level == 0:
            return read_leaves(first, end)
        return [
            subtree_root(hashes(level - 1, index * TILE_HASHES, (index + 1) * TILE_HASHES))
            for index in range(first, end)
        ]

    def get_node(height: int, index: int) -> bytes:
        if index < 0 or (index + 1) << height > size:
            raise ValueError(f"node {index} of height {height} is not complete in a tree of {size} leaves")
        level, rest = divmod(height, TILE_HEIGHT)
        return subtree_root(hashes(level, index << rest, (index + 1) << rest))

    return get_node


def inclusion_proof(index: int, size: int, get_node: GetNode) -> list[bytes]:
    """The path of leaf ``index`` (from 0) in the tree of ``size`` leaves, lowest first (RFC 6962 §2.1.1).

    Raises ``ValueError`` unless 0 <= index < size.
    """
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size} leaves")
    proof: list[bytes] = []
    first, end = 0, size
    while end - first > 1:
        split = first + _split_point(end - first)
        if index < split:
            proof.append(_range_root(split, end, get_node))
            end = split
        else:
            proof.append(_range_root(first, split, get_node))
            first = split
    proof.reverse()
    return proof


def consistency_proof(size1: int, size2: int, get_node: GetNode) -> list[bytes]:
    """That the tree of ``size2`` leaves begins with the tree of ``size1`` leaves (RFC 6962 §2.1.2).

    Raises ``ValueError`` unless 1 <= size1 <= size2: an empty tree has nothing to be consistent with.
    """
    if not 1 <= size1 <= size2:
        raise ValueError(f"no proof from size {size1} to size {size2}: 1 <= size1 <= size2 is needed")
    proof: list[bytes] = []
    first, end = 0, size2
    while size1 < end:
        split = first + _split_point(end - first)
        if size1 <= split:
            proof.append(_range_root(split, end, get_node))
            end = split
        else:
            proof.append(_range_root(first, split, get_node))
            first = split
    # The verifier knows the root of size1; when that is the subtree reached, it need not be told.
    if first:
        proof.append(_range_root(first, end, get_node))
    proof.reverse()
    return proof


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether ``proof`` shows the leaf hash at ``index`` under ``root`` of ``size`` leaves.

    False for anything that does not prove it: wrong hashes, too many or too few, an index out of range.
    """
    if not 0 <= index < size <= _SIZE_MAX or not _are_hashes(proof, leaf, root):
        return False
    fn, sn, found = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            found = node_hash(sibling, found)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            found = node_hash(found, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and found == root


def verify_consistency(size1: int, root1: bytes, size2: int, root2: bytes, proof: Sequence[bytes]) -> bool:
    """Whether ``proof`` shows that the tree (size2, root2) begins with the tree (size1, root1).

    False for anything that does not prove it: wrong hashes, too many or too few of them, sizes that are not
    1 <= size1 <= size2 (nothing follows from an empty tree).
    """
    if not 1 <= size1 <= size2 <= _SIZE_MAX or not _are_hashes(proof, root1, root2):
        return False
    if size1 == size2:
        return not proof and root1 == root2
    if not proof:
        return False
    path = [root1, *proof] if size1 & (size1 - 1) == 0 else proof
    fn, sn = size1 - 1, size2 - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    found1 = found2 = path[0]
    for sibling in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            found1 = node_hash(sibling, found1)
            found2 = node_hash(sibling, found2)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            found2 = node_hash(found2, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and found1 == root1 and found2 == root2


def _split_point(width: int) -> int:
    """The largest power of two below ``width``."""
    return 1 << ((width - 1).bit_length() - 1)


def _range_root(first: int, end: int, get_node: GetNode) -> bytes:
    """Root over the leaves from ``first`` to before ``end``; ``first`` is where RFC 6962 splits."""
    subtrees: list[bytes] = []
    while first < end:
        height = (end - first).bit_length() - 1
        subtrees.append(get_node(height, first >> height))
        first += 1 << height
    return root_of_frontier(subtrees)


def _are_hashes(proof: Sequence[bytes], *others: bytes) -> bool:
    # A path has at most one hash for each bit of the size, and one more between two sizes.
    return len(proof) <= 64 and all(len(value) == HASH_BYTES for value in (*others, *proof))

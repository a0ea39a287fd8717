"""The Merkle tree of a ledger: leaf and node hashes, the growing right edge, and the tiles that become full.

Tree: RFC 6962 §2.1 (the same in RFC 9162 §2.1). Tiles: C2SP tlog-tiles, 256 hashes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from chatsnapshot.errors import Corrupt

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "TILE_BYTES",
    "TILE_HASHES",
    "TILE_HEIGHT",
    "ReadTile",
    "Tile",
    "Tree",
    "decode_frontier",
    "encode_frontier",
    "leaf_hash",
    "node_hash",
    "root_of_frontier",
    "subtree_root",
]

HASH_BYTES = 32
TILE_HEIGHT = 8
TILE_HASHES = 256
TILE_BYTES = TILE_HASHES * HASH_BYTES

EMPTY_ROOT = sha256(b"").digest()

ReadTile = Callable[[int, int], bytes]
"""Gives the 8,192 bytes of the full tile (level, index)."""


class Tile(NamedTuple):
    """A full tile: hash ``i`` of ``data`` is the node at height 8·level, index 256·index + i."""

    level: int
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    data: bytes


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 ‖ data)."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return sha256(b"\x01" + left + right).digest()


def subtree_root(hashes: Sequence[bytes]) -> bytes:
    """Root of a perfect subtree; the number of ``hashes`` is a power of two."""
    width = len(hashes)
    if width == 0 or width & (width - 1):
        raise ValueError(f"a perfect subtree has a power of two of nodes, not {width}")
    while len(hashes) > 1:
        hashes = _parents(hashes)
    return hashes[0]


def root_of_frontier(frontier: Sequence[bytes]) -> bytes:
    """Root of the tree with these perfect subtrees, largest first; without any it is SHA-256 of nothing."""
    if not frontier:
        return EMPTY_ROOT
    root = frontier[-1]
    for left in frontier[-2::-1]:
        root = sha256(b"\x01" + left + root).digest()
    return root


def encode_frontier(frontier: Iterable[bytes]) -> bytes:
    """The hashes one after another, largest subtree first."""
    return b"".join(frontier)


def decode_frontier(size: int, data: bytes) -> tuple[bytes, ...]:
    """The hashes of the perfect subtrees of ``size`` leaves, largest first.

    Raises :class:`Corrupt` when ``data`` does not hold one hash for each 1-bit of ``size``.
    """
    wanted = bin(size).count("1") if size >= 0 else -1
    if len(data) != wanted * HASH_BYTES:
        raise Corrupt(f"a frontier of {size} leaves has {wanted} hashes of 32 bytes, not {len(data)} bytes")
    return _split(data)


class Tree:
    """The right edge of a tree: enough to append leaves, to know the root, and to give out full tiles.

    It holds immutable values only, so :meth:`copy` costs next to nothing: a store extends a copy within its
    transaction and keeps the copy when the commit has succeeded. Only one thread may extend a tree at a time.
    """

    __slots__ = ("_frontier", "_partials", "_read_tile", "size")

    def __init__(self) -> None:
        self.size = 0
        self._frontier: tuple[bytes, ...] = ()
        # By tile level: the hashes of the tile that is not full yet; None: unknown, read when it is needed.
        self._partials: tuple[bytes | None, ...] = ()
        self._read_tile: ReadTile | None = None

    @classmethod
    def restore(cls, size: int, frontier: bytes, leaves: Sequence[bytes], read_tile: ReadTile) -> Tree:
        """The tree of a stored head.

        ``frontier`` is as :meth:`head` gave it, ``leaves`` are the last ``size % 256`` leaf hashes in order.
        ``read_tile`` gives full tiles back. It is asked only while :meth:`extend` fills a tile of a higher
        level (once in 65,536 leaves), for tiles that an earlier ``extend`` returned. The tree and its copies
        keep it: it must not hold a connection that may be closed, or left behind in a fork.
        Raises :class:`Corrupt` when frontier and leaves do not belong to ``size`` or to each other.
        """
        tree = cls()
        tree.size = size
        tree._frontier = decode_frontier(size, frontier)
        tree._read_tile = read_tile
        width = size % TILE_HASHES
        if len(leaves) != width:
            raise Corrupt(f"a tree of {size} leaves has {width} after its last full tile, not {len(leaves)}")
        if width:
            edge = cls()
            edge.extend(leaves)
            if edge._frontier != tree._frontier[-len(edge._frontier) :]:
                raise Corrupt(
                    f"the last {width} leaves do not hash to the frontier of the head at {size}; run verify",
                    position=size - width + 1,
                )
        if size:
            levels = (size.bit_length() - 1) // TILE_HEIGHT + 1
            tree._partials = (b"".join(leaves), *(None,) * (levels - 1))
        return tree

    def copy(self) -> Tree:
        """A tree of the same state; extending one leaves the other as it is."""
        twin = Tree.__new__(Tree)
        twin.size = self.size
        twin._frontier = self._frontier
        twin._partials = self._partials
        twin._read_tile = self._read_tile
        return twin

    def head(self) -> tuple[int, bytes]:
        """Size, and the frontier as stored: 32 bytes for each perfect subtree, largest first."""
        return self.size, b"".join(self._frontier)

    def frontier(self) -> tuple[bytes, ...]:
        """The hashes of the perfect subtrees, largest first."""
        return self._frontier

    def root(self) -> bytes:
        """The root hash, 32 bytes."""
        return root_of_frontier(self._frontier)

    def extend(self, leaves: Sequence[bytes]) -> list[Tile]:
        """Append leaf hashes; returns the tiles that became full, by level and index.

        When it raises (only a ``read_tile`` that fails does), the tree is as it was before.
        """
        tiles: list[Tile] = []
        partials = self._partials
        kept = list(self._frontier)
        before = self.size
        height = 0
        if len(leaves) == 1:
            node = leaves[0]
            partials = self._collect(partials, 0, before, leaves, tiles)
            while before & 1:
                node = sha256(b"\x01" + kept.pop() + node).digest()
                before >>= 1
                height += 1
                if not height & 7:
                    partials = self._collect(partials, height >> 3, before, (node,), tiles)
            kept.append(node)
        else:
            # Height by height: `before` old nodes are complete at this height, `nodes` are new. The last old
            # one stands in the frontier while it has no partner; so does the last new one afterwards.
            done: list[bytes] = []
            nodes: Sequence[bytes] = leaves
            while nodes:
                if not height & 7:
                    partials = self._collect(partials, height >> 3, before, nodes, tiles)
                if before & 1:
                    nodes = [kept.pop(), *nodes]
                if len(nodes) & 1:
                    done.append(nodes[-1])
                nodes = _parents(nodes)
                before >>= 1
                height += 1
            done.reverse()
            kept += done
        self._frontier = tuple(kept)
        self._partials = partials
        self.size += len(leaves)
        return tiles

    def _collect(
        self,
        partials: tuple[bytes | None, ...],
        level: int,
        before: int,
        nodes: Sequence[bytes],
        tiles: list[Tile],
    ) -> tuple[bytes | None, ...]:
        """Add new nodes to the open tile of a level; full tiles go to ``tiles``."""
        known = partials[level] if level < len(partials) else b""
        if known is None:
            width = before % TILE_HASHES
            if width + len(nodes) < TILE_HASHES:
                return partials
            known = self._read_partial(level, before - width, before)
        data = known + (nodes[0] if len(nodes) == 1 else b"".join(nodes))
        if len(data) >= TILE_BYTES:
            index = before // TILE_HASHES
            full = len(data) // TILE_BYTES
            tiles.extend(
                Tile(level, index + i, data[i * TILE_BYTES : (i + 1) * TILE_BYTES]) for i in range(full)
            )
            data = data[full * TILE_BYTES :]
        return (*partials[:level], data, *partials[level + 1 :])

    def _read_partial(self, level: int, first: int, end: int) -> bytes:
        """The hashes of an open tile above level 0: the roots of the full tiles below it."""
        read_tile = self._read_tile
        assert read_tile is not None, "only a restored tree has unknown tiles"
        return b"".join(subtree_root(_split(read_tile(level - 1, index))) for index in range(first, end))


def _parents(nodes: Sequence[bytes]) -> list[bytes]:
    """Hash neighbours in pairs; a last one without partner is left out."""
    pairs = iter(nodes)
    return [sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]


def _split(data: bytes) -> tuple[bytes, ...]:
    return tuple(data[i : i + HASH_BYTES] for i in range(0, len(data), HASH_BYTES))

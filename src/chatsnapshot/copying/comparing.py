"""Whether one ledger is the beginning of another: by the roots of their trees, and where they part by halving."""

from __future__ import annotations

from collections.abc import Sequence

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import node_reader, root_of_frontier
from chatsnapshot.stores.base import LEAF, POSITION, Query, Store

__all__ = ["first_difference", "root_at"]


def root_at(store: Store, size: int, head: int) -> bytes:
    """The root over the first ``size`` entries of a ledger of ``head`` entries.

    It reads tiles, and fewer than 256 entries. Raises :class:`Corrupt` where a tile or an entry is missing.
    """

    def read_tile(level: int, index: int) -> bytes:
        found = store.tile(level, index)
        if found is None:
            raise Corrupt(f"tile {index} of level {level} of {store.url} is missing; run chatsnapshot verify")
        return found

    def read_leaves(first: int, end: int) -> Sequence[bytes]:
        leaves: list[bytes] = []
        while first + len(leaves) < end:
            after = first + len(leaves)
            page = store.read(Query(), after=after, until=end, limit=end - after, reverse=False, hint=None)
            for row in page.rows:
                if row[POSITION] != first + len(leaves) + 1:
                    break
                leaves.append(row[LEAF])
            if first + len(leaves) == after:
                raise Corrupt(
                    f"position {after + 1} of {store.url} is missing; run chatsnapshot verify",
                    position=after + 1,
                )
        return leaves

    node = node_reader(head, read_tile, read_leaves)
    frontier: list[bytes] = []
    done = 0
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            frontier.append(node(height, done >> height))
            done += 1 << height
    return root_of_frontier(frontier)


def first_difference(one: Store, other: Store, size: int) -> int:
    """The first position at which two ledgers differ that both hold ``size`` entries; their roots there are not equal."""
    heads = one.head().size, other.head().size
    same, different = 0, size
    while different - same > 1:
        middle = (same + different) // 2
        if root_at(one, middle, heads[0]) == root_at(other, middle, heads[1]):
            same = middle
        else:
            different = middle
    return different

"""The growing tree: reference roots, growth in any steps, full tiles, tentative growth, restoring a head."""

import hashlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymerkle import InmemoryTree

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import (
    EMPTY_ROOT,
    TILE_BYTES,
    Tree,
    decode_frontier,
    encode_frontier,
    leaf_hash,
    node_hash,
    root,
    root_of_frontier,
    subtree_root,
)

# RFC 6962 reference leaves and roots, as in the test data of the certificate-transparency project.
REFERENCE_LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
REFERENCE_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

LEAVES = [leaf_hash(b"leaf %d" % n) for n in range(3000)]
MANY = [hashlib.sha256(b"%d" % n).digest() for n in range(70_000)]


def grown(leaves, step=None):
    """A tree over ``leaves``, its tiles by (level, index)."""
    tree, tiles = Tree(), {}
    for start in range(0, len(leaves), step or max(1, len(leaves))):
        for tile in tree.extend(leaves[start : start + (step or len(leaves))]):
            assert (tile.level, tile.index) not in tiles
            tiles[tile.level, tile.index] = tile.data
    return tree, tiles


def no_tile(level, index):
    raise AssertionError(f"tile {level}/{index} was read")


# --- hashes ---


def test_hashes_are_those_of_the_reference_implementations():
    assert EMPTY_ROOT.hex() == REFERENCE_ROOTS[0]
    assert leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert leaf_hash(b"L123456").hex() == "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56"
    assert (
        node_hash(b"N123", b"N456").hex()
        == "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb"
    )


@pytest.mark.parametrize("size", range(9))
def test_roots_are_the_rfc_6962_reference_roots(size):
    leaves = [leaf_hash(data) for data in REFERENCE_LEAVES[:size]]
    tree = Tree()
    tree.extend(leaves)
    assert tree.root().hex() == REFERENCE_ROOTS[size]
    assert root(leaves).hex() == REFERENCE_ROOTS[size]


def test_roots_of_1_to_300_leaves_are_those_of_pymerkle():
    other, tree = InmemoryTree(algorithm="sha256"), Tree()
    their_root = getattr(other, "get_root", None) or other.get_state  # its name before version 7
    for n in range(300):
        other.append_entry(b"entry %d" % n)
        tree.extend([leaf_hash(b"entry %d" % n)])
        assert tree.root() == their_root()


def test_a_subtree_root_needs_a_power_of_two_of_hashes():
    assert subtree_root(LEAVES[:64]) == root(LEAVES[:64])
    assert subtree_root(LEAVES[:1]) == LEAVES[0]
    for width in (0, 3, 255):
        with pytest.raises(ValueError, match=f"not {width}"):
            subtree_root(LEAVES[:width])


# --- growth ---


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 7, 100, 254, 255, 256, 257, 511, 512, 700]), max_size=8))
def test_growing_in_any_steps_gives_the_same_head_root_and_tiles(steps):
    tree, tiles, size = Tree(), [], 0
    for step in steps:
        step = min(step, len(LEAVES) - size)
        tiles += tree.extend(LEAVES[size : size + step])
        size += step
        assert tree.size == size
        assert tree.root() == root_of_frontier(tree.frontier()) == root(LEAVES[:size])
    once, tiles_at_once = grown(LEAVES[:size])
    assert tree.head() == once.head()
    assert {(tile.level, tile.index): tile.data for tile in tiles} == tiles_at_once
    assert len(tiles) == size // 256


def test_a_frontier_holds_the_perfect_subtrees_largest_first():
    tree, _ = grown(LEAVES[:11])
    assert tree.frontier() == (root(LEAVES[:8]), root(LEAVES[8:10]), LEAVES[10])


def test_no_leaves_change_nothing():
    tree, _ = grown(LEAVES[:300])
    before = tree.head()
    assert tree.extend([]) == []
    assert tree.head() == before
    assert Tree().extend(()) == []
    assert Tree().root() == EMPTY_ROOT


def test_a_copy_grows_by_itself():
    tree, _ = grown(LEAVES[:255])
    head = tree.head()
    tentative = tree.copy()
    assert len(tentative.extend(LEAVES[255:600])) == 2
    assert tree.head() == head
    assert tree.extend(LEAVES[255:256])[0].data == b"".join(LEAVES[:256])
    assert tentative.root() == root(LEAVES[:600])


def test_the_callers_list_of_leaves_is_left_as_it_was():
    leaves = LEAVES[:37]
    tree, _ = grown(LEAVES[:1])
    tree.extend(leaves)
    assert leaves == LEAVES[:37]


# --- tiles ---


def test_a_tile_of_level_0_is_256_leaves_and_is_given_out_once():
    tree, tiles = grown(LEAVES[:1000], step=1)
    assert sorted(tiles) == [(0, 0), (0, 1), (0, 2)]
    for (_, index), data in tiles.items():
        assert data == b"".join(LEAVES[256 * index : 256 * index + 256])
    assert tree.size == 1000


@pytest.mark.parametrize("step", [None, 997, 65_536, 65_535])
def test_70_000_leaves_give_273_tiles_of_level_0_and_one_of_level_1(step):
    _, tiles = grown(MANY, step)
    assert sorted(tiles) == [(0, index) for index in range(273)] + [(1, 0)]
    assert all(len(data) == TILE_BYTES for data in tiles.values())
    assert tiles[1, 0] == b"".join(root(MANY[256 * n : 256 * n + 256]) for n in range(256))


def test_the_open_tiles_of_70_000_leaves_hold_112_17_and_1_hashes():
    tree, _ = grown(MANY)
    widths = [len(partial) // 32 for partial in tree._partials]
    assert widths == [112, 17, 1]


# --- heads ---


@given(st.integers(0, 2999))
@settings(max_examples=100, deadline=None)
def test_a_frontier_survives_being_stored(size):
    tree, _ = grown(LEAVES[:size])
    stored_size, stored = tree.head()
    assert len(stored) == 32 * bin(size).count("1")
    frontier = decode_frontier(stored_size, stored)
    assert frontier == tree.frontier()
    assert encode_frontier(frontier) == stored


@pytest.mark.parametrize(("size", "length"), [(0, 32), (1, 0), (1, 31), (1, 33), (3, 32), (4, 64), (-1, 0)])
def test_a_frontier_that_does_not_belong_to_its_size_is_corrupt(size, length):
    with pytest.raises(Corrupt):
        decode_frontier(size, b"f" * length)


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 511, 512, 1000, 2560])
@pytest.mark.parametrize("more", [1, 2, 300])
def test_a_restored_tree_goes_on_as_if_it_had_never_been_stored(size, more):
    tree, _ = grown(LEAVES[:size])
    restored = Tree.restore(*tree.head(), LEAVES[size - size % 256 : size], no_tile)
    assert restored.head() == tree.head()
    assert restored.extend(LEAVES[size : size + more]) == tree.extend(LEAVES[size : size + more])
    assert restored.head() == tree.head()


@pytest.mark.parametrize("size", [256, 1000, 65_535, 65_536, 65_700])
def test_a_restored_tree_reads_full_tiles_back_when_it_fills_one_of_a_higher_level(size):
    tree, tiles = grown(MANY[:size])
    restored = Tree.restore(*tree.head(), MANY[size - size % 256 : size], lambda *at: tiles[at])
    whole, all_tiles = grown(MANY)
    grown_tiles = []
    for start in range(size, 70_000, 9_999):
        restored = restored.copy()
        new = restored.extend(MANY[start : min(start + 9_999, 70_000)])
        tiles.update({(tile.level, tile.index): tile.data for tile in new})
        grown_tiles += new
    assert restored.head() == whole.head()
    assert tiles == all_tiles


def test_a_tile_that_cannot_be_read_leaves_the_tree_as_it_was():
    tree, _ = grown(MANY[:65_535])
    restored = Tree.restore(*tree.head(), MANY[65_280:65_535], no_tile)
    with pytest.raises(AssertionError, match="tile 0/0 was read"):
        restored.extend(MANY[65_535:65_540])
    assert restored.head() == tree.head()


@pytest.mark.parametrize(
    "leaves",
    [LEAVES[256:299], LEAVES[256:301], [*LEAVES[256:299], LEAVES[0]], LEAVES[255:299], []],
    ids=["one short", "one more", "last changed", "shifted", "none"],
)
def test_leaves_that_do_not_belong_to_the_head_are_corrupt(leaves):
    tree, _ = grown(LEAVES[:300])
    with pytest.raises(Corrupt):
        Tree.restore(*tree.head(), leaves, no_tile)


def test_a_tree_of_a_million_leaves_has_the_tiles_that_its_size_says():
    rng = random.Random(7)
    leaf = bytes(32)
    tree, count, size = Tree(), {0: 0, 1: 0, 2: 0}, 0
    while size < 1_000_000:
        step = min(rng.randrange(1, 60_000), 1_000_000 - size)
        for tile in tree.extend([leaf] * step):
            assert tile.index == count[tile.level]
            count[tile.level] += 1
        size += step
    assert count == {0: 1_000_000 // 256, 1: 1_000_000 // 65_536, 2: 0}

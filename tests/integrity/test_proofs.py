"""Inclusion and consistency proofs: all up to 130 leaves, reference proofs, and all that they must refuse."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import Corrupt
from chatsnapshot.integrity import (
    EMPTY_ROOT,
    Tree,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    node_reader,
    root,
    subtree_root,
    verify_consistency,
    verify_inclusion,
)

REFERENCE_LEAVES = [
    leaf_hash(bytes.fromhex(text))
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
LEAVES = [leaf_hash(b"%d" % n) for n in range(131)]
ROOTS = [root(LEAVES[:n]) for n in range(131)]
MANY = [leaf_hash(b"many %d" % n) for n in range(66_000)]


def nodes_of(leaves):
    return lambda height, index: subtree_root(leaves[index << height : (index + 1) << height])


# --- valid proofs ---


def test_every_inclusion_proof_of_1_to_130_leaves_holds():
    for size in range(1, 131):
        get_node = nodes_of(LEAVES[:size])
        for index in range(size):
            proof = inclusion_proof(index, size, get_node)
            assert verify_inclusion(LEAVES[index], index, size, proof, ROOTS[size])


def test_every_consistency_proof_of_1_to_130_leaves_holds():
    for size2 in range(1, 131):
        get_node = nodes_of(LEAVES[:size2])
        for size1 in range(1, size2 + 1):
            proof = consistency_proof(size1, size2, get_node)
            assert verify_consistency(size1, ROOTS[size1], size2, ROOTS[size2], proof)


# The proofs over the RFC 6962 reference leaves, as in the test data of the certificate-transparency project.
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"
G = "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
H = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"


@pytest.mark.parametrize(
    ("index", "size", "wanted"),
    [(0, 1, []), (0, 8, [A, B, C]), (5, 8, [D, E, F]), (2, 3, [G])],
)
def test_inclusion_proofs_are_the_reference_proofs(index, size, wanted):
    proof = inclusion_proof(index, size, nodes_of(REFERENCE_LEAVES[:size]))
    assert [item.hex() for item in proof] == wanted


@pytest.mark.parametrize(
    ("size1", "size2", "wanted"),
    [(1, 1, []), (1, 8, [A, B, C]), (6, 8, [H, E, F]), (2, 5, [B, D])],
)
def test_consistency_proofs_are_the_reference_proofs(size1, size2, wanted):
    proof = consistency_proof(size1, size2, nodes_of(REFERENCE_LEAVES[:size2]))
    assert [item.hex() for item in proof] == wanted


# --- what proves nothing ---


def damaged(proof):
    """Proofs that are not ``proof``: shorter, longer, changed, of wrong lengths."""
    yield [*proof, LEAVES[0]]
    yield [LEAVES[0], *proof]
    yield [*proof, b""]
    yield [*proof, *[LEAVES[0]] * 100]
    for n, item in enumerate(proof):
        yield proof[:n] + proof[n + 1 :]
        yield [*proof[:n], bytes([item[0] ^ 1]) + item[1:], *proof[n + 1 :]]
        yield [*proof[:n], item[:31], *proof[n + 1 :]]
        yield [*proof[:n], item + b"\0", *proof[n + 1 :]]


def test_a_damaged_inclusion_proof_proves_nothing():
    for size in (1, 2, 3, 7, 8, 21, 130):
        for index in range(size):
            proof = inclusion_proof(index, size, nodes_of(LEAVES[:size]))
            leaf, top = LEAVES[index], ROOTS[size]
            assert not any(verify_inclusion(leaf, index, size, bad, top) for bad in damaged(proof))
            assert not verify_inclusion(LEAVES[index + 1], index, size, proof, top)
            assert not verify_inclusion(leaf, index, size, proof, ROOTS[size - 1])
            assert not verify_inclusion(leaf, size, size, proof, top)
            if index + 1 < size:
                assert not verify_inclusion(leaf, index + 1, size, proof, top)


def test_a_path_that_is_too_short_or_too_long_for_the_size_proves_nothing_even_when_it_hashes_to_the_root():
    leaf, other = LEAVES[:2]
    assert verify_inclusion(leaf, 0, 2, [other], ROOTS[2])
    assert not verify_inclusion(leaf, 0, 3, [other], ROOTS[2])
    assert not verify_inclusion(other, 0, 1, [leaf], ROOTS[2])
    # From size 2 to 3 the proof is [leaf 2]; to size 5 it would need one hash more, to size 2 one less.
    assert verify_consistency(2, ROOTS[2], 3, ROOTS[3], [LEAVES[2]])
    assert not verify_consistency(2, ROOTS[2], 5, ROOTS[3], [LEAVES[2]])
    # From 3 to 4 two hashes follow the first; a third would put both trees under one more node.
    left, c, d = LEAVES[:3]
    three, four = node_hash(left, c), node_hash(left, node_hash(c, d))
    assert verify_consistency(3, three, 4, four, [c, d, left])
    above = LEAVES[9]
    three, four = node_hash(above, three), node_hash(above, four)
    assert not verify_consistency(3, three, 4, four, [c, d, left, above])


def test_a_damaged_consistency_proof_proves_nothing():
    for size2 in (2, 3, 7, 8, 21, 130):
        for size1 in range(1, size2):
            proof = consistency_proof(size1, size2, nodes_of(LEAVES[:size2]))
            one, two = ROOTS[size1], ROOTS[size2]
            assert not any(verify_consistency(size1, one, size2, two, bad) for bad in damaged(proof))
            assert not verify_consistency(size1, two, size2, two, proof)
            assert not verify_consistency(size1, one, size2, one, proof)
            assert not verify_consistency(size1, one, size2, two, [])


def test_equal_sizes_are_consistent_by_equal_roots_and_an_empty_proof():
    assert verify_consistency(5, ROOTS[5], 5, ROOTS[5], [])
    assert not verify_consistency(5, ROOTS[5], 5, ROOTS[4], [])
    assert not verify_consistency(5, ROOTS[5], 5, ROOTS[5], [LEAVES[0]])


@pytest.mark.parametrize(("size1", "size2"), [(0, 5), (0, 0), (-1, 5), (6, 5), (1, 2**63)])
def test_sizes_out_of_order_prove_nothing_and_no_proof_is_made_of_them(size1, size2):
    for proof in ([], [LEAVES[0]]):
        assert not verify_consistency(size1, EMPTY_ROOT, size2, ROOTS[5], proof)
    if size2 < 2**63:
        with pytest.raises(ValueError, match="1 <= size1 <= size2"):
            consistency_proof(size1, size2, nodes_of(LEAVES))


@pytest.mark.parametrize(("index", "size"), [(-1, 5), (5, 5), (0, 0), (2**70, 2**71), (0, -3)])
def test_an_index_out_of_the_tree_proves_nothing(index, size):
    assert not verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])
    if size < 6:
        with pytest.raises(ValueError, match="is not in a tree"):
            inclusion_proof(index, size, nodes_of(LEAVES))


def test_proofs_of_unbounded_length_are_refused_without_being_hashed():
    class Endless(list):
        def __len__(self):
            return 10**9

        def __iter__(self):
            raise AssertionError("the proof was walked")

    assert not verify_inclusion(LEAVES[0], 0, 8, Endless(), ROOTS[8])
    assert not verify_consistency(3, ROOTS[3], 8, ROOTS[8], Endless())


# --- reading nodes from tiles ---


@pytest.fixture(scope="module")
def stored():
    tree = Tree()
    tiles = {(tile.level, tile.index): tile.data for tile in tree.extend(MANY)}
    return tree, tiles


def test_proofs_read_from_tiles_are_the_proofs_read_from_leaves(stored):
    tree, tiles = stored
    read = []

    def read_tile(level, index):
        read.append((level, index))
        return tiles[level, index]

    get_node = node_reader(tree.size, read_tile, lambda first, end: MANY[first:end])
    rng = random.Random(3)
    for index in [0, 255, 256, 65_279, 65_280, 65_535, 65_536, 65_999, *rng.sample(range(66_000), 20)]:
        del read[:]
        proof = inclusion_proof(index, tree.size, get_node)
        assert verify_inclusion(MANY[index], index, tree.size, proof, tree.root())
        assert len({level for level, _ in read}) <= 2
    for size1 in [1, 255, 256, 257, 65_535, 65_536, 65_537, 65_900, *rng.sample(range(1, 66_000), 20)]:
        smaller = Tree()
        smaller.extend(MANY[:size1])
        proof = consistency_proof(size1, tree.size, get_node)
        assert verify_consistency(size1, smaller.root(), tree.size, tree.root(), proof)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_complete_node_can_be_read(stored, data):
    tree, tiles = stored
    height = data.draw(st.integers(0, 16))
    index = data.draw(st.integers(0, (tree.size >> height) - 1))
    get_node = node_reader(tree.size, lambda *at: tiles[at], lambda first, end: MANY[first:end])
    assert get_node(height, index) == subtree_root(MANY[index << height : (index + 1) << height])


def test_a_node_that_is_not_complete_cannot_be_read(stored):
    tree, tiles = stored
    get_node = node_reader(tree.size, lambda *at: tiles[at], lambda first, end: MANY[first:end])
    for height, index in [(0, 66_000), (17, 0), (16, 1), (0, -1)]:
        with pytest.raises(ValueError, match="not complete"):
            get_node(height, index)


def test_a_tile_of_a_wrong_length_is_corrupt(stored):
    tree, tiles = stored
    get_node = node_reader(tree.size, lambda *at: tiles[at][:-32], lambda first, end: MANY[first:end])
    with pytest.raises(Corrupt, match="8160 bytes"):
        get_node(0, 3)

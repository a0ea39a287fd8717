"""Integrity of a ledger as pure functions: header, commitment, Merkle tree, proofs (``docs/format.md``)."""

from chatsnapshot.integrity.commitment import COMMITMENT_BYTES, SALT_BYTES, commit
from chatsnapshot.integrity.header import (
    HEADER_VERSION,
    PAYLOAD_ALG,
    canonical_json,
    header_bytes,
    header_parts,
    is_canonical_object,
)
from chatsnapshot.integrity.proofs import (
    consistency_proof,
    inclusion_proof,
    node_reader,
    root,
    verify_consistency,
    verify_inclusion,
)
from chatsnapshot.integrity.tree import (
    EMPTY_ROOT,
    HASH_BYTES,
    TILE_BYTES,
    TILE_HASHES,
    Tile,
    Tree,
    decode_frontier,
    encode_frontier,
    leaf_hash,
    node_hash,
    root_of_frontier,
    subtree_root,
)

__all__ = [
    "COMMITMENT_BYTES",
    "EMPTY_ROOT",
    "HASH_BYTES",
    "HEADER_VERSION",
    "PAYLOAD_ALG",
    "SALT_BYTES",
    "TILE_BYTES",
    "TILE_HASHES",
    "Tile",
    "Tree",
    "canonical_json",
    "commit",
    "consistency_proof",
    "decode_frontier",
    "encode_frontier",
    "header_bytes",
    "header_parts",
    "inclusion_proof",
    "is_canonical_object",
    "leaf_hash",
    "node_hash",
    "node_reader",
    "root",
    "root_of_frontier",
    "subtree_root",
    "verify_consistency",
    "verify_inclusion",
]

"""The payload commitment: what it is made of, and what it refuses."""

import hashlib

import pytest

from chatsnapshot.integrity import commit


def test_a_commitment_is_the_hash_of_its_mark_the_salt_and_the_payload():
    salt = bytes(range(16))
    assert commit(salt, b'{"a":1}') == hashlib.sha256(b"\x02" + salt + b'{"a":1}').digest()


@pytest.mark.parametrize("size", [0, 65_535, 65_536, 65_537, 1_000_000])
def test_a_payload_of_any_size_is_committed_to_in_the_same_way(size):
    payload = b"x" * size
    assert commit(b"s" * 16, payload) == hashlib.sha256(b"\x02" + b"s" * 16 + payload).digest()


def test_one_payload_under_two_salts_has_two_commitments():
    assert commit(b"a" * 16, b"approve") != commit(b"b" * 16, b"approve")


def test_a_commitment_is_no_leaf_and_no_node_of_the_same_bytes():
    salt, payload = b"s" * 16, b"p" * 48
    marks = {hashlib.sha256(mark + salt + payload).digest() for mark in (b"\x00", b"\x01")}
    assert commit(salt, payload) not in marks


@pytest.mark.parametrize("length", [0, 15, 17, 32])
def test_a_salt_of_another_length_is_refused(length):
    with pytest.raises(ValueError, match=f"16 bytes, not {length}"):
        commit(b"s" * length, b"{}")

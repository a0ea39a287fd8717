"""The bytes of a message: a public format, held by a vector; what is no entry is named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.errors import Corrupt, FormatTooNew
from chatsnapshot.stores.base import LEAF, PAYLOAD, SALT
from chatsnapshot.stores.nats.messages import Facts, framed, read_message, subject_token, write_message
from chatsnapshot.stores.nats.sealing import KeyPlace, inline, open_sealed, parts_of, seal

HEADER = (
    b'{"attributes":{"actor":"ann"},"causation_id":"11111111-1111-4111-8111-111111111111","correlation_id":"run 1",'
    b'"event_id":"22222222-2222-4222-8222-222222222222","event_type":"demo.step","payload":{"alg":"salted-sha256",'
    b'"commit":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","len":9},"recorded_at":"2026-11-30T00:00:00.000000Z",'
    b'"schema_version":2,"source":{"origin":"agent","runtime":"x"},"timestamp":"2026-11-30T00:00:00.000000Z","v":1}'
)
PLACE = KeyPlace(bytes(range(12)), 7)
MESSAGE = (
    b'{"position":5,"sequence":3,"first":4,"last":5,"key":"000102030405060708090a0b-7","root":"cm9vdA=="}\n'
    + HEADER
    + b"\nSEALED\n\x00"
)


def test_the_bytes_of_a_message_are_those_of_the_format() -> None:
    facts = Facts(5, 3, 4, 5, key=PLACE.text(), root="cm9vdA==")
    assert write_message(facts, HEADER, b"\x00SEALED\n\x00") == MESSAGE
    read = read_message(MESSAGE, 5)
    assert read.facts == facts
    assert read.row[:9] == (
        5,
        3,
        "2026-11-30T00:00:00.000000Z",
        bytes.fromhex("22222222222242228222222222222222"),
        "demo.step",
        "2026-11-30T00:00:00.000000Z",
        '{"origin":"agent","runtime":"x"}',
        "run 1",
        bytes.fromhex("11111111111141118111111111111111"),
    )
    assert (read.row[PAYLOAD], read.row[SALT]) == (b"\x00SEALED\n\x00", PLACE.packed())
    assert read.row[10:12] == (2, '{"actor":"ann"}')
    assert read.row[LEAF].hex() == "217bd83febd3ab42261212715771a597ad9ba41c59e177987a246ba288638904"
    assert read.row[14:] == (bytes(range(32)), 9)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"{}\n{}\n",
        MESSAGE.replace(b'"position":5', b'"position":6'),
        MESSAGE.replace(b'"first":4', b'"first":6'),
        MESSAGE.replace(b"22222222-2222", b"222222222222-"),
        MESSAGE.replace(b"AAEC", b"!!!!"),
        MESSAGE.replace(b"000102", b"zz0102"),
    ],
)
def test_what_is_no_entry_is_named_with_its_position(data: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        read_message(data, 5)
    assert caught.value.position == 5


def test_a_message_of_a_newer_version_is_said_to_be_one() -> None:
    with pytest.raises(FormatTooNew):
        read_message(MESSAGE.replace(b'"last":5', b'"last":5,"v":2'), 5)


@given(st.text(max_size=40), st.text(max_size=40))
def test_correlations_stay_apart_as_tokens_of_a_subject(one: str, other: str) -> None:
    tokens = subject_token(one), subject_token(other)
    assert (tokens[0] == tokens[1]) == (one == other)
    assert not any(set(token) & set(". *>\t\r\n") or not token.isascii() for token in tokens)


@given(st.binary(max_size=300), st.integers(1, 64))
def test_a_sealed_payload_opens_with_its_key_and_its_id_only(payload: bytes, part_bytes: int) -> None:
    key, salt, event_id = b"k" * 32, b"s" * 16, b"i" * 16
    pieces = seal(key, salt, payload, event_id, part_bytes)
    kept = inline(pieces)
    parts = pieces if parts_of(kept) else []
    assert open_sealed(key, kept, parts, event_id) == (salt, payload)
    for wrong_key, wrong_id in ((b"x" * 32, event_id), (key, b"x" * 16)):
        with pytest.raises(Corrupt):
            open_sealed(wrong_key, kept, parts, wrong_id)
    if len(parts) > 1:
        with pytest.raises(Corrupt):
            open_sealed(key, kept, parts[::-1], event_id)


def test_facts_of_a_commit_are_what_the_page_says(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record_many(
            [{"event_type": "demo.step", "correlation_id": "a b", "payload": {"n": n}} for n in range(3)]
        )
        core: Any = ledger._store
        engine = core._core.engine
        got = core._call(
            lambda engine: engine.connection.direct(engine.address.stream, {"seq": 1, "batch": 9})
        )
        facts = [read_message(one.data, one.seq).facts for one in got]
        assert [(one.position, one.sequence, one.first, one.last) for one in facts] == [
            (1, 1, 1, 3),
            (2, 2, 1, 3),
            (3, 3, 1, 3),
        ]
        assert [one.root is None for one in facts] == [True, True, False]
        assert [one.subject.startswith(f"{engine.address.subjects}.ev.a%20b.") for one in got] == [True] * 3


def test_a_message_is_framed_as_the_protocol_says() -> None:
    assert framed("a.b", b"data", "Nats-Batch-Id: x\r\n") == (
        b"HPUB a.b 30 34\r\nNATS/1.0\r\nNats-Batch-Id: x\r\n\r\ndata\r\n"
    )


class _PublicOnly:
    """A client of which only what is public is there, as a later version of nats-py may be."""

    def __init__(self, client: Any) -> None:
        self._it = client

    def __getattr__(self, name: str) -> Any:
        if name == "_send_command":
            raise AttributeError(name)
        return getattr(self._it, name)


def test_a_batch_also_goes_out_by_the_public_way(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        core: Any = ledger._store
        connection = core._core.engine.connection
        connection._client = _PublicOnly(connection._client)
        made = ledger.record_many(
            [{"event_type": "demo.step", "correlation_id": "run", "payload": {"n": n}} for n in range(150)]
        )
        assert [entry.position for entry in made] == list(range(1, 151))
        assert ledger.verify().ok

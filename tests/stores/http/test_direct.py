"""The HTTP store in direct mode: errors with their fields, URLs and keys, and what the service checks for itself."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

import chatsnapshot
from chatsnapshot.errors import (
    EventConflict,
    InvalidEvent,
    LedgerClosed,
    LedgerError,
    NotFound,
    ReadOnly,
    SequenceConflict,
    StoreUnavailable,
)
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.address import KEY_VARIABLE
from chatsnapshot.testing.servers.http import HttpServer

EVENT: dict[str, Any] = {
    "event_type": "execution.message",
    "payload": {"role": "user", "content": "Hello"},
    "correlation_id": "run-1",
}


def test_an_event_is_recorded_read_and_verified(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(**EVENT)
        assert (entry.position, entry.sequence) == (1, 1)
        assert list(ledger.read()) == [entry]
        assert ledger.get(entry.event_id) == entry
        assert ledger.verify().ok
    with pytest.raises(LedgerClosed):
        ledger.head  # noqa: B018


def test_errors_come_back_with_their_fields(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(**EVENT)
        with pytest.raises(EventConflict) as conflict:
            ledger.record(**{**EVENT, "payload": {"role": "user", "content": "no"}}, event_id=entry.event_id)
        found = conflict.value
        assert (found.event_id, found.fields, found.position) == (entry.event_id, ("payload",), 1)
        with pytest.raises(SequenceConflict) as sequence:
            ledger.record(**EVENT, expected_sequence=5)
        assert (sequence.value.correlation_id, sequence.value.wanted, sequence.value.found) == ("run-1", 5, 1)
        assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_a_ledger_that_is_not_there_is_made_only_when_that_is_wanted(place: str) -> None:
    with pytest.raises(NotFound):
        chatsnapshot.open(place, create=False)
    with pytest.raises(NotFound):
        chatsnapshot.open(place, read_only=True)
    with chatsnapshot.open(place) as ledger, chatsnapshot.open(place, read_only=True) as reader:
        assert reader.ledger_id == ledger.ledger_id
        with pytest.raises(ReadOnly):
            reader.record(**EVENT)


@pytest.mark.parametrize("name", ["..%2Fother", "A", "a_b", "a" * 64, "a.db"])
def test_no_name_of_a_ledger_leaves_the_folder(server: HttpServer, name: str) -> None:
    answer = httpx.put(f"{server.address}/v1/ledgers/{name}", json={})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    with pytest.raises(LedgerError):
        chatsnapshot.open(f"{server.address}?mode=direct&ledger={name}")


@pytest.mark.faults  # a flood of 97 MiB
def test_a_blob_that_is_larger_than_a_request_is_recorded(place: str) -> None:
    from chatsnapshot.limits import MIB

    data = bytes(97 * MIB)
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record("execution.artifact", {"name": "zeros", "data": data}, correlation_id="run-1")
        assert entry.value()["data"] == data


# --- URLs and keys ---


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://user:hunter2@127.0.0.1:1?mode=direct", KEY_VARIABLE),
        ("http://127.0.0.1:1?mode=direct&speed=9", "speed"),
        ("http://127.0.0.1:1?mode=direct&timeout=no", "timeout"),
        ("http://127.0.0.1:1?mode=direct&key_file=/nowhere", "key file"),
    ],
)
def test_a_url_that_cannot_be_used_says_why_and_shows_no_secret(url: str, says: str) -> None:
    with pytest.raises(LedgerError, match=says) as found:
        chatsnapshot.open(url)
    assert "hunter2" not in str(found.value)


def test_a_key_is_not_sent_in_clear_text_to_another_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "csk_12345678_secret")
    with pytest.raises(LedgerError, match="clear text") as found:
        chatsnapshot.open("http://192.0.2.1:8420?mode=direct")
    assert "csk" not in str(found.value)
    monkeypatch.delenv(KEY_VARIABLE)
    path = tmp_path / "key"
    path.write_text("csk_12345678_secret\n")
    with pytest.raises(LedgerError, match="clear text"):
        chatsnapshot.open(f"http://192.0.2.1:8420?mode=direct&key_file={path}")


def test_nobody_at_the_address_is_a_definite_error() -> None:
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        chatsnapshot.open("http://127.0.0.1:9?mode=direct")


# --- what the service checks ---


def ask(place: str, operation: str, request: Any, **headers: str) -> httpx.Response:
    parts = urlsplit(place)
    name = parts.query.rpartition("ledger=")[2]
    return httpx.post(
        f"http://{parts.netloc}/v1/ledgers/{name}/store/{operation}",
        content=wire.encode(request),
        headers={"Content-Type": wire.MEDIA_TYPE, wire.VERSION_HEADER: wire.VERSION, **headers},
    )


def draft(**changes: Any) -> wire.WireDraft:
    made = wire.WireDraft(
        uuid.uuid4().bytes,
        "execution.message",
        "2026-11-30T02:26:03.123456Z",
        '{"origin":"agent","runtime":"ag2"}',
        "run-1",
        None,
        b'{"role":"user","content":"Hello"}',
        None,
        None,
        (),
        bytes(16),
        [],
    )
    return msgspec.structs.replace(made, **changes)


BAD: dict[str, dict[str, Any]] = {
    "short id": {"event_id": b"123"},
    "short cause": {"causation_id": b"1"},
    "short salt": {"salt": b""},
    "type": {"event_type": "Execution"},
    "own type": {"event_type": "ledger.payload_erased"},
    "time": {"timestamp": "yesterday"},
    "source not canonical": {"source": '{"runtime":"ag2", "origin":"agent"}'},
    "source with another key": {"source": '{"origin":"agent","runtime":"x","z":1}'},
    "source of another origin": {"source": '{"origin":"devil","runtime":"x"}'},
    "source with a number": {"source": '{"origin":"agent","runtime":1}'},
    "empty correlation": {"correlation_id": ""},
    "long correlation": {"correlation_id": "x" * 257},
    "payload no object": {"payload": b"[]"},
    "payload no JSON": {"payload": b"{"},
    "version": {"schema_version": -1},
    "attributes": {"attributes": '{"A":1}'},
    "attributes no JSON": {"attributes": "{"},
    "filled": {"filled": ("payload",)},
    "blob that is not there": {"payload": b'{"a":{"$blob":"sha256:' + b"0" * 64 + b'","bytes":1}}'},
    "blob that hashes otherwise": {
        "payload": b'{"a":{"$blob":"sha256:' + b"0" * 64 + b'","bytes":1}}',
        "blobs": [(bytes(32), "text/plain", b"x")],
    },
}


@pytest.mark.parametrize("name", BAD)
def test_the_service_refuses_what_an_event_cannot_hold_and_stores_the_rest(place: str, name: str) -> None:
    with chatsnapshot.open(place) as ledger:
        groups = [wire.WireGroup([draft(), draft(**BAD[name])], None), wire.WireGroup([draft()], None)]
        answer = ask(place, "append", wire.Append(groups, None))
        assert answer.status_code == 200, answer.text
        first, second = wire.decode(answer.content)
        assert first["status"] == 422, first
        assert second[0][0] == 1
        assert ledger.head == 1
        assert ledger.verify().ok


def test_the_service_makes_commitment_and_leaf_itself(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        given = draft()
        ask(place, "append", wire.Append([wire.WireGroup([given], None)], None))
        entry = ledger.get(str(uuid.UUID(bytes=given.event_id)))
        assert entry.salt == given.salt
        assert ledger.verify().ok


def test_a_request_that_is_no_wire_is_refused(place: str) -> None:
    chatsnapshot.open(place).close()
    assert ask(place, "head", None, **{"Content-Type": "application/json"}).status_code == 415
    assert ask(place, "head", None, **{wire.VERSION_HEADER: "99"}).status_code == 400
    assert ask(place, "head", ["more"]).status_code == 400
    assert ask(place, "append", {"a": 1}).status_code == 400
    assert ask(place, "erase", wire.Erase([1], draft(), None)).status_code == 422
    assert ask(place, "import", wire.Import([], {bytes(32): b"x"})).status_code == 422


def test_an_erasure_that_names_other_positions_than_its_record_is_refused(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record(**EVENT)
        record = draft(
            event_type="ledger.payload_erased",
            correlation_id="ledger",
            source='{"origin":"system","runtime":"none"}',
            payload=b'{"positions":[2],"reason":"x"}',
        )
        answer = ask(place, "erase", wire.Erase([1], record, None))
        assert answer.status_code == 422
        assert not ledger.get(next(iter(ledger.read())).event_id).erased


def test_the_service_does_not_take_the_time_of_a_client_unless_it_was_told_to(tmp_path: Path) -> None:
    with (
        HttpServer(client_clock=False) as server,
        chatsnapshot.open(server.url, clock=lambda: 10**18) as ledger,
    ):
        assert not ledger.record(**EVENT).recorded_at.startswith("2001")


def test_secrets_are_taken_out_by_the_service_too(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        entry = ledger.record(
            "execution.message", {"content": "key sk-ant-" + "a1B2" * 12}, correlation_id="run-1"
        )
        assert "a1B2a1B2" not in str(entry.payload)
        assert ledger.get(entry.event_id) == entry
        assert ledger.verify().ok


def test_an_unforeseen_error_type_is_never_lost_on_the_way(place: str) -> None:
    with chatsnapshot.open(place) as ledger, pytest.raises(InvalidEvent):
        ledger.record("execution.message", {}, correlation_id="")

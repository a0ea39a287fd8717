"""The URL of a stream on Redis: what it says, what it lacks, and that it shows no password."""

from __future__ import annotations

import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.ingest.brokers.redisaddress import read_stream


def test_what_is_not_said_is_as_usual() -> None:
    source = read_stream("redis://redis1?stream=orders")
    assert (source.host, source.port, source.database, source.tls) == ("redis1", 6379, 0, False)
    assert (source.stream, source.name, source.group, source.consumer) == (
        "orders",
        "orders",
        None,
        "chatsnapshot",
    )
    assert (source.batch, source.ack_wait, source.field, source.user) == (256, 10.0, None, None)


def test_everything_can_be_said() -> None:
    source = read_stream(
        "rediss://me:p%40s%2Fs@[::1]:7000/3?stream=a:b%2Fc&group=g&consumer=c&field=body&batch=9&ack_wait=2.5&name=n"
    )
    assert (source.host, source.port, source.database, source.tls) == ("::1", 7000, 3, True)
    assert (source.user, source.password) == ("me", "p@s/s")
    assert (source.stream, source.group, source.consumer, source.field) == ("a:b/c", "g", "c", "body")
    assert (source.batch, source.ack_wait, source.name) == (9, 2.5, "n")
    assert "p@s" not in repr(source) and "p%40s" not in repr(source)


def test_a_unix_socket_has_a_path_and_its_database_is_an_option() -> None:
    source = read_stream("unix://:secret@/run/my%20redis.sock?db=2&stream=s")
    assert (source.socket, source.database, source.password) == ("/run/my redis.sock", 2, "secret")
    assert source.connect_options() == {
        "path": "/run/my redis.sock", "db": 2, "username": None, "password": "secret"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h/0", "names no stream"),
        ("redis://h/0?stream=", "names no stream"),
        ("redis://h/x?stream=s", "db in"),
        ("redis://h/1?stream=s&db=2", "database twice"),
        ("redis://h/0?stream=s&ledger=x", "--ledger"),
        ("redis://h/0?stream=s&batch=0", "batch"),
        ("redis://h/0?stream=s&batch=1001", "batch"),
        ("redis://h/0?stream=s&ack_wait=x", "ack_wait"),
        ("redis://h/0?stream=s&ack_wait=0.5", "ack_wait"),
        ("redis://h/0?stream=s&group=a%0Ab", "group"),
        ("redis://h/0?stream=s&colour=red", "no option"),
        ("redis://h/0?stream=s&stream=t", "twice"),
        ("redis://h/0?stream=s#t", "after #"),
        ("redis://h/0?stream=s&tls_ca=/x", "rediss://"),
        ("redis://h:x/0?stream=s", "cannot be read"),
        ("redis://a:1,b:2/0?stream=s", "cannot be read"),
        ("redis://a,b/0?stream=s", "more than one server"),
        ("redis://hunter2@h/0?stream=s", "a user without a password"),
        ("unix://?stream=s", "names no socket"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(url: str, said: str) -> None:
    with pytest.raises(LedgerError, match=said) as caught:
        read_stream(url)
    assert "hunter2" not in str(caught.value)


def test_files_that_cannot_be_read_are_told() -> None:
    with pytest.raises(LedgerError, match=r"tls_ca, tls_cert or tls_key .* cannot be read"):
        read_stream("rediss://h/0?stream=s&tls_ca=/no/such/file").connect_options()

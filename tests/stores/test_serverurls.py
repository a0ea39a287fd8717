"""The URL of a ledger on a server: what the driver takes, what is ours, and what is never shown."""

from __future__ import annotations

import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.open import locate
from chatsnapshot.stores.serverurls import without_secrets


def test_our_options_are_taken_out_and_the_drivers_are_left_in() -> None:
    place = locate("postgresql://ann:s3cret@db:5433/ledgers?sslmode=require&ledger=tenant-a")
    assert (place.kind, place.ledger, place.path) == ("postgresql", "tenant-a", "")
    assert place.target == "postgresql://ann:s3cret@db:5433/ledgers?sslmode=require"
    assert place.url == "postgresql://ann:***@db:5433/ledgers?sslmode=require&ledger=tenant-a"
    assert place.address == "postgresql://ann:s3cret@db:5433/ledgers?sslmode=require&ledger=tenant-a"


def test_every_option_of_nats_is_ours() -> None:
    place = locate("nats://a:4222,b:4222,c:4222?ledger=x&replicas=3")
    assert place.target == "nats://a:4222,b:4222,c:4222"
    assert place.options == (("replicas", "3"),)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cret@db/x",
        "postgresql://db/x?user=ann&password=s3cret",
        "postgresql://db/x?listen_url=postgresql%3A%2F%2Fann%3As3cret%40other%2Fx",
        "mongodb://ann:s3cret@a,b,c/x?replicaSet=r",
        "nats://s3cret@db:4222",
        "nats://ann:s3cret@db:4222",
        "postgresql://ann:s3cret@[db/x",
    ],
)
def test_no_secret_is_shown(url: str) -> None:
    assert "s3cret" not in without_secrets(url)
    try:
        place = locate(url)
    except LedgerError as error:
        assert "s3cret" not in str(error)
    else:
        assert "s3cret" not in repr(place) and "s3cret" not in place.url


@pytest.mark.parametrize("scheme", ["postgresql", "mongodb", "nats"])
@pytest.mark.parametrize("rest", ["://ann:s3cret@[db/x", "://ann:s3#cret@db/x", ":ann:s3cret@db"])
def test_what_cannot_be_read_is_refused_without_showing_it(scheme: str, rest: str) -> None:
    with pytest.raises(LedgerError) as caught:
        locate(scheme + rest)
    assert "cret" not in str(caught.value)


def test_what_is_the_drivers_reaches_it_as_it_was_written() -> None:
    location = locate("postgresql://u@h/d?options=-c%20a%3Db&ledger=x&password=a+b&sslmode=require")
    assert location.target == "postgresql://u@h/d?options=-c%20a%3Db&password=a+b&sslmode=require"
    assert location.ledger == "x"


def test_a_plus_in_an_option_of_ours_is_a_plus() -> None:
    location = locate("postgresql://u@h/d?listen_url=postgresql://u:a+b@h/d")
    assert dict(location.options) == {"listen_url": "postgresql://u:a+b@h/d"}

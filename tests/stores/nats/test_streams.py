"""What is said of a server, account or stream that cannot keep a ledger: before a write, in one sentence."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import (
    Corrupt,
    FormatTooNew,
    LedgerError,
    LimitExceeded,
    NotFound,
    StoreFull,
    StoreUnavailable,
)
from chatsnapshot.stores.nats.connection import Connection
from chatsnapshot.testing.attacks_nats import Api, stream_api
from chatsnapshot.testing.servers.guarded import free_port
from chatsnapshot.testing.servers.nats import NatsServer

ACCOUNTS = """
accounts {
  on { jetstream: enabled, users: [
    { user: "on", password: "s3cret-on" }
    { user: "reader", password: "s3cret-on", permissions: {
      publish: ["$JS.API.INFO", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>"],
      subscribe: ["_INBOX.>", "chatsnapshot.*.head"] } }
    { user: "writer", password: "s3cret-on", permissions: {
      publish: ["$JS.API.INFO", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>",
        "chatsnapshot.*.vault.>", "chatsnapshot.*.head"],
      subscribe: ["_INBOX.>"] } }
    { user: "scribe", password: "s3cret-on", permissions: { subscribe: ["_INBOX.>", "chatsnapshot.page.head"],
      publish: ["$JS.API.INFO"
        "$JS.API.STREAM.INFO.chatsnapshot_page", "$JS.API.STREAM.INFO.chatsnapshot_page_vault"
        "$JS.API.DIRECT.GET.chatsnapshot_page", "$JS.API.DIRECT.GET.chatsnapshot_page_vault"
        "$JS.API.STREAM.MSG.GET.chatsnapshot_page_vault", "chatsnapshot.page.>"] } }
    { user: "deaf", password: "s3cret-on", permissions: { publish: [">"], subscribe: ["nothing"] } }
  ] }
  off { users: [{ user: "off", password: "s3cret-off" }] }
  small { jetstream: { max_file: 2000000, max_mem: 0, max_streams: 4, max_consumers: 10 }
    users: [{ user: "small", password: "s3cret-small" }] }
}
"""


@pytest.fixture(scope="module")
def accounts() -> Iterator[NatsServer | None]:
    if NatsServer.missing():
        yield None
        return
    with NatsServer(extra=ACCOUNTS, own=True) as server:
        yield server


@pytest.fixture
def account(accounts: NatsServer | None, require: Callable[[object, str], None]) -> Callable[[str, str], str]:
    """``account("on:s3cret-on", "main")``: the URL of a ledger for that user."""
    require(accounts is not None, NatsServer.missing())
    assert accounts is not None
    url = accounts.url
    return lambda user, ledger: url.replace("//", f"//{user}@", 1) + f"?ledger={ledger}&timeout=3"


def _refused(url: str, kind: type[LedgerError], **options: Any) -> str:
    """What opening says; it holds no secret, and neither does anything behind it."""
    with pytest.raises(kind) as caught:
        chatsnapshot.open(url, **options).close()
    assert type(caught.value) is kind
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_wrong_credentials_are_named_and_not_shown(account: Callable[[str, str], str]) -> None:
    assert "refuses the credentials" in _refused(account("on:s3cret-wrong", "one"), StoreUnavailable)
    assert "refuses the credentials" in _refused(account("s3cret-token", "one"), StoreUnavailable)


def test_an_account_without_jetstream_is_told_so(account: Callable[[str, str], str]) -> None:
    assert "JetStream is not on" in _refused(account("off:s3cret-off", "one"), StoreUnavailable)


def test_a_missing_permission_is_named_before_anything_is_written(account: Callable[[str, str], str]) -> None:
    said = _refused(account("writer:s3cret-on", "new"), StoreUnavailable)
    assert "may not publish to $JS.API.STREAM.CREATE.chatsnapshot_new_vault" in said
    assert "may not subscribe to _INBOX" in _refused(account("deaf:s3cret-on", "one"), StoreUnavailable)
    with chatsnapshot.open(account("on:s3cret-on", "two")) as ledger:
        ledger.record("demo.step", {"n": 1}, correlation_id="run")
    with chatsnapshot.open(account("writer:s3cret-on", "two")) as ledger:
        with pytest.raises(StoreUnavailable, match=r"may not publish to chatsnapshot\.two\.ev\.run\."):
            ledger.record("demo.step", {"n": 2}, correlation_id="run")
        assert ledger.head == 1


def test_a_reader_needs_no_permission_to_write(account: Callable[[str, str], str]) -> None:
    with chatsnapshot.open(account("on:s3cret-on", "read")) as ledger:
        ledger.record("demo.step", {"n": 1}, correlation_id="run")
        with chatsnapshot.open(account("reader:s3cret-on", "read"), read_only=True) as reader:
            assert [entry.payload for entry in reader.read()] == [{"n": 1}]
            assert reader.verify().ok


def test_the_permissions_of_the_page_let_a_writer_record_and_not_erase(
    account: Callable[[str, str], str],
) -> None:
    chatsnapshot.open(account("on:s3cret-on", "page")).close()
    with chatsnapshot.open(account("scribe:s3cret-on", "page")) as ledger:
        ledger.record("demo.step", {"data": b"x" * 100_000}, correlation_id="run")
        ledger.record_many([{"event_type": "demo.step", "correlation_id": "run", "payload": {"n": 1}}] * 3)
        assert ledger.verify().ok
        with pytest.raises(StoreUnavailable, match=r"may not publish to .*STREAM\.MSG\.DELETE"):
            ledger.erase(2, reason="asked to")
        assert [entry.erased for entry in ledger.read(until=2)] == [False, True]


def test_an_account_without_space_says_that_it_is_full_and_works_again(
    account: Callable[[str, str], str],
) -> None:
    with chatsnapshot.open(account("small:s3cret-small", "one")) as ledger:
        stored = 0
        with pytest.raises(StoreFull):
            for number in range(100):
                ledger.record("demo.step", {"text": "x" * 100_000, "n": number}, correlation_id="run")
                stored += 1
        assert 5 < stored == ledger.head
        assert ledger.verify().ok


def test_a_ledger_that_is_not_there_is_not_made_by_looking(place: str) -> None:
    for options in ({"create": False}, {"read_only": True}):
        assert "no ledger" in _refused(place, NotFound, **options)
    made: list[str] = []

    async def work(_: Any, api: Api, ledger: str) -> None:
        made.extend((await api("STREAM.NAMES")).get("streams") or ())
        assert f"chatsnapshot_{ledger}" not in made

    stream_api(place, work)


def _change(place: str, vault: bool = False, metadata: dict[str, str] | None = None, **config: Any) -> None:
    async def work(_: Any, api: Api, ledger: str) -> None:
        name = f"chatsnapshot_{ledger}" + ("_vault" if vault else "")
        found = (await api(f"STREAM.INFO.{name}"))["config"]
        found["metadata"].update(metadata or {})
        await api(f"STREAM.UPDATE.{name}", {**found, **config})

    stream_api(place, work)


def test_a_stream_that_was_configured_anew_is_refused_until_it_is_set_back(place: str) -> None:
    with chatsnapshot.open(place) as ledger:
        ledger.record("demo.step", {"n": 1}, correlation_id="run")
        _change(place, discard="old", discard_new_per_subject=False)
        report = ledger.verify()
        assert [problem.what for problem in report.problems] == ["the configuration of a stream"]
    said = _refused(place, StoreUnavailable)
    assert "discard is 'old', not 'new'" in said
    assert "nats stream edit" in said
    _change(place, discard="new", discard_new_per_subject=True)
    _change(place, vault=True, max_age=3_600_000_000_000)
    assert "max_age is" in _refused(place, StoreUnavailable)
    _change(place, vault=True, max_age=0)
    with chatsnapshot.open(place) as ledger:
        assert ledger.head == 1


def test_a_newer_format_and_a_stream_of_somebody_else_are_refused(server: NatsServer, place: str) -> None:
    chatsnapshot.open(place).close()
    _change(place, metadata={"chatsnapshot.format": "2"})
    assert "format 2" in _refused(place, FormatTooNew)

    async def foreign(_: Any, api: Api, ledger: str) -> None:
        for name in ("", "_vault"):
            await api(
                f"STREAM.CREATE.chatsnapshot_foreign{name}",
                {"name": f"chatsnapshot_foreign{name}", "subjects": [f"mine{name}.>"]},
            )

    stream_api(place, foreign)
    assert "was not made by ChatSnapshot" in _refused(f"{server.url}?ledger=foreign", LedgerError)


def test_what_others_publish_to_the_subjects_of_a_ledger_is_found_and_named(place: str) -> None:
    async def publish(client: Any, api: Api, ledger: str) -> None:
        await client.request(f"chatsnapshot.{ledger}.ev.run.x", b"hello", timeout=5)

    with chatsnapshot.open(place) as ledger:
        ledger.record("demo.step", {"n": 1}, correlation_id="run")
        stream_api(place, publish)
        with pytest.raises(Corrupt, match="position 2 is no entry") as caught:
            ledger.record("demo.step", {"n": 2}, correlation_id="run")
        assert caught.value.position == 2


def test_an_old_server_and_a_server_for_small_messages_are_refused(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "server", lambda _: {"version": "2.11.9", "headers": True})
        assert "need 2.12 or newer" in _refused(place, StoreUnavailable)
    with NatsServer(extra="max_payload: 32768", own=True) as small:
        assert "max_payload" in _refused(small.url, StoreUnavailable)


def test_more_copies_than_servers_are_refused(place: str) -> None:
    assert "cannot keep 3 copies" in _refused(f"{place}&replicas=3", StoreUnavailable)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("replicas=2", "replicas is 1, 3 or 5"),
        ("timeout=soon", "timeout is a number"),
        ("retries=5", "'retries' is no option"),
        ("credentials=/nowhere/s3cret.creds", "credentials= names cannot be read"),
    ],
)
def test_an_option_that_is_wrong_is_named(option: str, said: str) -> None:
    assert said in _refused(f"nats://127.0.0.1:{free_port()}?{option}", LedgerError)


def test_a_server_that_is_not_there_is_named_at_once() -> None:
    assert "cannot be reached" in _refused(f"nats://127.0.0.1:{free_port()}", StoreUnavailable)


def test_limits_of_nats_are_named_before_anything_is_sent(place: str) -> None:
    events = [
        {"event_type": "demo.step", "correlation_id": "run", "payload": {"n": number}}
        for number in range(1001)
    ]
    with chatsnapshot.open(place) as ledger:
        with pytest.raises(LimitExceeded) as caught:
            ledger.record_many(events)
        assert (caught.value.limit, caught.value.allowed, caught.value.found) == (
            "batch_events_max",
            1000,
            1001,
        )
        assert ledger.head == 0
        assert ledger.record_many(events[:1000])[-1].position == 1000
        large = ["x" * 1000] * 8_000
        entry = ledger.record("demo.step", {"lines": large}, correlation_id="run")
        assert entry.payload_bytes > 8_000_000
        assert ledger.get(entry.event_id).payload == {"lines": large}
        attributes = {f"key_{number}": "é" * 400 for number in range(18)}
        entry = ledger.record("demo.step", {"n": 1}, correlation_id="☃" * 256, attributes=attributes)
        assert ledger.get(entry.event_id).attributes == attributes
        assert ledger.verify().ok

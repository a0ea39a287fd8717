"""Keys on the wire of the store: each scope lets in what it is for; they come by the environment or a file."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import LedgerError, NotFound, ReadOnly, StoreUnavailable
from chatsnapshot.stores.http.address import KEY_VARIABLE
from chatsnapshot.testing.servers.http import HttpServer

EVENT: dict[str, Any] = {
    "event_type": "execution.message",
    "payload": {"role": "user", "content": "Hello"},
    "correlation_id": "run-1",
}


class Keyed:
    """A service with keys, and keys for it."""

    def __init__(self, folder: Path) -> None:
        self.file = str(folder / "keys")
        self.key("admin", "read", "ingest")
        self.server = HttpServer("--keys", self.file)

    def key(self, *scopes: str, ledger: str = "") -> str:
        options = [part for scope in scopes for part in ("--scope", scope)]
        options += ["--for-ledger", ledger] if ledger else []
        done = subprocess.run(
            [sys.executable, "-m", "chatsnapshot", "keys", "create", *options, "--keys", self.file],
            capture_output=True,
            text=True,
            check=True,
            env={name: value for name, value in os.environ.items() if name != KEY_VARIABLE},
        )
        return done.stdout.strip()

    def place(self, mode: str = "direct") -> str:
        return f"{self.server.address}?ledger=main&mode={mode}"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    made = Keyed(tmp_path_factory.mktemp("keys"))
    with made.server:
        yield made


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, keyed: Keyed, tmp_path: Path) -> Callable[..., str]:
    """``use("read")``: from now on the environment holds a key with these scopes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def use(*scopes: str, **options: str) -> str:
        text = keyed.key(*scopes, **options)
        monkeypatch.setenv(KEY_VARIABLE, text)
        return text

    use("admin", "read", "ingest")
    chatsnapshot.open(keyed.place()).close()
    return use


def test_without_a_key_and_with_a_wrong_one_nobody_is_let_in(
    keyed: Keyed, use: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(StoreUnavailable, match="key"):
        chatsnapshot.open(keyed.place())
    monkeypatch.setenv(KEY_VARIABLE, "csk_00000000_" + "A" * 43)
    with pytest.raises(StoreUnavailable) as found:
        chatsnapshot.open(keyed.place())
    assert "AAAA" not in str(found.value)


@pytest.mark.parametrize("mode", ["direct", "spool"])
def test_a_key_to_ingest_records_and_reads_nothing(keyed: Keyed, use: Callable[..., str], mode: str) -> None:
    use("ingest")
    with chatsnapshot.open(keyed.place(mode)) as ledger:
        entry = ledger.record(**EVENT)
        assert ledger.flush(30).ok
        for read in (lambda: ledger.head, lambda: ledger.get(entry.event_id), lambda: list(ledger.read())):
            with pytest.raises(LedgerError, match="scope read"):
                read()
        with pytest.raises(LedgerError):
            ledger.erase(1, reason="no")


def test_a_key_to_read_reads_and_records_nothing(keyed: Keyed, use: Callable[..., str]) -> None:
    with chatsnapshot.open(keyed.place()) as ledger:
        ledger.record(**EVENT)
        head = ledger.head
    use("read")
    with chatsnapshot.open(keyed.place()) as ledger:
        assert ledger.head == head
        assert ledger.verify().ok
        with pytest.raises(ReadOnly, match="scope ingest"):
            ledger.record(**EVENT)
        assert ledger.head == head


def test_views_and_feeds_need_no_admin_and_only_admin_changes_stored_views(
    keyed: Keyed, use: Callable[..., str]
) -> None:
    use("ingest", "read")
    with chatsnapshot.open(keyed.place()) as ledger:
        ledger.record_many([EVENT] * 150)
        assert ledger.view("transcript", "run-1").items
        assert ledger.view("runs")
        with pytest.raises(ReadOnly, match="scope admin"):
            ledger._store.drop_states("runs", 1)
        taken = [entry for batch in ledger.feed("worker") for entry in batch]
        assert len(taken) == ledger.head
        assert [state.name for state in ledger.feeds()] == ["worker"]
        ledger.drop_feed("worker")
    use("read")
    with chatsnapshot.open(keyed.place()) as ledger:
        assert ledger.view("transcript", "run-1").items
        with pytest.raises(ReadOnly, match="scope ingest"):
            next(iter(ledger.feed("reader")))


def test_a_ledger_is_made_by_admin_only(keyed: Keyed, use: Callable[..., str]) -> None:
    use("ingest", "read")
    with pytest.raises(ReadOnly, match="scope admin"):
        chatsnapshot.open(f"{keyed.server.address}?ledger=new&mode=direct")
    use("ingest", "read", "admin")
    chatsnapshot.open(f"{keyed.server.address}?ledger=new&mode=direct").close()


def test_a_key_for_one_ledger_does_not_learn_of_another(keyed: Keyed, use: Callable[..., str]) -> None:
    use("read", "ingest", "admin", ledger="mine")
    with pytest.raises(NotFound):
        chatsnapshot.open(keyed.place())
    chatsnapshot.open(f"{keyed.server.address}?ledger=mine&mode=direct").close()


def test_a_key_may_come_from_a_file_and_nothing_shows_it(
    keyed: Keyed,
    use: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = use("read", "ingest")
    monkeypatch.delenv(KEY_VARIABLE)
    path = tmp_path / "key"
    path.write_text(key + "\n")
    caplog.set_level(logging.DEBUG)
    for mode in ("direct", "spool"):
        with chatsnapshot.open(f"{keyed.place(mode)}&key_file={path}") as ledger:
            ledger.record(**EVENT)
            ledger.flush(30)
            assert key not in ledger.url + repr(ledger) + repr(ledger._store) + repr(vars(ledger._store))
    assert key not in caplog.text
    for file in tmp_path.rglob("*"):
        if file.is_file() and file != path:
            assert key.encode() not in file.read_bytes(), f"the key is in {file.name}"


def test_the_service_folds_views_and_stores_them_for_who_may_not(
    keyed: Keyed, use: Callable[..., str]
) -> None:
    with chatsnapshot.open(f"{keyed.server.address}?ledger=views&mode=direct") as ledger:
        ledger.record_many([EVENT] * 200)
    use("read")
    with chatsnapshot.open(f"{keyed.server.address}?ledger=views&mode=direct") as ledger:
        assert len(ledger.view("transcript", "run-1").items) == 200
        taken: list[int] = []
        real = ledger._store.read

        def counted(*arguments: Any, **options: Any) -> Any:
            page = real(*arguments, **options)
            taken.append(len(page.rows))
            return page

        ledger._store.read = counted  # type: ignore[method-assign]
        assert len(ledger.view("transcript", "run-1").items) == 200
        assert sum(taken) <= 5, "the stored view is used, entries are not read again"

"""The file of keys: made for its owner alone, hashes only, and what one process does all others see at once."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.errors import Corrupt, InvalidEvent, LedgerError, NotFound, StoreUnavailable
from chatsnapshot.server.keys import Keys


def test_a_key_is_found_by_its_text_and_by_nothing_else(keys: Keys) -> None:
    made, text = keys.create(["read", "ingest"], name="importer", ledgers=["a", "b"], by="user x")
    assert re.fullmatch(r"csk_[a-z0-9]{8}_[A-Za-z0-9_-]{43}", text)
    found = keys.look_up(text)
    assert found == made and found is not None
    assert (found.scopes, found.ledgers, found.created_by) == (("ingest", "read"), ("a", "b"), "user x")
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    other = "csk_" + ("zzzzzzzz" if made.id != "zzzzzzzz" else "yyyyyyyy") + text[12:]
    for bad in (
        wrong,
        other,
        text + "x",
        text[:-1],
        text.upper(),
        f" {text}",
        "",
        "csk_",
        "\ud800",
        "é" * 99,
    ):
        assert keys.look_up(bad) is None


def test_what_is_revoked_here_is_refused_in_another_connection_at_once(keys: Keys) -> None:
    made, text = keys.create(["read"])
    with_other = Keys(keys.path)
    try:
        assert with_other.look_up(text) is not None and with_other.holds(made.id)
        revoked = keys.revoke(made.id, by="user y")
        assert with_other.look_up(text) is None and not with_other.holds(made.id)
        assert revoked.revoked_by == "user y"
        assert keys.revoke(made.id, by="user z") == revoked
    finally:
        with_other.close()


def test_a_key_ends_when_its_time_is_over(keys: Keys) -> None:
    made, text = keys.create(["read"], expires_seconds=0.05)
    end = time.monotonic() + 10
    while keys.look_up(text) is not None:
        assert time.monotonic() < end
    assert not keys.holds(made.id) and keys.list()[0].status(keys.list()[0].expires_at or "") == "expired"


@pytest.mark.parametrize(
    ("scopes", "more"),
    [
        ([], {}), (["everything"], {}), (["read"], {"ledgers": []}), (["read"], {"ledgers": ["../x"]}),
        (["read"], {"expires_seconds": 0}), (["read"], {"expires_seconds": float("nan")}),
        (["read"], {"expires_seconds": 1e12}), (["read"], {"name": "a\nb"}), (["read"], {"name": "x" * 101}),
    ],
)  # fmt: skip
def test_what_is_no_key_is_not_made(keys: Keys, scopes: Any, more: Any) -> None:
    with pytest.raises(InvalidEvent):
        keys.create(scopes, **more)
    assert keys.list() == []


def test_check_2_the_secret_is_in_no_file_and_in_no_repr(keys: Keys, tmp_path: Path) -> None:
    made, text = keys.create(["read"])
    secret = text.split("_", 2)[2]
    keys.look_up(text)
    keys.used(made.id)
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes(), path
    assert secret not in repr(made) + repr(keys) + repr(keys.list()) + str(vars(keys))


def test_check_43_the_file_is_for_its_owner_alone_and_one_that_others_read_is_refused(
    keys: Keys, tmp_path: Path
) -> None:
    keys.create(["read"])
    for path in tmp_path.glob("keys.db*"):
        assert path.stat().st_mode & 0o077 == 0, path
    os.chmod(keys.path, 0o640)
    with pytest.raises(StoreUnavailable, match="chmod 600"):
        Keys(keys.path)


def test_a_file_that_took_the_place_of_the_other_counts_from_then_on(keys: Keys, tmp_path: Path) -> None:
    _, text = keys.create(["read"])
    other = Keys(str(tmp_path / "other.db"), create=True)
    _, new = other.create(["read"])
    other.close()
    os.replace(other.path, keys.path)
    for side in ("-wal", "-shm"):
        Path(keys.path + side).unlink(missing_ok=True)
    assert keys.look_up(text) is None
    assert keys.look_up(new) is not None
    os.unlink(keys.path)
    with pytest.raises(NotFound):
        keys.look_up(new)


def test_nothing_that_is_no_file_of_keys_is_opened_or_changed(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    with pytest.raises(NotFound):
        Keys(path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t(x)")
    os.chmod(path, 0o600)
    for create in (False, True):
        with pytest.raises(LedgerError, match="no file of keys"):
            Keys(path, create=create)
    Path(path).write_bytes(b"no database at all" * 100)
    for create in (False, True):
        with pytest.raises(Corrupt):
            Keys(path, create=create)
    os.symlink("/dev/null", tmp_path / "null")
    with pytest.raises(LedgerError):
        Keys(str(tmp_path / "null"))


def test_many_make_the_file_and_their_keys_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "keys.db")
    errors: list[BaseException] = []

    def work() -> None:
        try:
            keys = Keys(path, create=True)
            for _ in range(3):
                keys.create(["read"])
            keys.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    keys = Keys(path)
    assert len(keys.list()) == 24
    keys.close()


def test_looking_up_waits_for_no_writer(keys: Keys) -> None:
    _, text = keys.create(["read"])
    writer = sqlite3.connect(keys.path, isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE keys SET name='x'")
        for _ in range(200):  # the writer goes on only after them
            assert keys.look_up(text) is not None
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def test_last_used_is_noted_and_not_noted_again_soon(keys: Keys) -> None:
    made, _ = keys.create(["read"])
    assert keys.list()[0].last_used_at is None
    keys.used(made.id)
    first = keys.list()[0].last_used_at
    keys.used(made.id)
    assert first is not None and keys.list()[0].last_used_at == first


def test_a_change_by_whomever_is_noticed(keys: Keys) -> None:
    watching = Keys(keys.path)
    before = watching.version()
    assert watching.version() == before
    keys.create(["read"])
    assert watching.version() != before
    watching.close()

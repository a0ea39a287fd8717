"""Searches of a ledger on a server keep their index in the user's cache: private, derived, without what was erased."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.projections.search.placing import path_of
from chatsnapshot.stores.cachefolder import cache_folder

ID = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def remote(cache: Path) -> Iterator[Any]:
    """A ledger that lies where no file is, as one on a server does."""
    with chatsnapshot.open("memory:") as ledger:
        at = ledger._opening.location._replace(kind="postgresql", url="postgresql://host/db")
        ledger._opening = msgspec.structs.replace(ledger._opening, location=at)
        yield ledger


def say(ledger: Any, text: str) -> Any:
    return ledger.record("execution.message", {"role": "user", "content": text}, correlation_id="r1")


def positions(found: Any) -> list[int]:
    return [hit.position for hit in found]


def test_the_index_of_a_ledger_on_a_server_lies_in_the_cache_for_its_owner_alone(
    remote: Any, cache: Path
) -> None:
    say(remote, "the refund policy")
    found = remote.search("refund")
    assert (positions(found), found.note) == ([1], None)
    folder = cache / "chatsnapshot" / remote.ledger_id
    assert [name for name in os.listdir(folder) if "journal" not in name] == ["search.db"]
    assert stat.S_IMODE((folder / "search.db").stat().st_mode) == 0o600
    assert {stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent)} == {0o700}


def test_it_can_be_deleted_and_is_caught_up(remote: Any, cache: Path) -> None:
    say(remote, "the refund policy")
    assert positions(remote.search("refund")) == [1]
    shutil.rmtree(cache)
    say(remote, "another refund")
    assert sorted(positions(remote.search("refund"))) == [1, 2]
    say(remote, "and a refund")
    assert sorted(positions(remote.search("refund"))) == [1, 2, 3]


def test_what_is_erased_leaves_the_index_in_the_cache(remote: Any) -> None:
    say(remote, "the zanzibar policy")
    say(remote, "other words")
    assert positions(remote.search("zanzibar")) == [1]
    remote.erase([1], reason="asked for")
    path = path_of(remote)
    assert path is not None and b"zanzibar" not in Path(path).read_bytes()
    assert positions(remote.search("zanzibar")) == []


def test_an_erasure_elsewhere_is_followed_by_the_next_search(
    remote: Any, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    say(remote, "the zanzibar policy")
    assert positions(remote.search("zanzibar")) == [1]
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_CACHE_HOME", str(tmp_path / "other machine"))
        remote.erase([1], reason="asked for")
    path = path_of(remote)
    assert path is not None and b"zanzibar" in Path(path).read_bytes()
    assert positions(remote.search("zanzibar")) == []
    assert b"zanzibar" not in Path(path).read_bytes()


def test_keep_false_and_a_cache_that_cannot_be_written_leave_no_file_and_say_so(
    remote: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(remote, "the refund policy")
    found = remote.search("refund", keep=False)
    assert (positions(found), found.note) == (
        [1],
        "the index is in memory, for this process alone: keep=False",
    )
    assert not cache.exists()
    cache.write_text("no folder")
    found = remote.search("refund")
    assert positions(found) == [1] and "XDG_CACHE_HOME" in (found.note or "")


def test_a_folder_that_others_may_write_or_that_leads_elsewhere_is_not_used(
    cache: Path, tmp_path: Path
) -> None:
    folder = cache / "chatsnapshot" / ID
    assert cache_folder(ID, make=False) is None
    assert cache_folder(ID, make=True) == str(folder)
    folder.chmod(0o777)
    assert cache_folder(ID, make=True) is None
    folder.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert cache_folder(ID, make=True) is None


@pytest.mark.parametrize("named", ["../../etc", "", "x/../../y", ID + "/..", ID.replace("0", "\u0660")])
def test_what_a_server_calls_its_ledger_is_never_a_path(cache: Path, named: str) -> None:
    assert cache_folder(named, make=True) is None
    assert not cache.exists()


def test_a_relative_cache_home_counts_as_none(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder(ID, make=True) == str(tmp_path / "home" / ".cache" / "chatsnapshot" / ID)
    monkeypatch.setenv("HOME", "nowhere")
    assert cache_folder(ID, make=True) is None

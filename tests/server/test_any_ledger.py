"""Ledgers of any name: made where that is allowed, opened as they are asked for, closed when nobody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.server import shelf as shelves
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.service import Service
from chatsnapshot.server.settings import Settings


def run(folder: Path, work: Callable[[Service], Any], **settings: Any) -> Any:
    async def whole() -> Any:
        service = Service(Settings(ledgers={}, any_ledger=str(folder), **settings))
        await service.start()
        try:
            return await work(service)
        finally:
            await service.stop()

    return asyncio.run(whole())


def test_a_ledger_is_made_once_and_found_again(tmp_path: Path) -> None:
    async def work(service: Service) -> tuple[bool, bool]:
        return await service.make("a", ""), await service.make("a", "")

    assert run(tmp_path, work) == (True, False)
    assert (tmp_path / "a.db").is_file()
    assert run(tmp_path, work) == (False, False)


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "A", "ä", "a" * 64, "a.db", "a\x00", "a\n"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    async def work(service: Service) -> None:
        with pytest.raises(Problem) as found:
            await service.make(name, "")
        assert found.value.status == 404

    run(tmp_path, work)
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_uses_is_closed_and_what_is_used_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "_KEPT", 3)
    monkeypatch.setattr(shelves, "_IDLE_SECONDS", 0.0)

    async def work(service: Service) -> None:
        await service.make("used", "")
        async with service.using("used") as used:
            release = service.keep("used")
        for number in range(10):
            await service.make(f"n{number}", "")
        assert len(service.ledgers) <= 4
        assert not used.closed
        release()
        for number in range(10):
            async with service.using(f"n{number}"):
                pass
        assert used.closed
        async with service.using("used") as again:
            assert again.head == 0

    run(tmp_path, work)


def test_more_than_may_be_open_at_once_are_sent_away(tmp_path: Path) -> None:
    async def work(service: Service) -> None:
        await service.make("a", "")
        await service.make("b", "")
        async with service.using("a"), service.using("b"):
            with pytest.raises(Problem) as found:
                await service.make("c", "")
        assert (found.value.status, found.value.retry_after) == (503, 1)

    run(tmp_path, work, ledgers_open_max=2)


def test_many_ask_for_a_new_ledger_at_once_and_get_the_same(tmp_path: Path) -> None:
    async def work(service: Service) -> None:
        made = await asyncio.gather(*(service.make("a", "") for _ in range(20)))
        assert len(service.ledgers) == 1
        assert any(made)

    run(tmp_path, work)


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    async def work(service: Service) -> None:
        raise AssertionError

    with pytest.raises(LedgerError, match="does not exist"):
        run(tmp_path / "none", work)


def test_only_a_service_of_any_name_makes_ledgers(serve: Callable[..., Any], tmp_path: Path) -> None:
    served = serve("--ledger", tmp_path / "runs.db")
    answer = httpx.put(f"{served.url}/v1/ledgers/other", json={})
    assert answer.status_code == 404
    assert httpx.put(f"{served.url}/v1/ledgers/main", json={}).status_code == 200


@pytest.mark.parametrize("body", [[1], {"identity": 5}, {"identity": "x"}, {"more": 1}])
def test_what_makes_a_ledger_says_no_more_than_its_identity(
    serve: Callable[..., Any], tmp_path: Path, body: Any
) -> None:
    served = serve("--any-ledger", tmp_path)
    assert httpx.put(f"{served.url}/v1/ledgers/a", json=body).status_code == 400
    assert list(tmp_path.glob("*.db")) == []

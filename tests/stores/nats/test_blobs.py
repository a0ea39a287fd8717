"""Blobs that are removed and named in the same moment: no entry ever names a blob that is gone."""

from __future__ import annotations

from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.stores.nats.blobs import Blobs

DATA = b"\x07" * 100_000


def _record(ledger: Any, number: int) -> Any:
    return ledger.record("demo.step", {"data": DATA, "n": number}, correlation_id="run")


def test_a_blob_that_is_named_again_before_its_removal_stays(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chatsnapshot.open(place) as ledger, chatsnapshot.open(f"{place}&index=memory") as other:
        _record(ledger, 1)
        remove = Blobs.remove

        async def late(self: Blobs, digest: bytes, used: Any) -> None:
            # While this handle is about to remove the blob, another one names it.
            import asyncio

            await asyncio.get_running_loop().run_in_executor(None, _record, other, 2)
            await remove(self, digest, used)

        monkeypatch.setattr(Blobs, "remove", late)
        ledger.erase(1, reason="asked to")
        assert ledger.read(after=2).__next__().value()["data"] == DATA
        assert ledger.verify().ok
        assert other.verify().ok


def test_a_blob_that_is_doomed_is_stored_anew_by_whoever_names_it(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    with chatsnapshot.open(place) as ledger, chatsnapshot.open(f"{place}&index=memory") as other:
        _record(ledger, 1)
        is_used = type(ledger._store._core.engine)._is_used  # type: ignore[attr-defined]

        async def slow(self: Any, digest: bytes) -> bool:
            # The mark is set and nobody names the blob yet; then somebody does.
            found = await is_used(self, digest)
            await asyncio.get_running_loop().run_in_executor(None, _record, other, 2)
            return found

        monkeypatch.setattr(type(ledger._store._core.engine), "_is_used", slow)  # type: ignore[attr-defined]
        ledger.erase(1, reason="asked to")
        assert [entry.value()["data"] for entry in ledger.read(after=2)] == [DATA]
        assert ledger.verify().ok

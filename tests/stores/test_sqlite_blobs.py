"""Large blobs of a SQLite ledger are read part by part, so that who sends them on holds one part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot.errors import NotFound

LARGE = os.urandom(5 * 1024 * 1024)


def test_a_large_blob_comes_in_its_parts_and_small_ones_at_once(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        small = os.urandom(600_000)
        entry = ledger.record("a.file", {"large": LARGE, "small": small}, correlation_id="run-1")
        parts = ledger._store.blob(sha256(LARGE).digest())
        assert isinstance(parts, Iterator)
        ledger.record("a.note", {}, correlation_id="run-1")  # no transaction is held between parts
        pieces = list(parts)
        assert max(map(len, pieces)) == ledger.limits.blob_part_bytes
        assert b"".join(pieces) == LARGE
        assert isinstance(ledger._store.blob(sha256(small).digest()), list)
        assert entry.value() == {"large": LARGE, "small": small}
        assert ledger.verify().ok


def test_a_blob_that_is_erased_while_it_is_read_says_so(tmp_path: Path) -> None:
    with chatsnapshot.open(tmp_path / "runs.db") as ledger:
        entry = ledger.record("a.file", {"large": LARGE}, correlation_id="run-1")
        parts = ledger._store.blob(sha256(LARGE).digest())
        assert parts is not None
        rest = iter(parts)
        next(rest)
        ledger.erase(entry.position, reason="asked for")
        with pytest.raises(NotFound, match="was erased while it was read"):
            list(rest)

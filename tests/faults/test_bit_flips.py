"""One bit of a file changes: what is read is the same as before, or something says that it is not."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import LedgerError
from chatsnapshot.limits import Limits

pytestmark = [pytest.mark.timeout(300)]

Event = Callable[..., dict[str, Any]]
FLIPS = 1_000
LIMITS = Limits(segment_bytes_max=30_000, blob_part_bytes=16_384)


def _write(path: Path, event: Event) -> None:
    """A ledger with everything in it; for SQLite a part of it is only in the log."""
    ledger = chatsnapshot.open(path, limits=LIMITS)
    ledger.record_many([event(number, f"run-{number % 5}") for number in range(1, 270)])
    ledger.record(**event(270, payload={"data": bytes(range(256)) * 150}))
    ledger.record(**event(271, attributes={"actor": "Ann", "links": ["a", "b"]}, schema_version=3))
    ledger.erase([3, 40], reason="asked")
    for number in range(273, 290):
        ledger.record(**event(number, payload={"number": number, "text": 'naïve "☃" ' * 30}))
    shutil.copytree(path.parent, path.parent.with_name("original"))  # as a process that is killed leaves it
    ledger.close()


def _read(path: Path, read_only: bool) -> tuple[list[Any], bool]:
    """Everything that can be read, and whether the ledger verifies."""
    with chatsnapshot.open(path, read_only=read_only, limits=LIMITS) as ledger:
        found = [(entry._identity(), entry.value() if not entry.erased else None) for entry in ledger.read()]
        return found, ledger.verify().ok


def test_no_bit_that_changes_an_entry_is_missed(
    path: Path, event: Event, seeded: random.Random, tmp_path: Path
) -> None:
    _write(path, event)
    original = tmp_path / "original"
    for side in original.glob("*-shm"):
        side.unlink()  # made anew by whoever opens the ledger
    truth, sound = _read(path, read_only=True)
    assert sound and len(truth) == 289
    files = [one for one in sorted(original.rglob("*")) if one.is_file() and one.stat().st_size]
    # An index beside the lines holds no entry; one flip in twenty goes there.
    held = sum(one.stat().st_size for one in files if ".index." not in one.name)
    sizes = [held / 40 if ".index." in one.name else one.stat().st_size for one in files]
    outcomes: Counter[tuple[str, str]] = Counter()
    missed = []
    copy = tmp_path / "copy"
    for number in range(FLIPS):
        [file] = seeded.choices(files, sizes)
        offset, bit = seeded.randrange(file.stat().st_size), seeded.randrange(8)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        damaged = copy / file.relative_to(original)
        data = bytearray(damaged.read_bytes())
        data[offset] ^= 1 << bit
        mtime_ns = damaged.stat().st_mtime_ns if seeded.random() < 0.5 else None
        damaged.write_bytes(data)
        if mtime_ns is not None:  # the device did it, nobody wrote
            os.utime(damaged, ns=(mtime_ns, mtime_ns))
        try:
            found, ok = _read(copy / path.name, read_only=number % 2 == 0)
        except LedgerError as error:
            outcome = f"error: {type(error).__name__}"
        else:
            if not ok:
                outcome = "found by verify"
            elif found == truth:
                outcome = "nothing changed"
            elif file.name.endswith("-wal") and found == truth[: len(found)]:
                outcome = "the log ends earlier"
            else:
                outcome = "MISSED"
                missed.append((file.name, offset, bit, len(found)))
        outcomes[file.name, outcome] += 1
    for (name, outcome), count in sorted(outcomes.items()):
        print(f"{name:30} {outcome:25} {count}")
    assert not missed, missed
    assert sum(count for (_, outcome), count in outcomes.items() if outcome != "nothing changed") > 100

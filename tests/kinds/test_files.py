"""Files: those of an earlier version that no longer open, and damage that nobody is told of."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.cli.main import cli
from chatsnapshot.errors import Corrupt

KEPT = Path(__file__).parent / "format-1"
ROOTS = {
    "sqlite": "d1b230a044dd2a137e394971d43698e70f41733bec5d1a6dc383aa99e0c1a2a5",
    "jsonl": "31587081b41a224f6fd6cd92b06a040dd1dab3d394052635f938c81262fd2a9a",
}
BLOB = bytes(33_000)


@pytest.fixture(params=list(ROOTS))
def early(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """A ledger as format 1 was first written, with a blob and an erased payload: its path and its root.

    The files in ``format-1`` are never written anew: what they hold is what users have.
    """
    if request.param == "sqlite":
        path = tmp_path / "runs.db"
        db = apsw.Connection(str(path))
        db.execute((KEPT / "runs.sql").read_text())
        db.close()
    else:
        path = tmp_path / "runs.jsonl"
        shutil.copy(KEPT / "runs.jsonl", path)
        blobs = tmp_path / "runs.jsonl.blobs"
        blobs.mkdir()
        (blobs / hashlib.sha256(BLOB).hexdigest()).write_bytes(BLOB)
    return str(path), ROOTS[request.param]


def _expect_early(ledger: Ledger) -> None:
    entries = list(ledger.read(until=6))
    assert [entry.event_type for entry in entries] == [
        "execution.run_started", "execution.message", "execution.tool_result", "execution.message",
        "execution.output", "ledger.payload_erased",
    ]  # fmt: skip
    assert [entry.erased for entry in entries] == [False, False, False, True, False, False]
    assert entries[1].causation_id == entries[0].event_id == "00000000-0000-4000-8000-000000000001"
    assert entries[1].source.to_dict() == {"origin": "ui", "runtime": "none", "name": "dana"}
    assert entries[2].value() == {"call_id": "1", "result": {1: (2, b"\x00")}}
    assert (entries[2].attributes, entries[2].schema_version) == (
        {"actor": "dana", "links": ["a"], "tries": 2},
        2,
    )
    assert entries[4].value() == {"value": BLOB}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_ledger_of_an_earlier_version_opens_reads_and_goes_on(
    early: tuple[str, str], read_only: bool, opened: Callable[..., Ledger]
) -> None:
    path, root = early
    before = Path(path).read_bytes()
    ledger = opened(path, read_only=read_only)
    report = ledger.verify()
    assert (report.ok, report.head, report.root) == (True, 6, root)
    _expect_early(ledger)
    if read_only:
        assert Path(path).read_bytes() == before
        return
    again = ledger.record(ledger.get("00000000-0000-4000-8000-000000000002").event)
    assert again.position == 2
    entry = ledger.record("a.b", {"n": 1}, correlation_id="run-1")
    assert (entry.position, entry.sequence) == (7, 6)
    ledger.close()
    with chatsnapshot.open(path) as ledger:
        _expect_early(ledger)
        assert ledger.verify().ok
    if path.endswith(".jsonl"):
        assert Path(path).read_bytes().startswith(before)


@pytest.mark.parametrize("part", ["in the middle", "at the end"])
def test_a_damaged_file_is_told_read_up_to_the_damage_and_left_as_it_is(path: str, part: str) -> None:
    with chatsnapshot.open(path) as ledger:
        for number in range(300):
            ledger.record("a.b", {"n": number, "text": "x" * 200}, correlation_id="c")
    file = Path(path)
    data = bytearray(file.read_bytes())
    last = data.rindex(b'{"n":299,')
    at = last if part == "at the end" else data.index(b'{"n":150,')
    data[at - 50 : at + 5] = b"\xff" * 55
    file.write_bytes(data)
    done = CliRunner().invoke(cli, ["verify", "--ledger", path])
    assert done.exit_code == 3, done.output
    found: list[Any] = []
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert not ledger.verify().ok
        with pytest.raises(Corrupt):
            for entry in ledger.read():
                found.append(entry.value()["n"])
    assert found[:100] == list(range(100))
    assert file.read_bytes() == bytes(data)

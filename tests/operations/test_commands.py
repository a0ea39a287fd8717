"""``chatsnapshot backup`` and ``restore``: what they print, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chatsnapshot

Fill = Callable[..., None]


def test_backup_prints_head_root_and_id(path: Path, copy: Path, fill: Fill, run: Any) -> None:
    fill(path, 12)
    done = run("backup", copy, "--ledger", path)
    assert done.exit_code == 0, done.output
    with chatsnapshot.open(path, read_only=True) as ledger:
        assert ledger.verify().root in done.output and ledger.ledger_id in done.output
    assert "verified" in done.output


def test_backup_and_restore_as_json(path: Path, copy: Path, fill: Fill, run: Any) -> None:
    fill(path, 12)
    made = json.loads(run("backup", copy, "--json", "--ledger", path).output)
    assert made["ledgers"][0]["head"] == 12 and made["path"] == str(copy)
    back = json.loads(run("restore", copy, "--json", "--force", "--ledger", path).output)
    assert back["ledgers"] == made["ledgers"] and ".replaced-" in back["kept"]


def test_what_is_there_is_refused_with_1(path: Path, copy: Path, fill: Fill, run: Any) -> None:
    fill(path, 12)
    assert run("backup", copy, "--ledger", path).exit_code == 0
    for arguments in (["backup", copy], ["restore", copy]):
        done = run(*arguments, "--ledger", path)
        assert done.exit_code == 1 and "--force" in done.output


def test_what_is_not_there_ends_with_2(path: Path, copy: Path, run: Any) -> None:
    assert run("backup", copy, "--ledger", path).exit_code == 2
    assert run("restore", copy, "--ledger", path).exit_code == 2
    assert not path.exists() and not copy.exists()


def test_a_folder_that_is_not_there_ends_with_1(path: Path, tmp_path: Path, fill: Fill, run: Any) -> None:
    fill(path, 2)
    assert run("backup", tmp_path / "nowhere" / path.name, "--ledger", path).exit_code == 1


def test_damage_ends_with_3(path: Path, copy: Path, fill: Fill, run: Any) -> None:
    fill(path, 12)
    assert run("backup", copy, "--ledger", path).exit_code == 0
    data = copy.read_bytes()
    where = data.index(b'"number":5')
    copy.write_bytes(data[: where + 9] + b"7" + data[where + 10 :])
    done = run("restore", copy, "--force", "--ledger", path)
    assert done.exit_code == 3 and "does not verify" in done.output

"""The page on saving says what the code does, and its Quick Start runs word for word."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import AG2ChatPersistence, StorageBackend

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "ag2-saving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"<!-- runnable -->\n```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("number", "file"), [(0, "chats.jsonl"), (1, "chats.db"), (2, "chats.db")])
def test_the_quick_start_runs_as_it_is_written(number: int, file: str, tmp_path: Path) -> None:
    script = tmp_path / "quick_start.py"
    script.write_text(BLOCKS[number])
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with chatsnapshot.open(tmp_path / "chat_snapshots" / file) as ledger:
        assert {entry.event_type for entry in ledger.read()} == {"ag2.chat_saved"}
        assert ledger.verify().ok


def test_the_readme_names_the_quick_start() -> None:
    assert "Quick Start" in PAGE
    assert re.search(r"Quick\s+Start in\s+\[docs/ag2-saving.md\]", (ROOT / "README.md").read_text())


def test_every_backend_stands_on_the_page() -> None:
    assert set(re.findall(r"\| `StorageBackend\.(\w+)`", PAGE)) == {one.name for one in StorageBackend}


def test_every_key_of_a_save_stands_in_the_table() -> None:
    with chatsnapshot.open("memory:") as ledger:
        persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
        talk = [{"role": "user", "content": "hi"}]
        persistence.save_conversation("case-7", messages=talk, metadata={"a": 1})
        persistence.save_conversation("case-7")
        persistence.delete_conversation("case-7")
        found: dict[str, set[str]] = {}
        for entry in ledger.read():
            found.setdefault(entry.event_type, set()).update(entry.payload)
    for event_type, keys in found.items():
        rows = PAGE.split(f"| `{event_type}` | meaning |", 1)[1].split("\n\n", 1)[0].splitlines()
        told = {
            name
            for row in rows
            if row.startswith("| `")
            for name in re.findall(r"`(\w+)`", row.split("|")[1])
        }
        assert told == keys | ({"facts"} if event_type.endswith("saved") else set())

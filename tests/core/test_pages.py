"""The pages on recording and reading name what the code takes, and all of their code runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Ledger, LedgerEntry
from chatsnapshot.intake import Intake


@pytest.fixture
def docs(pytestconfig: pytest.Config) -> Path:
    return pytestconfig.rootpath / "docs"


def named(page: Path, heading: str) -> set[str]:
    """What stands in code marks in the first column of the tables under a heading."""
    section = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(heading + "\n")]
    cells = re.findall(r"^\| ((?:`[\w()]+`(?:, )?)+)", text, re.MULTILINE)
    return {name.rstrip("()") for cell in cells for name in re.findall(r"`([\w()]+)`", cell)}


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"}  # type: ignore[arg-type]


@pytest.mark.parametrize("page", ["recording.md", "reading.md"])
def test_every_block_of_python_is_run(docs: Path, page: str) -> None:
    text = (docs / page).read_text()
    assert text.count("```python") == text.count("<!-- runnable -->\n```python") > 5


def test_every_option_of_open_is_named(docs: Path) -> None:
    assert named(docs / "recording.md", "Open") == parameters(chatsnapshot.open)


def test_every_argument_of_record_is_named(docs: Path) -> None:
    taken = parameters(Intake.draft) - {"frame", "now", "spare"}
    assert named(docs / "recording.md", "One event") == taken | {"expected_sequence", "wait"}


def test_every_filter_of_read_is_named(docs: Path) -> None:
    assert named(docs / "reading.md", "Read") == parameters(Ledger.read)


def test_every_fact_of_an_entry_that_users_need_is_named(docs: Path) -> None:
    inner = {
        "event_key", "source_json", "causation_key", "payload_json", "version", "attributes_json", "salt", "commitment",
        "payload_bytes", "fetch",
    }  # fmt: skip
    public = {name for name in dir(LedgerEntry) if not name.startswith("_")} - inner
    assert named(docs / "reading.md", "Entries") == public

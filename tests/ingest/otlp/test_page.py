"""The tables of docs/otlp.md are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chatsnapshot.ingest.otlp.kinds import INFERENCE, OPERATIONS, TABLE, TRACELOOP, kind_of
from chatsnapshot.ingest.otlp.logs import NAMED

PAGE = Path(__file__).parents[3] / "docs" / "otlp.md"


def rows(heading: str) -> list[list[str]]:
    """The rows of the table that begins with ``heading``."""
    table = PAGE.read_text().partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_each_kind_has_its_events() -> None:
    page = {row[0].strip("`"): (row[2].replace("`", ""), row[3].replace("`", "")) for row in rows("kind")}
    assert page == TABLE


@pytest.mark.parametrize(
    ("names", "attribute", "prefix"),
    [
        (OPERATIONS, "gen_ai.operation.name", ""),
        (INFERENCE, "openinference.span.kind", ""),
        (TRACELOOP, "traceloop.span.kind", "traceloop "),
    ],
)
def test_each_name_stands_where_it_leads(names: dict[str, str], attribute: str, prefix: str) -> None:
    said = {row[0].strip("`"): set(re.findall(r"`([^`]+)`", row[1])) for row in rows("kind")}
    for name in names:
        for parent in (None, "1" * 16):
            kind = kind_of({attribute: name}, 1, parent, "a span")
            assert prefix + name in said[kind], (name, kind)
    known = {
        *OPERATIONS,
        *INFERENCE,
        *(f"traceloop {name}" for name in TRACELOOP),
        "handoff to …",
        "…_memory",
    }
    assert {one for names in said.values() for one in names if "." not in one} - {
        "traceloop",
        *known,
    } == set()


def test_each_record_has_its_event() -> None:
    page = {
        name: re.findall(r"`([^`]+)`", row[1])[0]
        for row in rows("log record")
        for name in re.findall(r"`([^`]+)`", row[0])
    }
    assert page == NAMED

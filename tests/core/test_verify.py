"""verify derives everything anew: every kind of change is found, named by its first position, and passed by."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Corrupt, Ledger

ENTRIES = 300


@pytest.fixture
def filled(path: str) -> str:
    """A closed ledger with blobs, causes, attributes and an erased payload, over one full tile."""
    with chatsnapshot.open(path, durability="os") as ledger:
        first = ledger.record("a.b", {"n": 1}, correlation_id="c0")
        ledger.record_many(
            [
                {
                    "event_type": "a.b",
                    "payload": {
                        "n": number,
                        "data": bytes([number % 256]) * 40_000 if number in (7, 8) else None,
                    },
                    "correlation_id": f"c{number % 5}",
                    "causation_id": first,
                    "attributes": {"actor": "ada"},
                }
                for number in range(2, ENTRIES)
            ]
        )
        ledger.erase(4, reason="asked")
        assert ledger.head == ENTRIES
        assert ledger.verify().ok
    return path


def change(path: str, *statements: str) -> None:
    """Do to the file what its triggers refuse."""
    raw = sqlite3.connect(path)
    for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        raw.execute(f'DROP TRIGGER "{name}"')
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


CHANGES = [
    ("UPDATE entry SET payload = CAST('{\"n\":9}' AS BLOB) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET payload = CAST('{\"n\":21}' AS BLOB) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET salt = zeroblob(16) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET salt = zeroblob(15) WHERE position = 20", 20, ""),
    ("UPDATE entry SET commitment = zeroblob(32) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET payload_bytes = 1 WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET leaf = zeroblob(32) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET event_type = 'a.c' WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET timestamp = '2026-11-30T02:26:03.123456Z' WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET recorded_at = '2026-11-30T02:26:03.123456Z' WHERE position = 20", 20, ""),
    ("UPDATE entry SET recorded_at = 'now' WHERE position = 20", 20, ""),
    ('UPDATE entry SET source = \'{"origin":"ui","runtime":"none"}\' WHERE position = 20', 20, "A0"),
    ('UPDATE entry SET source = \'{"runtime":"none", "origin":"agent"}\' WHERE position = 20', 20, ""),
    ("UPDATE entry SET correlation_id = 'elsewhere', sequence = 1 WHERE position = 20", 20, ""),
    ("UPDATE entry SET causation_id = zeroblob(16) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET causation_id = NULL WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET schema_version = 2 WHERE position = 20", 20, "A0"),
    ('UPDATE entry SET attributes = \'{"actor":"bob"}\' WHERE position = 20', 20, "A0"),
    ("UPDATE entry SET event_id = zeroblob(16) WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET sequence = 500 WHERE position = 20", 20, ""),
    ("UPDATE entry SET payload = NULL, salt = NULL WHERE position = 20", 20, "A0"),
    ("UPDATE entry SET payload = NULL WHERE position = 20", 20, ""),
    ("UPDATE entry SET payload = CAST('{}' AS BLOB), salt = zeroblob(16) WHERE position = 4", 4, ""),
    ("DELETE FROM entry WHERE position = 20", 20, ""),
    ("DELETE FROM entry WHERE position = 300", 300, ""),
    ("UPDATE tile SET hashes = zeroblob(8192) WHERE level = 0", 1, "A0"),
    ("DELETE FROM tile", None, "A0"),
    ("UPDATE head SET frontier = zeroblob(length(frontier))", None, "A0"),
    ("UPDATE head SET recorded_at = '2026-11-30T02:26:03.123456Z'", 300, ""),
    ("UPDATE head SET size = 299", None, ""),
    ("UPDATE blob_part SET data = zeroblob(length(data))", 7, "A0"),
    ("DELETE FROM blob", 7, ""),
    ("INSERT INTO tile VALUES (0, 9, zeroblob(8192))", None, ""),
]


@pytest.mark.parametrize(
    ("statement", "position", "level"), CHANGES, ids=[change[0][:60] for change in CHANGES]
)
def test_every_change_is_found_and_its_first_position_named(
    filled: str, statement: str, position: int | None, level: str
) -> None:
    change(filled, statement)
    with chatsnapshot.open(filled, read_only=True) as ledger:
        report = ledger.verify()
    assert not report.ok
    assert report.problems[0].position == position
    assert report.level == level
    assert report.summary.startswith(f"{report.problem_count:,} problems; the first")


def test_verification_goes_on_after_a_fault(filled: str) -> None:
    change(
        filled,
        "UPDATE entry SET event_type = 'x.y' WHERE position = 20",
        "UPDATE entry SET payload = CAST('{}' AS BLOB) WHERE position = 90",
        "DELETE FROM entry WHERE position = 200",
    )
    with chatsnapshot.open(filled, read_only=True) as ledger:
        report = ledger.verify()
    assert {20, 90, 200} <= {problem.position for problem in report.problems}
    assert report.entries == ENTRIES - 1


def test_a_rewritten_leaf_is_found_by_the_tree(filled: str) -> None:
    """Who changes an entry and recomputes its leaf must also rewrite tiles and head."""
    from chatsnapshot.integrity import leaf_hash
    from chatsnapshot.stores.imports import row_header

    with chatsnapshot.open(filled, read_only=True) as ledger:
        row = list(
            next(
                iter(
                    ledger._store.read(
                        _everything(), after=19, until=20, limit=1, reverse=False, hint=None
                    ).rows
                )
            )
        )
    row[4] = "x.y"
    change(
        filled,
        f"UPDATE entry SET event_type = 'x.y', leaf = x'{leaf_hash(row_header(tuple(row))).hex()}' WHERE position = 20",
    )
    with chatsnapshot.open(filled, read_only=True) as ledger:
        report = ledger.verify()
    assert (report.ok, report.level, report.problems[0].position) == (False, "A0", 20)
    assert "tile" in report.problems[0].what


def _everything() -> Any:
    from chatsnapshot.stores.base import Query

    return Query()


def test_a_sound_ledger_says_what_is_proven_and_what_is_not(ledger: Ledger) -> None:
    ledger.record("a.b", correlation_id="c")
    report = ledger.verify()
    assert (report.ok, report.level, report.head, report.entries) == (True, "A1", 1, 1)
    assert "(level A1)" in report.summary
    assert any("rewrote the whole ledger" in text for text in report.unproven)


def test_an_empty_ledger_has_nothing_to_verify(ledger: Ledger) -> None:
    report = ledger.verify()
    assert (report.ok, report.level) == (True, "")
    assert report.summary == "nothing to verify: the ledger is empty"


def test_dangling_causes_and_open_tool_calls_are_noted_and_no_fault(ledger: Ledger) -> None:
    ledger.record("a.b", correlation_id="c", causation_id="00000000-0000-4000-8000-000000000001")
    ledger.record("execution.tool_call", {"name": "x", "call_id": "1"}, correlation_id="c")
    by_cause = ledger.record("execution.tool_call", {"name": "x"}, correlation_id="c")
    ledger.record("execution.tool_call", {"name": "x", "call_id": "2"}, correlation_id="c")
    ledger.record("execution.tool_result", {"call_id": "2", "result": 1}, correlation_id="c")
    ledger.record("execution.tool_result", {"result": 1}, correlation_id="c", causation_id=by_cause)
    report = ledger.verify()
    assert report.ok
    assert (report.dangling_causes, report.open_tool_calls) == ((1,), (2,))
    assert len(report.notes) == 2


def test_a_cause_that_arrives_later_is_not_dangling(ledger: Ledger) -> None:
    late = "00000000-0000-4000-8000-000000000001"
    ledger.record("a.b", correlation_id="c", causation_id=late)
    ledger.record("a.b", correlation_id="c", event_id=late)
    assert ledger.verify().dangling_causes == ()


def test_progress_is_told(opened: Callable[..., Ledger], url: str) -> None:
    ledger = opened(url, limits=chatsnapshot.Limits(page_entries_max=2))
    for _ in range(5):
        ledger.record("a.b", correlation_id="c")
    steps: list[tuple[int, int]] = []
    ledger.verify(progress=lambda done, all_of: steps.append((done, all_of)))
    assert steps == [(2, 5), (4, 5), (5, 5)]


@pytest.mark.parametrize("column", ["event_type", "correlation_id", "source", "recorded_at", "attributes"])
def test_text_that_is_no_utf_8_is_our_error_and_never_another(
    filled: str, opened: Callable[..., Ledger], column: str
) -> None:
    change(filled, f"UPDATE entry SET {column} = CAST(x'fffe41' AS TEXT) WHERE position = 20")
    ledger = opened(filled, read_only=True)
    with pytest.raises(Corrupt, match="not UTF-8"):
        list(ledger.read())
    report = ledger.verify()
    assert (report.ok, report.level) == (False, "")

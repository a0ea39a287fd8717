"""The doctor's judgements of plain facts: rights, clock, space, syncs, log, versions, locks."""

from __future__ import annotations

import os
import stat
from datetime import datetime, timezone
from typing import Any

import pytest

from chatsnapshot.doctor.facts import judge_blobs
from chatsnapshot.doctor.locking import lock_owners
from chatsnapshot.doctor.machine import (
    Space,
    judge_clock,
    judge_space,
    judge_sqlite,
    judge_sync,
    judge_system,
)
from chatsnapshot.doctor.rights import Rights, judge_rights
from chatsnapshot.doctor.sqlite import judge_journal, judge_log, judge_synchronous

MIB = 2**20
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)


def rights(path: str, mode: int, owner: int = 1000, **facts: Any) -> Rights:
    given = {"readable": True, "writable": True, "entered": True} | facts
    return Rights(path, mode, owner, **given)


def folder(mode: int = 0o755, **facts: Any) -> Rights:
    return rights("/srv", stat.S_IFDIR | mode, **facts)


def grades(*arguments: Any, account: int = 1000) -> list[str]:
    above, ledger, *beside = arguments
    return [finding.grade for finding in judge_rights(above, ledger, beside, account)]


def test_a_ledger_of_its_owner_alone_is_ok() -> None:
    assert grades(folder(), rights("/srv/runs.db", 0o600)) == ["ok"]


def test_a_ledger_that_others_may_read_is_a_warning_unless_they_cannot_come_to_it() -> None:
    assert grades(folder(), rights("/srv/runs.db", 0o644)) == ["warning"]
    assert grades(folder(0o700), rights("/srv/runs.db", 0o644, entered=False)) == ["ok"]


def test_a_ledger_that_others_may_rewrite_or_replace_is_a_problem() -> None:
    assert grades(folder(), rights("/srv/runs.db", 0o666)) == ["problem"]
    assert grades(folder(0o777), rights("/srv/runs.db", 0o600)) == ["problem"]
    assert grades(folder(0o777 | stat.S_ISVTX), rights("/srv/runs.db", 0o600)) == ["ok"]


def test_an_account_that_may_only_read_is_told_so() -> None:
    assert grades(folder(), rights("/srv/runs.db", 0o600, writable=False)) == ["note"]
    assert grades(folder(writable=False), rights("/srv/runs.db", 0o600)) == ["note"]
    assert grades(folder(), rights("/srv/runs.db", 0o600, readable=False)) == ["problem"]


def test_files_beside_of_another_owner_are_named() -> None:
    ledger = rights("/srv/runs.db", 0o600)
    assert grades(folder(), ledger, rights("/srv/runs.db-shm", 0o600, owner=0, writable=False)) == ["problem"]
    assert grades(folder(), ledger, rights("/srv/runs.db-wal", 0o666, owner=0)) == ["warning"]


def test_root_beside_a_ledger_of_another_user_is_noted() -> None:
    assert grades(folder(), rights("/srv/runs.db", 0o600), account=0) == ["note"]


@pytest.mark.parametrize(
    ("last", "grade"),
    [
        ("2026-11-30T11:00:00.000000Z", "ok"),
        ("2026-11-30T12:00:05.000000Z", "ok"),
        ("2026-11-30T12:00:06.000000Z", "warning"),
        ("2031-11-30T12:00:00.000000Z", "warning"),
        ("", "ok"),
    ],
)
def test_a_clock_behind_the_last_commit_is_a_warning(last: str, grade: str) -> None:
    assert judge_clock(last, "", NOW).grade == grade


def test_a_clock_before_the_making_of_an_empty_ledger_is_a_warning() -> None:
    assert judge_clock("", "2026-12-01T00:00:00.000000Z", NOW).grade == "warning"


@pytest.mark.parametrize(
    ("free", "grade"), [(10 * MIB, "problem"), (100 * MIB, "warning"), (1_000 * MIB, "ok")]
)
def test_little_space_is_a_warning_and_hardly_any_a_problem(free: int, grade: str) -> None:
    assert judge_space(Space(free, None), 0, 0)[0].grade == grade


def test_the_events_that_fit_are_counted_by_their_average_size() -> None:
    assert "about 512 events of 2,048 bytes" in judge_space(Space(MIB, None), 2_048_000, 1_000)[0].found
    assert "about 1,024 events of 1,024 bytes" in judge_space(Space(MIB, None), 90_000, 2)[0].found


def test_no_room_for_more_files_is_a_problem() -> None:
    assert [finding.grade for finding in judge_space(Space(10**10, 0), 0, 0)][:2] == ["ok", "problem"]


def test_a_library_that_disables_syncs_is_a_problem() -> None:
    assert judge_sync(["/usr/lib/libc.so.6"]) == []
    (finding,) = judge_sync(["/usr/lib/libc.so.6", "/usr/lib/libeatmydata/libeatmydata.so"])
    assert finding.grade == "problem" and "libeatmydata.so" in finding.found


def test_synchronous_is_judged_as_a_writer_and_as_another_program_has_it() -> None:
    assert judge_synchronous(2, 2, True, []).grade == "ok"
    assert judge_synchronous(2, 1, True, []).grade == "note"
    assert judge_synchronous(1, 1, True, []).grade == "problem"
    assert judge_synchronous(2, 2, True, ["NO_SYNC"]).grade == "problem"


def test_another_journal_mode_and_a_log_that_grows_are_warnings() -> None:
    assert (judge_journal("wal").grade, judge_journal("delete").grade) == ("ok", "warning")
    assert (judge_log(0).grade, judge_log(64 * MIB).grade, judge_log(129 * MIB).grade) == (
        "ok",
        "ok",
        "warning",
    )


@pytest.mark.parametrize(
    ("version", "grade"),
    [
        ((3, 47, 0), "note"),
        ((3, 51, 2), "note"),
        ((3, 51, 3), "ok"),
        ((3, 54, 1), "ok"),
        ((3, 50, 7), "ok"),
        ((3, 50, 6), "note"),
        ((3, 44, 6), "ok"),
        ((3, 45, 0), "note"),
    ],
)
def test_versions_of_sqlite_with_the_wal_reset_bug_are_noted(version: tuple[int, ...], grade: str) -> None:
    assert judge_sqlite(version).grade == grade


def test_a_system_without_locks_between_processes_is_a_warning() -> None:
    assert (judge_system(True).grade, judge_system(False).grade) == ("ok", "warning")


def test_blobs_that_nobody_names_are_noted_where_a_sweep_removes_them() -> None:
    assert judge_blobs(3, 0, 0, "sweep").grade == "ok"
    assert judge_blobs(3, 1, 40_000, "sweep").grade == "note"
    assert judge_blobs(3, 1, 40_000, "").grade == "warning"


def test_the_owner_of_a_lock_is_read_from_the_list_of_locks() -> None:
    lines = [
        "1: POSIX  ADVISORY  WRITE 27516 fe:00:4711 0 EOF",
        "1: -> POSIX  ADVISORY  WRITE 300 fe:00:4711 0 EOF",
        "2: POSIX  ADVISORY  READ 22189 fe:00:4711 128 128",
        "3: POSIX  ADVISORY  WRITE 77 fe:00:4712 0 EOF",
        "4: POSIX  ADVISORY  WRITE -1 fe:00:4711 0 EOF",
        "5: FLOCK",
    ]
    assert lock_owners(lines, os.makedev(0xFE, 0), 4711) == [27516]

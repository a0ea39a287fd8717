"""``chatsnapshot doctor`` on real ledgers: every finding provoked, nothing changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import chatsnapshot
from chatsnapshot.doctor import Finding, diagnose
from chatsnapshot.doctor.locking import try_lock

Fill = Callable[..., None]

HOLDER = """
import fcntl, os, sys, threading
fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX)
print("held", flush=True)
threading.Event().wait()
"""

AS_NOBODY = """
import os, sys
from chatsnapshot.doctor import diagnose
import chatsnapshot.doctor.jsonl, chatsnapshot.doctor.sqlite, chatsnapshot.stores.jsonl, chatsnapshot.stores.sqlite
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for finding in diagnose(sys.argv[1]).findings:
    print(finding.check, "|", finding.grade, "|", finding.found)
"""


def found(path: Path | str, check: str) -> list[Finding]:
    return [finding for finding in diagnose(path).findings if finding.check == check]


def only(path: Path | str, check: str) -> Finding:
    (finding,) = found(path, check)
    return finding


def files(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.stat().st_mode, file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file() and not file.name.endswith("-shm")
    }


def test_a_sound_ledger_has_no_problem(path: Path, fill: Fill) -> None:
    fill(path, 30)
    diagnosis = diagnose(path)
    assert diagnosis.healthy, diagnosis.findings
    assert {"format", "sync", "index", "blobs", "file system", "permissions", "lock", "clock"} <= {
        finding.check for finding in diagnosis.findings
    }
    assert all(finding.to_do for finding in diagnosis.findings if finding.grade in ("warning", "problem"))


def test_nothing_is_changed(path: Path, fill: Fill) -> None:
    fill(path, 30)
    with chatsnapshot.open(path, read_only=True) as ledger:
        ledger.verify()  # SQLite makes the files of its log for any reader
    before = files(path.parent)
    diagnose(path)
    assert files(path.parent) == before


def test_it_can_run_beside_an_open_ledger_whose_lock_goes_on_to_hold(
    path: Path, fill: Fill, program: Any
) -> None:
    fill(path, 3)
    with chatsnapshot.open(path) as ledger:
        ledger.record("a.b", {"number": 3}, correlation_id="c")
        assert diagnose(path).healthy
        store: Any = ledger._store
        with store._lock.held():
            assert only(path, "lock").grade == "problem", "it is held, by this very process"
            other = program(HOLDER, f"{os.path.realpath(path)}.lock")
            with pytest.raises(Exception, match="timed out"):
                other.wait(1)
        assert other.stdout.readline() == "held\n"
        other.kill()
        other.wait(60)
        ledger.record("a.b", {"number": 4}, correlation_id="c")
        assert ledger.verify().ok


def test_the_holder_of_the_lock_is_named(path: Path, fill: Fill, program: Any) -> None:
    fill(path, 3)
    lock = f"{os.path.realpath(path)}.lock"
    holder = program(HOLDER, lock)
    assert holder.stdout.readline() == "held\n"
    assert try_lock(lock, 0.2) is False
    finding = only(path, "lock")
    assert finding.grade == "problem"
    if Path("/proc/locks").exists():
        assert f"process {holder.pid}" in finding.found
    holder.send_signal(signal.SIGKILL)
    holder.wait(60)
    assert only(path, "lock").grade == "ok"


def test_a_missing_lock_file_is_no_trouble_and_is_not_made(path: Path, fill: Fill) -> None:
    fill(path, 3)
    lock = Path(f"{path}.lock")
    lock.unlink()
    assert only(path, "lock").grade == "ok"
    assert not lock.exists()


def test_another_journal_mode_is_a_warning(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.db"
    fill(path, 3)
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode=DELETE")
    db.close()
    assert only(path, "journal").grade == "warning"


def test_a_damaged_index_is_a_problem(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.db"
    fill(path, 300)
    db = apsw.Connection(str(path))
    page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entry_event_id'").get
    size = db.execute("PRAGMA page_size").get
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 200)
    problems = found(path, "index")
    assert problems and all(finding.grade == "problem" for finding in problems)


def test_a_file_that_is_no_ledger_is_a_problem_and_no_crash(path: Path) -> None:
    path.write_bytes(b"something else altogether\n" * 100)
    assert not diagnose(path).healthy


def test_a_newer_format_is_a_problem(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.db"
    fill(path, 3)
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version=99")
    db.close()
    finding = only(path, "format")
    assert finding.grade == "problem" and "99" in finding.found


def test_a_clock_that_was_ahead_is_a_warning(path: Path) -> None:
    with chatsnapshot.open(path, clock=lambda: 4_000_000_000 * 10**9) as ledger:
        ledger.record("a.b", correlation_id="c")
    assert only(path, "clock").grade == "warning"


def test_blobs_that_nobody_names_are_found(path: Path, fill: Fill) -> None:
    fill(path, 11)
    if path.suffix == ".db":
        db = apsw.Connection(str(path))
        db.execute("INSERT INTO blob VALUES (randomblob(32), 5)")
        db.close()
        assert only(path, "blobs").grade == "warning"
    else:
        (path.parent / f"{path.name}.blobs" / ("0" * 64)).write_bytes(b"stray")
        assert only(path, "blobs").grade == "note"


def test_an_index_beside_the_lines_that_is_missing_or_behind_is_a_warning(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.jsonl"
    fill(path, 5)
    assert only(path, "index").grade == "ok"
    with path.open("ab") as file:
        file.write(b'{"position":6')
    assert only(path, "index").grade == "warning"
    for file in tmp_path.glob("runs.jsonl.index.db*"):
        file.unlink()
    assert only(path, "index").grade == "warning"


def test_what_was_set_aside_and_a_sync_in_doubt_are_said(tmp_path: Path, fill: Fill) -> None:
    path = tmp_path / "runs.jsonl"
    fill(path, 5)
    (tmp_path / "runs.jsonl.torn-20261130T000000").write_bytes(b"torn")
    assert only(path, "torn tails").grade == "note"
    (tmp_path / "runs.jsonl.doubt").write_bytes(b"")
    assert [finding.grade for finding in found(path, "sync")] == ["ok", "problem"]


def test_another_account_that_may_only_read_is_told_so(path: Path, fill: Fill, program: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    # A place of its own: pytest's folders are closed to others, and other tests rely on that.
    own = Path(tempfile.mkdtemp(prefix="cs-"))
    try:
        path = own / path.name
        fill(path, 3)
        for file in (own, *own.rglob("*")):
            file.chmod(0o755 if file.is_dir() else 0o644)
        said, error = program(AS_NOBODY, path).communicate(timeout=60)
    finally:
        shutil.rmtree(own)
    assert "permissions | note | this account may not write" in said, error
    assert "permissions | warning | every account of this machine may read" in said
    assert "lock | note |" in said


def test_on_tmpfs_with_little_room_both_are_said(name: str, mounted: Any, tmp_path: Path) -> None:
    done = mounted(
        f"mount -t tmpfs -o size=12m none {tmp_path}",
        "import sys, chatsnapshot\n"
        "from chatsnapshot.doctor import diagnose\n"
        "with chatsnapshot.open(sys.argv[1]) as ledger:\n"
        "    ledger.record('a.b', correlation_id='c')\n"
        "for finding in diagnose(sys.argv[1]).findings:\n"
        "    print(finding.check, finding.grade)\n",
        tmp_path / name,
    )
    assert done.returncode == 0, done.stderr
    assert "file system warning" in done.stdout and "free space problem" in done.stdout


def test_a_ledger_that_is_bound_alone_is_a_problem(tmp_path: Path, fill: Fill, mounted: Any) -> None:
    real, bound = tmp_path / "real.db", tmp_path / "runs.db"
    fill(real, 3)
    bound.touch()
    done = mounted(
        f"mount --bind {real} {bound}",
        "import sys\n"
        "from chatsnapshot.doctor import diagnose\n"
        "print([f.grade for f in diagnose(sys.argv[1]).findings if 'alone is mounted' in f.found])\n",
        bound,
    )
    assert done.stdout == "['problem']\n", done.stderr


# --- the command ---


def test_the_command_ends_with_0_1_or_2(path: Path, fill: Fill, run: Any) -> None:
    missing = run("doctor", "--ledger", path)
    assert missing.exit_code == 2 and "no ledger at" in missing.output
    fill(path, 3)
    assert run("doctor", "--ledger", path).exit_code == 0
    if path.suffix == ".db":
        db = apsw.Connection(str(path))
        db.execute("PRAGMA user_version=99")
        db.close()
    else:
        Path(f"{path}.doubt").touch()
    assert run("doctor", "--ledger", path).exit_code == 1


def test_the_command_tells_findings_and_what_to_do(tmp_path: Path, fill: Fill, run: Any) -> None:
    path = tmp_path / "runs.jsonl"
    fill(path, 3)
    (tmp_path / "runs.jsonl.doubt").write_bytes(b"")
    text = run("doctor", "--ledger", path)
    assert text.exit_code == 1
    assert "problem" in text.output and "to do: " in text.output
    document = json.loads(run("doctor", "--json", "--ledger", path).output)
    assert document["healthy"] is False
    assert {"check", "grade", "found", "to_do"} == set(document["findings"][0])


def test_a_memory_ledger_has_nothing_to_examine(run: Any) -> None:
    done = run("doctor", "--ledger", "memory:")
    assert done.exit_code == 1 and "no files to examine" in done.output

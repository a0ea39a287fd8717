"""The doctor's look into an SQLite ledger: pragmas in force, log, format, tables and indexes, blobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import apsw

from chatsnapshot.doctor.facts import Facts, judge_blobs
from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning
from chatsnapshot.errors import Corrupt, FormatTooNew, LedgerError, NotFound
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.identity import read_identity
from chatsnapshot.stores.sqlite_errors import mapped
from chatsnapshot.stores.sqlite_schema import (
    FORMAT,
    WAL_BYTES_KEPT,
    Names,
    connect,
    ledger_id,
)

__all__ = ["judge_journal", "judge_log", "judge_synchronous", "look_into_database"]

LEVELS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
_FULL = 2
_DAMAGES_SHOWN = 3
_RESTORE = "keep a copy of all its files, run chatsnapshot verify, and restore a backup"


def look_into_database(path: str, ledger: str) -> Facts:
    """Findings for one ledger of a file, read-only, through SQLite alone. Raises :class:`NotFound`."""
    facts = Facts([], beside=tuple(path + suffix for suffix in ("-wal", "-shm", ".lock")))
    facts.file_bytes = sum(_size(name) for name in (path, path + "-wal"))
    try:
        with at_work:
            db = connect(path, write=False)
            try:
                _look(db, path, ledger, facts)
            finally:
                db.close()
    except NotFound:
        raise
    except FormatTooNew as error:
        facts.findings.append(problem("format", str(error), "use that version of chatsnapshot"))
    except (Corrupt, UnicodeDecodeError) as error:
        facts.findings.append(problem("index", str(error), _RESTORE))
    except apsw.Error as error:
        facts.findings.append(_unreadable(mapped(error, path)))
    return facts


def _unreadable(error: LedgerError) -> Finding:
    if isinstance(error, Corrupt):
        return problem("index", str(error), _RESTORE)
    return problem("index", f"it cannot be read: {error}", "see permissions and lock above and below")


def _look(db: apsw.Connection, path: str, ledger: str, facts: Facts) -> None:
    names = Names(ledger)
    known = ledger_id(db, ledger, path)
    facts.created_at = db.execute("SELECT created_at FROM ledger WHERE name = ?", (ledger,)).get
    count = db.execute("SELECT count(*) FROM ledger").get
    more = f", one of {count} ledgers in the file" if count > 1 else ""
    found = db.execute("PRAGMA user_version").get
    facts.findings.append(
        ok(
            "format",
            f"ledger format {found} (this version reads up to {FORMAT}), id {read_identity(known).told}{more}",
        )
    )
    facts.findings.append(judge_journal(str(db.execute("PRAGMA journal_mode").get)))
    others = db.execute("PRAGMA synchronous").get
    db.execute(
        "PRAGMA synchronous=FULL; PRAGMA fullfsync=ON"
    )  # of this connection only, which writes nothing
    ours, full = db.execute("PRAGMA synchronous").get, db.execute("PRAGMA fullfsync").get
    facts.findings.append(judge_synchronous(ours, others, bool(full), apsw.compile_options))
    facts.findings.append(judge_log(_size(path + "-wal")))
    facts.findings += _damages(db)
    facts.events = db.execute(f"SELECT size FROM {names['head']}").get
    facts.recorded_at = db.execute(f"SELECT recorded_at FROM {names['head']}").get
    facts.findings.append(_blobs(db, names))


def judge_journal(mode: str) -> Finding:
    """The journal mode of the file, which every writer shares."""
    if mode == "wal":
        return ok("journal", "write-ahead log (journal_mode wal)")
    return warning(
        "journal",
        f"journal_mode is {mode}, not wal: another program has changed it; readers and writers wait for each other",
        "the next process that records sets it to wal; keep other programs from changing it",
    )


def judge_synchronous(ours: int, others: int, full: bool, options: Sequence[str]) -> Finding:
    """``PRAGMA synchronous`` as a writer of ours has it, and as a program without settings of its own has it."""
    if "NO_SYNC" in options:
        return problem(
            "sync",
            "this SQLite was built to sync nothing (SQLITE_NO_SYNC)",
            "install apsw from its own wheel, which syncs",
        )
    if ours < _FULL:
        return problem(
            "sync",
            f"this SQLite keeps synchronous at {LEVELS.get(ours, str(ours))} when FULL is asked for",
            "install apsw from its own wheel",
        )
    found = (
        f"commits are synced (synchronous={LEVELS.get(ours, str(ours))}, fullfsync={'on' if full else 'off'}), unless a "
        'process opens the ledger with durability="os"'
    )
    if others < _FULL:
        level = LEVELS.get(others, str(others))
        return note(
            "sync",
            f"{found}; another program that writes with this SQLite and sets nothing has synchronous={level}, and what "
            "it writes may not survive power loss",
            "let only ChatSnapshot write to the ledger",
        )
    return ok("sync", f"{found}; another program that sets nothing has {LEVELS.get(others, str(others))} too")


def judge_log(size: int) -> Finding:
    """The size of the write-ahead log in bytes."""
    shown = f"the log has {size / 2**20:,.1f} MiB" if size else "the log is empty"
    if size > 2 * WAL_BYTES_KEPT:
        return warning(
            "log",
            f"{shown}: it cannot be brought into the database, mostly because a reader stays in one transaction",
            "end the process that reads (another program, a backup that hangs); the next commits bring it over",
        )
    return ok("log", shown)


def _damages(db: apsw.Connection) -> Iterator[Finding]:
    """SQLite's own check of tables and indexes; it reads the whole file."""
    found = [str(text) for (text,) in db.execute(f"PRAGMA quick_check({_DAMAGES_SHOWN})") if text != "ok"]
    if not found:
        yield ok("index", "SQLite finds tables and indexes in order (quick_check)")
    for text in found:
        yield problem("index", f"SQLite finds damage: {text}", _RESTORE)


def _blobs(db: apsw.Connection, names: Names) -> Finding:
    of_no_entry = (
        f"FROM {names['blob']} AS b WHERE NOT EXISTS (SELECT 1 FROM {names['blob_use']} AS u JOIN {names['entry']} AS e "
        "ON e.position = u.position AND e.payload IS NOT NULL WHERE u.digest = b.digest)"
    )
    count = db.execute(f"SELECT count(*) FROM {names['blob']}").get
    unused = db.execute(f"SELECT count(*) {of_no_entry}").get
    size = db.execute(f"SELECT coalesce(sum(bytes), 0) {of_no_entry}").get
    return judge_blobs(count, unused, size, "")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0

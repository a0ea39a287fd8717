"""The doctor's look at a PostgreSQL server: version, durability, replication, rights, long transactions, sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.doctor.finding import Finding, note, ok, problem, warning
from chatsnapshot.doctor.machine import judge_clock, now
from chatsnapshot.errors import FormatTooNew, LedgerError, NotFound
from chatsnapshot.stores.open import Location
from chatsnapshot.stores.postgresql.connections import Connection, Connections
from chatsnapshot.stores.postgresql.schema import FORMAT, LOCK_CLASS, applied, migrations

if TYPE_CHECKING:
    from typing_extensions import LiteralString

__all__ = [
    "judge_commits",
    "judge_locks",
    "judge_long",
    "judge_replication",
    "judge_rights",
    "judge_version",
    "look_at_server",
]

VERSION_MIN = 14
LONG_SECONDS = 300
SPARE_CONNECTIONS = 10


def look_at_server(location: Location) -> list[Finding]:
    """Findings for one ledger, read-only. Raises :class:`NotFound`; a server that cannot be reached is a finding."""
    connections = Connections(location.target, location.url, read_only=True)
    try:
        with connections.lent() as db:
            return list(_look(db, location))
    except NotFound:
        raise
    except FormatTooNew as error:
        return [problem("format", str(error), "use that version of chatsnapshot")]
    except LedgerError as error:
        return [problem("server", str(error), "see what the message says, then ask the doctor again")]
    finally:
        connections.close()


def _look(db: Connection, location: Location) -> Iterator[Finding]:
    yield judge_version(db.info.server_version)
    step = applied(db)
    if not step:
        raise NotFound(f"no ledger at {location.url}")
    latest = migrations()[-1].number
    if step > latest:
        raise FormatTooNew(f"the schema is at step {step}, and this version knows steps up to {latest}")
    if step < latest:
        yield warning(
            "format",
            f"the schema is at step {step} of {latest}",
            "run python -m chatsnapshot.stores.postgresql migrate URL",
        )
    found = db.execute(
        "SELECT l.number, l.ledger_id, l.format, l.created_at, h.size, h.recorded_at, count(*) OVER () FROM "
        "chatsnapshot.ledger AS l JOIN chatsnapshot.head AS h ON h.ledger = l.number WHERE l.name = %s",
        (location.ledger,),
    ).fetchone()
    if found is None:
        raise NotFound(f"no ledger {location.ledger!r} at {location.url}")
    number, identity, version, created_at, size, recorded_at, _ = found
    (ledgers,) = _row(db, "SELECT count(*) FROM chatsnapshot.ledger")
    more = f", one of {ledgers} ledgers in the database" if ledgers > 1 else ""
    yield ok("format", f"ledger format {version} (this version reads up to {FORMAT}), id {identity}{more}")
    settings = dict(
        db.execute(
            "SELECT name, setting FROM pg_settings WHERE name IN ('synchronous_commit', 'fsync', 'full_page_writes', "
            "'synchronous_standby_names', 'data_checksums', 'max_connections', 'wal_level', 'archive_mode')"
        ).fetchall()
    )
    yield from judge_commits(settings)
    standby, replicas = _row(db, "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_replication)")
    yield judge_replication(standby, settings.get("synchronous_standby_names", ""), replicas)
    yield judge_rights(*_rights(db))
    yield judge_long(
        db.execute(
            "SELECT pid, usename, state, extract(epoch FROM now() - xact_start)::bigint FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL "
            "AND now() - xact_start > make_interval(secs => %s) ORDER BY xact_start LIMIT 5",
            (LONG_SECONDS,),
        ).fetchall()
    )
    yield judge_locks(
        db.execute(
            "SELECT l.pid, a.usename, a.state, extract(epoch FROM now() - a.xact_start)::bigint, "
            "(SELECT count(*) FROM pg_locks AS w WHERE w.locktype = 'advisory' AND NOT w.granted "
            "AND w.classid = l.classid AND w.objid = l.objid AND w.database = l.database) "
            "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) JOIN pg_database AS d ON d.oid = l.database "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s "
            "AND d.datname = current_database()",
            (LOCK_CLASS, number),
        ).fetchone()
    )
    used, reserved = _row(
        db,
        "SELECT count(*), current_setting('superuser_reserved_connections')::int FROM pg_stat_activity",
    )
    yield _connections(used, int(settings["max_connections"]) - reserved)
    yield judge_clock(recorded_at, created_at, now())
    yield from _sizes(db, number, size)


def judge_version(version: int) -> Finding:
    """``server_version_num``."""
    major = version // 10000
    if major < VERSION_MIN:
        return problem(
            "server",
            f"PostgreSQL {major}; {VERSION_MIN} is the oldest that works",
            "upgrade the server",
        )
    return ok("server", f"PostgreSQL {major}.{version % 10000}")


def judge_commits(settings: dict[str, str]) -> Iterator[Finding]:
    """What a commit waits for."""
    if settings.get("fsync") == "off":
        yield problem(
            "sync",
            "fsync is off: a crash of the machine can lose acknowledged events and damage the database",
            "set fsync = on in postgresql.conf and reload",
        )
    else:
        level = settings.get("synchronous_commit", "?")
        weaker = (
            ""
            if level in ("on", "remote_apply")
            else f"; the server says {level}, and each commit of ours sets it to on"
        )
        yield ok("sync", f"commits are synced (fsync on, synchronous_commit on{weaker})")
    if settings.get("full_page_writes") == "off":
        yield problem(
            "pages",
            "full_page_writes is off: a page that was half written when the power went cannot be repaired",
            "set full_page_writes = on, unless the file system writes pages whole",
        )
    if settings.get("data_checksums") == "off":
        yield note(
            "checksums",
            "data checksums are off: the server itself does not notice when a disk changes bytes, verify does",
            "pg_checksums --enable turns them on while the server is stopped",
        )
    if settings.get("archive_mode") == "off":
        yield note(
            "backup",
            "WAL is not archived: a restore goes back to the last dump or base backup",
            "back up with pg_dump, or set up archive_mode for recovery to any point in time",
        )


def judge_replication(standby: bool, names: str, replicas: int) -> Finding:
    """Where else a commit is when it is acknowledged."""
    if standby:
        return note("replication", "this server is a standby: it is read here, and recorded on its primary")
    if names:
        if not replicas:
            return problem(
                "replication",
                f"synchronous_standby_names is {names!r} and no standby is connected: every commit waits for it",
                "bring the standby back, or empty synchronous_standby_names",
            )
        return ok("replication", f"a commit waits for standbys ({names}; {replicas} connected)")
    if replicas:
        return note(
            "replication",
            f"{replicas} standbys follow asynchronously: a failover can lose the last acknowledged events",
            "set synchronous_standby_names if they must survive the loss of this server",
        )
    return ok("replication", "no standbys: events are as safe as this server's disks and backups")


def judge_rights(role: str, superuser: bool, owner: bool, writes: bool, erases: bool) -> Finding:
    """What the role of the URL may do."""
    if superuser or owner:
        who = "a superuser" if superuser else "the owner of the schema"
        return note(
            "rights",
            f"the role {role} is {who}: triggers refuse changes of what was recorded, and it could drop them",
            f"record as a role that has only what SELECT chatsnapshot.allow('ROLE', '{'erase' if erases else 'write'}') "
            "gives",
        )
    what = "reads" if not writes else "reads and records" if not erases else "reads, records and erases"
    return ok("rights", f"the role {role} {what}; it cannot change or remove what was recorded")


def judge_long(found: list[tuple[Any, ...]]) -> Finding:
    """Transactions of others that stay open: pid, user, state, seconds."""
    if not found:
        return ok("transactions", f"no transaction is open longer than {LONG_SECONDS // 60} minutes")
    pid, user, state, seconds = found[0]
    return warning(
        "transactions",
        f"{len(found)} transactions are open for long, the oldest of {user} (process {pid}, {state}) for {seconds:,} s: "
        "what is dead is not cleaned up, and commits become slower",
        f"end it, with SELECT pg_terminate_backend({pid}) if need be",
    )


def judge_locks(holder: tuple[Any, ...] | None) -> Finding:
    """Who holds the ledger's lock: pid, user, state, seconds, and how many wait."""
    if holder is None:
        return ok("lock", "nobody holds the ledger's lock")
    pid, user, state, seconds, waiting = holder
    found = f"process {pid} of {user} ({state}) holds the ledger's lock for {seconds or 0:,} s, {waiting} wait for it"
    if (seconds or 0) < 5:
        return ok("lock", found)
    return problem("lock", found, f"end it: SELECT pg_terminate_backend({pid})")


def _connections(used: int, allowed: int) -> Finding:
    found = f"{used} of {allowed} connections are in use"
    if allowed - used < SPARE_CONNECTIONS:
        return warning(
            "connections", found, "raise max_connections, or put a pooler in front (docs/postgresql.md)"
        )
    return ok("connections", found)


def _rights(db: Connection) -> tuple[str, bool, bool, bool, bool]:
    role, superuser, owner, writes, erases = _row(
        db,
        "SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), "
        "(SELECT pg_has_role(nspowner, 'MEMBER') FROM pg_namespace WHERE nspname = 'chatsnapshot'), "
        "(SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc "
        "WHERE pronamespace = 'chatsnapshot'::regnamespace AND proname = 'append'), "
        "(SELECT bool_and(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc "
        "WHERE pronamespace = 'chatsnapshot'::regnamespace AND proname = 'erase')",
    )
    return role, superuser, owner, writes, erases


def _sizes(db: Connection, number: int, size: int) -> Iterator[Finding]:
    entries, database = _row(
        db,
        "SELECT pg_total_relation_size('chatsnapshot.entry'), pg_database_size(current_database())",
    )
    parts = db.execute(
        "SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = 'chatsnapshot.payload'::regclass AND starts_with(c.relname, %s)",
        (f"payload_{number}_",),
    ).fetchall()
    payloads = sum(one for _, one in parts)
    yield ok(
        "size",
        f"{size:,} events; entries of all ledgers take {entries / 2**20:,.1f} MiB, payloads of this one "
        f"{payloads / 2**20:,.1f} MiB in {len(parts)} partitions, the database {database / 2**20:,.1f} MiB",
    )
    expected = db.execute(
        "SELECT count(*) FROM chatsnapshot.ledger, generate_series(1, %s::bigint, payload_positions) WHERE number = %s",
        (size, number),
    ).fetchone()
    missing = (expected[0] if expected else 0) - len(parts)
    if missing > 0:
        yield note(
            "archive",
            f"{missing} partitions of payloads are detached: their entries are not readable, and say so",
            "attach them to read or verify them (docs/postgresql.md)",
        )


def _row(db: Connection, sql: LiteralString) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = db.execute(sql).fetchone()
    assert found is not None, "one row"
    return found

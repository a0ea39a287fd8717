"""The schema in the database: its numbered migrations, who may apply them, and the ledgers that it holds."""

from __future__ import annotations

import time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from chatsnapshot.clock import time_text
from chatsnapshot.errors import FormatTooNew, LedgerError, NotFound, ReadOnly, StoreUnavailable
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.postgresql.connections import Connection
from chatsnapshot.stores.postgresql.driver import psycopg
from chatsnapshot.stores.postgresql.errors import mapped

if TYPE_CHECKING:
    from typing_extensions import LiteralString

__all__ = ["FORMAT", "LOCK_CLASS", "Found", "Migration", "applied", "find", "migrate", "migrations"]

FORMAT = 1
SERVER_MIN = 140000
LOCK_CLASS = 1129532465  # "CSL1"
_SCHEMA_LOCK = -1


class Migration(NamedTuple):
    """One step of the schema, from a file ``NNNN_name.sql``."""

    number: int
    name: str
    sql: str


class Found(NamedTuple):
    """A ledger: its number in the database, and the id of its history."""

    number: int
    ledger_id: str


@cache
def migrations() -> tuple[Migration, ...]:
    """Every step that this version knows, in order."""
    steps = []
    for file in files(__package__).joinpath("sql").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        if file.name.endswith(".sql"):
            steps.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return tuple(sorted(steps))


def applied(db: Connection) -> int:
    """The last step that was applied to the database; 0 when there is no schema."""
    # Not to_regclass(): it may answer from a cache that is older than the lock that was waited for.
    (there,) = _row(
        db,
        "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'chatsnapshot' AND c.relname = 'migration')",
    )
    return int(_row(db, "SELECT coalesce(max(number), 0) FROM chatsnapshot.migration")[0]) if there else 0


def migrate(db: Connection, shown: str) -> list[Migration]:
    """Apply what is missing, in one transaction; gives the steps taken.

    Of several processes one does it. Raises :class:`FormatTooNew`, and :class:`ReadOnly` when the role may not.
    """
    done: list[Migration] = []
    try:
        with db.transaction():
            db.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, _SCHEMA_LOCK))
            before = applied(db)
            _not_too_new(before, shown)
            for step in migrations():
                if step.number > before:
                    db.execute(step.sql, prepare=False)
                    db.execute(
                        "INSERT INTO chatsnapshot.migration (number, name) VALUES (%s, %s)",
                        (step.number, step.name),
                    )
                    done.append(step)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ReadOnly(
            f"this role may not make or change the schema chatsnapshot in {shown} ({error.diag.message_primary}); let a "
            "role that may do it run python -m chatsnapshot.stores.postgresql migrate URL"
        ) from error
    except psycopg.Error as error:
        raise mapped(error, shown) from error
    return done


def find(
    db: Connection, shown: str, ledger: str, *, create: bool, read_only: bool, identity: str = ""
) -> Found:
    """The ledger of a name; with ``create`` schema and ledger are made where they are missing.

    ``identity`` is what a ledger that is made is made with (a copy); without one it gets an id of its own.

    Raises :class:`NotFound`, :class:`FormatTooNew`, :class:`ReadOnly` and :class:`StoreUnavailable`, each before anything
    is written.
    """
    _fit(db, shown, read_only)
    create = create and not read_only
    before = applied(db)
    _not_too_new(before, shown)
    latest = migrations()[-1].number
    if not before and not create:
        raise NotFound(
            f"no ledger at {shown}: the database has no schema chatsnapshot; record something there first, or check the "
            "URL"
        )
    if before < latest:
        if not create:
            raise LedgerError(
                f"the schema in {shown} is at step {before} and this version works with step {latest}; run python -m "
                "chatsnapshot.stores.postgresql migrate URL"
            )
        migrate(db, shown)
    found = _known(db, ledger)
    if found is None:
        if not create:
            raise NotFound(
                f"no ledger {ledger!r} at {shown}; record something there first, or check the name"
            )
        _expect_rights(db, shown)
        db.execute(
            "SELECT chatsnapshot.create_ledger(%s, %s, %s, %s)",
            (ledger, new_identity(identity), FORMAT, time_text(time.time_ns())),
        )
        found = _known(db, ledger)
        assert found is not None, "the function has made it"
    elif not read_only:
        _expect_rights(db, shown)
    number, ledger_id, version = found
    if version > FORMAT:
        raise FormatTooNew(
            f"{shown} has ledger format {version}, and this version reads up to {FORMAT}; upgrade chatsnapshot"
        )
    return Found(number, ledger_id)


def _known(db: Connection, ledger: str) -> tuple[int, str, int] | None:
    found = db.execute(
        "SELECT number, ledger_id, format FROM chatsnapshot.ledger WHERE name = %s", (ledger,)
    ).fetchone()
    return None if found is None else (found[0], found[1], found[2])


def _fit(db: Connection, shown: str, read_only: bool) -> None:
    """Refuse a server that cannot keep the promises."""
    version = db.info.server_version
    if version < SERVER_MIN:
        raise LedgerError(
            f"the server of {shown} is PostgreSQL {version // 10000}, and {SERVER_MIN // 10000} is the oldest that "
            "works; upgrade the server"
        )
    encoding, standby, reading = _row(
        db,
        "SELECT current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'",
    )
    if encoding != "UTF8":
        raise LedgerError(
            f"the database of {shown} has the encoding {encoding}, which cannot hold every text; create one with "
            "ENCODING 'UTF8'"
        )
    if read_only:
        return
    if standby:
        raise StoreUnavailable(
            f"the server of {shown} is a standby, which takes no writes; name the primary in the URL (several hosts and "
            "target_session_attrs=read-write find it), or open with read_only=True"
        )
    if reading:
        raise StoreUnavailable(
            f"{shown} is set to read-only (default_transaction_read_only); change that setting of role, database or "
            "server, or open with read_only=True"
        )


def _expect_rights(db: Connection, shown: str) -> None:
    allowed, role = _row(
        db,
        "SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')), current_user FROM pg_proc AS p "
        "WHERE p.pronamespace = 'chatsnapshot'::regnamespace AND p.proname IN ('append', 'create_ledger')",
    )
    if not allowed:
        raise ReadOnly(
            f"the role {role} may not record in {shown}; as the owner of the schema run SELECT "
            f"chatsnapshot.allow('{role}', 'write'), or open the ledger with read_only=True"
        )


def _not_too_new(found: int, shown: str) -> None:
    latest = migrations()[-1].number
    if found > latest:
        raise FormatTooNew(
            f"the schema in {shown} is at step {found}, and this version knows steps up to {latest}; upgrade chatsnapshot"
        )


def _row(db: Connection, sql: LiteralString) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = db.execute(sql).fetchone()
    assert found is not None, "one row"
    return found

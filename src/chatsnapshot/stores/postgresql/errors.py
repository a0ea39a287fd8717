"""Turns errors of psycopg and the server into the errors of ChatSnapshot, at one place; secrets never come through."""

from __future__ import annotations

import re

from chatsnapshot.errors import (
    CommitUncertain,
    Corrupt,
    LedgerError,
    ReadOnly,
    StoreFull,
    StoreUnavailable,
)
from chatsnapshot.stores.postgresql.driver import psycopg

__all__ = ["is_lost", "mapped", "not_connected", "uncertain"]

_HINTS = (
    ("password authentication failed", "check user and password in the URL, or in PGPASSWORD or ~/.pgpass"),
    ("no password supplied", "give a password in the URL, in PGPASSWORD or in ~/.pgpass"),
    ("no pg_hba.conf entry", "let this role and address in, in pg_hba.conf of the server"),
    ("database", "does not exist", "create the database first (createdb), or check its name in the URL"),
    ("role", "does not exist", "create the role first (CREATE ROLE … LOGIN), or check the user in the URL"),
    ("permission denied for database", "GRANT CONNECT ON DATABASE … TO the role"),
    ("too many clients", "raise max_connections, close other clients, or put a pooler in front"),
    ("remaining connection slots", "raise max_connections, close other clients, or put a pooler in front"),
    ("too many connections", "raise the connection limit of the role or database"),
    ("starting up", "wait until the server has recovered, and try again"),
    ("shutting down", "wait until the server is back, and try again"),
    ("could not translate host name", "check the host in the URL"),
    ("failed to resolve host", "check the host in the URL"),
    ("refused", "check host and port in the URL, and that the server is running"),
    (
        "No such file or directory",
        "check the folder of the socket in the URL, and that the server is running",
    ),
    ("timeout", "check host and port in the URL and the network between"),
    ("certificate", "check sslmode and sslrootcert in the URL"),
    ("SSL", "check sslmode in the URL"),
)
_AT = re.compile(r"^connection failed: |^connection to server [^\n]*? failed: |^connection is bad: ")


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection went with the error, so that what the server did last is not known."""
    state = error.sqlstate or ""
    if not state:
        return isinstance(
            error, (psycopg.OperationalError, psycopg.InterfaceError)
        )  # libpq's own: nobody answered
    return state[:2] == "08" or state in ("57P01", "57P02", "57P03", "57P05")


def uncertain(error: psycopg.Error, url: str) -> CommitUncertain:
    """The error for a commit whose answer was lost."""
    return CommitUncertain(
        f"the connection to {url} was lost during a commit ({_first_line(error)}), so it is open whether these events "
        "are stored; retry with record_many(error.events)"
    )


def not_connected(error: psycopg.Error, url: str, secret: str | None) -> LedgerError:
    """The error for a connection that could not be made: nothing was sent."""
    text = _first_line(error)
    if secret:
        text = text.replace(secret, "***")
    while (shorter := _AT.sub("", text)) != text:
        text = shorter
    hints = [hint for *words, hint in _HINTS if all(word in text for word in words)]
    hint = hints[0] if hints else "check the URL and the server"
    return StoreUnavailable(f"{url} cannot be reached ({text}); nothing was stored, {hint}")


def mapped(error: psycopg.Error, url: str) -> LedgerError:
    """The error of ours for one that was raised before a commit: nothing was stored."""
    state = error.sqlstate or ""
    text = _first_line(error)
    if state == "53100":
        return StoreFull(
            f"no space left on the server of {url} ({text}); nothing was stored, free some space"
        )
    if state in ("42501", "28000"):
        return ReadOnly(
            f"the role of {url} may not do that ({text}); as the owner of the schema run SELECT "
            "chatsnapshot.allow('ROLE', 'write'), or open the ledger with read_only=True"
        )
    if state == "25006":
        return StoreUnavailable(
            f"the server of {url} takes no writes ({text}); name the primary in the URL "
            "(several hosts and target_session_attrs=read-write find it), or open with read_only=True"
        )
    if state == "55P03":
        return StoreUnavailable(
            f"another session held the lock of {url} for too long ({text}); nothing was stored, find it with "
            "chatsnapshot doctor, or try again"
        )
    if state == "57014":
        return StoreUnavailable(
            f"the server of {url} cancelled the statement ({text}); nothing was stored, raise statement_timeout of "
            "the role, or try again"
        )
    if state in ("XX001", "XX002", "58P01"):
        return Corrupt(f"the server of {url} finds damage ({text}); keep a copy and look at its log")
    if state in ("42P01", "3F000", "42883", "42703"):
        return Corrupt(
            f"the schema in {url} is not whole ({text}); run chatsnapshot doctor, or restore a backup"
        )
    return StoreUnavailable(
        f"{url}: {text}{f' (SQLSTATE {state})' if state else ''}; nothing was stored, try again"
    )


def _first_line(error: psycopg.Error) -> str:
    """What the server or libpq says, on one line and without values (those stand in DETAIL)."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    return " ".join(text.splitlines()[0].split())

"""Imports psycopg when the first PostgreSQL ledger is opened, and says what to install where it is missing."""

from __future__ import annotations

from chatsnapshot.errors import MissingExtra

try:
    import psycopg
    from psycopg.types.numeric import Int8
except ImportError as error:
    if error.name == "psycopg":
        raise MissingExtra("a postgresql:// ledger", "postgresql") from None
    # psycopg is there, and what it needs (its binary part, or libpq) is not: its own text says which.
    raise MissingExtra(f"a postgresql:// ledger ({error})", "postgresql") from error

__all__ = ["Int8", "psycopg"]

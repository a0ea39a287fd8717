"""``python -m chatsnapshot.stores.postgresql``: show the SQL of the schema, or bring a database up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.open import locate
from chatsnapshot.stores.postgresql.connections import Connections
from chatsnapshot.stores.postgresql.schema import applied, migrate, migrations

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when it did what was asked, 1 when the database refused."""
    parser = argparse.ArgumentParser(prog="python -m chatsnapshot.stores.postgresql", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("sql", help="print the schema as one script, for psql")
    show.add_argument("--after", type=int, default=0, metavar="STEP", help="only the steps after this one")
    for name, what in (("status", "say which step a database is at"), ("migrate", "apply what is missing")):
        commands.add_parser(name, help=what).add_argument(
            "url", help="postgresql://…, as the owner of the schema"
        )
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "sql":
            _say(script(chosen.after))
        elif chosen.command == "status":
            _status(chosen.url)
        else:
            _migrate(chosen.url)
    except LedgerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def script(after: int = 0) -> str:
    """The steps after one, in a transaction, each noted in ``chatsnapshot.migration``."""
    parts = ["BEGIN;"]
    for step in migrations():
        if step.number > after:
            noted = (
                f"INSERT INTO chatsnapshot.migration (number, name) VALUES ({step.number}, '{step.name}');"
            )
            parts.append(f"-- step {step.number}: {step.name}\n{step.sql}\n{noted}")
    return "\n\n".join([*parts, "COMMIT;"])


def _status(url: str) -> None:
    connections, shown = _connections(url)
    with connections.lent() as db:
        found, latest = applied(db), migrations()[-1].number
    what = f"the schema is at step {found} of {latest}" if found else "there is no schema chatsnapshot"
    _say(f"{shown}: {what}")
    connections.close()


def _migrate(url: str) -> None:
    connections, shown = _connections(url)
    with connections.lent() as db:
        done = migrate(db, shown)
    for step in done:
        _say(f"step {step.number}: {step.name}")
    _say(f"{shown} is at step {migrations()[-1].number}")
    connections.close()


def _connections(url: str) -> tuple[Connections, str]:
    location = locate(url)
    if location.kind != "postgresql":
        raise LedgerError(
            f"{location.url} is no postgresql:// URL; give the one that the ledger is opened with"
        )
    return Connections(location.target, location.url), location.url


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())

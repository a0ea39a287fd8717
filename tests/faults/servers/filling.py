"""Fills the disk of a server and looks at what is said and stored: ``python filling.py KIND FOLDER``, a program.

FOLDER is a small file system. PostgreSQL keeps the tables there and its log elsewhere; the others keep everything there.
The last line printed is JSON: kinds of errors, whether the server had to be started again.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from typing import Any

import chatsnapshot
from chatsnapshot.errors import CommitUncertain, LedgerError, StoreFull, StorePoisoned, StoreUnavailable
from chatsnapshot.testing.samples import event, new_id

FREE_BYTES = 2_000_000
PATIENCE_SECONDS = 8.0
chance = random.Random(7)


def start(kind: str, folder: str) -> tuple[Any, str]:
    """A server whose data are in the folder, and the URL of a ledger."""
    if kind == "postgresql":
        import psycopg

        from chatsnapshot.testing.servers.postgresql import PostgresqlServer

        postgresql = PostgresqlServer()
        postgresql.start()
        if os.geteuid() == 0:
            import shutil

            shutil.chown(folder, "nobody")
        with psycopg.connect(postgresql.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            connection.execute("ALTER DATABASE postgres SET default_tablespace = 'small'")
        return postgresql, f"{postgresql.url}&ledger=full&connect_timeout=3"
    tempfile.tempdir = folder
    if kind == "mongodb":
        from chatsnapshot.testing.servers.mongodb import MongodbServer

        mongodb = MongodbServer()
        mongodb.start()
        mark = "&" if "?" in mongodb.url else "?"
        return mongodb, f"{mongodb.url}{mark}socketTimeoutMS=5000&ledger=full"
    from chatsnapshot.testing.servers.nats import NatsServer

    nats = NatsServer(own=True)
    nats.start()
    return nats, f"{nats.url}?timeout=5&ledger=full"


def free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(folder: str, leave: int) -> str:
    path = os.path.join(folder, "filler")
    with open(path, "wb") as file:
        while (left := free(folder) - leave) > 0:
            file.write(bytes(min(left, 65_536)))
            file.flush()
    return path


def large(number: int) -> dict[str, Any]:
    payload = {"number": number, "text": chance.randbytes(15_000).hex()}
    return event(number, "large", event_id=new_id(chance), payload=payload)


def main(kind: str, folder: str) -> None:
    server, url = start(kind, folder)
    try:
        found = look(kind, folder, server, url)
        print(json.dumps(found))
    finally:
        server.kill()
        getattr(server, "remove", lambda: None)()


def look(kind: str, folder: str, server: Any, url: str) -> dict[str, Any]:
    ledger = chatsnapshot.open(url, validation="off")
    stored = [ledger.record(**event(number)).event_id for number in range(3)]
    filler = fill(folder, FREE_BYTES)
    errors: list[LedgerError] = []
    definite: list[str] = []
    number = 0
    while len(errors) < 3:
        number += 1
        assert number < 2_000, "the disk was never full"
        given = large(number)
        try:
            stored.append(ledger.record(**given).event_id)
        except CommitUncertain as error:
            errors.append(error)
        except (StoreFull, StoreUnavailable, StorePoisoned) as error:
            errors.append(error)
            definite.append(given["event_id"])
    kinds = [type(error).__name__ for error in errors]
    print(kinds, str(errors[0])[:300], file=sys.stderr)
    try:
        readable = set(stored) <= {entry.event_id for entry in ledger.read()}
    except StoreUnavailable:
        readable = False
    os.unlink(filler)
    restarted = False
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            stored.append(ledger.record(**event(-1, "again", idempotency_key="again")).event_id)
            break
        except (StoreFull, StoreUnavailable, StorePoisoned, CommitUncertain) as error:
            if time.monotonic() > deadline:
                assert not restarted, f"not even after a restart: {error!r}"
                restarted = True
                server.kill()
                server.start()
                deadline = time.monotonic() + PATIENCE_SECONDS
            time.sleep(0.1)
    uncertain = set()
    for error in errors:
        if isinstance(error, CommitUncertain):
            entries = ledger.record_many(error.events)
            assert ledger.record_many(error.events) == entries
            uncertain |= {entry.event_id for entry in entries}
    stored += [entry.event_id for entry in ledger.record_many([large(-2), large(-3)])]
    ledger.close()
    with chatsnapshot.open(url, create=False) as ledger:
        ids = [entry.event_id for entry in ledger.read()]
        assert len(ids) == len(set(ids)), "an event is stored twice"
        assert set(stored) <= set(ids), "an acknowledged event is lost"
        assert not set(ids) & set(definite), "an event is stored though an error said that nothing was"
        assert set(ids) == set(stored) | uncertain
        report = ledger.verify()
        assert report.ok, report.summary
    return {
        "errors": sorted(set(kinds)),
        "large": number - len(errors),
        "readable": readable,
        "restarted": restarted,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])

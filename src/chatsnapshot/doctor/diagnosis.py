"""Puts the doctor's checks together for one ledger."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec

import msgspec

from chatsnapshot.doctor.filesystem import judge_mount, mounts
from chatsnapshot.doctor.finding import PROBLEM, Finding
from chatsnapshot.doctor.locking import judge_lock
from chatsnapshot.doctor.machine import (
    judge_clock,
    judge_space,
    judge_sqlite,
    judge_sync,
    judge_system,
    loaded_libraries,
    now,
    space_at,
)
from chatsnapshot.doctor.rights import judge_rights, rights_of
from chatsnapshot.errors import LedgerError, NotFound
from chatsnapshot.stores.open import locate

__all__ = ["Diagnosis", "diagnose"]


SERVERS = {"postgresql": "postgresql", "mongodb": "mongodb", "nats": "nats"}
"""For each kind of store on a server the module here whose ``look_at_server(location)`` gives the findings.

It raises :class:`NotFound` when there is no ledger; a server that cannot be reached is a finding.
"""


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor found, check by check."""

    ledger: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether no finding is a problem."""
        return all(finding.grade != PROBLEM for finding in self.findings)


def diagnose(url: str | os.PathLike[str] | None = None) -> Diagnosis:
    """Examine a ledger and what it stands on; changes nothing.

    A ledger that cannot be read is a finding, not an error. Raises :class:`NotFound` when there is none,
    :class:`LedgerError` for a memory ledger.
    """
    location = locate(url)
    if location.kind == "memory":
        raise LedgerError("a memory: ledger has no files to examine; name a path such as runs.db")
    if location.kind in SERVERS:
        look = import_module(f"chatsnapshot.doctor.{SERVERS[location.kind]}").look_at_server
        return Diagnosis(location.url, tuple(look(location)))
    path = os.path.realpath(location.path)
    folder = os.path.dirname(path)
    ledger, above = rights_of(path), rights_of(folder)
    if ledger is None or above is None or os.path.isdir(path):
        raise NotFound(f"no ledger at {location.path}; check the path")
    lock = judge_lock(path + ".lock")
    if location.kind == "jsonl":
        from chatsnapshot.doctor.jsonl import look_at_files

        facts = look_at_files(location, locked=lock.grade == PROBLEM)
    else:
        from chatsnapshot.doctor.sqlite import look_into_database

        facts = look_into_database(path, location.ledger)
    sides = [side for name in facts.beside if (side := rights_of(name)) is not None]
    account = os.geteuid() if hasattr(os, "geteuid") else -1
    findings = [
        *facts.findings,
        *judge_sync(loaded_libraries()),
        *judge_mount(path, mounts()),
        *judge_rights(above, ledger, sides, account),
        lock,
        judge_clock(facts.recorded_at, facts.created_at, now()),
        *judge_space(space_at(folder), facts.file_bytes, facts.events),
        judge_sqlite(_sqlite_version()),
        judge_system(find_spec("fcntl") is not None),
    ]
    return Diagnosis(location.url, tuple(findings))


def _sqlite_version() -> tuple[int, ...]:
    import apsw

    return tuple(int(part) for part in apsw.sqlite_lib_version().split("."))

"""The doctor's look at a JSONL ledger: format, sync, the index beside the lines, what was set aside, blobs."""

from __future__ import annotations

import os
import time

from chatsnapshot.doctor.facts import Facts, judge_blobs
from chatsnapshot.doctor.finding import note, ok, problem, warning
from chatsnapshot.errors import Corrupt, FormatTooNew, LedgerError, NotFound
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.stores.file_findings import left_beside
from chatsnapshot.stores.identity import read_identity
from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.stores.jsonl_fsck import index_trouble
from chatsnapshot.stores.jsonl_repair import doubt_path
from chatsnapshot.stores.jsonl_segments import Segments
from chatsnapshot.stores.open import Location, open_store

__all__ = ["look_at_files"]

_RESTORE = "run chatsnapshot fsck and verify, and restore a backup"
_REPAIR = "run chatsnapshot fsck, which says more, then fsck --repair-tail; the next process that records does the same"


def look_at_files(location: Location, *, locked: bool) -> Facts:
    """Findings for a JSONL ledger, read-only. ``locked`` says that its lock cannot be taken now: readers take it too.

    Raises :class:`NotFound`.
    """
    path = os.path.realpath(location.path)
    facts = Facts(
        [], beside=tuple(path + suffix for suffix in (".index.db", ".index.db-wal", ".index.db-shm", ".lock"))
    )
    segments = Segments(path, FileIO("os"))
    stamps = [segments.stamp(number) for number in range(1, segments.count() + 1)]
    facts.file_bytes = sum(stamp.bytes for stamp in stamps if stamp is not None)
    facts.findings.append(
        ok(
            "sync",
            'a commit is one write and one sync, unless a process opens the ledger with durability="os"',
        )
    )
    if os.path.exists(doubt_path(path)):
        facts.findings.append(
            problem("sync", "a sync has failed, and what it was to make durable is in doubt", _REPAIR)
        )
    trouble = index_trouble(path)
    facts.findings.append(
        warning("index", trouble, _REPAIR) if trouble else ok("index", "it agrees with the lines")
    )
    aside = [found for found in left_beside(path) if "set aside" in found.what]
    if aside:
        size = sum(os.stat(found.path).st_size for found in aside)
        facts.findings.append(
            note(
                "torn tails",
                f"{len(aside)} files hold {size:,} bytes that crashes have left half written; nothing in them was "
                "acknowledged",
                f"have a look, then delete {path}.torn-*",
            )
        )
    if locked:
        what = "entries and blobs were not looked at: reading takes the lock, and another process holds it"
        facts.findings.append(note("format", what, "see lock, then run the doctor again"))
        return facts
    try:
        _look(location, facts, len(stamps))
    except NotFound:
        raise
    except FormatTooNew as error:
        facts.findings.append(problem("format", str(error), "use that version of chatsnapshot"))
    except Corrupt as error:
        facts.findings.append(problem("format", str(error), _RESTORE))
    except LedgerError as error:
        facts.findings.append(problem("format", f"it cannot be read: {error}", "see permissions"))
    return facts


def _look(location: Location, facts: Facts, segments: int) -> None:
    store = open_store(
        location, create=False, read_only=True, durability="os", clock=time.time_ns, entropy=os.urandom,
        limits=DEFAULTS,
    )  # fmt: skip
    try:
        head = store.head()
        facts.events, facts.recorded_at = head.size, head.recorded_at
        what = f"JSONL, {segments} segments" if segments != 1 else "JSONL, one segment"
        facts.findings.insert(0, ok("format", f"{what}, id {read_identity(store.ledger_id).told}"))
        blobs = list(store.blobs())
        unused = [size for _, size, users in blobs if not users]
        facts.findings.append(
            judge_blobs(len(blobs), len(unused), sum(unused), "chatsnapshot fsck --sweep-blobs removes them")
        )
    finally:
        store.close()

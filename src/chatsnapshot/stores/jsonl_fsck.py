"""Looks at the files of a JSONL ledger line by line: torn tails, damage, an index that is behind, blobs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import apsw

from chatsnapshot.errors import FormatTooNew
from chatsnapshot.jsonvalue import blob_digests
from chatsnapshot.stores import filelock
from chatsnapshot.stores.file_findings import HARMLESS, REPAIR, RESTORE, FileFinding, left_beside
from chatsnapshot.stores.filelock import file_lock
from chatsnapshot.stores.forking import at_work
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_file import FileIO, Stamp
from chatsnapshot.stores.jsonl_follow import first_of
from chatsnapshot.stores.jsonl_index import JsonlIndex, connect
from chatsnapshot.stores.jsonl_lines import BadLine, read_header
from chatsnapshot.stores.jsonl_repair import doubt_path, has_torn_header
from chatsnapshot.stores.jsonl_scan import Damage, Seen, TornTail, scan
from chatsnapshot.stores.jsonl_segments import Segments

__all__ = ["index_trouble", "look_at_lines"]

_PART_BYTES = 1 << 20


def look_at_lines(path: str) -> Iterator[FileFinding]:
    """What is the matter with the segments and the files beside them; changes nothing.

    Every line is read and every hash in it derived. Sizes are learned under the lock, where this account may take it,
    so that a commit under way is not taken for a torn one.
    """
    real = os.path.realpath(path)
    files = FileIO("os")
    segments = Segments(real, files)
    stamps = _stamps(real, segments)
    if files.stamp(doubt_path(real)) is not None:
        what = "a sync of the last segment failed; the next writer writes it anew before anything else"
        yield FileFinding(doubt_path(real), what, REPAIR)
    yield from left_beside(real)
    if len(stamps) == 1 and stamps[0] is not None and (not stamps[0].bytes or has_torn_header(files, real)):
        what = "not even the header is complete: no entry was ever in it; it is set aside"
        yield FileFinding(real, what, REPAIR)
        return
    named: dict[bytes, int] = {}
    expected = 1
    damaged = False
    for number, stamp in enumerate(stamps, 1):
        segment = segments.path(number)
        if stamp is None:
            damaged = True
            yield FileFinding(segment, "missing, and segments that follow it are there", RESTORE)
            continue
        lines = segments.lines(number, 0, stamp.bytes)
        try:
            expected = read_header(next(lines, (0, b"", False))[1], segment).first
        except (BadLine, FormatTooNew) as error:
            damaged = True
            yield FileFinding(segment, f"the header cannot be read: {error}", RESTORE)
        last = number == len(stamps)
        following = None if last else first_of(segments, number + 1)
        for found in scan(lines, expected, last=last, deep=True, following=following):
            if isinstance(found, Seen):
                expected = found.row[0] + 1
                payload = found.row[9]
                if payload is not None and b"$blob" in payload:
                    for digest in blob_digests(payload):
                        named.setdefault(digest, found.row[0])
            elif isinstance(found, Damage):
                damaged = True
                expected = max(expected, found.until + 1)
                what = f"damage at byte {found.offset}, position {found.position}: {found.reason}"
                yield FileFinding(segment, what, RESTORE)
            else:
                yield _torn(segment, stamp, found, damaged)
    yield from _blobs(real, files, named, damaged)
    trouble = index_trouble(real)
    if trouble is not None:
        yield FileFinding(real + ".index.db", trouble, REPAIR)


def _stamps(real: str, segments: Segments) -> list[Stamp | None]:
    may_lock = os.access(real + ".lock", os.R_OK | os.W_OK)
    lock = file_lock(real + ".lock") if may_lock else None
    try:
        with lock.held(filelock.PATIENCE_SECONDS) if lock is not None else nullcontext():
            return [segments.stamp(number) for number in range(1, segments.count() + 1)]
    finally:
        if lock is not None:
            lock.close()


def _torn(segment: str, stamp: Stamp, tail: TornTail, damaged: bool) -> FileFinding:
    what = f"{stamp.bytes - tail.offset:,} bytes from byte {tail.offset} on were never acknowledged: {tail.reason}"
    if damaged:
        return FileFinding(segment, f"{what}; they stay as long as there is damage before them", RESTORE)
    return FileFinding(segment, f"{what}; they are set aside", REPAIR)


def _blobs(real: str, files: FileIO, named: dict[bytes, int], damaged: bool) -> Iterator[FileFinding]:
    """Blobs that entries name are there; what nobody names takes space and no more."""
    folder = BlobFolder(real + ".blobs", files, _PART_BYTES)
    there = dict(folder.all())
    for digest, position in named.items():
        if digest not in there:
            yield FileFinding(folder.path, f"blob {digest.hex()} of position {position} is missing", RESTORE)
    unused = there.keys() - named.keys()
    if unused and not damaged:
        size = sum(there[digest] for digest in unused)
        what = f"{len(unused)} blobs of {size:,} bytes that no entry names; --sweep-blobs removes them"
        yield FileFinding(folder.path, what, HARMLESS)


def index_trouble(real: str) -> str | None:
    """What is wrong with the index beside the lines, or ``None``; it is never the only copy of anything."""
    path = real + ".index.db"
    again = "it is made again from the lines at the next opening for writing"
    if not os.path.exists(path):
        return f"the index is missing; {again}"
    segments = Segments(real, FileIO("os"))
    try:
        with at_work:
            db = connect(path, write=False)
            try:
                index = JsonlIndex(db)
                if not index.usable():
                    return f"the index is of another version; {again}"
                said = db.execute("PRAGMA quick_check(1)").get
                if said != "ok":
                    return f"the index is damaged ({said}); {again}"
                head, erasing = index.head(), len(index.erasing())
            finally:
                db.close()
    except apsw.Error as error:
        return f"the index cannot be read ({error}); {again}"
    if head is None or head.segment != segments.count() or not head.matches(segments.stamp(head.segment)):
        return "the index is behind the lines; the next writer takes in what is missing"
    if erasing:
        return f"{erasing} erased payloads are still to be overwritten; the next opening for writing does it"
    return None

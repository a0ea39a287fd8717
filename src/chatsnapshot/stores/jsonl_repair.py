"""Mends the end of a JSONL ledger: torn tails set aside, doubtful bytes written anew. Under the lock only."""

from __future__ import annotations

import logging
import os

from chatsnapshot.clock import Clock, time_text
from chatsnapshot.errors import Corrupt
from chatsnapshot.stores.jsonl_file import FileIO, Unwritten, folder_of, replace_file, write_all
from chatsnapshot.stores.jsonl_segments import Segments

__all__ = ["doubt_path", "has_torn_header", "mark_doubtful", "set_aside_tail", "write_anew"]

_MAGIC = b'{"chatsnapshot":"ledger"'
_HEADER_BYTES_MAX = 4096

_log = logging.getLogger("chatsnapshot")


def has_torn_header(files: FileIO, path: str) -> bool:
    """Whether a file holds the beginning of a header and nothing else: it never had an entry."""
    descriptor = files.open_to_read(path)
    try:
        data = files.read(descriptor, _HEADER_BYTES_MAX, 0)
    finally:
        files.close(descriptor)
    begins = data.startswith(_MAGIC) or _MAGIC.startswith(data)
    return begins and bool(data) and b"\n" not in data and len(data) < _HEADER_BYTES_MAX


def set_aside_tail(
    files: FileIO,
    segments: Segments,
    number: int,
    start: int,
    reason: str,
    clock: Clock,
    *,
    entries: int,
    signed: int = 0,
) -> str:
    """Copy everything from ``start`` to a file beside the segment, then cut it off; gives the path of that file.

    The copy is durable; the cut is once the caller has synced the segment.
    ``entries`` is the size of the ledger without the tail, ``signed`` the largest size that a checkpoint was signed for:
    below it nothing is cut. Raises :class:`Corrupt` and ``OSError``.
    """
    if entries < signed:
        raise Corrupt(
            f"{segments.path(number)} holds {entries} whole entries and {signed} were signed: it was cut; restore it",
            position=entries + 1,
        )
    path = segments.path(number)
    stamp = files.stamp(path)
    assert stamp is not None
    moment = time_text(clock()).replace("-", "").replace(":", "")
    aside = f"{path}.torn-{moment}"
    while os.path.exists(aside):
        aside += "x"
    source = files.open_to_read(path)
    try:
        replace_file(files, aside, files.chunks(source, start, stamp.bytes))
    finally:
        files.close(source)
    target = files.open_to_change(path)
    try:
        files.truncate(target, start)
    finally:
        files.close(target)
    _log.warning(
        "%s: %s; %d bytes that were never acknowledged are set aside in %s",
        path, reason, stamp.bytes - start, aside,
    )  # fmt: skip
    return aside


def doubt_path(path: str) -> str:
    """The marker that says: a sync of the last segment failed, nobody may trust a later one."""
    return path + ".doubt"


def mark_doubtful(files: FileIO, path: str) -> None:
    """Leave the marker, as well as the disk allows."""
    try:
        descriptor = files.create(doubt_path(path))
        try:
            write_all(files, descriptor, b"the last sync failed; the next writer writes the file anew\n")
            files.sync(descriptor)
        finally:
            files.close(descriptor)
        files.sync_folder(folder_of(path))
    except (OSError, Unwritten):
        pass


def write_anew(files: FileIO, segments: Segments, number: int, path: str) -> None:
    """Copy the last segment to a new file, sync it, put it in the old one's place. Raises ``OSError``.

    After a failed sync the system may hold bytes for clean that never reached the disk: a second sync of the same file
    would prove nothing, a new file that was synced does.
    """
    target = segments.path(number)
    stamp = files.stamp(target)
    if stamp is not None:
        source = files.open_to_read(target)
        try:
            replace_file(files, target, files.chunks(source, 0, stamp.bytes))
        finally:
            files.close(source)
    try:
        files.remove(doubt_path(path))
    except FileNotFoundError:
        return
    files.sync_folder(folder_of(path))

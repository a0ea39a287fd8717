"""Overwrites the payloads of a JSONL ledger that a record names, in place, so that every line stays a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import apsw

from chatsnapshot.stores.imports import named_positions
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_file import FileIO
from chatsnapshot.stores.jsonl_follow import At
from chatsnapshot.stores.jsonl_index import JsonlIndex, transaction
from chatsnapshot.stores.jsonl_lines import BadLine, blanks, is_own_record, read_row
from chatsnapshot.stores.jsonl_segments import Segments

__all__ = ["remove_payloads"]


class _Step(NamedTuple):
    """What is overwritten in one segment: salts, which are durable before the rest begins, and the rest."""

    salts: list[tuple[int, bytes]]
    others: list[tuple[int, bytes]]


def remove_payloads(
    index: JsonlIndex,
    segments: Segments,
    files: FileIO,
    blobs: BlobFolder,
    at: At,
    doubt: Callable[[], None],
) -> At:
    """Finish every erasure that is recorded; gives the state after it. Nothing happens when none is open.

    It can be repeated, and writes what looks blank already again: whoever began may have been killed before the sync, or
    the sync has failed, after which a second one proves nothing of bytes that were not written anew. ``doubt`` is called
    when a sync of the last segment fails. Blobs go with their last user. Raises ``OSError``, and ``apsw.CorruptError``
    when the index is damaged.
    """
    positions = index.erasing()
    if not positions:
        return at
    _check_named(index, segments, positions)
    work: dict[int, _Step] = {}
    places = [place for one in positions for place in index.places(one - 1, one, 1)]
    for place, line in segments.fetch(places):
        if is_own_record(line):
            continue
        try:
            todo = blanks(line, again=True)
        except BadLine:
            continue
        step = work.setdefault(place.segment, _Step([], []))
        for offset, data, is_salt in todo:
            (step.salts if is_salt else step.others).append((place.offset + offset, data))
    for number, step in work.items():
        _overwrite(files, segments.path(number), step, doubt if number == at.segment else None)
    with transaction(index.db):
        blobs.remove(index.erased(positions))
        for number in work:
            stamp = segments.stamp(number)
            assert stamp is not None
            if number == at.segment:
                at = at._replace(stamp=stamp)
            else:
                index.restamp(number, stamp)
        index.set_head(at.ledger_id, at.head, at.segment, at.stamp)
    return at


def _check_named(index: JsonlIndex, segments: Segments, positions: Sequence[int]) -> None:
    """Nothing is overwritten on the word of the index alone; raises ``apsw.CorruptError`` for what no record names."""
    records = [record for (record,) in index.db.execute("SELECT DISTINCT record FROM erasing ORDER BY 1")]
    places = [place for one in records for place in index.places(one - 1, one, 1)]
    named: set[int] = set()
    for _, line in segments.fetch(places):
        try:
            named.update(named_positions(read_row(line)))
        except BadLine:
            continue
    for position in positions:
        if position not in named:
            raise apsw.CorruptError(f"it would erase position {position}, which no record names")


def _overwrite(
    files: FileIO, path: str, work: Sequence[Sequence[tuple[int, bytes]]], doubt: Callable[[], None] | None
) -> None:
    """Each step is durable before the next begins."""
    descriptor = files.open_to_change(path)
    try:
        for step in work:
            for offset, data in step:
                while data:
                    done = files.overwrite(descriptor, data, offset)
                    offset, data = offset + done, data[done:]
            try:
                files.sync(descriptor)
            except OSError:
                if doubt is not None:
                    doubt()
                raise
    finally:
        files.close(descriptor)

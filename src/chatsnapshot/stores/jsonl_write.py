"""The writer's side of a JSONL ledger: follow what others did, append one batch, roll segments, erase. Under the lock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import apsw

from chatsnapshot.clock import Clock, time_text
from chatsnapshot.errors import CommitUncertain, Corrupt, NotFound, StoreFull, StorePoisoned
from chatsnapshot.integrity import EMPTY_ROOT
from chatsnapshot.stores.identity import new_identity
from chatsnapshot.stores.jsonl_blobs import BlobFolder
from chatsnapshot.stores.jsonl_erase import remove_payloads
from chatsnapshot.stores.jsonl_file import FULL, FileIO, Unwritten, folder_of, replace_file, write_all
from chatsnapshot.stores.jsonl_follow import At, loaded, read_again, read_on
from chatsnapshot.stores.jsonl_index import JsonlIndex, Sealed, transaction
from chatsnapshot.stores.jsonl_index_file import IndexFile
from chatsnapshot.stores.jsonl_index_nonsense import nonsense_is_damage
from chatsnapshot.stores.jsonl_lines import (
    FORMAT,
    Header,
    check_line,
    encode_header,
    encode_rows,
)
from chatsnapshot.stores.jsonl_look import index_tile
from chatsnapshot.stores.jsonl_repair import (
    doubt_path,
    has_torn_header,
    mark_doubtful,
    set_aside_tail,
    write_anew,
)
from chatsnapshot.stores.jsonl_scan import TornTail
from chatsnapshot.stores.jsonl_segments import Segments
from chatsnapshot.stores.planning import Plan

__all__ = ["JsonlWriter"]


class JsonlWriter:
    """Keeps what the last look under the lock has found, so that the next one costs a few calls of stat."""

    def __init__(
        self,
        path: str,
        files: FileIO,
        segments: Segments,
        blobs: BlobFolder,
        clock: Clock,
        segment_bytes_max: int,
    ) -> None:
        self._path = path
        self._files = files
        self._segments = segments
        self._blobs = blobs
        self._clock = clock
        self._segment_bytes_max = segment_bytes_max
        self._file = IndexFile(path + ".index.db", files)
        self._appending: tuple[int, int, int] | None = None  # descriptor, segment, inode
        self._doubtful = False
        self._erasing = False
        self._damage: Corrupt | None = None
        self.at: At | None = None

    # --- looking ---

    def open(self, create: bool, identity: str = "") -> At:
        """Make the file when there is none, mend its end, and know its state. Raises :class:`NotFound`."""
        stamp = self._segments.stamp(1)
        if stamp is not None and self._segments.count() == 1 and has_torn_header(self._files, self._path):
            reason = "not even the header is complete"
            set_aside_tail(self._files, self._segments, 1, 0, reason, self._clock, entries=0)
            stamp = self._segments.stamp(1)
        if stamp is None or not stamp.bytes:
            if self._segments.count() > 1:
                raise Corrupt(f"{self._path} is missing, and segments that follow it are there; put it back")
            if not create:
                raise NotFound(f"no ledger at {self._path}; record something there first, or check the path")
            self._begin_segment(new_identity(identity), 1, 1, EMPTY_ROOT)
        else:
            self._files.sync_folder(folder_of(self._path))  # whoever began the last segment may not sync
        return self.follow()

    def _begin_segment(self, ledger_id: str, number: int, first: int, root: bytes) -> None:
        # Not the ledger's clock: the commits of a repeated recording must find it where they found it before.
        header = Header(FORMAT, ledger_id, time_text(time.time_ns()), number, first, root.hex())
        replace_file(self._files, self._segments.path(number), iter([encode_header(header)]))

    @property
    def index(self) -> JsonlIndex:
        """The index, through the writing connection."""
        return self._file.known()

    def follow(self) -> At:
        """The state of now: what others have added, a torn tail set aside, broken erasures finished.

        Raises :class:`StorePoisoned` while an uncertain commit cannot be settled, ``OSError``, apsw errors.
        """
        if self._doubtful or self._files.stamp(doubt_path(self._path)) is not None:
            self._settle()
        at = self.at
        if at is not None and self._file.same():
            known, following = self._segments.stamp(at.segment), self._segments.stamp(at.segment + 1)
            if known == at.stamp and following is None:
                return at if not self._erasing else self.finish_erasing(at)
        else:
            self._file.let_go()
        self.at = None  # when the look fails, nothing of the index may be believed
        try:
            return self._known(self._looked(at))
        except apsw.CorruptError:
            self._file.remove()
            return self._known(self._looked(None))

    def _known(self, at: At) -> At:
        self.at = at
        with nonsense_is_damage(self.index.db):
            self._damage = self._first_damage(at)
            return self.finish_erasing(at)

    def _looked(self, before: At | None) -> At:
        """The state from the index, or from the lines when they are not as the index knows them."""
        for _ in range(2):
            try:
                index = self._file.connected()
                with nonsense_is_damage(index.db):
                    found = loaded(index, self._segments, before, self._read_tile) if index.usable() else 1
                    return found if isinstance(found, At) else self._read_lines(index, found, before)
            except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, apsw.IOError):
                self._file.remove()
        index = self._file.connected()
        return self._read_lines(index, 1, None)

    def _read_lines(self, index: JsonlIndex, start: int, before: At | None) -> At:
        with transaction(index.db):
            if not index.usable():
                index.make()
            at: At | None = None
            known = index.head()
            # With damage known, what stands before may have been mended: then every line is read.
            if self._damage is None and before is not None and known is not None:
                stamp = self._segments.stamp(before.segment)
                same = known.segment == before.segment and known.head == before.head
                if same and stamp is not None and stamp.bytes > before.end:
                    at = read_on(index, self._segments, before)
                    if at is None:
                        index.cut(before.segment, before.first)
            if at is None:
                at = read_again(index, self._segments, start, self._path, self._read_tile)
            at = self._mended(index, at)
            index.set_head(at.ledger_id, at.head, at.segment, at.stamp)
            if index.erasing():
                # Which blobs a payload named that is gone already, nobody can tell: all without a user go.
                used = index.db.execute("SELECT DISTINCT digest FROM blob_use")
                self._blobs.sweep(bytes(digest) for (digest,) in used)
        return at

    def _mended(self, index: JsonlIndex, at: At) -> At:
        """Set torn tails aside, unless something is damaged; what stays is made durable."""
        if next(index.damages(), None) is None:
            for number, tail in at.strays:
                self._set_aside(number, tail, index.segments()[number].first - 1)
                with self._files.sealing():
                    self._make_durable(number)
                stamp = self._segments.stamp(number)
                assert stamp is not None
                index.restamp(number, stamp)
            if at.tail is not None:
                self._set_aside(at.segment, at.tail, at.tree.size)
                stamp = self._segments.stamp(at.segment)
                assert stamp is not None
                at = at._replace(stamp=stamp, end=stamp.bytes, tail=None)
            at = at._replace(strays=())
        # A writer that was lost may have written these lines, or begun this segment, without syncing that.
        self._make_durable(at.segment)
        self._files.sync_folder(folder_of(self._path))
        return at

    def _set_aside(self, number: int, tail: TornTail, entries: int) -> None:
        set_aside_tail(
            self._files, self._segments, number, tail.offset, tail.reason, self._clock, entries=entries
        )

    def _make_durable(self, number: int) -> None:
        """Sync a segment of which something may be in memory only; nothing is done where nothing may be written."""
        try:
            descriptor = self._files.open_to_append(self._segments.path(number))
        except PermissionError:
            return
        try:
            self._files.sync(descriptor)
        except OSError as error:
            self._doubt()
            raise StorePoisoned(
                f"lines of {self._path} cannot be made durable ({error}); nothing was stored, try again"
            ) from error
        finally:
            self._files.close(descriptor)

    def _doubt(self) -> None:
        """A sync of the last segment has failed: it is written anew before anything else."""
        self._doubtful = True
        self._close_appending()
        mark_doubtful(self._files, self._path)

    def _first_damage(self, at: At) -> Corrupt | None:
        found = next(self.index.damages(), None)
        if found is None:
            return None
        segment, one = found
        return Corrupt(
            f"{self._segments.path(segment)} is damaged at byte {one.offset}, position {one.position}: {one.reason}; "
            "nothing is added to it. The other lines are readable: restore the file from a copy, or copy what is sound",
            position=one.position,
        )

    def sound(self) -> At:
        """The state, when every line is sound; raises :class:`Corrupt`, naming position and offset, otherwise."""
        if self._damage is not None:
            raise Corrupt(str(self._damage), position=self._damage.position)
        assert self.at is not None
        return self.at

    def _read_tile(self, level: int, number: int) -> bytes:
        return index_tile(self.index)(level, number)

    # --- appending ---

    def commit(
        self,
        made: Plan,
        blobs: Mapping[bytes, bytes],
        erasing: Mapping[int, Sequence[int]],
        *,
        foreign: bool = False,
    ) -> None:
        """Write one batch of lines; durable and in the index when it returns. ``foreign`` rows are checked first.

        ``erasing``: the positions whose payloads must go, by the position of the record that says so.
        Raises :class:`StoreFull` when nothing was stored, :class:`CommitUncertain` when that is not known.
        """
        rows = made.rows
        lines = encode_rows(rows)
        if foreign:
            for row, line in zip(rows, lines, strict=True):
                check_line(row, line)
        data = b"".join(lines)
        for digest, content in blobs.items():
            self._blobs.put(digest, content)
        at = self.sound()
        if at.end + len(data) > self._segment_bytes_max and at.tree.size >= at.first:
            at = self._roll(at)
        index = self.index
        db = index.db
        db.execute("BEGIN IMMEDIATE")
        index.add(rows, at.segment, at.end, [len(line) for line in lines])
        if made.tiles:
            index.add_tiles(made.tiles)
        for record, positions in erasing.items():
            self._erasing = True
            index.add_erasing(record, positions)
        self._append(at, data)
        stamp = self._segments.stamp(at.segment)
        assert stamp is not None
        after = at._replace(stamp=stamp, end=stamp.bytes, tree=made.tree, recorded_at=made.recorded_at)
        try:
            index.set_head(after.ledger_id, after.head, after.segment, stamp)
            db.execute("COMMIT")
        except apsw.Error:
            self.remove_index()  # the lines are durable: the index is made again from them
        self.at = after

    def _append(self, at: At, data: bytes) -> None:
        """One write, one sync."""
        descriptor = self._descriptor(at)
        try:
            write_all(self._files, descriptor, data)
        except Unwritten as failed:
            if failed.error.errno in FULL and self._taken_back(descriptor, at):
                raise StoreFull(
                    f"no space left to write to {self._path} ({failed.error.strerror}); nothing was stored, "
                    "free some space"
                ) from failed.error
            raise self._uncertain(failed.error) from failed.error
        try:
            self._files.sync(descriptor)
        except OSError as error:
            raise self._uncertain(error) from error

    def _descriptor(self, at: At) -> int:
        wanted = (at.segment, at.stamp.inode)
        if self._appending is not None:
            descriptor, *known = self._appending
            if tuple(known) == wanted:
                return descriptor
            self._close_appending()
        descriptor = self._files.open_to_append(self._segments.path(at.segment))
        self._appending = (descriptor, *wanted)
        return descriptor

    def _taken_back(self, descriptor: int, at: At) -> bool:
        """Cut off what a failed write has left; whether that worked."""
        try:
            self._files.truncate(descriptor, at.end)
        except OSError:
            return False
        stamp = self._segments.stamp(at.segment)
        if stamp is None or stamp.bytes != at.end:
            return False
        index = self.index
        try:
            index.db.execute("ROLLBACK")
            with transaction(index.db):
                index.set_head(at.ledger_id, at.head, at.segment, stamp)
            self.at = at._replace(stamp=stamp)
        except apsw.Error:
            pass  # the next look finds another time of change and reads the lines again
        return True

    def _uncertain(self, error: OSError) -> CommitUncertain:
        self._doubt()
        return CommitUncertain(
            f"the commit to {self._path} failed ({error}), so it is open whether these events are stored; "
            "retry with record_many(error.events)"
        )

    def _settle(self) -> None:
        """After an uncertain commit: the doubtful bytes are written to a new file, which is synced."""
        self._close_appending()
        try:
            write_anew(self._files, self._segments, max(self._segments.count(), 1), self._path)
        except OSError as error:
            raise StorePoisoned(
                f"an uncertain commit to {self._path} cannot be settled yet ({error}); nothing was stored, try again"
            ) from error
        self._doubtful = False

    def _roll(self, at: At) -> At:
        """Seal the last segment and begin the next.

        All of the old one is durable first. What was cut off after a full disk, or written by somebody who does not
        sync, is repaired at the end of the last segment only: in front of another it would be damage.
        """
        number, first = at.segment + 1, at.tree.size + 1
        with self._files.sealing():
            self._make_durable(at.segment)
            self._begin_segment(at.ledger_id, number, first, at.tree.root())
        stamp = self._segments.stamp(number)
        assert stamp is not None
        index = self.index
        with transaction(index.db):
            index.restamp(at.segment, at.stamp)
            frontier = at.tree.head()[1]
            index.add_segment(Sealed(number, first, frontier, at.recorded_at, stamp.bytes, stamp.mtime_ns))
            index.set_head(at.ledger_id, at.head, number, stamp)
        self.at = at = at._replace(stamp=stamp, end=stamp.bytes, segment=number, first=first)
        return at

    # --- erasing ---

    def finish_erasing(self, at: At) -> At:
        """Remove the payloads that records name."""
        self.at = at = remove_payloads(self.index, self._segments, self._files, self._blobs, at, self._doubt)
        self._erasing = False
        return at

    def make_index_again(self) -> None:
        """The index cannot be read: every line is taken into a new one."""
        self._file.remove()
        self.follow()

    def remove_index(self) -> None:
        """Take the index away; the next look makes it again."""
        self._file.remove()

    def roll_back(self) -> None:
        """After an error: nothing of it stays in the index."""
        self._file.roll_back()

    # --- end ---

    def _close_appending(self) -> None:
        known, self._appending = self._appending, None
        if known is not None:
            self._files.close(known[0])

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connection alone."""
        self._file.leave()
        self._close_appending()
        self.at = None

    def close(self) -> None:
        """Close what is open."""
        self._file.let_go()
        self._close_appending()

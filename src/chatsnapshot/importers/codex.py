"""Rollouts of the Codex CLI: which thread a file tells of, and which event of which thread began it.

The format is that of ``codex-rs/protocol``, which promises nothing; ``docs/importing.md`` has the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from chatsnapshot.clock import parse_time
from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.codex_files import families
from chatsnapshot.importers.codex_items import digest_of
from chatsnapshot.importers.codex_meta import Meta
from chatsnapshot.importers.codex_run import CodexRun
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.transcripts import Found, Line, Transcripts, lines_of, read_alone, time_of

__all__ = ["Codex"]

TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")
REVIEW_SECONDS = 1.0
"""A review's thread that names no parent belongs to the review that was begun within this time of it."""

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.|$)", re.IGNORECASE)


class Codex:
    """Reads a thread into a run, and each thread that it began into a child run."""

    kind = "codex"
    what = "a Codex session"

    def looks_like(self, head: bytes) -> float:
        """By the keys of its first lines."""
        fitting = seen = 0
        for _, line, whole in lines_of(head.removeprefix(b"\xef\xbb\xbf")):
            if line.strip() and (whole or not seen):
                seen += 1
                fitting += _fits(line, whole)
        return fitting / seen if seen else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The events of one file."""
        return read_alone(self.session(), data)

    def families(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """Threads that began each other among files and folders, and beside the files."""
        return families(paths, self.looks_like)

    def session(self) -> Transcripts:
        """A reader for files that belong together."""
        return Transcripts(_Threads())


def _fits(line: bytes, whole: bool) -> bool:
    if not whole:
        return b'"type":"session_meta"' in line.replace(b" ", b"")[:400]
    members = read_object(line).members
    if members.get("type") in TYPES:
        return "payload" in members and "timestamp" in members
    if members.get("record_type") == "state":
        return True
    bare = members.get("type") in ("message", "function_call", "function_call_output", "reasoning")
    return bare or {"id", "timestamp", "instructions"} <= members.keys()


class _Fork(msgspec.Struct):
    """A thread that begins with the history of another: how far that was repeated, and the event there."""

    meta: Meta
    parent: CodexRun
    place: int = 0
    event: str | None = None


class _Threads:
    """Each file is one thread, named by its first line."""

    def __init__(self) -> None:
        self._runs: dict[str, CodexRun] = {}
        self._files: dict[str, CodexRun | _Fork] = {}
        self._begun: dict[str, tuple[str, str]] = {}
        self._passed: dict[str, str] = {}

    def time(self, facts: dict[str, Any]) -> object:
        """The time of a line."""
        return facts.get("timestamp")

    def waits(self, line: Line, heads: Iterable[Line]) -> bool:
        """A thread that another began waits until that has told of it, or has gone on without."""
        if line.file in self._files:
            return False
        meta = _meta(line)
        if meta.review and meta.parent is None:
            others = [head for head in heads if head.file != line.file]
            return self._host(meta) is None and any(_near(meta.at, head.at, after=True) for head in others)
        above = meta.parent or meta.forked_from
        if above is None or meta.thread in self._begun:
            return False
        run = self._runs.get(above)
        if run is None:
            return any(head.file not in self._files and _meta(head).thread == above for head in heads)
        if meta.parent is None:
            return any(self._files.get(head.file) is run and head.order < line.order for head in heads)
        spawning = any(run.told.calls[call].name == "spawn_agent" for call in run.told.unanswered)
        return spawning or self._passed.get(above, "") <= line.order

    def read(self, line: Line) -> Found:
        """What a line tells."""
        place = self._files.get(line.file)
        if place is None:
            place = self._opened(line)
        if isinstance(place, _Fork):
            if self._copied(place, line):
                return
            place = self._files[line.file] = self._run(place.meta, place.event, place.parent.told.correlation)
        if place.meta.thread is not None:
            self._passed[place.meta.thread] = line.order
        yield from place.take(line)

    def end(self) -> Found:
        """What runs hold back."""
        for file, place in list(self._files.items()):
            if isinstance(place, _Fork):
                place = self._files[file] = self._run(place.meta, place.event, place.parent.told.correlation)
            yield from place.settle()

    def _opened(self, line: Line) -> CodexRun | _Fork:
        meta = _meta(line)
        source = self._runs.get(meta.forked_from or "")
        if source is not None and meta.parent is None:
            found: CodexRun | _Fork = _Fork(meta, source, event=source.start_id)
        else:
            found = self._run(meta, *self._cause(meta))
        self._files[line.file] = found
        return found

    def _run(self, meta: Meta, cause: str | None, parent: str | None) -> CodexRun:
        thread = meta.thread or "codex"
        run = CodexRun(meta, thread, cause, parent, self._tell)
        self._runs.setdefault(thread, run)
        return run

    def _tell(self, thread: str, event_id: str, correlation: str) -> None:
        self._begun.setdefault(thread, (event_id, correlation))

    def _cause(self, meta: Meta) -> tuple[str | None, str | None]:
        """The event that began a thread, and the thread of that."""
        if meta.thread in self._begun:
            return self._begun[meta.thread]
        above = self._runs.get(meta.parent or "")
        if above is not None:
            return above.start_id, above.told.correlation
        host = self._host(meta) if meta.review and meta.parent is None else None
        if host is None:
            return None, None
        _, event_id = host.reviews.pop(self._place(host, meta))
        return event_id, host.told.correlation

    def _host(self, meta: Meta) -> CodexRun | None:
        """The thread that began a review near that time in the same folder, where there is but one."""
        found = [
            run for run in self._runs.values() if run.meta.cwd == meta.cwd and self._place(run, meta) >= 0
        ]
        return found[0] if len(found) == 1 else None

    @staticmethod
    def _place(run: CodexRun, meta: Meta) -> int:
        near = (number for number, (at, _) in enumerate(run.reviews) if _near(meta.at, at))
        return next(near, -1)

    @staticmethod
    def _copied(fork: _Fork, line: Line) -> bool:
        """Whether a line repeats the history of the thread that this one was forked from."""
        if line.facts.get("type") == "session_meta":
            return True
        wanted = digest_of(line.facts)
        for place in range(fork.place, len(fork.parent.history)):
            digest, event = fork.parent.history[place]
            if digest == wanted:
                fork.place, fork.event = place + 1, event
                return True
        return False


def _meta(line: Line) -> Meta:
    """What the first line of a file says of its thread; where it says nothing, the file's name does."""
    facts = line.facts.get("payload") if line.facts.get("type") == "session_meta" else line.facts
    bare = "type" not in line.facts and "id" in line.facts
    if (
        isinstance(facts, Mapping)
        and (line.facts.get("type") == "session_meta" or bare)
        and name_text(facts.get("id"))
    ):
        return Meta(facts)
    name = os.path.basename(line.file)
    found = _UUID.search(name)
    return Meta({"id": found[0].lower() if found else f"codex-{line.digest[:16]}"})


def _near(first: object, second: object, after: bool = False) -> bool:
    """Whether two times are near each other; with ``after`` also when the second has not gone past the first by that."""
    one, other = time_of(first), time_of(second)
    if one is None or other is None:
        return False
    seconds = (parse_time(other) - parse_time(one)).total_seconds()
    return seconds <= REVIEW_SECONDS if after else abs(seconds) <= REVIEW_SECONDS

"""What an importer is: it knows its files by their beginning, and reads one into events and problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from chatsnapshot.clock import idempotent_uuid, uuid_text
from chatsnapshot.envelope import EventEnvelope

__all__ = [
    "SURE_ENOUGH",
    "ImportReport",
    "Importer",
    "Piece",
    "Problem",
    "Session",
    "SessionImporter",
    "event_id",
    "name_text",
    "title_of",
    "tokens_of",
]


SURE_ENOUGH = 0.5
"""Below this an importer's guess counts as none."""


class Piece(NamedTuple):
    """One event of a file: the byte at which what it says begins, and the arguments of ``record()`` or an envelope.

    ``event`` has an ``event_id`` that follows from the file alone, so that importing again records nothing twice.
    ``first_holds``: other files or lines still to come have a say in it, so that what the ledger holds of it stands.
    """

    offset: int
    event: Mapping[str, Any] | EventEnvelope
    first_holds: bool = False


class Problem(NamedTuple):
    """Something in a file that could not be taken: the byte at which it begins, and why."""

    offset: int
    reason: str


class Importer(Protocol):
    """Reads the files of one program. ``kind`` is its name on the command line, ``what`` says in words what it reads."""

    kind: str
    what: str

    def looks_like(self, head: bytes) -> float:
        """How sure it is, 0 to 1, that a file with this beginning (up to 64 KiB) is one of its own; never raises."""
        ...

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The events of a file in their order, and what could not be taken; never raises because of the file.

        Of a file that is cut off, what is whole is given, and one problem says where the rest begins.
        """
        ...


class Session(Protocol):
    """Reads the files of one session while they grow: lines go in as they are there, events come out.

    What comes out follows from the lines up to there alone, so that reading from the beginning again gives the same.
    """

    def take(self, file: str, offset: int, line: bytes) -> None:
        """One whole line of a file, with the byte at which it begins."""
        ...

    def drain(self, unread: frozenset[str] = frozenset(), ended: bool = False) -> Iterator[Piece | Problem]:
        """What the lines so far tell. ``unread`` files have more lines now; ``ended``: no file will have any."""
        ...


@runtime_checkable
class SessionImporter(Importer, Protocol):
    """An importer of files that grow line by line, and of which several may belong to one session."""

    def families(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The files of each session among files and folders, with those found beside them; the session's own first."""
        ...

    def session(self) -> Session:
        """A reader for the files of one session."""
        ...


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file.

    ``stored`` events are new in the ledger, ``known`` ones were there already. ``correlations`` are those that it
    recorded in. ``problems`` holds the first 100, by offset; ``problem_count`` counts all. ``last_position`` is the
    highest position of an event of this file (0: none). ``beside`` are further files of the same session, read with it.
    """

    file: str
    kind: str
    bytes: int
    correlations: tuple[str, ...] = ()
    stored: int = 0
    known: int = 0
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0
    last_position: int = 0
    beside: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything in the file was taken."""
        return self.problem_count == 0


def event_id(correlation_id: str, key: str) -> str:
    """The id of an event that its file gives none: that of the same ``idempotency_key`` (``docs/format.md``)."""
    return uuid_text(idempotent_uuid(correlation_id, key))


_UNFIT = str.maketrans(dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}"))


def name_text(value: object, chars_max: int = 256) -> str | None:
    """A name or id as a header may hold it: valid Unicode, no control characters, cut; ``None`` where there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value) if isinstance(value, str) or abs(value) < 2**64 else ""
    text = text.encode("utf-8", "replace").decode().translate(_UNFIT).strip()
    return text[:chars_max] or None


def title_of(text: object) -> str | None:
    """The beginning of a text as a title of at most 80 characters."""
    if not isinstance(text, str) or not text.strip():
        return None
    line = " ".join(text[:400].split())
    return line if len(line) <= 80 else line[:79].rstrip() + "…"


def tokens_of(usage: object, names: Mapping[str, str]) -> dict[str, int] | None:
    """Counts of tokens under our names, out of an object with names of its own; ``None`` where it holds none.

    ``names`` is ours to theirs. What is no count (of another type, below 0, from 2^53 on) is left out.
    """
    if not isinstance(usage, Mapping):
        return None
    counts = {ours: usage.get(theirs) for ours, theirs in names.items()}
    return {
        name: count for name, count in counts.items() if type(count) is int and 0 <= count < 2**53
    } or None

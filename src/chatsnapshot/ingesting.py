"""Takes events from lines of JSON or a sequence of events into a ledger: idempotent, resumable, bad ones by number."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from chatsnapshot import jsonvalue
from chatsnapshot.clock import time_text, uuid_text
from chatsnapshot.envelope import EventEnvelope, Source
from chatsnapshot.errors import EventConflict, InvalidEvent, LimitExceeded
from chatsnapshot.limits import KIB, MIB
from chatsnapshot.ndjson import ByteStream, Line, decode_object, read_lines
from chatsnapshot.ordinals import Ordinals
from chatsnapshot.redaction import redactor_of
from chatsnapshot.stores.base import COMMITMENT, POSITION, Draft, Group, Row
from chatsnapshot.stores.planning import differences

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = [
    "BadLine",
    "Dated",
    "Ingest",
    "IngestReport",
    "digest_of_name",
    "ingest",
    "is_envelope",
    "key_of_line",
    "open_input",
]

BAD_LINES_KEPT = 100
BATCH_EVENTS = 1_000
BATCH_BYTES = 1 * MIB
LINE_OVERHEAD_BYTES = 64 * KIB
"""What a line may have beside a payload of ``payload_bytes_max``: ids, source, attributes, blanks."""

ENVELOPE_KEYS = frozenset(
    {"event_id", "event_type", "timestamp", "source", "correlation_id", "causation_id", "payload"}
)
EVENT_KEYS = ENVELOPE_KEYS | {"idempotency_key", "attributes", "schema_version"}

_ENVELOPE_TYPES = (
    ("event_id", str), ("timestamp", str), ("source", Mapping), ("correlation_id", str), ("payload", Mapping),
)  # fmt: skip

Ids = Literal["line", "content"]


class BadLine(NamedTuple):
    """A line that was not taken: its number, from 1, and why."""

    number: int
    reason: str


class Dated(NamedTuple):
    """A plain event and the time that stands in where it has none, in place of the moment of recording."""

    fields: Mapping[str, Any]
    moment: str


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an input.

    ``stored`` events are new in the ledger, ``known`` ones were there already. ``bad`` holds the first 100 bad lines,
    ``bad_count`` counts all. ``lines`` is the number of the last line that was settled; ``last_position`` the highest
    position of an event of this input (0: none). ``new_ids`` events came without any id from an input without a name:
    the same input again would record them again.
    """

    stored: int = 0
    known: int = 0
    bad: tuple[BadLine, ...] = ()
    bad_count: int = 0
    lines: int = 0
    last_position: int = 0
    new_ids: int = 0


def ingest(
    ledger: Ledger, items: os.PathLike[str] | ByteStream | Iterable[Any], *, name: str | None, **options: Any
) -> IngestReport:
    """Take everything from ``items``; see :meth:`Ledger.ingest`."""
    if isinstance(items, (str, bytes)):
        raise InvalidEvent("give a pathlib.Path, an open file or an iterable of lines, not one text")
    if isinstance(items, os.PathLike):
        with open_input(items) as stream:
            return ingest(ledger, stream, name=os.path.realpath(items) if name is None else name, **options)
    with closing(Ingest(ledger, name=name, **options)) as work:
        return work.take(items)


def open_input(path: str | os.PathLike[str]) -> Any:
    """A file of lines, opened for reading; one whose name ends in ``.gz`` is decompressed on the way."""
    if os.fspath(path).endswith(".gz"):
        import gzip

        return gzip.open(path, "rb")
    return open(path, "rb")


class Ingest:
    """One input on its way into a ledger; ``report`` says at any time what is settled. End it with ``close()``."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        name: str | None = None,
        correlation_id: object = None,
        source: Source | Mapping[str, Any] | None = None,
        redact: object = "secrets",
        skip_bad: bool = False,
        ids: Ids = "line",
        on_bad: Callable[[BadLine], None] | None = None,
        progress: Callable[[IngestReport], None] | None = None,
        depth_max: int | None = None,
        line_bytes_max: int | None = None,
    ) -> None:
        ledger._check_writable()
        if ids not in ("line", "content"):
            raise InvalidEvent(f"ids is 'line' or 'content', not {ids!r:.80}", path="ids")
        self._ledger = ledger
        self._intake = ledger._intake
        self._frame = ledger._frame(correlation_id, source, None, None)
        self._redact = redactor_of(redact)
        self._name = None if name is None else digest_of_name(name)
        self._ordinals = Ordinals() if ids == "content" and name is not None else None
        self._skip_bad = skip_bad
        self._on_bad = on_bad
        self._progress = progress
        self._line_bytes_max = line_bytes_max or ledger.limits.payload_bytes_max + LINE_OVERHEAD_BYTES
        self._depth_max = depth_max or ledger.limits.json_depth_max
        self._batch_events = min(BATCH_EVENTS, ledger.limits.batch_events_max)
        self._batch_bytes = min(BATCH_BYTES, ledger.limits.batch_bytes_max)
        self._drafts: list[Draft] = []
        self._numbers: list[int] = []
        self._bad: list[BadLine] = []
        self._bytes = 0
        self._new_ids = 0
        self._line = 0
        self._now = ""
        self.report = IngestReport()

    def close(self) -> None:
        """Let go of what was kept beside the ledger."""
        if self._ordinals is not None:
            self._ordinals.close()

    def take(self, items: ByteStream | Iterable[Any]) -> IngestReport:
        """Take every item. Stops at the first bad one with :class:`InvalidEvent`, unless they are left out."""
        for line in self._lines(items):
            if line is None:
                self._settle()
                continue
            number, item, reason, torn = line
            self._line = number
            try:
                if reason is not None:
                    raise InvalidEvent(reason)
                draft = self._draft(item, number)
            except (InvalidEvent, LimitExceeded) as error:
                self._refuse(number, f"torn: {error}" if torn and not _is_whole(item) else str(error))
                continue
            self._add(draft, number)
        self._settle()
        return self.report

    def _lines(
        self, items: ByteStream | Iterable[Any]
    ) -> Iterator[Line | tuple[int, Any, str | None, bool] | None]:
        if isinstance(items, ByteStream):
            yield from read_lines(items, self._line_bytes_max)
            return
        for number, item in enumerate(items, 1):
            if isinstance(item, (bytes, bytearray, memoryview, str)):
                line = _line_of(number, item, self._line_bytes_max)
                if line.data or line.reason:
                    yield line
            elif isinstance(item, (InvalidEvent, LimitExceeded)):  # what became of it before it came here
                yield number, None, str(item), False
            else:
                yield number, item, None, False

    # --- one event ---

    def _draft(self, item: Any, number: int) -> Draft:
        """What an item says happened, as a draft; raises what is wrong with it."""
        item, moment = item if isinstance(item, Dated) else (item, "")
        if isinstance(item, bytes):
            content, fields = item, decode_object(item, self._depth_max)
            if is_envelope(fields):
                return self._intake.redraft(EventEnvelope.from_json(item), self._redact)
        elif isinstance(item, EventEnvelope):
            return self._intake.redraft(item, self._redact)
        elif isinstance(item, Mapping):
            content, fields = None, dict(item)
            if is_envelope(fields):
                return self._intake.redraft(EventEnvelope.from_json(_strict(fields)), self._redact)
        else:
            raise InvalidEvent(
                f"an event is a mapping, an envelope or a line of JSON, not {type(item).__name__}"
            )
        self._check(fields)
        if fields.get("event_id") is None and fields.get("idempotency_key") is None:
            fields["idempotency_key"] = self._key(fields, content, number)
        if not self._drafts:
            self._now = time_text(self._intake.clock())
        return self._intake.draft(self._frame, moment or self._now, [], redact=self._redact, **fields)

    def _check(self, fields: Mapping[str, Any]) -> None:
        if not fields.keys() <= EVENT_KEYS:
            unknown = next(key for key in fields if key not in EVENT_KEYS)
            raise InvalidEvent(f"{unknown!r:.80} is no field of an event; other data belongs into payload")
        if fields.get("event_type") is None:
            raise InvalidEvent("event_type is missing", path="event_type")
        if fields.get("correlation_id") is None and self._frame.correlation_id is None:
            raise InvalidEvent("correlation_id is missing, and no default is given", path="correlation_id")

    def _key(self, fields: Mapping[str, Any], content: bytes | None, number: int) -> str | None:
        """The idempotency key of an event that brings no id; ``None`` for a new id."""
        if self._name is None:
            return None
        if content is None:
            content = jsonvalue.encode(fields, limits=self._ledger.limits).json
        digest = sha256(content)
        if self._ordinals is None:
            return key_of_line(self._name, number, content)
        return f"ingest {self._name} time {self._ordinals.next(digest.digest())} {digest.hexdigest()}"

    def _add(self, draft: Draft, number: int) -> None:
        self._drafts.append(draft)
        self._numbers.append(number)
        self._bytes += draft.payload_bytes
        if draft.blobs:
            self._bytes += sum(len(blob.data) for blob in draft.blobs)
        if len(self._drafts) >= self._batch_events or self._bytes >= self._batch_bytes:
            self._settle()

    # --- one batch ---

    def _refuse(self, number: int, reason: str) -> None:
        bad = BadLine(number, reason)
        if not self._skip_bad:
            self._settle()
            self._stop(bad)
        self._bad.append(bad)
        if len(self._bad) >= BATCH_EVENTS:
            self._settle()

    def _settle(self) -> None:
        """Commit what is ready, whole, and bring the report up to date."""
        while self._drafts:
            try:
                self._commit(len(self._drafts))
            except EventConflict as error:
                conflicts = self._conflicts(error)
                if not self._skip_bad:
                    first = min(conflicts)
                    bad = BadLine(self._numbers[first], conflicts[first])
                    self._line = bad.number
                    if first:
                        self._commit(first)
                    self._stop(bad)
                self._bad += [BadLine(self._numbers[index], reason) for index, reason in conflicts.items()]
                kept = [index for index in range(len(self._drafts)) if index not in conflicts]
                self._drafts = [self._drafts[index] for index in kept]
                self._numbers = [self._numbers[index] for index in kept]
        if self._bad or self._line > self.report.lines:
            self._tell(sorted(self._bad), 0, 0, 0)

    def _commit(self, count: int) -> None:
        """Store the first ``count`` drafts."""
        ledger, drafts = self._ledger, self._drafts[:count]
        before = ledger.head
        rows = ledger._recorder.commit(Group(drafts))
        # The salt tells a row of ours from one with the same content that was there, or came from elsewhere just now.
        new = sum(
            1
            for row, draft in zip(rows, drafts, strict=True)
            if row[POSITION] > before and row[COMMITMENT] == draft.commitment
        )
        self._new_ids += sum(draft.fresh for draft in drafts)
        self._drafts, self._numbers, self._bytes = [], [], 0
        self._tell(sorted(self._bad), new, count - new, max(row[POSITION] for row in rows))

    def _conflicts(self, error: EventConflict) -> dict[int, str]:
        """Which drafts stand against the ledger or an earlier draft, with the reason."""
        drafts = self._drafts
        known = self._ledger._store.get([draft.columns[0] for draft in drafts])
        earlier: dict[bytes, Row] = {}
        found: dict[int, str] = {}
        for index, draft in enumerate(drafts):
            key = draft.columns[0]
            row = known.get(key) or earlier.get(key)
            if row is None:
                earlier[key] = (
                    0,
                    0,
                    "",
                    *draft.columns,
                    b"",
                    draft.salt,
                    draft.commitment,
                    draft.payload_bytes,
                )
            elif fields := differences(draft, row):
                found[index] = str(EventConflict(uuid_text(key), fields, row[POSITION] or None))
        if not found:
            raise error
        return found

    def _stop(self, bad: BadLine) -> None:
        self._drafts, self._numbers, self._bytes = [], [], 0
        self._line = bad.number
        self._tell([bad], 0, 0, 0)
        raise InvalidEvent(
            f"line {bad.number}: {bad.reason}; everything before it is stored, so mend it or leave bad lines out "
            "(skip_bad=True), and ingest again",
            line=bad.number,
        )

    def _tell(self, bad: list[BadLine], stored: int, known: int, position: int) -> None:
        old = self.report
        self.report = IngestReport(
            stored=old.stored + stored,
            known=old.known + known,
            bad=old.bad + tuple(bad[: BAD_LINES_KEPT - len(old.bad)]),
            bad_count=old.bad_count + len(bad),
            lines=max(old.lines, self._line),
            last_position=max(old.last_position, position),
            new_ids=self._new_ids,
        )
        self._bad = []
        if self._on_bad is not None:
            for one in bad:
                self._on_bad(one)
        if self._progress is not None:
            self._progress(self.report)


def is_envelope(fields: Mapping[str, Any]) -> bool:
    """Whether an event is a complete envelope, to be stored as it is; else it holds arguments of ``record``."""
    return (
        fields.keys() >= ENVELOPE_KEYS
        and fields.get("idempotency_key", "") is not None
        and fields.get("schema_version", 1) is not None
        and all(isinstance(fields[name], kind) for name, kind in _ENVELOPE_TYPES)
        and all(isinstance(part, str) for part in fields["source"].values())
    )


def digest_of_name(name: str) -> str:
    """The name of an input as it stands in the keys of its lines."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def key_of_line(name_digest: str, number: int, content: bytes) -> str:
    """The idempotency key of an event without an id: the input, its place in it, and what it says."""
    return f"ingest {name_digest} line {number} {sha256(content).hexdigest()}"


def _line_of(number: int, item: bytes | bytearray | memoryview | str, bytes_max: int) -> Line:
    """A line that somebody else has split off."""
    data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else bytes(item)
    data = data.strip()
    if number == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    return (
        Line(number, data)
        if len(data) <= bytes_max
        else Line(number, b"", f"too long: more than {bytes_max:,} bytes")
    )


def _is_whole(data: bytes) -> bool:
    try:
        decode_object(data)
    except InvalidEvent:
        return False
    return True


def _strict(fields: Mapping[str, Any]) -> bytes:
    """A mapping that is an envelope as JSON text; nothing in it is converted."""
    try:
        return json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEvent(f"an envelope holds JSON values only: {error}") from None

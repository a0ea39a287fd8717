"""The ledger that users hold: record, read, replay, follow, verify."""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar, overload

import msgspec

from chatsnapshot import calls, cursors, judging
from chatsnapshot.calls import Call
from chatsnapshot.clock import uuid_bytes, uuid_text
from chatsnapshot.cursors import FeedState
from chatsnapshot.envelope import EventEnvelope, LedgerEntry, Source
from chatsnapshot.erasing import erase
from chatsnapshot.errors import InvalidEvent, NotFound, ReadOnly
from chatsnapshot.events.registry import schemas_of
from chatsnapshot.events.validation import Validator
from chatsnapshot.feed import Feed
from chatsnapshot.fields import Causelike, cause_key, correlation_text, sequence_expected, source_text
from chatsnapshot.intake import Intake
from chatsnapshot.limits import Limits
from chatsnapshot.misfits import find_misfits
from chatsnapshot.pending import FlushReport, Pending, rows_of, with_refused
from chatsnapshot.playback import recorded
from chatsnapshot.policies import Opening
from chatsnapshot.reading import (
    Moment,
    Reading,
    Replay,
    blob_name,
    make_query,
    off_loop,
    to_entries,
)
from chatsnapshot.recorder import Recorder
from chatsnapshot.redaction import redactor_of
from chatsnapshot.run import Run, make_run
from chatsnapshot.scope import Frame, Scope, current_frame, in_copied_context, new_frame, scope_owner
from chatsnapshot.standby import Standing
from chatsnapshot.stores.base import Group, Row, Store
from chatsnapshot.stores.open import open_store
from chatsnapshot.tail import Bell, Tail
from chatsnapshot.verify import Report, verify

if TYPE_CHECKING:
    from chatsnapshot.ingesting import IngestReport

__all__ = ["Ledger"]

F = TypeVar("F", bound=Callable[..., Any])
Recordable = EventEnvelope | Mapping[str, Any]
_NO_IDS: list[bytes] = []

_VIEWS = "chatsnapshot.projections.views"
"""Floor 5 computes views; the ledger only hands itself over, by name, when one is asked for."""
_CONTEXT = "chatsnapshot.projections.context.making"
_SEARCH = "chatsnapshot.projections.search.searching"

_open: weakref.WeakSet[Ledger] = weakref.WeakSet()


class Ledger:
    """One append-only history; made by :func:`chatsnapshot.open`.

    Safe to use from any thread, task or forked process. ``with`` and ``async with`` close it.
    """

    def __init__(self, opening: Opening, store: Store | None = None) -> None:
        """``store`` is a store of one's own, opened already, in place of the one that the location names."""
        self._opening = opening
        self.validator = Validator(opening.validation, opening.schemas)
        """What payloads are checked against, and how many did not fit."""
        self.redactor = redactor_of(opening.redact, opening.redact_errors)
        """What every event passes before it is stored; ``None`` when nothing is redacted."""
        self._intake = Intake(
            opening.clock,
            opening.limits,
            opening.source,
            self._stored_blob,
            self.redactor,
            None if opening.read_only else self.validator.ready(),
        )
        self._bell = Bell()
        self._closed = False
        self._store = store or open_store(
            opening.location,
            create=opening.create,
            read_only=opening.read_only,
            durability=opening.durability,
            clock=opening.clock,
            entropy=opening.entropy,
            limits=opening.limits,
        )
        self._standing = Standing(self._store)
        self.scope_owner = scope_owner(self._standing.ledger_id)
        """Tells the scopes of this ledger from those of every other one; the same where it is opened twice."""
        self._recorder = Recorder(self._store, opening.limits, opening.entropy, self._bell.ring)
        _open.add(self)

    # --- facts about it ---

    @property
    def url(self) -> str:
        """Where the ledger is."""
        return self._opening.location.url

    @property
    def ledger_id(self) -> str:
        """UUID text that names this history."""
        return self._standing.ledger_id

    @property
    def limits(self) -> Limits:
        """The limits it was opened with."""
        return self._opening.limits

    @property
    def read_only(self) -> bool:
        """Whether it was opened read-only, or is a copy that was not promoted."""
        return self._opening.read_only or self._standing.waits

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def head(self) -> int:
        """The last position; 0 when the ledger is empty."""
        return self._store.head().size

    def __repr__(self) -> str:
        return (
            f"<Ledger {self.url}{' read-only' if self.read_only else ''}{' closed' if self._closed else ''}>"
        )

    # --- recording ---

    @overload
    def record(
        self,
        event_type: str | EventEnvelope,
        payload: Any = ...,
        *,
        correlation_id: object = ...,
        causation_id: Causelike | None = ...,
        source: Source | Mapping[str, Any] | None = ...,
        timestamp: datetime | str | None = ...,
        event_id: object = ...,
        idempotency_key: object = ...,
        attributes: Mapping[str, Any] | None = ...,
        schema_version: int | None = ...,
        expected_sequence: int | None = ...,
        strict: bool = ...,
        redact: object = ...,
        wait: Literal[True] = ...,
    ) -> LedgerEntry: ...

    @overload
    def record(
        self, event_type: str | EventEnvelope, payload: Any = ..., *, wait: Literal[False], **options: Any
    ) -> Pending: ...

    def record(
        self, event_type: str | EventEnvelope, payload: Any = None, *, wait: bool = True, **options: Any
    ) -> LedgerEntry | Pending:
        """Record one event; when it returns, the event survives kill -9 and power loss.

        ``event_type`` reads ``domain.name``; an ``EventEnvelope`` is recorded as it is. ``payload`` is any Python value
        (``docs/values.md``). ``correlation_id`` is needed unless a scope gives it. ``causation_id`` is an id, entry,
        envelope or ``Pending``. ``event_id`` is a UUID, ``idempotency_key`` text that makes one: the same id is stored
        once. ``expected_sequence`` is the correlation's last sequence as the caller knows it (0 = new).
        ``strict=True`` refuses what strict JSON cannot hold. ``redact`` is applied to this event before the ledger's own
        redaction. ``wait=False`` returns a ``Pending`` at once.

        Raises :class:`InvalidEvent`, :class:`LimitExceeded`, :class:`EventConflict`, :class:`SequenceConflict`,
        :class:`CommitUncertain`, :class:`StoreFull`, :class:`StoreUnavailable`, :class:`StorePoisoned`,
        :class:`ReadOnly`, :class:`LedgerClosed`.
        """
        entry: LedgerEntry | Pending = self._record(
            current_frame(self.scope_owner), event_type, payload, options, wait
        )
        return entry

    def _record(
        self,
        frame: Frame | None,
        event_type: str | EventEnvelope,
        payload: Any,
        options: dict[str, Any],
        wait: bool = True,
    ) -> Any:
        expected_sequence = options.pop("expected_sequence", None)
        group = self._single(frame, event_type, payload, expected_sequence, options)
        if wait:
            return self._entry(self._recorder.commit(group)[0])
        if expected_sequence is not None:
            raise InvalidEvent(
                "expected_sequence needs the answer; it does not go with wait=False", path="expected_sequence"
            )
        return self._recorder.accept(group, self._entry)

    async def arecord(
        self,
        event_type: str | EventEnvelope,
        payload: Any = None,
        **options: Any,
    ) -> LedgerEntry:
        """As :meth:`record`, without blocking the event loop; durable when it resolves.

        A cancelled call may be stored.
        """
        expected_sequence = options.pop("expected_sequence", None)
        group = self._single(current_frame(self.scope_owner), event_type, payload, expected_sequence, options)
        return self._entry(rows_of(await self._recorder.acommit(group))[0])

    async def _arecord(
        self,
        frame: Frame | None,
        event_type: str | EventEnvelope,
        payload: Any,
        options: dict[str, Any],
    ) -> LedgerEntry:
        expected_sequence = options.pop("expected_sequence", None)
        group = self._single(frame, event_type, payload, expected_sequence, options)
        return self._entry(rows_of(await self._recorder.acommit(group))[0])

    def record_many(
        self, events: Iterable[Recordable], *, expected_sequence: int | None = None
    ) -> list[LedgerEntry]:
        """Record events whole or not at all; gives their entries in the order of ``events``.

        Each is a mapping with the arguments of :meth:`record`, or an ``EventEnvelope``. Known ids give their first
        entries, the new ones land together. Errors as for :meth:`record`.
        """
        group = self._batch(events, expected_sequence)
        return to_entries(self._recorder.commit(group), self) if group.drafts else []

    async def arecord_many(
        self, events: Iterable[Recordable], *, expected_sequence: int | None = None
    ) -> list[LedgerEntry]:
        """As :meth:`record_many`, without blocking the event loop."""
        group = self._batch(events, expected_sequence)
        if not group.drafts:
            return []
        return to_entries(rows_of(await self._recorder.acommit(group)), self)

    def ingest(
        self,
        items: os.PathLike[str] | BinaryIO | Iterable[Any],
        *,
        name: str | None = None,
        correlation_id: object = None,
        source: Source | Mapping[str, Any] | None = None,
        redact: object = "secrets",
        skip_bad: bool = False,
        **options: Any,
    ) -> IngestReport:
        """Take lines of JSON or events from a file, a stream or an iterable (``docs/ingest.md``), in batches.

        ``name`` says which input this is: events without an id get one made of it, the line's number and content, so that
        the same input again stores only what is new; a ``pathlib.Path`` is a name by itself. ``correlation_id`` and
        ``source`` stand in where an event has none. Stops at the first bad line with :class:`InvalidEvent`, its number in
        ``.line`` and what came before it stored, unless ``skip_bad``. ``options``: ``ids="content"`` to count equal lines
        instead of their numbers, and ``on_bad`` and ``progress``, called with each bad line and after each batch.
        """
        from chatsnapshot.ingesting import ingest

        defaults = {
            "correlation_id": correlation_id,
            "source": source,
            "redact": redact,
            "skip_bad": skip_bad,
        }
        return ingest(self, items, name=name, **defaults, **options)

    async def aingest(
        self, items: os.PathLike[str] | BinaryIO | Iterable[Any], **options: Any
    ) -> IngestReport:
        """As :meth:`ingest`, without blocking the event loop; a cancelled call goes on to the end."""
        import asyncio

        return await asyncio.to_thread(self.ingest, items, **options)

    def _single(
        self,
        frame: Frame | None,
        event_type: str | EventEnvelope,
        payload: Any,
        expected_sequence: int | None,
        options: dict[str, Any],
    ) -> Group:
        self._check_writable()
        if isinstance(event_type, EventEnvelope):
            if payload is not None or options:
                raise InvalidEvent("an envelope is recorded as it is; give no payload or options beside it")
            draft = self._intake.redraft(event_type)
        else:
            draft = self._intake.draft(frame, None, _NO_IDS, event_type, payload, **options)
        return Group([draft], sequence_expected(expected_sequence))

    def _batch(self, events: Iterable[Recordable], expected_sequence: int | None) -> Group:
        self._check_writable()
        frame = current_frame(self.scope_owner)
        given = events if isinstance(events, (list, tuple)) else list(events)
        return Group(self._intake.batch(frame, given), sequence_expected(expected_sequence))

    def _check_writable(self) -> None:
        if self._opening.read_only:
            raise ReadOnly(f"{self.url} was opened read-only; open it with read_only=False to record")
        self._standing.check()

    def _stored_blob(self, digest: bytes) -> bytes | None:
        parts = self._store.blob(digest)
        return None if parts is None else b"".join(parts)

    def _entry(self, row: Row) -> LedgerEntry:
        payload = row[9]
        if payload is not None and b"$blob" in payload:
            return LedgerEntry(*row, self.blob)
        return LedgerEntry(*row)

    def flush(self, timeout: float | None = None) -> FlushReport:
        """Wait until everything accepted with ``wait=False`` is durable; the report names each event that failed.

        Raises ``TimeoutError`` after ``timeout`` seconds.
        """
        return with_refused(self._recorder.flush(timeout), self._store, timeout)

    async def aflush(self, timeout: float | None = None) -> FlushReport:
        """As :meth:`flush`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.flush, timeout)

    # --- scopes ---

    def scope(
        self,
        correlation_id: object = None,
        *,
        source: Source | Mapping[str, Any] | None = None,
        cause: Causelike | None = None,
    ) -> Scope:
        """What events recorded inside have in common; records nothing itself. See :class:`Scope`."""
        return Scope(self, self._frame(correlation_id, source, cause, None))

    def run(
        self,
        correlation_id: object = None,
        *,
        name: str | None = None,
        run_id: object = None,
        resume: bool = False,
        source: Source | Mapping[str, Any] | None = None,
        cause: Causelike | None = None,
        attributes: Mapping[str, Any] | None = None,
        idempotency_key: object = None,
        **facts: Any,
    ) -> Run:
        """One execution, as ``with`` or ``async with``: a start event, what is recorded inside, exactly one end event.

        Without ``correlation_id`` it gets a new one; inside another run it is then a child run, caused by the outer
        run's start. ``resume=True`` goes on with a paused or interrupted run (``execution.run_resumed``). ``facts`` are
        further payload keys of the start event: ``tags``, ``user``, ``session``, ``version``, ``environment``,
        ``input``, ``forked_from`` …
        """
        options: dict[str, Any] = {"attributes": attributes}
        if idempotency_key is not None:
            options["idempotency_key"] = idempotency_key
        return make_run(self, correlation_id, name, run_id, resume, facts, options, source, cause)

    def _frame(
        self, correlation_id: object, source: Any, cause: Causelike | None, run_id: str | None
    ) -> Frame:
        return new_frame(
            self.scope_owner,
            None if correlation_id is None else correlation_text(correlation_id, self.limits),
            None if source is None else source_text(source, self.limits),
            cause_key(cause),
            run_id,
        )

    # --- plain Python, judgements, ends ---

    @overload
    def tool(self, name: F, /) -> F: ...

    @overload
    def tool(
        self,
        name: str | None = ...,
        /,
        *,
        arguments: Any = ...,
        call_id: object = ...,
        record_arguments: bool = ...,
        record_result: bool = ...,
        **scope: Any,
    ) -> Call: ...

    def tool(
        self,
        name: Any = None,
        /,
        *,
        arguments: Any = None,
        call_id: object = None,
        record_arguments: bool = True,
        record_result: bool = True,
        **scope: Any,
    ) -> Any:
        """A tool of plain Python, as ``@snapshot.tool``, ``@snapshot.tool("name")`` or ``with snapshot.tool("name")``.

        Records ``execution.tool_call`` with the arguments and one ``execution.tool_result`` with the result or error; see
        :class:`~chatsnapshot.calls.Call`. ``call_id`` is text, or a function that gives it. ``scope`` takes
        ``correlation_id``, ``source``, ``cause``, and ``options`` of :meth:`record` for the start event.
        """
        return calls.tool(self, name, call_id, arguments, (record_arguments, record_result), scope)

    @overload
    def task(self, name: F, /) -> F: ...

    @overload
    def task(
        self,
        name: str | None = ...,
        /,
        *,
        input: Any = ...,
        task_id: object = ...,
        depends_on: Sequence[str] | None = ...,
        record_arguments: bool = ...,
        record_result: bool = ...,
        **scope: Any,
    ) -> Call: ...

    def task(
        self,
        name: Any = None,
        /,
        *,
        input: Any = None,
        task_id: object = None,
        depends_on: Sequence[str] | None = None,
        record_arguments: bool = True,
        record_result: bool = True,
        **scope: Any,
    ) -> Any:
        """A task of plain Python, as :meth:`tool`: ``system.task_started``, then completed, failed or cancelled.

        Inside another task it says so (``parent_task_id``); ``depends_on`` are ids of tasks that came before.
        """
        return calls.task(self, name, task_id, input, depends_on, (record_arguments, record_result), scope)

    def recorded(self, call_id: object, *, correlation_id: object = None) -> Any:
        """The recorded result of a tool call as a Python value, so that tests can play tools back.

        Raises :class:`NotFound`, and :class:`~chatsnapshot.playback.RecordedFailure` when the tool had failed.
        """
        return recorded(self, call_id, correlation_id)

    def evaluate(
        self,
        target: object,
        *,
        name: str,
        score: float | None = None,
        label: str | None = None,
        comment: str | None = None,
        evaluator: str | None = None,
        kind: str | None = None,
        **options: Any,
    ) -> LedgerEntry:
        """Record how well a run or an event did, now or long after; it is an event like any other.

        ``target`` is an entry, an event id, a run or its id (with ``correlation_id`` where that differs). ``name`` says
        what is judged; ``score`` is a number, ``label`` a word, one of them is needed; ``kind`` is ``human``, ``model``
        or ``code``. ``options`` are those of :meth:`record`.
        """
        facts = {"comment": comment, "evaluator": evaluator, "kind": kind}
        event_type, payload, rest = judging.evaluation(self, target, name, score, label, facts, options)
        return self.record(event_type, payload, wait=True, **rest)

    async def aevaluate(self, target: object, **judgement: Any) -> LedgerEntry:
        """As :meth:`evaluate`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.evaluate, target, **judgement)

    def end(
        self,
        run: object,
        *,
        status: str = "cancelled",
        reason: str | None = None,
        correlation_id: object = None,
    ) -> LedgerEntry:
        """Record the end of a run (or workflow) whose process died: ``cancelled``, ``failed``, ``completed``, ``paused``.

        Raises :class:`NotFound` when it never began, :class:`InvalidEvent` when it has ended, or goes on.
        """
        return judging.end(self, run, status, reason, correlation_id)

    def wrap(self, function: F) -> F:
        """Bind a callable to the scopes of here and now, for a thread pool, a generator or a callback."""
        return in_copied_context(function)

    # --- reading ---

    def read(
        self,
        *,
        correlation_id: object = None,
        event_type: str | Sequence[str] | None = None,
        origin: str | None = None,
        runtime: str | None = None,
        name: str | None = None,
        attributes: Mapping[str, str | bool | int] | None = None,
        causation_id: Causelike | None = None,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        after: int = 0,
        until: Moment | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Reading:
        """Entries in order of position, up to the head of now; ``for`` and ``async for``.

        ``event_type`` is a type, a prefix such as ``execution.*``, or several; ``origin``, ``runtime`` and ``name`` are
        of the source; ``attributes`` match by value, or by member for lists; ``start`` (inclusive) and ``end``
        (exclusive) bound ``timestamp``; ``after`` (exclusive) and ``until`` (inclusive) bound the position, and a time
        in ``until`` bounds ``recorded_at``. ``reverse`` goes down from ``until``.
        """
        query = make_query(
            correlation_id=correlation_id,
            event_type=event_type,
            origin=origin,
            runtime=runtime,
            name=name,
            attributes=attributes,
            causation_id=causation_id,
            start=start,
            end=end,
            limits=self.limits,
        )
        return Reading(self, query, after=after, until=until, limit=limit, reverse=reverse)

    def aread(self, **filters: Any) -> AsyncIterator[LedgerEntry]:
        """As :meth:`read`, for ``async for``; it begins at the first step, and everything is looked up off the loop."""
        return off_loop(lambda: self.read(**filters))

    def get(self, event_id: object) -> LedgerEntry:
        """The entry of one event, named by its id, an envelope or a ``Pending``; raises :class:`NotFound`."""
        key = uuid_bytes(getattr(event_id, "event_id", event_id))
        rows = self._store.get([key])
        if key not in rows:
            raise NotFound(f"there is no event {uuid_text(key)} in {self.url}")
        return to_entries([rows[key]], self)[0]

    async def aget(self, event_id: object) -> LedgerEntry:
        """As :meth:`get`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.get, event_id)

    def replay(
        self, correlation_id: object, *, until: Moment | None = None, children: bool = False
    ) -> Replay:
        """The entries of one run in their order; with ``children`` those of its child runs too, merged by position.

        The same call gives the same bytes every time. Raises :class:`NotFound` for an unknown correlation.
        """
        return Replay(self, correlation_id, until=until, children=children)

    def areplay(
        self, correlation_id: object, *, until: Moment | None = None, children: bool = False
    ) -> AsyncIterator[LedgerEntry]:
        """As :meth:`replay`, for ``async for``; it begins at the first step, and everything is looked up off the loop."""
        return off_loop(lambda: self.replay(correlation_id, until=until, children=children))

    def tail(self, *, after: int | None = None, timeout: float | None = None, **filters: Any) -> Tail:
        """Follow the ledger: entries after a position (from now on when ``None``), then live; see :class:`Tail`.

        ``filters`` are those of :meth:`read`, without bounds.
        """
        return Tail(self, make_query(limits=self.limits, **filters), after, timeout)

    def feed(
        self,
        name: str,
        *,
        batch: int = 500,
        after: int | Literal["now"] = 0,
        follow: bool = False,
        timeout: float | None = None,
        auto_commit: bool = True,
        **filters: Any,
    ) -> Feed:
        """What consumer ``name`` has not dealt with yet, in batches, at least once (``docs/feed.md``); see :class:`Feed`.

        A new feed begins after position ``after``, or ``"now"``; a known one goes on from its cursor. ``filters`` are
        those of :meth:`tail`. It ends at the head of the loop's start, or follows until ``timeout`` seconds are quiet.
        """
        query = make_query(limits=self.limits, **filters)
        return Feed(self, name, query, batch, after, follow, timeout, auto_commit)

    def feeds(self) -> list[FeedState]:
        """Where every feed stands: position, lag, what is handed out."""
        return cursors.states(self._store)

    def drop_feed(self, name: str) -> None:
        """Forget a feed and its cursor; raises :class:`NotFound`."""
        self._check_writable()
        cursors.drop(self._store, name)

    def blob(self, reference: str | Mapping[str, Any]) -> bytes:
        """The bytes of a blob, named by ``sha256:…`` or by the ``$blob`` object of a payload.

        Raises :class:`NotFound` when it is not there or was erased.
        """
        name, digest = blob_name(reference)
        data = self._stored_blob(digest)
        if data is None:
            raise NotFound(f"there is no blob {name} in {self.url}; it may have been erased")
        return data

    def view(self, name: str | type, correlation_id: object = None, *, until: Moment | None = None) -> Any:
        """A projection's state for one key, as of now or of ``until``: ``runs``, ``timeline`` … or your own class."""
        return importlib.import_module(_VIEWS).view(self, name, correlation_id, until=until)

    async def aview(
        self, name: str | type, correlation_id: object = None, *, until: Moment | None = None
    ) -> Any:
        """As :meth:`view`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.view, name, correlation_id, until=until)

    def context(self, runs: object = None, **options: Any) -> Any:
        """The relevant past of runs within ``budget_tokens=``, for a model to read; see ``docs/context.md``."""
        return importlib.import_module(_CONTEXT).context(self, runs, **options)

    async def acontext(self, runs: object = None, **options: Any) -> Any:
        """As :meth:`context`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.context, runs, **options)

    def search(self, query: str, **options: Any) -> Any:
        """The events in which all words of ``query`` are found, best first; ``options`` are filters of :meth:`read`."""
        return importlib.import_module(_SEARCH).search(self, query, **options)

    async def asearch(self, query: str, **options: Any) -> Any:
        """As :meth:`search`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.search, query, **options)

    # --- integrity ---

    def verify(self, *, schemas: Any = None, progress: Callable[[int, int], None] | None = None) -> Report:
        """Derive everything anew from the stored columns and say what is proven and what is not.

        With ``schemas`` (``True``: those of the ledger; else what ``open(schemas=...)`` takes) the report's ``misfits``
        lists payloads that do not fit theirs; that says nothing against the ledger, so ``ok`` does not depend on it.
        """
        against = self.validator.schemas if schemas is True else schemas_of(schemas) if schemas else None
        report = verify(self._store, self._opening.limits, progress)
        if against is None:
            return report
        return msgspec.structs.replace(report, misfits=find_misfits(self.read(), against))

    async def averify(self, *, schemas: Any = None) -> Report:
        """As :meth:`verify`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.verify, schemas=schemas)

    def erase(self, positions: int | Iterable[int], *, reason: str, **facts: Any) -> LedgerEntry:
        """Remove the payloads at these positions for good; the record of it is an event, and its entry is returned.

        Events, their order and every proof stay. Raises :class:`NotFound` for a position that is not there,
        :class:`InvalidEvent` for one of the ledger's own records.
        """
        return erase(self, positions, reason, facts)

    # --- end ---

    def close(self) -> None:
        """Store what was accepted and let go of the store. A second close does nothing."""
        if self._closed:
            return
        self._recorder.close(self._let_go)

    def _let_go(self) -> None:
        self._closed = True
        self._bell.ring()
        self._store.close()

    async def aclose(self) -> None:
        """As :meth:`close`, without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.close)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Ledger:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        recorder: Recorder | None = getattr(self, "_recorder", None)
        if recorder is not None and not self._closed:
            recorder.shut("the ledger was dropped without close()")

    def __reduce__(self) -> tuple[Any, ...]:
        return self._opening.pickled()


def _after_fork_in_child() -> None:
    for ledger in list(_open):
        ledger._store.after_fork()
        ledger._recorder.after_fork()
        ledger.validator.after_fork()
        ledger._bell = Bell()
        ledger._recorder._committed = ledger._bell.ring


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

"""``RuntimeRecorder``: records the runs of any runtime; the base of the adapters, and for a runtime of one's own."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import OrderedDict
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from chatsnapshot.adapters.observed import Earlier, ObservedRun
from chatsnapshot.adapters.places import Parent, parent_here, process_of
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event, SafeRecorder
from chatsnapshot.adapters.unfinished import aleft_in, left_in
from chatsnapshot.clock import new_id, uuid_bytes, uuid_text

__all__ = ["Earlier", "ObservedRun", "Parent", "RuntimeRecorder", "first_run", "which_ledger"]

_ENDED_MAX = 1_000
_NAMED_MAX = 10_000
_ON_THE_LOOP_SECONDS_MAX = 0.25
_HERE: Any = object()


class RuntimeRecorder:
    """Records what one runtime does. Subclass it, or use it as it is with ``runtime="my-runtime"``.

    >>> recorder = RuntimeRecorder(ledger, runtime="my-runtime")
    >>> run = recorder.begin("triage", key="job-7")
    >>> recorder.record(run.started("Hello"), run.message("user", [text("Hello")]))
    >>> recorder.record(run.completed("Hi"))
    >>> recorder.end(run)

    Runs belong to ``correlation_id``, or else to the conversation that :meth:`begin` is given. A run inside a recorded
    tool call, of whichever runtime, is a child with a correlation of its own, caused by that call. ``cause`` is the
    event (id, entry or envelope) that leads to the first event of a run that is no child. ``redact`` is what every event
    passes first (``None``: nothing); ``wait_seconds_max`` bounds how long one recording may hold up the run.

    The runtime never notices: a ledger that fails, hangs or is closed changes nothing for it. :attr:`safe` counts what
    could not be recorded. Safe to use from threads and event loops.
    """

    runtime: str = "custom"
    adapter: ClassVar[str | None] = None

    def __init__(
        self,
        ledger: Any,
        *,
        correlation_id: object = None,
        cause: Any = None,
        wait_seconds_max: float = 5.0,
        redact: Any = "secrets",
        runtime: str | None = None,
    ) -> None:
        self.ledger = ledger
        if runtime is not None:
            self.runtime = runtime
        self.correlation_id = None if correlation_id is None else header_text(correlation_id)
        self.cause = (
            None if cause is None else uuid_text(uuid_bytes(getattr(cause, "event_id", cause), "cause"))
        )
        self.safe = SafeRecorder(
            ledger, adapter=self.adapter or self.runtime, wait_seconds_max=wait_seconds_max, redact=redact
        )
        self._guarded = _Guarded(self.safe)
        self.above: Parent | None = None
        """What the whole process runs in, for runs that nothing else is around."""
        self._runs: dict[str, ObservedRun] = {}
        self._ended: OrderedDict[str, Earlier] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], Earlier] = OrderedDict()
        """What runs left that wait for somebody, by conversation and agent: several may wait in one conversation."""

    # --- runs ---------------------------------------------------------------------------------------------

    def begin(
        self,
        name: object,
        *,
        key: object,
        correlation_id: object = None,
        run_id: object = None,
        native_run_id: object = None,
        parent: Parent | None = _HERE,
        resumed: bool = False,
        earlier: Earlier | None = None,
    ) -> ObservedRun | None:
        """A run of the agent ``name`` begins; record ``run.started()`` next.

        ``key`` is the runtime's id of the run, unique among those that are open. ``correlation_id`` is the runtime's
        conversation, thread or session. ``run_id``, unless it is given, is the correlation's for the first run in it
        that this process begins, that of the run before for one that is ``resumed``, and otherwise a new one.
        ``native_run_id`` is the runtime's own id of this stretch, for the ids that follow from ``native_id``: a run that
        goes on has several. ``parent`` is found by itself. A run that is ``resumed`` goes on with what the run before
        left open: found by :meth:`left_open`, or given as ``earlier`` (:meth:`aleft_open`, on an event loop).

        ``None`` when another recorder of the same ledger observes this run already: then nothing is to be recorded.
        """
        known = str(key)
        if not _claim(self.ledger, self.runtime, known, self):
            return None
        above = self.parent_here() if parent is _HERE else parent
        if above is None and parent is _HERE and self.cause is None:
            above = process_of(self.ledger)
        own = None if correlation_id is None else header_text(correlation_id)
        if above is not None and (above.inside_tool or parent is not _HERE):
            correlation = own if own not in (None, above.correlation_id) else None
        else:
            correlation = self.correlation_id or own
        correlation = correlation or uuid_text(new_id())
        if resumed and earlier is None:
            earlier = self.left_open(correlation, header_text(name))
        named = not resumed and first_run(self.ledger, correlation)
        going_on = earlier.run_id if resumed and earlier is not None else None
        chosen = header_text(run_id) if run_id is not None else (correlation if named else going_on)
        run = ObservedRun(
            runtime=self.runtime,
            ledger=self.ledger,
            key=known,
            run_id=chosen or uuid_text(new_id()),
            native_run_id=None if native_run_id is None else str(native_run_id),
            correlation_id=correlation,
            agent=header_text(name) or "agent",
            parent=above,
            cause=self.cause,
            resumed=resumed,
            earlier=earlier,
        )
        self._runs[known] = run
        self.safe.runs_open += 1
        return run

    def run(self, key: object) -> ObservedRun | None:
        """The open run with that key."""
        return self._runs.get(str(key))

    def end(self, run: ObservedRun) -> None:
        """Say that nothing more happens in a run; twice does nothing."""
        if self._runs.pop(run.key, None) is None:
            return
        self.safe.runs_open -= 1
        _release(self.ledger, self.runtime, run.key, self)
        left = self._ended[run.correlation_id] = run.left()
        self._ended.move_to_end(run.correlation_id)
        if len(self._ended) > _ENDED_MAX:
            self._ended.popitem(last=False)
        self._waiting.pop((run.correlation_id, run.agent), None)
        if left.questions:
            self._waiting[run.correlation_id, run.agent] = left
            if len(self._waiting) > _ENDED_MAX:
                self._waiting.popitem(last=False)

    def end_open(self, reason: str) -> None:
        """Record of every open run that it was cancelled: nothing more can happen in it."""
        for run in reversed([*self._runs.values()]):
            self.record(run.cancelled(reason))
            self.end(run)

    def parent_here(self) -> Parent | None:
        """The recorded tool call, of whichever runtime, or the user's scope that the code of here and now runs in."""
        return parent_here(self.ledger) or self.above

    def left_open(self, correlation_id: str, agent: str | None = None) -> Earlier:
        """What the last run of a conversation left open, from memory, and where that does not do from the ledger.

        Of ``agent`` what a run of its own left that waits, where another agent's run came after that.
        """
        known = self._ended.get(correlation_id)
        waiting = None if agent is None else self._waiting.get((correlation_id, agent))
        if known is not None and waiting is not None and waiting.run_id != known.run_id:
            return waiting
        if known is not None and not known.questions and not known.calls:
            return known
        seconds = _ON_THE_LOOP_SECONDS_MAX if _on_a_loop() else self.safe.wait_seconds_max
        found = None if self.safe.kept else left_in(self.ledger, correlation_id, seconds, agent)
        return found or known or Earlier()

    async def aleft_open(self, correlation_id: str) -> Earlier:
        """As :meth:`left_open`, without blocking the event loop."""
        known = self._ended.get(correlation_id)
        if known is not None and not known.questions and not known.calls:
            return known
        found = None
        if not self.safe.kept:
            found = await aleft_in(self.ledger, correlation_id, self.safe.wait_seconds_max)
        return found or known or Earlier()

    # --- recording ----------------------------------------------------------------------------------------

    def record(self, *events: Event | None) -> None:
        """Record events as one batch; never raises. ``None`` among them is skipped.

        In a thread without an event loop they are durable when this returns, unless the store is not well. Called on
        an event loop it holds the loop up for a moment at most: what takes longer is recorded by another thread.
        """
        given = [event for event in events if event is not None]
        if given:
            self.safe.record(*given, seconds_max=_ON_THE_LOOP_SECONDS_MAX if _on_a_loop() else None)

    async def arecord(self, *events: Event | None) -> None:
        """As :meth:`record`, for coroutines: durable when it returns, and the loop goes on meanwhile."""
        given = [event for event in events if event is not None]
        if given:
            await self.safe.arecord(*given)

    def note(self, error: BaseException) -> None:
        """Count and log a mistake of the adapter itself."""
        self.safe.note(error)

    def guarded(self) -> AbstractContextManager[None]:
        """Around code of an adapter: its mistakes are counted and logged, and never reach the run."""
        return self._guarded

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything is recorded; ``False`` when that takes more than ``timeout`` seconds."""
        return self.safe.flush(timeout)


class _Guarded(AbstractContextManager[None]):
    """Keeps mistakes from the run; without a state of its own, so that one serves every block of every thread."""

    __slots__ = ("_safe",)

    def __init__(self, safe: SafeRecorder) -> None:
        self._safe = safe

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._safe.note(error)
        return True


def _on_a_loop() -> bool:
    return asyncio._get_running_loop() is not None


_lock = threading.Lock()
_claims: dict[tuple[object, str, str], weakref.ref[RuntimeRecorder]] = {}
_named: OrderedDict[tuple[object, str], None] = OrderedDict()


def which_ledger(ledger: Any) -> object:
    """What tells this ledger from others, also when it was opened twice."""
    try:
        return str(ledger.ledger_id)
    except Exception:
        return id(ledger)  # stays its own while a recorder of it is there


def _claim(ledger: Any, runtime: str, key: str, recorder: RuntimeRecorder) -> bool:
    """Whether this recorder may record the run: the first that asks may, and whoever else asks may not."""
    claim = (which_ledger(ledger), runtime, key)
    with _lock:
        holder = _claims.get(claim)
        if holder is not None and holder() is not None:
            return False
        _claims[claim] = weakref.ref(recorder, lambda gone: _forget(claim, gone))
    return True


def _release(ledger: Any, runtime: str, key: str, recorder: RuntimeRecorder) -> None:
    claim = (which_ledger(ledger), runtime, key)
    with _lock:
        holder = _claims.get(claim)
        if holder is not None and holder() is recorder:
            del _claims[claim]


def _forget(claim: tuple[object, str, str], gone: weakref.ref[RuntimeRecorder]) -> None:
    # No lock: a recorder may be collected while this very thread holds it.
    if _claims.get(claim) is gone:
        _claims.pop(claim, None)


def first_run(ledger: Any, correlation_id: str) -> bool:
    """Whether this process has begun no run under this correlation yet: then the run may carry its name."""
    named = (which_ledger(ledger), correlation_id)
    with _lock:
        if named in _named:
            return False
        _named[named] = None
        if len(_named) > _NAMED_MAX:
            _named.popitem(last=False)
        return True

"""Plays a story under one of the settings of the contract: recorded, by two, on ledgers that fail; each once."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import chatsnapshot
from chatsnapshot.projections.metricsreading import metrics_of
from chatsnapshot.testing.adaptercontract import ledgers
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, with_own_code
from chatsnapshot.testing.adaptercontract.history import History
from chatsnapshot.testing.expecting import Failed, expect

__all__ = ["FLUSH_SECONDS", "NOTE", "SETTINGS", "Played", "Stage"]

FLUSH_SECONDS = 30.0
NOTE = "execution.artifact"
"""What the contract records by itself in a tool."""
MEET_SECONDS_MAX = 1.0
HANG_WAIT_SECONDS = 0.2
"""How long a recorder may hold the run up when the ledger hangs."""
HANG_SECONDS_MAX = 10.0
SLOW_SECONDS = 0.03

Around = Callable[[Any], Any]

SETTINGS: dict[str, Around | None] = {
    "unrecorded": None,
    "recorded": ledgers.RememberingLedger,
    "two recorders": ledgers.RememberingLedger,
    "raises": ledgers.RaisingLedger,
    "hangs": lambda ledger: ledgers.HangingLedger(ledger, HANG_SECONDS_MAX),
    "is slow": lambda ledger: ledgers.SlowLedger(ledger, SLOW_SECONDS),
    "is closed before": lambda ledger: ledgers.ClosingLedger(ledger, 0),
    "is closed in the middle": lambda ledger: ledgers.ClosingLedger(ledger, 2),
    "loses answers": lambda ledger: ledgers.ForgetfulLedger(ledger, 2),
    "own code": ledgers.LedgerAround,
    "at once": ledgers.LedgerAround,
    "afterwards": ledgers.LedgerAround,
}
"""How a story is played: without a recorder, or with a recorder that has such a ledger."""


class Played:
    """One play: what the caller saw, and what the ledger holds after it."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.seconds = 0.0
        self.history = History([])
        self.given: list[list[Any]] = []
        """The batches that the ledger was given, as they were."""
        self.others: list[Outcome] = []
        """The outcomes of the further runs, when there were several at once."""
        self.notes = 0
        """How often the tool of the story let the contract record by itself."""
        self.refused: list[str] = []
        """Why that was refused."""
        self.late = 0
        """How many entries an unrecorded run afterwards added."""
        self.added_again = 0
        """How many entries the ledger had more when it was given all of them again."""
        self.flushed = True
        self.attached = True
        """Whether the bench asked which recorders to attach."""
        self.gave_up = False
        """Whether the hanging ledger had to let go by itself."""
        self.failures = self.dropped = self.kept = 0
        self.log: list[str] = []
        """What the adapter logged."""
        self.sound = True
        """Whether the ledger verifies."""
        self.tokens: tuple[int, int] | None = None
        """Input and output tokens by the ledger's own metrics."""

    def said(self) -> str:
        """What the adapter logged, for a message."""
        return "; ".join(self.log[:3])


class Stage:
    """Plays the stories of one bench, each of them once under each setting, on fresh ledgers at ``url``.

    ``url`` is called for each ledger, or is ``memory:``.
    """

    def __init__(self, bench: AdapterBench, url: str | Callable[[], str] = "memory:") -> None:
        self.bench = bench
        self._url = url
        self._played: dict[tuple[str, str], Played | str] = {}

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what the bench has started."""
        self.bench.close()

    def play(self, scenario: str, setting: str) -> Played:
        """The play of a story under a setting; raises :class:`Failed` where the bench raises besides its outcome."""
        key = (scenario, setting)
        if key not in self._played:
            try:
                self._played[key] = self._play(scenario, setting)
            except Exception:
                self._played[key] = (
                    f"the bench could not play {scenario} ({setting}):\n{traceback.format_exc()}"
                )
            told = self._played[key]
        else:
            told = f"the bench could not play {scenario} ({setting}), as told above"
        played = self._played[key]
        if isinstance(played, str):
            raise Failed(str(told))
        return played

    def done(self) -> list[tuple[str, str]]:
        """The plays that there were: story and setting."""
        return [key for key, played in self._played.items() if isinstance(played, Played)]

    def _play(self, scenario: str, setting: str) -> Played:
        around = SETTINGS[setting]
        if around is None:
            started = time.monotonic()
            played = Played(_outcome(self.bench.play(scenario, None)))
            played.seconds = time.monotonic() - started
            return played
        url = self._url if isinstance(self._url, str) else self._url()
        heard = _Heard()
        logger = logging.getLogger("chatsnapshot")
        logger.addHandler(heard)
        ledger = chatsnapshot.open(url, validation="strict")
        try:
            return self._recorded(scenario, setting, around(ledger), ledger, heard)
        finally:
            logger.removeHandler(heard)
            ledger.close()

    def _act(self, scenario: str, setting: str, recorder: Any, ledger: Any) -> Played:
        if setting == "at once":
            return _together(self.bench, scenario, recorder, 2)
        if setting != "own code":
            return Played(_outcome(self.bench.play(scenario, recorder)))
        errors: list[str] = []
        noted: list[int] = []

        def note() -> None:
            noted.append(1)
            try:
                ledger.record(NOTE, {"name": "note"})
            except Exception as error:
                errors.append(f"what the tool recorded by itself was refused: {error}")

        with with_own_code(note):
            played = Played(_outcome(self.bench.play(scenario, recorder)))
        played.notes, played.refused = len(noted), errors
        return played

    def _recorded(self, scenario: str, setting: str, given: Any, ledger: Any, heard: _Heard) -> Played:
        bench = self.bench
        recorder = bench.recorder(given)
        if setting == "hangs":
            recorder.safe.wait_seconds_max = HANG_WAIT_SECONDS
        bench.second = bench.recorder(given) if setting == "two recorders" else None
        bench.asked_for_recorders = False
        recorders = [one for one in (recorder, bench.second) if one is not None]
        started = time.monotonic()
        try:
            played = self._act(scenario, setting, recorder, given)
        finally:
            bench.second = None
        played.seconds = time.monotonic() - started
        played.attached = bench.asked_for_recorders
        if isinstance(given, ledgers.HangingLedger):
            played.gave_up = given.gave_up
            given.released.set()
        if isinstance(given, ledgers.RaisingLedger):
            given.broken = False
        closed = isinstance(given, ledgers.ClosingLedger)
        if not closed:
            played.flushed = all(_flush(one)(FLUSH_SECONDS) for one in recorders)
        if setting == "afterwards":
            before = ledger.head
            bench.play(scenario, None)
            _flush(recorder)(FLUSH_SECONDS)
            played.late = ledger.head - before
        played.failures = sum(one.safe.failures for one in recorders)
        played.dropped = sum(one.safe.dropped for one in recorders)
        played.kept = sum(one.safe.kept for one in recorders)
        played.log = heard.lines
        if not closed:
            played.history = History(list(ledger.read()))
            played.sound = ledger.verify().ok
            tokens = metrics_of(ledger).total.model.tokens
            played.tokens = (tokens.input, tokens.output)
        if setting == "recorded":
            played.given = given.given
            played.added_again = _again(ledger, given.given)
        return played


def _together(bench: AdapterBench, scenario: str, recorder: Any, number: int) -> Played:
    """Several runs at once, each on a thread of its own, with one recorder; in their tools they wait for each other."""
    ready, meeting = threading.Barrier(number), threading.Barrier(number)

    def one() -> Outcome:
        ready.wait(FLUSH_SECONDS)
        return _outcome(bench.play(scenario, recorder))

    def meet() -> None:
        try:
            meeting.wait(MEET_SECONDS_MAX)
        except threading.BrokenBarrierError:
            pass  # the other one came too late: then they overlap less

    with with_own_code(meet), ThreadPoolExecutor(number) as threads:
        first, *others = [run.result() for run in [threads.submit(one) for _ in range(number)]]
    played = Played(first)
    played.others = others
    return played


def _outcome(outcome: Any) -> Outcome:
    expect(isinstance(outcome, Outcome), f"play() gives an Outcome, not {type(outcome).__name__}")
    assert isinstance(outcome, Outcome)
    return outcome


def _flush(recorder: Any) -> Any:
    return getattr(recorder, "flush", recorder.safe.flush)


def _again(ledger: Any, given: list[list[Any]]) -> int:
    before = ledger.head
    for batch in given:
        ledger.record_many(batch)
    return int(ledger.head - before)


class _Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

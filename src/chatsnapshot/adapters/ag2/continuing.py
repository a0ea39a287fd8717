"""What a run that goes on after a kill takes over from its record: ids, causes, and what is recorded already."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from chatsnapshot.adapters.ag2.run import Run

__all__ = ["Continuation", "adopt", "adopted", "expect", "forget_expected", "take"]


@dataclass
class Continuation:
    """A recorded run that stopped without an end, as the next turn on its stream goes on with it."""

    ledger: Any
    correlation_id: str
    run_id: str
    cause: str
    """What the resumed run follows from: the question it waited for, or its last event."""
    agent: str
    calls: dict[str, str] = field(default_factory=dict)
    """Tool call id to the event of the call, for the calls that the turn goes on with."""
    answered: set[str] = field(default_factory=set)
    """Ids of those that have a result on record."""
    results: list[str] = field(default_factory=list)
    """The events of these results."""
    asked_by: str | None = None
    """The response that asked for the calls."""
    again: Any = None
    """The event that the turn begins with, where it is on record already."""

    def run(self) -> Run:
        """The run as it is recorded from here on: under the same name, for it is the same execution."""
        run = Run(
            ledger=self.ledger, correlation_id=self.correlation_id, agent=self.agent, run_id=self.run_id
        )
        run.continues, run.again, run.asked_by = self.cause, self.again, self.asked_by
        run.calls, run.answered, run.results = dict(self.calls), set(self.answered), list(self.results)
        return run


_ADOPTED_MAX = 10_000

_expected: dict[str, Continuation] = {}
_adopted: OrderedDict[str, tuple[weakref.ref[Any], str]] = OrderedDict()


def adopt(stream_id: str, ledger: Any, correlation_id: str) -> None:
    """Say that what happens on this stream belongs to the correlation that its history was read from."""
    _adopted[stream_id] = (weakref.ref(ledger), correlation_id)
    while len(_adopted) > _ADOPTED_MAX:
        _adopted.popitem(last=False)


def adopted(stream_id: str, ledger: Any) -> str | None:
    """The correlation of this ledger that a stream was read from."""
    known = _adopted.get(stream_id)
    return known[1] if known is not None and known[0]() is ledger else None


def expect(stream_id: str, continuation: Continuation) -> None:
    """Say that the next turn on this stream goes on with a recorded run."""
    _expected[stream_id] = continuation


def forget_expected(stream_id: str) -> None:
    """Say that it did, or never will."""
    _expected.pop(stream_id, None)


def take(stream_id: str, ledger: Any) -> Run | None:
    """The run that a turn on this stream goes on with, once."""
    known = _expected.get(stream_id)
    if known is None or known.ledger is not ledger:
        return None
    del _expected[stream_id]
    return known.run()

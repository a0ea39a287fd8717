"""Duty: whatever is done in whatever order, the store answers as a model in memory does."""

from __future__ import annotations

from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.checking import check
from chatsnapshot.testing.machine import run_histories


@check("histories")
def any_history_agrees_with_the_model(bench: Bench) -> None:
    run_histories(bench, histories=bench.rounds(24), seconds_max=40.0 * max(bench.thorough, 1))

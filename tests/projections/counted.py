"""A projection that remembers every entry it was given, and a program that runs it until it is killed."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

import chatsnapshot
from chatsnapshot.projections import engine, running
from chatsnapshot.projections.base import register


class Taken(msgspec.Struct):
    positions: list[int] = []


@register
class TakenProjection:
    name = "test_taken"
    version = 1

    def key(self, entry: Any) -> str:
        return f"by type {entry.event_type}"

    def initial(self) -> Taken:
        return Taken()

    def apply(self, state: Taken, entry: Any) -> Taken:
        state.positions.append(entry.position)
        return state


def small_steps() -> None:
    """Save often, so that there are many moments to be killed at."""
    running.BATCH_MIN = running.BATCH_MAX = 7


def main(url: str) -> None:
    small_steps()
    limits = chatsnapshot.Limits(page_entries_max=5)
    with chatsnapshot.open(url, create=False, limits=limits) as ledger:
        print("ready", flush=True)
        sys.stdin.readline()
        engine.run(ledger, [TakenProjection], progress=lambda done, whole: print(done, flush=True))
    print("over", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

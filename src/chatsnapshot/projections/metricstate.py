"""The state of the ``metrics`` projection: what was counted, by run, agent, day, model and tool."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from chatsnapshot.events.normaliser import ModelCall
from chatsnapshot.projections.latency import Sketch
from chatsnapshot.projections.pairing import Pairs
from chatsnapshot.projections.pricing import Used
from chatsnapshot.projections.runstate import RunsState

__all__ = ["TOKENS_MAX", "Cell", "MetricsState", "Waiting", "cell_key", "shape_of", "tokens_of", "used_of"]

TOKENS_MAX = 10_000_000_000
"""A count of tokens above this, or below 0, is not believed: it counts as unknown."""

_INPUT, _OUTPUT, _READ, _WRITE, _REASONING, _CACHE_OVER, _REASONING_OVER = (1 << bit for bit in range(7))


class Cell(msgspec.Struct, omit_defaults=True, gc=False):
    """What was counted of one run (its number), agent, day and model or tool.

    ``kind``: ``model``, ``tool`` or ``step``. ``shape`` tells which counts of tokens the model's calls know, so that a
    sum costs what its calls cost. ``counts`` and ``sketches`` are by name.
    """

    kind: str
    run: int
    agent: str | None
    day: str | None
    name: str | None = None
    provider: str | None = None
    shape: int = 0
    counts: dict[str, int] = {}
    sketches: dict[str, Sketch] = {}

    @property
    def key(self) -> str:
        """What tells the cell from others of its correlation."""
        return cell_key(self.kind, self.run, self.agent, self.day, self.name, self.provider, self.shape)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a count."""
        self.counts[name] = self.counts.get(name, 0) + more

    def took(self, name: str, ns: int | None) -> None:
        """Take in a duration; one that is not known is counted as that."""
        if ns is None:
            self.count(f"{name}.unknown")
        else:
            sketch = self.sketches.get(name)
            if sketch is None:
                sketch = self.sketches[name] = Sketch()
            sketch.add(ns)


@lru_cache(maxsize=1024)
def cell_key(
    kind: str,
    run: int,
    agent: str | None,
    day: str | None,
    name: str | None,
    provider: str | None,
    shape: int,
) -> str:
    """What tells a cell from others of its correlation."""
    return msgspec.json.encode((kind, run, agent, day, name, provider, shape)).decode()


class Waiting(msgspec.Struct, array_like=True, gc=False):
    """A call or question that waits for its end, or an end that waits for its start: its cell and its time."""

    cell: str
    at: str | None
    failed: bool = False


class MetricsState(msgspec.Struct, omit_defaults=True, gc=False):
    """The cells of one correlation by key, what waits by kind and number, and its runs as the ``runs`` view has them."""

    runs: RunsState = msgspec.field(default_factory=RunsState)
    cells: dict[str, Cell] = {}
    pairs: dict[str, Pairs] = {}
    waiting: dict[str, dict[int, Waiting]] = {}
    first_at: str | None = None
    last_at: str | None = None


def tokens_of(call: ModelCall) -> dict[str, int | None]:
    """The counts of a call that can be believed, by kind of token."""
    said = {
        "input": call.input_tokens,
        "output": call.output_tokens,
        "cache_read": call.cache_read_tokens,
        "cache_write": call.cache_write_tokens,
        "reasoning": call.reasoning_tokens,
    }
    return {
        kind: count if count is not None and 0 <= count <= TOKENS_MAX else None
        for kind, count in said.items()
    }


def shape_of(tokens: dict[str, int | None]) -> int:
    """Which counts are known, which kinds there are, and which contradict each other."""
    read, written = tokens["input"], tokens["output"]
    cached = (tokens["cache_read"] or 0) + (tokens["cache_write"] or 0)
    reasoning = tokens["reasoning"] or 0
    shape = 0
    for bit, holds in (
        (_INPUT, read is not None),
        (_OUTPUT, written is not None),
        (_READ, bool(tokens["cache_read"])),
        (_WRITE, bool(tokens["cache_write"])),
        (_REASONING, bool(reasoning)),
        (_CACHE_OVER, read is not None and cached > read),
        (_REASONING_OVER, written is not None and reasoning > written),
    ):
        shape |= bit if holds else 0
    return shape


def used_of(cell: Cell) -> Used:
    """The tokens of all calls of a cell, as a price table takes them."""
    counts, shape = cell.counts, cell.shape
    return Used(
        input=counts.get("tokens.input", 0) if shape & _INPUT else None,
        output=counts.get("tokens.output", 0) if shape & _OUTPUT else None,
        cache_read=counts.get("tokens.cache_read", 0),
        cache_write=counts.get("tokens.cache_write", 0),
        reasoning=counts.get("tokens.reasoning", 0),
        cache_over=bool(shape & _CACHE_OVER),
        reasoning_over=bool(shape & _REASONING_OVER),
    )

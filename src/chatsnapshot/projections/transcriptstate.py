"""The state of the ``transcript`` projection, and the transcript that readers get of it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chatsnapshot.projections.pairing import Pairs
from chatsnapshot.projections.shapes import Child, Item, Transcript
from chatsnapshot.projections.tools import ToolsState

__all__ = ["TranscriptState", "shape_transcript"]


class TranscriptState(msgspec.Struct, omit_defaults=True, gc=False):
    """The items so far, and what is needed to fold what comes with them.

    ``carried`` gives positions that an item took in besides its own: the number of the item by position, so that a
    child run hangs where its cause is shown.
    """

    correlation_id: str = ""
    cause: str | None = None
    late: str | None = None
    first_position: int = 0
    first_at: str = ""
    last_position: int = 0
    name: str | None = None
    items: list[Item] = []
    carried: dict[int, int] = {}
    tools: ToolsState = msgspec.field(default_factory=ToolsState)
    questions: Pairs | None = None
    open_runs: dict[str, str | None] = {}


def shape_transcript(
    state: TranscriptState, children: Mapping[str, tuple[int, str, Transcript]] | None = None
) -> Transcript:
    """The transcript of a state; ``children`` gives the cause's position, first time and transcript of each child."""
    after: dict[int, list[Item]] = {}
    for correlation, (position, at, transcript) in (children or {}).items():
        child = Child(
            position=transcript.first_position,
            sequence=1,
            at=at,
            correlation_id=correlation,
            cause_position=position,
            transcript=transcript,
        )
        after.setdefault(_place(state, position), []).append(child)
    items: list[Item] = list(after.get(-1, ())) if after else state.items
    for number, item in enumerate(state.items if after else ()):
        items.append(item)
        items.extend(after.get(number, ()))
    return Transcript(
        state.correlation_id, state.first_position, state.last_position, state.name, tuple(items)
    )


def _place(state: TranscriptState, position: int) -> int:
    """The number of the item after which something caused at ``position`` stands; -1 for before all."""
    if position in state.carried:
        return state.carried[position]
    found = -1
    for number, item in enumerate(state.items):
        if item.position > position:
            break
        found = number
    return found

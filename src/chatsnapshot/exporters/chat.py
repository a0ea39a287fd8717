"""Chat JSONL in the form that OpenAI's fine-tuning takes: one run a line, its messages and the tools it called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.exporters.base import Sink, Tally
from chatsnapshot.exporters.chatlines import Torn, chat_line
from chatsnapshot.exporters.choosing import JUDGED_OUT, Choice
from chatsnapshot.projections.base import fold
from chatsnapshot.projections.forest import owner_at
from chatsnapshot.projections.latest import newest
from chatsnapshot.projections.runs import RunsProjection
from chatsnapshot.projections.runstate import RunsState
from chatsnapshot.projections.shapes import Item, Transcript
from chatsnapshot.projections.transcript import TranscriptProjection

__all__ = ["Chat"]

ERASED = "runs with an erased payload"
ELSEWHERE = "runs with content that was withheld or moved to a blob"

_SPOKEN = ("execution.message", "execution.tool_call", "execution.tool_result")


class Chat:
    """A run that cannot be given whole is left out, and counted with the reason. One correlation is held in memory."""

    format = "chat"
    what = "runs as messages and tools for fine-tuning (OpenAI's chat form), one a line"
    unit = "runs"
    runs_only = True
    one_run = False
    text = True

    def write(self, choice: Choice, out: Sink, tally: Tally) -> None:
        """A line for each run, in the order in which the runs began."""
        wanted: dict[str, list[str]] = {}
        for run in choice.runs():
            wanted.setdefault(run.correlation_id, []).append(f"{run.kind}:{run.run_id}")
        if choice.judged_out:
            tally.left_out[JUDGED_OUT] = choice.judged_out
        for correlation in choice.each(list(wanted)):
            entries = list(newest(choice, choice.replay(correlation, until=choice.until)))
            state = fold(RunsProjection(), entries)
            flawed = dict(_flawed(entries))
            projection = TranscriptProjection()
            transcript = projection.result(fold(projection, entries))
            owned = _owned(transcript, state)
            reasons = {owner_at(state, position): reason for position, reason in reversed(flawed.items())}
            for key in wanted[correlation]:
                reason = reasons.get(key)
                if reason is None:
                    made = chat_line(owned.get(key, ()))
                    if not isinstance(made, Torn):
                        out.write(msgspec.json.encode(made) + b"\n")
                        tally.written += 1
                        continue
                    reason = made.reason
                tally.left_out[reason] += 1


def _flawed(entries: Iterable[LedgerEntry]) -> Iterator[tuple[int, str]]:
    """Positions of what was said whose content is not in its payload, and why."""
    for entry in entries:
        if entry.event_type not in _SPOKEN and b'"role"' not in (entry.payload_json or b""):
            continue
        stored = entry.payload_json
        if stored is None:
            yield entry.position, ERASED
        elif b'"$blob"' in stored or b'"$withheld"' in stored:
            yield entry.position, ELSEWHERE


def _owned(transcript: Transcript, state: RunsState) -> Mapping[str | None, list[Item]]:
    """The items of a transcript by the run that they belong to."""
    found: dict[str | None, list[Item]] = {}
    for item in transcript.items:
        found.setdefault(owner_at(state, item.position), []).append(item)
    return found

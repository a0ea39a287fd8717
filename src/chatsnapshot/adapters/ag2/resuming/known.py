"""What is known when a run of the classic line is to go on: answers, results, and the calls that are to be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.adapters.ag2.resuming.deciding import OpenCalls, decide, known_answers
from chatsnapshot.adapters.ag2.resuming.reading import Recorded
from chatsnapshot.adapters.ag2.resuming.talks import Talk
from chatsnapshot.adapters.ag2.saving.opencalls import OpenCall, Results
from chatsnapshot.errors import InvalidEvent

__all__ = ["Known", "what_is_known"]


class Known(msgspec.Struct, frozen=True):
    """Answers by question id; results that were decided on, by call id; all results; the calls without any."""

    answers: Any
    decided: dict[str, Any]
    results: Results
    open_calls: list[OpenCall]


def what_is_known(recorded: Recorded, talk: Talk, open_calls: OpenCalls, answers: Mapping[str, Any]) -> Known:
    """What the record and the caller say together; raises :class:`InvalidEvent` for a run in which nothing was said."""
    decided = decide(open_calls, talk.open_calls)
    known = known_answers(talk.questions, answers)
    if not talk.said:
        raise InvalidEvent(
            f"nothing of run {recorded.run_id!r} but its start is on record; begin the chat anew"
        )
    results = {call_id: result.text for call_id, result in talk.results.items()} | decided
    waiting = [call for call in talk.open_calls if call.call_id not in decided]
    return Known(known, decided, Results(results, None, []), waiting)

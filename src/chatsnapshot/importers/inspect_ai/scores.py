"""How an Inspect sample was judged: each score once, whether a step tells of it or the sample alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.importers.base import Piece, name_text
from chatsnapshot.importers.chatrun import ChatRun, digest

__all__ = ["Scores", "judgement"]


class Scores:
    """``given`` are the scores of the sample, by scorer."""

    def __init__(self, run: ChatRun, offset: int, given: object) -> None:
        self._run = run
        self._offset = offset
        self._given = dict(given) if isinstance(given, Mapping) else {}

    def step(self, event: Mapping[str, Any], scorer: str | None, at: str | None) -> Iterator[Piece]:
        """A step of scoring; the final one of a scorer is the sample's own score."""
        score = event.get("score")
        if not isinstance(score, Mapping):
            return
        same = (one for one, value in self._given.items() if value == score)
        name = scorer if scorer in self._given else next(same, scorer)
        if not event.get("intermediate"):
            self._given.pop(name, None)
        yield from self._judged(name, score, event.get("target"), bool(event.get("intermediate")), at)

    def rest(self, at: str | None) -> Iterator[Piece]:
        """Scores that no step told of."""
        for name, score in self._given.items():
            if isinstance(score, Mapping):
                yield from self._judged(name, score, None, False, at)

    def _judged(
        self, name: object, score: Mapping[str, Any], target: Any, intermediate: bool, at: str | None
    ) -> Iterator[Piece]:
        value, scorer = score.get("value"), name_text(name) or "score"
        values = value.items() if isinstance(value, Mapping) else [(None, value)]
        for part, one in values:
            payload: dict[str, Any] = {
                "run_id": self._run.correlation_id,
                "name": scorer if part is None else f"{scorer}/{part}",
                "comment": score.get("explanation"),
                "evaluator": scorer,
                "native": {"score": score, "target": target, "intermediate": intermediate},
            }
            payload |= judgement(one)
            # Other values are another judgement, so that a log that was scored again adds the new ones.
            yield self._run.event(
                self._offset, "execution.evaluation", f"score {digest(payload)}", payload,
                origin="system", name=scorer, at=at, cause=self._run.id_of("start"), follow=False,
            )  # fmt: skip


def judgement(value: Any) -> dict[str, Any]:
    """A value as a score where it is a number, else as a label."""
    if isinstance(value, (bool, int, float)):
        return {"score": value}
    return {"label": value if isinstance(value, str) else json.dumps(value)[:200]}

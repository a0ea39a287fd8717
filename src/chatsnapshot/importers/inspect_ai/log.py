"""Reads an Inspect log, a ZIP archive (``.eval``) or JSON: the evaluation as a run, its samples as the runs below it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.chatrun import ChatRun, digest, moment, usage_of
from chatsnapshot.importers.inspect_ai.sample import SampleRun
from chatsnapshot.importers.inspect_ai.scores import judgement
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.zipmembers import has_directory, members_of

__all__ = ["InspectLogs"]

RUNTIME = "inspect"
_HEADER, _START = "header.json", "_journal/start.json"
_SAMPLE = re.compile(r"samples/.*\.json")
_FIRST = re.compile(
    rb"PK\x03\x04.{26}(?:_journal/|header\.json|summaries\.json|samples/[^\x00]{1,200}?\.json)", re.DOTALL
)
_ENDS = {"success": "completed", "error": "failed", "cancelled": "cancelled"}


class _Sample(NamedTuple):
    """One sample as it was found: where, what is whole of it, and whether that is all."""

    offset: int
    facts: Mapping[str, Any]
    whole: bool


class InspectLogs:
    """Reads one log; the archive and its JSON form give the same events."""

    kind = "inspect"
    what = "an Inspect evaluation log (.eval or .json)"

    def looks_like(self, head: bytes) -> float:
        """By the names of the archive's members, or the keys that every log begins with."""
        if head.startswith(b"PK"):
            return 1.0 if _FIRST.match(head) else 0.0
        members = read_object(head).members
        if members.keys() >= {"version", "status", "eval"} and isinstance(members["eval"], Mapping):
            return 1.0
        return 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The evaluation's start, each sample as a run below it, the evaluation's scores and its end."""
        if data.startswith(b"PK"):
            yield from _archive(data)
            return
        document = read_object(data)
        if document.problem is not None:
            yield document.problem
        given = document.members.get("samples")
        places = document.offsets.get("samples", [])
        samples: list[_Sample | Problem] = []
        for number, item in enumerate(given if isinstance(given, list) else ()):
            if isinstance(item, Mapping):
                samples.append(_Sample(places[number], item, True))
            else:
                samples.append(Problem(places[number], f"sample {number} is no object"))
        if document.object and not isinstance(document.members.get("eval"), Mapping):
            yield Problem(0, "there is no 'eval'")
            return
        if document.object:
            yield from _evaluation(document.members, 0, iter(samples), len(data), document.problem is None)


def _archive(data: bytes) -> Iterator[Piece | Problem]:
    facts: dict[str, Any] = {}
    at = 0
    whole = True
    if not has_directory(data):
        yield Problem(len(data), "the archive is cut off: its directory is missing")
    for member in members_of(data, {_HEADER, _START}.__contains__):
        document = read_object(member.data)
        told = member.problem or (document.problem.reason if document.problem else None)
        if told is not None:
            yield Problem(member.offset, f"{member.name} {told}")
            whole = whole and member.name != _HEADER
        facts |= document.members
        if member.name == _START:
            at = member.offset
    if not isinstance(facts.get("eval"), Mapping):
        yield Problem(0, "there is no header.json or _journal/start.json that names the evaluation")
        return
    yield from _evaluation(facts, at, _samples(data), len(data), whole)


def _samples(data: bytes) -> Iterator[_Sample | Problem]:
    for member in members_of(data, lambda name: _SAMPLE.fullmatch(name) is not None):
        document = read_object(member.data) if member.data else None
        told = member.problem or (document.problem.reason if document and document.problem else None)
        if told is not None:
            yield Problem(member.offset, f"{name_text(member.name, 200)} {told}")
        if document is not None and "id" in document.members:
            yield _Sample(member.offset, document.members, document.problem is None)


def _evaluation(
    facts: Mapping[str, Any], start: int, samples: Iterator[_Sample | Problem], end: int, whole: bool
) -> Iterator[Piece | Problem]:
    told = facts["eval"]
    run = ChatRun(f"inspect-{_name(told.get('eval_id'), 64) or digest(told)}", RUNTIME)
    model, task = name_text(told.get("model")), name_text(told.get("task"))
    packages = told.get("packages")
    plan = facts.get("plan")
    started = {
        "name": task,
        "session": name_text(told.get("run_id")),
        "tags": [one for one in ("inspect", task) if one],
        "version": name_text(packages.get("inspect_ai")) if isinstance(packages, Mapping) else None,
        "native": {"format": "inspect", "eval": told, "plan": plan},
    }
    yield run.event(
        start, "execution.run_started", "start", started, origin="system", name=task, at=moment(told.get("created"))
    )  # fmt: skip
    counted = False
    for sample in samples:
        if isinstance(sample, Problem):
            yield sample
            continue
        below = SampleRun(run, sample.offset, sample.facts, sample.whole, task, model)
        yield from below.pieces()
        counted = counted or below.counted
    stats = facts.get("stats")
    stats = stats if isinstance(stats, Mapping) else {}
    at = moment(stats.get("completed_at"))
    if not counted and whole:
        yield from _usage(run, end, stats.get("model_usage"), at)
    yield from _metrics(run, end, facts.get("results"), at)
    ended = _ENDS.get(str(facts.get("status")))
    if ended is None or not whole:
        return
    error = facts.get("error")
    payload: dict[str, Any] = {"native": {"stats": stats}}
    if ended == "completed":
        payload["status"] = "success"
    elif isinstance(error, Mapping):
        payload["error"] = {"message": error.get("message")}
        payload["native"]["error"] = error
    elif ended == "failed":
        payload["reason"] = "error"
    yield run.event(end, f"execution.run_{ended}", "end", payload, origin="system", name=task, at=at)


def _usage(run: ChatRun, offset: int, given: object, at: str | None) -> Iterator[Piece]:
    """The tokens of each model together, of a log that tells of no single call."""
    for model, one in given.items() if isinstance(given, Mapping) else ():
        if (usage := usage_of(one)) is not None:
            call = {
                "model": name_text(model),
                "usage": usage,
                "purpose": "all calls of the evaluation together: the log has no more",
            }
            yield run.event(offset, "execution.model_call", f"models {model}", call, at=at, follow=False)


def _metrics(run: ChatRun, offset: int, results: object, at: str | None) -> Iterator[Piece]:
    """What the samples came to, of each scorer and metric."""
    scores = results.get("scores") if isinstance(results, Mapping) else None
    for score in scores if isinstance(scores, list) else ():
        metrics = score.get("metrics") if isinstance(score, Mapping) else None
        for name, metric in metrics.items() if isinstance(metrics, Mapping) else ():
            if not isinstance(metric, Mapping):
                continue
            scorer = name_text(score.get("name"))
            payload = {
                "run_id": run.correlation_id,
                "name": "/".join(filter(None, (scorer, name_text(name)))),
                **judgement(metric.get("value")),
                "evaluator": name_text(score.get("scorer")) or scorer,
                "kind": "code",
                "native": {
                    "score": {key: value for key, value in score.items() if key != "metrics"},
                    "metric": metric,
                },
            }
            # Other values are another judgement, so that a log that was scored again adds the new ones.
            yield run.event(
                offset, "execution.evaluation", f"metric {digest(payload)}", payload,
                origin="system", name=scorer, at=at, cause=run.id_of("start"), follow=False,
            )  # fmt: skip


def _name(value: object, chars_max: int) -> str | None:
    """An id as part of another: as it is where it is plain and short."""
    text = name_text(value, chars_max)
    return text if text and text == value and re.fullmatch(r"[\w.~-]+", text) and text.strip(".") else None

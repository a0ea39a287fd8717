"""An Inspect log becomes the run of the evaluation and a run below it for each sample; archive and JSON say the same."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.clock import parse_time
from chatsnapshot.importers import guess

ARCHIVE, DOCUMENT = "log_read_sample.eval", "log_tool_call_error.json"


def of_type(entries: list[Any], name: str) -> list[Any]:
    return [entry for entry in entries if entry.event_type.rpartition(".")[2] == name]


def read_archive(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return header, [json.loads(archive.read(name)) for name in names]


def test_a_real_archive_gives_what_an_independent_reader_finds_in_it(
    take: Any, strict: Any, shared_data: Path
) -> None:
    path = shared_data / "inspect" / ARCHIVE
    header, (sample,) = read_archive(path)
    report, entries = take(path, redact=None)
    assert (report.kind, report.stored, report.problems) == ("inspect", len(entries), ())
    evaluation, below = report.correlations
    assert evaluation == f"inspect-{header['eval']['eval_id']}"
    (outer,) = strict.view("runs", evaluation).runs[:1]
    assert (outer.name, outer.status, outer.started_at) == (
        "popularity",
        "completed",
        "2025-07-05T13:59:48.000000Z",
    )
    metrics = {
        f"{one['name']}/{name}": metric["value"]
        for one in header["results"]["scores"]
        for name, metric in one["metrics"].items()
    }
    assert {one.name: one.score for one in outer.evaluations} == metrics
    inside = [entry for entry in entries if entry.correlation_id == below]
    assert [(one.payload["role"], one.payload["content"]) for one in of_type(inside, "message")] == [
        (one["role"], one["content"]) for one in sample["messages"]
    ]
    (call,) = of_type(inside, "model_call")
    (event,) = (one for one in sample["events"] if one["event"] == "model")
    assert parse_time(call.timestamp) == parse_time(event["completed"])
    assert parse_time(call.payload["started_at"]) == parse_time(event["timestamp"])
    tokens = strict.view("metrics", evaluation).total.model.tokens
    (usage,) = header["stats"]["model_usage"].values()
    assert (tokens.input, tokens.output, tokens.unknown_calls) == (
        usage["input_tokens"],
        usage["output_tokens"],
        0,
    )
    (run,) = strict.view("runs", below).runs
    assert [(one.name, one.label, one.comment) for one in run.evaluations] == [
        (name, one["value"], one["explanation"]) for name, one in sample["scores"].items()
    ]
    assert parse_time(run.ended_at) == parse_time(sample["events"][-1]["timestamp"])
    first = inside[0]
    assert (first.event_type, first.causation_id) == ("execution.run_started", entries[0].event_id)
    assert first.payload["native"]["target"] == sample["target"]


def test_the_json_form_of_an_archive_adds_nothing(
    take: Any, write: Callable[..., Path], shared_data: Path
) -> None:
    path = shared_data / "inspect" / ARCHIVE
    header, samples = read_archive(path)
    first, _ = take(path)
    again, _ = take(write({**header, "samples": samples}, "same.json"))
    assert (again.kind, again.stored, again.known, again.problems) == ("inspect", 0, first.stored, ())


def test_a_real_json_log_without_a_transcript_is_told_by_its_messages(
    take: Any, strict: Any, shared_data: Path
) -> None:
    path = shared_data / "inspect" / DOCUMENT
    log = json.loads(path.read_text(encoding="utf-8"))
    report, entries = take(path, redact=None)
    assert (report.kind, report.problems) == ("inspect", ())
    told = log["samples"][0]["messages"]
    results = of_type(entries, "tool_result")
    assert [(one.payload["call_id"], one.payload["result"], one.payload["error"]) for one in results] == [
        (one["tool_call_id"], one["content"], f"{one['error']['type']}: {one['error']['message']}")
        for one in told
    ]
    tokens = strict.view("metrics", report.correlations[0]).total.model.tokens
    usage = log["stats"]["model_usage"]["..."]
    assert (tokens.input, tokens.output) == (usage["input_tokens"], usage["output_tokens"])
    (run,) = strict.view("runs", report.correlations[1]).runs
    assert (run.status, run.errors.tool, run.started_at) == ("completed", len(told), None)


def test_a_log_that_has_grown_adds_what_is_new(
    take: Any, write: Callable[..., Path], sample: Any, packed: Any, header: Any
) -> None:
    first, _ = take(write(packed(header, [sample], ended=False), "started.eval"))
    assert first.problems == ()
    other = {**sample, "id": "lamp/2"}
    again, entries = take(write(packed(header, [sample, other]), "ended.eval"))
    assert (again.problems, again.known) == ((), first.stored)
    assert len(again.correlations) == 3
    assert len(of_type(entries, "run_completed")) == 3


@pytest.mark.parametrize(
    ("status", "event"), [("error", "run_failed"), ("cancelled", "run_cancelled"), ("started", None)]
)
def test_the_status_of_the_evaluation_is_how_its_run_ends(
    take: Any, write: Callable[..., Path], status: str, event: str | None, header: Any
) -> None:
    error = {"message": "no lamp", "traceback": "…"}
    _, entries = take(write({**header, "status": status, "error": error, "samples": []}))
    ends = [
        entry
        for entry in entries
        if entry.event_type.startswith("execution.run_") and "started" not in entry.event_type
    ]
    assert [one.event_type for one in ends] == ([f"execution.{event}"] if event else [])
    if event:
        assert ends[0].payload["error"] == {"message": "no lamp"}


def test_a_torn_json_log_gives_the_samples_that_are_whole(
    take: Any, write: Callable[..., Path], sample: Any, header: Any
) -> None:
    data = json.dumps({**header, "samples": [sample, {**sample, "id": "lamp/2"}]}).encode()
    report, entries = take(write(data[:-300]))
    (problem,) = report.problems
    assert "the file is cut off in item 1 of 'samples'" in problem.reason
    assert data[problem.offset :].startswith(b'{"id": "lamp/2"')
    assert len(report.correlations) == 2
    assert not [
        one for one in of_type(entries, "run_completed") if one.correlation_id == report.correlations[0]
    ]


def test_a_torn_archive_gives_the_samples_that_are_whole_and_a_part_of_the_torn_one(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any, packed: Any, header: Any
) -> None:
    other = {**sample, "id": "lamp/2"}
    data = packed(header, [sample, other], method=zipfile.ZIP_STORED)
    report, _ = take(write(data[: data.index(b'"5 and 9"', data.index(b"lamp/2_epoch"))], "torn.eval"))
    assert [one.endswith("-partial") for one in report.correlations] == [False, False, True]
    assert any(
        "samples/lamp/2_epoch_2.json" in one.reason and "cut off" in one.reason for one in report.problems
    )
    statuses = [strict.view("runs", one).runs[0].status for one in report.correlations]
    assert statuses == ["unfinished", "completed", "unfinished"]


def test_an_archive_of_others_and_one_without_an_evaluation(
    take: Any, write: Callable[..., Path], packed: Any
) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    with pytest.raises(Exception, match="looks like a ZIP archive"):
        guess(write(stream.getvalue(), "x.docx"))
    report, entries = take(write(packed({"version": 2}, []), "empty.eval"))
    assert ("there is no header.json" in report.problems[0].reason, entries) == (True, [])

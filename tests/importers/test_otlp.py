"""OTLP files: every span and record of real files and of our own export, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.importers import guess, import_file


def found_in(path: Path, key: str) -> list[dict[str, Any]]:
    """All objects in lists named ``key``, wherever they are: read without the importer."""
    found: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(value.get(key, []))
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    text = path.read_text()
    try:
        look(json.loads(text))
    except json.JSONDecodeError:
        for line in text.splitlines():
            look(json.loads(line))
    return found


def test_every_span_of_a_real_file(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "otlp" / "trace.json"
    spans = found_in(path, "spans")
    with chatsnapshot.open("memory:") as ledger:
        report = import_file(ledger, path)
        assert (report.kind, report.problem_count) == ("otlp", 0)
        entries = list(ledger.read())
        assert import_file(ledger, path).known == len(entries)
        assert ledger.verify().ok
    assert {entry.attributes["span_id"] for entry in entries} == {span["spanId"].lower() for span in spans}
    assert [entry.event_type for entry in entries] == ["integration.api_triggered"]
    native = entries[0].payload["native"]
    assert native["attributes"] == {"my.span.attr": "some value"}
    assert native["scope"]["attributes"] == {"my.scope.attribute": "some scope attribute"}


@pytest.mark.parametrize("name", ["logs.json", "events.json"])
def test_every_record_of_real_logs(shared_data: Path, name: str) -> None:
    path = shared_data / "otlp" / name
    records = found_in(path, "logRecords")
    with chatsnapshot.open("memory:") as ledger:
        assert import_file(ledger, path).stored == len(records) > 0
        assert {entry.event_type for entry in ledger.read()} == {"otel.log"}
        bodies = [entry.payload["body"] for entry in ledger.read()]
    if name == "logs.json":
        assert bodies == ["Example log record"]


def test_metrics_are_named_and_not_taken(shared_data: Path) -> None:
    with pytest.raises(chatsnapshot.InvalidEvent, match="OpenTelemetry metrics"):
        guess(shared_data / "otlp" / "metrics.json")


def exported(path: Path) -> None:
    """Two runs of our own, as ``chatsnapshot export otlp`` writes them: a trace a line."""
    from chatsnapshot.exporters.exporting import export

    with chatsnapshot.open("memory:") as ledger:
        for name in ("one", "two"):
            with ledger.run(correlation_id=name, name=name) as run:
                run.record(
                    "execution.model_call", {"model": "m", "usage": {"input_tokens": 3, "output_tokens": 2}}
                )
                run.record("execution.tool_call", {"name": "look", "call_id": "c1", "arguments": {"id": 7}})
                run.record("execution.tool_result", {"name": "look", "call_id": "c1", "result": "ok"})
        export(ledger, path, "otlp")


def test_what_was_exported_comes_back_as_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    exported(path)
    spans = found_in(path, "spans")
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        report = import_file(ledger, path, "otlp")
        assert report.problem_count == 0, report.problems
        runs = ledger.view("runs")
        assert [(run.name, run.status, run.tool_calls, run.model_calls) for run in runs] == [
            ("one", "completed", 1, 1),
            ("two", "completed", 1, 1),
        ]
        assert len({entry.attributes.get("span_id") for entry in ledger.read()} - {None}) == len(spans)


def test_a_line_that_is_cut_off_is_a_problem_and_the_others_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    exported(path)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:-40])
    with chatsnapshot.open("memory:") as ledger:
        report = import_file(ledger, path, "otlp")
        (problem,) = report.problems
        assert len(first) <= problem.offset < len(first + second) - 40
        assert report.correlations[0] == "one"


def test_a_document_that_is_cut_off_gives_its_whole_spans_and_the_whole_one_later_the_rest(
    tmp_path: Path,
) -> None:
    path, spans = tmp_path / "runs.json", 0
    exported(path)
    whole = json.loads(path.read_bytes().splitlines()[0])
    text = json.dumps(whole, indent=1).encode()
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        for cut in range(0, len(text), 97):
            path.write_bytes(text[: len(text) - 1 - cut])
            report = import_file(ledger, path, "otlp") if cut < len(text) - 200 else None
            if report is not None:
                (problem,) = report.problems
                assert problem.offset == 0 or text[: problem.offset].endswith(b"}")
                spans = max(spans, report.stored + report.known)
        path.write_bytes(text)
        again = import_file(ledger, path, "otlp")
        assert (again.problem_count, again.known >= spans > 0) == (0, True)
        assert [(run.status, run.tool_calls, run.model_calls) for run in ledger.view("runs")] == [
            ("completed", 1, 1)
        ]
        tokens = ledger.view("metrics").total.model.tokens
        assert (tokens.input, tokens.output) == (3, 2)


def test_hostile_values_are_kept_as_data_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "\ud800",
        "unknown": {"a": 1},
    }
    bad = [
        "no object",
        5,
        {"traceId": "zz"},
        {**span, "attributes": [{"key": "k", "value": {"stringValue": "\ud800"}}, 7]},
    ]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span, *bad]}]}], "more": [1]}
    path.write_bytes(json.dumps(document).encode() + b"\n17\n[1]\n" + json.dumps(document).encode())
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        report = import_file(ledger, path, "otlp")
        assert report.stored == 1
        assert report.problem_count >= 5
        assert import_file(ledger, path, "otlp").stored == 0

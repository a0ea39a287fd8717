"""OTLP: spans inside each other as the runs were, fixed ids, times as text, read by OpenTelemetry's own classes."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.exporters import export

Lines = Callable[..., list[Any]]


def spans_of(line: Any) -> dict[str, dict[str, Any]]:
    """The spans of one trace by name."""
    (resource,) = line["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return {span["name"]: span for span in scope["spans"]}


def facts(one: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in one["attributes"]}


def test_spans_stand_inside_each_other_as_the_runs_were(story: Any, lines: Lines) -> None:
    (line,) = lines(story, "otlp")
    spans = spans_of(line)
    run, tool, child = (
        spans[name] for name in ("invoke_agent triage", "execute_tool search", "invoke_agent read table")
    )
    assert "parentSpanId" not in run
    assert tool["parentSpanId"] == run["spanId"]
    assert child["parentSpanId"] == tool["spanId"]
    assert spans["chat m-1"]["parentSpanId"] == run["spanId"]
    assert {span["traceId"] for span in spans.values()} == {run["traceId"]}
    assert [event["name"] for event in run["events"]] == [
        "execution.message",
        "execution.message",
        "gen_ai.evaluation.result",
    ]


def test_ids_and_times_have_the_form_of_otlp_json(story: Any, lines: Lines) -> None:
    (line,) = lines(story, "otlp")
    for span in spans_of(line).values():
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert isinstance(span["startTimeUnixNano"], str)
        assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])


def test_a_model_call_lies_before_its_event_by_its_duration(story: Any, lines: Lines) -> None:
    (line,) = lines(story, "otlp")
    span = spans_of(line)["chat m-1"]
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == 500_000_000
    assert span["kind"] == 3
    assert facts(span)["gen_ai.usage.input_tokens"] == "5"
    assert facts(span)["gen_ai.provider.name"] == "p"


def test_failures_are_the_status(story: Any, lines: Lines) -> None:
    (line,) = lines(story, "otlp")
    (resource,) = line["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    assert [span["status"] for span in spans if "status" in span] == [{"code": 2, "message": "no answer"}]


def test_a_run_without_an_end_lasts_until_its_last_event_and_says_so(
    tell: Any, ledger: Any, lines: Lines
) -> None:
    tell("execution.run_started", {"name": "torn"})
    tell("execution.tool_call", {"name": "dig", "call_id": "c"})
    tell("execution.message", {"role": "assistant", "content": "wait"})
    (line,) = lines(ledger, "otlp")
    for span in spans_of(line).values():
        assert facts(span)["chatsnapshot.unfinished"] is True
        assert span["endTimeUnixNano"].endswith("63000000000")


def test_clocks_that_disagree_give_no_negative_length(ledger: Any, lines: Lines) -> None:
    for kind, second in (("run_started", 30), ("run_completed", 10)):
        ledger.record(
            f"execution.{kind}", {}, correlation_id="run-1", timestamp=f"2026-11-30T02:26:{second}.000000Z"
        )
    (line,) = lines(ledger, "otlp")
    (span,) = spans_of(line).values()
    assert span["startTimeUnixNano"] == span["endTimeUnixNano"]
    assert facts(span)["chatsnapshot.clocks_disagree"] is True


def test_events_without_a_run_are_held_by_a_span_of_their_own(tell: Any, ledger: Any, lines: Lines) -> None:
    tell("ui.interaction", {"element": "button"}, "clicks")
    tell("execution.tool_call", {"name": "dig", "call_id": "c"}, "clicks")
    (line,) = lines(ledger, "otlp")
    spans = spans_of(line)
    assert spans["execute_tool dig"]["parentSpanId"] == spans["events clicks"]["spanId"]
    assert [event["name"] for event in spans["events clicks"]["events"]] == ["ui.interaction"]


def test_a_tool_inside_a_task_stands_inside_its_span(tell: Any, ledger: Any, lines: Lines) -> None:
    tell("execution.run_started", {})
    task = tell("system.task_started", {"task_id": "t", "name": "brew"})
    tell("execution.tool_call", {"name": "dig", "call_id": "c"}, causation_id=task)
    (line,) = lines(ledger, "otlp")
    spans = spans_of(line)
    assert spans["execute_tool dig"]["parentSpanId"] == spans["task brew"]["spanId"]


def test_a_recorded_trace_becomes_a_link(tell: Any, ledger: Any, lines: Lines) -> None:
    link = {"trace_id": "ab" * 16, "span_id": "cd" * 8}
    tell("execution.run_started", {}, attributes=link)
    (line,) = lines(ledger, "otlp")
    (span,) = spans_of(line).values()
    assert span["links"] == [{"traceId": "ab" * 16, "spanId": "cd" * 8}]


def test_each_root_is_a_line_and_a_child_is_with_its_parent(story: Any, tell: Any, lines: Lines) -> None:
    tell("execution.run_started", {"name": "other"}, "run-2")
    assert [len(spans_of(line)) for line in lines(story, "otlp")] == [4, 1]  # two tools have one name
    assert len(lines(story, "otlp", runs=["child-1"])) == 1
    assert len(lines(story, "otlp", runs=["run-1", "child-1"])) == 1
    assert len(lines(story, "otlp", evaluation="correctness>=0.8")) == 1
    assert lines(story, "otlp", evaluation="correctness>0.95") == []


def test_what_has_no_known_time_is_left_out_and_counted(tell: Any, ledger: Any, timeless: Any) -> None:
    native = {"native": {"time": "unknown"}}
    tell("execution.run_started", native, "old-1")
    tell("execution.run_completed", native, "old-1")
    report = export(ledger, io.BytesIO(), "otlp")
    assert report.written == 0
    assert report.left_out == {"span events whose time is unknown": 2, "spans whose time is unknown": 1}


def test_opentelemetry_reads_the_lines(story: Any, lines: Lines) -> None:
    trace_pb2 = pytest.importorskip(
        "opentelemetry.proto.trace.v1.trace_pb2", reason="needs opentelemetry-proto (make test-runtimes)"
    )
    json_format = pytest.importorskip("google.protobuf.json_format")
    (line,) = lines(story, "otlp")
    # In OTLP JSON ids are hexadecimal; protobuf's own JSON has base64.
    text = re.sub(
        r'"(traceId|spanId|parentSpanId)": "([0-9a-f]+)"',
        lambda found: f'"{found[1]}": "{base64.b64encode(bytes.fromhex(found[2])).decode()}"',
        json.dumps(line),
    )
    read = json_format.Parse(text, trace_pb2.TracesData())
    spans = read.resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans] == [
        "invoke_agent triage", "execute_tool search", "execute_tool search", "invoke_agent read table", "chat m-1",
    ]  # fmt: skip
    assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans)
    assert spans[0].end_time_unix_nano - spans[0].start_time_unix_nano == 11 * 10**9

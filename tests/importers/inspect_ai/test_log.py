"""An Inspect log becomes the run of the evaluation and a run below it for each sample; archive and JSON say the same."""

from __future__ import annotations

import copy
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


def packed(
    header: Any, samples: list[Any], *, method: int = zipfile.ZIP_DEFLATED, ended: bool = True
) -> bytes:
    """An archive as Inspect writes it: a journal at the start, the header at the end."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        start = {key: header[key] for key in ("version", "eval", "plan") if key in header}
        archive.writestr("_journal/start.json", json.dumps(start))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        if ended:
            archive.writestr("header.json", json.dumps(header))
    return stream.getvalue()


HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_id": "E1",
        "run_id": "R1",
        "created": "2026-01-02T03:04:05+01:00",
        "task": "lamps",
        "model": "acme/large-2",
    },
    "plan": {"name": "plan", "steps": []},
    "results": {
        "scores": [
            {"name": "match", "scorer": "match", "metrics": {"accuracy": {"name": "accuracy", "value": 0.5}}}
        ]
    },
    "stats": {
        "completed_at": "2026-01-02T03:05:00+01:00",
        "model_usage": {"acme/large-2": {"input_tokens": 30, "output_tokens": 5}},
    },
}


def at(second: float) -> str:
    return f"2026-01-02T02:04:{second:09.6f}+00:00"


def model(second: float, given: list[Any], message: Any, **more: Any) -> dict[str, Any]:
    choices = [] if message is None else [{"message": message, "stop_reason": "stop"}]
    output = {"model": "large-2", "choices": choices, "usage": {"input_tokens": 15, "output_tokens": 2}}
    return {
        "event": "model",
        "model": "acme/large-2",
        "timestamp": at(second),
        "completed": at(second + 1),
        "input": given,
        "output": output,
        "span_id": "s1",
        **more,
    }


def tool(second: float, call_id: str, took: float, **more: Any) -> dict[str, Any]:
    return {
        "event": "tool",
        "id": call_id,
        "function": "add",
        "arguments": {"a": 2},
        "result": "5",
        "timestamp": at(second),
        "completed": at(second + took),
        "span_id": "s1",
        **more,
    }


@pytest.fixture
def sample() -> dict[str, Any]:
    """A sample with two tool calls at once of which the first takes longer, and a sub-agent inside of the second."""
    user = {"id": "m1", "role": "user", "content": "attachment://abc"}
    calls = [
        {"id": one, "function": "add", "arguments": {"a": 2}, "type": "function"} for one in ("c1", "c2")
    ]
    asked = {"id": "m2", "role": "assistant", "content": "I add.", "tool_calls": calls}
    told = [
        {"id": f"t{n}", "role": "tool", "content": "5", "tool_call_id": f"c{n}", "function": "add"}
        for n in (1, 2)
    ]
    inner = {"id": "m3", "role": "user", "content": "Think"}
    thought = {"id": "m4", "role": "assistant", "content": "Hm"}
    last = {"id": "m5", "role": "assistant", "content": "5 and 9"}
    events = [
        {"event": "span_begin", "id": "s0", "type": "solver", "name": "desk", "timestamp": at(0)},
        {
            "event": "span_begin",
            "id": "s1",
            "type": "agent",
            "name": "alpha",
            "parent_id": "s0",
            "timestamp": at(0),
        },
        model(1, [user], asked),
        tool(3, "c1", 5),
        tool(3, "c2", 4, agent_span_id="s2"),
        {
            "event": "span_begin",
            "id": "s2",
            "type": "agent",
            "name": "beta",
            "parent_id": "s1",
            "timestamp": at(4),
        },
        model(4, [inner], thought, span_id="s2"),
        {"event": "info", "data": "half way", "timestamp": at(6), "span_id": "s1"},
        model(9, [user, asked, *told], last, cache="read"),
        {
            "event": "score",
            "score": {"value": "C", "explanation": "right"},
            "timestamp": at(11),
            "span_id": "s1",
        },
    ]
    return {
        "id": "lamp/1",
        "epoch": 2,
        "input": "attachment://abc",
        "target": "5",
        "events": events,
        "messages": [user, asked, *told, last],
        "attachments": {"abc": "What is 2+3?"},
        "scores": {
            "match": {"value": "C", "explanation": "right"},
            "style": {"value": {"short": 1, "kind": 0.5}},
        },
        "output": {"choices": [{"message": last, "stop_reason": "stop"}]},
        "metadata": {"level": 1},
        "uuid": "U1",
    }


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


def test_a_transcript_tells_times_causes_agents_and_each_message_once(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any
) -> None:
    report, entries = take(write(packed(HEADER, [sample]), "log.eval"))
    assert report.problems == ()
    inside = [entry for entry in entries if entry.correlation_id == report.correlations[1]]
    assert [(one.event_type.rpartition(".")[2], one.payload.get("agent")) for one in inside] == [
        ("run_started", None),
        ("message", None),
        ("model_call", "alpha"),
        ("message", "alpha"),
        ("tool_call", "alpha"),
        ("tool_call", "alpha"),
        ("message", None),
        ("model_call", "beta"),
        ("message", "beta"),
        ("state_change", None),
        ("tool_result", "alpha"),
        ("tool_result", "alpha"),
        ("model_call", "alpha"),
        ("message", "alpha"),
        ("evaluation", None),
        ("evaluation", None),
        ("evaluation", None),
        ("run_completed", None),
    ]
    started, asked = inside[0], inside[3]
    assert started.payload["input"] == "What is 2+3?" == inside[1].payload["content"]
    first, second = of_type(inside, "tool_call")
    assert {first.causation_id, second.causation_id} == {asked.event_id}
    quick, slow = of_type(inside, "tool_result")
    assert (quick.causation_id, slow.causation_id) == (second.event_id, first.event_id)
    assert (quick.payload["duration_ns"], slow.payload["duration_ns"]) == (4_000_000_000, 5_000_000_000)
    assert slow.timestamp == "2026-01-02T02:04:08.000000Z"
    beta = inside[6]
    assert (beta.payload["content"], beta.causation_id) == ("Think", second.event_id)
    assert inside[9].causation_id != inside[8].event_id  # alpha did not wait for beta's last word
    # What came from a cache costs no tokens again.
    tokens = strict.view("metrics", report.correlations[1]).total.model.tokens
    assert (tokens.input, tokens.output) == (30, 4)
    assert [
        (one.payload["name"], one.payload.get("score"), one.payload.get("label"))
        for one in of_type(inside, "evaluation")
    ] == [
        ("match", None, "C"),
        ("style/short", 1, None),
        ("style/kind", 0.5, None),
    ]
    assert strict.view("graph", report.correlations[0]).dangling == ()


def test_a_pool_of_messages_is_looked_up(take: Any, write: Callable[..., Path], sample: Any) -> None:
    plain = copy.deepcopy(sample)
    pool: list[Any] = []
    for event in sample["events"]:
        if event["event"] == "model":
            event["input_refs"] = [[len(pool), len(pool) + len(event["input"])], [-1, "x"], 5]
            pool += event.pop("input")
    sample["events_data"] = {"messages": pool, "calls": []}
    first, _ = take(write(packed(HEADER, [plain]), "plain.eval"))
    again, _ = take(write(packed(HEADER, [sample]), "pooled.eval"))
    assert (again.stored, again.known) == (0, first.stored)


def test_a_log_that_has_grown_adds_what_is_new(take: Any, write: Callable[..., Path], sample: Any) -> None:
    first, _ = take(write(packed(HEADER, [sample], ended=False), "started.eval"))
    assert first.problems == ()
    other = {**sample, "id": "lamp/2"}
    again, entries = take(write(packed(HEADER, [sample, other]), "ended.eval"))
    assert (again.problems, again.known) == ((), first.stored)
    assert len(again.correlations) == 3
    assert len(of_type(entries, "run_completed")) == 3


@pytest.mark.parametrize(
    ("status", "event"), [("error", "run_failed"), ("cancelled", "run_cancelled"), ("started", None)]
)
def test_the_status_of_the_evaluation_is_how_its_run_ends(
    take: Any, write: Callable[..., Path], status: str, event: str | None
) -> None:
    error = {"message": "no lamp", "traceback": "…"}
    _, entries = take(write({**HEADER, "status": status, "error": error, "samples": []}))
    ends = [
        entry
        for entry in entries
        if entry.event_type.startswith("execution.run_") and "started" not in entry.event_type
    ]
    assert [one.event_type for one in ends] == ([f"execution.{event}"] if event else [])
    if event:
        assert ends[0].payload["error"] == {"message": "no lamp"}


def test_errors_limits_approvals_and_inputs_of_a_sample_are_told(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any
) -> None:
    sample["error"] = {"message": "the lamp broke", "traceback": "…"}
    sample["events"] += [
        {"event": "sample_limit", "type": "token", "limit": 10, "message": "too many", "timestamp": at(12)},
        {
            "event": "approval",
            "approver": "auto",
            "decision": "approve",
            "call": {"id": "c1"},
            "timestamp": at(12),
        },
        {"event": "input", "input": "yes", "message": "Go on?", "timestamp": at(12)},
        {"event": "error", "error": {"message": "the lamp broke"}, "timestamp": at(12)},
        {"event": "of tomorrow", "lamp": 1, "timestamp": at(12)},
        model(12, [], None, error="rate limit"),
        tool(13, "c3", 1, error={"type": "timeout", "message": "too slow"}, result=""),
        tool(14, "c4", 1, pending=True),
    ]
    report, entries = take(write({**HEADER, "samples": [sample]}))
    assert report.problems == ()
    kinds = {entry.event_type for entry in entries}
    assert {
        "system.limit_reached",
        "execution.guardrail",
        "execution.human_input_received",
        "system.error",
    } <= kinds
    (run,) = strict.view("runs", report.correlations[1]).runs
    assert (run.status, run.errors.tool, run.errors.model) == ("failed", 1, 1)
    assert of_type(entries, "tool_result")[-1].payload["error"] == "timeout: too slow"
    assert len(of_type(entries, "tool_call")) == 4


def test_steps_inside_of_a_tool_of_older_logs_are_in_their_place(
    take: Any, write: Callable[..., Path], sample: Any
) -> None:
    inner = sample["events"].pop(6)
    sample["events"][4]["events"] = [inner]
    _, entries = take(write({**HEADER, "samples": [sample]}))
    kinds = [entry.event_type.rpartition(".")[2] for entry in entries[1:]]
    assert kinds[4:9] == ["tool_call", "tool_call", "message", "model_call", "message"]


def test_hostile_samples_are_kept_as_data_and_what_is_none_is_named(
    take: Any, write: Callable[..., Path], sample: Any
) -> None:
    sample |= {
        "id": ["x"],
        "epoch": None,
        "scores": {"match": 5, "\ud800": {"value": [1]}},
        "input": [5, {"role": "user"}],
    }
    sample["messages"] += [
        "no object",
        {"role": {}, "content": "\ud800"},
        {"role": "assistant", "content": [5, {"type": 7}]},
    ]
    sample["events"] += [
        17,
        {},
        {"event": "model"},
        {"event": "model", "output": {"choices": [5, {"message": 7}]}, "input": [None], "completed": 5},
        {
            "event": "tool",
            "id": 5,
            "function": [],
            "result": {"$type": "x"},
            "error": "boom",
            "timestamp": "never",
        },
        {"event": "span_begin", "id": "s9", "parent_id": "s9", "type": "agent", "name": ["x"]},
        {"event": "info", "span_id": "s9"},
        {"event": "score", "score": 5},
        {"event": "subtask", "events": [{"event": "subtask", "events": [3]}]},
        {"event": ["x"]},
        {"event": "error", "error": 5},
        {"event": "input", "input": ["x"]},
        {"event": "approval", "approver": {}},
        {"event": "sample_limit", "limit": [1], "type": [2], "message": None},
    ]
    report, _ = take(write(json.dumps({**HEADER, "samples": [sample, "no sample"]}).encode()))
    told = sorted(one.reason.partition(" of ")[0] for one in report.problems)
    assert told == ["message 5", "sample 1 is no object", "step 10", "step 20"]


def test_a_torn_json_log_gives_the_samples_that_are_whole(
    take: Any, write: Callable[..., Path], sample: Any
) -> None:
    data = json.dumps({**HEADER, "samples": [sample, {**sample, "id": "lamp/2"}]}).encode()
    report, entries = take(write(data[:-300]))
    (problem,) = report.problems
    assert "the file is cut off in item 1 of 'samples'" in problem.reason
    assert data[problem.offset :].startswith(b'{"id": "lamp/2"')
    assert len(report.correlations) == 2
    assert not [
        one for one in of_type(entries, "run_completed") if one.correlation_id == report.correlations[0]
    ]


def test_a_torn_archive_gives_the_samples_that_are_whole_and_a_part_of_the_torn_one(
    take: Any, strict: Any, write: Callable[..., Path], sample: Any
) -> None:
    other = {**sample, "id": "lamp/2"}
    data = packed(HEADER, [sample, other], method=zipfile.ZIP_STORED)
    report, _ = take(write(data[: data.index(b'"5 and 9"', data.index(b"lamp/2_epoch"))], "torn.eval"))
    assert [one.endswith("-partial") for one in report.correlations] == [False, False, True]
    assert any(
        "samples/lamp/2_epoch_2.json" in one.reason and "cut off" in one.reason for one in report.problems
    )
    statuses = [strict.view("runs", one).runs[0].status for one in report.correlations]
    assert statuses == ["unfinished", "completed", "unfinished"]


def test_an_archive_of_others_and_one_without_an_evaluation(take: Any, write: Callable[..., Path]) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    with pytest.raises(Exception, match="looks like a ZIP archive"):
        guess(write(stream.getvalue(), "x.docx"))
    report, entries = take(write(packed({"version": 2}, []), "empty.eval"))
    assert ("there is no header.json" in report.problems[0].reason, entries) == (True, [])

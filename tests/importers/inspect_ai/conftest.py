"""A small evaluation with two tool calls at once and a sub-agent, written for these tests."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

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
def header() -> dict[str, Any]:
    """What stands beside the samples."""
    return copy.deepcopy(HEADER)


@pytest.fixture
def steps() -> SimpleNamespace:
    """``steps.at``, ``steps.model``, ``steps.tool``: a time and the steps of a transcript."""
    return SimpleNamespace(at=at, model=model, tool=tool)


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


@pytest.fixture
def packed() -> Callable[..., bytes]:
    """``packed(header, samples)``: an archive as Inspect writes it, a journal at the start, the header at the end."""

    def pack(
        header: Any, samples: list[Any], *, method: int = zipfile.ZIP_DEFLATED, ended: bool = True
    ) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            start = {key: header[key] for key in ("version", "eval", "plan") if key in header}
            archive.writestr("_journal/start.json", json.dumps(start))
            for sample in samples:
                archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
            if ended:
                archive.writestr("header.json", json.dumps(header))
        return stream.getvalue()

    return pack

"""The wire form of A2A, read: every example of the specification, of protocol 1.0 and of 0.3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.adapters.a2a.task import TaskRun
from chatsnapshot.adapters.a2a.wire import kind_of, parts_of, role_of, state_of, text_of
from chatsnapshot.adapters.observed import ObservedRun

EXAMPLES = Path(__file__).parents[4] / "shared" / "data" / "a2a" / "spec_examples.jsonl"
STATES = {
    "submitted",
    "working",
    "completed",
    "input-required",
    "auth-required",
    "failed",
    "canceled",
    "rejected",
}


def bodies(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from bodies(inner)


@pytest.mark.parametrize(
    ("wire", "kind", "state"),
    [
        ({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}, "task", "working"),
        ({"kind": "task", "id": "t", "status": {"state": "completed"}}, "task", "completed"),
        ({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}}, "task", "submitted"),
        (
            {"taskId": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": []}}},
            "status-update",
            "input-required",
        ),
        ({"statusUpdate": {"taskId": "t", "status": {"state": "failed"}}}, "status-update", "failed"),
        ({"taskId": "t", "artifact": {"artifactId": "a", "parts": []}}, "artifact-update", None),
        ({"message": {"role": "ROLE_AGENT", "parts": []}}, "message", None),
        ({"role": "agent", "parts": [], "messageId": "m"}, "message", None),
        ({"name": "a card"}, None, None),
    ],
)
def test_what_an_event_is_and_its_state_in_both_protocols(
    wire: dict[str, Any], kind: str | None, state: str | None
) -> None:
    found, body = kind_of(wire)
    assert (found, state_of(body)) == (kind, state)


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ({"text": "Hi"}, {"type": "text", "content": "Hi"}),
        ({"kind": "text", "text": "Hi"}, {"type": "text", "content": "Hi"}),
        (
            {"raw": "AA==", "filename": "a.png", "mediaType": "image/png"},
            {"type": "blob", "content": "AA==", "mime_type": "image/png", "name": "a.png"},
        ),
        (
            {"kind": "file", "file": {"name": "a.png", "mimeType": "image/png", "fileWithBytes": "AA=="}},
            {"type": "blob", "content": "AA==", "mime_type": "image/png", "name": "a.png"},
        ),
        ({"url": "https://a.example/x"}, {"type": "uri", "uri": "https://a.example/x"}),
        ({"data": {"n": 1}}, {"type": "data", "content": {"n": 1}}),
        ({"kind": "video"}, {"type": "video", "content": {"kind": "video"}}),
    ],
)
def test_parts_of_both_protocols(part: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert parts_of({"parts": [part]}) == [wanted]


def test_every_example_of_the_specification_is_read() -> None:
    if not EXAMPLES.exists():
        pytest.skip("the examples of the specification are not here")
    messages = tasks = 0
    text = EXAMPLES.read_text()
    for line in text.splitlines():
        for body in bodies(json.loads(line)["body"]):
            kind, _ = kind_of(body)
            if "role" in body and "parts" in body:
                messages += 1
                assert kind == "message"
                assert role_of(body) in ("user", "assistant")
                assert len(parts_of(body)) == len(body["parts"])
                assert all(part["type"] in ("text", "blob", "uri", "data") for part in parts_of(body))
                texts = [part["text"] for part in body["parts"] if "text" in part]
                assert (text_of(body) or "") == "\n".join(texts)
            state = state_of(body)
            if state is not None:
                tasks += 1
                assert state in STATES
            run = ObservedRun(
                runtime="a2a", ledger=None, key="t", run_id="t", correlation_id="c", agent="agent"
            )
            task = TaskRun(run, "t")
            made = [*task.opening(None, None), *task.saw(body), *task.returned()]
            ends = [
                one
                for one in made
                if one["event_type"].rpartition("_")[2] in ("completed", "failed", "paused")
            ]
            assert len([one for one in ends if "run_" in one["event_type"]]) == 1
    assert (messages, tasks) == (text.count('"role":'), text.count('"state":'))

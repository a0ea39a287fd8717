"""Log records: messages and evaluations of the GenAI conventions, anything else as it is."""

from __future__ import annotations

from typing import Any

from chatsnapshot.clock import uuid_text
from chatsnapshot.ingest.otlp.event import event_key

SPAN = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": f"{1:016x}"}


def test_a_record_is_kept_and_sent_again_is_one(otlp: Any) -> None:
    record = otlp.log({"user": "odile"}, {"said": "hello"}, severityNumber=13, severityText="WARN", **SPAN)
    for _ in range(2):
        assert otlp.take_logs(record, otlp.log(body="no trace")).refused == 0
    first, second = otlp.entries()
    assert (first.event_type, first.correlation_id) == ("otel.log", SPAN["traceId"])
    assert first.payload["body"] == {"said": "hello"} and first.payload["severity"] == "WARN"
    assert first.causation_id == uuid_text(event_key(SPAN["traceId"], SPAN["spanId"], "start"))
    assert second.correlation_id == "otel.logs/desk"


def test_an_evaluation_judges_the_event_of_its_span(otlp: Any) -> None:
    otlp.take(otlp.span(1, "chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}))
    facts = {
        "gen_ai.evaluation.name": "helpful",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.explanation": "so",
    }
    otlp.take_logs(otlp.log(facts, eventName="gen_ai.evaluation.result", **SPAN))
    call, judged = otlp.entries()
    assert judged.event_type == "execution.evaluation"
    assert judged.payload["target_event_id"] == call.event_id
    assert (judged.payload["name"], judged.payload["score"], judged.payload["comment"]) == (
        "helpful",
        0.5,
        "so",
    )


def test_an_evaluation_as_a_span_event(otlp: Any) -> None:
    event = otlp.event(
        "gen_ai.evaluation.result", {"gen_ai.evaluation.name": "kind", "gen_ai.evaluation.score.label": "yes"}
    )
    otlp.take(otlp.span(1, "chat", {"gen_ai.operation.name": "chat"}, events=[event]))
    judged = next(entry for entry in otlp.entries() if entry.event_type == "execution.evaluation")
    assert judged.payload["label"] == "yes"
    assert judged.payload["target_event_id"] == otlp.entries()[-1].event_id or judged.causation_id


def test_messages_in_logs_are_those_of_the_span(otlp: Any) -> None:
    otlp.take_logs(
        otlp.log({}, {"content": "weather?"}, eventName="gen_ai.user.message", **SPAN),
        otlp.log(
            {"event.name": "gen_ai.choice"}, {"message": {"content": "sunny"}, "index": 0}, at=5, **SPAN
        ),
    )
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"weather?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"sunny"}]}]',
    }
    otlp.take(otlp.span(1, "chat", chat))
    assert [
        entry.payload.get("content") for entry in otlp.entries() if entry.event_type == "execution.message"
    ] == [
        "weather?",
        "sunny",
    ]


def test_details_of_an_inference_are_its_messages_and_no_second_call(otlp: Any) -> None:
    facts = {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "weather?"}]}],
        "gen_ai.usage.input_tokens": 9,
    }
    otlp.take_logs(otlp.log(facts, eventName="gen_ai.client.inference.operation.details", **SPAN))
    assert otlp.told() == [("execution.message", {"role": "user", "content": "weather?"})]

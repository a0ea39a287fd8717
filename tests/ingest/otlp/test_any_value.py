"""Whatever stands in an attribute, in any kind of span, the events fit their schemas and nothing is refused."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.ingest.otlp import kinds

SOURCE = Path(kinds.__file__).parent
NAMES = sorted(
    {
        node.value
        for path in SOURCE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "." in node.value
        and node.value.replace(".", "").replace("_", "").isalnum()
        and not node.value.startswith(("execution.", "system.", "integration.", "otel."))
    }
)
"""Every name of an attribute that the code knows."""

TEXTS = st.sampled_from(
    [
        *("", "text", "{}", "[]", "[1]", '{"a": 1}', "\x00", "[broken", '"', "é" * 300, "1e999", "[[]]"),
        *('[{"role": 5}]', '[{"parts": [null, 1, {"type": []}]}]'),
        *('{"type": "tool", "tool_call_id": "c", "content": []}',),
        *('{"message": null}', '[{"tool_calls": [{"function": {"name": {}}}]}]', "[{\"content\": {\"$ref\": 1}}]"),
    ]
)  # fmt: skip
PLAIN = (
    TEXTS
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = (
    PLAIN
    | st.lists(PLAIN, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "$b", "role"]), PLAIN, max_size=3)
)
KINDS = st.sampled_from(
    [
        *({"gen_ai.operation.name": name} for name in (*kinds.OPERATIONS, "search_memory", "odd")),
        *({"openinference.span.kind": name} for name in kinds.INFERENCE),
        *({"traceloop.span.kind": name} for name in kinds.TRACELOOP),
        {},
    ]
)
FLAT = st.sampled_from(
    [
        *(
            "llm.input_messages.0.message.role",
            "llm.input_messages.0.message.content",
            "llm.input_messages.0",
        ),
        *(
            "llm.output_messages.1.message.tool_calls.0.tool_call.function.name",
            "llm.output_messages.0.message",
        ),
        *("gen_ai.prompt.0.role", "gen_ai.prompt.0.tool_calls.0.id", "gen_ai.completion.0.content"),
        *(
            "retrieval.documents.0.document.content",
            "retrieval.documents.0.document.metadata",
            "retrieval.documents.0",
        ),
    ]
)
EVENTS = st.tuples(
    st.sampled_from(["exception", "gen_ai.choice", "gen_ai.user.message", "gen_ai.evaluation.result"]),
    st.dictionaries(st.sampled_from([*NAMES, "content", "message", "role"]), VALUES, max_size=4),
)
SPANS = st.tuples(
    KINDS,
    st.dictionaries(st.sampled_from(NAMES) | FLAT, VALUES, max_size=8),
    st.integers(0, 5),
    st.booleans(),
    st.lists(EVENTS, max_size=2),
)


def test_the_names_are_found() -> None:
    assert {"gen_ai.input.messages", "llm.model_name", "db.statement", "exception.type"} <= set(NAMES)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(spans=st.lists(SPANS, min_size=1, max_size=8))
def test_any_value_in_any_kind_of_span(otlp: Any, spans: list[Any]) -> None:
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        producer = type(otlp)(ledger)
        made = [
            producer.span(
                number,
                "a span",
                {**facts, **kind},
                kind=span_kind,
                parent=99 if below else None,
                at=number,
                events=[producer.event(name, given) for name, given in events],
            )
            for number, (kind, facts, span_kind, below, events) in enumerate(spans, 1)
        ]
        taken = producer.take(*made)
        assert taken.refused == 0, taken.reason
        assert ledger.verify().ok
        for run in {entry.correlation_id for entry in ledger.read()}:
            for kind_of_view in ("transcript", "timeline", "graph", "metrics"):
                ledger.view(kind_of_view, run)

"""Each kind of span becomes the events of the table, with payloads that fit their schemas."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.ingest.otlp.kinds import TABLE
from chatsnapshot.projections.views import list_runs

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "My lamp came broken."}]}]
ANSWER = [
    {"role": "assistant", "parts": [{"type": "text", "content": "A new one comes."}], "finish_reason": "stop"}
]
CALLS = [
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "look", "arguments": {"id": 7}}],
    }
]


def chat(given: Any, said: Any, **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "large-2",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps(said),
        **more,
    }


def run_of(otlp: Any) -> list[Any]:
    """An agent that asks a model, calls a tool and answers: children end before their parents."""
    history = [
        *ASKED,
        *CALLS,
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": "ok"}]},
    ]
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"id":7}',
        "gen_ai.tool.call.result": "ok",
    }
    return [
        otlp.span(2, "chat large-2", chat(ASKED, CALLS), parent=1, at=10, took=100),
        otlp.span(3, "execute_tool look", tool, parent=1, at=200, took=100),
        otlp.span(4, "chat large-2", chat(history, ANSWER), parent=1, at=400, took=100),
        otlp.span(1, "invoke_agent desk", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
                                           "gen_ai.usage.input_tokens": 40}, took=1_000),
    ]  # fmt: skip


def test_a_run_reads_as_it_happened(otlp: Any) -> None:
    assert otlp.take(*run_of(otlp)).refused == 0
    assert [entry.event_type for entry in otlp.entries()] == [
        "execution.run_started",
        "execution.message",
        "execution.model_call",
        "execution.message",
        "execution.tool_call",
        "execution.tool_result",
        "execution.message",
        "execution.model_call",
        "execution.message",
        "execution.run_completed",
    ]
    run = otlp.ledger.view("runs", otlp.TRACE).runs[0]
    assert (run.name, run.status, run.model_calls, run.tool_calls, run.messages) == (
        "desk",
        "completed",
        2,
        1,
        4,
    )
    metrics = otlp.ledger.view("metrics", otlp.TRACE)
    assert (metrics.total.model.tokens.input, metrics.total.model.tokens.output) == (40, 10)


def test_causes_lead_from_the_run_to_the_tool_by_the_message_that_asked(otlp: Any) -> None:
    otlp.take(*run_of(otlp))
    by_id = {entry.event_id: entry for entry in otlp.entries()}
    call = next(entry for entry in by_id.values() if entry.event_type == "execution.tool_call")
    asked = by_id[call.causation_id]
    assert asked.payload["parts"][0]["id"] == "c1"
    model = by_id[asked.causation_id]
    assert model.event_type == "execution.model_call"
    assert by_id[model.causation_id].event_type == "execution.run_started"
    result = next(entry for entry in by_id.values() if entry.event_type == "execution.tool_result")
    assert result.causation_id == call.event_id


def test_any_order_and_any_grouping_gives_the_same_events(otlp: Any) -> None:
    spans = run_of(otlp)

    def content(order: Any) -> dict[str, Any]:
        import chatsnapshot

        with chatsnapshot.open("memory:") as ledger:
            other = type(otlp)(ledger)
            for group in order:
                assert other.take(*group).refused == 0
            assert ledger.verify().ok
            return {
                entry.event_id: (entry.event_type, entry.correlation_id, entry.payload)
                for entry in ledger.read()
            }

    whole = content([spans])
    assert len(whole) == 10
    for order in itertools.permutations(spans):
        assert content([[span] for span in order]) == whole
    assert content([[spans[3], spans[2]], [spans[1]], [spans[0]]]) == whole


def test_a_span_sent_again_is_one_and_with_other_content_refused(otlp: Any) -> None:
    spans = run_of(otlp)
    otlp.take(*spans)
    otlp.memory = type(otlp.memory)()  # as after a restart
    assert otlp.take(*spans).refused == 0
    assert len(otlp.entries()) == 10
    changed = otlp.span(3, "execute_tool look", {"gen_ai.operation.name": "execute_tool"}, parent=1, at=200)
    taken = otlp.take(changed, otlp.span(9, "another", parent=1))
    assert taken.refused == 1
    assert "at position 5 with another payload" in taken.reason
    assert [kind for kind, _ in otlp.told()[10:]] == ["otel.span"]


def test_one_id_with_two_contents_in_one_request_keeps_the_first(otlp: Any) -> None:
    taken = otlp.take(otlp.span(1, "one"), otlp.span(1, "two"), otlp.span(2, "three"))
    assert taken.refused == 1
    assert [payload["name"] for _, payload in otlp.told()] == ["one", "three"]


def test_a_history_that_each_call_repeats_is_not_doubled_and_equal_words_later_are_another_message(
    otlp: Any,
) -> None:
    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    history: list[Any] = []
    for turn in range(4):
        history.append(said("user", "yes"))
        answer = said("assistant", f"answer {turn}")
        otlp.take(
            otlp.span(
                10 + turn, "chat", chat(history, [{**answer, "finish_reason": "stop"}]), at=turn * 2_000
            )
        )
        history.append(answer)
    messages = [payload["content"] for kind, payload in otlp.told() if kind == "execution.message"]
    assert messages == ["yes", "answer 0", "yes", "answer 1", "yes", "answer 2", "yes", "answer 3"]


def test_a_message_that_comes_again_with_more_detail_is_known(otlp: Any) -> None:
    thought = {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, *ANSWER[0]["parts"]]}
    otlp.take(otlp.span(1, "chat", chat(ASKED, [thought])))
    otlp.memory = type(otlp.memory)()
    taken = otlp.take(otlp.span(2, "chat", chat([*ASKED, *ANSWER, *ASKED], ANSWER), at=5_000))
    assert taken.refused == 0
    assert sum(kind == "execution.message" for kind, _ in otlp.told()) == 4


def test_a_child_agent_is_a_run_of_its_own_caused_by_the_span_around_it(otlp: Any) -> None:
    agent = {"openinference.span.kind": "AGENT"}
    otlp.take(
        otlp.span(3, "scribe", {**agent, "agent.name": "scribe"}, parent=2, at=200, took=50),
        otlp.span(2, "turn", {"openinference.span.kind": "CHAIN"}, parent=1, at=100, took=200),
        otlp.span(1, "desk", {**agent, "agent.name": "desk"}),
    )
    root = otlp.ledger.view("runs", otlp.TRACE).runs[0]
    assert (root.name, [child.name for child in root.children]) == ("desk", ["scribe"])
    assert root.children[0].correlation_id == f"{otlp.TRACE}/{3:016x}"
    cause = otlp.ledger.get(root.children[0].cause)
    assert cause.event_type == "system.task_started"


def test_a_child_with_a_conversation_of_its_own_hangs_under_its_parent_in_whatever_order_it_comes(
    otlp: Any,
) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent"}
    child = {"gen_ai.conversation.id": "c-child"}
    spans = [
        otlp.span(5, "chat", chat(ASKED, ANSWER, **child), parent=4, at=210, took=10),
        otlp.span(4, "look", {"openinference.span.kind": "CHAIN", **child}, parent=3, at=205, took=20),
        otlp.span(3, "scribe", {**agent, **child, "gen_ai.agent.name": "scribe"}, parent=2, at=200, took=50),
        otlp.span(
            2, "ask", {"openinference.span.kind": "TOOL", "tool.name": "ask"}, parent=1, at=100, took=200
        ),
        otlp.span(1, "desk", {**agent, "gen_ai.agent.name": "desk"}),
    ]
    told = set()
    for order in itertools.permutations(spans):
        with chatsnapshot.open("memory:", validation="strict") as ledger:
            one = type(otlp)(ledger)
            for span in order:
                one.take(span)
            (root,) = list_runs(ledger)
            (below,) = root.children
            assert (root.name, below.name, below.link) == ("desk", "scribe", "child")
            ids = {entry.position: entry.event_id for entry in ledger.read()}
            edges = ledger.view("graph", one.TRACE).edges
            told.add(
                frozenset((ids[edge.source], ids[edge.target]) for edge in edges if edge.kind == "cause")
            )
    assert len(told) == 1


def test_a_conversation_holds_the_runs_of_its_traces(otlp: Any) -> None:
    for number in (1, 2):
        facts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c-9"}
        otlp.take(otlp.span(number, "invoke_agent", facts, at=number * 5_000))
    assert {entry.correlation_id for entry in otlp.entries()} == {"c-9"}
    assert len(otlp.ledger.view("runs", "c-9").runs) == 2


@pytest.mark.parametrize(
    ("facts", "status", "status_of_run"),
    [
        ({}, {"code": 2, "message": "no lamp"}, "failed"),
        ({"error.type": "TimeoutError"}, {}, "failed"),
        ({"error.type": "asyncio.exceptions.CancelledError"}, {"code": 2}, "cancelled"),
        ({}, {"code": 1}, "completed"),
    ],
)
def test_how_a_run_ended(otlp: Any, facts: Any, status: Any, status_of_run: str) -> None:
    otlp.take(otlp.span(1, "invoke_agent", {"gen_ai.operation.name": "invoke_agent", **facts}, status=status))
    assert otlp.ledger.view("runs", otlp.TRACE).runs[0].status == status_of_run


def test_an_exception_is_the_error_of_the_tool(otlp: Any) -> None:
    raised = otlp.event("exception", {"exception.type": "TimeoutError", "exception.message": "504"}, 500)
    otlp.take(otlp.span(1, "look", {"openinference.span.kind": "TOOL", "tool.name": "look"}, events=[raised]))
    (_, result) = otlp.told()[1]
    assert result["is_error"] and result["error"] == {"type": "TimeoutError", "message": "504"}
    assert otlp.entries()[1].payload["native"]["events"][0]["name"] == "exception"


KINDS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "agent",
        {"gen_ai.operation.name": "invoke_agent"},
        {},
        ["execution.run_started", "execution.run_completed"],
    ),
    (
        "workflow",
        {"openinference.span.kind": "CHAIN"},
        {},
        ["system.workflow_started", "system.workflow_completed"],
    ),
    ("task", {"gen_ai.operation.name": "plan"}, {}, ["system.task_started", "system.task_completed"]),
    ("model", {"openinference.span.kind": "LLM", "llm.model_name": "m"}, {}, ["execution.model_call"]),
    ("embeddings", {"gen_ai.operation.name": "embeddings"}, {}, ["execution.model_call"]),
    ("tool", {"openinference.span.kind": "TOOL"}, {}, ["execution.tool_call", "execution.tool_result"]),
    (
        "handoff",
        {"openinference.span.kind": "TOOL", "output.value": "b"},
        {"name": "handoff to b"},
        ["execution.handoff"],
    ),
    ("retrieval", {"openinference.span.kind": "RETRIEVER", "input.value": "q"}, {}, ["execution.retrieval"]),
    ("memory", {"gen_ai.operation.name": "search_memory"}, {}, ["execution.memory"]),
    ("guardrail", {"openinference.span.kind": "GUARDRAIL"}, {}, ["execution.guardrail"]),
    (
        "client",
        {"db.system": "sqlite", "db.statement": "SELECT 1"},
        {"kind": 3},
        ["integration.call", "integration.response"],
    ),
    ("client", {"mcp.method.name": "tools/list"}, {"kind": 1}, ["integration.call", "integration.response"]),
    (
        "server",
        {"http.request.method": "GET", "http.response.status_code": 200},
        {"kind": 2},
        ["integration.api_triggered"],
    ),
    ("other", {"a": 1}, {}, ["otel.span"]),
]


@pytest.mark.parametrize(("kind", "facts", "more", "types"), KINDS)
def test_each_kind_of_span(otlp: Any, kind: str, facts: Any, more: Any, types: list[str]) -> None:
    span = otlp.span(1, more.pop("name", "a span") if "name" in more else "a span", facts)
    assert otlp.take({**span, **more}).refused == 0
    assert [entry.event_type for entry in otlp.entries()] == types
    told = [one.strip() for side in TABLE[kind] for one in side.replace(" or ", ", ").split(",")]
    assert set(types) <= {one.split(" for ")[0] for one in told}


def test_every_kind_is_tried() -> None:
    assert {kind for kind, *_ in KINDS} == set(TABLE)


def test_what_no_key_holds_is_kept_whole(otlp: Any) -> None:
    link = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "attributes": [{"key": "why", "value": {"stringValue": "x"}}],
    }
    span = otlp.span(1, "odd", {"a.b": [1, {"c": True}], "f": 0.5}, links=[link], traceState="k=v")
    otlp.take({**span, "attributes": [*span["attributes"], {"key": "raw", "value": {"bytesValue": "AAEC"}}]})
    (entry,) = otlp.entries()
    native = entry.value()["native"]
    assert native["attributes"] == {"a.b": [1, {"c": True}], "f": 0.5, "raw": b"\x00\x01\x02"}
    assert native["links"] == [{"trace_id": "a" * 32, "span_id": "b" * 16, "attributes": {"why": "x"}}]
    assert (native["resource"], native["scope"]) == ({"service.name": "desk"}, {"version": "1"})
    assert native["trace_state"] == "k=v"
    assert entry.attributes == {"trace_id": otlp.TRACE, "span_id": f"{1:016x}"}
    assert entry.source.runtime == "otel:test"


def test_times_that_tell_nothing_are_unknown(otlp: Any) -> None:
    otlp.take(
        otlp.span(1, "none", startTimeUnixNano="0", endTimeUnixNano="0"),
        otlp.span(2, "backwards", {"gen_ai.operation.name": "execute_tool"}, took=-50),
    )
    assert all(entry.payload["native"]["time"] == "unknown" for entry in otlp.entries())
    assert all("duration_ns" not in entry.payload for entry in otlp.entries())


def test_secrets_are_taken_out(otlp: Any) -> None:
    key = "sk-ant-" + "a1B2" * 20
    clean = [otlp.span(number, "look", {"input.value": "nothing"}) for number in range(2, 80)]
    otlp.take(otlp.span(1, "look", {"input.value": f"use {key}"}), *clean, redact="secrets")
    assert len(otlp.entries()) == 79
    assert all(key not in str(entry.payload) for entry in otlp.entries())


def test_a_large_request_is_taken_in_several_commits(otlp: Any) -> None:
    spans = [otlp.span(number, f"span {number}", at=number) for number in range(1, 2_501)]
    assert otlp.take(*spans).refused == 0
    assert [payload["name"] for _, payload in otlp.told()] == [span["name"] for span in spans]
    assert otlp.take(*spans, otlp.span(2_501, "new")).refused == 0
    assert otlp.take(*[{**span, "name": "changed"} for span in spans[:3]], *spans).refused == 3 + 0
    assert len(otlp.entries()) == 2_501


def test_a_message_of_a_refused_span_is_stored_for_the_other_span_that_tells_it(otlp: Any) -> None:
    otlp.take(otlp.span(1, "chat", chat([], [], **{"gen_ai.request.model": "first"})))
    changed = otlp.span(1, "chat", chat(ASKED, ANSWER))
    other = otlp.span(2, "chat", chat(ASKED, []), at=10)
    assert otlp.take(changed, other).refused == 1
    told = [payload.get("content") for kind, payload in otlp.told() if kind == "execution.message"]
    assert told == ["My lamp came broken."]
    assert otlp.take(otlp.span(3, "chat", chat(ASKED, ANSWER), at=20)).refused == 0
    told = [payload.get("content") for kind, payload in otlp.told() if kind == "execution.message"]
    assert told == ["My lamp came broken.", "A new one comes."]

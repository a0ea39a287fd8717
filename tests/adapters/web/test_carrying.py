"""inject and extract: what goes in comes out, and what cannot be meant is as if it were not there."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from starlette.datastructures import Headers

import chatsnapshot
from chatsnapshot import InvalidEvent, Ledger
from chatsnapshot.adapters.web import Received, extract, inject
from chatsnapshot.adapters.web.header import HEADER_BYTES_MAX

CAUSE = "0199d3a2-7c3e-7a00-8000-000000000001"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_what_a_scope_says_arrives_on_the_other_side(ledger: Ledger) -> None:
    with ledger.run("order-1042", name="triage") as run:
        headers = inject({})
    assert run.started is not None
    found = extract(headers)
    assert (found.correlation_id, found.cause, found.run_id) == (
        "order-1042",
        run.started.event_id,
        "order-1042",
    )
    assert headers["chatsnapshot-context"] == (
        f"correlation=order-1042; cause={run.started.event_id}; run=order-1042"
    )


ids = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=256)


@given(ids, st.one_of(st.none(), st.uuids()))
def test_every_correlation_arrives_whatever_its_characters(correlation: str, cause: Any) -> None:
    with chatsnapshot.open("memory:") as ledger:
        try:
            scope = ledger.scope(correlation, cause=cause)
        except InvalidEvent:
            return  # longer than an id may be, once normalised
        if scope.correlation_id == "ledger":
            return
        with scope:
            headers = inject({})
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    only_baggage = {"baggage": headers.get("baggage")}
    for sent in (headers, only_baggage) if only_baggage["baggage"] else (headers,):
        found = extract(sent)
        assert found.correlation_id == scope.correlation_id
        assert found.cause == (None if cause is None else str(cause))


def test_outside_of_a_scope_nothing_is_written() -> None:
    assert inject({}) == {}
    assert inject({"accept": "*/*"}) == {"accept": "*/*"}
    assert not extract({})


def test_the_innermost_scope_counts_unless_a_ledger_is_named(ledger: Ledger) -> None:
    with chatsnapshot.open("memory:") as other, ledger.scope("outer"), other.scope("inner"):
        assert extract(inject({})).correlation_id == "inner"
        assert extract(inject({}, ledger=ledger)).correlation_id == "outer"


def test_a_cause_may_be_named(ledger: Ledger) -> None:
    with ledger.scope("a"):
        entry = ledger.record("execution.handoff", {"to": "other"})
        assert extract(inject({}, cause=entry)).cause == entry.event_id
        with pytest.raises(InvalidEvent):
            inject({}, cause="not an id")


@pytest.mark.parametrize(
    "kind",
    [
        "dict of text",
        "dict of bytes",
        "other case",
        "lists of values",
        "pairs",
        "pairs of bytes",
        "httpx",
        "starlette",
        "immutable",
    ],
)
def test_headers_of_any_kind_are_read(kind: str, ledger: Ledger) -> None:
    with ledger.scope("r-ü", cause=CAUSE):
        plain: dict[str, str] = inject({})
    sent: Any = {
        "dict of text": plain,
        "dict of bytes": {key: value.encode() for key, value in plain.items()},
        "other case": {key.title(): value for key, value in plain.items()},
        "lists of values": {key: [value] for key, value in plain.items()},
        "pairs": list(plain.items()),
        "pairs of bytes": [(key.encode(), value.encode()) for key, value in plain.items()],
        "httpx": httpx.Headers(plain),
        "starlette": Headers(plain),
        "immutable": types.MappingProxyType(plain),
    }[kind]
    assert (extract(sent).correlation_id, extract(sent).cause) == ("r-ü", CAUSE)


HOSTILE = [
    "",
    "correlation",
    "correlation=",
    "cause=" + CAUSE,
    "correlation=a;",
    "correlation=a; correlation=b",
    "correlation=a; cause=nothing",
    f"correlation=a; cause={CAUSE[:-1]}",
    "correlation=a b",
    "correlation=%",
    "correlation=%zz",
    "correlation=%ff%fe",
    "correlation=%ed%a0%80",
    "correlation=%00",
    "correlation=a%0d%0aset-cookie:%20x",
    "correlation=a\r\nx: y",
    "correlation=a,b",
    'correlation="a"',
    "correlation=ä",
    "correlation=a; x=ä",
    "Correlation=a",
    "correlation=" + "a" * 257,
    "correlation=a; run=" + "a" * 257,
    "correlation=" + "%41" * 4_000,
    "x=" + "y" * HEADER_BYTES_MAX + "; correlation=a",
    "correlation=ledger",
    "; ".join(f"x{number}=1" for number in range(2_000)),
    "correlation=a; " * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:30] or "empty")
def test_a_header_that_cannot_be_meant_is_as_not_there(text: str) -> None:
    assert extract({"chatsnapshot-context": text}) == Received()


def test_a_header_that_is_there_twice_is_as_not_there() -> None:
    twice = [("chatsnapshot-context", "correlation=a"), ("chatsnapshot-context", "correlation=b")]
    assert extract(twice) == Received()
    assert extract(httpx.Headers(twice)) == Received()


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_no_text_makes_extract_raise(text: str | bytes) -> None:
    names = ("chatsnapshot-context", "traceparent", "tracestate", "baggage")
    found = extract(dict.fromkeys(names, text))
    for one in found.baggage:
        assert "\n" not in one and "\r" not in one


@pytest.mark.parametrize("given", [None, 5, [1], ["abc"], [("a",)], {1: 2}, {"baggage": object()}, [b"xx"]])
def test_what_are_no_headers_makes_extract_not_raise(given: Any) -> None:
    assert extract(given) == Received()


def test_names_that_are_not_known_are_passed_over() -> None:
    assert extract({"chatsnapshot-context": "v=2; correlation=a; more=b"}).correlation_id == "a"


# --- what others put into headers ---


def test_a_received_trace_is_passed_on_as_it_came(ledger: Ledger) -> None:
    arrived = {"traceparent": PARENT, "tracestate": "congo=t61,rojo=00f0", "baggage": "tenant=acme;p=1"}
    received = extract(arrived)
    assert received.attributes == {
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "span_id": "00f067aa0ba902b7",
    }
    with received.scope(ledger, "r-1"):
        sent = inject({})
    assert sent["traceparent"] == PARENT
    assert sent["tracestate"] == "congo=t61,rojo=00f0"
    assert sent["baggage"] == "tenant=acme;p=1,chatsnapshot.correlation=r-1"
    with ledger.scope("r-1"):
        assert "traceparent" not in inject({})


def test_headers_that_have_a_trace_already_keep_it(ledger: Ledger) -> None:
    other = PARENT.replace("00f067aa0ba902b7", "00f067aa0ba902b8")
    with extract({"traceparent": PARENT}).scope(ledger, "r-1"):
        assert inject({"Traceparent": other})["Traceparent"] == other


def test_the_current_span_of_opentelemetry_goes_along(ledger: Ledger) -> None:
    tracer = TracerProvider().get_tracer("t")
    with tracer.start_as_current_span("work") as span, ledger.scope("r-1"):
        sent = inject({})
        assert extract(sent).attributes["span_id"] == f"{span.get_span_context().span_id:016x}"


def test_members_of_baggage_that_others_put_there_stay(ledger: Ledger) -> None:
    with ledger.scope("r-1"):
        sent = inject({"baggage": "a=1, chatsnapshot.correlation=old ,b=2;x"})
    assert sent["baggage"] == "a=1,b=2;x,chatsnapshot.correlation=r-1"


def test_baggage_that_is_full_is_left_to_others(ledger: Ledger) -> None:
    full = ",".join(f"k{number}=v" for number in range(64))
    with ledger.scope("r-1"):
        sent = inject({"baggage": full})
    assert sent["baggage"] == full
    assert extract(sent).correlation_id == "r-1"


def test_baggage_stands_in_where_our_header_was_taken_out(ledger: Ledger) -> None:
    with ledger.run("r 1", name="x"):
        sent = inject({})
    del sent["chatsnapshot-context"]
    assert extract(sent).correlation_id == "r 1"
    assert extract(sent).run_id == "r 1"


@pytest.mark.parametrize(
    "text",
    [
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01",
        "ff" + PARENT[2:],
        PARENT.upper().replace("00-", "00-", 1),
        PARENT + "-x",
        PARENT[:-1],
        "01" + PARENT[2:] + "-" + "x" * 600,
    ],
)
def test_a_traceparent_that_is_malformed_is_not_there(text: str) -> None:
    assert extract({"traceparent": text, "tracestate": "a=b"}) == Received()


def test_a_traceparent_of_a_later_version_is_read() -> None:
    later = "cc" + PARENT[2:] + "-what-comes"
    assert extract({"traceparent": later}).traceparent == later


@pytest.mark.parametrize(
    "state", ["a", "a=b,a=c", "A=b", "a=b" * 600, ",".join(f"k{n}=v" for n in range(33))]
)
def test_a_tracestate_that_is_malformed_is_not_there(state: str) -> None:
    found = extract({"traceparent": PARENT, "tracestate": state})
    assert (found.traceparent, found.tracestate) == (PARENT, None)


# --- and on the other side ---


def test_a_run_that_begins_in_a_received_scope_is_a_child(ledger: Ledger) -> None:
    with ledger.run("parent", name="p"):
        sent = inject({})
    with extract(sent).scope(ledger), ledger.run(name="child") as child:
        ledger.record("execution.output", {"value": 1})
    (parent,) = ledger.view("runs", "parent").runs
    assert [one.correlation_id for one in parent.children] == [child.correlation_id]
    assert ledger.view("graph", "parent").dangling == ()


def test_what_was_received_fits_scope_and_run(ledger: Ledger) -> None:
    received = extract({"chatsnapshot-context": f"correlation=a; cause={CAUSE}"})
    with ledger.scope(received.correlation_id, cause=received.cause):
        assert ledger.record("execution.output", {"value": 1}).causation_id == CAUSE
    with ledger.run(name="x", cause=received.cause) as run:
        pass
    assert run.started is not None and run.started.causation_id == CAUSE


def test_a_scope_of_nothing_received_fills_in_nothing(ledger: Ledger) -> None:
    with extract(None).scope(ledger), pytest.raises(InvalidEvent):
        ledger.record("execution.output", {"value": 1})


def test_headers_of_messages_go_through_bytes(ledger: Ledger) -> None:
    with ledger.scope("topic-1", cause=CAUSE):
        message: list[tuple[str, bytes]] = [(key, value.encode()) for key, value in inject({}).items()]
    sent: Mapping[str, bytes] = dict(message)
    assert extract(message) == extract(sent)
    assert extract(message).correlation_id == "topic-1"

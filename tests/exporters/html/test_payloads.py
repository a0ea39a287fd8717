"""Any payload, under any event type, gives a page whose elements are closed and whose links lead somewhere."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.events.schemas import SCHEMAS
from chatsnapshot.exporters.html import render_page
from chatsnapshot.exporters.html.facts import gather

TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["<b>", "&amp;", "\x1b[31m", "\u202e", "]]>", "a\r\nb"])
)
NUMBERS = st.one_of(
    st.integers(), st.sampled_from([10**400, -(2**70), 1e308, float("nan"), float("inf"), 0.1])
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OWN = [event_type for event_type in TYPES if not event_type.startswith("ledger.")]


@st.composite
def events(draw: st.DrawFn) -> tuple[str, Any]:
    """An event type, and a payload with its keys and any values."""
    event_type = draw(st.sampled_from([*OWN, "custom.thing"]))
    keys = sorted(SCHEMAS[event_type].example) if event_type in SCHEMAS else ["value"]
    payload = draw(st.dictionaries(st.sampled_from(keys) | TEXTS, VALUES, max_size=6))
    return event_type, draw(st.sampled_from([payload, payload, payload, draw(VALUES)]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(told=st.lists(events(), min_size=1, max_size=6))
@example(told=[("execution.evaluation", {"name": "x", "score": 10**400})])
@example(
    told=[("execution.model_call", {"model": "m", "usage": {"input_tokens": 10**30}, "duration_ns": 10**30})]
)
@example(
    told=[("execution.run_started", {"tags": 7}), ("execution.run_completed", {"duration_ns": -(10**30)})]
)
def test_any_payload_gives_a_page(read_page: Any, told: list[tuple[str, Any]]) -> None:
    with chatsnapshot.open("memory:", validation="off") as ledger:
        ledger.record_many(
            [{"event_type": kind, "payload": load, "correlation_id": "r"} for kind, load in told]
        )
        page = read_page(render_page(gather(ledger, "r")))
    ids = [one["id"] for _, one, _ in page.elements if "id" in one]
    assert len(ids) == len(set(ids))
    assert {one["href"][1:] for _, one, _ in page.elements if "href" in one} <= set(ids)
    assert not {"script", "img", "b"} & {name for name, _, _ in page.elements}

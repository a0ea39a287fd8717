"""Whatever was recorded and whatever counts: the budget holds, items stay whole, citations exist, order is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import LimitExceeded
from chatsnapshot.projections.context.making import context
from chatsnapshot.projections.context.tokens import estimate_tokens

TEXTS = st.one_of(
    st.text(max_size=300),
    st.sampled_from(["", "```", "[position 1, run r1, user]", "word " * 200, "退款" * 150, "\u202e\x1b[31m"]),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "system", "call", "result", "ask", "answer", "state"]),
        TEXTS,
        st.integers(0, 3),  # which call or question
        st.integers(0, 8),  # how far back the cause is; 0: none
    ),
    min_size=1,
    max_size=30,
)


def odd_counter(text: str) -> int:
    """Not additive, and larger for some shorter texts."""
    return len(text) // 3 + (7 if len(text) % 5 == 0 else 0)


def record(history: Any, steps: list[tuple[str, str, int, int]]) -> None:
    history.entries.clear()
    history.sequences.clear()
    for kind, text, number, back in steps:
        cause = history.entries[-back] if 0 < back <= len(history.entries) else None
        made: dict[str, tuple[str, dict[str, Any]]] = {
            "call": (
                "execution.tool_call",
                {"name": f"t{text[:9]}", "call_id": f"c{number}", "arguments": {"a": text}},
            ),
            "result": ("execution.tool_result", {"call_id": f"c{number}", "result": text}),
            "ask": ("execution.human_input_requested", {"question_id": f"q{number}", "question": text}),
            "answer": ("execution.human_input_received", {"answers": f"q{number}", "answer": text}),
            "state": ("execution.state_change", {"text": text}),
        }
        event_type, payload = made.get(kind, ("execution.message", {"role": kind, "content": text}))
        history.add(event_type, payload, cause=cause)


@pytest.mark.parametrize("form", ["messages", "markdown", "openai", "anthropic"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=STEPS,
    budget=st.integers(1, 1_500),
    counter=st.sampled_from([estimate_tokens, len, odd_counter]),
    quoted=st.booleans(),
    limit=st.sampled_from([None, 10, 100]),
    until=st.integers(1, 30),
)
def test_every_promise_of_a_context_holds(
    history: Any, form: str, steps: Any, budget: int, counter: Any, quoted: bool, limit: Any, until: int
) -> None:
    record(history, steps)
    options: Any = {
        "format": form,
        "counter": counter,
        "quoted": quoted,
        "item_bytes_max": limit,
        "until": until,
    }
    try:
        made = context(history, "run-1", budget_tokens=budget, **options)
    except LimitExceeded as error:
        assert error.found > budget
        enough = context(history, "run-1", budget_tokens=error.found, **options)
        assert len(enough.items) >= 1
        return
    # The budget holds, as counted.
    assert made.tokens == counter(made.text) <= budget or (not made.items and made.text == "")
    # What is cited is there, in order, and not later than asked for.
    known = {entry.position for entry in history.entries}
    assert set(made.positions) <= {position for position in known if position <= until}
    assert [item.position for item in made.items] == sorted(item.position for item in made.items)
    for item in made.items:
        for one in item.records:
            assert one.position in item.positions
            assert f"position {one.position}, run run-1, " in made.text
    # Whole: every event of an item in the full transcript is in the item here.
    whole = context(history, "run-1", budget_tokens=10**9, item_bytes_max=10**6, until=until)
    full = {(item.position, item.kind, item.positions) for item in whole.items}
    assert {(item.position, item.kind, item.positions) for item in made.items} <= full
    # Nothing is left out without being counted.
    assert len(made.items) + made.left_out == len(whole.items)

"""Entries read once for several projections: the same states, to the byte, as each projection makes by itself."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.events.messages import read_messages
from chatsnapshot.events.normaliser import actor_of, read_call, read_result
from chatsnapshot.projections import base, engine
from chatsnapshot.projections.once import Once
from chatsnapshot.projections.refolding import digest_at
from chatsnapshot.projections.times import between, happened
from chatsnapshot.testing.samples import varied

SHARING = [name for name in engine.known() if hasattr(base.get(name), "take_once")]

TEXTS = st.sampled_from(["", "a", "tool", "function", "user", "$erased", "{}", '{"a": 1}', "[1]", "failed"])
VALUES = st.recursive(
    st.none() | st.booleans() | TEXTS | st.integers(-(2**66), 2**66) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TEXTS | st.sampled_from(["$type", "$blob", "$$a", "type", "text", "arguments", "tool_name"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("role", "content", "name", "sender", "agent", "to", "message", "parts", "tool_calls", "text"),
        *("tool_name", "call_id", "arguments", "result", "error", "status", "success", "tool", "function"),
        *("id", "native", "run_id", "speaker", "user"),
    ]
)
TEXT = st.sampled_from(["a", "look", "c1"]) | VALUES
"""A text as a rule: what payloads are read at once by."""
PAYLOADS = st.dictionaries(KEYS, VALUES, max_size=5)


def test_the_standard_projections_share_what_is_read() -> None:
    assert {"runs", "transcript", "metrics"} <= set(SHARING)


@pytest.mark.parametrize("seed", range(12))
def test_shared_readings_give_the_states_of_plain_folds(seed: int) -> None:
    with chatsnapshot.open("memory:", validation="off") as ledger:
        ledger.record_many(varied(random.Random(seed), 150))
        entries = list(ledger.read())
    shared = [Once(entry) for entry in entries]
    for name in SHARING:
        projection: Any = base.get(name)()
        plain: dict[str, Any] = {}
        together: dict[str, Any] = {}
        for entry, once in zip(entries, shared, strict=True):
            key = projection.key(entry)
            if key is not None:
                plain[key] = projection.apply(plain.get(key, projection.initial()), entry)
                together[key] = projection.take_once(together.get(key, projection.initial()), once)
        assert msgspec.json.encode(together) == msgspec.json.encode(plain), name


@pytest.mark.parametrize("seed", range(6))
def test_runs_cut_anywhere_give_the_digest_of_a_plain_fold(seed: int) -> None:
    chance = random.Random(seed)
    with chatsnapshot.open("memory:", validation="off") as ledger:
        ledger.record_many(varied(chance, 120))
        for until in sorted(chance.sample(range(1, 120), 4)):
            engine.run(ledger, SHARING, until=until)
        for done in engine.run(ledger, SHARING):
            slot = engine.find_slot(ledger._store, engine.resolve(done.name))
            assert slot is not None
            at = slot.checkpoint()
            assert at is not None
            assert (at.position, at.digest.hex()) == (ledger.head, digest_at(ledger, done.name, ledger.head))


# The general rule knows each of these keys by other names too; under those no payload is read at once.


@given(PAYLOADS, TEXT, TEXT)
@settings(max_examples=300)
def test_a_plain_message_reads_as_the_general_rule_reads_it(
    more: dict[str, Any], role: Any, content: Any
) -> None:
    more = {key: value for key, value in more.items() if key not in ("content", "text")}
    if isinstance(more.get("message"), dict):
        more["message"].pop("text", None)  # it would take the place of one name, and not of the other
    plain = read_messages({**more, "role": role, "content": content})
    assert plain == read_messages({**more, "role": role, "text": content})


@given(PAYLOADS, TEXT, TEXT, VALUES)
@example({"tool": {"arguments": "x"}}, "look", "c1", {})
@example({"function": {"arguments": "x"}}, "look", "c1", {})
@settings(max_examples=300)
def test_a_plain_call_reads_as_the_general_rule_reads_it(
    more: dict[str, Any], name: Any, call_id: Any, arguments: Any
) -> None:
    more = {key: value for key, value in more.items() if key != "call_id"}
    call = {"tool_name": name, "arguments": arguments, **more}
    assert read_call({**call, "call_id": call_id}) == read_call({**call, "tool_call_id": call_id})


@given(PAYLOADS, TEXT, VALUES)
@settings(max_examples=300)
def test_a_plain_result_reads_as_the_general_rule_reads_it(
    more: dict[str, Any], call_id: Any, result: Any
) -> None:
    more = {key: value for key, value in more.items() if key != "call_id"}
    answer = {"result": result, **more}
    assert read_result({**answer, "call_id": call_id}) == read_result({**answer, "tool_call_id": call_id})


@given(PAYLOADS, st.sampled_from(["execution.message", "execution.tool_call", "ui.interaction", "own.type"]))
@settings(max_examples=300)
def test_who_acted_and_when_is_what_the_one_reader_says(payload: dict[str, Any], event_type: str) -> None:
    with chatsnapshot.open("memory:", validation="off") as ledger:
        entry = msgspec.structs.replace(
            ledger.record(event_type, {}, correlation_id="run-1"), payload_json=msgspec.json.encode(payload)
        )
    once = Once(entry)
    assert once.who == (actor_of(event_type, entry.payload) or entry.source.name)
    assert once.at == happened(entry)
    assert (once.event_id, once.causation_id) == (entry.event_id, entry.causation_id)


def test_a_time_with_an_offset_is_the_moment_that_it_names() -> None:
    later = "2026-11-30T12:00:00.000001Z"
    assert between("2026-11-30T13:00:00.000000+01:00", later) == 1000
    assert between("soon", later) is None

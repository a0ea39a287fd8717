"""Two versions of a schema: what breaks is found, named by its place, and what is called compatible is."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.compatibility import compare
from chatsnapshot.events.registry import Schemas

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "total": {"type": "number", "minimum": 0},
        "state": {"enum": ["open", "paid"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "required": ["id"],
}


def changed(**changes: Any) -> dict[str, Any]:
    """The order with other properties; ``None`` takes one away."""
    made = copy.deepcopy(ORDER)
    for key, schema in changes.items():
        if schema is None:
            del made["properties"][key]
        else:
            made["properties"][key] = schema
    return made


def found(old: dict[str, Any], new: dict[str, Any], mode: str = "full", **options: bool) -> list[str]:
    return [f"{one.direction} {one.path}: {one.reason}" for one in compare(old, new, mode, **options).breaks]


def test_a_schema_is_compatible_with_itself() -> None:
    assert compare(ORDER, ORDER) == compare(ORDER, copy.deepcopy(ORDER))
    assert compare(ORDER, ORDER).compatible


def test_a_new_optional_key_breaks_nothing() -> None:
    assert found(ORDER, changed(note={"type": "string"})) == []


def test_with_undeclared_keys_counted_a_new_typed_key_breaks_old_data() -> None:
    assert found(ORDER, changed(note={"type": "string"}), "backward", undeclared=True) == [
        "backward $.note: array or boolean or integer or null or number or object is allowed by the old schema, "
        "not by the new"
    ]


def test_a_new_required_key_breaks_old_data_and_no_old_reader() -> None:
    new = {**changed(currency={"type": "string"}), "required": ["id", "currency"]}
    assert found(ORDER, new) == ["backward $.currency: required by the new schema, unknown to the old"]
    assert compare(ORDER, new, "forward").compatible


@pytest.mark.parametrize(
    ("new", "breaks"),
    [
        (
            changed(total={"type": "integer", "minimum": 0}),
            ["backward $.total: number is allowed by the old schema, not by the new"],
        ),
        (
            changed(id={"type": ["string", "null"], "minLength": 1}),
            ["forward $.id: null is allowed by the new schema, not by the old"],
        ),
        (
            changed(state={"enum": ["open"]}),
            ['backward $.state: the value "paid" is allowed by the old schema, not by the new'],
        ),
        (
            changed(state={"enum": ["open", "paid", "lost"]}),
            ['forward $.state: the value "lost" is allowed by the new schema, not by the old'],
        ),
        (
            changed(id={"type": "string", "minLength": 3}),
            ["backward $.id: minLength is 3 in the new schema, 1 in the old"],
        ),
        (
            changed(total={"type": "number", "minimum": 0, "maximum": 9}),
            ["backward $.total: maximum is 9 in the new schema, none in the old"],
        ),
        (
            changed(id={"type": "string", "minLength": 1, "pattern": "^a"}),
            ["backward $.id: cannot tell: pattern of the new schema, none in the old"],
        ),
        (
            changed(lines={"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "integer"}}}}),
            [
                "backward $.lines[].sku: string is allowed by the old schema, not by the new",
                "forward $.lines[].sku: integer is allowed by the new schema, not by the old",
            ],
        ),
        (
            {**changed(state=None), "additionalProperties": False},
            ["backward $.state: not allowed by the new schema, which is closed"],
        ),
        (
            changed(total={"not": {"type": "string"}, "type": "number", "minimum": 0}),
            ["backward $.total: cannot tell: not of the new schema"],
        ),
    ],
)  # fmt: skip
def test_what_breaks_is_named_with_its_place_and_reason(new: dict[str, Any], breaks: list[str]) -> None:
    assert found(ORDER, new) == breaks


def test_a_key_that_goes_breaks_nothing_where_the_schema_is_open() -> None:
    assert found(ORDER, changed(total=None)) == []


def test_a_part_that_names_few_keys_does_not_make_the_others_unwritten() -> None:
    old = {
        **ORDER,
        "allOf": [
            {
                "anyOf": [
                    {"type": "object", "properties": {"id": ORDER["properties"]["id"]}, "required": ["id"]}
                ]
            }
        ],
    }
    new = changed(total={"type": "string"})
    assert found(old, new, "backward") == [
        "backward $.total: integer or number is allowed by the old schema, not by the new"
    ]


def test_a_recursive_schema_is_compared_to_its_depth() -> None:
    def tree(leaf: str) -> dict[str, Any]:
        node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}
        node["properties"]["v"] = {"type": leaf}
        return {"$ref": "#/$defs/N", "$defs": {"N": node}}

    assert compare(tree("integer"), tree("number"), "backward").compatible
    assert found(tree("number"), tree("integer"), "backward") == [
        "backward $.v: number is allowed by the old schema, not by the new"
    ]


def test_a_reference_that_leads_out_is_undecided_and_counts_as_a_break() -> None:
    new = changed(total={"$ref": "urn:elsewhere"})
    comparison = compare(ORDER, new, "backward")
    assert not comparison.compatible
    assert comparison.breaks[0].reason.startswith("cannot tell")


@pytest.mark.parametrize("loop", [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}, {"allOf": [{"$ref": "#"}]}])
def test_a_part_that_only_refers_to_itself_is_undecided(loop: dict[str, Any]) -> None:
    assert not compare({"type": "string"}, loop, "backward").compatible
    assert not compare(loop, {"type": "string"}, "backward").compatible


def test_schemas_that_multiply_are_given_up_in_bounded_time() -> None:
    def wide(size: int) -> dict[str, Any]:
        parts = [{"anyOf": [{"required": [f"k{n}-{i}"]} for i in range(size)]} for n in range(size)]
        return {"type": "object", "allOf": parts}

    assert not compare(wide(12), {"anyOf": [wide(11), wide(10)]}, "full").compatible


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="a mode is one of backward, forward, full"):
        compare(ORDER, ORDER, "sideways")


def test_each_schema_of_the_catalogue_is_compatible_with_itself() -> None:
    for one in Schemas(plugins=False):
        document = one.json_schema()
        assert found(document, copy.deepcopy(document)) == [], one


# --- what it calls compatible is ---

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = [None, True, False, 0, 1, 2, 5, 1.5, "", "x", "xy", "xyz"]
SMALL = st.integers(0, 3)
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


def some_value(chance: random.Random, depth: int = 2) -> Any:
    kind = chance.random()
    if depth and kind < 0.3:
        return {key: some_value(chance, depth - 1) for key in chance.sample("abc", chance.randint(0, 3))}
    if depth and kind < 0.5:
        return [some_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice(LEAVES)


def some_schema(chance: random.Random, depth: int = 3) -> dict[str, Any]:
    """Up to four keywords: many at once leave nothing that fits."""

    def inner() -> Any:
        return some_schema(chance, depth - 1) if depth and chance.random() < 0.8 else chance.random() < 0.8

    def several(least: int = 1, most: int = 3) -> list[Any]:
        return [inner() for _ in range(chance.randint(least, most))]

    makers: dict[str, Callable[[], Any]] = {
        "type": lambda: chance.choice(TYPES) if chance.random() < 0.7 else chance.sample(TYPES, 2),
        "enum": lambda: chance.sample(LEAVES, chance.randint(1, 3)),
        "multipleOf": lambda: chance.randint(1, 4),
        "items": inner,
        "prefixItems": several,
        "properties": lambda: {key: inner() for key in chance.sample("abc", chance.randint(0, 3))},
        "required": lambda: chance.sample("abc", chance.randint(0, 2)),
        "additionalProperties": inner,
        "patternProperties": lambda: {chance.choice(["^a", "b"]): inner()},
        "propertyNames": inner,
        "contains": inner,
        "minContains": lambda: chance.randint(0, 2),
        "unevaluatedProperties": inner,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "uniqueItems": lambda: chance.random() < 0.5,
    }
    for word in ("imum", "Length", "Items", "Properties"):
        makers[f"min{word}"] = makers[f"max{word}"] = lambda: chance.randint(0, 3)
    makers["exclusiveMinimum"] = makers["exclusiveMaximum"] = lambda: chance.randint(0, 3)
    words = chance.sample(sorted(makers), chance.randint(0, 4))
    if chance.random() < 0.5 and "type" not in words:
        words.append("type")
    return {word: makers[word]() for word in words}


def some_pair(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two schemas; mostly one is the other with keywords taken away, replaced or added somewhere."""
    old = some_schema(chance)
    if chance.random() < 0.2:
        return old, some_schema(chance)
    new = copy.deepcopy(old)
    place: Any = new
    while chance.random() < 0.6:
        parts = [part for value in place.values() for part in (value if isinstance(value, list) else [value])]
        parts = [part for part in parts if isinstance(part, dict) and part]
        if not parts:
            break
        place = chance.choice(parts)
    if place and chance.random() < 0.8:
        place.pop(chance.choice(sorted(place)))
    if chance.random() < 0.4 and set(place) - set("abc"):
        place.update(some_schema(chance, 1))
    return (old, new) if chance.random() < 0.7 else (new, old)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40))
def test_what_is_called_compatible_reads_every_value_of_the_writer(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        old, new = some_pair(chance)
        try:
            writer, reader = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
        except ValueError:  # a keyword ended up under a key of its own
            continue
        if not compare(old, new, "backward", undeclared=True).compatible:
            continue
        for value in LEAVES + [some_value(chance) for _ in range(30)]:
            assert not writer.is_valid(value) or reader.is_valid(value), (old, new, value)
        try:
            covers = jsonschema_rs.canonicalize(new).covers(jsonschema_rs.canonicalize(old))
        except jsonschema_rs.canonical.CanonicalizationError:
            continue
        assert covers != jsonschema_rs.canonical.Containment.NO, (old, new)  # another implementation agrees


def test_the_random_pairs_are_often_compatible_and_often_not() -> None:
    chance = random.Random(1)
    verdicts = [compare(*some_pair(chance), "backward", undeclared=True).compatible for _ in range(200)]
    assert 40 < sum(verdicts) < 160


PLAIN = st.recursive(
    st.sampled_from(
        [{"type": "string"}, {"type": "integer"}, {"type": ["string", "null"]}, {"enum": ["x", 1]}]
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, min_size=1, max_size=3)},
            optional={"required": st.lists(NAMES, max_size=1)},
        )
        | st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts})
        | inner.map(lambda part: {"type": "array", "items": part})
    ),
    max_leaves=5,
)


def written_by(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a writer with this schema writes: only the keys that it declares."""
    if "anyOf" in schema:
        return st.one_of([written_by(part) for part in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "array":
        return st.lists(written_by(schema["items"]), max_size=2)
    if schema["type"] != "object":
        texts = {"string": st.sampled_from(["", "x"]), "integer": SMALL, "null": st.none()}
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return st.one_of([texts[kind] for kind in types])
    fields = {key: written_by(part) for key, part in schema["properties"].items()}
    needed = {key: fields.get(key, st.sampled_from(LEAVES)) for key in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional={key: fields[key] for key in fields.keys() - needed.keys()})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_what_is_called_compatible_reads_all_that_declares_its_keys(data: st.DataObject) -> None:
    old, new = data.draw(PLAIN), data.draw(PLAIN)
    if any(key not in old.get("properties", {}) for key in old.get("required", ())):
        return
    if compare(old, new, "backward").compatible:
        value = data.draw(written_by(old))
        assert jsonschema_rs.is_valid(new, value), (old, new, value)

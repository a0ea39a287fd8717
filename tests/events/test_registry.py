"""Schemas of one's own: every way to give them, what is refused and how, where they stand among others."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import logging
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent, MissingExtra, NotFound
from chatsnapshot.events import registry
from chatsnapshot.events.catalogue import TYPES
from chatsnapshot.events.registry import Schemas


class Struct(msgspec.Struct):
    total: int
    note: str = ""


@dataclasses.dataclass
class Data:
    total: int
    note: str = ""


class Typed(TypedDict):
    total: int


@attrs.define
class Attrs:
    total: int
    note: str = ""


class Named(NamedTuple):
    total: int
    note: str = ""


class Model(pydantic.BaseModel):
    total: int
    note: str = ""


DOCUMENT: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["total"],
}

KINDS = [Struct, Data, Typed, Attrs, Named, Model, DOCUMENT]


def fits(schemas: Schemas, payload: Any, version: int = 1) -> bool:
    return schemas.misfit("order.placed", version, msgspec.json.encode(payload)) is None


@pytest.mark.parametrize("schema", KINDS, ids=lambda kind: getattr(kind, "__name__", "JSON Schema"))
def test_every_kind_of_schema_tells_what_fits(schema: Any) -> None:
    schemas = Schemas({"order.placed": schema})
    assert fits(schemas, {"total": 1})
    assert fits(schemas, {"total": 1, "further": True})
    misfit = schemas.misfit("order.placed", 1, b'{"total":"SECRET"}')
    assert misfit is not None
    assert misfit.path == "$.total"
    assert "SECRET" not in misfit.reason
    assert not fits(schemas, {})
    accept = schemas.find("order.placed").check.accept
    accept(b'{"total":1}')
    with pytest.raises(Exception):  # noqa: B017  # each kind has its own
        accept(b'{"total":"x"}')


@pytest.mark.parametrize("schema", KINDS, ids=lambda kind: getattr(kind, "__name__", "JSON Schema"))
def test_what_a_class_is_recorded_as_fits_its_schema(schema: Any) -> None:
    if isinstance(schema, dict):
        return
    with chatsnapshot.open("memory:", validation="strict", schemas={"order.placed": schema}) as snapshot:
        entry = snapshot.record("order.placed", schema(total=3), correlation_id="a")
        assert entry.payload["total"] == 3


@pytest.mark.parametrize("schema", KINDS, ids=lambda kind: getattr(kind, "__name__", "JSON Schema"))
def test_every_kind_of_schema_is_exported_and_read_back_with_the_same_verdicts(schema: Any) -> None:
    exported = Schemas({"order.placed": schema}).find("order.placed").json_schema()
    again = Schemas(exported)
    assert again.find("order.placed").version == 1
    assert fits(again, {"total": 1})
    assert not fits(again, {"total": "x"})


def test_files_folders_mappings_paths_and_lists_are_taken(tmp_path: Path) -> None:
    named = {"x-event-type": "order.placed", "x-version": 2, **DOCUMENT}
    by_id = {"$id": "urn:chatsnapshot:schema:order.lost:1", **DOCUMENT}
    (tmp_path / "one.json").write_text(json.dumps(named))
    (tmp_path / "two.json").write_text(json.dumps(by_id))
    (tmp_path / "many.json").write_text(json.dumps({"order.sent": DOCUMENT, "order.sent:3": DOCUMENT}))
    folder = Schemas(tmp_path)
    assert folder.versions("order.placed") == (2,)
    assert folder.versions("order.lost") == (1,)
    assert folder.versions("order.sent") == (1, 3)
    several = Schemas(
        [str(tmp_path / "one.json"), {("order.placed", 1): Struct, "order.kept": tmp_path / "two.json"}]
    )
    assert several.versions("order.placed") == (1, 2)
    assert several.versions("order.kept") == (1,)


def test_a_module_and_attribute_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_events.py").write_text(
        "def schemas():\n    return {'order.placed': dict_}\ndict_ = {'type': 'object'}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert Schemas("shop_events:schemas").find("order.placed").source == "shop_events:schemas"
    with pytest.raises(InvalidEvent, match=r"shop_events:nothing cannot be loaded: AttributeError"):
        Schemas("shop_events:nothing")
    with pytest.raises(InvalidEvent, match=r"no_such_module:x cannot be loaded: ModuleNotFoundError"):
        Schemas("no_such_module:x")


def test_the_catalogue_lies_beneath_and_may_be_covered() -> None:
    schemas = Schemas({"execution.message": Struct}, plugins=False)
    assert {one.event_type for one in schemas} == set(TYPES)
    assert schemas.find("execution.message").source.endswith("test_registry.Struct")
    assert schemas.find("execution.output").source == "catalogue"
    assert Schemas(plugins=False).find("execution.message").source == "catalogue"


def test_a_second_schema_of_one_version_is_refused_and_the_same_one_is_not() -> None:
    schemas = Schemas({"order.placed": Struct})
    schemas.register("order.placed", Struct)
    with pytest.raises(
        InvalidEvent, match=r"has a schema already: class .*Struct; give the new one a version"
    ):
        schemas.register("order.placed", Data)


@pytest.mark.parametrize(
    ("event_type", "version"), [("Order", 1), ("order", 1), ("order.placed", 0), ("a.b", True)]
)
def test_a_type_or_version_that_cannot_be_is_refused(event_type: str, version: int) -> None:
    with pytest.raises(InvalidEvent, match=r"a schema is registered for a type such as order\.placed"):
        Schemas().register(event_type, Struct, version=version)


class Unreadable(msgspec.Struct):
    where: Path


class Empty(msgspec.Struct):
    total: Annotated[int, msgspec.Meta(ge=5, le=3)]


class Listed(msgspec.Struct, array_like=True):
    total: int


class Dangling(msgspec.Struct):
    total: "Nowhere"  # type: ignore[name-defined]  # noqa: F821, UP037


CONTRADICTIONS: list[tuple[Any, str]] = [
    ({"type": "objekt"}, "this is no JSON Schema: .* at /type"),
    ({"properties": {"a": {"minimum": "x"}}}, "this is no JSON Schema: .* at /properties/a/minimum"),
    ({"properties": {"a": {"pattern": "("}}}, "this is no JSON Schema: .* at /properties/a/pattern"),
    ({"$ref": "#/$defs/nowhere"}, "this is no JSON Schema: .*nowhere"),
    ({"$ref": "file:///etc/hostname"}, "this is no JSON Schema: .*Retrieval is disabled"),
    ({"type": "object", "required": ["a"], "properties": {"a": False}}, "at /: no value can fit type"),
    ({"properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}}}, "at /properties/a: .*minimum and maximum"),
    ({"properties": {"a": {"type": "string", "enum": [1, 2]}}}, "at /properties/a: no value can fit type and enum"),
    ({"properties": {"a": {"allOf": [{"type": "string"}, {"type": "null"}]}}}, "at /properties/a: no value can fit"),
    ({"type": "array"}, "no object fits it, and a payload is an object"),
    ({**DOCUMENT, "examples": [{"total": "SECRET"}]}, r"at /examples/0: it does not fit at \$.total"),
    (Unreadable, "class .*Unreadable cannot be a schema: type .*Path.* is not supported"),
    (Empty, "class .*Empty contradicts itself at /properties/total: minimum 5 and maximum 3 leave nothing"),
    (Listed, "class .*Listed cannot be a schema: a payload is an object"),
    (Dangling, "class .*Dangling cannot be a schema: .*Nowhere"),
    (int, "class builtins.int cannot be a schema"),
    (7, "a schema is a class or a JSON Schema"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "sentence"), CONTRADICTIONS, ids=[words[:40] for _, words in CONTRADICTIONS]
)
def test_a_schema_that_contradicts_itself_is_refused_with_its_place(schema: Any, sentence: str) -> None:
    with pytest.raises(InvalidEvent, match=sentence) as caught:
        chatsnapshot.open("memory:", schemas={"order.placed": schema})
    assert "order.placed" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": False}, "additionalProperties": False},
        {"additionalProperties": {"not": {}}},
        {
            "$ref": "#/$defs/N",
            "$defs": {"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}},
        },
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
    ],
)
def test_a_schema_that_means_what_it_says_is_taken(schema: dict[str, Any]) -> None:
    assert fits(Schemas({"order.placed": schema}), {})


@pytest.mark.parametrize("schema", [Struct, DOCUMENT])
def test_an_example_that_does_not_fit_is_refused(schema: Any) -> None:
    with pytest.raises(
        InvalidEvent, match=r"the example of order.placed, version 1, does not fit .* at \$.total"
    ):
        Schemas().register("order.placed", schema, example={"total": "x"})


def test_a_hostile_pattern_costs_milliseconds() -> None:
    schemas = Schemas(
        {"order.placed": {"properties": {"a": {"type": "string", "pattern": "^(a|aa)+(?=b)$"}}}}
    )
    begun = time.process_time()
    assert not fits(schemas, {"a": "a" * 5_000})
    assert time.process_time() - begun < 5  # unbounded it would take longer than the universe


@pytest.mark.parametrize("given", [5, object(), Struct])
def test_what_is_no_source_is_refused(given: Any) -> None:
    with pytest.raises(InvalidEvent, match="schemas are given as Schemas, a path or a mapping"):
        chatsnapshot.open("memory:", schemas=given)


def test_bad_files_are_refused_with_their_name(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"{\xff")
    for path, words in ((tmp_path / "none.json", "No such file"), (tmp_path / "bad.json", "is no JSON")):
        with pytest.raises(InvalidEvent, match=f"{path.name}.*{words}"):
            Schemas(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidEvent, match=r"there is no \.json file"):
        Schemas(tmp_path / "empty")


def test_without_the_extra_the_error_names_it_and_classes_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert fits(Schemas({"order.placed": Struct}), {"total": 1})
    with pytest.raises(MissingExtra, match=r"chatsnapshot\[schemas\]"):
        Schemas({"order.placed": DOCUMENT})


def test_pydantic_and_the_extra_are_not_loaded_by_recording() -> None:
    code = (
        "import sys, chatsnapshot\n"
        "with chatsnapshot.open('memory:') as s: s.record('execution.message', {'role': 'user'}, correlation_id='a')\n"
        "print('pydantic' in sys.modules, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False False\n"


def test_unknown_types_are_told_their_nearest_names() -> None:
    with pytest.raises(NotFound, match=r"did you mean execution\.tool_call"):
        Schemas().find("execution.toolcall")


def test_schemas_and_their_ledger_can_be_pickled(tmp_path: Path) -> None:
    schemas = Schemas({"order.placed": Struct, "order.placed:2": DOCUMENT})
    schemas.upcaster("order.placed", 1)(dict)
    with chatsnapshot.open(tmp_path / "a.db", validation="strict", schemas=schemas) as snapshot:
        with pickle.loads(pickle.dumps(snapshot)) as again, pytest.raises(InvalidEvent):
            again.record("order.placed", {}, correlation_id="a")
        assert again.validator.schemas.upcast_types == {"order.placed"}


# --- entry points ---


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What other packages offer, by the name of the entry point; an exception is raised at loading."""
    offers: dict[str, Any] = {}

    class Point(NamedTuple):
        name: str
        value: str = "x:y"

        def load(self) -> Any:
            if isinstance(offers[self.name], Exception):
                raise offers[self.name]
            return offers[self.name]

    monkeypatch.setattr(registry, "_offers", None)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point(name) for name in offers])
    return offers


def test_entry_points_stand_between_ones_own_and_the_catalogue(offered: dict[str, Any]) -> None:
    offered["shop"] = lambda: {
        "order.placed": Struct,
        "execution.output": Struct,
        "execution.message": Struct,
    }
    more = offered["more"] = Schemas({"order.placed:2": Data}, plugins=False)
    more.upcaster("order.placed", 1)(dict)
    schemas = Schemas({"execution.message": Data})
    sources = {one.event_type: one.source for one in schemas if one.version == 1}
    assert sources["order.placed"] == sources["execution.output"] == "entry point shop"
    assert sources["execution.message"].endswith("Data")
    assert schemas.upcast_types == {"order.placed"}
    assert Schemas(plugins=False).get("order.placed") is None


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ImportError("no module shop"), "ImportError: no module shop"),
        ({"order.placed": int}, "cannot be a schema"),
        (7, "int"),
    ],
)
def test_a_broken_entry_point_is_named_once_and_left_out(
    offered: dict[str, Any], caplog: pytest.LogCaptureFixture, broken: Any, words: str
) -> None:
    caplog.set_level(logging.WARNING, "chatsnapshot.schemas")
    offered["broken"] = broken
    offered["good"] = {"order.lost": Struct}
    for _ in range(2):
        with chatsnapshot.open("memory:") as snapshot:
            snapshot.record("execution.message", {"role": "user", "content": "x"}, correlation_id="a")
            assert snapshot.validator.schemas.get("order.lost") is not None
    (record,) = caplog.records
    assert "the schemas of entry point broken are left out" in record.getMessage()
    assert words in record.getMessage()

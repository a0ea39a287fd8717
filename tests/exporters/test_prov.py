"""PROV-JSON: every relation between what is there, in the structure of the submission, and read by another program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

Exported = Callable[..., bytes]

# PROV-JSON, section 3: the keys that a relation must have, and those that it may have.
RELATIONS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "wasGeneratedBy": ({"prov:entity": "entity"}, {"prov:activity": "activity", "prov:time": "time"}),
    "used": ({"prov:activity": "activity"}, {"prov:entity": "entity", "prov:time": "time"}),
    "wasInformedBy": ({"prov:informed": "activity", "prov:informant": "activity"}, {}),
    "wasStartedBy": (
        {"prov:activity": "activity"},
        {"prov:trigger": "entity", "prov:starter": "activity", "prov:time": "time"},
    ),
    "wasDerivedFrom": ({"prov:generatedEntity": "entity", "prov:usedEntity": "entity"}, {}),
    "wasAttributedTo": ({"prov:entity": "entity", "prov:agent": "agent"}, {}),
    "wasAssociatedWith": ({"prov:activity": "activity"}, {"prov:agent": "agent", "prov:plan": "entity"}),
    "actedOnBehalfOf": (
        {"prov:delegate": "agent", "prov:responsible": "agent"},
        {"prov:activity": "activity"},
    ),
    "wasInfluencedBy": ({"prov:influencee": "any", "prov:influencer": "any"}, {}),
    "specializationOf": ({"prov:specificEntity": "entity", "prov:generalEntity": "entity"}, {}),
    "hadMember": ({"prov:collection": "entity", "prov:entity": "entity"}, {}),
}
NAME = re.compile(r"([a-z]+):((?:[A-Za-z0-9_/@+.-]|%[0-9A-F]{2})*(?:[A-Za-z0-9_/@+-]|%[0-9A-F]{2}))")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def flaws(document: Any) -> list[str]:
    """What the submission asks for and this document does not give."""
    found: list[str] = []
    kinds = {kind: set(document.get(kind, ())) for kind in ("entity", "activity", "agent")}
    kinds["any"] = set().union(*kinds.values())
    if len(kinds["any"]) != sum(len(kinds[kind]) for kind in ("entity", "activity", "agent")):
        found.append("a name of two kinds")
    for name in kinds["any"]:
        matched = NAME.fullmatch(name)
        if matched is None or matched[1] not in document["prefix"]:
            found.append(f"{name} is no qualified name")
    for kind in ("entity", "activity", "agent"):
        for name, record in document.get(kind, {}).items():
            for key, value in record.items():
                if key in ("prov:startTime", "prov:endTime"):
                    good = kind == "activity" and TIME.fullmatch(value)
                elif isinstance(value, dict):
                    good = set(value) == {"$", "type"} and NAME.fullmatch(value["$"])
                else:
                    good = isinstance(value, (str, int, float))
                if not good or key.split(":")[0] not in {*document["prefix"], "prov"}:
                    found.append(f"{name}: {key}={value}")
    for kind, records in document.items():
        if kind in ("prefix", "entity", "activity", "agent"):
            continue
        must, may = RELATIONS[kind]
        for name, record in records.items():
            if not name.startswith("_:") or must.keys() - record.keys():
                found.append(f"{kind} {name} lacks an end")
            for key, value in record.items():
                of = {**must, **may}.get(key)
                if of == "time":
                    good = TIME.fullmatch(value) is not None
                else:
                    good = key == "prov:type" if of is None else value in kinds[of]
                if not good:
                    found.append(f"{kind} {name}: {key}={value}")
            if len({record.get(key) for key in must}) < len(must):
                found.append(f"{kind} {name}: something of itself")
    return found


@pytest.fixture
def document(exported: Exported) -> Callable[..., Any]:
    def read(ledger: Any, **options: Any) -> Any:
        return json.loads(exported(ledger, "prov", **options))

    return read


def event(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def ends(document: Any, kind: str) -> set[tuple[str, ...]]:
    """The ends of all relations of a kind, without prefixes and with short event ids."""
    return {
        tuple(
            re.sub(r"0{8}-0000-4000-8000-0*", "", value) for key, value in one.items() if key != "prov:time"
        )
        for one in document.get(kind, {}).values()
    }


def test_the_document_has_the_structure_of_prov_json(
    story: Any, tell: Any, timeless: Any, document: Any
) -> None:
    story.erase([3], reason="asked for")
    tell("execution.message", {"role": "assistant", "content": "\x00\x1b\ud800 </x>"}, 'a"<&> é.', source={
        "origin": "agent", "runtime": "test", "name": "who: \"me\".",
    })  # fmt: skip
    started = tell("execution.run_started", {}, "plain")
    tell("execution.run_completed", {}, "plain", causation_id=started)  # the end of what led to it
    made = document(story)
    assert flaws(made) == []
    broken = json.loads(json.dumps(made))
    broken["used"]["_:used1"]["prov:entity"] = "event:nowhere"
    del broken["wasInformedBy"]["_:wasInformedBy1"]["prov:informant"]
    assert len(flaws(broken)) == 2


def test_tool_calls_use_what_asked_for_them_and_generate_their_results(story: Any, document: Any) -> None:
    made = document(story)
    generated = ends(made, "wasGeneratedBy")
    assert {("event:4", "activity:3"), ("event:9", "activity:5")} <= generated
    assert made["activity"][f"activity:{event(3)}"]["cs:error"] == "no answer"
    assert made["entity"][f"event:{event(4)}"]["cs:failed"] is True
    assert ("activity:3", "agent:planner", "tool:search") in ends(made, "wasAssociatedWith")
    call = made["activity"][f"activity:{event(5)}"]
    assert call["prov:startTime"].endswith("02:26:05.000000Z") and call["prov:endTime"].endswith(
        "02:26:09.000000Z"
    )
    assert call["cs:in"]["$"] == f"activity:{event(1)}"


def test_a_run_uses_what_it_is_given_and_generates_what_it_says(story: Any, document: Any) -> None:
    made = document(story)
    assert ("activity:1", "event:2") in ends(made, "used")
    assert ("event:2", "person:dana") in ends(made, "wasAttributedTo")
    assert {("event:11", "activity:1"), ("event:12", "activity:1")} <= ends(made, "wasGeneratedBy")
    assert ("event:11", "agent:planner") in ends(made, "wasAttributedTo")
    assert made["activity"][f"activity:{event(1)}"]["cs:status"] == "completed"
    assert ("correlation:run-1", "event:2") in ends(made, "hadMember")


def test_a_child_run_was_begun_by_its_cause_and_acts_for_the_run_above(story: Any, document: Any) -> None:
    made = document(story)
    assert ("activity:6", "activity:5") in ends(made, "wasStartedBy")
    assert ("activity:6", "activity:5") in ends(made, "wasInformedBy")
    assert ends(made, "actedOnBehalfOf") == {("agent:reader", "agent:planner", "activity:6")}


def test_a_model_call_uses_its_model_and_generates_what_follows_from_it(
    ledger: Any, tell: Any, document: Any
) -> None:
    tell("execution.run_started", {"name": "r"})
    call = tell("execution.model_call", {"model": "m-1", "duration_ns": 500_000_000})
    tell("execution.message", {"role": "assistant", "content": "hello"}, causation_id=call)
    made = document(ledger)
    assert ("activity:2", "model:m-1") in ends(made, "used")
    assert ("event:3", "activity:2") in ends(made, "wasGeneratedBy")
    assert made["activity"][f"activity:{event(2)}"]["prov:startTime"].endswith("02:26:01.500000Z")


def test_links_task_dependencies_principals_versions_and_judgements_are_there(
    ledger: Any, tell: Any, document: Any
) -> None:
    tell("system.task_scheduled", {"task_id": "b", "depends_on": ["a"]})
    tell("system.task_started", {"task_id": "a"})
    first = tell("execution.artifact", {"artifact_id": "report", "name": "r.md"})
    tell("system.task_completed", {"task_id": "a"})
    tell("system.task_started", {"task_id": "b"}, attributes={"links": [first.event_id], "principal": "dana"})
    second = tell("execution.artifact", {"artifact_id": "report", "name": "r.md"})
    judged = {"name": "good", "score": 0.5, "evaluator": "mo", "kind": "human"}
    tell("execution.evaluation", {**judged, "target_event_id": second.event_id}, "judging")
    made = document(ledger)
    assert flaws(made) == []
    assert ("activity:5", "activity:2") in ends(made, "wasInformedBy")
    assert ("activity:5", "event:3") in ends(made, "used")
    assert ends(made, "actedOnBehalfOf") >= {("agent:planner", "agent:dana", "activity:events/run-1")}
    assert {one["prov:generalEntity"] for one in made["specializationOf"].values()} == {
        "artifact:run-1/report"
    }
    (revision,) = made["wasDerivedFrom"].values()
    assert (revision["prov:generatedEntity"], revision["prov:usedEntity"]) == (
        f"event:{event(6)}", f"event:{event(3)}",
    )  # fmt: skip
    assert ("event:7", "event:6") in ends(made, "wasInfluencedBy")
    assert ("event:7", "person:mo") in ends(made, "wasAttributedTo")
    assert made["entity"][f"event:{event(7)}"]["cs:score"] == 0.5


def test_what_is_shown_is_not_attributed_to_who_sees_it(ledger: Any, tell: Any, document: Any) -> None:
    person = {"origin": "ui", "runtime": "web", "name": "dana"}
    tell("ui.input_received", {"text": "hello"}, source=person)
    tell("execution.run_started", {})
    tell("ui.output_displayed", {"text": "hi"}, source=person)
    made = document(ledger)
    assert ends(made, "wasAttributedTo") == {("event:1", "person:dana")}
    # It was given to the run that began afterwards.
    assert ends(made, "used") == {("activity:2", "event:1")}


def test_a_cause_outside_of_the_document_is_counted_and_names_nothing(story: Any, tmp_path: Any) -> None:
    from chatsnapshot.exporters import export

    told = export(story, tmp_path / "child.json", "prov", runs="child-1")
    assert told.left_out == {"causes that stand outside of what is exported": 1}
    assert flaws(json.loads((tmp_path / "child.json").read_text())) == []


def test_each_correlation_stands_in_a_whole_ledger_once(story: Any, document: Any) -> None:
    assert document(story) == document(story, runs=["run-1", "child-1"])


def test_the_package_prov_reads_the_document_and_writes_the_same(
    story: Any, tell: Any, exported: Exported
) -> None:
    pytest.importorskip("prov", reason="needs prov (make test-runtimes)")
    import io

    from prov.model import ProvActivity, ProvDocument, ProvEntity

    tell("execution.message", {"role": "assistant", "content": "x"}, 'a"<&> é.')
    data = exported(story, "prov")
    read = ProvDocument.deserialize(io.StringIO(data.decode()), format="json")
    ours = json.loads(data)
    assert len(list(read.get_records(ProvEntity))) == len(ours["entity"])
    assert len(list(read.get_records(ProvActivity))) == len(ours["activity"])
    relations = sum(len(one) for kind, one in ours.items() if kind in RELATIONS)
    assert len(read.records) == relations + sum(len(ours[kind]) for kind in ("entity", "activity", "agent"))
    again = ProvDocument.deserialize(io.StringIO(read.serialize(format="json")), format="json")
    assert again == read
    assert "wasGeneratedBy(event:" in read.get_provn()

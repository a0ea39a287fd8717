"""OCEL 2.0: types are declared, references lead somewhere, and pm4py finds a process in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.exporters import export

Exported = Callable[..., bytes]
TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "time": lambda value: is_time(value),
}


def is_time(value: Any) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value.replace("Z", "+00:00")).tzinfo is not None


def flaws(log: Any) -> list[str]:
    """What the schema of OCEL 2.0 JSON, and its prose, ask for and this log does not give."""
    found: list[str] = []
    if set(log) != {"eventTypes", "objectTypes", "events", "objects"}:
        found.append(f"keys {sorted(log)}")
    declared: dict[str, dict[str, dict[str, str]]] = {}
    for kind in ("eventTypes", "objectTypes"):
        declared[kind] = {
            one["name"]: {attribute["name"]: attribute["type"] for attribute in one["attributes"]}
            for one in log[kind]
        }
        if len(declared[kind]) != len(log[kind]):
            found.append(f"{kind} declared twice")
    ids = [one["id"] for one in log["objects"]]
    if len(set(ids)) != len(ids) or len({one["id"] for one in log["events"]}) != len(log["events"]):
        found.append("an id twice")
    for kind, ones in (("eventTypes", log["events"]), ("objectTypes", log["objects"])):
        for one in ones:
            if one["type"] not in declared[kind]:
                found.append(f"{one['type']} is not declared")
                continue
            if kind == "eventTypes" and not is_time(one["time"]):
                found.append(f"{one['id']} has no time")
            for attribute in one["attributes"]:
                type = declared[kind][one["type"]].get(attribute["name"])
                if type is None or not TYPES[type](attribute["value"]):
                    found.append(f"{one['id']}: {attribute}")
                if kind == "objectTypes" and not is_time(attribute["time"]):
                    found.append(f"{one['id']}: no time of {attribute}")
            for relation in one["relationships"]:
                if relation["objectId"] not in ids or not isinstance(relation["qualifier"], str):
                    found.append(f"{one['id']} -> {relation}")
    return found


@pytest.fixture
def work(tell: Any) -> None:
    """Tasks that wait for each other, a handoff, several runs of one correlation, steps without a run."""
    tell("execution.message", {"role": "user", "content": "hello"}, "work")
    tell("execution.run_started", {"run_id": "turn-1", "name": "first"}, "work")
    tell("system.task_scheduled", {"task_id": "b", "name": "Brew", "depends_on": ["a", "never seen"]}, "work")
    tell("system.task_started", {"task_id": "a", "parent_task_id": "top"}, "work")
    tell("system.task_failed", {"task_id": "a", "error": "no water"}, "work")
    tell("execution.handoff", {"from": "planner", "to": "a/b c"}, "work")
    tell("execution.run_completed", {"run_id": "turn-1"}, "work")
    tell("execution.run_started", {"run_id": "turn-2"}, "work")


def related(log: Any, kind: str) -> list[list[tuple[str, str]]]:
    return [
        [(one["qualifier"], one["objectId"]) for one in event["relationships"]]
        for event in log["events"]
        if event["type"] == kind
    ]


def test_the_log_has_the_structure_of_ocel(story: Any, work: None, timeless: Any, exported: Exported) -> None:
    story.erase([3], reason="asked for")
    log = json.loads(exported(story, "ocel"))
    assert flaws(log) == []
    broken = json.loads(json.dumps(log))
    broken["events"][0]["relationships"].append({"objectId": "run:nowhere", "qualifier": "in"})
    broken["objects"][0]["attributes"][0]["value"] = 3
    assert len(flaws(broken)) == 2


def test_objects_are_runs_agents_tools_tasks_and_models(story: Any, work: None, exported: Exported) -> None:
    log = json.loads(exported(story, "ocel"))
    assert [one["id"] for one in log["objects"]] == [
        "run:run-1", "run:child-1", "run:work", "run:work/2",
        "agent:planner", "tool:search", "agent:reader", "model:m-1",
        "task:work/b", "task:work/a", "task:work/never%20seen", "task:work/top", "agent:a%2Fb%20c",
    ]  # fmt: skip
    objects = {one["id"]: one for one in log["objects"]}
    assert objects["run:child-1"]["relationships"] == [{"objectId": "run:run-1", "qualifier": "part of"}]
    assert {one["qualifier"]: one["objectId"] for one in objects["task:work/a"]["relationships"]} == {
        "part of": "task:work/top"
    }
    assert [one["objectId"] for one in objects["task:work/b"]["relationships"]] == [
        "task:work/a",
        "task:work/never%20seen",
    ]
    status = {
        one["id"]: attribute["value"]
        for one in log["objects"]
        for attribute in one["attributes"]
        if attribute["name"] == "status"
    }
    assert status == {
        "run:run-1": "completed", "run:child-1": "completed", "run:work": "completed", "run:work/2": "unfinished",
    }  # fmt: skip


def test_events_are_about_their_objects(story: Any, work: None, exported: Exported) -> None:
    log = json.loads(exported(story, "ocel"))
    assert related(log, "execution.handoff") == [
        [("in", "run:work"), ("from", "agent:planner"), ("to", "agent:a%2Fb%20c"), ("by", "agent:planner")]
    ]
    assert (
        related(log, "execution.tool_result")
        == [[("in", "run:run-1"), ("by", "agent:planner"), ("uses", "tool:search")]] * 2
    )
    assert related(log, "execution.run_started")[-1] == [("in", "run:work/2"), ("by", "agent:planner")]
    assert related(log, "execution.model_call") == [
        [("in", "run:run-1"), ("by", "agent:planner"), ("calls", "model:m-1")]
    ]


def test_the_real_logs_of_agents_without_times_are_counted(
    ledger: Any, shared_data: Path, tmp_path: Path
) -> None:
    from chatsnapshot.importers import import_file

    report = import_file(ledger, shared_data / "ag2" / "hand-crafted_37.json")
    told = export(ledger, tmp_path / "log.json", "ocel")
    assert told.written == 0
    assert told.left_out == {"events whose time is unknown": report.stored}


def test_pm4py_reads_the_log_and_discovers_a_process(story: Any, work: None, tmp_path: Path) -> None:
    pytest.importorskip("pm4py", reason="needs pm4py (make test-runtimes)")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pm4py's own and its dependencies'
        import pm4py

        path = tmp_path / "log.json"
        export(story, path, "ocel")
        log = pm4py.read_ocel2_json(str(path))
        assert len(log.events) == 21
        assert set(pm4py.ocel_get_object_types(log)) == {"run", "agent", "tool", "task", "model"}
        flat = pm4py.ocel_flattening(log, "run")
        assert sorted(flat["case:concept:name"].unique()) == [
            "run:child-1",
            "run:run-1",
            "run:work",
            "run:work/2",
        ]
        graph = pm4py.discover_ocdfg(log)
        assert "execution.tool_call" in graph["activities"]
        net = pm4py.discover_oc_petri_net(log)
        assert "run" in net["petri_nets"]
        transitions = {one.label for one in net["petri_nets"]["run"][0].transitions}
        assert {"execution.run_started", "execution.tool_call", "execution.run_completed"} <= transitions

"""Sub-agents are child runs: each hangs under the call that began it, wherever its lines stand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import import_file
from chatsnapshot.importers.files import import_job, jobs

SESSION = "5b1c0f6e-0000-4000-8000-000000000001"
AGENTS = ("aaa1", "bbb2", "ccc3")


def child(agent: str) -> str:
    return f"{SESSION}.agent-{agent}"


def calls(ledger: Any) -> dict[str, str]:
    found = ledger.read(event_type="execution.tool_call")
    return {entry.payload["call_id"]: entry.event_id for entry in found}


def begun_by(ledger: Any) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for agent in AGENTS:
        first = next(iter(ledger.read(correlation_id=child(agent))))
        assert first.event_type == "execution.run_started"
        found[agent] = first.causation_id
    return found


def test_each_agent_hangs_under_its_own_call_also_one_of_an_agent(ledger: Any, family: Path) -> None:
    report = import_file(ledger, family)
    assert report.whole
    assert set(report.correlations) == {SESSION, *map(child, AGENTS)}
    assert [os.path.basename(path) for path in report.beside] == [f"agent-{agent}.jsonl" for agent in AGENTS]
    called = calls(ledger)
    assert begun_by(ledger) == {
        "aaa1": called["toolu_1"],
        "bbb2": called["toolu_2"],
        "ccc3": called["toolu_3"],
    }
    (run,) = ledger.view("runs", SESSION).runs
    assert [one.run_id for one in run.children] == [child("aaa1"), child("bbb2")]
    assert [one.run_id for one in run.children[0].children] == [child("ccc3")]
    assert run.children[0].agents == ("Explore",)
    assert [one.status for one in (run, *run.children)] == ["completed", "completed", "failed"]


def test_an_agent_is_told_between_its_call_and_the_result(ledger: Any, family: Path) -> None:
    import_file(ledger, family)
    entries = list(ledger.read())
    places = {entry.event_id: entry.position for entry in entries}
    assert all(places[entry.causation_id] < entry.position for entry in entries if entry.causation_id)
    results = {e.payload["call_id"]: e.position for e in entries if e.event_type == "execution.tool_result"}
    last = max(e.position for e in entries if e.correlation_id == child("aaa1") and "message" in e.event_type)
    assert last < results["toolu_1"]


def test_any_file_of_a_session_and_the_folder_bring_the_same(ledger: Any, family: Path) -> None:
    whole = import_file(ledger, family)
    agent = family.with_suffix("") / "subagents" / "agent-bbb2.jsonl"
    for paths in ([agent], [family, agent], [family.parent], [family.parent.parent, family]):
        (job,) = jobs(paths, "claude-code")
        again = import_job(ledger, job)
        assert (again.stored, again.known, again.file) == (0, whole.stored, str(family))


def test_an_older_folder_has_its_agents_beside_the_session_and_others_are_not_taken(
    ledger: Any, family: Path, author: Any
) -> None:
    folder = family.with_suffix("") / "subagents"
    for path in folder.iterdir():
        path.rename(family.parent / path.name)
    stranger = author("6c1c0f6e-0000-4000-8000-000000000009", agent="zzz9")
    stranger.user("Elsewhere.")
    stranger.write(family.parent / "agent-zzz9.jsonl")
    inside = author(agent="acompact-1")
    inside.user("Summarize.")
    inside.write(family.parent / "agent-acompact-1.jsonl")
    report = import_file(ledger, family)
    assert set(report.correlations) == {SESSION, *map(child, AGENTS)}
    assert begun_by(ledger)["bbb2"] == calls(ledger)["toolu_2"]


def test_two_agents_with_one_prompt_are_told_apart_by_what_the_session_says_of_them(
    ledger: Any, family: Path
) -> None:
    same = family.read_text().replace("Count the wicks.", "Count the lamps.")
    swapped = same.replace('"aaa1"', '"x"').replace('"bbb2"', '"aaa1"').replace('"x"', '"bbb2"')
    family.write_text(swapped)
    path = family.with_suffix("") / "subagents" / "agent-bbb2.jsonl"
    path.write_text(path.read_text().replace("Count the wicks.", "Count the lamps."))
    import_file(ledger, family)
    called = calls(ledger)
    assert begun_by(ledger) == {
        "aaa1": called["toolu_2"],
        "bbb2": called["toolu_1"],
        "ccc3": called["toolu_3"],
    }


def test_a_note_on_progress_names_the_agent_of_a_call_before_its_result(
    ledger: Any, author: Any, tmp_path: Path
) -> None:
    main = author()
    main.user("Go.")
    for call_id in ("toolu_1", "toolu_2"):
        arguments = {"prompt": "Look.", "subagent_type": "Explore", "description": "Look"}
        main.assistant("m1", {"type": "tool_use", "id": call_id, "name": "Agent", "input": arguments})
    data = {"type": "agent_progress", "agentId": "bbb2"}
    main.line("progress", data=data, toolUseID="agent_msg_1", parentToolUseID="toolu_2")
    path = main.write(tmp_path / f"{SESSION}.jsonl")
    agent = author(agent="bbb2", second=3.5)
    agent.user("Look.")
    agent.write(tmp_path / SESSION / "subagents" / "agent-bbb2.jsonl")
    import_file(ledger, path)
    first = next(iter(ledger.read(correlation_id=child("bbb2"))))
    assert first.causation_id == calls(ledger)["toolu_2"]


def test_lines_of_older_versions_between_those_of_the_session_are_a_child_too(
    ledger: Any, author: Any, told: Any, tmp_path: Path
) -> None:
    main = author()
    main.user("Go.")
    arguments = {"prompt": "Look.", "subagent_type": "general-purpose", "description": "Look"}
    main.assistant("m1", {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": arguments})
    above = main.last
    root = main.user("Look.", isSidechain=True, parentUuid=None)
    main.assistant("s1", {"type": "text", "text": "Twelve."}, isSidechain=True, stop="end_turn")
    main.last = above
    main.result("toolu_1", "Twelve.")
    main.assistant("m2", {"type": "text", "text": "Twelve it is."}, stop="end_turn")
    import_file(ledger, main.write(tmp_path / f"{SESSION}.jsonl"))
    beside = f"{SESSION}.sidechain-{root['uuid']}"
    first, *rest = ledger.read(correlation_id=beside)
    assert first.causation_id == calls(ledger)["toolu_1"]
    assert [one.event_type.partition(".")[2] for one in rest] == [
        "message",
        "message",
        "model_call",
        "run_completed",
    ]
    assert [one.payload["parts"][0]["content"] for one in told("message")] == ["Go.", "Twelve it is."]


def test_an_agent_whose_session_is_not_there_is_a_run_of_its_own_and_stays_one(
    ledger: Any, family: Path, tmp_path: Path
) -> None:
    lonely = tmp_path / "agent-aaa1.jsonl"
    lonely.write_bytes((family.with_suffix("") / "subagents" / "agent-aaa1.jsonl").read_bytes())
    assert import_file(ledger, lonely).whole
    assert next(iter(ledger.read())).causation_id is None
    later = import_file(ledger, family)
    assert later.whole
    assert len(list(ledger.read(event_type="execution.run_started"))) == 4


@pytest.mark.parametrize("status", ["completed", "async_launched"])
def test_an_agent_in_the_background_goes_on_after_the_result_of_its_call(
    ledger: Any, author: Any, tmp_path: Path, status: str
) -> None:
    main = author()
    main.user("Go.")
    arguments = {"prompt": "Look.", "subagent_type": "Explore", "description": "Look"}
    main.assistant("m1", {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": arguments})
    main.result("toolu_1", "begun", structured={"agentId": "bbb2", "status": status})
    agent = author(agent="bbb2", second=1.5)
    agent.user("Look.")
    agent.second = 8
    agent.assistant(
        "b1",
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "t9", "name": "Bash", "input": {}},
    )
    path = main.write(tmp_path / f"{SESSION}.jsonl")
    agent.write(tmp_path / SESSION / "subagents" / "agent-bbb2.jsonl")
    import_file(ledger, path)
    ends = [
        one.event_type
        for one in ledger.read(correlation_id=child("bbb2"))
        if "run_completed" in one.event_type
    ]
    assert len(ends) == (0 if status == "async_launched" else 1)


def test_a_broken_line_of_an_agent_is_told_with_its_file(ledger: Any, family: Path) -> None:
    path = family.with_suffix("") / "subagents" / "agent-bbb2.jsonl"
    data = path.read_bytes()
    path.write_bytes(data + b'{"type": "user", ' + json.dumps("x").encode())
    report = import_file(ledger, family)
    (problem,) = report.problems
    assert problem == (len(data), f"{path}: the file is cut off in the line that begins here")

"""What the lines of a Claude Code session become: turns, tools, questions, compaction, edits, copies, strange lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.importers import import_file

SESSION = "5b1c0f6e-0000-4000-8000-000000000001"
OTHER = "5b1c0f6e-0000-4000-8000-000000000002"


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@pytest.fixture
def imported(ledger: Any, tmp_path: Path) -> Any:
    """``imported(author)``: its report."""

    def take(author: Any, name: str = "session.jsonl", **options: Any) -> Any:
        return import_file(ledger, author.write(tmp_path / name), "claude-code", **options)

    return take


def names(entries: list[Any]) -> list[str]:
    return [one.event_type.partition(".")[2] for one in entries]


def test_one_answer_in_several_lines_is_one_model_call_also_around_a_result(
    author: Any, imported: Any, told: Any
) -> None:
    main = author()
    main.user("Two tools.")
    main.assistant("m1", text("Both."), out=1)
    first = main.assistant("m1", call("t1", "Bash", {"command": "a"}), out=20)
    main.result("t1", "one")
    main.last = first["uuid"]
    main.assistant("m1", call("t2", "Bash", {"command": "b"}), out=45)
    main.result("t2", "two")
    main.assistant("m2", text("Done."), stop="end_turn", out=3)
    imported(main)
    calls = told("model_call")
    assert [one.payload["usage"]["output_tokens"] for one in calls] == [45, 3]
    prompt = told("message")[0]
    assert calls[0].causation_id == prompt.event_id
    assert [one.causation_id for one in told("tool_result")] == [one.event_id for one in told("tool_call")]


def test_each_prompt_is_a_turn_of_the_run(author: Any, imported: Any, told: Any, ledger: Any) -> None:
    main = author()
    for number in range(3):
        main.user(f"Ask {number}.")
        main.assistant(f"m{number}", text(f"Answer {number}."), stop="end_turn" if number == 1 else None)
    main.line("system", subtype="turn_duration", durationMs=1234)
    imported(main)
    lifecycle = [one for one in told() if "run_" in one.event_type]
    assert names(lifecycle) == ["run_started", *["run_completed", "run_resumed"] * 2, "run_completed"]
    (run,) = ledger.view("runs", SESSION).runs
    assert (run.status, run.name, len(run.executions)) == ("completed", "Ask 0.", 3)
    resumed = told("run_resumed")[0]
    assert told("message")[2].causation_id == resumed.event_id
    assert resumed.causation_id == told("message")[1].event_id


def test_an_interruption_cancels_the_turn_and_the_next_prompt_goes_on(
    author: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = author()
    main.user("Count.")
    main.assistant("m1", call("t1", "Bash", {"command": "sleep 100"}))
    main.result("t1", "interrupted", error=True)
    main.user([text("[Request interrupted by user for tool use]")])
    imported(main)
    assert ledger.view("runs", SESSION).runs[0].status == "cancelled"
    main.user("Count again.")
    main.assistant("m2", text("12."), stop="end_turn")
    imported(main)
    assert ledger.view("runs", SESSION).runs[0].status == "completed"
    assert names(told("run_cancelled", "run_resumed", "run_completed")) == [
        "run_cancelled",
        "run_resumed",
        "run_completed",
    ]


def test_a_session_imported_while_it_goes_on_is_the_same_later(
    author: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = author()
    main.user("Count.")
    main.assistant("m1", {"type": "thinking", "thinking": "How?"}, out=1)
    imported(main)
    assert not told("model_call")
    main.assistant("m1", text("I run a command."), out=4)
    imported(main)
    early = imported(main)
    assert early.stored == 0
    assert ledger.view("runs", SESSION).runs[0].status == "completed"
    main.assistant("m1", call("t1", "Bash", {"command": "ls"}), out=40)
    later = imported(main)
    assert later.whole
    assert later.known == early.known - 1  # the end of the turn is taken for no end any more
    assert len(told("model_call")) == 1
    main.result("t1", "12")
    main.assistant("m2", text("12."), stop="end_turn")
    imported(main)
    (run,) = ledger.view("runs", SESSION).runs
    assert (run.status, run.model_calls) == ("completed", 2)


def test_a_prompt_that_goes_on_from_further_back_is_a_branch_and_is_told(
    author: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = author()
    main.user("First.")
    answer = main.assistant("m1", text("One."), stop="end_turn")
    main.user("Wrong way.")
    main.assistant("m2", text("Two."), stop="end_turn")
    main.user("Right way.", parentUuid=answer["uuid"])
    main.assistant("m3", text("Three."), stop="end_turn")
    imported(main)
    messages = {one.payload["parts"][0]["content"]: one for one in told("message")}
    (rewound,) = told("state_change")
    assert rewound.payload["name"] == "rewound"
    assert rewound.causation_id == messages["Two."].event_id
    assert rewound.event.attributes["links"] == [messages["One."].event_id]
    resumed = [one for one in told("run_resumed") if one.event_id == messages["Right way."].causation_id]
    assert resumed[0].causation_id == messages["One."].event_id
    assert len(told("message")) == 6
    assert not ledger.view("graph", SESSION).dangling


def test_compaction_is_told_and_what_follows_hangs_under_it(author: Any, imported: Any, told: Any) -> None:
    main = author()
    main.user("First.")
    last = main.assistant("m1", text("One."), stop="end_turn")
    main.line(
        "system",
        subtype="compact_boundary",
        content="Conversation compacted",
        parentUuid=None,
        logicalParentUuid=last["uuid"],
        compactMetadata={"trigger": "auto", "preTokens": 155000},
    )
    main.user("This session is being continued.", isCompactSummary=True)
    imported(main)
    (compaction,) = told("state_change")
    assert (compaction.payload["name"], compaction.payload["native"]["compactMetadata"]["preTokens"]) == (
        "compaction",
        155000,
    )
    summary = told("message")[-1]
    assert (summary.causation_id, summary.event.source.origin) == (compaction.event_id, "system")
    assert compaction.causation_id == told("message")[1].event_id


def test_a_session_resumed_in_another_file_tells_what_it_copied_only_once(
    author: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = author()
    main.user("First.")
    main.assistant("m1", text("One."), stop="end_turn")
    before = imported(main)
    resumed = author(OTHER)
    resumed.lines = [{**line, "sessionId": OTHER} for line in main.lines]
    resumed.last, resumed.second = main.last, 60
    resumed.user("Second.")
    resumed.assistant("m2", text("Two."), stop="end_turn")
    resumed.lines.append(resumed.lines[0])
    report = imported(resumed, "resumed.jsonl")
    assert report.whole
    words = [one.payload["parts"][0]["content"] for one in ledger.read(event_type="execution.message")]
    assert words == ["First.", "One.", "Second.", "Two."]
    assert len(list(ledger.read(event_type="execution.model_call"))) == 2
    assert report.known >= before.stored - 2
    (resumption,) = told("run_resumed", correlation=OTHER)
    assert resumption.causation_id == told("message")[1].event_id


def test_a_person_is_asked_and_answers(author: Any, imported: Any, told: Any, ledger: Any) -> None:
    main = author()
    main.user("Plan it.")
    options = [{"label": "oil", "description": "smells"}, {"label": "wax", "description": "drips"}]
    asked = {"questions": [{"question": "Oil or wax?", "header": "Fuel", "options": options}]}
    main.assistant("m1", call("t1", "AskUserQuestion", asked))
    main.result("t1", "User has answered.", structured={"answers": {"Oil or wax?": "wax"}})
    main.assistant("m2", call("t2", "ExitPlanMode", {"plan": "Use wax."}))
    main.result("t2", "The user said no: too dear", error=True)
    imported(main)
    questions, answers = told("human_input_requested"), told("human_input_received")
    assert [(one.payload["kind"], one.payload["question"]) for one in questions] == [
        ("question", "Oil or wax?"),
        ("approval", "Use wax."),
    ]
    assert questions[0].payload["choices"] == ["oil", "wax"]
    assert [one.causation_id for one in questions] == [one.event_id for one in told("tool_call")]
    assert [one.causation_id for one in answers] == [one.event_id for one in questions]
    assert answers[0].payload["answer"] == {"Oil or wax?": "wax"}
    assert answers[1].payload["decision"] == "rejected"
    assert [one.causation_id for one in told("tool_result")] == [one.event_id for one in told("tool_call")]


def test_errors_of_the_model_are_failed_calls(author: Any, imported: Any, told: Any, ledger: Any) -> None:
    main = author()
    main.user("Hello.")
    main.line("system", subtype="api_error", error={"status": 529}, retryAttempt=1, maxRetries=10)
    synthetic = main.assistant("x1", text("API Error: 529 overloaded"), isApiErrorMessage=True)
    synthetic["message"]["model"] = "<synthetic>"
    quiet = main.assistant("x2", text("No response requested."))
    quiet["message"]["model"] = "<synthetic>"
    imported(main)
    calls = told("model_call")
    assert [one.payload["error"] for one in calls] == [
        {"type": "api_error", "message": "529"},
        "API Error: 529 overloaded",
    ]
    assert (calls[0].payload["attempt"], "usage" in calls[1].payload) == (1, False)
    assert ledger.view("runs", SESSION).runs[0].errors.model == 2


def test_what_the_program_tells_the_model_is_not_said_by_a_person(
    author: Any, imported: Any, told: Any
) -> None:
    main = author()
    main.user("<command-name>/model</command-name>")
    main.user("<local-command-stdout>Set model</local-command-stdout>")
    main.user("Caveat: The messages below were generated by the user", isMeta=True)
    main.user("Hello.")
    imported(main)
    assert [one.event.source.origin for one in told("message")] == ["ui", "system", "system", "ui"]
    assert names(told("run_started", "run_resumed")) == ["run_started"]


def test_pictures_and_unknown_blocks_are_kept(author: Any, imported: Any, told: Any) -> None:
    main = author()
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
    }
    main.user([text("See."), picture, {"type": "hologram", "depth": 3}])
    main.assistant("m1", call("t1", "Read", {"file_path": "a.png"}))
    main.result("t1", [picture])
    imported(main)
    parts = told("message")[0].value()["parts"]
    assert parts[1] == {
        "type": "blob",
        "modality": "image",
        "mime_type": "image/png",
        "content": b"\x89PNG\r\n\x1a\n",
    }
    assert parts[2] == {"type": "hologram", "content": {"type": "hologram", "depth": 3}}
    assert told("tool_result")[0].value()["result"][0]["content"] == b"\x89PNG\r\n\x1a\n"


def test_lines_without_an_id_or_a_time_are_kept_and_told_once(
    author: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = author()
    bare = {"uuid": None, "timestamp": None, "parentUuid": None}
    main.line("file-history-snapshot", messageId="m", snapshot={"timestamp": "2026-11-30T09:00:00Z"}, **bare)
    main.lines[-1] = {k: v for k, v in main.lines[-1].items() if v is not None and k != "sessionId"}
    main.last = None
    first = main.user("Hello.")
    main.line("queue-operation", operation="enqueue", content="And then?", **bare)
    main.line("summary", summary="A greeting", leafUuid=first["uuid"], **bare)
    main.line("novelty", shape={"of": "things"}, to_come=[1, 2])
    report = imported(main)
    assert report.whole
    states = {one.payload["name"]: one for one in told("state_change")}
    assert set(states) == {"file-history-snapshot", "summary", "novelty"}
    assert states["summary"].causation_id == told("message")[0].event_id
    assert states["summary"].payload["native"]["time"] == "unknown"
    assert states["novelty"].payload["value"]["to_come"] == [1, 2]
    (queued,) = ledger.read(event_type="ui.interaction")
    assert (queued.payload["action"], queued.payload["value"]) == ("enqueue", "And then?")
    assert imported(main).stored == 0


def test_unknown_keys_of_known_lines_are_kept(author: Any, imported: Any, told: Any) -> None:
    main = author()
    main.user("Hello.", permissionMode="plan", cwd="/shed")
    main.assistant("m1", text("Hi."), cwd="/cellar", mood="bright")
    imported(main)
    natives = [one.payload["native"] for one in told("message")]
    assert natives[0]["permissionMode"] == "plan"
    assert (natives[1]["cwd"], natives[1]["mood"], "cwd" in natives[0]) == ("/cellar", "bright", False)


def test_hostile_lines_harm_nobody(author: Any, ledger: Any, tmp_path: Path) -> None:
    main = author()
    main.user("\ud800 lone \x00 nul")
    main.assistant("m1", call("t1", "\x1b[2J" * 100, {"$type": "decimal", "\udfff": [{}] * 3}))
    main.result("t1", {"deep": 1}, structured={"$blob": "sha256:00"})
    main.user(None)
    main.user([None, 7, {"type": ["odd"]}, {"text": {}}], parentUuid=["no", "id"])
    main.line("assistant", message={"content": "plain", "usage": {"output_tokens": -1}, "id": 9})
    main.line("user", message=["x"], uuid=12, timestamp="yesterday", sessionId="\ud800")
    path = main.write(tmp_path / "a.jsonl")
    deep = b'{"type":"user","sessionId":"s","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    junk = [
        b"\xff\xfe\n",
        b"null\n",
        deep,
        b'{"a": NaN}\n',
        b"\n",
        b'{"type": "user", "uuid": "1' + b"0" * 5000 + b'"}\n',
    ]
    path.write_bytes(path.read_bytes() + b"".join(junk))
    report = import_file(ledger, path, "claude-code")
    reasons = [problem.reason for problem in report.problems]
    assert [reason.split(":")[0] for reason in reasons] == [
        "the line is no UTF-8",
        "the line is no JSON object",
        "the line is nested too deeply, or has a number that is too long",
    ]
    assert import_file(ledger, path, "claude-code").stored == 0
    assert ledger.verify(schemas=True).misfits.count == 0

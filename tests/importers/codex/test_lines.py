"""What the lines of a Codex rollout become: turns, twins, roll-backs, compaction, threads that begin threads, forks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.importers import Piece, guess, import_file
from chatsnapshot.importers.codex import Codex
from chatsnapshot.importers.files import jobs

THREAD = "019b0000-0000-7000-8000-000000000001"
CHILD = "019b0000-0000-7000-8000-00000000000c"


@pytest.fixture
def imported(ledger: Any, tmp_path: Path) -> Any:
    """``imported(rollout)``: its report."""

    def take(author: Any, name: str | None = None) -> Any:
        return import_file(ledger, author.write(tmp_path, name), "codex")

    return take


def names(entries: list[Any]) -> list[str]:
    return [one.event_type.partition(".")[2] for one in entries]


def words(entries: list[Any]) -> list[str]:
    return [one.payload["parts"][0]["content"] for one in entries]


def test_turns_are_those_that_codex_tells(rollout: Any, imported: Any, told: Any, ledger: Any) -> None:
    main = rollout()
    for number in range(2):
        main.event("task_started", turn_id=f"t{number}")
        main.user(f"Ask {number}.")
        main.answer(f"Answer {number}.")
        main.event("task_complete", turn_id=f"t{number}", last_agent_message=f"Answer {number}.")
    main.event("task_started", turn_id="t2")
    main.user("Stop.")
    main.event("turn_aborted", reason="interrupted")
    imported(main)
    assert names(told("run_started", "run_resumed", "run_completed", "run_cancelled")) == [
        "run_started",
        *["run_completed", "run_resumed"] * 2,
        "run_cancelled",
    ]
    assert told("run_completed")[0].payload["output"] == "Answer 0."
    (run,) = ledger.view("runs", THREAD).runs
    assert (run.name, run.status, run.messages) == ("Ask 0.", "cancelled", 5)


def test_the_same_words_said_twice_are_two_messages(rollout: Any, imported: Any, told: Any) -> None:
    main = rollout()
    for _ in range(2):
        main.user("Go on.")
        main.answer("Done.")
    main.event("agent_message", message="Done.")
    imported(main)
    assert words(told("message")) == ["Go on.", "Done.", "Go on.", "Done.", "Done."]


def test_turns_that_are_rolled_back_stay_and_what_follows_goes_on_from_before_them(
    rollout: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = rollout()
    main.user("First.")
    main.answer("One.")
    for wrong in ("Wrong.", "Worse."):
        main.user(wrong)
        main.answer(f"{wrong} yes.")
    main.event("thread_rolled_back", num_turns=2)
    main.user("Right.")
    main.answer("Three.")
    imported(main)
    said = dict(zip(words(told("message")), told("message"), strict=True))
    assert len(said) == 8
    (back,) = [one for one in told("state_change") if one.payload["name"] == "rolled_back"]
    assert (back.payload["value"], back.causation_id) == (2, said["Worse. yes."].event_id)
    assert back.event.attributes["links"] == [said["One."].event_id]
    resumed = ledger.get(said["Right."].causation_id)
    assert resumed.event_type == "execution.run_resumed"
    assert resumed.causation_id == said["One."].event_id


def test_more_turns_rolled_back_than_there_are_is_no_matter(rollout: Any, imported: Any, told: Any) -> None:
    main = rollout()
    main.user("First.")
    main.event("thread_rolled_back", num_turns=99)
    main.event("thread_rolled_back", num_turns="many")
    main.user("Second.")
    assert imported(main).whole
    assert words(told("message")) == ["First.", "Second."]


def test_tokens_written_again_are_no_new_call(rollout: Any, imported: Any, told: Any) -> None:
    main = rollout()
    main.event("token_count", info=None, rate_limits={})
    main.user("Hello.")
    main.tokens(10)
    main.lines.append(main.lines[-1])
    main.tokens(30)
    imported(main)
    assert [one.payload["usage"]["input_tokens"] for one in told("model_call")] == [10, 30]


def test_context_of_the_program_is_not_said_by_a_person(rollout: Any, imported: Any, told: Any) -> None:
    main = rollout(base_instructions={"text": "You are Codex."})
    for text in (
        "<environment_context>\n</environment_context>",
        "# AGENTS.md instructions for /shed",
        "Hello.",
    ):
        main.item("message", role="user", content=[{"type": "input_text", "text": text}])
    main.item("message", role="developer", content=[{"type": "input_text", "text": "Be brief."}])
    imported(main)
    assert [one.event.source.origin for one in told("message")] == ["system", "system", "ui", "system"]
    started = told("run_started")[0].payload
    assert (started["name"], started["instructions"], started["version"]) == (
        "Hello.",
        "You are Codex.",
        "0.90.0",
    )


def test_compaction_errors_and_what_is_unknown_are_told(
    rollout: Any, imported: Any, told: Any, ledger: Any
) -> None:
    main = rollout()
    main.user("Hello.")
    main.line("compacted", {"message": "So far: hello.", "replacement_history": [{"type": "message"}] * 3})
    main.event("context_compacted")
    main.event("error", message="usage limit")
    main.line("world_state", {"weather": "rain"})
    main.item("novelty", shape="round")
    main.call("c1", "shell", {"command": ["ls"]})
    main.event("exec_command_end", call_id="c1", exit_code=0, message="kept")
    imported(main)
    states = {one.payload["name"]: one for one in told("state_change")}
    assert set(states) == {"compaction", "world_state", "novelty", "exec_command_end"}
    assert states["compaction"].payload["value"] == "So far: hello."
    assert states["compaction"].payload["native"]["replacement_history"] == 3
    assert states["world_state"].payload["value"] == {"weather": "rain"}
    assert states["exec_command_end"].payload["value"]["message"] == "kept"
    assert states["exec_command_end"].causation_id == told("tool_call")[0].event_id
    (error,) = ledger.read(event_type="system.error")
    assert error.payload["error"]["message"] == "usage limit"


def test_results_in_every_form_tell_whether_they_failed(rollout: Any, imported: Any, told: Any) -> None:
    outputs: list[tuple[Any, str | None]] = [
        ("Exit code: 0\nOutput:\nfine", None),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno such file\n", "exit code 2: no such file"),
        ("Chunk ID: 1\nWall time: 1 seconds\nProcess exited with code 3\nOutput:\nbad", "exit code 3: bad"),
        (json.dumps({"output": "ok", "metadata": {"exit_code": 0}}), None),
        (json.dumps({"output": "oh", "metadata": {"exit_code": 1}}), "exit code 1: oh"),
        ({"content": "refused", "success": False}, "refused"),
        (
            [{"type": "input_text", "text": "Exit code: 7 is what it said"}],
            "exit code 7: Exit code: 7 is what it said",
        ),
        ("12", None),
        (None, None),
    ]
    main = rollout()
    main.user("Run them.")
    for number, (output, _) in enumerate(outputs):
        main.call(f"c{number}", "shell", {})
        main.output(f"c{number}", output)
    main.item("web_search_call", id="ws1", status="completed", action={"type": "search", "query": "lamps"})
    main.item(
        "local_shell_call", call_id="l1", status="completed", action={"type": "exec", "command": ["ls"]}
    )
    imported(main)
    results = told("tool_result")
    assert [one.payload.get("error") for one in results] == [*(error for _, error in outputs), None]
    assert results[-1].payload["name"] == "web_search"
    assert told("tool_call")[-1].payload["arguments"] == {"type": "exec", "command": ["ls"]}


def spawned(rollout: Any, folder: Path, late: bool = False) -> Path:
    """A thread that begins another, which is in a file of its own, in the same folder."""
    main = rollout()
    main.user("Delegate.")
    main.call("c1", "spawn_agent", {"message": "Count the lamps.", "agent_type": "worker"})
    if not late:
        main.output("c1", json.dumps({"agent_id": CHILD}))
    source = {"subagent": {"thread_spawn": {"parent_thread_id": THREAD, "depth": 1, "agent_nickname": "Ada"}}}
    child = rollout(CHILD, second=main.second - (0.5 if not late else 1.5), source=source)
    child.user("Count the lamps.")
    child.answer("12.")
    main.second = 20
    if late:
        main.output("c1", json.dumps({"agent_id": CHILD}))
    main.call("c2", "wait", {"ids": [CHILD]})
    main.output("c2", "12.")
    main.answer("There are 12.")
    child.write(folder)
    return main.write(folder)


@pytest.mark.parametrize("late", [False, True], ids=["told before", "told after it began"])
def test_a_thread_that_another_began_hangs_under_the_call(
    ledger: Any, rollout: Any, told: Any, tmp_path: Path, late: bool
) -> None:
    report = import_file(ledger, spawned(rollout, tmp_path, late))
    assert report.correlations == (THREAD, CHILD)
    first = told(correlation=CHILD)[0]
    assert first.causation_id == told("tool_call")[0].event_id
    (run,) = ledger.view("runs", THREAD).runs
    assert [(one.run_id, one.agents, one.status) for one in run.children] == [(CHILD, ("Ada",), "completed")]
    assert {one.event.source.origin for one in told("message", correlation=CHILD)} == {"system", "agent"}


def test_the_file_of_the_child_alone_brings_its_parent_and_a_child_without_one_is_a_run(
    ledger: Any, rollout: Any, told: Any, tmp_path: Path
) -> None:
    path = spawned(rollout, tmp_path)
    (child,) = [one for one in tmp_path.iterdir() if CHILD in one.name]
    assert import_file(ledger, child).correlations == (THREAD, CHILD)
    path.unlink()
    assert import_file(ledger, child).stored == 0


def test_events_that_name_a_new_thread_are_links_too(
    ledger: Any, rollout: Any, told: Any, tmp_path: Path
) -> None:
    main = rollout()
    main.user("Delegate.")
    main.call("c1", "spawn_agent", {"message": "Count."})
    started = {"event_id": "c1", "agent_thread_id": CHILD, "agent_path": "lamps/ada", "kind": "started"}
    main.line("event_msg", {"type": "sub_agent_activity", **started})
    child = rollout(CHILD, second=2.5, parent_thread_id=THREAD)
    child.user("Count.")
    child.write(tmp_path)
    import_file(ledger, main.write(tmp_path))
    assert told(correlation=CHILD)[0].causation_id == told("tool_call")[0].event_id


def test_a_fork_tells_only_what_is_new_and_hangs_where_it_left(
    ledger: Any, rollout: Any, told: Any, tmp_path: Path
) -> None:
    main = rollout()
    main.user("First.")
    main.answer("One.")
    fork = rollout(CHILD, second=60, forked_from_id=THREAD)
    fork.lines += [{**line, "timestamp": fork.time()} for line in main.lines]
    main.user("Here.")
    fork.user("There.")
    fork.answer("Two.")
    path = fork.write(tmp_path)
    main.write(tmp_path)
    report = import_file(ledger, path)
    assert report.correlations == (THREAD, CHILD)
    assert words(told("message", correlation=CHILD)) == ["There.", "Two."]
    assert told(correlation=CHILD)[0].causation_id == told("message")[1].event_id


def test_rollouts_that_have_nothing_to_do_with_each_other_are_apart(
    ledger: Any, rollout: Any, tmp_path: Path
) -> None:
    first, second = rollout(), rollout(CHILD)
    first.user("A."), second.user("B.")
    path, _ = first.write(tmp_path), second.write(tmp_path)
    assert import_file(ledger, path).beside == ()
    assert len(jobs([tmp_path], "codex")) == 2


def test_the_oldest_rollouts_have_bare_items(ledger: Any, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": THREAD, "timestamp": "2025-05-01T10:00:00Z", "instructions": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        {"record_type": "state"},
        {"type": "function_call", "name": "shell", "arguments": "{", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "fine"},
    ]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert guess(path).kind == "codex"
    import_file(ledger, path)
    entries = list(ledger.read())
    assert names(entries) == ["run_started", "message", "tool_call", "tool_result"]
    assert entries[0].event.timestamp == "2025-05-01T10:00:00.000000Z"
    assert entries[1].payload["native"]["time"] == "unknown"
    assert entries[2].payload["arguments"] == "{"


def test_hostile_lines_harm_nobody(ledger: Any, rollout: Any, tmp_path: Path) -> None:
    main = rollout()
    main.line("session_meta", {"id": None})
    main.line("event_msg", {"type": "user_message", "message": {"a": [1]}, "images": "no list"})
    main.line("response_item", {"type": ["odd"]})
    main.line("response_item", {"type": "message", "role": 7, "content": "\ud800"})
    main.line("response_item", {"type": "function_call", "name": None, "arguments": 5})
    main.line("response_item", {"type": "function_call_output", "call_id": {}, "output": {"$type": "x"}})
    main.line(
        "event_msg", {"type": "token_count", "info": {"total_token_usage": 1, "last_token_usage": {"a": -1}}}
    )
    main.lines += [{"type": "event_msg", "payload": 5}, {"payload": {}}, {"type": None, "timestamp": 3}]
    path = main.write(tmp_path)
    path.write_bytes(path.read_bytes() + b'[1]\n{"torn')
    report = import_file(ledger, path)
    assert [problem.reason for problem in report.problems] == [
        "the line is no JSON object",
        "the file is cut off in the line that begins here",
    ]
    assert path.read_bytes()[report.problems[1].offset :] == b'{"torn'
    assert import_file(ledger, path).stored == 0


def test_what_was_told_of_a_beginning_stands_when_more_lines_come(rollout: Any, tmp_path: Path) -> None:
    spawned(rollout, tmp_path)
    lines: list[tuple[str, int, bytes]] = []
    for path in sorted(tmp_path.iterdir()):
        offset = 0
        for raw in path.read_bytes().splitlines(keepends=True):
            lines.append((str(path), offset, raw))
            offset += len(raw)
    lines.sort(key=lambda line: json.loads(line[2])["timestamp"])
    live = Codex().session()
    told: list[Any] = []
    for line in lines:
        live.take(*line)
        told += list(live.drain())
    told += list(live.drain(ended=True))
    whole = Codex().session()
    for line in lines:
        whole.take(*line)
    together = [piece.event for piece in whole.drain(ended=True) if isinstance(piece, Piece)]
    assert [piece.event for piece in told] == together
    assert len(together) > 10


def test_a_packed_rollout_is_read_where_zstandard_is_known(
    ledger: Any, rollout: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = pytest.importorskip("zstandard").ZstdCompressor()
    main = rollout()
    main.user("Hello.")
    data = main.write(tmp_path, "plain.jsonl").read_bytes()
    path = tmp_path / f"rollout-{THREAD}.jsonl.zst"
    path.write_bytes(packer.compress(data[:200]) + packer.compress(data[200:]))
    assert import_file(ledger, path).whole
    assert import_file(ledger, tmp_path / "plain.jsonl").stored == 0
    assert [job[1] for job in jobs([tmp_path], "codex")] == [(str(tmp_path / "plain.jsonl"), str(path))]
    path.write_bytes(packer.compress(data * 2000)[:-9])
    (problem,) = import_file(ledger, path, "codex").problems
    assert problem.reason == "the compressed data is cut off"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 50)
    with pytest.raises(chatsnapshot.InvalidEvent, match="looks like an empty file"):
        guess(path)
    for name in ("compression", "compression.zstd", "backports", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        chatsnapshot.InvalidEvent, match=r"install backports\.zstd or zstandard, or unpack it"
    ):
        guess(path)
    assert [job[1] for job in jobs([tmp_path], "codex")] == [(str(tmp_path / "plain.jsonl"),)]

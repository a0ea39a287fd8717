"""Files of Claude Code as files: cut anywhere, compressed, known by their beginning, read while they grow."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import chatsnapshot
from chatsnapshot.importers import Piece, guess, import_file
from chatsnapshot.importers.claude_code import ClaudeCode


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def test_a_file_cut_at_any_byte_gives_what_is_whole_and_the_whole_file_the_rest(
    author: Any, tmp_path: Path
) -> None:
    main = author()
    main.user("Zähle €.")
    main.assistant("m1", call("t1", "Bash", {"command": "ls"}))
    main.result("t1", "12")
    main.assistant("m2", text("12."), stop="end_turn")
    data = main.write(tmp_path / "whole.jsonl").read_bytes()
    ends = [number for number, byte in enumerate(data, 1) if byte == 10]
    with chatsnapshot.open("memory:") as ledger:
        import_file(ledger, tmp_path / "whole.jsonl")
        whole = {entry.event_id: entry.event for entry in ledger.read()}
    for cut in {
        *range(len(data) - 20, len(data)),
        *(end + extra for end in ends[:-1] for extra in (-1, 0, 1, 300)),
    }:
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:cut])
        with chatsnapshot.open("memory:", validation="strict") as ledger:
            report = import_file(ledger, path, "claude-code")
            start = max((end for end in ends if end <= cut), default=0)
            torn = cut not in ends and cut + 1 not in ends
            assert [problem.offset for problem in report.problems] == ([start] if torn else [])
            path.write_bytes(data)
            assert import_file(ledger, path).whole
            found = {entry.event_id: entry.event for entry in ledger.read()}
            assert found.keys() >= whole.keys()
            assert {
                kind for key, kind in ((k, e.event_type) for k, e in found.items()) if key not in whole
            } <= {"execution.run_completed"}


def test_what_was_told_of_a_beginning_stands_when_more_lines_come(author: Any, family: Path) -> None:
    lines: list[tuple[str, int, bytes]] = []
    for path in (family, *sorted((family.with_suffix("") / "subagents").iterdir())):
        offset = 0
        for raw in path.read_bytes().splitlines(keepends=True):
            lines.append((str(path), offset, raw))
            offset += len(raw)
    lines.sort(key=lambda line: json.loads(line[2])["timestamp"])
    session, at_once = ClaudeCode().session(), []
    for line in lines:
        session.take(*line)
        at_once += list(session.drain())
    at_once += list(session.drain(ended=True))
    session = ClaudeCode().session()
    for line in lines:
        session.take(*line)
    together = list(session.drain(ended=True))
    assert [piece.event for piece in at_once if isinstance(piece, Piece)] == [
        piece.event for piece in together if isinstance(piece, Piece)
    ]


def test_a_session_is_known_by_its_beginning(author: Any, tmp_path: Path) -> None:
    main = author()
    main.line("summary", uuid=None, sessionId=None, summary="x", leafUuid="y")
    main.user("x" * 100_000)
    path = main.write(tmp_path / "a.jsonl")
    assert guess(path).kind == "claude-code"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert guess(packed).kind == "claude-code"
    assert ClaudeCode().looks_like(b'{"type": "user", "name": "x"}\n') == 0
    assert ClaudeCode().looks_like(b"") == 0


def test_a_compressed_session_is_read_and_a_cut_off_one_as_far_as_it_goes(
    ledger: Any, author: Any, tmp_path: Path
) -> None:
    main = author()
    for number in range(300):
        main.user(f"Prompt {number * number}.")
    data = main.write(tmp_path / "a.jsonl").read_bytes()
    path = tmp_path / "b.jsonl.gz"
    path.write_bytes(gzip.compress(data)[:-1500])
    report = import_file(ledger, path, "claude-code")
    assert len(report.problems) == 1
    assert 0 < report.stored < import_file(ledger, tmp_path / "a.jsonl").known + 1000


def test_a_file_without_its_session_is_known_by_its_name_or_told(ledger: Any, tmp_path: Path) -> None:
    line = json.dumps({"type": "summary", "summary": "Lamps were counted.", "leafUuid": "x"}) + "\n"
    session = "5b1c0f6e-0000-4000-8000-00000000000d"
    for name in (session, "summaries"):
        (tmp_path / f"{name}.jsonl").write_text(line)
    report = import_file(ledger, tmp_path / f"{session}.jsonl")
    assert (report.correlations, report.problems) == ((session,), ())
    (told,) = ledger.read(event_type="execution.state_change")
    assert told.payload["value"] == "Lamps were counted."
    (problem,) = import_file(ledger, tmp_path / "summaries.jsonl", "claude-code").problems
    assert problem == (0, "no line of the file names its session")


def test_progress_is_told_up_to_the_whole(ledger: Any, family: Path) -> None:
    seen: list[tuple[int, int]] = []
    import_file(ledger, family, progress=lambda done, whole: seen.append((done, whole)))
    sizes = [path.stat().st_size for path in (family, *(family.with_suffix("") / "subagents").iterdir())]
    assert seen
    assert {whole for _, whole in seen} == {sum(sizes)}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == sum(sizes)

"""Files are taken once, as far as they are whole; what is left out is named by its byte; a wrong kind is named."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.importers import KINDS, guess, import_file, importer_of
from chatsnapshot.importers.files import jobs
from chatsnapshot.importers.jsontext import read_object

BROKEN = [
    (b'{"history": [{"content": "a", "role": "r"}, {"conte', "the file is cut off in item 1"),
    (
        b'{"history": [{"content": "a", "role": "r"}, {"content" 1}, {}], "a": 1234567}',
        "the text is no JSON in item 1",
    ),
    (b'{"history": [{"content": "a", "role": "r"}', "the file is cut off in 'history' after 1 items"),
    (b'{"history": [{"content": "a", "role": "r"}], "level": 1', "the file is cut off in 'level'"),
    (b'{"history": [{"content": "a", "role": "r"}]} x', "more text after the end"),
    (
        b'{"history": [{"content": "a", "role": "r"}], "q": "\xff\xfe and much more text"}',
        "the text is no UTF-8",
    ),
    ('{"history": [{"content": "a", "role": "r"}], "q": "é'.encode()[:-1], "the file is cut off in 'q'"),
]


@pytest.mark.parametrize(("data", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_what_is_whole_is_taken_and_the_rest_named_by_its_byte(
    ledger: Any, write: Any, data: bytes, reason: str
) -> None:
    report = import_file(ledger, write(data))
    (problem,) = report.problems
    assert reason in problem.reason
    assert 0 < problem.offset <= len(data)
    assert report.stored == 2  # the start and the one whole step: a torn log has no end
    assert ledger.view("runs", report.correlations[0]).runs[0].status == "unfinished"


def test_the_offset_counts_bytes_not_characters(ledger: Any, write: Any) -> None:
    data = '{"history": [{"content": "äöü€", "role": "r"}, {"content": "b", "role'.encode()
    (problem,) = import_file(ledger, write(data)).problems
    assert data[problem.offset :] == b'{"content": "b", "role'


def test_the_same_file_again_records_nothing_also_under_another_name(
    ledger: Any, write: Any, named: Any
) -> None:
    first = import_file(ledger, write(named))
    head = ledger.head
    again = import_file(ledger, write(named, "copy.json"))
    assert (again.stored, again.known, again.last_position) == (0, first.stored, head)
    compact = import_file(ledger, write(json.dumps(named).encode(), "compact.json"))
    assert (compact.stored, ledger.head) == (0, head)


def test_a_mended_file_is_a_run_beside_the_partial_one(ledger: Any, write: Any, named: Any) -> None:
    whole = json.dumps(named).encode()
    torn = import_file(ledger, write(whole[:-400], "torn.json"))
    mended = import_file(ledger, write(whole, "whole.json"))
    assert torn.correlations[0].endswith("-partial")
    assert (mended.known, mended.whole, torn.whole) == (0, True, False)
    assert import_file(ledger, write(whole[:-400], "again.json")).stored == 0


@given(cut=st.integers(0, 1000))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_log_cut_off_anywhere_gives_its_whole_steps_and_one_problem(unnamed: Any, cut: int) -> None:
    data = json.dumps(unnamed, ensure_ascii=False).encode()
    document = read_object(data[:cut])
    if cut >= len(data):
        assert document.problem is None
        assert document.members == unnamed
        return
    assert document.problem is not None
    steps = document.members.get("history", [])
    assert steps == unnamed["history"][: len(steps)]
    for step, offset in zip(steps, document.offsets.get("history", []), strict=True):
        assert json.loads(data[offset:].decode().partition("}")[0] + "}") == step


@given(data=st.binary(max_size=60) | st.text('{}[]":,\\u0 tn1', max_size=40).map(str.encode))
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_the_reader_or_an_importer_raise(data: bytes) -> None:
    document = read_object(data)
    assert document.problem is None or 0 <= document.problem.offset <= len(data)
    for kind in KINDS:
        importer = importer_of(kind)
        assert 0 <= importer.looks_like(data) <= 1
        list(importer.read(data))


def test_nesting_without_end_is_a_problem_and_no_crash(ledger: Any, write: Any) -> None:
    data = b'{"history": [{"content": "a", "role": "r"}], "q": ' + b"[" * 200_000
    report = import_file(ledger, write(data))
    assert report.stored == 2
    assert report.problem_count == 1


def test_a_compressed_log_is_read_and_a_cut_off_one_as_far_as_it_goes(
    ledger: Any, write: Any, named: Any
) -> None:
    whole = gzip.compress(json.dumps({**named, "noise": list(range(3000))}).encode())
    assert import_file(ledger, write(whole, "log.json.gz")).whole
    report = import_file(ledger, write(whole[:-2000], "cut.json.gz"))
    assert "compressed data is cut off" in " ".join(problem.reason for problem in report.problems)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("otlp/metrics.json", "OpenTelemetry metrics"),
        ("swe-agent/function_calling_simple.traj", "give swe-agent"),
        ("claude-code/claude_session.jsonl", "a Claude Code session: give claude-code"),
        ("codex/codex_session.jsonl", "a Codex session: give codex"),
        ("inspect/log_tool_call_error.json", "give inspect"),
        ("chatsnapshot/v2_events/events.jsonl", "give chatsnapshot-v2"),
        ("chatsnapshot/v2_events.db", "give chatsnapshot-v2"),
    ],
)
def test_a_real_file_of_another_kind_is_named(shared_data: Path, name: str, what: str) -> None:
    with pytest.raises(chatsnapshot.InvalidEvent, match=f"looks like .*{what}"):
        guess(shared_data / name, "ag2-logs")


def test_a_real_file_that_nothing_imports_is_named(shared_data: Path) -> None:
    with pytest.raises(chatsnapshot.InvalidEvent, match="looks like OpenTelemetry metrics"):
        guess(shared_data / "otlp" / "metrics.json")


def test_a_file_that_nothing_knows_and_a_kind_that_there_is_not(write: Any, named: Any) -> None:
    with pytest.raises(
        chatsnapshot.InvalidEvent, match="looks like none of them; what can be imported is ag2-logs"
    ):
        guess(write(b"<html>"))
    with pytest.raises(chatsnapshot.InvalidEvent, match="looks like an empty file"):
        guess(write(b" "))
    with pytest.raises(chatsnapshot.NotFound, match="did you mean ag2-logs"):
        guess(write(named), "ag2logs")


def test_a_compressed_file_under_another_name_is_told_apart(write: Any, named: Any) -> None:
    path = write(gzip.compress(json.dumps(named).encode()), "log.json")
    with pytest.raises(chatsnapshot.InvalidEvent, match=r"gzip compressed: give it a name ending in \.gz"):
        guess(path)


@pytest.mark.parametrize("kind", ["auto", "codex", "ag2-logs"])
def test_a_pipe_is_refused_at_once_and_one_in_a_folder_is_passed_over(tmp_path: Path, kind: str) -> None:
    pipe = tmp_path / "rollout-2026-a.jsonl"
    os.mkfifo(pipe)
    for path, why in (
        (pipe, "no regular file, which can be read again"),
        (tmp_path, "nothing in the folder"),
    ):
        with pytest.raises(chatsnapshot.InvalidEvent, match=why):
            jobs([path], kind)


def test_a_kind_that_is_given_decides_where_the_beginning_says_too_little(ledger: Any, write: Any) -> None:
    path = write({"history": []})
    with pytest.raises(chatsnapshot.InvalidEvent, match="looks like none of them"):
        guess(path)
    assert import_file(ledger, path, "ag2-logs").stored == 2


def test_secrets_are_taken_out_unless_that_is_not_wanted(ledger: Any, write: Any, named: Any) -> None:
    secret = "sk-ant-api03-" + "Ab1" * 30
    named["history"][0]["content"] = f"Use {secret} for it."
    path = write(named)
    report = import_file(ledger, path)
    assert not any(secret in str(entry.payload) for entry in ledger.replay(report.correlations[0]))
    assert import_file(ledger, path).stored == 0
    with chatsnapshot.open("memory:") as other:
        report = import_file(other, path, redact=None)
        assert any(secret in str(entry.payload) for entry in other.replay(report.correlations[0]))


def test_a_known_event_with_other_content_is_a_problem_and_the_rest_is_taken(
    ledger: Any, write: Any, named: Any
) -> None:
    path = write(named)
    with chatsnapshot.open("memory:") as first:
        import_file(first, path)
        message = next(iter(first.read(event_type="execution.message")))
    ledger.record(
        "execution.message",
        {"content": "other"},
        correlation_id=message.correlation_id,
        event_id=message.event_id,
    )
    report = import_file(ledger, path)
    (problem,) = report.problems
    assert "payload" in problem.reason
    assert path.read_bytes()[problem.offset :].startswith(b"{")
    assert report.stored == 11


def test_an_import_that_was_interrupted_goes_on_where_it_was(ledger: Any, write: Any, named: Any) -> None:
    named["history"] *= 600
    path = write(named)

    def interrupt(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_file(ledger, path, progress=interrupt)
    before = ledger.head
    assert before > 0
    report = import_file(ledger, path)
    assert (report.known, report.known + report.stored) == (before, ledger.head)
    with chatsnapshot.open("memory:") as other:
        import_file(other, path)
        assert [entry.event_id for entry in other.read()] == [entry.event_id for entry in ledger.read()]


def test_progress_tells_how_many_bytes_are_settled(ledger: Any, write: Any, named: Any) -> None:
    told: list[tuple[int, int]] = []
    path = write(named)
    import_file(ledger, path, progress=lambda done, whole: told.append((done, whole)))
    assert told[-1] == (path.stat().st_size,) * 2

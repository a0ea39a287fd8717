"""What holds for every format: whole files or none, what is chosen, what is redacted, and what stays as it was."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent, LedgerError, MissingExtra, NotFound
from chatsnapshot.exporters import FORMATS, export

TEXT_FORMATS = [format for format in FORMATS if format != "parquet"]
DIAGRAMS = ["mermaid", "dot", "graphml"]
RUN_FORMATS = ["mermaid", "dot", "graphml", "otlp", "chat"]


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_a_file_holds_what_a_stream_gets_and_its_owner_alone_reads_it(
    format: str, story: Any, exported: Callable[..., bytes], tmp_path: Path
) -> None:
    path = tmp_path / "out"
    report = export(story, path, format, runs=["run-1"])
    assert path.read_bytes() == exported(story, format, runs=["run-1"])
    assert report.bytes == path.stat().st_size
    assert report.written > 0
    assert report.path == str(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError("no space left"), RuntimeError])
def test_an_interrupted_export_leaves_no_file_and_the_older_one_as_it_was(
    failure: Any, story: Any, tmp_path: Path
) -> None:
    path = tmp_path / "out.jsonl"
    seen = []

    def interrupt(done: int, whole: int) -> None:
        seen.append(done)
        if len(seen) == 5:
            raise failure

    with pytest.raises(failure if isinstance(failure, type) else type(failure)):
        export(story, path, "jsonl", progress=interrupt)
    assert os.listdir(tmp_path) == []
    path.write_text("older")
    seen.clear()
    with pytest.raises(failure if isinstance(failure, type) else type(failure)):
        export(story, path, "jsonl", progress=interrupt, force=True)
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert path.read_text() == "older"


def test_an_older_file_is_replaced_only_by_force_and_keeps_its_mode(story: Any, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("older")
    path.chmod(0o640)
    with pytest.raises(LedgerError, match="--force"):
        export(story, path, "csv")
    assert path.read_text() == "older"
    export(story, path, "csv", force=True)
    assert path.read_text().startswith("position,")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_place_that_is_none_is_named(story: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidEvent, match="is a folder"):
        export(story, tmp_path, "csv")
    with pytest.raises(InvalidEvent, match="does not exist"):
        export(story, tmp_path / "there" / "out.csv", "csv")


def test_an_unknown_format_names_the_nearest_and_all(story: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"'cvs'.*jsonl, csv, parquet.*did you mean csv"):
        export(story, tmp_path / "out", "cvs")
    assert os.listdir(tmp_path) == []


def test_an_unknown_run_is_named_before_a_file_is_made(story: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="run-9"):
        export(story, tmp_path / "out", "csv", runs=["run-9"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", RUN_FORMATS)
def test_formats_of_whole_runs_refuse_filters_of_events(format: str, story: Any) -> None:
    with pytest.raises(InvalidEvent, match="whole runs"):
        export(story, io.BytesIO(), format, runs=["run-1"], event_type="execution.message")


@pytest.mark.parametrize("format", ["mermaid", "dot", "graphml"])
def test_a_diagram_is_of_one_run(format: str, story: Any) -> None:
    for runs in (None, ["run-1", "child-1"]):
        with pytest.raises(InvalidEvent, match="one run"):
            export(story, io.BytesIO(), format, runs=runs)


def positions(lines: Callable[..., list[Any]], ledger: Any, **options: Any) -> list[int]:
    return [
        int(line["event"]["event_id"][-3:]) for line in lines(ledger, "jsonl", entries=True, **options)[1:]
    ]


def test_runs_children_filters_and_moments_choose(story: Any, lines: Callable[..., list[Any]]) -> None:
    everything = list(range(1, 14))
    assert positions(lines, story) == everything
    assert positions(lines, story, runs="run-1") == everything
    assert positions(lines, story, runs=["child-1"]) == [6, 7, 8]
    assert positions(lines, story, runs=["run-1"], children=False) == [1, 2, 3, 4, 5, *range(9, 14)]
    assert positions(lines, story, runs=["child-1", "run-1"]) == everything
    assert positions(lines, story, event_type="execution.message") == [2, 7, 11]
    assert positions(lines, story, runs=["run-1"], origin="ui") == [2]
    assert positions(lines, story, until=3) == [1, 2, 3]
    assert positions(lines, story, start="2026-11-30T02:26:12Z") == [12, 13]
    assert positions(lines, story, evaluation="correctness>=0.8") == [1, 2, 3, 4, 5, *range(9, 14)]
    assert positions(lines, story, evaluation="correctness<0.8") == []


def test_many_runs_are_read_in_one_pass_in_order(
    ledger: Any, tell: Any, lines: Callable[..., list[Any]]
) -> None:
    for number in range(40):
        tell("execution.message", {"role": "user", "content": str(number)}, f"run-{number}")
    wanted = [f"run-{number}" for number in range(35)]
    assert positions(lines, ledger, runs=wanted) == list(range(1, 36))


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_redaction_takes_secrets_out_of_every_format_and_leaves_the_ledger(
    format: str, ledger: Any, tell: Any, exported: Callable[..., bytes]
) -> None:
    secret = "ghp_" + "a1B2" * 9
    tell(
        "execution.message", {"role": "assistant", "content": f"key {secret}"}, attributes={"reason": secret}
    )
    tell("execution.tool_call", {"name": "push", "call_id": "c", "arguments": {"token": secret}})
    tell("execution.tool_result", {"call_id": "c", "result": secret})
    assert secret.encode() in exported(ledger, format, runs=["run-1"]) or format in DIAGRAMS
    assert secret.encode() not in exported(ledger, format, runs=["run-1"], redact="secrets")
    assert secret in next(ledger.read()).payload["content"]


def test_redacted_entries_are_refused_because_they_prove_nothing(story: Any) -> None:
    with pytest.raises(InvalidEvent, match="commitments"):
        export(story, io.BytesIO(), "jsonl", entries=True, redact="secrets")
    with pytest.raises(InvalidEvent, match="jsonl"):
        export(story, io.BytesIO(), "csv", entries=True)


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_an_erased_payload_breaks_no_format_and_is_not_in_it(
    format: str, story: Any, exported: Callable[..., bytes]
) -> None:
    story.erase([2, 3, 9], reason="asked for")
    made = exported(story, format, runs=["run-1"])
    assert b"When is high tide" not in made
    if format in ("jsonl", "csv", "ocel", "otlp", "cloudevents"):
        assert b"erased" in made


def test_an_export_changes_no_byte_of_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.message", {"role": "assistant", "content": "hi"}, correlation_id="run-1")
    before = path.read_bytes()
    with chatsnapshot.open(path, read_only=True) as ledger:
        for format in TEXT_FORMATS:
            export(ledger, io.BytesIO(), format, runs=["run-1"])
    assert path.read_bytes() == before


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_an_empty_ledger_gives_a_readable_file(
    format: str, ledger: Any, exported: Callable[..., bytes]
) -> None:
    if format in DIAGRAMS:
        return
    made = exported(ledger, format)
    expected = {
        "csv": lambda: made.count(b"\n") == 1,
        "cloudevents": lambda: made == b"[]\n",
        "ocel": lambda: made.startswith(b'{"events":[],"objects":['),
        "prov": lambda: list(json.loads(made)) == ["prefix"],
    }
    assert expected.get(format, lambda: made == b"")()


@pytest.mark.parametrize("suffix", ["db", "jsonl"])
def test_a_file_of_the_ledger_itself_is_never_written_over(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"runs.{suffix}"
    with chatsnapshot.open(path) as ledger:
        ledger.record("execution.message", {"role": "assistant", "content": "hi"}, correlation_id="run-1")
        (tmp_path / "other").hardlink_to(path)
        for own in (path, tmp_path / "other", *tmp_path.glob(f"runs.{suffix}*")):
            with pytest.raises(InvalidEvent, match=r"is a folder|belongs to the ledger"):
                export(ledger, own, "csv", force=True)
        assert export(ledger, tmp_path / f"runs.{suffix}.csv", "csv").written == 1
        assert ledger.verify().ok


def test_a_device_is_not_replaced_by_a_file(story: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidEvent, match="no regular file"):
        export(story, tmp_path / "pipe", "csv", force=True)


def test_exported_envelopes_are_ingested_as_they_were(story: Any, exported: Callable[..., bytes]) -> None:
    story.erase([2], reason="asked for")
    made = exported(story, "jsonl", runs=["run-1"])
    with chatsnapshot.open("memory:") as other:
        report = other.ingest(io.BytesIO(made), redact=None)
        assert (report.stored, report.bad_count) == (13, 0)
        assert exported(other, "jsonl") == made


def test_an_exporter_of_ones_own_takes_the_place_of_a_format(
    story: Any, exported: Callable[..., bytes]
) -> None:
    class Types:
        format = "types"
        what = "event types"
        unit = "events"
        runs_only = False
        one_run = False
        text = True

        def write(self, choice: Any, out: Any, tally: Any) -> None:
            for entry in choice.entries():
                out.write(entry.event_type.encode() + b"\n")

    assert exported(story, Types(), origin="ui") == b"execution.message\n"


@pytest.mark.parametrize("format", ["jsonl", "csv", "otlp", "chat", "ocel"])
def test_a_run_that_began_after_the_moment_gives_nothing(
    format: str, story: Any, exported: Callable[..., bytes]
) -> None:
    assert b"04:12" not in exported(story, format, runs=["child-1", "run-1"], until=5)
    assert b"reader" not in exported(story, format, runs=["child-1"], until=5)


def test_progress_ends_at_the_whole(story: Any) -> None:
    told: list[tuple[int, int]] = []
    export(story, io.BytesIO(), "csv", progress=lambda done, whole: told.append((done, whole)))
    assert told[0] == (1, 13)
    assert told[-1] == (13, 13)


def test_a_missing_library_names_its_extra_and_leaves_no_file(
    story: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"chatsnapshot\[parquet\]"):
        export(story, tmp_path / "out.parquet", "parquet")
    assert os.listdir(tmp_path) == []

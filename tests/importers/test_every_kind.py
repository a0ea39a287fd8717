"""What holds for every kind: each event once, also of two imports at once; torn and damaged files; the views."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.importers import KINDS, Piece, Problem, guess, import_file, importer_of
from chatsnapshot.importers.files import jobs
from chatsnapshot.projections.render import render_text

REAL = {
    "swe-agent": [
        "swe-agent/function_calling_simple.traj",
        "swe-agent/marshmallow-1867_function_calling.traj",
    ],
    "mini-swe-agent": ["swe-agent/mini_github_issue.traj.json"],
    "inspect": ["inspect/log_read_sample.eval", "inspect/log_tool_call_error.json"],
    "chatsnapshot-v1": ["chatsnapshot/v1_json/order_1042.json", "chatsnapshot/v1_states.db"],
    "chatsnapshot-v2": ["chatsnapshot/v2_events/events.jsonl", "chatsnapshot/v2_events.db"],
    "ag2-logs": ["ag2/hand-crafted_37.json"],
    "otlp": ["otlp/trace.json", "otlp/logs.json", "otlp/events.json"],
}
FILES = [(kind, name) for kind, names in REAL.items() for name in names]
SMALL = [one for one in FILES if "marshmallow" not in one[1]]
ENDS = ("completed", "failed", "cancelled", "paused")


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_real_file_is_known_fits_its_schemas_and_adds_nothing_when_it_comes_again(
    take: Any, strict: Any, shared_data: Path, tmp_path: Path, kind: str, name: str
) -> None:
    path = shared_data / name
    first, entries = take(path)
    assert (first.kind, first.problems, first.stored) == (kind, (), len(entries))
    assert strict.verify(schemas=True).misfits.count == 0
    copy = tmp_path / f"copy{path.suffix}.gz"
    copy.write_bytes(gzip.compress(path.read_bytes()))
    again, _ = take(copy)
    assert (again.stored, again.known, again.problems) == (0, first.stored, ())


@pytest.mark.parametrize(
    ("kind", "name"), [one for one in FILES if one[0] not in ("otlp", "chatsnapshot-v2")]
)
def test_each_run_of_a_real_file_has_one_start_and_one_end_and_results_follow_from_their_calls(
    take: Any, strict: Any, shared_data: Path, kind: str, name: str
) -> None:
    report, entries = take(shared_data / name)
    for correlation in report.correlations:
        inside = [entry for entry in entries if entry.correlation_id == correlation]
        ended = [entry for entry in inside if entry.event_type.rpartition("run_")[2] in ENDS]
        assert [entry.event_type for entry in inside].count("execution.run_started") == len(ended) == 1
        calls = {entry.event_id: entry for entry in inside if entry.event_type == "execution.tool_call"}
        for entry in inside:
            if entry.event_type == "execution.tool_result" and calls:
                assert calls[entry.causation_id].payload["call_id"] == entry.payload["call_id"]
        transcript = strict.view("transcript", correlation)
        assert render_text(transcript)
        graph = strict.view("graph", correlation)
        assert (graph.dangling, graph.cycles) == ((), ())
        assert strict.view("timeline", correlation).items


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_another_kind_given_is_refused_and_what_the_file_is_is_named(
    shared_data: Path, kind: str, name: str
) -> None:
    for other in KINDS:
        if other != kind:
            with pytest.raises(chatsnapshot.InvalidEvent, match=f"is no {other} file .*: give {kind}"):
                guess(shared_data / name, other)


@pytest.mark.parametrize(("kind", "name"), FILES)
@pytest.mark.parametrize("part", [0.15, 0.4, 0.65, 0.9, 0.999])
def test_a_real_file_that_is_cut_off_gives_what_is_whole_and_says_where_it_ends(
    shared_data: Path, kind: str, name: str, part: float
) -> None:
    data = (shared_data / name).read_bytes()
    cut = data[: int(len(data) * part)]
    whole = {piece.event["event_id"] for piece in importer_of(kind).read(data) if _is_made(piece)}
    found = list(importer_of(kind).read(cut))
    problems = [one for one in found if isinstance(one, Problem)]
    made = [one for one in found if isinstance(one, Piece)]
    assert problems
    assert all(0 <= one.offset <= len(cut) for one in found)
    assert len(made) <= len(whole) + 1 or kind == "otlp"
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        for one in made:
            ledger.record(**one.event) if _is_made(one) else ledger.record(one.event)


def _is_made(piece: Any) -> bool:
    return isinstance(piece, Piece) and isinstance(piece.event, dict)


@given(file=st.sampled_from(SMALL), place=st.integers(0, 10**6), other=st.binary(max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_damage_makes_an_importer_raise(
    shared_data: Path, file: tuple[str, str], place: int, other: bytes
) -> None:
    kind, name = file
    data = bytearray((shared_data / name).read_bytes())
    place %= len(data)
    data[place : place + len(other)] = other
    importer = importer_of(kind)
    assert 0 <= importer.looks_like(bytes(data)) <= 1
    for one in importer.read(bytes(data)):
        assert 0 <= one.offset <= len(data)


JUNK: list[Any] = [
    None,
    5,
    -1.5,
    True,
    "",
    "\ud800",
    [],
    {},
    [None],
    {"$type": "x"},
    [[1]],
    1e300,
    [{"role": "user"}],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


@given(
    file=st.sampled_from([one for one in SMALL if one[1].endswith((".json", ".traj"))]),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(JUNK)), min_size=1, max_size=6),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_file_its_events_fit_their_schemas_and_have_ids_of_their_own(
    shared_data: Path, file: tuple[str, str], changes: list[tuple[int, Any]]
) -> None:
    kind, name = file
    document = json.loads((shared_data / name).read_text(encoding="utf-8"))
    for place, junk in changes:
        found = list(places(document))
        if not found:
            break
        *path, key = found[place % len(found)]
        inside = document
        for step in path:
            inside = inside[step]
        inside[key] = copy.deepcopy(junk)
    made = [piece for piece in importer_of(kind).read(json.dumps(document).encode()) if _is_made(piece)]
    assert len({piece.event["event_id"] for piece in made}) == len(made)
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        for piece in made:
            ledger.record(**piece.event)


def many(count: int) -> bytes:
    """A file of chats, each of eight events."""
    said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    chats = [{"id": f"chat-{number}", "messages": [*said, *said, *said]} for number in range(count)]
    return b"".join(json.dumps(chat).encode() + b"\n" for chat in chats)


def test_two_imports_at_once_store_each_event_once(tmp_path: Path) -> None:
    path, ledger = tmp_path / "chats.jsonl", tmp_path / "both.db"
    path.write_bytes(many(400))
    shutil.copyfile(path, tmp_path / "same.jsonl")
    chatsnapshot.open(str(ledger)).close()
    command = [
        sys.executable,
        "-m",
        "chatsnapshot",
        "import",
        "openai-chat",
        "--json",
        "--ledger",
        str(ledger),
    ]
    both = [
        subprocess.Popen([*command, str(tmp_path / name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in ("chats.jsonl", "same.jsonl")
    ]
    told = []
    for process in both:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        told.append(json.loads(out))
    assert [one["stored"] + one["known"] for one in told] == [3200, 3200]
    assert sum(one["stored"] for one in told) == 3200
    with chatsnapshot.open(str(ledger)) as opened:
        assert opened.head == 3200
        assert opened.verify().ok


@pytest.mark.parametrize(("kind", "name"), [one for one in FILES if not one[1].endswith((".db", ".eval"))])
def test_secrets_in_a_file_are_taken_out(shared_data: Path, kind: str, name: str, tmp_path: Path) -> None:
    data = (shared_data / name).read_bytes()
    secret = "sk-ant-api03-" + "Ab1" * 30
    path = tmp_path / Path(name).name
    path.write_bytes(data.replace(b'"content": "', b'"content": "' + secret.encode() + b" "))
    with chatsnapshot.open("memory:") as ledger:
        import_file(ledger, path, kind)
        assert not any(secret in str(entry.payload) for entry in ledger.read())


def test_a_folder_stands_for_the_files_in_it_that_look_like_the_kind(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "chatsnapshot" / "v1_json"
    wanted = importer_of("chatsnapshot-v1")
    assert jobs([folder], "chatsnapshot-v1") == [(wanted, (str(one),)) for one in sorted(folder.iterdir())]
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        chatsnapshot.InvalidEvent, match=r"nothing in the folder .* looks like an Inspect evaluation log"
    ):
        jobs([tmp_path], "inspect")

"""Files of CloudEvents: one event, a batch or lines; each once, what is refused by its byte, exports read back equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.clock import parse_time
from chatsnapshot.exporters import export
from chatsnapshot.importers import guess, import_file


def event(number: int, **more: Any) -> dict[str, Any]:
    data = {"text": f"ä {number}"}
    return {
        "specversion": "1.0", "id": f"{number}", "source": "/s", "type": "a.b", "subject": "run-1", "data": data, **more
    }  # fmt: skip


def text(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


SHAPES = {
    "one": text(event(1), indent=2),
    "batch": "\ufeff" + text([event(1), event(2)], indent=1),
    "lines": "".join(text(event(number)) + "\r\n" for number in (1, 2)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_known_by_sight_and_taken_once(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "events.json"
    path.write_text(SHAPES[shape], encoding="utf-8")
    count = 1 if shape == "one" else 2
    with chatsnapshot.open("memory:") as ledger:
        report = import_file(ledger, path)
        assert (report.stored, report.known, report.problems) == (count, 0, ())
        assert report.correlations == ("run-1",)
        assert import_file(ledger, path, "cloudevents").known == count


def test_what_is_refused_is_named_by_its_byte_and_the_others_are_taken(tmp_path: Path) -> None:
    pieces = [
        text(event(1)),
        text(event(2, specversion="0.1")),
        "{not json}",
        text(event(3)),
        '{"specversion"',
    ]
    raw = [piece.encode() for piece in pieces]
    raw.insert(4, text(event(4)).encode().replace("ä".encode(), b"\xff"))
    (tmp_path / "e.jsonl").write_bytes(b"\n".join(raw))
    with chatsnapshot.open("memory:") as ledger:
        report = import_file(ledger, tmp_path / "e.jsonl", "auto")
        assert report.stored == 2
        starts = [sum(len(piece) + 1 for piece in raw[:number]) for number in (1, 2, 4, 5)]
        assert [problem.offset for problem in report.problems] == starts
        assert "specversion" in report.problems[0].reason and "UTF-8" in report.problems[2].reason


def test_a_batch_that_is_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    whole = text([event(1), event(2)])
    (tmp_path / "e.json").write_text(whole[:-20])
    with chatsnapshot.open("memory:") as ledger:
        report = import_file(ledger, tmp_path / "e.json")
        assert (report.stored, report.problem_count) == (1, 1)
        (problem,) = report.problems
        assert whole.encode()[problem.offset :].startswith(b'{"specversion"')


def test_an_export_reads_back_as_equal_events(tmp_path: Path) -> None:
    with chatsnapshot.open("memory:") as ledger, chatsnapshot.open("memory:") as other:
        with ledger.run(correlation_id="run-1", name="x") as run:
            said = run.record("execution.message", {"role": "user", "content": "Hi"})
            run.record("execution.output", {"value": 1.5}, causation_id=said, attributes={"actor": "me"})
        export(ledger, tmp_path / "out.json", "cloudevents")
        assert guess(tmp_path / "out.json").kind == "cloudevents"
        assert import_file(other, tmp_path / "out.json").stored == 4
        assert [entry.event for entry in other.read()] == [entry.event for entry in ledger.read()]


def test_a_cause_of_another_source_is_found_before_it_in_the_file(tmp_path: Path) -> None:
    events = [event(1, source="/orders"), event(2, source="/payments", causationid="1")]
    (tmp_path / "e.json").write_text(text(events))
    with chatsnapshot.open("memory:") as ledger:
        import_file(ledger, tmp_path / "e.json")
        first, second = ledger.read()
        assert second.causation_id == first.event_id


def test_the_examples_of_the_specification_are_what_an_independent_reader_finds(
    shared_data: Path, tmp_path: Path
) -> None:
    lines = (shared_data / "cloudevents" / "spec_examples.jsonl").read_text(encoding="utf-8").splitlines()
    bodies = [json.loads(line)["body"] for line in lines]
    events = [one for body in bodies for one in (body if isinstance(body, list) else [body])]
    whole = {
        (one["source"], one["id"]): one
        for one in events
        if isinstance(one, dict) and {"specversion", "id", "source", "type"} <= one.keys()
    }
    (tmp_path / "e.jsonl").write_text("\n".join(text(one) for one in events))
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        report = import_file(ledger, tmp_path / "e.jsonl", "cloudevents")
        taken = {(one.payload["native"]["source"], one.payload["native"]["id"]): one for one in ledger.read()}
        assert taken.keys() <= whole.keys()
        assert len(taken) == report.stored > 5
        for key, entry in taken.items():
            if "time" in whole[key]:
                assert parse_time(entry.timestamp) == parse_time(whole[key]["time"])
        again = import_file(ledger, tmp_path / "e.jsonl", "cloudevents")
        assert (again.stored, again.problem_count) == (0, report.problem_count)


def test_hostile_values_are_kept_as_data_and_what_is_no_event_is_named(tmp_path: Path) -> None:
    pieces = [
        json.dumps(event(1, data={"\ud800": ["\ud800", {"$type": "decimal"}]}, unknownext="x")),
        *("17", "null", json.dumps(event(2, id={"a": 1})), json.dumps(event(3, source="\ud800"))),
        json.dumps(event(4)),
    ]
    (tmp_path / "e.jsonl").write_text("\n".join(pieces))
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        report = import_file(ledger, tmp_path / "e.jsonl", "cloudevents")
        assert [one.payload["native"]["id"] for one in ledger.read()] == ["1", "3", "4"]
        assert report.problem_count == 3

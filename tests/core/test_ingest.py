"""``ingest``: each line once, in order, batch by batch; bad ones by number; memory bounded."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot import EventEnvelope, InvalidEvent, Ledger
from chatsnapshot.clock import idempotent_uuid, uuid_text
from chatsnapshot.ingesting import BadLine, IngestReport
from chatsnapshot.ndjson import read_lines

ENVELOPE = {
    "event_id": "0199aaaa-0000-7000-8000-000000000001",
    "event_type": "execution.message",
    "timestamp": "2026-11-30T02:26:03.123456Z",
    "source": {"origin": "agent", "runtime": "test"},
    "correlation_id": "run-1",
    "causation_id": None,
    "payload": {"$type": "decimal", "value": "1.10"},
}


def event(number: object, **fields: Any) -> bytes:
    return json.dumps(
        {"event_type": "a.b", "correlation_id": "r", "payload": {"n": number}, **fields}
    ).encode()


def file_of(path: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    path.write_bytes(b"\n".join(lines) + end)
    return path


def numbers(ledger: Ledger) -> list[Any]:
    return [entry.payload["n"] for entry in ledger.read()]


# --- once ---


def test_a_file_is_recorded_in_its_order_and_the_report_says_what_became_of_it(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", *(event(n) for n in range(2_500)))
    assert ledger.ingest(path) == IngestReport(stored=2_500, lines=2_500, last_position=2_500)
    assert numbers(ledger) == list(range(2_500))
    assert ledger.verify().ok


def test_the_same_file_again_stores_nothing_new(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", *(event(n) for n in range(1_200)))
    ledger.ingest(path)
    assert ledger.ingest(path) == IngestReport(known=1_200, lines=1_200, last_position=1_200)


def test_a_file_that_has_grown_gives_only_its_new_lines(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", event(1), event(2), end=b"")
    assert ledger.ingest(path).stored == 2
    with path.open("ab") as file:
        file.write(b"\n" + event(3) + b"\n")
    report = ledger.ingest(path)
    assert (report.stored, report.known) == (1, 2)
    assert numbers(ledger) == [1, 2, 3]


def test_two_equal_lines_at_different_places_are_two_events(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", event(1), event(1))
    assert ledger.ingest(path).stored == 2
    assert ledger.ingest(path).known == 2


def test_equal_lines_of_two_files_are_two_events_unless_both_have_one_name(ledger, tmp_path) -> None:
    one, two = (file_of(tmp_path / name, event(1)) for name in ("one", "two"))
    assert [ledger.ingest(path).stored for path in (one, two)] == [1, 1]
    assert [ledger.ingest(path, name="log").stored for path in (one, two)] == [1, 0]


def test_a_link_to_a_file_is_the_file(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", event(1))
    (tmp_path / "link").symlink_to(path)
    ledger.ingest(path)
    assert ledger.ingest(tmp_path / "link").known == 1


def test_a_compressed_file_is_read_like_any_other(ledger, tmp_path) -> None:
    path = tmp_path / "in.ndjson.gz"
    path.write_bytes(gzip.compress(event(1) + b"\n" + event(2) + b"\n"))
    assert ledger.ingest(path).stored == 2
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InvalidEvent, match=r"line \d: the compressed data is damaged or ends early"):
        ledger.ingest(path)


def test_a_line_that_was_mended_is_stored_alone(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", event(1), b"{", event(3))
    assert ledger.ingest(path, skip_bad=True).stored == 2
    file_of(path, event(1), event(2), event(3))
    report = ledger.ingest(path)
    assert (report.stored, report.known) == (1, 2)


def test_the_id_of_a_line_is_the_one_that_the_page_describes(ledger) -> None:
    ledger.ingest([b" " + event(1) + b"\r\n"], name="log")
    name, content = hashlib.sha256(b"log").hexdigest()[:32], hashlib.sha256(event(1)).hexdigest()
    key = idempotent_uuid("r", f"ingest {name} line 1 {content}")
    assert next(iter(ledger.read())).event_id == uuid_text(key)
    ledger.ingest([event(1)], name="log", ids="content")
    key = idempotent_uuid("r", f"ingest {name} time 1 {content}")
    assert ledger.get(uuid_text(key)).position == 2


def test_with_ids_of_content_a_window_of_the_input_is_known(ledger) -> None:
    lines = [event(n) for n in (1, 2, 2, 3)]
    ledger.ingest(lines, name="log", ids="content")
    report = ledger.ingest(lines[1:], name="log", ids="content")
    assert (report.stored, report.known) == (0, 3)
    assert ledger.ingest([event(2)] * 3, name="log", ids="content").stored == 1


def test_an_input_without_a_name_gives_new_ids_and_says_so(ledger) -> None:
    lines = [event(1), event(2, idempotency_key="k"), json.dumps(ENVELOPE)]
    assert ledger.ingest(lines).new_ids == 1
    report = ledger.ingest(lines)
    assert (report.stored, report.known, report.new_ids) == (1, 2, 1)


def test_an_id_or_key_of_the_line_counts_wherever_it_comes_from(ledger) -> None:
    ledger.record("a.b", {"n": 1}, correlation_id="r", idempotency_key="k")
    report = ledger.ingest([event(1, idempotency_key="k")], name="log")
    assert (report.stored, report.known) == (0, 1)


def test_the_same_id_twice_in_one_batch_counts_once(ledger) -> None:
    report = ledger.ingest([event(1, idempotency_key="k")] * 3)
    assert (report.stored, report.known, ledger.head) == (1, 2, 1)


def test_what_is_known_is_counted_right_also_where_salts_repeat(opened) -> None:
    ledger = opened("memory:", entropy=bytes)
    lines = [event(n, idempotency_key=str(n)) for n in range(3)]
    assert ledger.ingest(lines).stored == 3
    assert ledger.ingest([*lines, event(3)]) == IngestReport(
        stored=1, known=3, lines=4, last_position=4, new_ids=1
    )


def test_a_jsonl_ledger_takes_lines_as_well(opened, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", *(event(n) for n in range(1_200)))
    ledger = opened(tmp_path / "runs.jsonl")
    assert ledger.ingest(path).stored == 1_200
    assert ledger.ingest(path).known == 1_200
    assert numbers(ledger) == list(range(1_200))


# --- what an item is ---


def test_seven_keys_make_an_envelope_and_its_payload_is_stored_json(ledger) -> None:
    ledger.ingest([json.dumps(ENVELOPE)])
    entry = next(iter(ledger.read()))
    assert entry.event == EventEnvelope.from_json(json.dumps(ENVELOPE))
    assert entry.payload == ENVELOPE["payload"]


def test_fewer_keys_make_a_plain_event_and_its_payload_is_a_value(ledger) -> None:
    plain = {key: value for key, value in ENVELOPE.items() if key != "causation_id"}
    ledger.ingest([plain])
    entry = next(iter(ledger.read()))
    assert entry.payload == {"$$type": "decimal", "value": "1.10"}
    assert entry.value() == ENVELOPE["payload"]


@pytest.mark.parametrize("form", ["line", "text", "mapping", "envelope"])
def test_an_envelope_comes_in_any_form(ledger, form: str) -> None:
    text = json.dumps(ENVELOPE)
    item = {
        "line": text.encode(),
        "text": text,
        "mapping": ENVELOPE,
        "envelope": EventEnvelope.from_json(text),
    }
    assert ledger.ingest([item[form]]).stored == 1
    assert ledger.ingest([text]).known == 1


def test_a_plain_event_takes_every_argument_of_record(ledger) -> None:
    cause = "0199aaaa-0000-7000-8000-000000000002"
    line = event(
        1, causation_id=cause, source={"origin": "ui", "name": "dana"}, timestamp="2026-11-30T03:26:03+01:00",
        event_id="0199aaaa-0000-7000-8000-000000000003", attributes={"policy": "p"}, schema_version=2,
    )  # fmt: skip
    ledger.ingest([line])
    made = next(iter(ledger.read())).event
    assert (made.causation_id, made.source.name, made.timestamp) == (
        cause,
        "dana",
        "2026-11-30T02:26:03.000000Z",
    )
    assert (made.event_id[-1], made.attributes, made.schema_version) == ("3", {"policy": "p"}, 2)


def test_defaults_stand_in_and_are_not_compared_when_the_line_comes_again(ledger) -> None:
    line = b'{"event_type": "a.b", "correlation_id": null, "idempotency_key": "k"}'
    ledger.ingest([line], correlation_id="run-1", source={"origin": "agent", "runtime": "ag2"})
    entry = next(iter(ledger.read()))
    assert (entry.correlation_id, entry.source.runtime) == ("run-1", "ag2")
    assert ledger.ingest([line], correlation_id="run-1", source={"origin": "ui"}).known == 1


def test_a_mapping_holds_any_python_value(ledger) -> None:
    items = [{"event_type": "a.b", "correlation_id": "r", "payload": {"n": {1, 2}}}]
    ledger.ingest(items, name="x")
    assert next(iter(ledger.read())).value() == {"n": {1, 2}}
    assert ledger.ingest(items, name="x").known == 1


def test_secrets_are_taken_out_unless_that_is_switched_off(ledger) -> None:
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    envelope = {**ENVELOPE, "payload": {"token": secret}}
    ledger.ingest([event(secret), envelope])
    assert secret not in "".join(str(entry.payload) for entry in ledger.read())
    ledger.ingest([event(secret)], redact=None)
    assert numbers_of_last(ledger) == secret


def numbers_of_last(ledger: Ledger) -> Any:
    return next(iter(ledger.read(reverse=True))).payload["n"]


def test_one_text_is_not_taken_for_its_characters(ledger) -> None:
    with pytest.raises(InvalidEvent, match=r"pathlib\.Path"):
        ledger.ingest("in.ndjson")


async def _ingested(ledger: Ledger) -> IngestReport:
    return await ledger.aingest([event(1)])


def test_it_does_not_block_an_event_loop(ledger) -> None:
    import asyncio

    assert asyncio.run(_ingested(ledger)).stored == 1


# --- bad lines ---

BAD = {
    b'{"a": ': "not JSON",
    b"[1]": "not a JSON object, but an array",
    b"null": "not a JSON object, but null",
    b'{"event_type": "a.b", "payload": {"x": NaN}}': "NaN is no JSON value",
    b'{"event_type": "a.b", "payload": {"x": "\\ud800"}}': "lone surrogate",
    b'{"event_type": "a.b", "payload": {"x": "\xed\xa0\x80"}}': "not UTF-8",
    b'{"event_type": "a.b", "payload": {"x": 1, "y": [{"z": 1, "z": 1}]}}': "'z' stands twice",
    b'{"event_type": "a.b", "payload": {"\\u0078": 1, "x": 1}}': "'x' stands twice",
    b'{"event_type": "a.b"} {}': "not JSON",
    b'\xef\xbb\xbf{"event_type": "a.b"}': "not JSON",
    b'{"payload": {}}': "event_type is missing",
    b'{"event_type": "No"}': "domain.name",
    b'{"event_type": "a.b", "strict": true}': "'strict' is no field of an event",
    b'{"event_type": "a.b", "timestamp": "2026-11-30T02:26:03"}': "not RFC 3339",
    b'{"event_type": "a.b", "source": "agent"}': "source must be",
    b'{"event_type": "a.b", "event_id": "17"}': "must be a UUID",
    b'{"event_type": "ledger.payload_erased"}': "recorded by the ledger itself",
    json.dumps({**ENVELOPE, "idempotency_key": "k"}).encode(): "unknown field",
    json.dumps({**ENVELOPE, "payload": {"$blob": "sha256:" + "0" * 64, "bytes": 1}}).encode(): "names blob sha256:00",
    b'{"event_type": "a.b", "payload": ' + b"[" * 5_000 + b"]" * 5_000 + b"}": "nested too deeply",
}  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_line_stops_it_with_number_and_reason_and_what_came_before_is_stored(
    ledger, line: bytes, reason: str
) -> None:
    lines = [event(1), b"", line, event(2)]
    with pytest.raises(InvalidEvent) as stopped:
        ledger.ingest(io.BytesIO(b"\n".join(lines)), correlation_id="r")
    assert stopped.value.line == 3
    assert str(stopped.value).startswith("line 3: ")
    assert reason in str(stopped.value)
    assert numbers(ledger) == [1]


def test_every_bad_line_is_left_out_when_that_is_wished(ledger) -> None:
    lines = [part for bad in BAD for part in (event(0), bad)]
    told: list[BadLine] = []
    report = ledger.ingest(
        io.BytesIO(b"\n".join(lines)), correlation_id="r", skip_bad=True, on_bad=told.append
    )
    assert (report.stored, report.bad_count) == (len(BAD), len(BAD))
    assert [bad.number for bad in report.bad] == list(range(2, 2 * len(BAD) + 1, 2))
    assert list(report.bad) == told


def test_a_line_without_a_correlation_is_bad_where_there_is_no_default(ledger) -> None:
    with pytest.raises(InvalidEvent, match="correlation_id is missing"):
        ledger.ingest([b'{"event_type": "a.b"}'])


def test_another_content_under_a_known_id_is_a_bad_line(ledger) -> None:
    lines = [event(n, idempotency_key=str(n % 5)) for n in range(8)]
    with pytest.raises(InvalidEvent, match=r"line 6: event .* is recorded .* with another payload"):
        ledger.ingest(lines)
    assert numbers(ledger) == [0, 1, 2, 3, 4]
    report = ledger.ingest([*lines, event(9)], skip_bad=True)
    assert (report.stored, report.known, [bad.number for bad in report.bad]) == (1, 5, [6, 7, 8])


def test_bad_lines_beyond_a_hundred_are_counted(ledger) -> None:
    told: list[BadLine] = []
    report = ledger.ingest([b"x"] * 2_500 + [event(1)], skip_bad=True, on_bad=told.append)
    assert (len(report.bad), report.bad_count, report.stored, len(told)) == (100, 2_500, 1, 2_500)


def test_line_ends_blank_lines_and_a_mark_at_the_beginning_do_no_harm(ledger, tmp_path) -> None:
    path = tmp_path / "in.ndjson"
    path.write_bytes(b"\xef\xbb\xbf" + event(1) + b"\r\n\r\n  \n\t" + event(2) + b" \n\n")
    assert ledger.ingest(path).stored == 2


def test_a_torn_last_line_is_bad_and_a_whole_one_counts(ledger, tmp_path) -> None:
    path = file_of(tmp_path / "in.ndjson", event(1), event(2), end=b"")
    assert ledger.ingest(path).stored == 2
    path.write_bytes(path.read_bytes() + b"\n" + event(3)[:20])
    with pytest.raises(InvalidEvent, match="line 3: torn: not JSON"):
        ledger.ingest(path)
    assert ledger.ingest(path, skip_bad=True).bad_count == 1
    assert numbers(ledger) == [1, 2]


def test_a_line_that_is_too_long_is_passed_over_in_pieces(opened, tmp_path) -> None:
    limits = chatsnapshot.Limits(payload_bytes_max=1_000)
    ledger = opened("memory:", limits=limits)
    path = tmp_path / "in.ndjson"
    with path.open("wb") as file:
        file.write(event(1) + b"\n")
        for _ in range(64):
            file.write(b" " * (1 << 20))
        file.write(event(2) + b"\n" + event(3) + b"\n")
    tracemalloc.start()
    try:
        report = ledger.ingest(path, skip_bad=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.bad == (BadLine(2, "too long: more than 66,536 bytes"),)
    assert numbers(ledger) == [1, 3]
    assert peak < 8 << 20


def test_memory_does_not_grow_with_the_number_of_lines(opened, tmp_path) -> None:
    def peak_of(count: int, name: str) -> int:
        path = file_of(tmp_path / name, *(b"x" if n % 2 else event(n % 7) for n in range(count)))
        with chatsnapshot.open(tmp_path / f"{name}.db") as ledger:
            tracemalloc.start()
            try:
                ledger.ingest(path, skip_bad=True, ids="content", redact=None)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    peak_of(2_500, "warm")
    assert peak_of(12_500, "large") < 1.3 * peak_of(2_500, "small") + 500_000


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 50))
@settings(max_examples=60)
def test_lines_are_the_same_however_the_input_is_cut(parts: list[bytes], step: int) -> None:
    data = b"\n".join(parts)

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(step)

    wanted = [
        (n, part.strip())
        for n, part in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
        if part.strip()
    ]
    found = [line for line in read_lines(Slow(data), 100) if line is not None]
    assert [(line.number, line.data) for line in found] == wanted


# --- from ledger to ledger ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.tuples(st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=40)
def test_what_was_replayed_becomes_equal_envelopes(made: list[tuple[dict[str, Any], bool]]) -> None:
    with chatsnapshot.open("memory:") as one, chatsnapshot.open("memory:") as two:
        last = None
        for payload, caused in made:
            last = one.record(
                "execution.message", payload, correlation_id="r", causation_id=last if caused else None,
                attributes={"policy": "p"} if caused else None,
            )  # fmt: skip
        lines = [entry.event.to_json() for entry in one.replay("r")]
        assert two.ingest(lines, redact=None).stored == len(made)
        assert [entry.event for entry in two.replay("r")] == [entry.event for entry in one.replay("r")]
        assert [entry.event.to_json() for entry in two.replay("r")] == lines


def test_an_envelope_with_a_blob_is_taken_where_the_blob_is(ledger) -> None:
    ledger.record("a.b", {"n": b"x" * 100_000}, correlation_id="r")
    envelope = json.loads(next(iter(ledger.read())).event.to_json())
    again = {**envelope, "event_id": "0199aaaa-0000-7000-8000-000000000009"}
    assert ledger.ingest([again], redact=None).stored == 1


# --- killed, several at once ---

CHILD = """
import sys, pathlib, chatsnapshot
with chatsnapshot.open(sys.argv[1]) as ledger:
    def told(report):
        print(report.lines, flush=True)
    ledger.ingest(pathlib.Path(sys.argv[2]), redact=None, progress=told)
"""


def test_killed_in_the_middle_and_run_again_every_line_is_there_once_in_order(path: str, tmp_path) -> None:
    lines = file_of(tmp_path / "in.ndjson", *(event(n) for n in range(20_000)))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, path, str(lines)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    for said in child.stdout:
        if int(said) >= 4_000:
            os.kill(child.pid, signal.SIGKILL)
            break
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    with chatsnapshot.open(path) as ledger:
        left = ledger.head
        assert 4_000 <= left < 20_000
        report = ledger.ingest(lines, redact=None)
        assert (report.stored, report.known) == (20_000 - left, left)
        assert numbers(ledger) == list(range(20_000))


def test_two_processes_with_the_same_file_store_it_once(path: str, tmp_path) -> None:
    lines = file_of(tmp_path / "in.ndjson", *(event(n) for n in range(3_000)))
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, path, str(lines)], stdout=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [child.wait() for child in children] == [0, 0]
    with chatsnapshot.open(path) as ledger:
        assert numbers(ledger) == list(range(3_000))

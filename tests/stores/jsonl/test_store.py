"""What a JSONL ledger is for its users: readable lines, private files, one ledger a file, the same tree as any other."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.envelope import EventEnvelope
from chatsnapshot.errors import Corrupt, LedgerClosed, LedgerError, NotFound, ReadOnly, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import Query

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


def test_a_line_is_the_event_as_people_read_it(
    path: Path, opened: Open, lines: Callable[..., list[dict[str, Any]]]
) -> None:
    entry = opened().record(
        "execution.message",
        {"text": 'Grüße 🦜\n"quoted"'},
        correlation_id="run-1",
        attributes={"actor": "Zoë"},
    )
    (line,) = lines()
    assert (line["position"], line["sequence"], line["batch"]) == (1, 1, [1, 1])
    assert line["leaf"] == entry.leaf.hex()
    assert EventEnvelope.from_json(json.dumps(line["event"], ensure_ascii=False)) == entry.event
    assert "Grüße 🦜" in path.read_text(encoding="utf-8")


def test_jq_reads_the_payloads(path: Path, opened: Open, event: Event, require: Any) -> None:
    require(shutil.which("jq"), "jq")
    opened().record_many([event(1), event(2)])
    found = subprocess.run(
        ["jq", "-c", "select(.event).event.payload.number", path], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["1", "2"]


def test_a_small_ledger_is_one_file_with_its_index_and_lock(path: Path, opened: Open, event: Event) -> None:
    ledger = opened()
    ledger.record(**event(1))
    ledger.close()
    names = {file.name.removeprefix("runs.jsonl") for file in path.parent.iterdir()}
    assert {"", ".lock", ".index.db"} <= names <= {"", ".lock", ".index.db", ".index.db-wal", ".index.db-shm"}


def test_files_belong_to_their_owner_alone(path: Path, opened: Open) -> None:
    opened().record("execution.output", {"data": b"x" * 100_000}, correlation_id="run-1")
    for file in path.parent.rglob("*"):
        mode = stat.S_IMODE(file.stat().st_mode)
        if file.name.endswith(".lock"):
            continue  # empty
        assert mode == (0o700 if file.is_dir() else 0o600), file


def test_a_payload_with_line_feeds_stays_one_line_and_comes_back_exactly(
    path: Path, opened: Open, lines: Callable[..., list[dict[str, Any]]]
) -> None:
    payload = b'{\n  "a": [\n 1 ],\r\n "b": "x\\ny"\n}'
    ledger = opened()
    entry = ledger.record(
        EventEnvelope(
            event_id="0199c4d2-7f3a-7b21-8c55-1f0e2d3c4b5a",
            event_type="execution.message",
            timestamp="2026-11-30T02:26:03.123456Z",
            source=chatsnapshot.Source("agent"),
            correlation_id="run-1",
            payload_json=payload,
        )
    )
    assert entry.event.payload_json == payload
    assert ledger.get(entry.event_id).event.payload_json == payload
    (line,) = lines()
    assert line["event"]["payload"] == json.loads(payload)
    assert ledger.verify().ok


def test_one_file_keeps_one_ledger(path: Path) -> None:
    with pytest.raises(LedgerError, match="one ledger"):
        chatsnapshot.open(f"{path}?ledger=other")
    assert not path.exists()
    with chatsnapshot.open(f"jsonl://{path}?ledger=main") as ledger:
        assert ledger.url == str(path)


def test_only_a_ledger_that_is_there_is_opened_to_read(path: Path) -> None:
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(NotFound):
            chatsnapshot.open(path, **options)  # type: ignore[arg-type]
    assert not path.exists()
    path.touch()
    with pytest.raises(NotFound):
        chatsnapshot.open(path, create=False)


def test_traits_claim_what_is_kept(opened: Open) -> None:
    traits = opened()._store.traits
    assert (traits.durable, traits.processes, traits.guarded, traits.erases_in_commit) == (
        True, True, False, False,
    )  # fmt: skip
    assert not opened(durability="os")._store.traits.durable


def test_a_pickled_ledger_is_the_same_ledger(opened: Open, event: Event) -> None:
    ledger = opened()
    ledger.record(**event(1))
    with pickle.loads(pickle.dumps(ledger)) as twin:
        assert twin.ledger_id == ledger.ledger_id
        assert twin.record(**event(2)).position == 2
    assert ledger.head == 2


def test_a_closed_ledger_says_so(opened: Open, event: Event) -> None:
    ledger = opened()
    store = ledger._store
    ledger.close()
    store.close()
    with pytest.raises(LedgerClosed):
        store.head()
    with pytest.raises(LedgerClosed):
        store.save_states("a", 1, None, None, {})  # type: ignore[arg-type]


def test_a_symbolic_link_leads_to_the_same_ledger(path: Path, opened: Open, event: Event) -> None:
    link = path.parent.parent / "link.jsonl"
    link.symlink_to(path)
    one, other = opened(), opened(link)
    one.record(**event(1))
    assert other.record(**event(2)).position == 2
    assert one.head == 2


def copy(source: Ledger, target: Ledger) -> None:
    rows = list(source._store.read(Query(), after=0, until=10**9, limit=10**6, reverse=False, hint=None).rows)
    blobs = {digest: b"".join(source._store.blob(digest) or ()) for digest, _, _ in source._store.blobs()}
    target._store.import_rows(rows[:7], blobs)
    target._store.import_rows(rows[7:], {})


@pytest.mark.parametrize("order", ["from sqlite", "to sqlite"])
def test_a_copy_has_the_same_leaves_root_and_answers(
    path: Path, opened: Open, event: Event, order: str
) -> None:
    names = [path.with_suffix(".db"), path]
    first, second = (opened(name) for name in (names if order == "from sqlite" else names[::-1]))
    cause = first.record(**event(0, attributes={"actor": "Zoë", "links": ["a"]}, schema_version=3))
    first.record_many([event(number, f"run-{number % 4}") for number in range(1, 600)])
    first.record("execution.output", {"data": b"x" * 50_000}, correlation_id="run-1", causation_id=cause)
    first.record("execution.output", {"data": b"y" * 50_000}, correlation_id="child", causation_id=cause)
    first.erase([3, 602], reason="asked")
    copy(first, second)
    assert second._store.head() == first._store.head()
    assert list(second.read()) == list(first.read())
    assert sorted(second._store.blobs()) == sorted(first._store.blobs())
    assert second._store.tile(0, 1) == first._store.tile(0, 1)
    reports = [ledger.verify() for ledger in (first, second)]
    assert [(report.ok, report.root, report.erased) for report in reports] == [(True, reports[0].root, 2)] * 2
    assert second._store.children("run-1") == first._store.children("run-1") == ["child"]
    assert second.record(**event(700)).position == 604


def test_rows_that_do_not_follow_are_not_imported(opened: Open, event: Event, path: Path) -> None:
    source, target = opened(path.with_suffix(".db")), opened()
    source.record_many([event(number) for number in range(5)])
    rows = list(source._store.read(Query(), after=0, until=9, limit=9, reverse=False, hint=None).rows)
    with pytest.raises(StoreUnavailable):
        target._store.import_rows(rows[1:], {})
    with pytest.raises(Corrupt):
        target._store.import_rows([(*rows[0][:4], "execution.other", *rows[0][5:])], {})
    assert target.head == 0
    target._store.import_rows(rows, {})
    assert target.verify().ok


def test_the_same_history_has_the_same_leaves_as_in_memory(path: Path, event: Event) -> None:
    def at(url: object) -> tuple[str, list[bytes]]:
        count = iter(range(1, 10**6))
        with chatsnapshot.open(
            url,  # type: ignore[arg-type]
            clock=lambda: 1_800_000_000_000_000_000 + next(count),
            entropy=lambda size: bytes(size),
        ) as ledger:
            for number in range(20):
                ledger.record(
                    **event(
                        number,
                        timestamp="2026-11-30T02:26:03Z",
                        event_id=f"{number:032x}",
                        source={"origin": "ui"},
                    )
                )
            return ledger.verify().root, [entry.leaf for entry in ledger.read()]

    assert at(path) == at("memory:")


def test_filters_reverse_and_pages_answer_as_memory_does(path: Path, opened: Open) -> None:
    small = Limits(page_entries_max=7, scan_entries_max=25, page_bytes_max=700)
    jsonl, memory = opened(limits=small), chatsnapshot.open("memory:", limits=small)
    types = ["execution.message", "execution.tool_call", "system.error", "execution_log.line"]
    for number in range(200):
        for ledger in (jsonl, memory):
            ledger.record(
                types[number % 4],
                {"n": number, "text": "x" * (number % 60)},
                correlation_id=f"run-{number % 5}",
                source={"origin": "ui" if number % 3 else "agent", "name": f"user {number % 2}"},
                attributes={"tries": number % 6, "ok": number % 2 == 0} if number % 7 else None,
            )
    filters: list[dict[str, Any]] = [
        {}, {"event_type": "execution.*"}, {"event_type": ["system.error", "execution.message"]},
        {"origin": "agent"}, {"name": "user 1"}, {"attributes": {"tries": 3}}, {"attributes": {"ok": True}},
        {"correlation_id": "run-3"}, {"correlation_id": "run-3", "event_type": "execution.*"},
        {"correlation_id": "nobody"}, {"after": 150}, {"until": 20}, {"after": 30, "until": 90, "limit": 11},
        {"after": 500}, {"limit": 3, "origin": "ui"},
    ]  # fmt: skip
    for wanted in filters:
        for reverse in (False, True):
            found = [
                [entry.payload["n"] for entry in ledger.read(**wanted, reverse=reverse)]
                for ledger in (jsonl, memory)
            ]
            assert found[0] == found[1], (wanted, reverse)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_and_reads_on_its_own(opened: Open, event: Event) -> None:
    ledger = opened()
    ledger.record(**event(1))
    list(ledger.read())
    child = os.fork()
    if child == 0:
        try:
            ledger.record(**event(2))
            ok = [entry.position for entry in ledger.read()] == [1, 2]
            os._exit(0 if ok else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ledger.record(**event(3)).position == 3
    assert ledger.verify().ok


def test_two_hundred_openings_leave_no_descriptor(path: Path, event: Event) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    counts = []
    for number in range(200):
        with chatsnapshot.open(path, durability="os") as ledger:
            ledger.record(**event(number))
            list(ledger.read(limit=1))
        if number in (20, 199):
            counts.append(len(list(folder.iterdir())))
    assert counts[0] == counts[1]


class TestReadOnly:
    """Opened read-only, a ledger needs no permission to write, and changes nothing."""

    def state(self, path: Path) -> dict[str, tuple[int, bytes]]:
        return {
            file.name: (file.stat().st_mtime_ns, file.read_bytes())
            for file in path.parent.iterdir()
            if not file.name.endswith("-shm")
        }

    @pytest.mark.parametrize("index", [True, False])
    def test_it_reads_everything_and_changes_nothing(
        self, path: Path, opened: Open, event: Event, without_index: Any, index: bool
    ) -> None:
        writer = opened()
        writer.record_many([event(number, f"run-{number % 2}") for number in range(30)])
        writer.close()
        if not index:
            without_index(path)
            Path(f"{path}.lock").unlink()
        before = self.state(path)
        ledger = opened(read_only=True)
        assert [entry.position for entry in ledger.read()] == list(range(1, 31))
        assert len(list(ledger.replay("run-1"))) == 15
        assert ledger.verify().ok
        with pytest.raises(ReadOnly):
            ledger.record(**event(1))
        with pytest.raises(ReadOnly):
            ledger._store.save_states("a", 1, None, None, {})  # type: ignore[arg-type]
        ledger.close()
        assert self.state(path) == before

    @pytest.mark.parametrize("index", [True, False])
    def test_it_sees_what_is_added_later(
        self, path: Path, opened: Open, event: Event, without_index: Any, index: bool
    ) -> None:
        writer = opened()
        writer.record(**event(1))
        if not index:
            without_index(path)
        reader = opened(read_only=True)
        assert reader.head == 1
        for number in range(2, 6):
            entry = writer.record(**event(number))
            assert reader.get(entry.event_id) == entry
            assert reader.head == number
        writer.erase(2, reason="asked")
        assert reader.verify().ok
        assert reader.verify().erased == 1

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives up root's permissions")
    def test_it_works_for_a_user_who_may_only_read(self, tmp_path: Path) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            at = Path(folder) / "runs.jsonl"
            with chatsnapshot.open(at) as ledger:
                ledger.record("execution.message", {"a": 1}, correlation_id="run-1")
            for file in Path(folder).iterdir():
                file.chmod(0o444)
            child = os.fork()
            if child == 0:
                try:
                    os.setgid(65534)
                    os.setuid(65534)
                    with chatsnapshot.open(at, read_only=True) as ledger:
                        os._exit(0 if ledger.verify().ok and ledger.head == 1 else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0

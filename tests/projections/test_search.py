"""Search finds words of all runs, follows the ledger, and forgets what the ledger forgot."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.search.index import Index
from chatsnapshot.projections.search.placing import path_of


@pytest.fixture(params=["memory", "sqlite", "jsonl"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    names = {"memory": "memory:", "sqlite": str(tmp_path / "runs.db"), "jsonl": str(tmp_path / "runs.jsonl")}
    with chatsnapshot.open(names[request.param]) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    """One ledger for many examples."""
    with chatsnapshot.open("memory:") as opened:
        say(opened, "a AND b or NOT c: near")
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def say(ledger: Any, text: str, run: str = "r1", **more: Any) -> Any:
    return ledger.record("execution.message", {"role": "user", "content": text}, correlation_id=run, **more)


def positions(found: Any) -> list[int]:
    return [hit.position for hit in found]


def test_words_phrases_beginnings_and_exclusions_are_found(ledger: Any) -> None:
    say(ledger, "The refund policy of the shop")
    say(ledger, "A policy for refunds, says Élodie")
    say(ledger, "Nothing of the kind")
    assert positions(ledger.search("refund policy")) == [1]
    assert positions(ledger.search('"policy for"')) == [2]
    assert sorted(positions(ledger.search("refund* policy"))) == [1, 2]
    assert positions(ledger.search("policy -shop")) == [2]
    assert positions(ledger.search('policy -"refund policy"')) == [2]
    assert positions(ledger.search("elodie")) == [2]
    assert positions(ledger.search("elephant")) == []


def test_a_hit_says_where_it_is_who_said_it_and_which_words_matched(ledger: Any) -> None:
    entry = say(
        ledger, "x " * 60 + "the refund policy, please " + "y " * 60, source={"origin": "ui", "name": "Ann"}
    )
    (hit,) = ledger.search("policy refund")
    assert (hit.position, hit.correlation_id, hit.event_id) == (1, "r1", entry.event_id)
    assert (hit.event_type, hit.at, hit.who) == ("execution.message", entry.timestamp, "Ann")
    assert [hit.snippet[first:last] for first, last in hit.marks] == ["refund", "policy"]
    assert hit.snippet.startswith("…") and hit.snippet.endswith("…") and hit.score > 0


def test_texts_of_tools_answers_and_unknown_events_are_found(ledger: Any) -> None:
    ledger.record(
        "execution.tool_call", {"name": "weather", "arguments": {"city": "Oslo"}}, correlation_id="r"
    )
    ledger.record(
        "execution.tool_result", {"name": "weather", "result": {"sky": "cloudy"}}, correlation_id="r"
    )
    ledger.record("execution.human_input_received", {"answer": "umbrella"}, correlation_id="r")
    ledger.record("my.own", {"deep": [{"word": "rainbow"}], "native": {"x": "hidden"}}, correlation_id="r")
    for number, word in enumerate(("Oslo", "cloudy", "umbrella", "rainbow"), 1):
        assert positions(ledger.search(word)) == [number]
    assert positions(ledger.search("hidden")) == []


def test_scripts_without_blanks_are_found_by_a_part(ledger: Any) -> None:
    say(ledger, "退款政策允许在购买后三十天内退货")
    say(ledger, "返金ポリシーでは返品が認められています")
    (hit,) = ledger.search("政策允许")
    assert (hit.position, hit.snippet, hit.marks) == (1, "退款政策允许在购买后三十天内退货", ((2, 6),))
    assert positions(ledger.search("ポリシー")) == [2]
    assert positions(ledger.search("许允")) == []


def test_filters_are_those_of_read_and_bound_the_answer(ledger: Any) -> None:
    say(ledger, "needle", "a", attributes={"team": "red"})
    say(ledger, "needle", "b", source={"origin": "ui", "runtime": "ag2", "name": "Ann"})
    ledger.record("execution.tool_result", {"result": "needle"}, correlation_id="a")
    say(ledger, "needle", "c")

    def found(**filters: Any) -> list[int]:
        return positions(ledger.search("needle", order="newest", **filters))

    assert found() == [4, 3, 2, 1]
    assert found(correlation_id="a") == [3, 1]
    assert found(event_type="execution.tool_result") == [3]
    assert found(origin="ui") == found(runtime="ag2") == found(name="Ann") == [2]
    assert found(attributes={"team": "red"}) == [1]
    assert found(until=3, after=1) == [3, 2]
    assert found(limit=2) == [4, 3]
    assert found(limit=0) == []
    with pytest.raises(InvalidEvent, match="origin"):
        found(origin="nobody")


def test_what_is_recorded_later_is_found_by_the_next_search(ledger: Any) -> None:
    assert positions(ledger.search("needle")) == []
    for number in range(2_500):
        ledger.record("execution.message", {"content": f"hay {number}"}, correlation_id="r", wait=False)
    ledger.flush()
    say(ledger, "needle")
    assert positions(ledger.search("needle")) == [2_501]
    assert positions(ledger.search("hay 1234")) == [1_235]


def test_the_best_hit_comes_first_and_of_equals_the_newest(ledger: Any) -> None:
    say(ledger, "needle in a long, long, long text about many other things that nobody looks for")
    say(ledger, "needle")
    say(ledger, "needle")
    assert positions(ledger.search("needle")) == [3, 2, 1]
    assert positions(ledger.search("needle", limit=1)) == [3]


@pytest.mark.parametrize("query", ["", "  ", "-", '"', "***", "-only -these", "\0", "((("])
def test_a_query_without_a_word_says_so(ledger: Any, query: str) -> None:
    with pytest.raises(InvalidEvent, match="needs a word"):
        ledger.search(query)


def test_limits_of_a_query_are_named(ledger: Any) -> None:
    for query, said in ((7, "is text"), ("a " * 600, "1,000 characters"), ("a " * 65, "64 words")):
        with pytest.raises(InvalidEvent, match=said):
            ledger.search(query)
    with pytest.raises(InvalidEvent, match="limit"):
        ledger.search("a", limit=-1)
    with pytest.raises(InvalidEvent, match="order"):
        ledger.search("a", order="worst")


@settings(max_examples=150, deadline=None)
@given(
    query=st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(['"', "AND", "OR", "NOT", "NEAR(a b)", "*", "-", "^", "a:b", "{x}", "'", "a"])
        ).map(" ".join),
    )
)
def test_no_text_of_a_user_is_an_error_of_syntax(shared: Any, query: str) -> None:
    try:
        list(shared.search(query))
    except InvalidEvent as error:
        assert "needs a word" in str(error)


@given(text=st.text(max_size=200), cut=st.integers(0, 200))
@settings(max_examples=60, deadline=None)
def test_marks_are_places_in_a_snippet_of_the_recorded_text(text: str, cut: int) -> None:
    with chatsnapshot.open("memory:") as ledger:
        say(ledger, text[:cut] + " needle " + text[cut:])
        (hit,) = ledger.search("needle")
        for first, last in hit.marks:
            assert hit.snippet[first:last].lower() == "needle"
        assert hit.marks


# --- what was erased --------------------------------------------------------------------------------------------


def test_erased_texts_are_not_found_and_leave_the_file(ledger: Any) -> None:
    say(ledger, "an ordinary text")
    secret = say(ledger, "the xylophone zanzibar quux", source={"origin": "agent", "name": "Ann"})
    assert positions(ledger.search("zanzibar")) == [2]
    path = path_of(ledger)
    ledger.erase(secret.position, reason="asked for")
    if path is not None:  # at once, before another search
        for name in (path, path + "-journal"):
            data = Path(name).read_bytes() if os.path.exists(name) else b""
            assert b"xylophone" not in data and b"ylophone" not in data and b"zanzibar" not in data
        assert b"ordinary" in Path(path).read_bytes()
    assert positions(ledger.search("zanzibar")) == []
    assert positions(ledger.search("ordinary")) == [1]


def test_an_erasure_that_the_index_missed_is_made_up_by_the_next_search(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        secret = say(ledger, "zanzibar")
        assert positions(ledger.search("zanzibar")) == [1]

        def busy(self: Index, positions: Any) -> None:
            raise apsw.BusyError("locked")

        with monkeypatch.context() as patch:
            patch.setattr(Index, "forget", busy)
            ledger.erase(secret.position, reason="asked for")
        assert "until the next search: locked" in caplog.text
        assert b"zanzibar" in Path(f"{path}.search").read_bytes()
        assert positions(ledger.search("zanzibar")) == []
        assert b"zanzibar" not in Path(f"{path}.search").read_bytes()


def test_what_was_erased_before_the_first_search_never_enters(path: Path) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        ledger.erase(say(ledger, "zanzibar").position, reason="asked for")
        assert positions(ledger.search("zanzibar")) == []
        assert b"zanzibar" not in Path(f"{path}.search").read_bytes()


# --- the file beside the ledger ---------------------------------------------------------------------------------


def test_the_index_is_a_file_of_its_owner_beside_the_ledger(path: Path) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "needle")
        found = ledger.search("needle")
        assert (positions(found), found.note) == ([1], None)
        assert os.stat(f"{path}.search").st_mode & 0o777 == 0o600
    with chatsnapshot.open(f"{path}?ledger=tenant") as tenant:
        say(tenant, "other needle")
        assert [hit.snippet for hit in tenant.search("needle")] == ["other needle"]
        assert os.path.exists(f"{path}.tenant.search")


@pytest.mark.parametrize("damage", ["deleted", "noise", "emptied", "cut", "older"])
def test_a_lost_or_broken_index_is_made_again(path: Path, damage: str) -> None:
    file = Path(f"{path}.search")
    with chatsnapshot.open(str(path)) as ledger:
        for number in range(300):
            ledger.record(
                "execution.message", {"content": f"needle {number}"}, correlation_id="r", wait=False
            )
        ledger.flush()
        assert len(ledger.search("needle", limit=1_000)) == 300
        if damage == "deleted":
            file.unlink()
        elif damage == "noise":
            file.write_bytes(b"no database at all " * 500)
        elif damage == "emptied":
            file.write_bytes(b"")
        elif damage == "cut":
            os.truncate(file, 8_192)
        else:
            db = apsw.Connection(str(file))
            db.execute("PRAGMA user_version=99; DROP TABLE event")
            db.close()
        found = ledger.search("needle", limit=1_000)
        assert (len(found), found.note) == (300, None)


def test_an_index_of_another_history_is_made_anew(path: Path) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "first history")
        assert positions(ledger.search("first")) == [1]
    for name in ("", "-wal", "-shm"):
        Path(f"{path}{name}").unlink(missing_ok=True)
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "second history")
        assert positions(ledger.search("first")) == []
        assert positions(ledger.search("second")) == [1]


def test_a_file_that_is_not_ours_is_left_alone(path: Path) -> None:
    other = f"{path}.search"
    db = apsw.Connection(other)
    db.execute("PRAGMA journal_mode=WAL; CREATE TABLE mine (a); INSERT INTO mine VALUES (7)").fetchall()
    db.close()
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "needle")
        found = ledger.search("needle")
        assert positions(found) == [1]
        assert "cannot be written" in (found.note or "")
        ledger.erase(1, reason="asked for")
    db = apsw.Connection(other)
    assert db.execute("PRAGMA journal_mode").get == "wal"
    assert db.execute("SELECT a FROM mine").get == 7
    db.close()


def test_a_ledger_opened_read_only_writes_nothing_and_still_finds(path: Path) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "needle one")
    with chatsnapshot.open(str(path), read_only=True) as reader:
        found = reader.search("needle")
        assert positions(found) == [1] and "read-only" in (found.note or "")
        assert not os.path.exists(f"{path}.search")
        with chatsnapshot.open(str(path)) as writer:
            writer.search("needle")
            say(writer, "needle two")
        assert sorted(positions(reader.search("needle"))) == [1, 2]
    with chatsnapshot.open(str(path), read_only=True) as reader:
        assert sorted(positions(reader.search("needle"))) == [1, 2]  # begins with a copy of the file


def test_a_folder_that_cannot_be_written_gets_an_index_in_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "needle")
        real = os.open

        def refusing(name: Any, *arguments: Any, **options: Any) -> int:
            if str(name).endswith(".search"):
                raise PermissionError(13, "Permission denied", name)
            return real(name, *arguments, **options)

        monkeypatch.setattr(os, "open", refusing)
        found = ledger.search("needle")
        assert positions(found) == [1] and "cannot be written" in (found.note or "")


def _search_and_record(path: str, name: str, count: int) -> None:
    with chatsnapshot.open(path) as ledger:
        for number in range(count):
            say(ledger, f"needle {name} {number}", name)
            if name not in {hit.correlation_id for hit in ledger.search(f"needle {name} {number}")}:
                sys.exit(3)


def test_processes_that_search_and_record_at_once_each_find_their_own(path: Path) -> None:
    with chatsnapshot.open(str(path)):
        pass
    spawn = multiprocessing.get_context("spawn")
    workers = [
        spawn.Process(target=_search_and_record, args=(str(path), name, 15)) for name in ("ann", "bob")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    with chatsnapshot.open(str(path)) as ledger:
        assert sorted(positions(ledger.search("needle", limit=100))) == list(range(1, 31))


def _search_and_be_killed(path: str) -> None:
    taken = 0
    take = Index._take

    def take_some(self: Index, entry: Any) -> bool:
        nonlocal taken
        taken += 1
        if taken == 1_500:
            os.kill(os.getpid(), signal.SIGKILL)
        return take(self, entry)

    Index._take = take_some  # type: ignore[method-assign]
    with chatsnapshot.open(path) as ledger:
        ledger.search("needle")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_search_that_is_killed_in_the_middle_of_a_batch_leaves_an_index_that_goes_on(path: Path) -> None:
    with chatsnapshot.open(str(path), durability="os") as ledger:
        for number in range(2_000):
            ledger.record(
                "execution.message", {"content": f"needle {number}"}, correlation_id="r", wait=False
            )
        ledger.flush()
        worker = multiprocessing.get_context("spawn").Process(target=_search_and_be_killed, args=(str(path),))
        worker.start()
        worker.join(60)
        assert worker.exitcode == -signal.SIGKILL
        found = ledger.search("needle", limit=5_000, order="newest")
        assert (positions(found), found.note) == (list(range(2_000, 0, -1)), None)


def test_threads_share_the_index_of_a_memory_ledger() -> None:
    with chatsnapshot.open("memory:") as ledger, ThreadPoolExecutor(4) as pool:

        def work(number: int) -> bool:
            entry = say(ledger, f"needle{number}")
            return positions(ledger.search(f"needle{number}")) == [entry.position]

        assert all(pool.map(work, range(40)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_searches_with_an_index_of_its_own(path: Path) -> None:
    with chatsnapshot.open(str(path)) as ledger:
        say(ledger, "needle")
    with chatsnapshot.open(str(path), read_only=True) as reader:
        assert positions(reader.search("needle")) == [1]  # kept in memory, by the parent
        child = multiprocessing.get_context("fork").Process(
            target=lambda: sys.exit(0 if positions(reader.search("needle")) == [1] else 3)
        )
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert positions(reader.search("needle")) == [1]


def test_a_filter_that_there_is_not_is_named_with_those_that_there_are(shared: Any) -> None:
    with pytest.raises(
        TypeError, match=r"search\(\) has no filter 'typ'; it takes correlation_id, event_type"
    ):
        shared.search("near", typ="x")

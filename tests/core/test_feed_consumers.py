"""Consumers that are killed, that share a name, that come and go: every matching entry at least once, never back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot import Ledger, StoreFull

CONSUMER = """
import json, sys
import chatsnapshot
path, batch, stop_at = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with chatsnapshot.open(path, create=False) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for number, handed in enumerate(ledger.feed("train", batch=batch, event_type="a.b"), 1):
        if number == stop_at:
            print(json.dumps([handed.after, handed.position, None]), flush=True)
            sys.stdin.readline()
        print(json.dumps([handed.after, handed.position, handed.commit()]), flush=True)
"""


@pytest.fixture(params=["sqlite", "jsonl"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a new ledger goes, once for each store that several processes may use."""
    return tmp_path / {"sqlite": "runs.db", "jsonl": "runs.jsonl"}[request.param]


@pytest.fixture
def consumer(path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``consumer(batch, stop_at)``: a process that consumes, and waits with that batch in its hands."""
    started = []

    def start(batch: int, stop_at: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", CONSUMER, path, batch, stop_at]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=30)


def note(ledger: Ledger, count: int) -> None:
    ledger.record_many(
        [{"event_type": "x.y" if n % 3 == 2 else "a.b", "correlation_id": "c"} for n in range(count)]
    )


def matching(ledger: Ledger) -> list[int]:
    return [entry.position for entry in ledger.read(event_type="a.b")]


def told(process: subprocess.Popen[str], last: int = 0) -> list[list[Any]]:
    """What a consumer has printed: up to ``last`` batches, or all when it is done."""
    if not last:
        out, _ = process.communicate("\n\n", timeout=60)
        assert process.returncode == 0
        return [json.loads(line) for line in out.splitlines()]
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return [json.loads(process.stdout.readline()) for _ in range(last)]


def test_a_consumer_killed_with_a_batch_in_its_hands_sees_it_again(
    path: Path, consumer: Callable[..., subprocess.Popen[str]], opened: Callable[..., Ledger]
) -> None:
    ledger = opened(path)
    note(ledger, 30)
    seen = []
    for batch in (4, 5, 3):
        process = consumer(batch, stop_at=2)
        seen += told(process, 2)
        process.kill()
        process.wait(30)
        note(ledger, 5)
    assert [one[2] for one in seen] == [True, None] * 3
    assert seen[1][:2] == seen[2][:2] and seen[3][:2] == seen[4][:2]
    rest = [[batch.after, batch.position] for batch in ledger.feed("train", event_type="a.b")]
    assert rest[0] == seen[5][:2]
    done = [one[:2] for one in seen if one[2]] + rest
    assert [one[0] for one in done] == [0, *(one[1] for one in done[:-1])]
    assert done[-1][1] == ledger.head


def test_processes_of_one_name_see_everything_and_only_one_of_them_commits_a_batch(
    path: Path, consumer: Callable[..., subprocess.Popen[str]], opened: Callable[..., Ledger]
) -> None:
    ledger = opened(path)
    note(ledger, 120)
    processes = [consumer(batch) for batch in (2, 3)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    seen = [told(process) for process in processes]
    check_shared(seen, ledger)


def test_threads_of_one_name_see_everything_and_only_one_of_them_commits_a_batch(
    url: str, opened: Callable[..., Ledger], together: Callable[..., list[Any]]
) -> None:
    ledger = opened(url)
    note(ledger, 200)

    def consume(number: int) -> list[list[Any]]:
        feed = ledger.feed("train", batch=number + 2, event_type="a.b", auto_commit=False)
        return [[batch.after, batch.position, batch.commit()] for batch in feed]

    check_shared(together(consume, 3), ledger)


def check_shared(seen: list[list[list[Any]]], ledger: Ledger) -> None:
    for one in seen:
        assert [after for after, _, _ in one] == sorted({after for after, _, _ in one}), "a commit went back"
    won = sorted(batch[:2] for one in seen for batch in one if batch[2])
    assert [after for after, _ in won] == [0, *(position for _, position in won[:-1])]
    assert won[-1][1] >= matching(ledger)[-1]
    lost = [batch[:2] for one in seen for batch in one if not batch[2]]
    assert [batch for batch in lost if batch not in won] == []
    assert ledger.feeds()[0].lag == 0


def test_a_commit_that_fails_leaves_the_batch_to_come_again(
    path: Path, opened: Callable[..., Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(path)
    note(ledger, 4)
    feed = ledger.feed("train", batch=2)
    seen = []
    with monkeypatch.context() as broken, pytest.raises(StoreFull):
        for batch in feed:
            seen.append(batch.position)

            def full(*given: Any) -> bool:
                raise StoreFull("no space")

            broken.setattr(ledger._store, "save_states", full)
    assert [*seen, *(batch.position for batch in feed)] == [2, 2, 4]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 7)),
        st.tuples(
            st.just("consume"), st.integers(1, 5), st.integers(1, 4), st.sampled_from(["crash", "commit"])
        ),
        st.tuples(st.just("finish"), st.integers(1, 5)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_any_course_of_crashes_gives_every_match_at_least_once_and_in_order(steps: list[Any]) -> None:
    with chatsnapshot.open("memory:") as ledger:
        seen: list[int] = []
        in_hand: tuple[int, int] | None = None
        committed = 0
        for step in [*steps, ("finish", 3)]:
            if step[0] == "record":
                note(ledger, step[1])
                continue
            left = step[2] if step[0] == "consume" else -1
            for batch in ledger.feed("train", batch=step[1], event_type="a.b"):
                assert batch.after >= committed
                if in_hand is not None:
                    assert (batch.after, batch.position) == in_hand
                committed, in_hand = batch.after, None
                seen += [entry.position for entry in batch]
                left -= 1
                if left == 0:
                    if step[3] == "commit":
                        assert batch.commit()
                        committed = batch.position
                    else:
                        in_hand = (batch.after, batch.position)
                    break
            assert ledger.feed("train", event_type="a.b").position >= committed
        assert list(dict.fromkeys(seen)) == matching(ledger)

"""Following sessions: each look records what is new, whatever happened to the files in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import StoreUnavailable
from chatsnapshot.importers import following as following_module
from chatsnapshot.importers.following import SEARCH_SECONDS, SETTLE_SECONDS, Following, follow


class Clock:
    """A clock that is turned by hand; files that are written have the time that it shows."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def write(self, path: Path, data: bytes, mode: str = "ab") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as stream:
            stream.write(data)
        os.utime(path, (self.now, self.now))


def line(number: int, kind: str, content: Any, session: str = "s", **more: Any) -> bytes:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {"id": f"m{number}", "model": "c", "usage": {"output_tokens": 2}}
    found = {
        "type": kind,
        "uuid": f"{session}-{more.get('agentId', '')}-{number}",
        "parentUuid": None,
        "sessionId": session,
        "timestamp": f"2026-11-30T10:00:{number:02d}Z",
        "message": message,
        **more,
    }
    return json.dumps(found).encode() + b"\n"


def say(number: int, text: str, session: str = "s", **more: Any) -> bytes:
    return line(number, "assistant", [{"type": "text", "text": text}], session, **more)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def begun(ledger: Any, clock: Clock) -> Callable[..., Following]:
    """``begun(path)``: follows it."""

    def begin(*paths: Path, kind: str = "claude-code") -> Following:
        return Following(ledger, paths, kind, clock=clock)

    return begin


def words(ledger: Any) -> list[str]:
    found = []
    for entry in ledger.read(event_type="execution.message"):
        part = entry.payload["parts"][0]
        found.append(part["content"])
    return found


def looked(following: Following) -> tuple[int, int]:
    reports = list(following.look())
    return sum(one.stored for one in reports), sum(one.problem_count for one in reports)


def test_a_line_is_recorded_when_it_is_whole_and_not_before(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    whole = line(1, "user", "Grüße.")
    clock.write(path, whole[:-30])
    following = begun(path)
    assert looked(following) == (0, 0)
    clock.write(path, whole[-30:-5])
    assert looked(following) == (0, 0)
    clock.write(path, whole[-5:])
    assert looked(following) == (2, 0)
    assert looked(following) == (0, 0)
    clock.write(path, say(2, "Hello.") + say(3, "And?")[:20])
    assert looked(following)[0] == 1
    assert words(ledger) == ["Grüße.", "Hello."]


def test_new_sessions_and_sub_agents_are_found_at_the_next_search(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path
) -> None:
    following = begun(tmp_path)
    assert looked(following) == (0, 0)
    path = tmp_path / "-shed" / "s.jsonl"
    call = {
        "type": "tool_use",
        "id": "t1",
        "name": "Task",
        "input": {"prompt": "Look.", "subagent_type": "E"},
    }
    clock.write(path, line(1, "user", "Go.") + line(2, "assistant", [call]))
    assert looked(following) == (0, 0)
    clock.now += SEARCH_SECONDS
    assert looked(following)[0] == 3
    agent = path.with_suffix("") / "subagents" / "agent-a.jsonl"
    clock.write(agent, line(3, "user", "Look.", agentId="a", isSidechain=True))
    clock.write(tmp_path / "-cellar" / "z.jsonl", line(4, "user", "Elsewhere.", "z"))
    clock.now += SEARCH_SECONDS
    assert looked(following)[0] == 4
    assert len(following) == 2
    first = next(iter(ledger.read(correlation_id="s.agent-a")))
    assert ledger.get(first.causation_id).payload["call_id"] == "t1"


@pytest.mark.parametrize("how", ["shorter", "another"])
def test_a_file_that_is_not_the_one_that_was_read_is_read_from_its_beginning(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "s.jsonl"
    clock.write(path, line(1, "user", "One.") + say(2, "Two."))
    following = begun(path)
    assert looked(following)[0] == 3
    if how == "shorter":
        clock.write(path, line(9, "user", "Nine."), "wb")
    else:
        other = tmp_path / "new"
        summary = json.dumps({"type": "summary", "summary": "Zero. " * 99}).encode() + b"\n"
        clock.write(other, summary + line(1, "user", "One.") + say(2, "Two.") + line(9, "user", "Nine."))
        other.replace(path)
    assert looked(following)[1] == 0
    assert words(ledger) == ["One.", "Two.", "Nine."]


def test_a_file_that_is_gone_for_a_while_is_no_matter(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path
) -> None:
    path, aside = tmp_path / "s.jsonl", tmp_path / "aside"
    clock.write(path, line(1, "user", "One."))
    following = begun(path)
    looked(following)
    path.rename(aside)
    assert looked(following) == (0, 0)
    aside.rename(path)
    clock.write(path, line(2, "user", "Two."))
    looked(following)
    assert words(ledger) == ["One.", "Two."]


def test_a_session_that_rests_is_read_to_its_end_and_again_when_it_goes_on(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"
    clock.write(path, line(1, "user", "One.") + say(2, "Two."))
    following = begun(path)
    looked(following)
    assert ledger.view("runs", "s").runs[0].status == "unfinished"
    clock.now += SETTLE_SECONDS + 1
    assert looked(following)[0] == 2
    assert looked(following) == (0, 0)
    assert ledger.view("runs", "s").runs[0].status == "completed"
    clock.now += SEARCH_SECONDS
    clock.write(path, line(3, "user", "Three."))
    assert looked(following)[0] == 2
    assert words(ledger) == ["One.", "Two.", "Three."]


def test_at_the_end_a_session_is_read_to_its_end_as_by_one_import(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path
) -> None:
    from chatsnapshot.importers import import_file

    path = tmp_path / "s.jsonl"
    clock.write(path, line(1, "user", "One.") + say(2, "Two.") + b'{"type"')
    following = begun(path)
    looked(following)
    (last,) = following.finish()
    assert (last.stored, last.problem_count) == (2, 1)
    assert import_file(ledger, path).stored == 0
    with chatsnapshot.open("memory:") as other:
        import_file(other, path)
        assert [one.event_id for one in other.read()] == [one.event_id for one in ledger.read()]


def test_another_follower_goes_on_from_there(ledger: Any, begun: Any, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    clock.write(path, line(1, "user", "One."))
    looked(begun(path))
    clock.write(path, say(2, "Two."))
    (report,) = begun(path).look()
    assert (report.stored, report.known) == (1, 2)


def test_a_store_that_takes_nothing_is_waited_for_and_nothing_is_lost(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    clock.write(path, line(1, "user", "One."))
    following = begun(path)
    told: list[str | None] = []
    commit = ledger._recorder.commit
    away = {2, 3}
    rounds: list[int] = []

    def refuse(group: Any) -> Any:
        if len(rounds) in away:
            raise StoreUnavailable("gone fishing")
        return commit(group)

    monkeypatch.setattr(ledger._recorder, "commit", refuse)

    def wait(seconds: float) -> None:
        rounds.append(1)
        clock.write(path, line(len(rounds) + 1, "user", f"Round {len(rounds)}."))
        if len(rounds) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(following, lambda _: None, lambda error: told.append(error and str(error)), wait)
    assert told == ["gone fishing", None]
    assert words(ledger) == ["One.", *(f"Round {number}." for number in range(1, 6))]


def test_sessions_that_are_written_are_read_before_those_that_rest(
    ledger: Any, begun: Any, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following_module, "OLD_SECONDS", -1.0)
    for name in ("old", "older"):
        clock.write(tmp_path / f"{name}.jsonl", line(1, "user", name, name))
    clock.now += SETTLE_SECONDS + 1
    clock.write(tmp_path / "young.jsonl", line(1, "user", "young", "young"))
    following = begun(tmp_path)
    looked(following)
    assert words(ledger) == ["young"]
    monkeypatch.setattr(following_module, "OLD_SECONDS", 60.0)
    looked(following)
    assert words(ledger) == ["young", "old", "older"]


def test_only_sessions_can_be_followed(begun: Any, write: Any, named: Any) -> None:
    following = begun(write(named), kind="auto")
    with pytest.raises(chatsnapshot.InvalidEvent, match="no file that grows"):
        list(following.look())


def test_codex_is_followed_by_auto_too(ledger: Any, begun: Any, clock: Clock, tmp_path: Path) -> None:
    def rollout(kind: str, payload: dict[str, Any], second: int) -> bytes:
        found = {"timestamp": f"2026-11-30T10:00:{second:02d}Z", "type": kind, "payload": payload}
        return json.dumps(found).encode() + b"\n"

    path = tmp_path / "2026" / "rollout-1.jsonl"
    clock.write(
        path, rollout("session_meta", {"id": "t", "cwd": "/", "timestamp": "2026-11-30T10:00:00Z"}, 0)
    )
    clock.write(tmp_path / "2026" / "notes.txt", b"no session")
    following = begun(tmp_path, kind="auto")
    assert looked(following) == (0, 0)
    clock.write(path, rollout("event_msg", {"type": "user_message", "message": "Go."}, 1))
    assert looked(following)[0] == 2
    assert words(ledger) == ["Go."]

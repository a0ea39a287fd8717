"""AG2 1.x: a recorded agent leaves the same ledger behind on a service, directly and by way of a spool."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ag2.events import ToolCallEvent
from ag2_agents import Steps, add, run_one, scripted

import chatsnapshot
from chatsnapshot import Ledger


@pytest.mark.parametrize("mode", ["direct", "spool"])
def test_a_turn_with_a_tool_is_recorded_over_http_as_it_is_here(
    mode: str,
    ledger: Ledger,
    servers: Callable[[str], Any],
    require: Callable[[object, str], None],
    call: Callable[..., ToolCallEvent],
    steps: Steps,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = servers("http")
    require(not isinstance(server, Exception), f"a service ({server})")
    server.start()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = f"{server.address}?ledger=ag2-{uuid.uuid4().hex[:12]}&mode={mode}"
    script = call("add", a=1, b=2)
    with chatsnapshot.open(place) as remote:
        replies = [run_one(one, scripted(script, "three"), [add])[0] for one in (ledger, remote)]
        assert str(replies[0]) == str(replies[1]) or replies[0].body == replies[1].body
        assert remote.flush(30).ok
        assert steps(remote.read()) == steps(ledger.read())
        mine, theirs = (one.view("transcript", "run-1").items for one in (ledger, remote))
        assert [type(item) for item in theirs] == [type(item) for item in mine]
        assert remote.verify().ok


def test_a_service_that_goes_away_in_the_middle_does_not_disturb_the_agent(
    servers: Callable[[str], Any],
    require: Callable[[object, str], None],
    call: Callable[..., ToolCallEvent],
    ledger: Ledger,
    steps: Steps,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = servers("http")
    require(not isinstance(server, Exception), f"a service ({server})")
    server.start()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    script = call("leave")

    def leave() -> str:
        """Leave."""
        server.kill()
        return "gone"

    def leave_quietly() -> str:
        """Leave."""
        return "gone"

    leave_quietly.__name__ = "leave"
    place = f"{server.address}?ledger=ag2-{uuid.uuid4().hex[:12]}"
    with chatsnapshot.open(place) as remote:
        run_one(remote, scripted(script, "done"), [leave])
        server.start()
        assert remote.flush(30).ok
        run_one(ledger, scripted(script, "done"), [leave_quietly])
        assert steps(remote.read()) == steps(ledger.read())

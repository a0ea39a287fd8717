"""The doctor on NATS: when the servers sync, copies, space and the index, in words that say what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import chatsnapshot
from chatsnapshot.doctor.diagnosis import diagnose
from chatsnapshot.doctor.finding import NOTE, OK, PROBLEM, WARNING, Finding
from chatsnapshot.doctor.nats import judge_copies, judge_space, judge_sync
from chatsnapshot.errors import NotFound
from chatsnapshot.testing.servers.guarded import free_port
from chatsnapshot.testing.servers.nats import NatsServer


def _of(findings: tuple[Finding, ...], check: str) -> Finding:
    return next(finding for finding in findings if finding.check == check)


def test_a_sound_server_is_told_so(server: NatsServer, place: str) -> None:
    assert server.node is not None
    with chatsnapshot.open(place) as ledger:
        ledger.record("demo.step", {"n": 1}, correlation_id="run")
    found = diagnose(f"{place}&monitoring=http://127.0.0.1:{server.node.monitor}")
    assert found.healthy
    assert _of(found.findings, "sync") == Finding(
        "sync", OK, "server one syncs every commit before it acknowledges it"
    )
    assert {finding.grade for finding in found.findings} == {OK, NOTE}
    assert "one copy" in _of(found.findings, "copies").found
    assert "1 entries" in _of(found.findings, "space").found
    assert "can be deleted at any time" in _of(found.findings, "index").found


def test_what_cannot_be_known_is_said_with_what_to_check(place: str) -> None:
    chatsnapshot.open(place).close()
    sync = _of(diagnose(place).findings, "sync")
    assert (sync.grade, "cannot be seen from here" in sync.found) == (WARNING, True)
    assert "sync_interval: always" in sync.to_do
    sync = _of(diagnose(f"{place}&monitoring=http://127.0.0.1:{free_port()}").findings, "sync")
    assert "does not answer" in sync.found


def test_a_server_that_syncs_every_two_minutes_is_a_problem(require: Callable[[object, str], None]) -> None:
    require(not NatsServer.missing(), NatsServer.missing())
    with NatsServer(sync="", own=True) as server:
        assert server.node is not None
        chatsnapshot.open(server.url).close()
        found = diagnose(f"{server.url}?monitoring=http://127.0.0.1:{server.node.monitor}")
        assert not found.healthy
        assert "syncs every 120 s" in _of(found.findings, "sync").found


def test_a_ledger_or_server_that_is_not_there(place: str) -> None:
    with pytest.raises(NotFound):
        diagnose(place)
    (found,) = diagnose(f"nats://127.0.0.1:{free_port()}").findings
    assert (found.check, found.grade) == ("server", PROBLEM)


def test_copies_that_are_behind_and_space_that_ends_are_warnings() -> None:
    info = {
        "config": {"name": "s", "num_replicas": 3, "max_bytes": 100},
        "state": {"bytes": 95, "messages": 2_000_000},
        "cluster": {"replicas": [{"name": "n1", "current": True}, {"name": "n2", "current": False}]},
    }
    found = judge_copies(info, clustered=True)
    assert (found.grade, "n2" in found.found, "n1" in found.found) == (WARNING, True, False)
    account = {"storage": 99, "limits": {"max_storage": 100}}
    said = list(judge_space(info, info, account))
    assert [finding.grade for finding in said] == [WARNING, WARNING, WARNING, OK]
    assert "1,144 MiB" in said[-1].found
    assert [finding.grade for finding in judge_sync([{"jetstream": {"config": {}}}, None], True)] == [
        PROBLEM,
        WARNING,
    ]

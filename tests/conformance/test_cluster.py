"""A chosen part of the suite on a NATS cluster of three nodes, whose nodes are killed one after the other, or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.conformance import Bench, Check, checks

pytestmark = pytest.mark.timeout(180)

CHOSEN = [
    "acknowledged_events_survive_kill_9",
    "an_acknowledged_event_is_seen_at_once_through_every_handle",
    "positions_are_dense_while_threads_record",
    "of_processes_that_expect_the_same_sequence_exactly_one_wins_each_step",
    "the_same_recording_gives_the_same_leaves_and_root_as_in_memory",
    "payload_and_salt_go_and_everything_else_stays",
]
KILLED = "a_server_that_is_killed_and_comes_back_has_lost_nothing_acknowledged"


class OneAfterTheOther:
    """Kills a node and starts it again, the next one the next time."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.turn = -1

    def kill(self) -> None:
        self.turn = (self.turn + 1) % len(self.cluster.nodes)
        self.cluster.kill(self.turn)

    def start(self) -> None:
        self.cluster.start(self.turn)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes, started once for all tests here; an exception when something is missing."""
    try:
        from chatsnapshot.testing.servers.nats import NatsCluster

        made = NatsCluster()
        made.start()
    except (ImportError, LedgerError) as error:
        yield error
        return
    yield made
    made.kill()
    made.remove()


def named(name: str) -> Check:
    (found,) = [check for check in checks() if check.name == name]
    return found


def judged(cluster: Any, name: str, server: Any = None) -> None:
    with Bench(cluster.url, seed=7, thorough=0.2, server=server) as bench:
        result = named(name).run(bench, seconds_max=120)
    assert result.status == "passed", result.detail


@pytest.mark.parametrize("name", CHOSEN)
def test_a_cluster_does_what_one_node_does(
    cluster: Any, require: Callable[[object, str], None], name: str
) -> None:
    require(not isinstance(cluster, Exception), f"a NATS cluster ({cluster})")
    judged(cluster, name)


@pytest.mark.faults
def test_nodes_that_are_killed_one_after_the_other_lose_nothing(
    cluster: Any, require: Callable[[object, str], None]
) -> None:
    require(not isinstance(cluster, Exception), f"a NATS cluster ({cluster})")
    judged(cluster, KILLED, OneAfterTheOther(cluster))


@pytest.mark.faults
def test_a_cluster_that_is_killed_as_a_whole_loses_nothing(
    cluster: Any, require: Callable[[object, str], None]
) -> None:
    require(not isinstance(cluster, Exception), f"a NATS cluster ({cluster})")
    judged(cluster, KILLED, cluster)

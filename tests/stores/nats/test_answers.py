"""Answers that do not come: what is said is true, and a retry stores an event once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import chatsnapshot
from chatsnapshot.errors import CommitUncertain, LedgerClosed, StoreUnavailable
from chatsnapshot.stores.nats.answers import ApiError, mapped
from chatsnapshot.stores.nats.connection import Connection
from chatsnapshot.testing.servers.nats import NatsServer


@pytest.fixture
def frozen(require: Callable[[object, str], None]) -> Iterator[NatsServer]:
    """A server of one's own, to be frozen."""
    require(not NatsServer.missing(), NatsServer.missing())
    with NatsServer(own=True) as server:
        yield server


def test_a_commit_that_is_never_answered_is_uncertain_and_its_retry_stores_it_once(
    frozen: NatsServer,
) -> None:
    assert frozen.node is not None
    with chatsnapshot.open(f"{frozen.url}?timeout=3") as ledger:
        ledger.record("demo.step", {"n": 0}, correlation_id="run")
        frozen.node.freeze()
        with pytest.raises(CommitUncertain) as caught:
            ledger.record("demo.step", {"n": 1}, correlation_id="run")
        with pytest.raises(StoreUnavailable):
            ledger.head  # noqa: B018
        frozen.node.thaw()
        (entry,) = ledger.record_many(caught.value.events)
        assert (entry.position, entry.payload) == (2, {"n": 1})
        assert [one.payload["n"] for one in ledger.read()] == [0, 1]
        assert ledger.verify().ok


def test_a_lost_answer_to_a_batch_that_landed_is_an_acknowledgement(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chatsnapshot.stores.nats.answers import Unanswered

    store, lost = Connection.store, []

    async def losing(self: Connection, messages: object, condition: object = None, *shape: int) -> int:
        last = await store(self, messages, condition, *shape)  # type: ignore[arg-type]
        if condition and not lost:
            lost.append(last)
            raise Unanswered("the answer was lost")
        return last

    with chatsnapshot.open(place) as ledger:
        ledger.record("demo.step", {"n": 0}, correlation_id="run")
        monkeypatch.setattr(Connection, "store", losing)
        made = ledger.record_many(
            [{"event_type": "demo.step", "correlation_id": "run", "payload": {"n": n}} for n in (1, 2)]
        )
        assert lost == [3]
        assert [entry.position for entry in made] == [2, 3]
        assert ledger.record("demo.step", {"n": 3}, correlation_id="run", expected_sequence=3).position == 4
        assert ledger.verify().ok


def test_closing_while_a_call_waits_lets_it_go(frozen: NatsServer) -> None:
    assert frozen.node is not None
    ledger = chatsnapshot.open(f"{frozen.url}?timeout=60")
    errors: list[BaseException] = []

    def look() -> None:
        try:
            ledger.head  # noqa: B018
        except (LedgerClosed, StoreUnavailable) as error:
            errors.append(error)

    frozen.node.freeze()
    waiting = threading.Thread(target=look)
    waiting.start()
    ledger._store.close()
    waiting.join(20)
    assert not waiting.is_alive()
    assert len(errors) == 1
    frozen.node.thaw()


def test_errors_of_jetstream_are_errors_of_the_ledger() -> None:
    stale = mapped(ApiError(400, 10071, "wrong last sequence: 4"), "nats://x")
    assert "other writers" in str(stale)
    for text in (
        "maximum bytes exceeded",
        "insufficient storage resources available",
        "no space left on device",
    ):
        assert ApiError(503, 10077, text).full
    assert not ApiError(503, 10077, "maximum messages per subject exceeded").full
    assert ApiError(503, 10008, "JetStream system temporarily unavailable").passing

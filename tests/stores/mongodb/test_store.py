"""What is special to MongoDB: writers that collide, killed servers, lost answers, large values, two ledgers, hints."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.errors import CommitUncertain, Corrupt, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.mongodb import parts, transactions
from chatsnapshot.testing.bench import store_of
from chatsnapshot.testing.faults.addresses import address_of, through
from chatsnapshot.testing.faults.proxy import Proxy
from chatsnapshot.testing.processes import Say, Worker
from chatsnapshot.testing.servers.mongodb import MongodbServer


def numbers(ledger: Any, correlation_id: str) -> list[int]:
    return [entry.payload["n"] for entry in ledger.read(correlation_id=correlation_id)]


def record_numbers(say: Say, url: str, name: str, count: int) -> int:
    """Record as fast as it goes; in a worker process."""
    with chatsnapshot.open(url) as ledger:
        for number in range(count):
            ledger.record("test.made", {"n": number}, correlation_id=name)
    return count


def test_writers_in_several_processes_collide_and_all_go_on(url: str) -> None:
    chatsnapshot.open(url).close()
    crew = [Worker() for _ in range(3)]
    try:
        for at, worker in enumerate(crew):
            worker.start(record_numbers, url, f"process-{at}", 30)
        assert [worker.answer() for worker in crew] == [30, 30, 30]
    finally:
        for worker in crew:
            worker.kill()
    with chatsnapshot.open(url) as ledger:
        assert [numbers(ledger, f"process-{at}") for at in range(3)] == [list(range(30))] * 3
        assert [entry.position for entry in ledger.read()] == list(range(1, 91))
        assert ledger.verify().ok


def record_until_killed(say: Say, url: str) -> None:
    with chatsnapshot.open(url) as ledger:
        number = 0
        while True:
            ledger.record("test.made", {"n": number}, correlation_id="killed")
            say(number)
            number += 1


def test_a_writer_that_is_killed_in_mid_commit_holds_others_up_for_a_while_and_not_for_ever(url: str) -> None:
    chatsnapshot.open(url).close()
    acknowledged = 0
    for _ in range(3):
        worker = Worker()
        worker.start(record_until_killed, url)
        for _ in range(5):
            worker.said()
        said = worker.kill()
        acknowledged += 5 + len(said)
        with chatsnapshot.open(url) as ledger:
            ledger.record("test.made", {"n": 0}, correlation_id="after")
            assert ledger.verify().ok
            stored = ledger.head - len(numbers(ledger, "after"))
            assert acknowledged <= stored <= acknowledged + 3
            acknowledged = stored  # what was stored and not said any more


def test_a_transaction_that_nobody_ends_is_waited_for_and_then_told_of(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymongo

    with (
        chatsnapshot.open(url) as ledger,
        pymongo.MongoClient(url) as client,
        client.start_session() as session,
    ):
        ledger.record("test.made", {"n": 0}, correlation_id="run-1")
        monkeypatch.setattr(transactions, "RETRY_SECONDS", 0.3)
        session.start_transaction()
        client.get_default_database().cs_head.update_one(
            {"_id": "main"}, {"$inc": {"holds": 1}}, session=session
        )
        with pytest.raises(StoreUnavailable, match=r"kept .* busy; nothing was stored, try again"):
            ledger.record("test.made", {"n": 1}, correlation_id="run-1")
        session.abort_transaction()
        assert ledger.record("test.made", {"n": 1}, correlation_id="run-1").position == 2


def test_a_server_that_is_killed_while_events_are_recorded_and_started_again_has_them(
    server: MongodbServer, url: str
) -> None:
    if not server.own:
        pytest.skip("the server that the environment names is not killed")
    told: list[int] = []
    enough, over = threading.Event(), threading.Event()
    with chatsnapshot.open(url) as ledger:

        def write() -> None:
            number = 0
            while not over.is_set():
                try:
                    ledger.record("test.made", {"n": number}, correlation_id="run-1", idempotency_key=number)
                except (StoreUnavailable, CommitUncertain):
                    continue  # the same key again: stored once, whatever became of this try
                told.append(number)
                number += 1
                if len(told) % 20 == 0:
                    enough.set()

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(2):
            enough.clear()
            assert enough.wait(30)
            server.kill()
            server.start()
        enough.clear()
        assert enough.wait(30)
        over.set()
        writer.join(40)
        assert numbers(ledger, "run-1") == told
        assert ledger.verify().ok


def test_a_lost_answer_to_a_commit_is_settled_by_asking_again(url: str) -> None:
    with chatsnapshot.open(url) as direct, Proxy(address_of(url)) as proxy:
        with chatsnapshot.open(through(url, proxy.address)) as ledger:
            ledger.record("test.made", {"n": 0}, correlation_id="run-1")
            for after in range(4):  # head, entry, commit, and what follows
                proxy.lose_answer(after)
                ledger.record("test.made", {"n": after + 1}, correlation_id="run-1")
                proxy.heal()
        assert numbers(direct, "run-1") == [0, 1, 2, 3, 4]
        assert direct.verify().ok


def test_an_event_that_a_forgotten_commit_has_stored_is_stored_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymongo.errors
    from pymongo.client_session import ClientSession

    committed = ClientSession.commit_transaction
    tries: list[int] = []

    def commit_and_forget(session: ClientSession) -> None:
        committed(session)
        tries.append(1)
        if len(tries) == 1:  # as a server answers that was started again and knows of no transaction
            raise pymongo.errors.OperationFailure(
                "no such transaction", 251, {"errorLabels": ["TransientTransactionError"], "code": 251}
            )

    with chatsnapshot.open(url) as ledger:
        ledger.record("test.made", {"n": 0}, correlation_id="run-1")
        monkeypatch.setattr(ClientSession, "commit_transaction", commit_and_forget)
        entry = ledger.record("test.made", {"n": 1}, correlation_id="run-1")
        assert (entry.position, ledger.head, len(tries)) == (2, 2, 2)
        assert ledger.verify().ok


def test_a_commit_whose_result_stays_unknown_is_uncertain_and_its_retry_safe(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymongo.errors
    from pymongo.client_session import ClientSession

    committed = ClientSession.commit_transaction

    def commit_unheard(session: ClientSession) -> None:
        committed(session)
        raise pymongo.errors.OperationFailure(
            "gone", 64, {"errorLabels": ["UnknownTransactionCommitResult"], "code": 64}
        )

    with chatsnapshot.open(url) as ledger:
        monkeypatch.setattr(transactions, "RETRY_SECONDS", 0.2)
        monkeypatch.setattr(ClientSession, "commit_transaction", commit_unheard)
        with pytest.raises(CommitUncertain, match="was sent and no answer came") as caught:
            ledger.record("test.made", {"n": 1}, correlation_id="run-1")
        monkeypatch.undo()
        (entry,) = ledger.record_many(caught.value.events)
        assert (entry.position, ledger.head) == (1, 1)


def test_payloads_and_blobs_beyond_the_size_of_a_document_come_back_and_are_erased(
    url: str, database: Any
) -> None:
    limits = Limits(payload_bytes_max=40 * 2**20, string_inline_bytes_max=40 * 2**20)
    text = "0123456789abcdef" * (18 * 2**16)  # 18 MiB
    data = os.urandom(17 * 2**20)
    with chatsnapshot.open(url, limits=limits) as ledger:
        large = ledger.record("test.made", {"text": text}, correlation_id="run-1")
        blob = ledger.record("test.made", {"data": data}, correlation_id="run-1")
        assert ledger.get(large.event_id).payload == {"text": text}
        found = [entry.value() for entry in ledger.read(correlation_id="run-1")]
        assert found == [{"text": text}, {"data": data}]
        assert database.cs_blob.count_documents({"pending": {"$exists": True}}) == 0
        assert ledger.verify().ok
        ledger.erase([large.position, blob.position], reason="asked to")
        assert (database.cs_part.count_documents({}), database.cs_blob.count_documents({})) == (0, 0)
        assert ledger.verify().ok


def test_a_blob_that_was_stored_ahead_and_never_named_is_completed_or_swept(
    url: str, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "AHEAD_BYTES", 1_000)
    data, other = os.urandom(600_000), os.urandom(600_000)
    with chatsnapshot.open(url) as ledger:
        on = store_of(ledger)._collections()  # type: ignore[attr-defined]
        for one in (data, other):
            import hashlib

            parts.put_ahead(on, "main", {hashlib.sha256(one).digest(): one}, 512 * 1024)
        database.cs_part.delete_one({"of": {"$regex": hashlib.sha256(data).hexdigest()}, "number": 1})
        assert list(store_of(ledger).blobs()) == []
        entry = ledger.record("test.made", {"data": data}, correlation_id="run-1")
        assert entry.value() == {"data": data}
        assert ledger.verify().ok
        monkeypatch.setattr(parts, "_STALE_NS", 0)
        ledger.erase([entry.position], reason="asked to")
        assert (database.cs_part.count_documents({}), database.cs_blob.count_documents({})) == (0, 0)


def test_a_large_batch_lands_whole(url: str) -> None:
    with chatsnapshot.open(url) as ledger:
        given = [
            {"event_type": "test.made", "payload": {"n": n}, "correlation_id": f"run-{n % 20}"}
            for n in range(2_500)
        ]
        entries = ledger.record_many(given)
        assert [entry.position for entry in entries] == list(range(1, 2_501))
        assert [entry.sequence for entry in entries[-20:]] == [125] * 20
        assert len(list(ledger.read())) == 2_500


def test_ledgers_of_one_database_have_nothing_in_common(url: str, database: Any) -> None:
    other = url.replace("?", "?ledger=tenant-b&")
    with chatsnapshot.open(url) as one, chatsnapshot.open(other) as two:
        given = {"event_type": "test.made", "correlation_id": "run-1", "idempotency_key": "k"}
        data = os.urandom(100_000)
        first, second = one.record(payload=data, **given), two.record(payload=data, **given)
        assert (first.position, second.position, first.event_id) == (1, 1, second.event_id)
        one.erase(1, reason="asked to")
        assert second.value() == two.get(second.event_id).value()
        assert one.verify().ok and two.verify().ok
    # How docs/mongodb.md removes a ledger.
    database.cs_ledger.delete_one({"_id": "main"})
    database.cs_head.delete_one({"_id": "main"})
    for name in ("entry", "tile", "blob", "part", "projection", "state"):
        database[f"cs_{name}"].delete_many({"ledger": "main"})
    with chatsnapshot.open(other) as two:
        assert two.verify().ok
    with chatsnapshot.open(url) as one:
        assert one.head == 0


def test_an_entry_beyond_the_head_is_found_and_never_written_over(url: str, database: Any) -> None:
    with chatsnapshot.open(url) as ledger:
        for number in range(3):
            ledger.record("test.made", {"n": number}, correlation_id="run-1")
    found = database.cs_entry.find_one({"position": 2})
    database.cs_head.update_one({"_id": "main"}, {"$set": {"size": 1, "frontier": bytes(found["leaf"])}})
    with chatsnapshot.open(url) as ledger:
        assert "beyond the head" in str(ledger.verify().problems)
        with pytest.raises(Corrupt):
            ledger.record("test.made", {"n": 9}, correlation_id="run-2")
    assert database.cs_entry.count_documents({}) == 3


def wait_for(what: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_change_stream_wakes_a_tail_of_another_process_and_ends_with_the_ledger(url: str) -> None:
    rung = threading.Event()
    with chatsnapshot.open(url) as follower, chatsnapshot.open(url) as writer:
        store = store_of(follower)
        looks = store.traits.look_seconds
        others = set(threading.enumerate())
        store.watch(rung.set)
        wait_for(lambda: store.traits.look_seconds > looks)
        rung.clear()
        writer.record("test.made", {"n": 1}, correlation_id="run-1")
        assert rung.wait(20)
        new = set(threading.enumerate()) - others
        (thread,) = [one for one in new if one.name == "chatsnapshot-mongodb-watch"]
    thread.join(30)
    assert not thread.is_alive()


def test_a_tail_goes_on_by_looking_when_there_is_no_change_stream(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pymongo.errors
    from pymongo.collection import Collection

    def refuse(*given: Any, **options: Any) -> Any:
        raise pymongo.errors.OperationFailure("not authorized", 13, {"code": 13})

    monkeypatch.setattr(Collection, "watch", refuse)
    with chatsnapshot.open(url) as follower, chatsnapshot.open(url) as writer:
        seen: list[int] = []
        with follower.tail(after=0, timeout=20) as tail:
            for number in range(3):
                writer.record("test.made", {"n": number}, correlation_id="run-1")
                seen.append(next(iter(tail)).position)
        assert seen == [1, 2, 3]
        assert not store_of(follower)._watcher.live  # type: ignore[attr-defined]


def test_the_doctor_tells_what_a_ledger_on_mongodb_stands_on(url: str) -> None:
    from chatsnapshot.doctor.diagnosis import diagnose

    with chatsnapshot.open(url) as ledger:
        ledger.record("test.made", {}, correlation_id="run-1")
    found = {finding.check: finding for finding in diagnose(url).findings}
    assert found["server"].grade == "ok"
    assert found["index"].grade == "ok"
    assert {"format", "members", "journal", "role", "transactions", "clock"} <= found.keys()
    away = diagnose("mongodb://ann:hush@127.0.0.1:1/x?serverSelectionTimeoutMS=200").findings
    assert [finding.grade for finding in away] == ["problem"]
    assert "hush" not in str(away)

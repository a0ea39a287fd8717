"""The session in a ledger: what the SDK expects of any session, on every kind of file, and what the ledger keeps."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, RunConfig, SQLiteSession
from agents.memory import Session, SessionSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chatsnapshot
from chatsnapshot.adapters.openai_agents import ChatSnapshotSession


@pytest.fixture(params=["memory:", "jsonl", "sqlite"])
def store(request: Any, tmp_path: Path) -> Iterator[Any]:
    names = {"jsonl": str(tmp_path / "runs.jsonl"), "sqlite": str(tmp_path / "runs.db")}
    with chatsnapshot.open(names.get(request.param, request.param)) as opened:
        yield opened


def said(text: str) -> Any:
    return {"role": "user", "content": text}


def test_it_is_a_session_of_the_sdk(store: Any) -> None:
    assert isinstance(ChatSnapshotSession("talk", store), Session)


def test_items_come_back_as_they_were_added_and_in_that_order(store: Any) -> None:
    items = [
        said("Hello"),
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a": 1}', "id": None},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "ü\u2028"}],
        },
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "A" * 50_000}],
        },
        {
            "role": "user",
            "content": "x" * 300_000,
            "$odd": {"$type": "bytes", "n": 1.5},
            "deep": [[[True, None]]],
        },
    ]

    async def run() -> None:
        session = ChatSnapshotSession("talk", store)
        await session.add_items(items[:2])
        await session.add_items([])
        await session.add_items(items[2:])
        assert await ChatSnapshotSession("talk", store).get_items() == items
        assert await ChatSnapshotSession("other", store).get_items() == []

    asyncio.run(run())


def test_a_limit_gives_the_latest_items_oldest_first(store: Any) -> None:
    async def run() -> None:
        session = ChatSnapshotSession("talk", store, settings=SessionSettings(limit=2))
        for n in range(5):
            await session.add_items([said(str(n))])
        assert await session.get_items() == [said("3"), said("4")]
        assert await session.get_items(limit=3) == [said("2"), said("3"), said("4")]
        assert await session.get_items(limit=0) == []
        assert len(await session.get_items(limit=99)) == 5

    asyncio.run(run())


def test_popping_and_clearing_are_events_and_what_was_is_still_in_the_ledger(store: Any) -> None:
    async def run() -> None:
        session = ChatSnapshotSession("talk", store)
        assert await session.pop_item() is None
        await session.clear_session()
        assert store.head == 0
        await session.add_items([said("1"), said("2")])
        assert await session.pop_item() == said("2")
        assert await session.get_items() == [said("1")]
        await session.clear_session()
        assert (await session.get_items(), await session.pop_item()) == ([], None)
        await session.add_items([said("3")])
        assert await session.get_items() == [said("3")]

    asyncio.run(run())
    assert [entry.event_type.partition(".")[2] for entry in store.read()] == [
        "session_items_added",
        "session_item_popped",
        "session_cleared",
        "session_items_added",
    ]
    assert [item["content"] for entry in store.read(limit=1) for item in entry.payload["items"]] == ["1", "2"]
    assert store.verify().ok


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("pop"), st.integers(1, 3)),
        st.tuples(st.just("get"), st.one_of(st.none(), st.integers(0, 6))),
        st.tuples(st.just("clear"), st.none()),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@given(steps=Steps)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_does_what_the_sdks_own_session_does(shared: Any, steps: Any) -> None:
    async def run() -> None:
        ours, theirs = ChatSnapshotSession(str(uuid.uuid4()), shared), SQLiteSession("talk")
        count = 0
        for step, n in steps:
            if step == "add":
                items = [said(str(count + i)) for i in range(n)]
                count += n
                await ours.add_items(items)
                await theirs.add_items(items)
            elif step == "clear":
                await ours.clear_session()
                await theirs.clear_session()
            else:
                for _ in range(n if step == "pop" else 1):
                    if step == "pop":
                        assert await ours.pop_item() == await theirs.pop_item()
                    else:
                        assert await ours.get_items(n) == await theirs.get_items(n)
        assert await ours.get_items() == await theirs.get_items()
        theirs.close()

    asyncio.run(run())


def test_of_many_that_pop_at_once_each_gets_an_item_of_its_own(store: Any) -> None:
    async def run() -> None:
        session = ChatSnapshotSession("talk", store)
        await session.add_items([said(str(n)) for n in range(6)])
        popped = await asyncio.gather(*(ChatSnapshotSession("talk", store).pop_item() for _ in range(8)))
        found = sorted(item["content"] for item in popped if item is not None)
        assert found == ["0", "1", "2", "3", "4", "5"]
        assert await session.get_items() == []

    asyncio.run(run())


def test_reading_does_not_look_at_other_conversations_nor_behind_a_clearing(
    ledger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    async def run() -> None:
        session = ChatSnapshotSession("talk", ledger)
        for n in range(50):
            await session.add_items([said(str(n))])
            await ChatSnapshotSession(f"other-{n}", ledger).add_items([said(str(n))])
        aread = ledger.aread

        async def counted(**options: Any) -> Any:
            async for entry in aread(**options):
                seen.append(entry.position)
                yield entry

        monkeypatch.setattr(ledger, "aread", counted)
        assert await session.get_items(3) == [said("47"), said("48"), said("49")]
        assert len(seen) == 3
        await session.clear_session()
        seen.clear()
        await session.add_items([said("new")])
        assert await session.get_items() == [said("new")]
        assert len(seen) == 2

    asyncio.run(run())


def test_items_that_were_erased_are_gone_and_the_others_stay(store: Any) -> None:
    async def run() -> None:
        session = ChatSnapshotSession("talk", store)
        await session.add_items([said("secret"), said("also secret")])
        await session.add_items([said("fine"), said("oops")])
        await session.pop_item()
        store.erase([1], reason="asked for")
        assert await session.get_items() == [said("fine")]

    asyncio.run(run())


def test_an_agent_remembers_by_it(ledger: Any, recorder: Any, model: Any) -> None:
    script = model("I am Ada", "You said Hello")

    async def run() -> None:
        session = ChatSnapshotSession("talk", ledger)
        agent = Agent(name="alpha", model=script)
        await recorder.run(agent, "Hello", session=session)
        await recorder.run(agent, "What did I say?", session=session, run_config=RunConfig())

    asyncio.run(run())
    assert [item["role"] for item in script.last_call.input] == ["user", "assistant", "user"]
    runs = {entry.correlation_id for entry in ledger.read(event_type="execution.*")}
    assert runs == {"talk"}
    assert {run.correlation_id for run in ledger.view("runs")} == {"talk"}  # the session itself is no run


def test_a_change_is_complete_when_its_caller_is_cancelled(ledger: Any) -> None:
    async def run() -> None:
        session = ChatSnapshotSession("talk", ledger)
        task = asyncio.ensure_future(session.add_items([said("1")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session.get_items() == [said("1")]

    asyncio.run(run())


def test_what_is_no_ledger_is_refused_in_one_sentence() -> None:
    with pytest.raises(TypeError, match="keeps its items in a Ledger, not str"):
        ChatSnapshotSession("talk", "runs.db")


@pytest.mark.parametrize("kind", ["postgresql", "mongodb", "nats", "http", "spool"])
def test_it_is_kept_by_every_server_too(
    kind: str, servers: Any, require: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    server = servers("http" if kind == "spool" else kind)
    require(not isinstance(server, Exception), f"a server for {kind} ({server})")
    name = f"ledger=sessions-{uuid.uuid4().hex[:8]}"
    remote = kind in ("http", "spool")
    if remote:
        server.start()  # another test may have left it stopped
    url = server.address if remote else server.url
    mode = {"http": "&mode=direct", "spool": "&mode=spool"}.get(kind, "")
    with chatsnapshot.open(f"{url}{'&' if '?' in url else '?'}{name}{mode}") as opened:

        async def run() -> None:
            session = ChatSnapshotSession("talk", opened)
            await session.add_items([said("1"), said("2"), said("x" * 40_000)])
            assert await session.pop_item() == said("x" * 40_000)
            assert await ChatSnapshotSession("talk", opened).get_items() == [said("1"), said("2")]
            assert await session.get_items(1) == [said("2")]
            await session.clear_session()
            assert (await session.get_items(), await session.pop_item()) == ([], None)

        asyncio.run(run())

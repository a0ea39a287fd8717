"""Sessions of ADK on a ledger behave as in ADK's own services: each story is told to both, and they agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import chatsnapshot

Story = Callable[[Any], Awaitable[Any]]
STORIES: dict[str, Story] = {}


def story(function: Story) -> Story:
    STORIES[function.__name__] = function
    return function


def event(name: str, at: float = 1.0, **facts: Any) -> Any:
    from google.adk.events import Event, EventActions

    actions = EventActions(state_delta=facts.pop("state", {}), **facts.pop("actions", {}))
    return Event(id=name, invocation_id="i", author="user", timestamp=at, actions=actions, **facts)


async def created(service: Any, session_id: str | None = "s", user: str = "ann", **facts: Any) -> Any:
    return await service.create_session(
        app_name=facts.pop("app", "desk"), user_id=user, session_id=session_id, **facts
    )


async def got(service: Any, session_id: str = "s", user: str = "ann", app: str = "desk", **facts: Any) -> Any:
    return await service.get_session(app_name=app, user_id=user, session_id=session_id, **facts)


async def raised(awaitable: Awaitable[Any]) -> str | None:
    try:
        await awaitable
    except Exception as error:
        return type(error).__name__
    return None


@story
async def an_unknown_session_is_none(service: Any) -> Any:
    return [await got(service), (await service.list_sessions(app_name="desk")).sessions]


@story
async def a_session_comes_back_as_it_was_made(service: Any) -> Any:
    made = await created(service, state={"a": 1, "nested": {"b": [1, 2.5, None, True]}})
    found = await got(service)
    return [found == made, found.state, found.events, found.id, made.last_update_time > 0]


@story
async def an_id_is_made_and_a_given_one_is_stripped(service: Any) -> Any:
    made = await created(service, None)
    given = await created(service, "  padded ")
    return [
        len(made.id) > 8,
        given.id,
        (await got(service, "padded")).id,
        (await got(service, " padded ")).id,
    ]


@story
async def an_id_is_taken_once(service: Any) -> Any:
    await created(service)
    return [await raised(created(service)), await raised(created(service, user="bob"))]


@story
async def app_state_is_for_all_and_user_state_for_the_user(service: Any) -> Any:
    first = await created(service, state={"app:a": 1, "user:u": 2, "own": 3, "temp:t": 4})
    await service.append_event(first, event("e", state={"app:b": 5, "user:v": 6, "own": 7}))
    states = [first.state, (await created(service, "s2")).state, (await created(service, user="bob")).state]
    states.append((await created(service, "s2", app="shop")).state)
    return [*states, (await got(service)).state]


@story
async def the_last_write_of_shared_state_holds(service: Any) -> Any:
    one, other = await created(service, "one"), await created(service, "other")
    await service.append_event(one, event("e1", state={"user:n": 1, "app:n": 1}))
    await service.append_event(other, event("e2", state={"user:n": 2}))
    await service.append_event(one, event("e3", 2.0, state={"app:n": None}))
    return [(await got(service, "one")).state, (await got(service, "other")).state]


@story
async def user_state_is_read_without_a_session(service: Any) -> Any:
    before = await service.get_user_state(app_name="desk", user_id="ann")
    session = await created(service, state={"user:a": {"b": 1}})
    await service.append_event(session, event("e", state={"user:a": {"c": 2}, "x": 1}))
    await service.delete_session(app_name="desk", user_id="ann", session_id="s")
    found = [
        await service.get_user_state(app_name=app, user_id=user)
        for app, user in (("desk", "ann"), ("desk", "bob"), ("shop", "ann"))
    ]
    return [before, *found]


@story
async def temporary_state_is_seen_and_not_kept(service: Any) -> Any:
    session = await created(service)
    told = await service.append_event(session, event("e", state={"temp:t": 1, "x": 2}))
    found = await got(service)
    return [session.state, told.actions.state_delta, found.state, found.events[0].actions.state_delta]


@story
async def events_come_back_whole(service: Any) -> Any:
    from google.genai import types

    parts = [
        types.Part(text="Hello \N{SNOWMAN}"),
        types.Part.from_bytes(data=b"\x00\xff" * 40_000, mime_type="image/png"),
        types.Part(function_call=types.FunctionCall(id="c", name="f", args={"x": None, "y": [1]})),
        types.Part(function_response=types.FunctionResponse(id="c", name="f", response={"r": 1})),
    ]
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, total_token_count=2)
    whole = event(
        "e",
        1_700_000_000.123,
        content=types.Content(role="user", parts=parts),
        turn_complete=True,
        long_running_tool_ids={"c", "d"},
        error_code="code",
        usage_metadata=usage,
        custom_metadata={"k": {"v": 1}},
        branch="a.b",
        grounding_metadata=types.GroundingMetadata(
            search_entry_point=types.SearchEntryPoint(sdk_blob=b"\x01")
        ),
        state={"x": {"y": 1}},
        actions={"artifact_delta": {"file": 0}, "transfer_to_agent": "beta", "escalate": True},
    )
    session = await created(service)
    await service.append_event(session, whole)
    found = await got(service)
    return [found.events == [whole], found == session, found.last_update_time, session.last_update_time]


@story
async def chunks_are_not_kept(service: Any) -> Any:
    session = await created(service)
    chunk = event("e", partial=True, state={"x": 1})
    told = await service.append_event(session, chunk)
    return [told is chunk, session.events, (await got(service)).events, (await got(service)).state]


@story
async def an_event_told_again_is_kept_once(service: Any) -> Any:
    session = await created(service)
    for _ in range(2):
        await service.append_event(session, event("e", state={"x": 1}))
    await service.append_event(session, event("e", 2.0, state={"x": 2}))
    found = await got(service)
    return [[one.timestamp for one in session.events], [one.timestamp for one in found.events], found.state]


@story
async def only_the_wanted_events_are_given(service: Any) -> Any:
    from google.adk.sessions.base_session_service import GetSessionConfig

    session = await created(service)
    for number in range(1, 6):
        await service.append_event(session, event(f"e{number}", float(number), state={"n": number}))
    wanted: list[dict[str, Any]] = [
        {}, {"num_recent_events": 0}, {"num_recent_events": 3}, {"num_recent_events": 9}, {"after_timestamp": 4.0},
        {"after_timestamp": 50.0}, {"after_timestamp": 4.0, "num_recent_events": 3},
    ]  # fmt: skip
    out = []
    for config in wanted:
        found = await got(service, config=GetSessionConfig(**config))
        out.append(([one.id for one in found.events], found.state))
    return out


@story
async def sessions_are_listed_by_use_without_events(service: Any) -> Any:
    for name, user in (("s1", "ann"), ("s2", "ann"), ("s1", "bob")):
        session = await created(service, name, user, state={"name": name, "user:who": user})
        await service.append_event(
            session, event("e", 100.0 - len(name + user) - ord(name[1]), state={"more": 1})
        )
    out = []
    for user in (None, "ann", "carl"):
        found = (await service.list_sessions(app_name="desk", user_id=user)).sessions
        out.append([(one.user_id, one.id, one.state, one.events, one.last_update_time) for one in found])
    return out


@story
async def a_deleted_session_is_gone_and_its_id_is_free(service: Any) -> Any:
    session = await created(service, state={"x": 1})
    await service.append_event(session, event("e"))
    for _ in range(2):
        await service.delete_session(app_name="desk", user_id="ann", session_id="s")
    gone = [await got(service), (await service.list_sessions(app_name="desk")).sessions]
    appending = await raised(service.append_event(session, event("e2")))
    again = await created(service)
    return [gone, appending, again.state, again.events, (await got(service)).events]


@story
async def an_unknown_session_takes_no_event(service: Any) -> Any:
    from google.adk.sessions import Session

    return await raised(service.append_event(Session(id="no", app_name="desk", user_id="ann"), event("e")))


@story
async def what_is_given_out_is_a_copy(service: Any) -> Any:
    made = await created(service, state={"list": [1], "user:l": [1]})
    made.state["list"].append(2)
    first = await got(service)
    first.state["list"].append(3)
    first.state["user:l"].append(3)
    first.events.append(event("e"))
    found = await got(service)
    return [found.state, found.events]


@story
async def branches_append_to_one_session_beside_each_other(service: Any) -> Any:
    session = await created(service)
    await asyncio.gather(
        *(service.append_event(session, event(f"e{n}", state={f"k{n}": n})) for n in range(8))
    )
    found = await got(service)
    return [sorted(one.id for one in session.events), found.events == session.events, found.state]


@pytest.mark.parametrize("url", ["memory:", "sessions.db", "sessions.jsonl"])
@pytest.mark.parametrize("name", list(STORIES))
def test_a_ledger_and_adk_agree(name: str, url: str, tmp_path: Path) -> None:
    from google.adk.sessions import InMemorySessionService

    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    wanted = asyncio.run(STORIES[name](InMemorySessionService()))
    with chatsnapshot.open(url if url == "memory:" else tmp_path / url) as ledger:
        found = asyncio.run(STORIES[name](ChatSnapshotSessionService(ledger)))
        assert ledger.verify().ok or not ledger.head
    assert found == wanted


# --- what only a service that outlives the process has to tell -----------------------------------------------------


async def stale(service: Any) -> Any:
    """Two objects of one session: the second to append was read before."""
    session = await created(service)
    await service.append_event(session, event("e1", session.last_update_time + 1, state={"a": 1}))
    other = await got(service)
    await service.append_event(other, event("e2", other.last_update_time + 1, state={"b": 2}))
    refused = await raised(
        service.append_event(session, event("e3", other.last_update_time + 1, state={"c": 3}))
    )
    found = await got(service)
    fresh = await raised(service.append_event(found, event("e4", found.last_update_time + 1)))
    return [refused, [one.id for one in found.events], found.state, fresh]


async def unmarked(service: Any) -> Any:
    """A session object that was made by hand: it is judged by its time, and by its events where that is not enough."""
    session = await created(service)
    await service.append_event(session, event("e1", session.last_update_time + 1))
    session._storage_update_marker = None
    current = await raised(service.append_event(session, event("e2", session.last_update_time + 1)))
    session._storage_update_marker = None
    session.events.pop()
    session.last_update_time -= 5
    behind = await raised(service.append_event(session, event("e3", session.last_update_time + 1)))
    return [current, behind, len((await got(service)).events)]


@pytest.mark.parametrize("told", [stale, unmarked])
def test_a_session_that_changed_meanwhile_is_refused_as_adk_does(told: Story, tmp_path: Path) -> None:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    wanted = asyncio.run(told(SqliteSessionService(str(tmp_path / "adk.db"))))
    with chatsnapshot.open("memory:") as ledger:
        assert asyncio.run(told(ChatSnapshotSessionService(ledger))) == wanted
    assert "StaleSessionError" in wanted


def test_of_two_that_append_at_once_one_is_refused() -> None:
    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    async def both(service: Any) -> list[str | None]:
        session = await created(service)
        copies = [session.model_copy(deep=True) for _ in range(2)]
        told = (service.append_event(one, event(f"e{n}")) for n, one in enumerate(copies))
        return sorted(await asyncio.gather(*(raised(one) for one in told)), key=str)

    with chatsnapshot.open("memory:") as ledger:
        assert asyncio.run(both(ChatSnapshotSessionService(ledger))) == [None, "StaleSessionError"]


def test_another_service_on_the_ledger_sees_everything() -> None:
    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    async def told(one: Any, other: Any) -> list[Any]:
        first = await created(one, "a", state={"user:n": 1})
        assert (await other.list_sessions(app_name="desk")).sessions[0].id == "a"
        await one.append_event(first, event("e", state={"user:n": 2, "own": 1}))
        await created(other, "b")
        listed = (await other.list_sessions(app_name="desk")).sessions
        return [(await got(other, "a")).state, {session.id: session.state for session in listed}]

    with chatsnapshot.open("memory:") as ledger:
        services = [ChatSnapshotSessionService(ledger) for _ in range(2)]
        state = {"own": 1, "user:n": 2}
        assert asyncio.run(told(*services)) == [state, {"a": state, "b": {"user:n": 2}}]


def test_values_of_python_come_back_in_state() -> None:
    import datetime
    import decimal

    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    kept = {
        "at": datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc),
        "sum": decimal.Decimal("1.10"),
    }

    async def told(service: Any) -> Any:
        session = await created(service, state=dict(kept))
        await service.append_event(session, event("e", state={"tags": {"a", "b"}, "$x": b"\x00"}))
        return (await got(service)).state

    with chatsnapshot.open("memory:") as ledger:
        found = asyncio.run(told(ChatSnapshotSessionService(ledger)))
    assert found == {**kept, "tags": {"a", "b"}, "$x": b"\x00"}


def test_the_history_of_a_deleted_session_stays_until_it_is_erased() -> None:
    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    async def told(service: Any) -> None:
        session = await created(service, "a/b c")
        await service.append_event(session, event("e", state={"secret": "x"}))
        await service.delete_session(app_name="desk", user_id="ann", session_id="a/b c")

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(told(ChatSnapshotSessionService(ledger)))
        entries = list(ledger.read(correlation_id="google_adk.sessions:desk/ann/a%2Fb%20c"))
        assert [entry.event_type for entry in entries] == [
            "google_adk.session_created",
            "google_adk.session_event",
            "google_adk.session_deleted",
        ]
        ledger.erase([entries[1].position], reason="asked for")
        asyncio.run(created(ChatSnapshotSessionService(ledger), "a/b c"))
        assert ledger.verify().ok


def test_something_that_is_no_ledger_is_refused_in_one_sentence() -> None:
    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    with pytest.raises(TypeError, match=r"needs a ledger from chatsnapshot\.open\(\), not str"):
        ChatSnapshotSessionService("runs.db")  # type: ignore[arg-type]


def test_sessions_are_in_no_list_of_runs() -> None:
    from chatsnapshot.adapters.google_adk import ChatSnapshotSessionService

    with chatsnapshot.open("memory:") as ledger:
        asyncio.run(created(ChatSnapshotSessionService(ledger)))
        ledger.record("execution.run_started", {"name": "alpha"}, correlation_id="s")
        ledger.record("execution.message", {"role": "user", "content": "Hi"}, correlation_id="s")
        assert [run.correlation_id for run in ledger.view("runs")] == ["s"]

"""AG2 1.x agents that go on with saved streams: history, variables, open tool calls, pauses, other processes."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ag2 import Agent, Context, MemoryStream
from ag2.config import OpenAIConfig
from ag2.events import (
    BaseEvent,
    ModelRequest,
    ToolCallEvent,
    ToolCallsEvent,
    ToolErrorEvent,
    ToolResultEvent,
    ToolResultsEvent,
    lifecycle,
)
from ag2.testing import TestConfig

import chatsnapshot
from chatsnapshot import AG2ChatPersistence, Corrupt, InvalidEvent, NotFound, StorageBackend
from chatsnapshot.adapters.ag2 import AG2Recorder

Call = Callable[..., Any]
Models = Callable[..., Any]
added: list[tuple[int, int]] = []


def add(a: int, b: int) -> int:
    """Add two numbers."""
    added.append((a, b))
    return a + b


def explode(x: int) -> int:
    """Fail."""
    raise ValueError("the tool exploded")


async def ask_human(question: str, ctx: Context) -> str:
    """Ask a person."""
    return await ctx.input(question)


@pytest.fixture(autouse=True)
def nothing_added() -> None:
    added.clear()


@pytest.fixture(params=[StorageBackend.JSON, StorageBackend.SQLITE], ids=lambda one: one.value)
def persistence(request: Any, tmp_path: Path) -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence(request.param, {"path": tmp_path / "chats"}) as opened:
        yield opened


def scripted(*turns: Any) -> TestConfig:
    return TestConfig(*turns, raise_tool_errors=False) if _tells_errors() else TestConfig(*turns)


def _tells_errors() -> bool:
    return "raise_tool_errors" in TestConfig.__init__.__code__.co_varnames  # not in AG2 1.0


def desk(*turns: Any, **options: Any) -> Agent:
    return Agent("desk", "Be kind.", config=scripted(*turns), tools=[add, explode, ask_human], **options)


def real(server: Any) -> Agent:
    """An agent with the OpenAI client, whose requests the server keeps."""
    pytest.importorskip("openai")
    config = OpenAIConfig(model="m", api_key="sk-" + "a" * 48, base_url=server.url)
    return Agent("desk", "Be kind.", config=config, tools=[add])


def seen(server: Any, request: int = -1) -> list[tuple[Any, ...]]:
    out = []
    for one in server.requests[request]["messages"]:
        if one["role"] == "system":
            continue
        content = one.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        ids = [call["id"] for call in one.get("tool_calls") or ()]
        out.append((one["role"], content, *ids, *([one["tool_call_id"]] if "tool_call_id" in one else [])))
    return out


def kinds(events: Any) -> list[str]:
    return [type(event).__name__ for event in events]


async def stopped_in_call(calls: list[ToolCallEvent], done: dict[str, Any] | None = None) -> MemoryStream:
    """A stream as it is when the process dies while its tools run: results of some calls, no container of results."""
    from ag2.events import ModelMessage, ModelResponse, TextInput

    stream = MemoryStream()
    batch = ToolCallsEvent(calls)
    loose = [ToolResultEvent.from_call(call, done[call.id]) for call in calls if call.id in (done or {})]
    await stream.history.replace(
        [
            ModelRequest([TextInput("What is 1 + 2?")]),
            ModelResponse(message=ModelMessage("Let me see."), tool_calls=batch),
            batch,
            *calls,
            *loose,
        ]
    )
    return stream


def test_the_model_sees_the_whole_old_talk_once(
    models: Models, say: Call, persistence: AG2ChatPersistence
) -> None:
    async def talk() -> None:
        first = await real(models({"m": [say("add", a=1, b=2), "3"]})).ask(
            "What is 1 + 2?", variables={"n": 1}
        )
        await persistence.asave_conversation("case-7", real(models({})), first, {"customer": "Ann"})

        server = models({"m": ["I said 3."]})
        restored = await persistence.arestore_conversation("case-7", [real(server)])
        assert (restored.metadata, list(restored)) == ({"customer": "Ann"}, ["desk"])
        reply = await restored["desk"].ask("What did you say?")
        assert reply.body == "I said 3."
        assert dict(reply.context.variables)["n"] == 1
        assert reply.context.stream.id == first.context.stream.id
        old = seen(server)
        assert [one[:2] for one in old if one[0] != "assistant"] == [
            ("user", "What is 1 + 2?"),
            ("tool", "3"),
            ("user", "What did you say?"),
        ]
        assert [one[-1] for one in old if one[0] == "assistant"] == ["call_1_0", "3"]
        assert old[2][-1] == "call_1_0"
        assert added == [(1, 2)]

    asyncio.run(talk())


def test_saves_of_a_growing_stream_store_what_is_new(persistence: AG2ChatPersistence) -> None:
    async def talk() -> list[int]:
        agent, stream, sizes = desk(*["x" * 200] * 20), MemoryStream(), []
        for number in range(20):
            reply = await agent.ask(f"question {number}", stream=stream)
            sizes.append((await persistence.asave_conversation("case-7", agent, reply)).payload_bytes)
        return sizes

    sizes = asyncio.run(talk())
    assert max(sizes[1:]) < 1.2 * min(sizes[1:])
    loaded = persistence.load_conversation("case-7")
    assert loaded is not None
    assert [one["content"] for one in loaded.transcript if one["role"] == "user"] == [
        f"question {number}" for number in range(20)
    ]


def test_several_agents_are_saved_and_restored_by_name(persistence: AG2ChatPersistence) -> None:
    async def talk() -> None:
        agents = [Agent(name, config=scripted(f"I am {name}.", "Again.")) for name in ("ann", "bob")]
        replies = {agent.name: await agent.ask("Who are you?") for agent in agents}
        with pytest.raises(InvalidEvent, match="say whose messages"):
            await persistence.asave_conversation("case-7", agents, replies["ann"])
        with pytest.raises(InvalidEvent, match="given for eve, and the agents are ann, bob"):
            await persistence.asave_conversation("case-7", agents, {"eve": replies["ann"]})
        await persistence.asave_conversation("case-7", agents, replies)
        fresh = [Agent(name, config=scripted("Still.")) for name in ("ann", "bob")]
        restored = await persistence.arestore_conversation("case-7", fresh)
        assert kinds(restored["bob"].events) == ["ModelRequest", "ModelResponse"]
        assert (await restored["bob"].ask("And now?")).body == "Still."
        with pytest.raises(InvalidEvent, match="ann, bob, and it is to be restored into ann, eve"):
            await persistence.arestore_conversation("case-7", [fresh[0], Agent("eve")])
        renamed = await persistence.arestore_conversation(
            "case-7", [fresh[0], Agent("eve")], rename={"bob": "eve"}
        )
        assert sorted(renamed) == ["ann", "eve"]

    asyncio.run(talk())


def test_an_open_tool_call_is_answered_from_the_record_and_not_executed(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    async def talk() -> None:
        call = ToolCallEvent("add", id="call-9", arguments='{"a": 1, "b": 2}')
        await persistence.asave_conversation("case-7", desk(), await stopped_in_call([call]))
        server = models({"m": ["it is 33"]})
        restored = await persistence.arestore_conversation("case-7", real(server), results={"call-9": 33})
        assert restored["desk"].open_calls == []
        assert (await restored["desk"].resume()).body == "it is 33"
        assert added == []
        assert [one[0] for one in seen(server)] == ["user", "assistant", "tool"]
        assert seen(server)[-1] == ("tool", "33", "call-9")

    asyncio.run(talk())


def test_a_result_in_the_ledger_of_the_run_answers_too(tmp_path: Path) -> None:
    async def talk() -> None:
        with chatsnapshot.open(tmp_path / "runs.db") as ledger:
            persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
            call = ToolCallEvent("add", id="call-9", arguments='{"a": 1, "b": 2}')
            stream = await stopped_in_call([call])
            for correlation, result in ((str(stream.id), 33), ("another run", 44)):
                ledger.record(
                    "execution.tool_result",
                    {"name": "add", "call_id": "call-9", "result": result},
                    correlation_id=correlation,
                )
            await persistence.asave_conversation("case-7", desk(), stream)
            one = (await persistence.arestore_conversation("case-7", desk("done")))["desk"]
            assert isinstance(one.events[-1], ToolResultsEvent)
            assert one.events[-1].results[0].result.parts[0].data == 33
            assert (await one.resume()).body == "done"
            assert added == []

    asyncio.run(talk())


def test_what_the_recorder_saw_before_a_crash_answers_after_it(call: Call, tmp_path: Path) -> None:
    """The recorder had the result durable, the save is older: the tool has run and is not run again."""

    async def talk() -> None:
        with chatsnapshot.open(tmp_path / "runs.db") as ledger:
            recorder = AG2Recorder(ledger)
            agent = desk(call("add", a=1, b=2), "3", middleware=[recorder.middleware])
            reply = await agent.ask("What is 1 + 2?")
            events = list(await reply.history.get_events())
            called = next(index for index, event in enumerate(events) if type(event) is ToolCallEvent)
            stream = MemoryStream(id=reply.context.stream.id)
            await stream.history.replace(events[: called + 1])
            persistence = AG2ChatPersistence(storage_config={"ledger": ledger})
            await persistence.asave_conversation("case-7", agent, stream)

            one = (await persistence.arestore_conversation("case-7", desk("still 3")))["desk"]
            assert (one.open_calls, kinds(one.events)[-1]) == ([], "ToolResultsEvent")
            assert (await one.resume()).body == "still 3"
            assert added == [(1, 2)]

    asyncio.run(talk())


def test_of_several_open_calls_only_those_without_a_result_are_executed(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    async def talk() -> None:
        calls = [
            ToolCallEvent("add", id=f"call-{n}", arguments=json.dumps({"a": n, "b": 0})) for n in (1, 2, 3)
        ]
        await persistence.asave_conversation("case-7", desk(), await stopped_in_call(calls, {"call-1": 100}))
        server = models({"m": ["done"]})
        restored = await persistence.arestore_conversation("case-7", real(server), results={"call-2": 200})
        one = restored["desk"]
        assert [call.call_id for call in one.open_calls] == ["call-3"]
        with pytest.raises(InvalidEvent, match=r"add \(call-3\)"):
            await one.ask("And now?")
        assert (await one.resume()).body == "done"
        assert added == [(3, 0)]
        assert seen(server)[-3:] == [
            ("tool", "100", "call-1"),
            ("tool", "200", "call-2"),
            ("tool", "3", "call-3"),
        ]

    asyncio.run(talk())


def test_a_response_whose_calls_were_not_begun_is_gone_on_with(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    async def talk() -> None:
        call = ToolCallEvent("add", id="call-9", arguments='{"a": 1, "b": 2}')
        stream = await stopped_in_call([call])
        await stream.history.replace(list(await stream.history.get_events())[:2])
        await persistence.asave_conversation("case-7", desk(), stream)
        server = models({"m": ["3"]})
        assert (
            await (await persistence.arestore_conversation("case-7", real(server)))["desk"].resume()
        ).body == "3"
        assert (added, seen(server)[-1]) == ([(1, 2)], ("tool", "3", "call-9"))

    asyncio.run(talk())


def test_a_question_to_a_person_is_answered_after_the_restart(
    call: Call, persistence: AG2ChatPersistence
) -> None:
    async def talk() -> None:
        stream = MemoryStream()
        try:  # nobody to ask: the turn ends (in AG2 1.0 the tool fails instead)
            await desk(call("ask_human", question="Which colour?"), "never").ask("Paint it.", stream=stream)
        except Exception:
            pass
        await persistence.asave_conversation("case-7", desk(), stream)
        fresh = desk("Blue it is.")
        restored = await persistence.arestore_conversation("case-7", fresh, results={"ask_human-1": "blue"})
        one = restored["desk"]
        assert (await one.resume()).body == "Blue it is."
        results = [
            event for event in await one.stream.history.get_events() if isinstance(event, ToolResultsEvent)
        ]
        assert [part.content for event in results for part in event.results[0].result.parts][:1] == ["blue"]

    asyncio.run(talk())


@pytest.mark.skipif(not hasattr(lifecycle, "EventLogFailed") or not _tells_errors(), reason="since AG2 1.1")
def test_a_question_that_nobody_answered_is_open_and_can_be_asked_again(
    call: Call, persistence: AG2ChatPersistence
) -> None:
    async def answer(event: Any) -> str:
        return "green"

    async def talk() -> None:
        stream = MemoryStream()
        with pytest.raises(Exception, match=r".*"):
            await desk(call("ask_human", question="Which colour?"), "never").ask("Paint it.", stream=stream)
        await persistence.asave_conversation("case-7", desk(), stream)
        one = (await persistence.arestore_conversation("case-7", desk("Green.", hitl_hook=answer)))["desk"]
        assert [open_call.name for open_call in one.open_calls] == ["ask_human"]
        assert (await one.resume()).body == "Green."
        other = (await persistence.arestore_conversation("case-7", desk("Never mind.")))["desk"]
        assert (
            await other.ask("Leave it.")
        ).body == "Never mind."  # AG2 closed the call with a sentence of its own

    asyncio.run(talk())


def test_a_turn_that_had_ended_is_not_resumed(persistence: AG2ChatPersistence) -> None:
    async def talk() -> None:
        reply = await desk("hello").ask("hi")
        await persistence.asave_conversation("case-7", desk(), reply)
        restored = await persistence.arestore_conversation("case-7", desk())
        with pytest.raises(InvalidEvent, match="go on with ask"):
            await restored["desk"].resume()

    asyncio.run(talk())


def test_a_turn_whose_model_failed_is_resumed_with_its_request(persistence: AG2ChatPersistence) -> None:
    from ag2.events import TextInput

    async def talk() -> None:
        stream = MemoryStream()
        await stream.history.replace([ModelRequest([TextInput("hi")])])
        await persistence.asave_conversation("case-7", desk(), stream)
        restored = await persistence.arestore_conversation("case-7", desk("hello at last"))
        assert (await restored["desk"].resume()).body == "hello at last"

    asyncio.run(talk())


class Colour(enum.Enum):
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int


class Own(BaseEvent):
    text: str


def test_events_come_back_with_their_values_and_classes_only_where_they_are_trusted(
    persistence: AG2ChatPersistence,
) -> None:
    async def talk() -> None:
        when = datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)
        made = ToolCallEvent("add", id="call-1", arguments="{}")
        values = [when, b"\x00\xff", Colour.BLUE, Point(3)]
        events = [ToolResultEvent.from_call(made, value) for value in values[:2]]
        events += [ToolResultEvent.from_call(made, [values[2], values[3]]), Own(text="mine")]
        events.append(ToolErrorEvent.from_call(made, ValueError("the tool exploded")))
        await persistence.asave_conversation("case-7", desk(), events)

        plain = (await persistence.arestore_conversation("case-7", desk()))["desk"].events
        assert kinds(plain) == [*["ToolResultEvent"] * 3, "UnknownEvent", "ToolErrorEvent"]
        assert [event.created_at for event in plain[:3]] == [event.created_at for event in events[:3]]
        assert plain[0].result.parts[0].data == when
        assert Point(3) not in plain[2].result.parts[0].data
        assert str(plain[4].error) == "the tool exploded"
        trusted = (await persistence.arestore_conversation("case-7", desk(), trusted=[__name__]))[
            "desk"
        ].events
        assert isinstance(trusted[3], Own)
        assert trusted[2].result.parts[0].data == [Colour.BLUE, Point(3)]

    asyncio.run(talk())


def test_the_methods_without_a_say_what_to_use(persistence: AG2ChatPersistence) -> None:
    with pytest.raises(InvalidEvent, match=r"use: await asave_conversation"):
        persistence.save_conversation("case-7", [desk()])
    with pytest.raises(InvalidEvent, match=r"use: await arestore_conversation"):
        persistence.restore_conversation("case-7", [desk()])
    with pytest.raises(InvalidEvent, match="holds no conversation itself"):
        asyncio.run(persistence.asave_conversation("case-7", [desk()]))
    with pytest.raises(InvalidEvent, match="not str"):
        asyncio.run(persistence.asave_conversation("case-7", [desk()], "hello"))
    with pytest.raises(NotFound):
        asyncio.run(persistence.arestore_conversation("case-7", [desk()]))
    assert asyncio.run(persistence.aload_conversation("case-7")) is None


def test_nothing_of_the_configuration_is_stored(models: Models, tmp_path: Path) -> None:
    async def talk() -> None:
        server = models({"m": ["hello"]})
        agent = real(server)
        reply = await agent.ask("hi")
        for backend in (StorageBackend.JSON, StorageBackend.SQLITE):
            with AG2ChatPersistence(backend, {"path": tmp_path / backend.value}) as persistence:
                await persistence.asave_conversation("case-7", agent, reply)
                loaded = await persistence.aload_conversation("case-7")
                assert loaded is not None
                assert (loaded.agents[0]["name"], loaded.agents[0]["models"]) == ("desk", ["m"])
                assert loaded.runtime.startswith("ag2/1.")
        stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        for secret in ("sk-", "api_key", server.url):
            assert secret.encode() not in stored, secret

    asyncio.run(talk())


def test_a_changed_entry_is_refused_with_its_position(tmp_path: Path) -> None:
    async def talk() -> None:
        path = tmp_path / "chats.jsonl"
        with AG2ChatPersistence("json", {"path": path}) as persistence:
            await persistence.asave_conversation("case-7", desk(), await desk("a word").ask("hi"))
        path.write_bytes(path.read_bytes().replace(b"a word", b"a lord"))
        with (
            AG2ChatPersistence("json", {"path": path}) as persistence,
            pytest.raises(Corrupt, match="position 1"),
        ):
            await persistence.arestore_conversation("case-7", desk())

    asyncio.run(talk())


PROCESS = """
import asyncio, sys
from ag2 import Agent
from ag2.config import OpenAIConfig
from chatsnapshot import AG2ChatPersistence, StorageBackend

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

async def main(step, url):
    config = OpenAIConfig(model="m", api_key="sk-" + "a" * 48, base_url=url)
    agent = Agent("desk", "Be kind.", config=config, tools=[add])
    if step == "save":
        reply = await agent.ask("What is 1 + 2?", variables={"n": 1})
    for backend in (StorageBackend.JSON, StorageBackend.SQLITE):
        with AG2ChatPersistence(backend) as persistence:
            if step == "save":
                await persistence.asave_conversation("case-7", agent, reply)
            else:
                restored = await persistence.arestore_conversation("case-7", agent)
                reply = await restored["desk"].ask("And now?")
                print(reply.body, reply.context.variables["n"])

asyncio.run(main(*sys.argv[1:]))
"""


def test_one_process_saves_in_either_place_and_another_one_goes_on(
    models: Models, say: Call, tmp_path: Path
) -> None:
    pytest.importorskip("openai")
    server = models({"m": [say("add", a=1, b=2), "3", "still 3", "still 3"]})
    for step in ("save", "restore"):
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, step, server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["still 3 1", "still 3 1"]
    for request in (-2, -1):
        assert [one[0] for one in seen(server, request)] == ["user", "assistant", "tool", "assistant", "user"]
        assert seen(server, request)[2] == ("tool", "3", "call_1_0")

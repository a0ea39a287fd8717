"""A chat of one line is not restored into the other, except as what was said."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ag2 import Agent
from ag2.testing import TestConfig
from autogen import ConversableAgent

from chatsnapshot import AG2ChatPersistence, InvalidEvent

Models = Callable[..., Any]
Say = Callable[..., Any]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of the runtime


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def persistence() -> Iterator[AG2ChatPersistence]:
    with AG2ChatPersistence("memory") as opened:
        yield opened


def pair(server: Any) -> list[ConversableAgent]:
    assistant = ConversableAgent("assistant", llm_config=server.classic("m"), human_input_mode="NEVER")
    user = ConversableAgent("user", llm_config=False, human_input_mode="NEVER", max_consecutive_auto_reply=0)
    return [assistant, user]


def test_a_classic_chat_is_refused_by_a_1_x_agent_and_given_as_a_transcript(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    assistant, user = pair(models({"m": ["hello"]}))
    user.initiate_chat(assistant, message="hi", max_turns=1, silent=True)
    persistence.save_conversation("case-7", [assistant, user])

    async def go_on() -> None:
        desk = Agent("assistant", config=TestConfig("yes"))
        with pytest.raises(InvalidEvent, match=r"classic line .* transcript=True"):
            await persistence.arestore_conversation("case-7", desk)
        one = (await persistence.arestore_conversation("case-7", desk, transcript=True))["assistant"]
        assert [type(event).__name__ for event in one.events] == ["ModelRequest", "ModelResponse"]
        assert (one.events[0].parts[0].content, one.events[1].message.content) == ("hi", "hello")
        assert (await one.ask("still there?")).body == "yes"

    asyncio.run(go_on())


def test_a_1_x_chat_is_refused_by_classic_agents_and_given_as_a_transcript(
    models: Models, say: Say, persistence: AG2ChatPersistence
) -> None:
    async def save() -> None:
        desk = Agent("desk", config=TestConfig("hello"))
        await persistence.asave_conversation("case-7", desk, await desk.ask("hi"))

    asyncio.run(save())
    server = models({"m": ["yes"]})
    agents = pair(server)
    with pytest.raises(InvalidEvent, match=r"1\.x line .* transcript=True"):
        persistence.restore_conversation("case-7", agents)
    assert not agents[0]._oai_messages
    restored = persistence.restore_conversation("case-7", agents, transcript=True)
    assert restored.last_agent is agents[0]
    agents[1].initiate_chat(agents[0], message="more", clear_history=False, max_turns=1, silent=True)
    told = [
        (one["role"], one["content"]) for one in server.requests[0]["messages"] if one["role"] != "system"
    ]
    assert told == [("user", "hi"), ("assistant", "hello"), ("user", "more")]


def test_a_transcript_needs_to_know_who_the_assistant_is(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    persistence.save_conversation("case-7", messages=[{"role": "user", "content": "hi"}])
    users = [ConversableAgent(name, llm_config=False, human_input_mode="NEVER") for name in ("one", "two")]
    with pytest.raises(InvalidEvent, match="which of one, two is the assistant"):
        persistence.restore_conversation("case-7", users, transcript=True)
    with pytest.raises(InvalidEvent, match="into two agents"):
        persistence.restore_conversation("case-7", users[:1], transcript=True)
    with pytest.raises(InvalidEvent, match="saved without agents"):
        persistence.restore_conversation("case-7", users)


def test_a_chat_saved_in_both_lines_stands_alone_after_each_change(
    models: Models, persistence: AG2ChatPersistence
) -> None:
    async def save() -> None:
        desk = Agent("desk", config=TestConfig("hello"))
        await persistence.asave_conversation("case-7", desk, await desk.ask("hi"))

    agents = pair(models({"m": ["hello"]}))
    agents[1].initiate_chat(agents[0], message="hi", max_turns=1, silent=True)
    persistence.save_conversation("case-7", agents, metadata={"a": 1})
    asyncio.run(save())
    loaded = persistence.load_conversation("case-7")
    assert loaded is not None
    assert (loaded.line, loaded.metadata, len(loaded.messages)) == ("1.x", {"a": 1}, 2)
    persistence.restore_conversation("case-7", pair(models({})), position=1)


def test_a_mixture_of_lines_is_refused(models: Models, persistence: AG2ChatPersistence) -> None:
    with pytest.raises(InvalidEvent, match="of both lines"):
        persistence.save_conversation("case-7", [*pair(models({})), Agent("desk")])


def test_an_async_save_takes_classic_agents_too(models: Models, persistence: AG2ChatPersistence) -> None:
    agents = pair(models({"m": ["hello"]}))
    agents[1].initiate_chat(agents[0], message="hi", max_turns=1, silent=True)

    async def both() -> Any:
        await persistence.asave_conversation("case-7", agents)
        return await persistence.arestore_conversation("case-7", pair(models({})))

    assert len(asyncio.run(both()).messages) == 2


def test_agents_of_the_module_that_1_x_came_from_are_saved_and_restored(
    persistence: AG2ChatPersistence,
) -> None:
    beta = pytest.importorskip("autogen.beta")
    testing = pytest.importorskip("autogen.beta.testing")

    async def talk() -> None:
        first = beta.Agent("desk", config=testing.TestConfig("hello"))
        await persistence.asave_conversation("case-7", first, await first.ask("hi"))
        for module, config in ((beta, testing.TestConfig), (__import__("ag2"), TestConfig)):
            fresh = module.Agent("desk", config=config("again"))
            one = (await persistence.arestore_conversation("case-7", fresh))["desk"]
            assert type(one.events[0]).__module__.startswith(f"{module.__name__}.")
            assert (await one.ask("still there?")).body == "again"

    asyncio.run(talk())

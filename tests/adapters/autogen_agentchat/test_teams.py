"""Teams of AutoGen AgentChat: who speaks because of what, teams in teams, people, and what goes on later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.autogen_agentchat import AgentChatRecorder
from chatsnapshot.testing.runtimes.autogen_agentchat import assistant, call, scripted

agents = pytest.importorskip("autogen_agentchat.agents")
base = pytest.importorskip("autogen_agentchat.base")
conditions = pytest.importorskip("autogen_agentchat.conditions")
messages = pytest.importorskip("autogen_agentchat.messages")
teams = pytest.importorskip("autogen_agentchat.teams")
tools = pytest.importorskip("autogen_agentchat.tools")
core = pytest.importorskip("autogen_core")


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def of(ledger: Any, name: str) -> list[Any]:
    return list(ledger.read(event_type=f"execution.{name}"))


def said(ledger: Any, agent: str) -> list[Any]:
    return [one for one in of(ledger, "message") if one.payload.get("agent") == agent]


def text(message: Any) -> Any:
    return message.payload["parts"][-1].get("content")


async def read(stream: Any) -> Any:
    """Read a stream to its end; gives its result."""
    return [item async for item in stream][-1]


def recorded(story: Callable[[Any, AgentChatRecorder], Any]) -> Any:
    """Play a story on a new ledger; gives the ledger."""
    ledger = chatsnapshot.open("memory:", validation="strict")
    recorder = AgentChatRecorder(ledger)
    asyncio.run(story(ledger, recorder))
    assert recorder.flush(10)
    assert recorder.safe.failures == 0
    return ledger


def add(a: int) -> int:
    """Add one."""
    return a + 1


def test_a_team_is_one_run_in_which_each_speaks_because_of_the_one_before() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        team = teams.RoundRobinGroupChat(
            [assistant("alpha", ["one"]), assistant("beta", ["two"])], max_turns=2, name="desk"
        )
        result = await read(recorder.tee(team.run_stream(task="Hello")))
        assert "Maximum number of turns 2" in result.stop_reason

    ledger = recorded(story)
    assert kinds(ledger) == ["run_started", "message", *["model_call", "message"] * 2, "run_completed"]
    started, asked, *_, ended = ledger.read()
    assert started.payload["participants"] == ["alpha", "beta"]
    assert ended.payload["stop_reason"] == "Maximum number of turns 2 reached."
    (one,), (two,) = said(ledger, "alpha"), said(ledger, "beta")
    first, second = of(ledger, "model_call")
    assert [first.causation_id, one.causation_id] == [asked.event_id, first.event_id]
    assert [second.causation_id, two.causation_id] == [one.event_id, second.event_id]


def test_a_tool_of_a_team_runs_after_its_call_is_told_and_causes_what_it_records() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        def note() -> str:
            """Note."""
            ledger.record("execution.state_change", {"name": "noted"})
            return "ok"

        team = teams.RoundRobinGroupChat(
            [assistant("alpha", [[call("note", {}, "call_1")]], tools=[note])], max_turns=1
        )
        await recorder.attach(team).run(task="Hello")

    ledger = recorded(story)
    (made,), (noted,), (result,) = (of(ledger, name) for name in ("tool_call", "state_change", "tool_result"))
    assert noted.causation_id == result.causation_id == made.event_id
    assert made.position < noted.position < result.position


def test_agents_that_speak_at_once_each_follow_from_what_they_heard() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        builder = teams.DiGraphBuilder()
        alpha = assistant("alpha", ["start"])
        both = [
            assistant(name, [[call("add", {"a": n}, "call_1")], name], tools=[add], max_tool_iterations=2)
            for n, name in enumerate(("beta", "gamma"))
        ]
        builder.add_node(alpha)
        for one in both:
            builder.add_node(one).add_edge(alpha, one)
        flow = teams.GraphFlow([alpha, *both], graph=builder.build())
        await read(recorder.tee(flow.run_stream(task="Hello")))

    ledger = recorded(story)
    entries = {entry.event_id: entry for entry in ledger.read()}
    (start,) = said(ledger, "alpha")
    for n, name in enumerate(("beta", "gamma")):
        chain = [said(ledger, name)[-1]]
        while chain[-1] is not entries[start.event_id]:
            chain.append(entries[chain[-1].causation_id])
        assert [one.event_type.partition(".")[2] for one in chain] == [
            *("message", "model_call", "tool_result", "tool_call", "message", "model_call", "message")
        ]
        assert {one.payload["agent"] for one in chain[:-1]} == {name}
        assert chain[2].payload["result"] == str(n + 1)


@pytest.mark.parametrize("how", ["member", "tool", "mind"])
def test_a_team_in_a_team_is_a_child_run_and_what_it_says_is_told_there_alone(how: str) -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        inner = teams.RoundRobinGroupChat([assistant("beta", ["inner"])], max_turns=1, name="inner")
        asks = [[call("inner", {"task": "in?"}, "call_1")], "outer"]
        tool = tools.TeamTool(inner, name="inner", description="a team", return_value_as_last_message=True)
        outer = {
            "member": lambda: teams.RoundRobinGroupChat([inner, assistant("alpha", ["outer"])], max_turns=2),
            "tool": lambda: assistant("alpha", asks, tools=[tool], max_tool_iterations=2),
            "mind": lambda: agents.SocietyOfMindAgent("mind", team=inner, model_client=scripted(["outer"])),
        }[how]()
        result = await read(recorder.tee(outer.run_stream(task="Hello")))
        assert result.messages[-1].to_text() == "outer"

    ledger = recorded(story)
    root, child = of(ledger, "run_started")
    cause = next(entry for entry in ledger.read() if entry.event_id == child.causation_id)
    assert child.payload["name"] == "inner"
    assert child.payload["parent_run_id"] == root.payload["run_id"] == cause.payload["run_id"]
    assert cause.event_type == ("execution.tool_call" if how == "tool" else "execution.message")
    assert child.correlation_id != root.correlation_id
    (inner,) = said(ledger, "beta")
    assert inner.correlation_id == child.correlation_id
    assert [text(one) for one in of(ledger, "message")].count("inner") == 1
    assert [one.payload["output"] for one in of(ledger, "run_completed")] == ["inner", "outer"]


def test_a_team_that_ends_with_a_team_has_its_last_words_as_output() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        inner = teams.RoundRobinGroupChat([assistant("beta", ["inner"])], max_turns=1)
        await recorder.attach(teams.RoundRobinGroupChat([inner], max_turns=1)).run(task="Hello")

    assert [one.payload["output"] for one in of(recorded(story), "run_completed")] == ["inner"] * 2


def test_a_person_who_is_in_the_team_is_asked_and_answers_inside_the_run() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        person = agents.UserProxyAgent("person", input_func=lambda prompt: "blue")
        team = teams.RoundRobinGroupChat([assistant("alpha", ["Which?", "Fine"]), person], max_turns=3)
        await read(recorder.tee(team.run_stream(task="Hello")))

    ledger = recorded(story)
    (question,), (answer,) = of(ledger, "human_input_requested"), of(ledger, "human_input_received")
    assert question.payload["question"] == "Which?"
    assert (answer.payload["answer"], answer.payload["user"]) == ("blue", "person")
    assert answer.causation_id == question.event_id
    assert of(ledger, "model_call")[-1].causation_id == answer.event_id
    assert kinds(ledger)[-1] == "run_completed"


def swarm(answers: list[Any]) -> Any:
    stop = conditions.HandoffTermination(target="user") | conditions.TextMentionTermination("booked")
    return teams.Swarm([assistant("alpha", answers, handoffs=["user"])], termination_condition=stop)


def test_a_team_whose_state_was_kept_goes_on_in_its_conversation_by_a_recorder_that_remembers_nothing() -> (
    None
):
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        first = recorder.attach(swarm([[call("transfer_to_user", {}, "call_1")]]), conversation="ticket-7")
        await first.run(task="Book it")
        kept = await first.save_state()
        # as another process would: everything is made anew from what was kept
        again = swarm(["booked"])
        await again.load_state(kept)
        answer = messages.HandoffMessage(source="user", target="alpha", content="yes")
        stream = again.run_stream(task=answer)
        await read(AgentChatRecorder(ledger).tee(stream, conversation="ticket-7"))

    ledger = recorded(story)
    assert {entry.correlation_id for entry in ledger.read()} == {"ticket-7"}
    (handoff,), (question,), (paused,), (answer,), (resumed,) = (
        of(ledger, name)
        for name in ("handoff", "human_input_requested", "run_paused", "human_input_received", "run_resumed")
    )
    assert question.causation_id == handoff.event_id
    assert paused.payload["reason"] == "Handoff to user from alpha detected."
    assert (answer.payload["answer"], answer.causation_id) == ("yes", question.event_id)
    assert resumed.causation_id == answer.event_id
    assert resumed.payload["run_id"] == paused.payload["run_id"]
    assert kinds(ledger)[-1] == "run_completed"


def test_a_team_that_goes_on_without_a_task_is_another_run_of_its_conversation() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        team = teams.RoundRobinGroupChat([assistant("alpha", ["one", "two"])], max_turns=1)
        recorder.attach(team)
        await team.run(task="Hello")
        await read(team.run_stream())

    ledger = recorded(story)
    assert [text(one) for one in of(ledger, "message")] == ["Hello", "one", "two"]
    first, second = of(ledger, "run_started")
    assert first.correlation_id == second.correlation_id
    assert len(of(ledger, "run_completed")) == 2


def test_an_agent_of_a_team_that_fails_fails_the_run_and_the_model_call_says_why() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        team = teams.RoundRobinGroupChat([assistant("alpha", [RuntimeError("model is down")])], max_turns=1)
        with pytest.raises(RuntimeError, match="model is down"):
            await read(recorder.tee(team.run_stream(task="Hello")))

    ledger = recorded(story)
    assert kinds(ledger) == ["run_started", "message", "model_call", "run_failed"]
    assert of(ledger, "model_call")[0].payload["error"]["message"] == "model is down"


def test_the_models_that_choose_who_speaks_are_told_and_so_is_their_choice() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        team = teams.SelectorGroupChat(
            [assistant("alpha", ["one"]), assistant("beta", ["two"])],
            model_client=scripted(["beta"]),
            max_turns=1,
            emit_team_events=True,
            name="desk",
        )
        await read(recorder.tee(team.run_stream(task="Hello")))

    ledger = recorded(story)
    choosing, speaking = of(ledger, "model_call")
    assert [choosing.payload["agent"], speaking.payload["agent"]] == ["desk", "beta"]
    assert speaking.causation_id == choosing.event_id
    (chosen,) = of(ledger, "state_change")
    assert (chosen.payload["name"], chosen.payload["value"]) == ("speaker", ["beta"])


def test_what_a_team_says_itself_is_said_by_the_team() -> None:
    def thought(done: bool) -> str:
        told = {"is_request_satisfied": done, "is_progress_being_made": True, "is_in_loop": False}
        told |= {"instruction_or_question": "Say hi", "next_speaker": "alpha"}
        return json.dumps({name: {"reason": "so", "answer": answer} for name, answer in told.items()})

    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        model = scripted(["facts", "plan", thought(False), thought(True), "All done"])
        team = teams.MagenticOneGroupChat([assistant("alpha", ["hi"])], model_client=model, name="desk")
        await read(recorder.tee(team.run_stream(task="Hello")))

    ledger = recorded(story)
    assert [text(one) for one in of(ledger, "message") if one.payload["role"] == "user"] == ["Hello"]
    plan, asked, done = (text(one) for one in said(ledger, "desk"))
    assert "plan" in plan
    assert (asked, done) == ("Say hi", "All done")
    assert [text(one) for one in said(ledger, "alpha")] == ["hi"]
    assert len(of(ledger, "model_call")) == 6


def test_a_team_on_a_runtime_of_the_users_own_is_told_by_its_stream() -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        runtime = core.SingleThreadedAgentRuntime()
        runtime.start()
        alpha = assistant(
            "alpha", [[call("add", {"a": 1}, "call_1")], "two"], tools=[add], max_tool_iterations=2
        )
        team = teams.RoundRobinGroupChat([alpha], max_turns=1, runtime=runtime)
        await read(recorder.tee(team.run_stream(task="Hello")))
        await runtime.stop()

    ledger = recorded(story)
    assert kinds(ledger) == [
        *("run_started", "message", "model_call", "message", "tool_call", "tool_result"),
        *("model_call", "message", "run_completed"),
    ]
    assert [one.payload["usage"]["input_tokens"] for one in of(ledger, "model_call")] == [5, 5]


class Says(agents.BaseChatAgent):  # type: ignore[misc]
    produced_message_types = (messages.TextMessage,)

    async def on_messages(self, heard: Any, cancellation_token: Any) -> Any:
        return base.Response(chat_message=messages.TextMessage(content=self.name, source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None: ...


@pytest.mark.parametrize("first", ["beta", "gamma"])
def test_agents_that_speak_at_once_follow_from_what_they_heard_whichever_is_first(first: str) -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        builder = teams.DiGraphBuilder()
        alpha, omega = Says("alpha", "first"), Says("omega", "last")
        both = sorted((Says("beta", "one"), Says("gamma", "two")), key=lambda one: one.name != first)
        for one in (alpha, *both, omega):
            builder.add_node(one)
        for one in both:
            builder.add_edge(alpha, one).add_edge(one, omega)
        flow = teams.GraphFlow([alpha, *both, omega], graph=builder.build())
        await read(recorder.tee(flow.run_stream(task="Hello")))

    ledger = recorded(story)
    (start,) = said(ledger, "alpha")
    for name in ("beta", "gamma"):
        assert [one.causation_id for one in said(ledger, name)] == [start.event_id]


@pytest.mark.parametrize("first", ["beta", "gamma"])
def test_agents_that_begin_at_once_follow_from_what_was_asked_whichever_is_first(first: str) -> None:
    async def story(ledger: Any, recorder: AgentChatRecorder) -> None:
        builder = teams.DiGraphBuilder()
        both = sorted((Says("beta", "one"), Says("gamma", "two")), key=lambda one: one.name != first)
        omega = Says("omega", "last")
        for one in (*both, omega):
            builder.add_node(one)
        for one in both:
            builder.add_edge(one, omega)
        flow = teams.GraphFlow([*both, omega], graph=builder.build())
        await read(recorder.tee(flow.run_stream(task="Hello")))

    ledger = recorded(story)
    asked = of(ledger, "message")[0]
    for name in ("beta", "gamma"):
        assert [one.causation_id for one in said(ledger, name)] == [asked.event_id]

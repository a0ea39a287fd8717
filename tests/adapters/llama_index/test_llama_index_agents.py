"""Agents of LlamaIndex: their conversations, tools, questions and ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot.adapters.llama_index import LlamaIndexRecorder, install
from chatsnapshot.adapters.llama_index.watched import Watched
from chatsnapshot.errors import LedgerError, MissingExtra
from chatsnapshot.testing.runtimes.llama_index import LlamaIndexBench, agent, call, scripted

core = pytest.importorskip("llama_index.core")

from llama_desk import answering, index, kinds, model, of, recorded, said, session  # noqa: E402
from llama_index.core.agent.workflow import AgentWorkflow, ReActAgent  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.core.tools import QueryEngineTool, RetrieverTool  # noqa: E402
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent  # noqa: E402


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def book(ctx: Context) -> str:
    """Book a table, when a person agrees."""
    question = InputRequiredEvent(prefix="May I?", table=7)
    answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=question)
    return f"booked: {answer.response}"


book.__annotations__["ctx"] = Context


def test_the_runs_of_one_context_are_one_conversation() -> None:
    async def run() -> None:
        alpha = agent("alpha", [["one"], ["two"]], system_prompt="Be kind.")
        context = Context(alpha)
        await alpha.run("Hello", ctx=context)
        await alpha.run("Again", ctx=context)

    with recorded() as (ledger, _):
        asyncio.run(run())
        assert len({entry.correlation_id for entry in ledger.read()}) == 1
        first, second = of(ledger, "execution.run_started")
        assert first.payload["run_id"] != second.payload["run_id"]
        assert first.payload["instructions"] == "Be kind."
        assert said(ledger) == [
            ("user", "Hello"),
            ("assistant", "one"),
            ("user", "Again"),
            ("assistant", "two"),
        ]


def test_the_session_of_a_memory_and_the_id_of_a_run_are_conversations() -> None:
    async def run() -> None:
        memory = session()
        await agent("alpha", [["one"]]).run("Hello", memory=memory)
        await agent("alpha", [["two"]]).run("Hello", run_id="run-7")

    with recorded() as (ledger, _):
        asyncio.run(run())
        assert [one.correlation_id for one in of(ledger, "execution.run_started")] == ["session-7", "run-7"]


def test_a_history_that_is_given_is_told_before_the_question() -> None:
    async def run() -> None:
        history = [ChatMessage("before"), ChatMessage("an answer", role="assistant")]
        await agent("alpha", [["one"]]).run("Hello", chat_history=history)

    with recorded() as (ledger, _):
        asyncio.run(run())
        assert said(ledger)[:3] == [("user", "before"), ("assistant", "an answer"), ("user", "Hello")]


def test_a_tool_of_a_react_agent_is_caused_by_the_message_that_asks_for_it() -> None:
    async def run() -> Any:
        wanted = 'Thought: I add.\nAction: add\nAction Input: {"a": 2, "b": 3}'
        llm = scripted([[wanted], ["Thought: I know.\nAnswer: 5"]])
        return await ReActAgent(name="alpha", description="It adds.", tools=[add], llm=llm).run("2+3?")

    with recorded() as (ledger, _):
        assert str(asyncio.run(run())) == "5"
        (made,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        assert made.payload["arguments"] == {"a": 2, "b": 3}
        assert ledger.get(made.causation_id).payload["parts"][0]["content"].startswith("Thought: I add.")
        assert result.causation_id == made.event_id
        assert (made.payload["call_id"], result.payload["result"]) == (result.payload["call_id"], 5)


def test_a_tool_that_there_is_not_is_a_result_that_says_so() -> None:
    async def run() -> None:
        await agent("alpha", [[call("nothing", {}, "call_1")], ["sorry"]], tools=[add]).run("Hello")

    with recorded() as (ledger, _):
        asyncio.run(run())
        (result,) = of(ledger, "execution.tool_result")
        assert result.payload["is_error"] is True
        assert "nothing not found" in result.payload["error"]["message"]


def test_a_query_engine_that_is_a_tool_is_a_child_run_with_its_search() -> None:
    async def run() -> None:
        tool = QueryEngineTool.from_defaults(
            index().as_query_engine(llm=model()), name="cities", description="It knows."
        )
        await agent("alpha", [[call("cities", {"input": "which?"}, "call_1")], ["done"]], tools=[tool]).run(
            "Hello"
        )

    with recorded() as (ledger, _):
        asyncio.run(run())
        (made,), (search,) = of(ledger, "execution.tool_call"), of(ledger, "execution.retrieval")
        _, child = of(ledger, "execution.run_started")
        assert child.causation_id == made.event_id
        assert child.correlation_id == search.correlation_id != made.correlation_id
        assert {one["content"] for one in search.payload["documents"]} == {"Paris is old", "Rome is older"}
        assert (search.payload["query"], search.payload["count"]) == ("which?", 2)


def test_a_retriever_that_is_a_tool_is_a_search_caused_by_the_call() -> None:
    async def run() -> None:
        tool = RetrieverTool.from_defaults(index().as_retriever(), name="cities", description="It finds.")
        await agent("alpha", [[call("cities", {"input": "which?"}, "call_1")], ["done"]], tools=[tool]).run(
            "Hello"
        )

    with recorded() as (ledger, _):
        asyncio.run(run())
        (made,), (search,) = of(ledger, "execution.tool_call"), of(ledger, "execution.retrieval")
        assert search.causation_id == made.event_id
        assert search.correlation_id == made.correlation_id
        assert kinds(ledger).count("run_started") == 1


def test_an_agent_in_a_tool_that_asks_a_person_pauses_alone() -> None:
    async def ask() -> str:
        """Ask beta."""
        beta = agent("beta", [[call("book", {}, "call_2")], ["child done"]], tools=[book])
        return str(await answering(beta.run("hi?")))

    async def run() -> None:
        await agent("alpha", [[call("ask", {}, "call_1")], ["done"]], tools=[ask]).run("Hello")

    with recorded() as (ledger, _):
        asyncio.run(run())
        alpha, beta = of(ledger, "execution.run_started")
        (paused,), (resumed,) = of(ledger, "execution.run_paused"), of(ledger, "execution.run_resumed")
        assert {paused.correlation_id, resumed.correlation_id} == {beta.correlation_id}
        assert resumed.payload["run_id"] == beta.payload["run_id"]
        assert resumed.payload["parent_run_id"] == alpha.payload["run_id"]


def test_a_handoff_that_is_refused_is_none() -> None:
    async def run() -> str:
        refused = call("handoff", {"to_agent": "nobody", "reason": "why not"}, "call_1")
        alpha = agent("alpha", [[refused], ["then I do it"]])
        return str(await AgentWorkflow(agents=[alpha, agent("beta", [])], root_agent="alpha").run("Hello"))

    with recorded() as (ledger, _):
        assert asyncio.run(run()) == "then I do it"
        assert not of(ledger, "execution.handoff")
        assert {one.payload["agent"] for one in of(ledger, "execution.model_call")} == {"alpha"}
        assert of(ledger, "execution.run_started")[0].payload["agents"] == ["alpha", "beta"]


def test_who_gets_the_work_is_caused_by_the_handoff_and_has_the_word_in_the_next_run_too() -> None:
    async def run() -> None:
        to_beta = call("handoff", {"to_agent": "beta", "reason": "it knows"}, "call_1")
        agents = [agent("alpha", [[to_beta]]), agent("beta", [["beta here"], ["still here"]])]
        desk = AgentWorkflow(agents=agents, root_agent="alpha")
        context = Context(desk)
        await desk.run("Hello", ctx=context)
        await desk.run("Again", ctx=context)

    with recorded() as (ledger, _):
        asyncio.run(run())
        (handoff,) = of(ledger, "execution.handoff")
        first, second, third = of(ledger, "execution.model_call")
        assert ledger.get(handoff.causation_id).payload["name"] == "handoff"
        assert second.causation_id == handoff.event_id
        assert [one.payload["agent"] for one in (first, second, third)] == ["alpha", "beta", "beta"]


def test_a_person_who_is_asked_while_the_run_goes_on_pauses_it_until_the_answer() -> None:
    async def run() -> Any:
        alpha = agent("alpha", [[call("book", {}, "call_1")], ["done"]], tools=[book])
        return await answering(alpha.run("Hello"))

    with recorded() as (ledger, _):
        asyncio.run(run())
        (made,), (result,) = of(ledger, "execution.tool_call"), of(ledger, "execution.tool_result")
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        (resumed,) = of(ledger, "execution.run_resumed")
        assert question.payload["question"] == {"prefix": "May I?", "table": 7}
        assert question.causation_id == made.event_id
        assert (answer.causation_id, resumed.causation_id) == (question.event_id, answer.event_id)
        assert result.causation_id == made.event_id
        assert result.payload["result"] == "booked: yes"
        runs = [kind for kind in kinds(ledger) if kind.startswith("run_")]
        assert runs == ["run_started", "run_paused", "run_resumed", "run_completed"]


def test_answers_go_to_the_questions_whose_tools_want_them() -> None:
    async def ask(ctx: Context, who: str) -> str:
        """Ask somebody."""
        question = InputRequiredEvent(prefix=f"{who}?")
        wanted = {"who": who}
        answer = await ctx.wait_for_event(HumanResponseEvent, waiter_event=question, requirements=wanted)
        return str(answer.response)

    ask.__annotations__["ctx"] = Context

    async def run() -> None:
        calls = [call("ask", {"who": who}, f"call_{who}") for who in ("odile", "max")]
        handler = agent("alpha", [calls, ["done"]], tools=[ask]).run("Hello")
        async for event in handler.stream_events(expose_internal=True):
            if type(event).__name__ == "WorkflowIdleEvent":
                break
        for who in ("max", "odile"):
            handler.ctx.send_event(HumanResponseEvent(who=who, response=f"{who} agrees"))
        await handler

    with recorded() as (ledger, _):
        asyncio.run(run())
        questions = {one.event_id: one.payload for one in of(ledger, "execution.human_input_requested")}
        assert len(questions) == 2
        for answer in of(ledger, "execution.human_input_received"):
            who = questions[answer.causation_id]["question"].rstrip("?")
            assert answer.payload["answer"] == {"who": who, "response": f"{who} agrees"}
        results = {
            one.payload["call_id"]: one.payload["result"] for one in of(ledger, "execution.tool_result")
        }
        assert results == {"call_odile": "odile agrees", "call_max": "max agrees"}


def test_a_question_that_a_tool_writes_to_the_stream_is_that_of_its_call() -> None:
    async def ask(ctx: Context) -> str:
        """Ask somebody."""
        ctx.write_event_to_stream(InputRequiredEvent(prefix="May I?"))
        return str((await ctx.wait_for_event(HumanResponseEvent)).response)

    ask.__annotations__["ctx"] = Context

    async def run() -> None:
        alpha = agent("alpha", [[call("ask", {}, "call_1")], ["done"]], tools=[ask])
        await answering(alpha.run("Hello"))

    with recorded() as (ledger, _):
        asyncio.run(run())
        (question,) = of(ledger, "execution.human_input_requested")
        (answer,) = of(ledger, "execution.human_input_received")
        assert (question.payload["question"], question.payload["call_id"]) == ("May I?", "call_1")
        assert answer.causation_id == question.event_id


def test_a_run_that_is_cancelled_while_it_waits_stays_paused_and_one_that_works_is_cancelled() -> None:
    async def run(tool: Any, until: str) -> None:
        handler = agent("alpha", [[call(tool.__name__, {}, "call_1")]], tools=[tool]).run("Hello")
        async for event in handler.stream_events(expose_internal=True):
            if type(event).__name__ == until:
                break
        await handler.cancel_run()

    async def sleep() -> None:
        """Sleep."""
        await asyncio.sleep(60)

    for tool, until, end in ((book, "WorkflowIdleEvent", "run_paused"), (sleep, "ToolCall", "run_cancelled")):
        with recorded() as (ledger, _):
            asyncio.run(run(tool, until))
            assert kinds(ledger)[-1] == end


def test_what_a_tool_records_and_the_agents_it_asks_belong_to_its_call() -> None:
    with recorded() as (ledger, _):

        async def ask() -> str:
            """Ask beta."""
            ledger.record("execution.state_change", {"name": "asking", "to": "beta"})
            return str(await agent("beta", [["hi"]]).run("hi?"))

        async def run() -> None:
            await agent("alpha", [[call("ask", {}, "call_1")], ["done"]], tools=[ask]).run("Hello")

        asyncio.run(run())
        (made,) = of(ledger, "execution.tool_call")
        (noted,) = of(ledger, "execution.state_change")
        _, child = of(ledger, "execution.run_started")
        assert noted.causation_id == child.causation_id == made.event_id
        assert noted.correlation_id == made.correlation_id != child.correlation_id


# --- attaching --------------------------------------------------------------------------------------------


def test_attached_twice_it_records_once_and_detached_it_leaves_llama_index_as_it_was() -> None:
    from llama_index_instrumentation import get_dispatcher
    from workflows.plugins.basic import InternalAsyncioAdapter

    def there() -> list[Any]:
        dispatcher = get_dispatcher()
        adapter = InternalAsyncioAdapter
        return [
            *dispatcher.span_handlers,
            *dispatcher.event_handlers,
            adapter.on_tick,
            adapter.write_to_event_stream,
        ]

    before = there()
    with chatsnapshot.open("memory:", validation="strict") as ledger:
        recorder = LlamaIndexRecorder(ledger)
        first, second = recorder.attach(), install(recorder)
        assert there() != before
        LlamaIndexBench().play("plain", None)
        first()
        second()
        assert there() == before
        LlamaIndexBench().play("plain", None)
        assert kinds(ledger) == ["run_started", "message", "model_call", "message", "run_completed"]


def test_an_answer_that_nobody_reads_any_more_cancels_its_run() -> None:
    with recorded() as (ledger, recorder):
        for read in (0, 1):
            stream = model().stream_complete("Hello")
            for _, _ in zip(range(read), stream, strict=False):
                pass
            del stream
            gc.collect()
            assert recorder.flush(10)  # the garbage collector waits for no ledger
        assert [kind for kind in kinds(ledger) if kind.startswith("run_")] == [
            "run_started",
            "run_cancelled",
        ] * 2


def test_nothing_of_a_run_is_kept_when_it_is_over() -> None:
    with recorded() as (_, recorder):
        for story in ("parallel_tools", "interruption", "model_error", "streaming"):
            LlamaIndexBench().play(story, None)
        gc.collect()
        alive = [
            one for one in gc.get_objects() if issubclass(type(one), Watched) and one.recorder is recorder
        ]
    assert not alive


def test_another_kind_of_recorder_is_one_clear_sentence() -> None:
    with pytest.raises(TypeError, match="takes a LlamaIndexRecorder, not int"):
        install(7)  # type: ignore[arg-type]


def test_a_llama_index_that_is_missing_or_too_old_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chatsnapshot.open("memory:") as ledger:
        monkeypatch.setitem(
            sys.modules, "workflows.plugins.basic", types.ModuleType("workflows.plugins.basic")
        )
        with pytest.raises(
            LedgerError, match=r"has no workflows\.plugins\.basic\..*; recording needs llama-index"
        ):
            LlamaIndexRecorder(ledger).attach()
        monkeypatch.setitem(sys.modules, "llama_index_instrumentation", None)
        monkeypatch.delitem(sys.modules, "llama_index_instrumentation.dispatcher")
        with pytest.raises((MissingExtra, LedgerError), match="llama"):
            LlamaIndexRecorder(ledger).attach()

"""What LangGraphRecorder records of graphs, runnables, models and tools, beyond the contract of all adapters."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

import chatsnapshot
from chatsnapshot import scope
from chatsnapshot.adapters.langgraph import LangGraphRecorder, install

graphs = pytest.importorskip("langgraph.graph")
messages = pytest.importorskip("langchain_core.messages")
tools = pytest.importorskip("langchain_core.tools")
types = pytest.importorskip("langgraph.types")

from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402

from chatsnapshot.testing.runtimes.langgraph import add, agent, calling, scripted  # noqa: E402

in_async_code = pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="before Python 3.11 LangChain gives async code no config to know its place by",
)

HELLO: dict[str, Any] = {"messages": [("user", "Hello")]}


@pytest.fixture
def ledger() -> Iterator[Any]:
    with chatsnapshot.open("memory:", validation="strict") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Any) -> Iterator[LangGraphRecorder]:
    made = LangGraphRecorder(ledger)
    yield made
    assert made.flush(10)
    assert made.safe.failures == 0


def told(ledger: Any, *kinds: str) -> list[Any]:
    return [entry for entry in ledger.read() if not kinds or entry.event_type.partition(".")[2] in kinds]


def kinds(ledger: Any) -> list[str]:
    return [entry.event_type.partition(".")[2] for entry in ledger.read()]


def said(ledger: Any, role: str | None = None) -> list[str]:
    return [
        "".join(part.get("content", "") for part in entry.payload["parts"] if part["type"] == "text")
        for entry in told(ledger, "message")
        if role in (None, entry.payload["role"])
    ]


def steps(ledger: Any) -> list[tuple[str, str]]:
    return [(entry.payload["node"], entry.payload["status"]) for entry in told(ledger, "state_change")]


def of_graph(builder_nodes: dict[str, Any], *edges: tuple[str, str], **options: Any) -> Any:
    builder = graphs.StateGraph(graphs.MessagesState)
    for name, node in builder_nodes.items():
        builder.add_node(name, node)
    for edge in edges:
        builder.add_edge(*edge)
    return builder.compile(**options)


# --- the order of things -------------------------------------------------------------------------------------


def test_an_async_graph_is_recorded_in_the_order_of_the_run(ledger: Any, recorder: Any) -> None:
    asking = [calling("add", "c1", a=1, b=2), calling("add", "c2", a=3, b=4)]
    graph = agent("alpha", scripted(asking, "ok"), [add])
    asyncio.run(graph.ainvoke(HELLO, recorder.config("thread-1")))
    recorded = kinds(ledger)
    assert recorded[:2] == ["run_started", "message"]
    assert recorded[-1] == "run_completed"
    assert steps(ledger) == [
        ("model", "started"),
        ("model", "completed"),
        ("tools", "started"),
        ("tools", "completed"),
        ("model", "started"),
        ("model", "completed"),
    ]
    assert {entry.correlation_id for entry in ledger.read()} == {"thread-1"}


def test_nodes_of_one_step_have_one_cause(ledger: Any, recorder: Any) -> None:
    graph = of_graph(
        {"left": lambda state: {}, "right": lambda state: {}, "join": lambda state: {}},
        (graphs.START, "left"),
        (graphs.START, "right"),
        ("left", "join"),
        ("right", "join"),
    )
    graph.invoke(HELLO, recorder.config())
    begun = [one for one in told(ledger, "state_change") if one.payload["status"] == "started"]
    left, right, join = begun
    assert left.causation_id == right.causation_id == told(ledger, "message")[0].event_id
    assert join.payload["step"] == 2


def test_steps_of_inner_graphs_side_by_side_follow_their_own_graph(ledger: Any, recorder: Any) -> None:
    together = threading.Barrier(2, timeout=20)

    def meet(state: Any) -> Any:
        together.wait()
        return {}

    def inner(name: str) -> Any:
        return of_graph({"a": meet, "b": meet}, (graphs.START, "a"), ("a", "b"), name=name)

    graph = of_graph(
        {"one": inner("left"), "two": inner("right")}, (graphs.START, "one"), (graphs.START, "two")
    )
    graph.invoke(HELLO, recorder.config())
    second = [one for one in told(ledger, "state_change") if one.payload["node"] == "b"]
    begun = [one for one in second if one.payload["status"] == "started"]
    assert {one.payload["agent"] for one in begun} == {"left", "right"}
    for one in begun:
        cause = ledger.get(one.causation_id).payload
        assert (cause["node"], cause["status"]) == ("a", "completed")
        assert cause["agent"] == one.payload["agent"]


def test_a_batch_is_one_run_for_each_input(ledger: Any, recorder: Any) -> None:
    graph = agent("alpha", scripted("a", "b", "c"))
    graph.batch([HELLO, HELLO, HELLO], recorder.config())
    assert kinds(ledger).count("run_completed") == 3
    assert len({entry.correlation_id for entry in ledger.read()}) == 3


# --- who speaks ----------------------------------------------------------------------------------------------


def test_a_named_graph_in_a_node_is_an_agent_of_the_same_run(ledger: Any, recorder: Any) -> None:
    writer = agent("writer", scripted("draft"))
    flow = of_graph({"write": writer}, (graphs.START, "write"), name="flow")
    flow.invoke(HELLO, recorder.config())
    assert kinds(ledger).count("run_started") == 1
    answer = told(ledger, "message")[-1]
    assert answer.payload["name"] == answer.source.name == "writer"
    assert steps(ledger) == [
        ("write", "started"),
        ("model", "started"),
        ("model", "completed"),
        ("write", "completed"),
    ]


def test_a_handoff_by_a_tool_is_told_once(ledger: Any, recorder: Any) -> None:
    from langgraph.prebuilt import create_react_agent

    @tools.tool
    def to_bob(call_id: Annotated[str, tools.InjectedToolCallId]) -> Any:
        """Hand over to bob."""
        moved = messages.ToolMessage("moved", tool_call_id=call_id)
        return types.Command(goto="bob", graph=types.Command.PARENT, update={"messages": [moved]})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alice = create_react_agent(scripted([calling("to_bob", "h1")]), [to_bob], name="alice")
        bob = create_react_agent(scripted("bob here"), [], name="bob")
    builder = graphs.StateGraph(graphs.MessagesState)
    builder.add_node("alice", alice, destinations=("bob",))
    builder.add_node("bob", bob)
    builder.add_edge(graphs.START, "alice")
    builder.compile().invoke(HELLO, recorder.config())
    (handoff,) = told(ledger, "handoff")
    assert (handoff.payload["from"], handoff.payload["to"]) == ("alice", "bob")
    assert ledger.get(handoff.causation_id).event_type == "execution.tool_call"
    assert told(ledger, "tool_result")[0].payload["result"] == "moved"
    assert told(ledger, "message")[-1].payload["name"] == "bob"
    answered = ledger.get(told(ledger, "model_call")[-1].causation_id)
    assert (answered.payload["node"], answered.payload["agent"]) == ("agent", "bob")
    assert said(ledger, "user") == ["Hello"]


# --- messages ------------------------------------------------------------------------------------------------


def test_a_message_that_a_node_makes_itself_is_recorded(ledger: Any, recorder: Any) -> None:
    graph = of_graph(
        {"note": lambda state: {"messages": [messages.AIMessage("checked")]}}, (graphs.START, "note")
    )
    graph.invoke(HELLO, recorder.config())
    assert said(ledger) == ["Hello", "checked"]
    assert told(ledger, "message")[-1].payload["name"] == "note"


def test_a_model_answer_in_a_message_of_the_node_is_recorded_once(ledger: Any, recorder: Any) -> None:
    model = scripted("draft")

    def write(state: Any) -> Any:
        return {"messages": [messages.AIMessage(model.invoke(state["messages"]).content)]}

    of_graph({"write": write}, (graphs.START, "write")).invoke(HELLO, recorder.config())
    assert said(ledger, "assistant") == ["draft"]


def test_a_prompt_that_is_made_for_a_model_is_recorded_and_the_state_is_not_again(
    ledger: Any, recorder: Any
) -> None:
    model = scripted("one", "two")

    def write(state: Any) -> Any:
        prompt = [messages.SystemMessage("Be brief."), *state["messages"]]
        return {"messages": [model.invoke(prompt)]}

    graph = of_graph({"a": write, "b": write}, (graphs.START, "a"), ("a", "b"), checkpointer=InMemorySaver())
    graph.invoke(HELLO, recorder.config("t"))
    assert said(ledger) == ["Hello", "Be brief.", "one", "two"]


def test_a_second_turn_of_a_thread_records_what_is_new(ledger: Any, recorder: Any) -> None:
    graph = agent("alpha", scripted("one", "two"), checkpointer=InMemorySaver())
    graph.invoke(HELLO, recorder.config("t"))
    graph.invoke({"messages": [("user", "And now?")]}, recorder.config("t"))
    assert said(ledger) == ["Hello", "one", "And now?", "two"]
    assert kinds(ledger).count("run_started") == 2
    assert {entry.correlation_id for entry in ledger.read()} == {"t"}


def test_the_rest_of_the_state_is_told_with_the_node_that_changed_it(ledger: Any, recorder: Any) -> None:
    class State(graphs.MessagesState):
        count: int

    builder = graphs.StateGraph(State)
    builder.add_node("a", lambda state: {"count": state["count"] + 1})
    builder.add_edge(graphs.START, "a")
    builder.compile(name="counter").invoke({**HELLO, "count": 1}, recorder.config())
    assert told(ledger, "run_started")[0].payload["input"] == {"count": 1}
    assert told(ledger, "state_change")[-1].payload["value"] == {"count": 2}
    assert told(ledger, "run_completed")[0].payload["output"] == {"message": "Hello", "count": 2}


# --- without a graph -----------------------------------------------------------------------------------------


def test_a_chain_a_model_and_a_tool_by_themselves_are_runs(ledger: Any, recorder: Any) -> None:
    from langchain_core.prompts import ChatPromptTemplate

    prompt = ChatPromptTemplate.from_messages([("system", "Be kind."), ("user", "{question}")])
    (prompt | scripted("yes")).invoke({"question": "Well?"}, recorder.config(name="answering"))
    scripted("direct").invoke("Hello", recorder.config())
    tools.tool(add).invoke({"a": 1, "b": 2}, recorder.config())
    assert [one.payload["name"] for one in told(ledger, "run_started")] == [
        "answering",
        "ScriptedModel",
        "add",
    ]
    assert said(ledger) == ["Be kind.", "Well?", "yes", "Hello", "direct"]
    assert [one.payload["output"] for one in told(ledger, "run_completed")] == ["yes", "direct", 3]


def test_what_ends_a_run_is_recorded_with_its_end(ledger: Any, recorder: Any, monkeypatch: Any) -> None:
    batches: list[list[str]] = []
    record_many = ledger.record_many

    def watched(events: Any) -> Any:
        batches.append([event["event_type"].partition(".")[2] for event in events])
        return record_many(events)

    monkeypatch.setattr(ledger, "record_many", watched)
    scripted("direct").invoke("Hello", recorder.config())
    with pytest.raises(RuntimeError, match="down"):
        scripted(RuntimeError("down")).invoke("Hello", recorder.config())
    tools.tool(add).invoke({"a": 1, "b": 2}, recorder.config())
    assert [batch for batch in batches if batch[-1].startswith("run_") and len(batch) > 1] == [
        ["model_call", "message", "run_completed"],
        ["model_call", "run_failed"],
        ["tool_result", "run_completed"],
    ]


def test_a_retriever_is_told_with_what_it_found(ledger: Any, recorder: Any) -> None:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Shelf(BaseRetriever):  # type: ignore[misc]
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            return [Document("Bruges", id="d1", metadata={"page": 3})]

    Shelf().invoke("city", recorder.config())
    (found,) = told(ledger, "retrieval")
    assert found.payload["query"] == "city"
    assert found.payload["documents"] == [{"id": "d1", "content": "Bruges", "metadata": {"page": 3}}]


def test_a_model_inside_of_a_tool_is_a_child_run(ledger: Any, recorder: Any) -> None:
    helper = scripted("helped")

    def help_me(question: str) -> str:
        """Ask a model."""
        return str(helper.invoke(question).content)

    graph = agent("alpha", scripted([calling("help_me", question="How?")], "done"), [help_me])
    graph.invoke(HELLO, recorder.config())
    child = told(ledger, "run_started")[1]
    assert ledger.get(child.causation_id).event_type == "execution.tool_call"
    parent = told(ledger)[0].correlation_id
    assert [one.payload["parts"][0].get("content") for one in told(ledger, "message")] == [
        "Hello",
        None,
        "How?",
        "helped",
        "done",
    ]
    assert child.correlation_id != parent


# --- people --------------------------------------------------------------------------------------------------


def test_a_breakpoint_pauses_the_run_without_a_question(ledger: Any, recorder: Any) -> None:
    asking = [calling("add", a=1, b=2)]
    graph = agent("alpha", scripted(asking, "ok"), [add], InMemorySaver(), interrupt_before=["tools"])
    graph.invoke(HELLO, recorder.config("t"))
    graph.invoke(None, recorder.config("t"))
    (paused,) = told(ledger, "run_paused")
    (resumed,) = told(ledger, "run_resumed")
    assert paused.payload["reason"] == "interrupt_before"
    assert resumed.causation_id == paused.event_id
    assert "human_input_requested" not in kinds(ledger)


def test_an_interrupt_inside_of_a_child_run_is_asked_and_answered_where_the_user_called(
    ledger: Any, recorder: Any
) -> None:
    def asking(state: Any) -> Any:
        return {"messages": [messages.AIMessage(str(types.interrupt("Sure?")))]}

    child = of_graph({"ask": asking}, (graphs.START, "ask"), name="child")

    def ask_child(question: str) -> str:
        """Ask the child."""
        return str(child.invoke({"messages": [("user", question)]})["messages"][-1].content)

    model = scripted([calling("ask_child", question="hi")], "approved")
    graph = agent("alpha", model, [ask_child], InMemorySaver())
    graph.invoke(HELLO, recorder.config("t"))
    graph.invoke(types.Command(resume="yes"), recorder.config("t"))
    (question,) = told(ledger, "human_input_requested")
    (answer,) = told(ledger, "human_input_received")
    assert question.correlation_id == answer.correlation_id == "t"
    pauses = told(ledger, "run_paused")
    assert question.causation_id == pauses[0].event_id
    assert pauses[0].correlation_id != "t"
    assert told(ledger, "run_resumed")[1].correlation_id == pauses[0].correlation_id
    assert len(told(ledger, "tool_call")) == len(told(ledger, "tool_result")) == 1


def test_a_child_run_of_another_turn_does_not_go_on_with_one_that_was_never_answered(
    ledger: Any, recorder: Any
) -> None:
    def asking(state: Any) -> Any:
        if state["messages"][-1].content == "first":
            types.interrupt("Sure?")
        return {"messages": [messages.AIMessage("fine")]}

    child = of_graph({"ask": asking}, (graphs.START, "ask"), name="child")

    def ask_child(question: str) -> str:
        """Ask the child."""
        return str(child.invoke({"messages": [("user", question)]})["messages"][-1].content)

    asked = [[calling("ask_child", "call_1", question=text)] for text in ("first", "second")]
    memory = InMemorySaver()
    agent("alpha", scripted(asked[0]), [ask_child], memory).invoke(HELLO, recorder.config("t"))
    agent("alpha", scripted(asked[1], "done"), [ask_child], memory).invoke(HELLO, recorder.config("t"))
    begun = [one for one in told(ledger, "run_started", "run_resumed") if one.payload["name"] == "child"]
    assert [one.event_type for one in begun] == ["execution.run_started"] * 2
    assert len({one.correlation_id for one in begun}) == 2


def test_two_questions_of_one_step_get_their_own_answers(ledger: Any, recorder: Any) -> None:
    def asking(name: str) -> Any:
        return lambda state: {"messages": [messages.AIMessage(f"{name} {types.interrupt(name)}")]}

    graph = of_graph(
        {"a": asking("a"), "b": asking("b")},
        (graphs.START, "a"),
        (graphs.START, "b"),
        checkpointer=InMemorySaver(),
    )
    state = graph.invoke(HELLO, recorder.config("t"))
    answers = {one.id: f"to {one.value}" for one in state["__interrupt__"]}
    graph.invoke(types.Command(resume=answers), recorder.config("t"))
    asked = {one.payload["question_id"]: one for one in told(ledger, "human_input_requested")}
    assert {one.payload["question"] for one in asked.values()} == {"a", "b"}
    for answer in told(ledger, "human_input_received"):
        question = asked[answer.payload["answers"]]
        assert answer.causation_id == question.event_id
        assert answer.payload["answer"] == f"to {question.payload['question']}"
    assert len(asked) == len(told(ledger, "human_input_received")) == 2


def test_an_approval_by_a_middleware_is_told_with_its_decision(ledger: Any, recorder: Any) -> None:
    def approve(state: Any) -> Any:
        asked = {"action_requests": [{"name": "book", "args": {}}], "review_configs": []}
        decided = types.interrupt(asked)["decisions"][0]["type"]
        return {"messages": [messages.AIMessage(decided)]}

    graph = of_graph({"approve": approve}, (graphs.START, "approve"), checkpointer=InMemorySaver())
    graph.invoke(HELLO, recorder.config("t"))
    graph.invoke(types.Command(resume={"decisions": [{"type": "approve"}]}), recorder.config("t"))
    assert told(ledger, "human_input_requested")[0].payload["kind"] == "approval"
    assert told(ledger, "human_input_received")[0].payload["decision"] == "approved"


# --- ends ----------------------------------------------------------------------------------------------------


def test_a_cancelled_graph_is_a_cancelled_run(ledger: Any, recorder: Any) -> None:
    begun = asyncio.Event()

    async def wait(state: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    graph = of_graph({"wait": wait}, (graphs.START, "wait"))

    async def main() -> None:
        task = asyncio.create_task(graph.ainvoke(HELLO, recorder.config()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert kinds(ledger)[-1] == "run_cancelled"
    assert steps(ledger)[-1] == ("wait", "cancelled")


def test_a_stream_that_is_closed_early_is_a_cancelled_run(ledger: Any, recorder: Any) -> None:
    graph = agent("alpha", scripted([calling("add", a=1, b=2)], "ok"), [add])
    stream = graph.stream(HELLO, recorder.config())
    next(stream)
    stream.close()
    assert kinds(ledger)[-1] == "run_cancelled"


def test_a_graph_out_of_steps_is_a_failed_run(ledger: Any, recorder: Any) -> None:
    from langgraph.errors import GraphRecursionError

    graph = of_graph({"a": lambda state: {}}, (graphs.START, "a"), ("a", "a"))
    with pytest.raises(GraphRecursionError):
        graph.invoke(HELLO, {**recorder.config(), "recursion_limit": 2})
    assert told(ledger)[-1].payload["error"]["type"] == "GraphRecursionError"


# --- what else runs inside -----------------------------------------------------------------------------------


def test_code_in_parallel_tools_and_nodes_records_under_the_call_or_node_it_is_in(
    ledger: Any, recorder: Any
) -> None:
    together = threading.Barrier(3, timeout=20)

    def probe(n: int) -> int:
        """Record something."""
        together.wait()
        ledger.record("user.note", {"n": n})
        return n

    def own(state: Any) -> Any:
        ledger.record("user.note", {"n": -1})
        return {}

    asking = [calling("probe", f"c{n}", n=n) for n in range(3)]
    inner = agent("alpha", scripted(asking, "ok"), [probe])
    graph = of_graph({"inner": inner, "own": own}, (graphs.START, "inner"), ("inner", "own"))
    graph.invoke(HELLO, recorder.config("t"))
    notes = {one.payload["n"]: one for one in ledger.read(event_type="user.note")}
    for n in range(3):
        assert ledger.get(notes[n].causation_id).payload["call_id"] == f"c{n}"
    assert ledger.get(notes[-1].causation_id).payload["node"] == "own"
    assert {one.correlation_id for one in notes.values()} == {"t"}


def test_another_recorder_inside_of_a_node_makes_a_child_run(ledger: Any, recorder: Any) -> None:
    from chatsnapshot.adapters.custom import RuntimeRecorder

    other = RuntimeRecorder(ledger, runtime="other")

    def call(state: Any) -> Any:
        run = other.begin("helper", key="k")
        assert run is not None
        other.record(run.started("hi"), run.completed("ho"))
        other.end(run)
        return {}

    of_graph({"call": call}, (graphs.START, "call"), name="outer").invoke(HELLO, recorder.config("t"))
    child = next(one for one in told(ledger, "run_started") if one.source.runtime == "other")
    assert ledger.get(child.causation_id).payload["node"] == "call"
    assert child.correlation_id != "t"


@in_async_code
def test_code_of_an_async_graph_records_under_its_node_and_nothing_stays_behind(
    ledger: Any, recorder: Any
) -> None:
    """The end of an async node is told in another context than its beginning."""
    later: list[asyncio.Task[None]] = []
    release = asyncio.Event()

    async def background() -> None:
        await release.wait()
        ledger.record("user.note", {"in": "background"})

    async def probe(n: int) -> int:
        """Record something."""
        ledger.record("user.note", {"in": f"tool {n}"})
        later.append(asyncio.create_task(background()))
        return n

    async def own(state: Any) -> Any:
        ledger.record("user.note", {"in": "node"})
        return {}

    inner = agent(
        "alpha", scripted([calling("probe", "c1", n=1), calling("probe", "c2", n=2)], "ok"), [probe]
    )
    graph = of_graph({"inner": inner, "own": own}, (graphs.START, "inner"), ("inner", "own"))

    async def main() -> None:
        await graph.ainvoke(HELLO, recorder.config("t"))
        with pytest.raises(chatsnapshot.InvalidEvent):
            ledger.record("user.note", {"in": "nothing"})
        await agent("beta", scripted("hi")).ainvoke(HELLO, recorder.config("u"))
        release.set()
        await asyncio.gather(*later)

        async def afterwards() -> None:
            with pytest.raises(chatsnapshot.InvalidEvent):
                ledger.record("user.note", {"in": "a task of later"})

        await asyncio.create_task(afterwards())

    asyncio.run(main())
    notes = list(ledger.read(event_type="user.note"))
    causes = [(one.payload["in"], ledger.get(one.causation_id).payload) for one in notes]
    assert {told_in: cause.get("call_id") for told_in, cause in causes if "tool" in told_in} == {
        "tool 1": "c1",
        "tool 2": "c2",
    }
    assert [cause.get("node") for told_in, cause in causes if told_in == "node"] == ["own"]
    assert {cause.get("call_id") for told_in, cause in causes if told_in == "background"} == {"c1", "c2"}
    second = next(one for one in told(ledger, "run_started") if one.correlation_id == "u")
    assert second.causation_id is None


def test_no_scope_stays_behind_in_the_task_of_an_async_graph(ledger: Any, recorder: Any) -> None:
    async def own(state: Any) -> Any:
        return {}

    graph = of_graph({"own": own}, (graphs.START, "own"))

    async def main() -> None:
        await graph.ainvoke(HELLO, recorder.config("t"))
        with pytest.raises(chatsnapshot.InvalidEvent):
            ledger.record("user.note", {"in": "nothing"})
        await graph.ainvoke(HELLO, recorder.config("u"))

    asyncio.run(main())
    assert [one.causation_id for one in told(ledger, "run_started")] == [None, None]


@in_async_code
def test_an_interrupted_async_graph_is_resumed_in_the_same_task(ledger: Any, recorder: Any) -> None:
    def asking(state: Any) -> Any:
        return {"messages": [messages.AIMessage(str(types.interrupt("Sure?")))]}

    inner = of_graph({"ask": asking}, (graphs.START, "ask"), name="inner")
    graph = of_graph({"sub": inner}, (graphs.START, "sub"), name="outer", checkpointer=InMemorySaver())

    async def main() -> None:
        await graph.ainvoke(HELLO, recorder.config("t"))
        await graph.ainvoke(types.Command(resume="yes"), recorder.config("t"))

    asyncio.run(main())
    (question,) = told(ledger, "human_input_requested")
    (answer,) = told(ledger, "human_input_received")
    (resumed,) = told(ledger, "run_resumed")
    assert answer.causation_id == question.event_id
    assert resumed.causation_id == answer.event_id
    assert {one.correlation_id for one in ledger.read()} == {"t"}


def test_a_run_that_a_tool_of_an_async_graph_starts_is_a_child_run(ledger: Any, recorder: Any) -> None:
    from chatsnapshot.adapters.custom import RuntimeRecorder

    other = RuntimeRecorder(ledger, runtime="other")

    async def ask_other(question: str) -> str:
        """Ask an agent of another runtime."""
        await asyncio.sleep(0)
        run = other.begin("helper", key=question)
        assert run is not None
        await other.arecord(run.started(question), run.completed("ho"))
        other.end(run)
        return "ho"

    model = scripted(
        [calling("ask_other", "c1", question="a"), calling("ask_other", "c2", question="b")], "ok"
    )
    asyncio.run(agent("alpha", model, [ask_other]).ainvoke(HELLO, recorder.config("t")))
    children = [one for one in told(ledger, "run_started") if one.source.runtime == "other"]
    causes = {one.payload["input"]: ledger.get(one.causation_id).payload["call_id"] for one in children}
    assert causes == {"a": "c1", "b": "c2"}
    assert "t" not in {one.correlation_id for one in children}


def test_nothing_is_left_behind_after_runs(ledger: Any, recorder: Any) -> None:
    graph = agent("alpha", scripted([calling("add", a=1, b=2)], "ok", RuntimeError("down")), [add])
    graph.invoke(HELLO, recorder.config())
    with pytest.raises(RuntimeError):
        graph.invoke(HELLO, recorder.config())
    assert recorder.handler.watch._places == {}
    assert scope._innermost.get() is None
    assert recorder.safe.runs_open == 0


# --- switched on for everything ------------------------------------------------------------------------------


def test_install_records_calls_that_name_no_recorder_until_it_is_undone(ledger: Any, recorder: Any) -> None:
    asking = [calling("add", a=1, b=2)]
    graph = agent("alpha", scripted(asking, "ok"), [add], InMemorySaver(), interrupt_before=["tools"])
    thread: Any = {"configurable": {"thread_id": "t"}}
    undo = install(recorder)
    try:
        graph.invoke(HELLO, thread)
        asyncio.run(graph.ainvoke(None, thread))
    finally:
        undo()
    assert [kind for kind in kinds(ledger) if kind.startswith("run_")] == [
        "run_started",
        "run_paused",
        "run_resumed",
        "run_completed",
    ]
    assert {one.correlation_id for one in told(ledger)} == {"t"}
    before = ledger.head
    agent("alpha", scripted("one")).invoke(HELLO)
    assert ledger.head == before


def test_install_beside_a_recorder_of_the_same_ledger_records_once(ledger: Any, recorder: Any) -> None:
    undo = install(LangGraphRecorder(ledger))
    try:
        agent("alpha", scripted("one")).invoke(HELLO, recorder.config())
    finally:
        undo()
    assert kinds(ledger).count("run_started") == 1


# --- wrong use -----------------------------------------------------------------------------------------------


def test_wrong_objects_are_refused_in_one_sentence(ledger: Any, recorder: Any) -> None:
    with pytest.raises(TypeError, match="config is a mapping"):
        recorder.config(config=["no"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="install takes a LangGraphRecorder, not object"):
        install(object())  # type: ignore[arg-type]


def test_config_keeps_what_it_is_given(recorder: Any) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    mine = BaseCallbackHandler()
    given = {"callbacks": [mine], "configurable": {"user": "u"}, "tags": ["x"]}
    made = recorder.config("t", config=given, name="n")
    assert made["callbacks"] == [mine, recorder.handler]
    assert made["configurable"] == {"user": "u", "thread_id": "t"}
    assert (made["tags"], made["run_name"]) == (["x"], "n")
    assert given == {"callbacks": [mine], "configurable": {"user": "u"}, "tags": ["x"]}

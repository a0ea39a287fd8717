"""Runs that wait for people: approvals, input, results from elsewhere, in agents, teams and workflows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatsnapshot.adapters.agno import AgnoRecorder

BOOK = [("book", {"city": "Bruges"})]


def booking(**options: Any) -> Any:
    """A tool that waits for somebody."""
    from agno.tools import tool

    @tool(**options)  # type: ignore[untyped-decorator]
    def book(city: str, nights: int = 1) -> str:
        """Book a night."""
        return f"booked {city} for {nights}"

    return book


def facts(ledger: Any, kind: str) -> list[Any]:
    return [one.payload for one in ledger.read(event_type=f"execution.{kind}")]


def test_an_approval_leads_to_the_call_that_waited(recorder: Any, ledger: Any, agent: Any, told: Any) -> None:
    alpha = recorder.attach(agent("alpha", BOOK, "approved", tools=[booking(requires_confirmation=True)]))
    output = alpha.run("Book it")
    output.requirements[0].confirm()
    alpha.continue_run(run_response=output)
    assert told()[4:10] == [
        "tool_call call_1 <- message assistant",
        "human_input_requested call_1 <- tool_call call_1",
        "run_paused alpha <- human_input_requested call_1",
        "human_input_received call_1 <- human_input_requested call_1",
        "run_resumed alpha <- human_input_received call_1",
        "tool_result call_1 <- tool_call call_1",
    ]
    assert facts(ledger, "human_input_requested")[0]["kind"] == "approval"
    assert facts(ledger, "human_input_received")[0]["decision"] == "approved"
    assert len({one.payload["run_id"] for one in ledger.read()}) == 1


def test_a_refusal_is_on_record_with_its_reason_and_as_the_result(
    recorder: Any, ledger: Any, agent: Any
) -> None:
    alpha = recorder.attach(agent("alpha", BOOK, "sorry", tools=[booking(requires_confirmation=True)]))
    output = alpha.run("Book it")
    output.requirements[0].reject("too far")
    alpha.continue_run(run_response=output)
    (answer,) = facts(ledger, "human_input_received")
    assert (answer["decision"], answer["answer"]) == ("rejected", "too far")
    (result,) = facts(ledger, "tool_result")
    assert result["is_error"] and result["error"]["message"] == "too far"


@pytest.mark.parametrize("way", ["run", "stream", "arun"])
def test_input_and_results_from_people_are_their_answers(
    recorder: Any, ledger: Any, agent: Any, way: str
) -> None:
    asking = booking(requires_user_input=True, user_input_fields=["city"])
    alpha = recorder.attach(agent("alpha", [("book", {"nights": 2})], "done", tools=[asking]))
    output = alpha.run("Book it")
    output.requirements[0].provide_user_input({"city": "Ghent"})
    if way == "run":
        alpha.continue_run(run_response=output)
    elif way == "stream":
        list(alpha.continue_run(run_response=output, stream=True))
    else:
        asyncio.run(alpha.acontinue_run(run_response=output))
    (question,), (answer,) = facts(ledger, "human_input_requested"), facts(ledger, "human_input_received")
    assert question["kind"] == "question" and question["question"]["fields"][0]["name"] == "city"
    assert answer["answer"]["city"] == "Ghent"
    assert facts(ledger, "tool_result")[0]["result"] == "booked Ghent for 2"


def test_a_result_from_elsewhere_is_the_answer_and_the_result(recorder: Any, ledger: Any, agent: Any) -> None:
    alpha = recorder.attach(agent("alpha", BOOK, "done", tools=[booking(external_execution=True)]))
    output = alpha.run("Book it")
    output.requirements[0].set_external_execution_result("booked by hand")
    alpha.continue_run(run_response=output)
    assert facts(ledger, "human_input_received")[0]["answer"] == "booked by hand"
    (result,) = facts(ledger, "tool_result")
    assert (result["is_error"], result["result"]) == (False, "booked by hand")


def test_questions_of_a_model_to_its_user_are_answered(recorder: Any, ledger: Any, agent: Any) -> None:
    from agno.tools.user_feedback import UserFeedbackTools

    asked = {
        "question": "Which city?",
        "header": "City",
        "options": [{"label": "Ghent"}, {"label": "Bruges"}],
    }
    asking = [("ask_user", {"questions": [asked]})]
    alpha = recorder.attach(agent("alpha", asking, "done", tools=[UserFeedbackTools()]))
    output = alpha.run("Book it")
    output.requirements[0].provide_user_feedback({"Which city?": ["Ghent"]})
    alpha.continue_run(run_response=output)
    assert facts(ledger, "human_input_received")[0]["answer"] == {"Which city?": ["Ghent"]}
    assert facts(ledger, "tool_result")[0]["is_error"] is False
    assert facts(ledger, "run_completed")


@pytest.mark.parametrize("way", ["run", "arun stream"])
def test_a_run_goes_on_by_its_id_with_another_recorder(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.db.in_memory import InMemoryDb

    options = {"db": InMemoryDb(), "tools": [booking(requires_confirmation=True)]}
    output = recorder.attach(agent("alpha", BOOK, **options)).run("Book it", session_id="s1")
    output.requirements[0].confirm()
    again = {"run_id": output.run_id, "session_id": "s1", "requirements": output.requirements}
    later = AgnoRecorder(ledger).attach(agent("alpha", "approved", **options))

    async def go_on() -> None:
        async for _ in later.acontinue_run(**again, stream=True):
            pass

    if way == "run":
        later.continue_run(**again)
    else:
        asyncio.run(go_on())
    assert told()[7:10] == [
        "human_input_received call_1 <- human_input_requested call_1",
        "run_resumed alpha <- human_input_received call_1",
        "tool_result call_1 <- tool_call call_1",
    ]
    assert {one.correlation_id for one in ledger.read()} == {"s1"}


def test_a_run_that_goes_on_unanswered_has_a_refused_call_and_no_answer(
    recorder: Any, ledger: Any, agent: Any, told: Any
) -> None:
    from agno.db.in_memory import InMemoryDb

    options = {"db": InMemoryDb(), "tools": [booking(requires_confirmation=True)]}
    alpha = recorder.attach(agent("alpha", BOOK, "so be it", **options))
    output = alpha.run("Book it", session_id="s1")
    alpha.continue_run(run_id=output.run_id, session_id="s1")
    assert told()[7:9] == [
        "run_resumed alpha <- human_input_requested call_1",
        "tool_result call_1 <- tool_call call_1",
    ]
    assert facts(ledger, "tool_result")[0]["is_error"] and not facts(ledger, "human_input_received")


def test_a_run_that_waits_twice_is_answered_twice(recorder: Any, agent: Any, told: Any) -> None:
    alpha = recorder.attach(agent("alpha", BOOK, BOOK, "done", tools=[booking(requires_confirmation=True)]))
    output = alpha.run("Book it")
    for _ in range(2):
        for one in output.active_requirements:
            one.confirm()
        output = alpha.continue_run(run_response=output)
    kinds = [line.partition(" <- ")[0] for line in told()]
    assert kinds.count("human_input_requested call_1") == kinds.count("human_input_received call_1") == 2
    assert kinds.count("tool_result call_1") == kinds.count("tool_call call_1") == 2
    assert kinds[-1] == "run_completed alpha"


@pytest.mark.parametrize("way", ["run", "stream", "arun"])
def test_a_member_of_a_team_that_waits_goes_on_where_it_waited(
    recorder: Any, ledger: Any, agent: Any, told: Any, way: str
) -> None:
    from agno.team import Team

    from chatsnapshot.testing.runtimes.agno import scripted

    beta = agent("beta", BOOK, "beta booked", tools=[booking(requires_confirmation=True)])
    asked = [("delegate_task_to_member", {"member_id": "beta", "task": "Book it"})]
    alpha = recorder.attach(
        Team(members=[beta], model=scripted(asked, "done"), name="alpha", telemetry=False)
    )
    output = alpha.run("Book it")
    for one in output.requirements:
        one.confirm()
    if way == "run":
        alpha.continue_run(run_response=output)
    elif way == "stream":
        list(alpha.continue_run(run_response=output, stream=True))
    else:
        asyncio.run(alpha.acontinue_run(run_response=output))
    lines = told("beta")
    assert "human_input_received call_1 <- human_input_requested call_1" in lines
    assert "tool_result call_1 <- tool_call call_1" in lines
    assert "run_resumed beta <- human_input_received call_1" in lines
    assert lines[-1] == "run_completed beta <- message assistant"
    assert "run_resumed alpha <- run_paused alpha" in told("alpha")
    both = {(one.payload["agent"], one.correlation_id) for one in ledger.read() if "run_" in one.event_type}
    assert len(both) == 2, "each goes on in its own conversation"


def test_a_step_of_a_workflow_waits_for_a_person(recorder: Any, ledger: Any, agent: Any, told: Any) -> None:
    from agno.db.in_memory import InMemoryDb
    from agno.workflow import HumanReview, Step, Workflow

    review = HumanReview(requires_confirmation=True, confirmation_message="Shall it?")
    step = Step(name="one", agent=agent("alpha", "one says"), human_review=review)
    workflow = recorder.attach(Workflow(name="flow", steps=[step], db=InMemoryDb(), telemetry=False))
    output = workflow.run("Go")
    output.step_requirements[0].confirm()
    workflow.continue_run(output)
    (question,) = facts(ledger, "human_input_requested")
    assert (question["kind"], question["question"]["message"]) == ("approval", "Shall it?")
    assert [line.partition(" ")[0] for line in told("flow")] == [
        *("run_started", "human_input_requested", "run_paused", "human_input_received", "run_resumed"),
        *("task_started", "task_completed", "run_completed"),
    ]


def test_an_agent_that_waits_in_a_step_goes_on_where_it_waited(recorder: Any, agent: Any, told: Any) -> None:
    from agno.db.in_memory import InMemoryDb
    from agno.run.requirement import RunRequirement
    from agno.workflow import Step, Workflow

    alpha = agent("alpha", BOOK, "approved", tools=[booking(requires_confirmation=True)])
    step = Step(name="one", agent=alpha)
    workflow = recorder.attach(Workflow(name="flow", steps=[step], db=InMemoryDb(), telemetry=False))
    output = workflow.run("Go")
    waiting = output.step_requirements[-1]
    found = [
        RunRequirement.from_dict(one) if isinstance(one, dict) else one
        for one in waiting.executor_requirements
    ]
    for one in found:
        one.confirm()
    waiting.executor_requirements = found
    workflow.continue_run(output)
    assert "run_resumed alpha <- human_input_received call_1" in told("alpha")
    assert told("alpha")[-1] == "run_completed alpha <- message assistant"
    assert told("flow")[-1].startswith("run_completed flow")

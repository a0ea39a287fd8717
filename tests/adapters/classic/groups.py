"""A team of the classic line in which every kind of transition happens once.

Annotations are no texts here: AG2 reads those of tools.
"""

from collections.abc import Callable
from typing import Any

from autogen import ConversableAgent
from autogen.agentchat.group import (
    AgentNameTarget,
    AgentTarget,
    ContextExpression,
    ContextVariables,
    ExpressionContextCondition,
    OnCondition,
    OnContextCondition,
    ReplyResult,
    StringLLMCondition,
    TerminateTarget,
)
from autogen.agentchat.group.patterns import DefaultPattern


def team(models: Callable[..., Any], say: Callable[..., Any], first: Any = None) -> DefaultPattern:
    """Triage routes by a tool's reply, the specialist by a condition of the model, the closer by one of the
    context, and the auditor ends the talk.
    """

    def hand_on(body: dict[str, Any]) -> Any:
        names = [tool["function"]["name"] for tool in body["tools"]]
        return say(next(name for name in names if name.startswith("transfer")))

    scripts = {"triage": [first or say("route", topic="refund")], "specialist": [hand_on], "auditor": ["bye"]}
    server = models(scripts)

    def route(topic: str, context_variables: ContextVariables) -> ReplyResult:
        """Route a topic."""
        context_variables["routed"] = True
        return ReplyResult(
            message="routing", target=AgentNameTarget("specialist"), context_variables=context_variables
        )

    triage = ConversableAgent("triage", llm_config=server.classic("triage"), functions=[route])
    specialist = ConversableAgent("specialist", llm_config=server.classic("specialist"))
    closer = ConversableAgent("closer", llm_config=server.classic("closer"))
    auditor = ConversableAgent("auditor", llm_config=server.classic("auditor"))
    specialist.handoffs.add_llm_conditions(
        [OnCondition(target=AgentTarget(closer), condition=StringLLMCondition("when done"))]
    )
    closer.handoffs.add_context_conditions(
        [
            OnContextCondition(
                target=AgentTarget(auditor),
                condition=ExpressionContextCondition(ContextExpression("${routed} == True")),
            )
        ]
    )
    auditor.handoffs.set_after_work(TerminateTarget())
    return DefaultPattern(
        initial_agent=triage,
        agents=[triage, specialist, closer, auditor],
        user_agent=ConversableAgent("customer", human_input_mode="NEVER", llm_config=False),
        context_variables=ContextVariables({"routed": False}),
    )

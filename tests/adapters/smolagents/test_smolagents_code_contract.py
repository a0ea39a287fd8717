"""Agents of smolagents that write code keep the contract of adapters, as far as its stories can be told by them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.smolagents import (
    SmolagentsBench,
    agent,
    ask_child,
    fail,
    person,
    tool,
)


class CodeBench(SmolagentsBench):
    lacks = MappingProxyType(
        {
            **SmolagentsBench.lacks,
            **dict.fromkeys(
                ("parallel_tools", "streaming"),
                "the story is one of two calls at once; code calls tools one after the other, inside of its own call",
            ),
        }
    )

    def story(self, scenario: str) -> tuple[Any, str]:
        if scenario == "sub_agent":
            return coder(
                "print(ask_child('hi'))", "final_answer('do' + 'ne')", tools=[tool(ask_child)]
            ), "Ask"
        if scenario == "interruption":
            return coder("final_answer(user_input('May it be sent?'))", tools=[person()]), "Ask"
        if scenario == "tool_error":
            return coder("fail()", "final_answer('it failed')", tools=[tool(fail)]), "Try"
        if scenario == "model_error":
            return agent("alpha", RuntimeError("model is down"), kind="CodeAgent"), "Hello"
        return coder("final_answer('Hi' + ' there')"), "Hello"


def coder(*codes: str, **options: Any) -> Any:
    return agent("alpha", *(f"<code>\n{code}\n</code>" for code in codes), kind="CodeAgent", **options)


test_the_contract = contract_tests(CodeBench)

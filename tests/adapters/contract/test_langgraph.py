"""LangGraph keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.langgraph import LangGraphBench

test_the_contract = contract_tests(LangGraphBench)

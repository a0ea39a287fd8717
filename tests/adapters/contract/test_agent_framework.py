"""The contract of adapters, kept for Microsoft Agent Framework."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.agent_framework import AgentFrameworkBench

test_the_contract = contract_tests(AgentFrameworkBench)

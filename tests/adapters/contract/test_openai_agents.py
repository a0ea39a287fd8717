"""The contract of adapters, kept for the OpenAI Agents SDK."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.openai_agents import OpenAIAgentsBench

test_the_contract = contract_tests(OpenAIAgentsBench)

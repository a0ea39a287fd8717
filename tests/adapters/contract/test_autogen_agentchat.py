"""The contract of adapters, kept for AutoGen AgentChat."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.autogen_agentchat import AutogenAgentchatBench

test_the_contract = contract_tests(AutogenAgentchatBench)

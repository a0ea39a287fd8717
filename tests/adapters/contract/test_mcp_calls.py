"""The contract of adapters, kept for clients of the Model Context Protocol."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.mcp_calls import McpBench

test_the_contract = contract_tests(McpBench)

"""The contract of adapters, kept for Pydantic AI."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.pydantic_ai import PydanticAIBench

test_the_contract = contract_tests(PydanticAIBench)

"""The contract of adapters, kept for agents of the Agent2Agent protocol."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.a2a import A2ABench

test_the_contract = contract_tests(A2ABench)

"""Agno keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.agno import AgnoBench

test_the_contract = contract_tests(AgnoBench)

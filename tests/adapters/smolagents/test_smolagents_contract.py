"""smolagents keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.smolagents import SmolagentsBench

test_the_contract = contract_tests(SmolagentsBench)

"""Strands Agents keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.strands import StrandsBench

test_the_contract = contract_tests(StrandsBench)

"""CrewAI keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.crewai import CrewAIBench

test_the_contract = contract_tests(CrewAIBench)

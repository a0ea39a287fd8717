"""A runtime of one's own, recorded through the base, keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.custom import CustomBench

test_the_contract = contract_tests(CustomBench)

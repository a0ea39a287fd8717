"""AG2 1.x keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.ag2 import AG2Bench

test_the_contract = contract_tests(AG2Bench)

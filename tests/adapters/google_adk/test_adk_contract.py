"""Google ADK keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.google_adk import GoogleADKBench

test_the_contract = contract_tests(GoogleADKBench)

"""LlamaIndex keeps the contract of adapters."""

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.llama_index import LlamaIndexBench

test_the_contract = contract_tests(LlamaIndexBench)

"""The contract of adapters, kept for the event streams of AG-UI."""

from __future__ import annotations

from chatsnapshot.testing.adapters import contract_tests
from chatsnapshot.testing.runtimes.ag_ui import AgUiBench

test_the_contract = contract_tests(AgUiBench)

"""One run that is recorded into two ledgers: by the process, and by a recorder of its own."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

import chatsnapshot
from chatsnapshot.adapters.pydantic_ai import PydanticAIRecorder, install


@pytest.mark.parametrize("given_to", ["the agent", "the run"])
def test_a_recorder_of_another_ledger_does_not_stand_in_for_the_installed_one(given_to: str) -> None:
    with chatsnapshot.open("memory:") as everything, chatsnapshot.open("memory:") as own:
        capability = PydanticAIRecorder(own).capability
        undo = install(PydanticAIRecorder(everything))
        try:
            if given_to == "the agent":
                asyncio.run(Agent(TestModel(), capabilities=[capability]).run("Hello"))
            else:
                asyncio.run(Agent(TestModel()).run("Hello", capabilities=[capability]))
        finally:
            undo()
        first, second = ([entry.event_type for entry in one.read()] for one in (everything, own))
        assert first == second and first[-1] == "execution.run_completed"

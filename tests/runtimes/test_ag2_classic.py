"""The loop of one's own over the classic AG2 line, at whatever version of it is installed."""

from __future__ import annotations

import autogen
import pytest

import chatsnapshot
from chatsnapshot.adapters.ag2 import map_event, normalize

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning")
]  # of the runtime, which is not ours to change


def test_a_conversation_of_two_agents_is_recorded_in_order() -> None:
    asking = autogen.ConversableAgent(
        "asking", llm_config=False, human_input_mode="NEVER", default_auto_reply="Really?"
    )
    telling = autogen.ConversableAgent(
        "telling", llm_config=False, human_input_mode="NEVER", default_auto_reply="Really."
    )
    with chatsnapshot.open("memory:") as ledger:
        for event in asking.run_iter(telling, message="Is it so?", max_turns=2):
            ledger.record(map_event(event), normalize(event), correlation_id="run-1")
        said = [
            (entry.payload["name"], entry.payload["parts"][0]["content"])
            for entry in ledger.read(event_type="execution.message")
        ]
        assert said == [
            ("asking", "Is it so?"),
            ("telling", "Really."),
            ("asking", "Really?"),
            ("telling", "Really."),
        ]
        assert ledger.verify().ok

"""AutoGen AgentChat (the package ``autogen_agentchat``): its agents and teams, as runs of a ledger.

The classic line, whose module is ``autogen``, is recorded by :mod:`chatsnapshot.adapters.ag2`.
"""

from __future__ import annotations

from chatsnapshot.adapters.autogen_agentchat.recorder import AgentChatRecorder, install

__all__ = ["AgentChatRecorder", "install"]

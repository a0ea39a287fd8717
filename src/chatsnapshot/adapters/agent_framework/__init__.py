"""Microsoft Agent Framework: agents, their tools and models, approvals, and workflows, as runs of a ledger."""

from __future__ import annotations

from chatsnapshot.adapters.agent_framework.recorder import AgentFrameworkRecorder, install

__all__ = ["AgentFrameworkRecorder", "install"]

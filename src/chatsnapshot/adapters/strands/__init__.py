"""Strands Agents: agents, their tools and models, interrupts, and swarms and graphs of them, as runs of a ledger."""

from __future__ import annotations

from chatsnapshot.adapters.strands.installing import install
from chatsnapshot.adapters.strands.recorder import StrandsRecorder

__all__ = ["StrandsRecorder", "install"]

"""LlamaIndex: agents, workflows, engines, retrievers and models, questions to people, as runs of a ledger."""

from __future__ import annotations

from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder, install

__all__ = ["LlamaIndexRecorder", "install"]

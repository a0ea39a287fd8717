"""Inspect logs: each sample of an evaluation a run of its own, under the run of the evaluation."""

from chatsnapshot.importers.inspect_ai.log import InspectLogs

__all__ = ["InspectLogs"]

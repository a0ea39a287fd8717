"""The Agent2Agent protocol: tasks of served agents as runs, and the calls of clients.

Importing this does not import ``a2a``.
"""

from __future__ import annotations

from chatsnapshot.adapters.a2a.recorder import A2ARecorder

__all__ = ["A2ARecorder"]

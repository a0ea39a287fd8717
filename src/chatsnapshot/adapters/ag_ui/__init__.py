"""The Agent-User Interaction protocol: the runs in its event streams, as server or as client.

Importing this imports no package of AG-UI, and recording needs none: events are read by their wire form.
"""

from __future__ import annotations

from chatsnapshot.adapters.ag_ui.recorder import AgUiRecorder

__all__ = ["AgUiRecorder"]

"""How a recorded process is named to the processes that it starts: one environment variable."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping

from chatsnapshot.adapters.places import Parent
from chatsnapshot.clock import uuid_bytes, uuid_text

__all__ = ["LEDGER", "PARENT", "parent_in", "parent_text", "same_place"]

LEDGER = "CHATSNAPSHOT_LEDGER"
PARENT = "CHATSNAPSHOT_PARENT"
"""The run of the process, as a JSON array of correlation, event id, run id, and where process ids are its own."""


def parent_text(parent: Parent) -> str:
    """The parent as the environment carries it."""
    return json.dumps([parent.correlation_id, parent.cause, parent.run_id, _place()])


def parent_in(environment: Mapping[str, str] = os.environ) -> Parent | None:
    """The parent that an environment names; ``None`` where it names none that can be read."""
    try:
        correlation_id, cause, run_id, *_ = json.loads(environment.get(PARENT, ""))
        if isinstance(correlation_id, str) and isinstance(run_id, str):
            return Parent(run_id, uuid_text(uuid_bytes(cause)), None, correlation_id)
    except Exception:
        pass  # somebody else's, or none
    return None


def same_place(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a process id means the same process here and to the parent that an environment names."""
    try:
        return bool(json.loads(environment.get(PARENT, ""))[3] == _place())
    except Exception:
        return False


def _place() -> str:
    """The machine since it was started, and the namespace of process ids in it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return f"{boot.read().strip()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return platform.node()

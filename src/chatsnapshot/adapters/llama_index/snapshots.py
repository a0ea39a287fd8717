"""Which conversation a workflow goes on with: its snapshot is known by when its loop last moved."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.looking import looked

if TYPE_CHECKING:
    from chatsnapshot.adapters.llama_index.recorder import LlamaIndexRecorder

__all__ = ["Snapshots"]

_KNOWN_MAX = 10_000
_LOOKED_AT_MAX = 500
_SECONDS_MAX = 0.25
"""How long a search may hold up the event loop."""


class Snapshots:
    """The conversations of the snapshots of one recorder. LlamaIndex gives a snapshot no id.

    It has the time of the last thing that happened, to the microsecond: in the context itself, in what ``to_dict``
    gives, and in a context made from that. In another process it is found with the pauses in the ledger.
    """

    def __init__(self, recorder: LlamaIndexRecorder) -> None:
        self._recorder = recorder
        self._known: OrderedDict[float, str] = OrderedDict()

    def keep(self, stamp: float | None, correlation_id: str) -> None:
        """A snapshot of that time belongs to this conversation."""
        if stamp is not None:
            self._known[stamp] = correlation_id
            if len(self._known) > _KNOWN_MAX:
                self._known.popitem(last=False)

    def conversation(self, stamp: Any, *, waiting: bool) -> str | None:
        """The conversation of a snapshot; of one that is ``waiting`` also the ledger is asked."""
        if not isinstance(stamp, float):
            return None
        known = self._known.get(stamp)
        if known is None and waiting and not self._recorder.safe.kept:
            known = self._in_ledger(stamp)
        return known

    def _in_ledger(self, stamp: float) -> str | None:
        ledger, runtime = self._recorder.ledger, self._recorder.runtime

        def look() -> str | None:
            entries = ledger.read(
                event_type="execution.run_paused", runtime=runtime, reverse=True, limit=_LOOKED_AT_MAX
            )
            for entry in entries:
                native = entry.payload.get("native") if isinstance(entry.payload, dict) else None
                if isinstance(native, dict) and native.get("moved_at") == stamp:
                    return str(entry.correlation_id)
            return None

        return looked(_SECONDS_MAX, look)

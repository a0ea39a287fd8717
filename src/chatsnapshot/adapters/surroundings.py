"""What a run happens in, where a runtime has runs inside of runs that no tool call is around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatsnapshot.adapters.places import Parent

if TYPE_CHECKING:
    from chatsnapshot.adapters.observed import ObservedRun

__all__ = ["parent_of"]


def parent_of(
    here: Parent | None, outer: ObservedRun | None, around: str | None, call_id: str | None = None
) -> Parent | None:
    """The parent of a run that begins here; ``None`` for a run that is no child.

    ``here`` is the tool call or scope around (``recorder.parent_here()``), ``outer`` the run of the same runtime whose
    code this is (a guardrail, an instruction, a hook), ``around`` what caused the code around that one. ``call_id`` is
    the tool call of ``outer`` that the run answers, where the runtime says so.
    """
    if outer is None or outer.ended is not None:
        return here if here is not None and here.inside_tool else None
    if here is not None and here.cause != around:
        return here  # a tool, or a scope of the user's, inside of the outer run
    cause = outer.calls.get(call_id or "") or outer.started_event
    return Parent(outer.run_id, cause, outer.agent, outer.correlation_id, True)

"""Which correlations hang under one: the rule, and its query for stores that keep their entries in an SQLite table.

A correlation hangs under the one that holds the cause of its first event. One that is exported from the inside out begins
with an inner event, whose cause is in the correlation itself: then its first later ``execution.run_started`` tells.
"""

from __future__ import annotations

__all__ = ["RUN_STARTED", "children_query", "hangs_late"]

RUN_STARTED = "execution.run_started"


def hangs_late(event_type: str, sequence: int, causation_id: object) -> bool:
    """Whether an entry may tell, after the first event of its correlation, where that hangs."""
    return sequence > 1 and causation_id is not None and event_type == RUN_STARTED


def children_query(
    entry: str, late: str = f"{{of}}.event_type = '{RUN_STARTED}' AND {{of}}.sequence > 1"
) -> str:
    """The query for the children of the correlation ``?1``, by their first position.

    ``entry`` is the table; ``late`` the condition that an entry ``{of}`` that has a cause satisfies :func:`hangs_late`.
    """
    return (
        f"SELECT child.correlation_id, child.position FROM {entry} AS parent JOIN {entry} AS child "
        "ON child.causation_id = parent.event_id AND child.sequence = 1 "
        "WHERE parent.correlation_id = ?1 AND child.correlation_id <> ?1 "
        "UNION "
        f"SELECT first.correlation_id, first.position FROM {entry} AS parent JOIN {entry} AS child "
        f"ON child.causation_id = parent.event_id AND {late.format(of='child')} "
        f"JOIN {entry} AS first ON first.correlation_id = child.correlation_id AND first.sequence = 1 "
        "WHERE parent.correlation_id = ?1 AND child.correlation_id <> ?1 "
        f"AND EXISTS (SELECT 1 FROM {entry} AS inside "
        "WHERE inside.event_id = first.causation_id AND inside.correlation_id = first.correlation_id) "
        f"AND NOT EXISTS (SELECT 1 FROM {entry} AS before WHERE before.correlation_id = child.correlation_id "
        f"AND before.sequence < child.sequence AND before.causation_id IS NOT NULL AND {late.format(of='before')}) "
        "ORDER BY 2"
    )

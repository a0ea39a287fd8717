"""Views of a SQLite ledger for people with SQL: ``ledger_events`` and ``ledger_runs`` (``docs/sql.md``).

They are no part of the format: nothing here reads them, and a ledger without them is whole. They keep to what SQLite 3.35
knows; every column that is computed is cast, so that SQLite from 3.41 on can tell its type to programs that ask.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw

__all__ = ["make_views"]


def _uuid(column: str) -> str:
    """16 bytes as the usual 36 characters."""
    parts = [
        f"substr(hex({column}), {start}, {count})"
        for start, count in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    ]
    return f"CAST(lower({' || '.join(chr(39) + '-' + chr(39) if n % 2 else parts[n // 2] for n in range(9))}) AS TEXT)"


def _text(document: str, path: str, inside: str) -> str:
    """The value at a path (an SQL expression) as text; of an object the value at a key inside it."""
    return (
        f"CAST(CASE json_type({document}, {path}) WHEN 'object' THEN json_extract({document}, {path} || '.{inside}') "
        f"ELSE json_extract({document}, {path}) END AS TEXT)"
    )


def _json(payload: str) -> str:
    """A stored payload as JSON text; nothing when it was erased or damaged, so that one row spoils no query."""
    return f"CASE WHEN json_valid(CAST({payload} AS TEXT)) THEN CAST({payload} AS TEXT) END"


_EVENTS = f"""CREATE VIEW IF NOT EXISTS {{ledger_events}} AS SELECT
  position,
  sequence,
  recorded_at,
  {_uuid("event_id")} AS event_id,
  event_type,
  timestamp,
  CAST(json_extract(source, '$.origin') AS TEXT) AS origin,
  CAST(json_extract(source, '$.runtime') AS TEXT) AS runtime,
  CAST(json_extract(source, '$.name') AS TEXT) AS name,
  correlation_id,
  CAST(nullif({_uuid("causation_id")}, '----') AS TEXT) AS causation_id,
  CAST(payload AS TEXT) AS payload,
  CAST(coalesce(schema_version, 1) AS INTEGER) AS schema_version,
  attributes,
  payload_bytes,
  CAST(payload IS NULL AS INTEGER) AS erased
FROM {{entry}}"""

_STARTS = (
    "'execution.run_started', 'execution.run_resumed', 'system.workflow_started', 'system.workflow_resumed'"
)
_ENDS = ", ".join(
    f"'{kind}_{end}'"
    for kind in ("execution.run", "system.workflow")
    for end in ("completed", "failed", "cancelled", "paused")
)


# An end without an id belongs to what began last, found by the greatest position that stands before its id. The last
# start or end of a run decides on its status. Sequences are dense, so events are counted without being read.
_RUNS = f"""CREATE VIEW IF NOT EXISTS {{ledger_runs}} AS
WITH step AS (
  SELECT position, correlation_id, event_type IN ({_STARTS}) AS begins, {_json("payload")} AS facts,
    CASE WHEN event_type LIKE 'execution.%' THEN 'run' ELSE 'workflow' END AS kind
  FROM {{entry}} WHERE event_type IN ({_STARTS}, {_ENDS})
), told AS (
  SELECT position, correlation_id, begins, kind, {_text("facts", "'$.' || kind || '_id'", "value")} AS own FROM step
), named AS (
  SELECT position, correlation_id, kind, begins, coalesce(own,
    substr(max(CASE WHEN begins THEN printf('%020d', position) || coalesce(own, correlation_id) END)
      OVER (PARTITION BY correlation_id, kind ORDER BY position), 21), correlation_id) AS run_id
  FROM told
), span AS (
  SELECT run_id, correlation_id, kind, min(position) AS first, max(position) AS latest,
    min(CASE WHEN begins THEN position END) AS began
  FROM named GROUP BY run_id, correlation_id, kind
), found AS (
  SELECT span.*, latest.event_type IN ({_STARTS}) AS unfinished, latest.event_type AS latest_type,
    latest.timestamp AS latest_at, latest.sequence AS latest_sequence, {_json("latest.payload")} AS facts,
    start.timestamp AS started_at, {_json("start.payload")} AS start_facts
  FROM span JOIN {{entry}} AS latest ON latest.position = span.latest
  LEFT JOIN {{entry}} AS start ON start.position = span.began
)
SELECT
  CAST(run_id AS TEXT) AS run_id,
  found.correlation_id AS correlation_id,
  CAST(kind AS TEXT) AS kind,
  {_text("start_facts", "'$.name'", "name")} AS name,
  CAST(CASE WHEN unfinished THEN 'unfinished'
    ELSE substr(latest_type, instr(latest_type, '_') + 1) END AS TEXT) AS status,
  started_at,
  CAST(CASE WHEN NOT unfinished THEN latest_at END AS TEXT) AS ended_at,
  CAST(CASE WHEN unfinished THEN last.sequence ELSE latest_sequence END - initial.sequence + 1 AS INTEGER) AS events,
  CAST(first AS INTEGER) AS first_position,
  CAST(CASE WHEN unfinished THEN last.position ELSE latest END AS INTEGER) AS last_position,
  CAST(CASE WHEN NOT unfinished THEN CASE json_type(facts, '$.error') WHEN 'object'
    THEN coalesce(json_extract(facts, '$.error.type') || ': ', '') || coalesce(json_extract(facts, '$.error.message'), '')
    ELSE json_extract(facts, '$.error') END END AS TEXT) AS error
FROM found
JOIN {{entry}} AS initial ON initial.position = found.first
JOIN {{entry}} AS last ON last.correlation_id = found.correlation_id
  AND last.sequence = (SELECT max(sequence) FROM {{entry}} AS e WHERE e.correlation_id = found.correlation_id)"""


def make_views(db: apsw.Connection, names: Mapping[str, str]) -> None:
    """Make the views of a ledger, inside the caller's transaction."""
    for sql in (_EVENTS, _RUNS):
        db.execute(sql.format_map(names))

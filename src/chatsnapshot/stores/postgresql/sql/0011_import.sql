-- Takes whole entries as they are, right after the head. The client holds the lock and has checked each of them.

CREATE FUNCTION chatsnapshot.import(
  p_ledger integer,
  p_first bigint,
  p_sequence bigint[],
  p_recorded_at text[],
  p_event_id uuid[],
  p_event_type text[],
  p_timestamp text[],
  p_source text[],
  p_correlation_id text[],
  p_causation_id uuid[],
  p_payload bytea[],
  p_schema_version bigint[],
  p_attributes text[],
  p_leaf bytea[],
  p_salt bytea[],
  p_commitment bytea[],
  p_payload_bytes integer[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET chatsnapshot.writing = 'on' AS $$
DECLARE
  v_count integer := cardinality(p_event_id);
  v_size bigint;
  v_frontier bytea;
  v_payload_end bigint;
BEGIN
  PERFORM chatsnapshot.lock(p_ledger);
  SELECT h.size, h.frontier, h.payload_end INTO STRICT v_size, v_frontier, v_payload_end
    FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  IF p_first <> v_size + 1 THEN
    RAISE EXCEPTION 'the next position is %, not %', v_size + 1, p_first USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF v_size + v_count > v_payload_end THEN
    v_payload_end := chatsnapshot.open_payloads(p_ledger, v_size + v_count);
  END IF;
  SELECT chatsnapshot.grow(p_ledger, v_size, v_frontier, string_agg(l.leaf, '' ORDER BY l.nth)) INTO v_frontier
    FROM unnest(p_leaf) WITH ORDINALITY AS l(leaf, nth);
  INSERT INTO chatsnapshot.entry (
    ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
    schema_version, attributes, leaf, commitment, payload_bytes)
  SELECT
    p_ledger, v_size + e.nth, e.sequence, e.recorded_at, e.event_id, e.event_type, e."timestamp", e.source,
    e.correlation_id, e.causation_id, e.schema_version, e.attributes, e.leaf, e.commitment, e.payload_bytes
  FROM unnest(
    p_sequence, p_recorded_at, p_event_id, p_event_type, p_timestamp, p_source, p_correlation_id, p_causation_id,
    p_schema_version, p_attributes, p_leaf, p_commitment, p_payload_bytes
  ) WITH ORDINALITY AS e(
    sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id, schema_version,
    attributes, leaf, commitment, payload_bytes, nth)
  ORDER BY e.nth;
  INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
    SELECT p_ledger, v_size + p.nth, p.salt, p.payload
    FROM unnest(p_salt, p_payload) WITH ORDINALITY AS p(salt, payload, nth) ORDER BY p.nth;
  UPDATE chatsnapshot.head AS h
    SET size = v_size + v_count, frontier = v_frontier, recorded_at = p_recorded_at[v_count], payload_end = v_payload_end
    WHERE h.ledger = p_ledger;
  PERFORM pg_notify('chatsnapshot_' || p_ledger, '');
END
$$;

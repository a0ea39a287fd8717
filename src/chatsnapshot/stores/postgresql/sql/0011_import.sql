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
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_writing text := set_config('chatsnapshot.writing', 'on', true); -- what the triggers ask for
  v_count integer := cardinality(p_event_id);
  v_size bigint;
  v_frontier bytea;
  v_payload_end bigint;
  v_leaves bytea;
BEGIN
  PERFORM chatsnapshot.lock(p_ledger);
  SELECT h.size, h.frontier, h.payload_end INTO STRICT v_size, v_frontier, v_payload_end
    FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  IF p_first <> v_size + 1 THEN
    RAISE EXCEPTION 'the next position is %, not %', v_size + 1, p_first USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
  IF EXISTS (SELECT FROM generate_series(1, v_count) AS i WHERE (p_salt[i] IS NULL) <> (p_payload[i] IS NULL)) THEN
    RAISE EXCEPTION 'salt and payload are given both or not at all' USING ERRCODE = 'check_violation';
  END IF;
  IF v_size + v_count > v_payload_end THEN
    v_payload_end := chatsnapshot.open_payloads(p_ledger, v_size + v_count);
  END IF;
  SELECT string_agg(p_leaf[i], '' ORDER BY i) INTO v_leaves FROM generate_series(1, v_count) AS i;
  v_frontier := chatsnapshot.grow(p_ledger, v_size, v_frontier, v_leaves);
  INSERT INTO chatsnapshot.entry (
    ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
    schema_version, attributes, leaf, commitment, payload_bytes)
  SELECT
    p_ledger, v_size + i, p_sequence[i], p_recorded_at[i], p_event_id[i], p_event_type[i], p_timestamp[i], p_source[i],
    p_correlation_id[i], p_causation_id[i], p_schema_version[i], p_attributes[i], p_leaf[i], p_commitment[i],
    p_payload_bytes[i]
  FROM generate_series(1, v_count) AS i;
  INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
    SELECT p_ledger, v_size + i, p_salt[i], p_payload[i] FROM generate_series(1, v_count) AS i;
  UPDATE chatsnapshot.head AS h
    SET size = v_size + v_count, frontier = v_frontier, recorded_at = p_recorded_at[v_count], payload_end = v_payload_end
    WHERE h.ledger = p_ledger;
  PERFORM pg_notify('chatsnapshot_' || p_ledger, '');
END
$$;

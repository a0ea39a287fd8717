-- Appends events in one call: one lock, one commit, positions and sequences without a hole.
-- Writes nothing and says so in `outcome` when an id of p_check is in the ledger already ('known'), or when the clock is
-- more than 5 s behind the last entry and that is not recorded yet ('behind'): the client then decides under the lock.

CREATE FUNCTION chatsnapshot.append(
  p_ledger integer,
  p_clock text,           -- the ledger's clock, YYYY-MM-DDTHH:MM:SS.ffffffZ
  p_noted boolean,        -- whether the ledger says already that the clock is behind
  p_check uuid[],         -- ids that may be known; those just made cannot be
  p_correlations text[],  -- the different correlations of the batch
  p_which integer[],      -- for each event the number of its correlation in p_correlations
  p_nth integer[],        -- and which of the events of that correlation it is: 1, 2, 3 ...
  p_event_id uuid[],
  p_event_type text[],
  p_timestamp text[],
  p_source text[],
  p_causation_id uuid[],
  p_schema_version bigint[],
  p_attributes text[],
  p_payload bytea[],
  p_payload_bytes integer[],
  p_salt bytea[],
  p_commitment bytea[],
  p_header bytea[],       -- 0x00 and the canonical header in front of recorded_at
  p_trailer bytea[],      -- and behind it
  OUT outcome text,       -- 'stored', 'known' or 'behind'
  OUT size bigint,        -- the head before this commit
  OUT recorded_at text,
  OUT sequences bigint[], -- the last sequence of each of p_correlations before this commit
  OUT leaves bytea        -- 32 bytes for each event
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_writing text := set_config('chatsnapshot.writing', 'on', true); -- what the triggers ask for
  v_count integer := cardinality(p_event_id);
  v_frontier bytea;
  v_last text;
  v_payload_end bigint;
  v_sequence bigint;
  v_stamp bytea;
  v_rest bigint;
  v_node bytea;
BEGIN
  IF NOT pg_try_advisory_xact_lock(1129532465, p_ledger) THEN
    PERFORM chatsnapshot.lock(p_ledger);
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT h.size, h.frontier, h.recorded_at, h.payload_end, (
      SELECT e.sequence FROM chatsnapshot.entry AS e
      WHERE e.ledger = p_ledger AND e.correlation_id = p_correlations[1] ORDER BY e.sequence DESC LIMIT 1)
    INTO STRICT size, v_frontier, v_last, v_payload_end, v_sequence
    FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  IF cardinality(p_check) > 0 THEN
    PERFORM FROM chatsnapshot.entry AS e WHERE e.ledger = p_ledger AND e.event_id = ANY (p_check) LIMIT 1;
    IF FOUND THEN
      outcome := 'known';
      RETURN;
    END IF;
  END IF;
  recorded_at := p_clock;
  IF p_clock COLLATE "C" < v_last THEN
    IF NOT p_noted AND v_last::timestamptz - p_clock::timestamptz > interval '5 seconds' THEN
      outcome := 'behind';
      RETURN;
    END IF;
    recorded_at := v_last;
  END IF;
  v_stamp := convert_to(recorded_at, 'UTF8');
  IF size + v_count > v_payload_end THEN
    v_payload_end := chatsnapshot.open_payloads(p_ledger, size + v_count);
  END IF;

  IF v_count = 1 AND size % 256 <> 255 THEN
    -- The most common commit: one event, whose leaf fills no tile. Step by step, for that costs least.
    sequences := ARRAY[coalesce(v_sequence, 0)];
    leaves := sha256(p_header[1] || v_stamp || p_trailer[1]);
    v_node := leaves;
    v_rest := size;
    WHILE v_rest % 2 = 1 LOOP
      v_node := sha256('\x01'::bytea || substring(v_frontier FROM octet_length(v_frontier) - 31) || v_node);
      v_frontier := substring(v_frontier FROM 1 FOR octet_length(v_frontier) - 32);
      v_rest := v_rest / 2;
    END LOOP;
    v_frontier := v_frontier || v_node;
    INSERT INTO chatsnapshot.entry (
      ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
      schema_version, attributes, leaf, commitment, payload_bytes)
    VALUES (
      p_ledger, size + 1, sequences[1] + 1, recorded_at, p_event_id[1], p_event_type[1], p_timestamp[1], p_source[1],
      p_correlations[1], p_causation_id[1], p_schema_version[1], p_attributes[1], leaves, p_commitment[1],
      p_payload_bytes[1]);
    INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
      VALUES (p_ledger, size + 1, p_salt[1], p_payload[1]);
  ELSE
    sequences := ARRAY(
      SELECT coalesce((
        SELECT max(e.sequence) FROM chatsnapshot.entry AS e
        WHERE e.ledger = p_ledger AND e.correlation_id = p_correlations[i]), 0)
      FROM generate_series(1, cardinality(p_correlations)) AS i ORDER BY i);
    SELECT string_agg(sha256(p_header[i] || v_stamp || p_trailer[i]), '' ORDER BY i) INTO leaves
      FROM generate_series(1, v_count) AS i;
    v_frontier := chatsnapshot.grow(p_ledger, size, v_frontier, leaves);
    -- By number, not by unnest(): the arrays are taken apart once, and no rows are kept on the way.
    INSERT INTO chatsnapshot.entry (
      ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
      schema_version, attributes, leaf, commitment, payload_bytes)
    SELECT
      p_ledger, size + i, sequences[p_which[i]] + p_nth[i], recorded_at, p_event_id[i], p_event_type[i], p_timestamp[i],
      p_source[i], p_correlations[p_which[i]], p_causation_id[i], p_schema_version[i], p_attributes[i],
      substring(leaves FROM 32 * i - 31 FOR 32), p_commitment[i], p_payload_bytes[i]
    FROM generate_series(1, v_count) AS i;
    INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
      SELECT p_ledger, size + i, p_salt[i], p_payload[i] FROM generate_series(1, v_count) AS i;
  END IF;
  UPDATE chatsnapshot.head AS h
    SET size = append.size + v_count, frontier = v_frontier, recorded_at = append.recorded_at, payload_end = v_payload_end
    WHERE h.ledger = p_ledger;
  PERFORM pg_notify('chatsnapshot_' || p_ledger, '');
  outcome := 'stored';
END
$$;

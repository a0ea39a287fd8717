-- Appends events in one call: one lock, one commit, positions and sequences without a hole.
-- Writes nothing and says so when an id of p_check is in the ledger already ('known'), or when the clock is
-- more than 5 s behind the last entry and that is not recorded yet ('behind'): the client then decides under the lock.

CREATE FUNCTION chatsnapshot.append(
  p_ledger integer,
  p_clock text,           -- the ledger's clock, YYYY-MM-DDTHH:MM:SS.ffffffZ
  p_noted boolean,        -- whether the ledger says already that the clock is behind
  p_check uuid[],         -- ids that may be known (those just made cannot be); NULL for none
  p_correlations text[],  -- the different correlations of the batch
  p_which integer[],      -- for each event the number of its correlation in p_correlations; NULL: there is one only
  p_nth integer[],        -- and which of the events of that correlation it is: 1, 2, 3 ...; NULL: in their order
  p_event_id uuid[],
  p_event_type text[],    -- from here on an array of one stands for all events, and NULL for arrays of NULL
  p_timestamp text[],
  p_source text[],
  p_causation_id uuid[],
  p_schema_version bigint[],
  p_attributes text[],
  p_payload bytea[],      -- one for each event, as the ids
  p_salts bytea,          -- 16 bytes for each event
  p_commitments bytea,    -- 32 bytes for each event
  p_header bytea[],       -- 0x00 and the canonical header in front of recorded_at
  p_trailer bytea[]       -- and behind it
) RETURNS bytea
-- 'known', 'behind', or what was stored: the head before (8 bytes), recorded_at (27), for each of p_correlations its last
-- sequence before (8 each), for each event its leaf (32 each). One value, because a row of several costs more.
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_writing text := set_config('chatsnapshot.writing', 'on', true); -- what the triggers ask for
  v_count integer := cardinality(p_event_id);
  v_size bigint;
  v_recorded_at text := p_clock;
  v_sequences bigint[];
  v_leaves bytea;
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
    INTO STRICT v_size, v_frontier, v_last, v_payload_end, v_sequence
    FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  IF cardinality(p_check) > 0 THEN
    PERFORM FROM chatsnapshot.entry AS e WHERE e.ledger = p_ledger AND e.event_id = ANY (p_check) LIMIT 1;
    IF FOUND THEN
      RETURN 'known'::bytea;
    END IF;
  END IF;
  IF p_clock COLLATE "C" < v_last THEN
    IF NOT p_noted AND v_last::timestamptz - p_clock::timestamptz > interval '5 seconds' THEN
      RETURN 'behind'::bytea;
    END IF;
    v_recorded_at := v_last;
  END IF;
  v_stamp := convert_to(v_recorded_at, 'UTF8');
  IF v_size + v_count > v_payload_end THEN
    v_payload_end := chatsnapshot.open_payloads(p_ledger, v_size + v_count);
  END IF;

  IF v_count = 1 AND v_size % 256 <> 255 THEN
    -- The most common commit: one event, whose leaf fills no tile. Step by step, for that costs least.
    v_sequences := ARRAY[coalesce(v_sequence, 0)];
    v_leaves := sha256(p_header[1] || v_stamp || p_trailer[1]);
    v_node := v_leaves;
    v_rest := v_size;
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
      p_ledger, v_size + 1, v_sequences[1] + 1, v_recorded_at, p_event_id[1], p_event_type[1], p_timestamp[1],
      p_source[1], p_correlations[1], p_causation_id[1], p_schema_version[1], p_attributes[1], v_leaves, p_commitments,
      octet_length(p_payload[1]));
    INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
      VALUES (p_ledger, v_size + 1, p_salts, p_payload[1]);
  ELSE
    IF cardinality(p_correlations) = 1 THEN
      v_sequences := ARRAY[coalesce(v_sequence, 0)];
    ELSE
      -- Not max(): the server may take it for cheap to look at every event of a correlation.
      v_sequences := ARRAY(
        SELECT coalesce((
          SELECT e.sequence FROM chatsnapshot.entry AS e
          WHERE e.ledger = p_ledger AND e.correlation_id = p_correlations[i] ORDER BY e.sequence DESC LIMIT 1), 0)
        FROM generate_series(1, cardinality(p_correlations)) AS i ORDER BY i);
    END IF;
    SELECT string_agg(sha256(p_header[i] || v_stamp || p_trailer[least(i, cardinality(p_trailer))]), '' ORDER BY i)
      INTO v_leaves FROM generate_series(1, v_count) AS i;
    v_frontier := chatsnapshot.grow(p_ledger, v_size, v_frontier, v_leaves);
    -- By number, not by unnest(): the arrays are taken apart once, and no rows are kept on the way.
    INSERT INTO chatsnapshot.entry (
      ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
      schema_version, attributes, leaf, commitment, payload_bytes)
    SELECT
      p_ledger, v_size + i, v_sequences[coalesce(p_which[i], 1)] + coalesce(p_nth[i], i), v_recorded_at, p_event_id[i],
      p_event_type[least(i, cardinality(p_event_type))], p_timestamp[least(i, cardinality(p_timestamp))],
      p_source[least(i, cardinality(p_source))], p_correlations[coalesce(p_which[i], 1)],
      p_causation_id[least(i, cardinality(p_causation_id))], p_schema_version[least(i, cardinality(p_schema_version))],
      p_attributes[least(i, cardinality(p_attributes))], substring(v_leaves FROM 32 * i - 31 FOR 32),
      substring(p_commitments FROM 32 * i - 31 FOR 32), octet_length(p_payload[i])
    FROM generate_series(1, v_count) AS i;
    INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
      SELECT
        p_ledger, v_size + i, substring(p_salts FROM 16 * i - 15 FOR 16), p_payload[i]
      FROM generate_series(1, v_count) AS i;
  END IF;
  UPDATE chatsnapshot.head AS h
    SET size = v_size + v_count, frontier = v_frontier, recorded_at = v_recorded_at, payload_end = v_payload_end
    WHERE h.ledger = p_ledger;
  PERFORM pg_notify('chatsnapshot_' || p_ledger, '');
  RETURN int8send(v_size) || v_stamp || (
    SELECT string_agg(int8send(one), '' ORDER BY nth) FROM unnest(v_sequences) WITH ORDINALITY AS s (one, nth)) || v_leaves;
END
$$;

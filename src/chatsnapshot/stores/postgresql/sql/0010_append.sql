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
  p_header bytea[],       -- the canonical header in front of recorded_at
  p_trailer bytea[],      -- and behind it
  OUT outcome text,       -- 'stored', 'known' or 'behind'
  OUT size bigint,        -- the head before this commit
  OUT recorded_at text,
  OUT sequences bigint[], -- the last sequence of each of p_correlations before this commit
  OUT leaves bytea[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET chatsnapshot.writing = 'on' AS $$
DECLARE
  v_count integer := cardinality(p_event_id);
  v_frontier bytea;
  v_last text;
  v_payload_end bigint;
  v_rest bigint;
  v_node bytea;
BEGIN
  PERFORM chatsnapshot.lock(p_ledger);
  SELECT h.size, h.frontier, h.recorded_at, h.payload_end
    INTO STRICT size, v_frontier, v_last, v_payload_end
    FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  IF cardinality(p_check) > 0 AND EXISTS (
    SELECT FROM chatsnapshot.entry AS e WHERE e.ledger = p_ledger AND e.event_id = ANY (p_check)
  ) THEN
    outcome := 'known';
    RETURN;
  END IF;
  recorded_at := p_clock;
  IF p_clock COLLATE "C" < v_last THEN
    IF NOT p_noted AND v_last::timestamptz - p_clock::timestamptz > interval '5 seconds' THEN
      outcome := 'behind';
      RETURN;
    END IF;
    recorded_at := v_last;
  END IF;
  IF size + v_count > v_payload_end THEN
    v_payload_end := chatsnapshot.open_payloads(p_ledger, size + v_count);
  END IF;

  sequences := ARRAY(
    SELECT coalesce((
      SELECT e.sequence FROM chatsnapshot.entry AS e
      WHERE e.ledger = p_ledger AND e.correlation_id = c.id ORDER BY e.sequence DESC LIMIT 1), 0)
    FROM unnest(p_correlations) WITH ORDINALITY AS c(id, nth) ORDER BY c.nth);
  leaves := ARRAY(
    SELECT sha256('\x00'::bytea || h.header || convert_to(recorded_at, 'UTF8') || h.trailer)
    FROM unnest(p_header, p_trailer) WITH ORDINALITY AS h(header, trailer, nth) ORDER BY h.nth);
  IF v_count = 1 AND (size + 1) % 256 <> 0 THEN
    -- One leaf that fills no tile: combine it with the perfect subtrees that it completes.
    v_node := leaves[1];
    v_rest := size;
    WHILE v_rest % 2 = 1 LOOP
      v_node := sha256('\x01'::bytea || substring(v_frontier FROM octet_length(v_frontier) - 31) || v_node);
      v_frontier := substring(v_frontier FROM 1 FOR octet_length(v_frontier) - 32);
      v_rest := v_rest / 2;
    END LOOP;
    v_frontier := v_frontier || v_node;
  ELSE
    SELECT chatsnapshot.grow(p_ledger, size, v_frontier, string_agg(l.leaf, '' ORDER BY l.nth)) INTO v_frontier
      FROM unnest(leaves) WITH ORDINALITY AS l(leaf, nth);
  END IF;

  INSERT INTO chatsnapshot.entry (
    ledger, position, sequence, recorded_at, event_id, event_type, "timestamp", source, correlation_id, causation_id,
    schema_version, attributes, leaf, commitment, payload_bytes)
  SELECT
    p_ledger, size + e.nth, sequences[e.which] + e.place, recorded_at, e.event_id, e.event_type, e."timestamp", e.source,
    p_correlations[e.which], e.causation_id, e.schema_version, e.attributes, e.leaf, e.commitment, e.payload_bytes
  FROM unnest(
    p_which, p_nth, p_event_id, p_event_type, p_timestamp, p_source, p_causation_id, p_schema_version, p_attributes,
    leaves, p_commitment, p_payload_bytes
  ) WITH ORDINALITY AS e(
    which, place, event_id, event_type, "timestamp", source, causation_id, schema_version, attributes, leaf, commitment,
    payload_bytes, nth)
  ORDER BY e.nth;
  INSERT INTO chatsnapshot.payload (ledger, position, salt, payload)
    SELECT p_ledger, size + p.nth, p.salt, p.payload
    FROM unnest(p_salt, p_payload) WITH ORDINALITY AS p(salt, payload, nth) ORDER BY p.nth;
  UPDATE chatsnapshot.head AS h
    SET size = append.size + v_count, frontier = v_frontier, recorded_at = append.recorded_at, payload_end = v_payload_end
    WHERE h.ledger = p_ledger;
  PERFORM pg_notify('chatsnapshot_' || p_ledger, '');
  outcome := 'stored';
END
$$;

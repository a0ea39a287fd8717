-- Makes the partitions of payloads of one ledger up to a position; gives the last position that has a place.

CREATE FUNCTION chatsnapshot.open_payloads(p_ledger integer, p_position bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_width bigint;
  v_end bigint;
  v_name text;
BEGIN
  SELECT l.payload_positions INTO STRICT v_width FROM chatsnapshot.ledger AS l WHERE l.number = p_ledger;
  SELECT h.payload_end INTO STRICT v_end FROM chatsnapshot.head AS h WHERE h.ledger = p_ledger;
  WHILE v_end < p_position LOOP
    v_name := format('payload_%s_%s', p_ledger, v_end + 1);
    -- Attached, not created in place: that locks less, and others go on reading and writing.
    EXECUTE format('CREATE TABLE chatsnapshot.%I (LIKE chatsnapshot.payload INCLUDING ALL)', v_name);
    EXECUTE format(
      'ALTER TABLE chatsnapshot.payload ATTACH PARTITION chatsnapshot.%I FOR VALUES FROM (%s, %s) TO (%s, %s)',
      v_name, p_ledger, v_end + 1, p_ledger, v_end + 1 + v_width);
    PERFORM chatsnapshot.guard_payloads(v_name);
    v_end := v_end + v_width;
  END LOOP;
  RETURN v_end;
END
$$;

-- Removes payload and salt of some positions, and blobs that nobody names any more; gives the positions whose payloads
-- are archived: nothing is removed then. The client has stored the record of it in the same transaction.

CREATE FUNCTION chatsnapshot.erase(p_ledger integer, p_positions bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_writing text := set_config('chatsnapshot.writing', 'on', true); -- what the triggers ask for
  v_archived bigint[];
  v_digests bytea[];
BEGIN
  PERFORM chatsnapshot.lock(p_ledger);
  v_archived := ARRAY(
    SELECT w.position FROM unnest(p_positions) AS w(position)
    WHERE NOT EXISTS (
      SELECT FROM chatsnapshot.payload AS p WHERE p.ledger = p_ledger AND p.position = w.position)
    ORDER BY w.position);
  IF cardinality(v_archived) > 0 THEN
    RETURN v_archived;
  END IF;
  UPDATE chatsnapshot.payload AS p SET payload = NULL, salt = NULL
    WHERE p.ledger = p_ledger AND p.position = ANY (p_positions) AND p.payload IS NOT NULL;
  WITH gone AS (
    DELETE FROM chatsnapshot.blob_use AS u WHERE u.ledger = p_ledger AND u.position = ANY (p_positions)
    RETURNING u.digest)
  SELECT array_agg(DISTINCT g.digest) INTO v_digests FROM gone AS g;
  v_digests := ARRAY(
    SELECT d.digest FROM unnest(v_digests) AS d(digest)
    WHERE NOT EXISTS (SELECT FROM chatsnapshot.blob_use AS u WHERE u.ledger = p_ledger AND u.digest = d.digest));
  DELETE FROM chatsnapshot.blob_part AS b WHERE b.ledger = p_ledger AND b.digest = ANY (v_digests);
  DELETE FROM chatsnapshot.blob AS b WHERE b.ledger = p_ledger AND b.digest = ANY (v_digests);
  RETURN v_archived;
END
$$;

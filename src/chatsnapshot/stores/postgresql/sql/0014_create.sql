-- Makes a ledger of a name, unless it is there; gives its number. Of several at once, one makes it.

CREATE FUNCTION chatsnapshot.create_ledger(p_name text, p_ledger_id text, p_format integer, p_created_at text)
RETURNS integer LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_writing text := set_config('chatsnapshot.writing', 'on', true); -- what the triggers ask for
  v_number integer;
BEGIN
  PERFORM chatsnapshot.lock(0);
  SELECT l.number INTO v_number FROM chatsnapshot.ledger AS l WHERE l.name = p_name;
  IF v_number IS NULL THEN
    INSERT INTO chatsnapshot.ledger (name, ledger_id, format, created_at)
      VALUES (p_name, p_ledger_id, p_format, p_created_at) RETURNING number INTO v_number;
    INSERT INTO chatsnapshot.head (ledger, size, frontier, recorded_at, payload_end)
      VALUES (v_number, 0, '', '', 0);
  END IF;
  RETURN v_number;
END
$$;

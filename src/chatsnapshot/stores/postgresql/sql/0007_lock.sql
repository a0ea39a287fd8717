-- The lock of one ledger until the end of the transaction, and what a commit must be able to rely on.

CREATE FUNCTION chatsnapshot.lock(p_ledger integer) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- Who waits for a session that never ends is told so after a while, unless the role has a limit of its own.
  IF current_setting('lock_timeout') = '0' THEN
    PERFORM set_config('lock_timeout', '30s', true);
  END IF;
  -- Acknowledged means durable, whatever the server or a pooler has set for this session.
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  PERFORM pg_advisory_xact_lock(1129532465, p_ledger);
END
$$;

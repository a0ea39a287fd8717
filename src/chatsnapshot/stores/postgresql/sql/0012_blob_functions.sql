-- Stores parts of a blob, and says which entries name which blobs. The client holds the lock.

CREATE FUNCTION chatsnapshot.put_blob(p_ledger integer, p_digest bytea, p_bytes bigint, p_part integer, p_data bytea)
RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO chatsnapshot.blob (ledger, digest, bytes) VALUES (p_ledger, p_digest, p_bytes) ON CONFLICT DO NOTHING;
  INSERT INTO chatsnapshot.blob_part (ledger, digest, part, data) VALUES (p_ledger, p_digest, p_part, p_data)
    ON CONFLICT DO NOTHING;
$$;

CREATE FUNCTION chatsnapshot.use_blobs(p_ledger integer, p_digest bytea[], p_position bigint[])
RETURNS void LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO chatsnapshot.blob_use (ledger, digest, position)
    SELECT p_ledger, u.digest, u.position FROM unnest(p_digest, p_position) AS u(digest, position)
    ON CONFLICT DO NOTHING;
$$;

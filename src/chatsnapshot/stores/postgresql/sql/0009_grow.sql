-- Appends leaves (32 bytes each, one after another) to a tree; stores the tiles that become full; gives the frontier.
-- RFC 6962: node = SHA-256(0x01 || left || right). Height by height: of the nodes that were there before only the last
-- can be without a partner, and it stands in the frontier; of the new ones the same is true afterwards.

CREATE FUNCTION chatsnapshot.grow(p_ledger integer, p_size bigint, p_frontier bytea, p_leaves bytea) RETURNS bytea
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_nodes bytea := p_leaves;
  v_kept bytea := p_frontier;
  v_done bytea := '';
  v_before bigint := p_size;
  v_height integer := 0;
  v_count integer;
  v_width integer;
  v_open bytea;
  v_full integer;
  v_rest bigint;
BEGIN
  v_count := octet_length(p_leaves) / 32;
  IF v_count <= 32 AND p_size % 256 + v_count < 256 THEN
    -- A few leaves, and no tile becomes full: leaf by leaf, for a query at each height costs more.
    FOR v_leaf IN 0 .. v_count - 1 LOOP
      v_nodes := substring(p_leaves FROM 32 * v_leaf + 1 FOR 32);
      v_rest := p_size + v_leaf;
      WHILE v_rest % 2 = 1 LOOP
        v_nodes := sha256('\x01'::bytea || substring(v_kept FROM octet_length(v_kept) - 31) || v_nodes);
        v_kept := substring(v_kept FROM 1 FOR octet_length(v_kept) - 32);
        v_rest := v_rest / 2;
      END LOOP;
      v_kept := v_kept || v_nodes;
    END LOOP;
    RETURN v_kept;
  END IF;
  WHILE octet_length(v_nodes) > 0 LOOP
    v_count := octet_length(v_nodes) / 32;
    IF v_height % 8 = 0 THEN
      v_width := v_before % 256;
      IF v_height > 0 THEN
        SELECT e.hashes INTO v_open FROM chatsnapshot.edge AS e WHERE e.ledger = p_ledger AND e.level = v_height / 8;
        v_open := coalesce(v_open, '') || v_nodes;
      ELSIF v_width + v_count >= 256 THEN
        SELECT coalesce(string_agg(e.leaf, '' ORDER BY e.position), '') || v_nodes INTO v_open
        FROM chatsnapshot.entry AS e
        WHERE e.ledger = p_ledger AND e.position > p_size - v_width AND e.position <= p_size;
      ELSE
        v_open := NULL;
      END IF;
      IF v_open IS NOT NULL THEN
        IF octet_length(v_open) <> 32 * (v_width + v_count) THEN
          RAISE EXCEPTION 'the open tile of level % has % bytes, and % hashes belong into it',
            v_height / 8, octet_length(v_open), v_width + v_count USING ERRCODE = 'data_corrupted';
        END IF;
        v_full := octet_length(v_open) / 8192;
        INSERT INTO chatsnapshot.tile (ledger, level, number, hashes)
          SELECT p_ledger, v_height / 8, v_before / 256 + i, substring(v_open FROM 8192 * i + 1 FOR 8192)
          FROM generate_series(0, v_full - 1) AS i;
        IF v_height > 0 THEN
          INSERT INTO chatsnapshot.edge (ledger, level, hashes)
            VALUES (p_ledger, v_height / 8, substring(v_open FROM 8192 * v_full + 1))
            ON CONFLICT (ledger, level) DO UPDATE SET hashes = excluded.hashes;
        END IF;
      END IF;
    END IF;
    IF v_before % 2 = 1 THEN
      v_nodes := substring(v_kept FROM octet_length(v_kept) - 31) || v_nodes;
      v_kept := substring(v_kept FROM 1 FOR octet_length(v_kept) - 32);
      v_count := v_count + 1;
    END IF;
    IF v_count % 2 = 1 THEN
      v_done := substring(v_nodes FROM 32 * v_count - 31) || v_done;
    END IF;
    IF v_count = 1 THEN
      EXIT;
    ELSIF v_count < 4 THEN
      v_nodes := sha256('\x01'::bytea || substring(v_nodes FROM 1 FOR 64));
    ELSE
      SELECT string_agg(sha256('\x01'::bytea || substring(v_nodes FROM 64 * i + 1 FOR 64)), '' ORDER BY i) INTO v_nodes
      FROM generate_series(0, v_count / 2 - 1) AS i;
    END IF;
    v_before := v_before / 2;
    v_height := v_height + 1;
  END LOOP;
  RETURN v_kept || v_done;
END
$$;

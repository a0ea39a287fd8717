-- Rights of a role: 'read', 'write' (read and record) or 'erase' (write and erase). Nobody else may do anything.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA chatsnapshot FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA chatsnapshot FROM PUBLIC;

CREATE FUNCTION chatsnapshot.allow(p_role name, p_right text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text;
BEGIN
  IF p_right NOT IN ('read', 'write', 'erase') THEN
    RAISE EXCEPTION 'a right is read, write or erase, not %', p_right USING ERRCODE = 'invalid_parameter_value';
  END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA chatsnapshot TO %I', p_role);
  FOREACH v_name IN ARRAY ARRAY[
    'migration', 'ledger', 'head', 'entry', 'payload', 'tile', 'blob', 'blob_part', 'blob_use', 'projection',
    'projection_state'
  ] LOOP
    EXECUTE format('GRANT SELECT ON chatsnapshot.%I TO %I', v_name, p_role);
  END LOOP;
  IF p_right = 'read' THEN
    RETURN;
  END IF;
  EXECUTE format('GRANT INSERT, UPDATE, DELETE ON chatsnapshot.projection, chatsnapshot.projection_state TO %I', p_role);
  FOREACH v_name IN ARRAY ARRAY['append', 'import', 'put_blob', 'use_blobs', 'create_ledger', 'lock'] LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION chatsnapshot.%I TO %I', v_name, p_role);
  END LOOP;
  IF p_right = 'erase' THEN
    EXECUTE format('GRANT EXECUTE ON FUNCTION chatsnapshot.erase TO %I', p_role);
  END IF;
END
$$;
REVOKE ALL ON FUNCTION chatsnapshot.allow FROM PUBLIC;

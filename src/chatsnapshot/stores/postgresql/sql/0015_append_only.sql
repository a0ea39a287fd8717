-- Refuses every change of what was recorded, also to the owner; the one exception is the erasure of a payload.

CREATE FUNCTION chatsnapshot.refuse() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'append only: %', tg_argv[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

-- What only chatsnapshot.append and its like may do. Looked at in the body and not in WHEN: the server reads a WHEN anew for
-- every statement. No search_path of its own, for that costs as much as the rest: names are written out instead.
CREATE FUNCTION chatsnapshot.expect_writing() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_catalog.current_setting('chatsnapshot.writing', true) OPERATOR(pg_catalog.=) 'on' THEN
    RETURN NULL;
  END IF;
  RAISE EXCEPTION 'append only: %', tg_argv[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE FUNCTION chatsnapshot.expect_forward() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_catalog.current_setting('chatsnapshot.writing', true) OPERATOR(pg_catalog.=) 'on'
    AND new.ledger OPERATOR(pg_catalog.=) old.ledger AND new.size OPERATOR(pg_catalog.>=) old.size
    AND new.recorded_at OPERATOR(pg_catalog.>=) old.recorded_at
  THEN
    RETURN new;
  END IF;
  RAISE EXCEPTION 'append only: %', tg_argv[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER entry_append BEFORE INSERT ON chatsnapshot.entry FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.expect_writing('entries are added by chatsnapshot.append alone');
CREATE TRIGGER entry_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON chatsnapshot.entry FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.refuse('a recorded entry is never changed or removed');

CREATE TRIGGER head_made BEFORE INSERT ON chatsnapshot.head FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.expect_writing('there is one head for each ledger');
CREATE TRIGGER head_forward BEFORE UPDATE ON chatsnapshot.head FOR EACH ROW
  EXECUTE FUNCTION chatsnapshot.expect_forward('the head never goes back, and moves by chatsnapshot.append alone');
CREATE TRIGGER head_kept BEFORE DELETE OR TRUNCATE ON chatsnapshot.head FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.refuse('the head is never removed');

CREATE TRIGGER tile_made BEFORE INSERT ON chatsnapshot.tile FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.expect_writing('tiles are made by chatsnapshot.append alone');
CREATE TRIGGER tile_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON chatsnapshot.tile FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.refuse('a full tile is never changed or removed');

CREATE TRIGGER ledger_fixed BEFORE UPDATE ON chatsnapshot.ledger FOR EACH ROW
  WHEN (new.number <> old.number OR new.name <> old.name OR new.ledger_id <> old.ledger_id)
  EXECUTE FUNCTION chatsnapshot.refuse('a ledger keeps its number, name and id');
CREATE TRIGGER ledger_kept BEFORE DELETE OR TRUNCATE ON chatsnapshot.ledger FOR EACH STATEMENT
  EXECUTE FUNCTION chatsnapshot.refuse('a ledger is never removed');

-- Row triggers of a partitioned table hold for every partition, also for one that is attached later.
CREATE TRIGGER payload_erase BEFORE UPDATE ON chatsnapshot.payload FOR EACH ROW
  WHEN (new.payload IS NOT NULL OR new.salt IS NOT NULL OR new.ledger <> old.ledger OR new.position <> old.position)
  EXECUTE FUNCTION chatsnapshot.refuse('a payload can be erased, never replaced');
CREATE TRIGGER payload_kept BEFORE DELETE ON chatsnapshot.payload FOR EACH ROW
  EXECUTE FUNCTION chatsnapshot.refuse('a payload is erased by chatsnapshot.erase, its row is never removed');

-- Statement triggers do not: each table gets its own.
CREATE FUNCTION chatsnapshot.guard_payloads(p_table text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format(
    'CREATE TRIGGER payload_append BEFORE INSERT ON chatsnapshot.%I FOR EACH STATEMENT '
    'EXECUTE FUNCTION chatsnapshot.expect_writing(''payloads are added by chatsnapshot.append alone'')', p_table);
  EXECUTE format(
    'CREATE TRIGGER payload_emptied BEFORE TRUNCATE ON chatsnapshot.%I FOR EACH STATEMENT '
    'EXECUTE FUNCTION chatsnapshot.refuse(''payloads are never removed together'')', p_table);
END
$$;
SELECT chatsnapshot.guard_payloads('payload');

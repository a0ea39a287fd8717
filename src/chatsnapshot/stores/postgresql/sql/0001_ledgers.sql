-- The schema, the record of what was applied to it, and the ledgers with their heads.

-- Asked first: IF NOT EXISTS wants the right to create even where the schema is there.
DO $$
BEGIN
  IF to_regnamespace('chatsnapshot') IS NULL THEN
    CREATE SCHEMA chatsnapshot;
  END IF;
END
$$;

CREATE TABLE chatsnapshot.migration (
  number integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE chatsnapshot.ledger (
  number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  ledger_id text COLLATE "C" NOT NULL UNIQUE,
  format integer NOT NULL,
  created_at text COLLATE "C" NOT NULL,
  payload_positions bigint NOT NULL DEFAULT 1000000 CHECK (payload_positions > 0)
);
COMMENT ON COLUMN chatsnapshot.ledger.payload_positions IS 'positions that one partition of payloads holds';

CREATE TABLE chatsnapshot.head (
  ledger integer PRIMARY KEY REFERENCES chatsnapshot.ledger,
  size bigint NOT NULL,
  frontier bytea NOT NULL,
  recorded_at text COLLATE "C" NOT NULL,
  payload_end bigint NOT NULL
) WITH (fillfactor = 20);
COMMENT ON COLUMN chatsnapshot.head.payload_end IS 'last position of the newest partition of payloads';
